//! The protocol that obs-sign's `sign` and `signd` talk, and the files that both read: bytes to values and back.
//!
//! ```text
//! request bytes --request.rs--> Request --command.rs--> Command (digests, project key)      | server's side
//! results       --reply.rs----> Reply   --> bytes                                           |
//! raw signature --packet.rs---> v3 packet, answer to a probe                                |
//! certificate   --framing.rs--> the same packets in gpg's headers                           |
//!
//! document hash --hashed.rs---> trailer, digest --request.rs--> bytes                       | client's side
//! reply bytes   --reply.rs----> results --hashed.rs--> version 4 signature                  |
//! sign.conf     --config.rs---> Config                                                      | both
//! two replies   --compare.rs--> how they differ                                             | between both
//! ```
//!
//! One connection carries one request and one reply, and the server closes after it. A request carries *digests* in which
//! the client has already put class, time and subpackets: who signs one cannot know what it says. That is why a key is
//! used over this protocol only if it was sealed for it (docs/adr/0019).
//!
//! What this crate refuses to do: open a socket or a file, read a clock, hash, decrypt, hold a private key, decide. It
//! uses no other crate of ours. Line numbers of `signd` and `sign.c` are those of obs-sign at commit 61b2eca (version 2.8.5);
//! the behaviour was taken from its texts and from captured connections (fixtures/obs), not from its code.
//!
//! Reading order: [`limits`], [`request`], [`command`], [`digest`], [`refusal`], [`reply`], [`packet`],
//! [`framing`], [`hashed`], [`project_key`], [`config`], [`compare`].
//!
//! Promise: [`request::Request`] and [`reply::Reply`] encode to the very bytes that they were parsed from.

#![forbid(unsafe_code)]

pub mod command;
pub mod compare;
pub mod config;
pub mod digest;
pub mod error;
pub mod framing;
pub mod hashed;
pub mod limits;
pub mod packet;
pub mod project_key;
pub mod refusal;
pub mod reply;
pub mod request;

mod bytes;

pub use command::Command;
pub use digest::{Class, DigestArgument, Hash};
pub use error::Error;
pub use refusal::Refusal;
pub use reply::Reply;
pub use request::{Form, Parser, Progress, Request, Verb};
