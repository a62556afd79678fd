//! The user's side of Sealwright, start to finish.
//!
//! ```text
//! paths --source.rs--> files --sign.rs--> detect, prepare (crate formats) --apply.rs--> staged
//!     --connection.rs--> front ... signatures --sign.rs--> verified like a stranger
//!     --apply.rs--> edits written, renamed, re-read --> report
//! ```
//!
//! What this crate refuses to do: parse a command line, print, read the environment, hold a private key, leave
//! a half-written file. A file's bytes never leave the machine: the state of a hash does.
//!
//! Reading order: [`source`], [`apply`], [`connection`], [`signd`], [`sign`], [`batch`], [`campaign`]; then [`verify`], [`strip`],
//! [`inspect`], [`import`], [`migrate`], [`gnupg`], [`trust`].

#![forbid(unsafe_code)]

pub mod apply;
pub mod batch;
pub mod campaign;
mod committer;
pub mod connection;
mod detect;
pub mod error;
pub mod gnupg;
pub mod import;
pub mod inspect;
mod lane;
pub mod look;
pub mod migrate;
pub mod shown;
pub mod sign;
pub mod signd;
pub mod source;
pub mod strip;
pub mod trust;
pub mod verify;
