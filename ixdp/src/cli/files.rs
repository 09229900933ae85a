//! Files that are written whole or not at all.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use emulated_nic::wires::CaptureFormat;
use tempfile::NamedTempFile;

use crate::cli::args::Run;
use crate::cli::failure::{Failure, FileError, file};

/// A file on its way: written beside its target and moved there at the end. What is no regular file
/// (`/dev/null`, a pipe) is written as it is.
#[derive(Debug)]
pub(crate) struct OutFile {
    path: PathBuf,
    temporary: Option<(NamedTempFile, PathBuf)>,
}

impl OutFile {
    pub(crate) fn create(path: &Path) -> Result<Self, FileError> {
        let fail = file::<io::Error>("write", path);
        let temporary = match fs::metadata(path) {
            Ok(there) if !there.is_file() => None,
            // Behind a link it is the file that is replaced, not the link.
            _ => Some(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())),
        };
        let temporary = temporary.map(|target| {
            let directory = match target.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            let temporary = tempfile::Builder::new()
                .prefix(".ixdp-")
                // Less what the umask takes away, as for any new file.
                .permissions(fs::Permissions::from_mode(0o666))
                .tempfile_in(directory)
                .map_err(|e| no_file_in(directory, &e))?;
            Ok((temporary, target))
        });
        Ok(OutFile {
            path: path.to_owned(),
            temporary: temporary.transpose().map_err(fail)?,
        })
    }

    /// The file to write to.
    pub(crate) fn file(&mut self) -> Result<File, FileError> {
        let opened = match &self.temporary {
            Some((temporary, _)) => temporary.reopen(),
            None => File::options().write(true).open(&self.path),
        };
        opened.map_err(file("write", &self.path))
    }

    /// Where it is written until it is whole.
    pub(crate) fn place(&self) -> &Path {
        match &self.temporary {
            Some((temporary, _)) => temporary.path(),
            None => &self.path,
        }
    }

    /// As the user named it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves what was written to its place.
    pub(crate) fn commit(self) -> Result<(), FileError> {
        let Some((temporary, target)) = self.temporary else {
            return Ok(());
        };
        let moved = temporary.persist(target).map_err(|e| e.error);
        moved.map(drop).map_err(file("write", &self.path))
    }
}

/// Why a folder takes no file, without the name of the temporary one, which nobody has asked for.
fn no_file_in(directory: &Path, error: &io::Error) -> io::Error {
    let directory = directory.display();
    let cause = match error.kind() {
        io::ErrorKind::NotFound => format!("there is no folder {directory}; make it first"),
        kind => format!("no file can be made in the folder {directory}: {kind}"),
    };
    io::Error::new(error.kind(), cause)
}

/// The format that the extension of a capture to be written chooses.
pub(crate) fn capture_format(path: &Path) -> Result<CaptureFormat, Failure> {
    let extension = path.extension().and_then(|e| e.to_str());
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("pcap") => Ok(CaptureFormat::Pcap),
        Some("pcapng") => Ok(CaptureFormat::PcapNg),
        _ => Err(Failure::usage(
            format!("{} is neither .pcap nor .pcapng", path.display()),
            "the extension chooses the format: end the name in .pcap or .pcapng",
        )),
    }
}

/// Refuses a run that would write a file twice, write what it reads, or write a capture of no format.
pub(crate) fn check_paths(args: &Run) -> Result<(), Failure> {
    let files = &args.files;
    for path in [&files.out, &files.tx_out].into_iter().flatten() {
        capture_format(path)?;
    }
    if files.dump_maps.as_deref() == Some(Path::new("-")) {
        return Err(Failure::usage(
            "--dump-maps writes a file, and `-` names none",
            "name a file, or /dev/stdout to see the maps among the figures",
        ));
    }
    let read = [Some(&args.object), args.maps.as_ref(), files.input.as_ref()];
    let read: Vec<PathBuf> = read.into_iter().flatten().map(|p| identity(p)).collect();
    let stdout = Path::new("-");
    let verdicts = files.verdicts.as_ref().filter(|v| *v != stdout);
    let written = [
        ("--out", files.out.as_ref()),
        ("--tx-out", files.tx_out.as_ref()),
        ("--verdicts", verdicts),
        ("--dump-maps", files.dump_maps.as_ref()),
    ];
    let mut seen: Vec<PathBuf> = Vec::new();
    for (option, path) in written {
        let Some(path) = path.filter(|p| !is_special(p)) else {
            continue;
        };
        let identity = identity(path);
        if read.contains(&identity) {
            return Err(Failure::usage(
                format!(
                    "{option} {} would overwrite a file that is read",
                    path.display()
                ),
                "name another file",
            ));
        }
        if seen.contains(&identity) {
            return Err(Failure::usage(
                format!(
                    "{option} {} is written by another option too",
                    path.display()
                ),
                "name a file of its own for each output",
            ));
        }
        seen.push(identity);
    }
    Ok(())
}

/// True for what can take several writers and is not replaced, as `/dev/null`.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file())
}

/// One name for a file, however its path is written, also where it is not there yet.
fn identity(path: &Path) -> PathBuf {
    if let Ok(whole) = fs::canonicalize(path) {
        return whole;
    }
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let parent = fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned());
    parent.join(path.file_name().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_there_only_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let link = dir.path().join("link");
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let count = || fs::read_dir(dir.path()).unwrap().count();

        let mut given_up = OutFile::create(&link).unwrap();
        given_up.file().unwrap().write_all(b"half").unwrap();
        assert_eq!((fs::read(&path).unwrap(), count()), (b"old".to_vec(), 3));
        drop(given_up);
        assert_eq!(count(), 2);

        let mut kept = OutFile::create(&link).unwrap();
        kept.file().unwrap().write_all(b"new").unwrap();
        kept.commit().unwrap();
        assert_eq!((fs::read(&path).unwrap(), count()), (b"new".to_vec(), 2));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let error = OutFile::create(&dir.path().join("none/out")).unwrap_err();
        let cause = error.source.to_string();
        assert!(
            cause.contains("there is no folder") && cause.contains("none;"),
            "{cause}"
        );

        let mut null = OutFile::create(Path::new("/dev/null")).unwrap();
        null.file().unwrap().write_all(b"gone").unwrap();
        null.commit().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
