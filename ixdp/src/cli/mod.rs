//! The command line.

mod args;
mod bench;
mod contents;
mod cpu_list;
mod emu;
mod failure;
mod fields;
mod files;
mod interrupt;
mod load;
mod maps_file;
mod object;
mod output;
mod run;
mod show;
mod summary;
mod test;
mod threads;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use args::{Bench, Cli, Command, Emu, Prog};
use failure::Failure;

/// Does what the command line asks for.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = match cli.verbose {
        0 => log::LevelFilter::Warn,
        1 => log::LevelFilter::Info,
        2 => log::LevelFilter::Debug,
        _ => log::LevelFilter::Trace,
    };
    env_logger::Builder::new()
        .filter_level(level)
        .format_timestamp_millis()
        .init();
    let result: Result<(), Failure> = match &cli.command {
        Command::Bench(Bench::Drop(args)) => bench::drop(args),
        Command::Emu(Emu::Serve(args)) => emu::serve(args),
        Command::Prog(Prog::Show(args)) => show::show(args),
        Command::Run(args) => run::run(args),
        Command::Test(args) => test::test(args),
        Command::Verify(args) => verify::verify(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
