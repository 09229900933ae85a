//! Counting instructions: this program runs itself once more under valgrind's callgrind, which
//! collects only inside [`measured`](crate::measured).

use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

/// What one case cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instructions {
    pub(crate) total: u64,
    pub(crate) packets: u64,
}

impl Instructions {
    pub(crate) fn per_packet(self) -> f64 {
        self.total as f64 / self.packets.max(1) as f64
    }
}

/// Why there is no count.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("callgrind is not installed: on Debian and Ubuntu `apt install valgrind` brings it")]
    Missing,
    #[error("callgrind could not be run: {0}")]
    Run(#[from] io::Error),
    #[error("callgrind failed on `{case}`: {output}")]
    Failed { case: String, output: String },
    #[error("callgrind's output for `{0}` has no total")]
    NoTotal(String),
}

/// Runs `case` under callgrind, in a process of its own.
pub(crate) fn count(case: &str, scratch: &Path) -> Result<Instructions, Error> {
    let file = scratch.join(format!("{}.callgrind", case.replace([' ', ','], "-")));
    let mut command = Command::new("valgrind");
    command
        .arg("--tool=callgrind")
        .arg("--collect-atstart=no")
        .arg("--toggle-collect=*ring*measured*")
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(env::current_exe()?)
        .args(["--case", case]);
    let output = match command.output() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(Error::Missing),
        other => other?,
    };
    let stdout = String::from_utf8_lossy(&output.stdout);
    let packets = stdout
        .lines()
        .find_map(|l| l.strip_prefix("packets ")?.parse().ok());
    let (true, Some(packets)) = (output.status.success(), packets) else {
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Failed {
            case: case.to_owned(),
            output,
        });
    };
    let profile = fs::read_to_string(&file)?;
    let total = profile
        .lines()
        .find_map(|l| l.strip_prefix("totals: ")?.trim().parse().ok());
    match total {
        Some(total) if total > 0 => Ok(Instructions { total, packets }),
        _ => Err(Error::NoTotal(case.to_owned())),
    }
}
