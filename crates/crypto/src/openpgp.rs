//! OpenPGP (RFC 9580, RFC 4880): what rPGP cannot do for us is ours (midstates, the trailer, composing); keys,
//! self-signatures and the public-key operation of a verification are rPGP's.
//!
//! | | version 3 | version 4 | version 6 |
//! |---|---|---|---|
//! | made by us | never | yes | yes, with the server's salt |
//! | verified | yes | yes | yes |
//! | hashed first | – | – | the salt |
//! | hashed last | type, time | version .. subpackets, `04 ff` length | version .. subpackets, `06 ff` length |
//!
//! Reading order: [`fingerprint`], [`armor`], [`salt`], [`signature`] (write), [`packet`] (read), [`certificate`],
//! [`extension`], [`verify`].

pub mod armor;
pub mod certificate;
pub mod extension;
pub mod fingerprint;
pub mod packet;
pub mod salt;
pub mod signature;
pub mod verify;

mod component;
mod framing;
mod rsa;
