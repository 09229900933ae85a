//! How a command fails: what is printed, and with which exit code the process ends.

use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cli::output::complain;

/// Why a command did not do what it should.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line asks for what cannot be; the hint says what can.
    Usage { message: String, hint: String },
    /// The job failed.
    Job(Box<dyn Error + Send + Sync>),
    /// The job failed, and what was printed says so.
    Told,
}

/// A file that could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub(crate) struct FileError {
    pub(crate) action: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) source: Box<dyn Error + Send + Sync>,
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Job(Box::new(error))
    }
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure::Usage {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// The failure, as one of using a file.
    pub(crate) fn of_file(self, action: &'static str, path: &Path) -> Self {
        match self {
            Failure::Job(error) => file::<Box<dyn Error + Send + Sync>>(action, path)(error).into(),
            other => other,
        }
    }

    /// Prints the failure to stderr, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Failure::Usage { message, hint } => {
                complain(&format!(
                    "error: {message}\n\n  hint: {hint}\n\nFor more, try '--help'."
                ));
                ExitCode::from(2)
            }
            Failure::Job(error) => {
                complain(&format!("error: {}", chain(error.as_ref())));
                ExitCode::FAILURE
            }
            Failure::Told => ExitCode::FAILURE,
        }
    }
}

/// For `map_err`: names the file and what was to be done with it.
pub(crate) fn file<E>(action: &'static str, path: &Path) -> impl Fn(E) -> FileError
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let path = path.to_owned();
    move |source| FileError {
        action,
        path: path.clone(),
        source: source.into(),
    }
}

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    std::fs::read(path).map_err(file::<io::Error>("read", path))
}

/// An error and its sources, a line each; a source that the line above already tells is left out.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut last = text.clone();
    let mut source = error.source();
    while let Some(error) = source {
        let line = error.to_string();
        if !last.contains(&line) {
            let _ = write!(text, "\n  cause: {line}");
        }
        last = line;
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_once() {
        let inner = io::Error::new(io::ErrorKind::NotFound, "it is not there");
        let error = file::<io::Error>("read", Path::new("a.o"))(inner);
        assert_eq!(chain(&error), "cannot read a.o\n  cause: it is not there");

        #[derive(Debug, thiserror::Error)]
        #[error("outer: {0}")]
        struct Outer(#[source] FileError);
        let inner = io::Error::new(io::ErrorKind::NotFound, "gone");
        let outer = Outer(file::<io::Error>("read", Path::new("a.o"))(inner));
        assert_eq!(chain(&outer), "outer: cannot read a.o\n  cause: gone");
    }
}
