//! The only process that holds a clear private key or can read the root key.
//!
//! ```text
//! front ==frames over an inherited socket==> ipc.rs --> service.rs
//!     open the sealed key (seal.rs, cache.rs, floor.rs) --> usage.rs, clock.rs: may it sign this, now?
//!     --> crypto: compose, finish the hash --> backend.rs: key operation --> public.rs: verify it --> answer
//! ```
//!
//! What it refuses: to open a network socket, to know users, databases or file formats, to sign an opaque digest,
//! to sign with a key older than it has seen, to release a signature that does not verify, to serve on a machine
//! where an algorithm does not work (`self_test.rs`), and to use a root key that others can read.
//!
//! rPGP parses and unlocks imported keys and writes certificates; it never signs here: all private-key operations
//! are aws-lc-rs's (`backend.rs`).
//!
//! Reading order: [`run`], `process.rs`, `confine.rs`, `ipc.rs`, `service.rs`, `seal.rs`, `backend.rs`. `docs/WIRE.md` has the bytes.

mod backend;
mod cache;
mod certify;
mod clock;
mod confine;
mod count;
mod create;
mod error;
mod files;
mod floor;
mod import;
mod ipc;
mod memory;
mod opened;
mod packets;
mod process;
mod public;
mod renew;
mod root;
mod seal;
mod secret;
mod self_test;
mod service;
mod usage;

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use clock::{Clock, SystemClock};
pub use confine::{Landlock, confine};
pub use error::Error;

/// What a signer needs to start.
#[derive(Debug)]
pub struct Config {
    /// Directory of root key, data key and generation floors; only the signer's user may read it.
    pub root: PathBuf,
    /// Makes directory, root key and data key if none of them is there.
    pub create: bool,
    /// One end of a Unix socket pair; front holds the other.
    pub socket: UnixStream,
}

/// The walls of the process.
#[derive(Clone, Debug)]
pub struct Walls {
    /// On a kernel without Landlock: go on, or not.
    pub landlock: Landlock,
    /// User ids that may hold the other end of the socket, beside this process's own and root.
    pub peers: Vec<u32>,
}

/// Hardens this process, tests every algorithm, opens the root key, shuts itself in ([`confine`]), and serves
/// `config.socket` until front closes it. Requests in hand are answered before it returns. For a process of its own:
/// the walls stay.
///
/// # Errors
/// Every variant of [`Error`]. What fails before serving is also told to front, as the first message; only a
/// stranger is told nothing.
pub fn run(config: Config, walls: &Walls) -> Result<(), Error> {
    let Config { root, create, socket } = config;
    let workers = ipc::workers();
    process::check_peer(&socket, &walls.peers)?;
    let service = process::harden()
        .and_then(|()| open(&root, create, Arc::new(SystemClock)))
        .and_then(|service| confine(&root, walls.landlock).map(|()| service));
    ipc::serve(socket, service, workers)
}

/// [`run`] without what concerns the whole process, and with another clock: for tests of other crates.
///
/// # Errors
/// Those of [`run`].
pub fn serve(config: Config, clock: Arc<dyn Clock>) -> Result<(), Error> {
    let Config { root, create, socket } = config;
    ipc::serve(socket, open(&root, create, clock), ipc::workers())
}

fn open(root: &Path, create: bool, clock: Arc<dyn Clock>) -> Result<service::Service, Error> {
    service::Service::open(root, create, clock, self_test::run()?)
}
