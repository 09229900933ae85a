//! The socket, and one client after another.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::function::{self, Function};
use crate::Monitor;
use crate::nic::Shared;

/// Why a NIC cannot be served, or a client's visit ended early.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ServeError {
    #[error("{path}: another server listens here; stop it, or choose another path")]
    InUse { path: PathBuf },
    #[error("{path} exists and is not a socket; remove it, or choose another path")]
    NotASocket { path: PathBuf },
    #[error("cannot listen on {path}: {source}")]
    Listen {
        path: PathBuf,
        source: vfio_user::Error,
    },
    #[error("cannot use {path}: {source}")]
    Path { path: PathBuf, source: io::Error },
    #[error("the client on {path} was dropped: {source}")]
    Client {
        path: PathBuf,
        source: vfio_user::Error,
    },
    #[error("the client on {path} was dropped: its message does not follow the protocol")]
    Malformed { path: PathBuf },
}

/// A NIC behind a socket. Dropping it removes the socket.
pub struct Server {
    server: vfio_user::Server,
    shared: Arc<Shared>,
    path: PathBuf,
}

impl Server {
    /// Listens on `path` for clients of `nic`, which runs on a thread
    /// ([`Nic::spawn`](crate::Nic::spawn)). A socket that a server left behind there is replaced.
    pub fn bind(path: &Path, nic: &Monitor) -> Result<Self, ServeError> {
        remove_stale(path)?;
        let (irqs, regions) = (function::interrupts(), function::regions());
        let server = vfio_user::Server::new(path, true, irqs, regions);
        let server = server.map_err(|source| ServeError::Listen {
            path: path.to_owned(),
            source,
        })?;
        Ok(Server {
            server,
            shared: nic.shared().clone(),
            path: path.to_owned(),
        })
    }

    /// Waits for a client and serves it until it goes. The NIC is then as after power-on, so that the
    /// next client can be served.
    pub fn serve_client(&self) -> Result<(), ServeError> {
        // The library panics on some messages that are too short. Each client so gets a thread, with which
        // everything of this client ends.
        let outcome = std::thread::scope(|scope| {
            let client = std::thread::Builder::new().name("vfio-user".into());
            let client = client.spawn_scoped(scope, || {
                let mut function = Function::new(&self.shared);
                self.server.run(&mut function)
            });
            client.map(|thread| thread.join())
        });
        let path = || self.path.clone();
        match outcome {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(source))) => Err(ServeError::Client {
                path: path(),
                source,
            }),
            Ok(Err(_panic)) => Err(ServeError::Malformed { path: path() }),
            Err(source) => Err(ServeError::Path {
                path: path(),
                source,
            }),
        }
    }
}

/// Removes a socket on which nobody listens any more.
fn remove_stale(path: &Path) -> Result<(), ServeError> {
    let fail = |source| ServeError::Path {
        path: path.to_owned(),
        source,
    };
    let kind = match path.symlink_metadata() {
        Ok(metadata) => metadata.file_type(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(fail(e)),
    };
    if !kind.is_socket() {
        return Err(ServeError::NotASocket {
            path: path.to_owned(),
        });
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ServeError::InUse {
            path: path.to_owned(),
        }),
        Err(_) => std::fs::remove_file(path).map_err(fail),
    }
}
