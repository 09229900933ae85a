//! Ctrl-C, SIGTERM and SIGHUP: end the run, with its summary.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::cli::failure::Failure;

/// Hears signals that ask the process to end.
pub(crate) struct Interrupt(Receiver<()>);

impl Interrupt {
    /// From now on such a signal no longer kills the process. Once a process.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let (heard, ear) = mpsc::channel();
        ctrlc::set_handler(move || {
            let _ = heard.send(());
        })?;
        Ok(Interrupt(ear))
    }

    /// Waits for a signal, at most `limit`. True where there was one.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        match self.0.recv_timeout(limit) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(limit);
                false
            }
        }
    }
}
