//! Turn bytes and a key into an encoded signature, and check one.
//!
//! ```text
//! file bytes --digest.rs--> Hasher --midstate.rs--> Midstate ==wire==> resume
//!     --openpgp/signature.rs--> hash the part only the key holder writes, finish --> Digest
//!     --key operation (signer crate)--> raw signature --openpgp/signature.rs--> packet
//! packet + the hasher of the content --openpgp/verify.rs--> Verified, or a reason
//! ```
//!
//! What this crate refuses to do: open files or sockets, know a file format, read a clock or draw random
//! bytes (both are arguments), hold a private key. It has no `unsafe` code.
//!
//! Reading order: [`algorithm`], [`digest`], [`midstate`], [`bare`], [`tbs`], [`openpgp`].
//!
//! Promise: an encoded [`midstate::Midstate`] of version 1 and a log entry's [`tbs::ToBeSigned`] digest keep
//! their meaning; signatures made by any release verify with any OpenPGP implementation of RFC 4880 or 9580.

#![forbid(unsafe_code)]

pub mod algorithm;
pub mod bare;
pub mod digest;
pub mod error;
pub mod midstate;
pub mod openpgp;
pub mod tbs;
pub mod usage;
