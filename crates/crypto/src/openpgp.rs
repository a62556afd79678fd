//! OpenPGP (RFC 9580, RFC 4880): what rPGP cannot do for us is ours (midstates, the trailer, composing); packets,
//! armor, certificates and verification are rPGP's.
//!
//! | | version 3 | version 4 | version 6 |
//! |---|---|---|---|
//! | made by us | never | yes | with salt tickets, not yet |
//! | verified | yes | yes | yes |
//! | hashed first | – | – | the salt |
//! | hashed last | type, time | version .. subpackets, `04 ff` length | version .. subpackets, `06 ff` length |
