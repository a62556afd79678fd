//! The only process that holds a clear private key or can read the root key.
//!
//! ```text
//! front ==frames over an inherited socket==> listen.rs --> ipc.rs --> service.rs
//!     open the sealed key (seal.rs, cache.rs, floor.rs) --> usage.rs, clock.rs: may it sign this, now?
//!     --> crypto: compose, finish the hash --> backend.rs: key operation --> public.rs: verify it --> answer
//! ```
//!
//! What it refuses: to open a network socket, to know users, databases or file formats, to sign an opaque digest,
//! to sign with a key older than it has seen, to release a signature that does not verify, to serve on a machine
//! where an algorithm does not work (`self_test.rs`), and to use a root key that others can read.
//!
//! rPGP parses and unlocks imported keys and writes certificates; it never signs here: all private-key operations
//! are aws-lc-rs's, or a token's (`backend.rs`). The modules of tokens run in processes of their own (`tokens.rs`), which the
//! program must start by [`KEEPER_COMMAND`] and [`WORKER_COMMAND`].
//!
//! Reading order: [`run`], `process.rs`, `confine.rs`, `listen.rs`, `ipc.rs`, `service.rs`, `seal.rs`, `backend.rs`. `docs/WIRE.md` has the bytes.

mod backend;
mod cache;
mod certify;
mod clock;
mod confine;
mod count;
mod create;
mod custody;
mod error;
mod files;
mod floor;
mod import;
mod ipc;
mod listen;
mod memory;
mod opened;
mod packets;
mod process;
mod project;
mod public;
mod pulse;
mod renew;
mod root;
mod seal;
mod secret;
mod self_test;
mod service;
mod start;
mod tokens;
mod usage;

use std::path::PathBuf;
use std::sync::Arc;

use confine::{Openings, confine_with};
use listen::Door;
use pulse::Pulse;
use tokens::Tokens;

pub use clock::{Clock, SystemClock};
pub use confine::{Enforced, Landlock, confine, has_landlock, refuse_attacks, shut_into};
pub use custody::{Custody, EXPORTS_FILE};
pub use error::Error;
pub use listen::Socket;
pub use process::give_up_dumps_and_privileges;
pub use pulse::Watcher;
pub use root::make_root_key;
#[doc(hidden)]
pub use tokens::fuzz as token_fuzz;
pub use tokens::keeper::{KEEPER_COMMAND, WORKER_COMMAND, token_keeper};
pub use tokens::worker::token_worker;

/// What a signer needs to start.
#[derive(Debug)]
pub struct Config {
    /// Directory of root key, data key and generation floors; only the signer's user may read it.
    pub root: PathBuf,
    /// Makes directory, root key and data key if none of them is there.
    pub create: bool,
    /// The root key's file, where it is not in [`Self::root`]: a credential that a service manager hands over. It is
    /// never made, and everything else stays in [`Self::root`].
    pub root_key: Option<PathBuf>,
    /// Where front is, or comes to.
    pub socket: Socket,
    /// Who is told that it works. For a socket that listens: one that is connected is its front's alone.
    pub watcher: Option<Watcher>,
}

/// The walls of the process.
#[derive(Clone, Debug)]
pub struct Walls {
    /// On a kernel without Landlock: go on, or not.
    pub landlock: Landlock,
    /// User ids that may hold the other end of the socket, beside this process's own and root.
    pub peers: Vec<u32>,
}

/// Hardens this process, tests every algorithm, opens the root key, shuts itself in ([`confine`]), and serves front:
/// on a connected socket until front closes it, on a listening one front after front until the process is sent
/// SIGTERM. Requests in hand are answered before it returns. For a process of its own: the walls stay, and it is killed at
/// once if a front that is connected goes before the files are open (`start.rs`).
///
/// # Errors
/// Every variant of [`Error`]. What fails before serving is also told to front, as the first message; only a
/// stranger is told nothing.
pub fn run(config: Config, walls: &Walls) -> Result<(), Error> {
    let workers = ipc::workers();
    let root = config.root.clone();
    let (keys, socket, pulse) = config.split();
    let door = Door::of(socket, &walls.peers)?;
    // Before the process can start nothing any more, and has a key that could be inherited; PINs are read here.
    let tokens = process::harden_helper().and_then(|()| Tokens::start(&root, walls.landlock));
    let start = door.watch_start()?;
    let service = tokens.and_then(|tokens| {
        process::harden()?;
        keys.open(Arc::new(SystemClock), tokens)
    });
    // Its thread must not live on outside the sandbox.
    drop(start);
    let service = service.and_then(|service| {
        let openings = Openings { listener: door.listener(), keeper: service.tokens().keeper_socket() };
        confine_with(&root, walls.landlock, openings)?;
        service.tokens().attend()?;
        Ok(service)
    });
    door.serve(service, workers, &pulse)
}

/// [`run`] without what concerns the whole process, tokens among it, and with another clock: for tests of other crates. A listening
/// socket is served until it fails.
///
/// # Errors
/// Those of [`run`].
pub fn serve(config: Config, clock: Arc<dyn Clock>) -> Result<(), Error> {
    let (keys, socket, pulse) = config.split();
    Door::of(socket, &[])?.serve(keys.open(clock, Tokens::none()), ipc::workers(), &pulse)
}

/// Where the keys are.
struct Keys {
    root: PathBuf,
    root_key: Option<PathBuf>,
    create: bool,
}

impl Config {
    fn split(self) -> (Keys, Socket, Pulse) {
        let Self { root, root_key, create, socket, watcher } = self;
        let watcher = watcher.filter(|_| matches!(socket, Socket::Listening(_)));
        (Keys { root, root_key, create }, socket, Pulse::new(watcher))
    }
}

impl Keys {
    fn open(&self, clock: Arc<dyn Clock>, tokens: Tokens) -> Result<service::Service, Error> {
        let passed = self_test::run()?;
        service::Service::open(&self.root, self.root_key.as_deref(), self.create, clock, tokens, passed)
    }
}
