//! The `ixdp` command: XDP in userspace on Intel NICs.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
