//! The append-only Merkle log of signatures.
//!
//! ```text
//! Entry --entry.rs--> canonical bytes --merkle.rs--> leaf hash --append.rs--> index, head
//!                                                      (inside one transaction of storage.rs)
//! ```
//!
//! What this crate refuses to do: open a database, read a clock, talk to anyone. The storage is a trait with
//! its duties spelt out ([`storage::LogTransaction`]); crate `store` implements it.
//!
//! Reading order: [`entry`], [`merkle`], [`storage`], [`mod@append`].
//!
//! Promise: the canonical bytes of an entry of version 1, and with them its leaf hash, never change. The head
//! is kept as a compact range (RFC 6962 section 2.1 hashes), so that proofs can be added without a migration.

#![forbid(unsafe_code)]

pub mod append;
pub mod entry;
pub mod error;
pub mod merkle;
pub mod storage;

pub use append::{Appended, append};
pub use entry::{Artefact, Entry, Operation};
pub use error::Error;
pub use merkle::{CompactRange, Hash};
