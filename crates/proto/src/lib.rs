//! The messages between the processes of Sealwright, their limits, and the one table of failures.
//!
//! ```text
//! client --v1 (gRPC)--> front --signer_v1 (frames over a Unix socket)--> signer
//! ```
//!
//! The `.proto` files are the shape; nothing received in that shape is trusted. [`convert`] is the only parser:
//! it turns messages into types that cannot be wrong, within [`limits`]. [`status`] says for each failure whose
//! fault it is, whether a retry can help, and what it becomes in gRPC, HTTP and as an exit status. [`frame`] is
//! the framing between front and signer. gRPC stubs exist only with the feature `grpc`; the signer does without.
//!
//! What this crate refuses to do: decide who may sign, know SQL or a file format, open sockets.
//!
//! Reading order: `proto/sealwright/v1/*.proto`, [`limits`], [`status`], [`convert`], [`frame`].
//!
//! Promise: within `v1`, fields and codes are added, never renumbered or reused; messages of an older release
//! still parse. `docs/WIRE.md` has the bytes.

#![forbid(unsafe_code)]

pub mod convert;
pub mod frame;
pub mod limits;
pub mod names;
pub mod status;
pub mod time;
pub mod trace;

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "generated code"
)]
/// Client and front: `sign.proto` and `keys.proto`.
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/sealwright.v1.rs"));
}

#[cfg(feature = "grpc")]
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "generated code"
)]
/// Whether a server serves: `grpc/health/v1/health.proto`, which is not ours.
pub mod health_v1 {
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
}

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "generated code"
)]
/// Front and signer: `signer.proto`.
pub mod signer_v1 {
    include!(concat!(env!("OUT_DIR"), "/sealwright.signer.v1.rs"));

    impl Drop for ImportSecret {
        fn drop(&mut self) {
            zeroize::Zeroize::zeroize(&mut self.key);
            zeroize::Zeroize::zeroize(&mut self.passphrase);
        }
    }
}

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "generated code"
)]
/// Signer, its keeper of tokens, and their workers: `token.proto`.
pub mod token_v1 {
    include!(concat!(env!("OUT_DIR"), "/sealwright.token.v1.rs"));
}
