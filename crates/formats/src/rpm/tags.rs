//! Tag numbers that Sealwright reads or writes (rpm: `include/rpm/rpmtag.h`).

use super::header::Kind;

/// Region of the signature header, first in its index.
pub(super) const HEADER_SIGNATURES: u32 = 62;
/// Region of the main header, first in its index.
pub(super) const HEADER_IMMUTABLE: u32 = 63;
/// Region of very old headers; some signature headers carry it in their trailer.
pub(super) const HEADER_IMAGE: u32 = 61;
/// Tags below it are regions and internals; only the first entry of an index may have one.
pub(super) const TAG_MIN: u32 = 100;
/// Largest tag number: rpm compares them as signed numbers, so larger ones are below [`TAG_MIN`] for it
/// (`lib/header.c`, `hdrchkTag`).
pub(super) const TAG_MAX: u32 = 0x7fff_ffff;

// Signature header.
pub(super) const DSA_HEADER: u32 = 267;
pub(super) const RSA_HEADER: u32 = 268;
pub(super) const SHA1_HEADER: u32 = 269;
pub(super) const LONG_SIZE: u32 = 270;
pub(super) const LONG_ARCHIVE_SIZE: u32 = 271;
pub(super) const SHA256_HEADER: u32 = 273;
pub(super) const FILE_SIGNATURES: u32 = 274;
pub(super) const FILE_SIGNATURE_LENGTH: u32 = 275;
pub(super) const VERITY_SIGNATURES: u32 = 276;
pub(super) const VERITY_SIGNATURE_ALGO: u32 = 277;
pub(super) const OPENPGP: u32 = 278;
pub(super) const SHA3_256_HEADER: u32 = 279;
/// Reserve of v6 packages.
pub(super) const RESERVED: u32 = 999;
pub(super) const SIZE: u32 = 1000;
/// RSA over header and payload; named after PGP 2.
pub(super) const PGP: u32 = 1002;
pub(super) const MD5: u32 = 1004;
/// DSA, `ECDSA` or `EdDSA` over header and payload; named after `GnuPG`.
pub(super) const GPG: u32 = 1005;
/// PGP 5, never written in this century.
pub(super) const PGP5: u32 = 1006;
pub(super) const ARCHIVE_SIZE: u32 = 1007;
/// Reserve of v3 and v4 packages.
pub(super) const RESERVED_SPACE: u32 = 1008;

// Main header.
pub(super) const NAME: u32 = 1000;
pub(super) const VERSION: u32 = 1001;
pub(super) const RELEASE: u32 = 1002;
pub(super) const EPOCH: u32 = 1003;
pub(super) const ARCH: u32 = 1022;
pub(super) const SOURCE_RPM: u32 = 1044;
pub(super) const RPM_VERSION: u32 = 1064;
pub(super) const SOURCE_PACKAGE: u32 = 1106;
pub(super) const OLD_FILENAMES: u32 = 1027;
pub(super) const PAYLOAD_COMPRESSOR: u32 = 1125;
pub(super) const PAYLOAD_SHA256: u32 = 5092;
pub(super) const PAYLOAD_SHA256_ALT: u32 = 5097;
pub(super) const PAYLOAD_SIZE: u32 = 5112;
pub(super) const PAYLOAD_SIZE_ALT: u32 = 5113;
pub(super) const RPM_FORMAT: u32 = 5114;
pub(super) const PAYLOAD_SHA512: u32 = 5121;
pub(super) const PAYLOAD_SHA512_ALT: u32 = 5122;
pub(super) const PAYLOAD_SHA3_256: u32 = 5123;
pub(super) const PAYLOAD_SHA3_256_ALT: u32 = 5124;

/// Every tag of the signature header that holds OpenPGP signatures: what rpmsign deletes
/// (`sign/rpmgensig.cc`, `deleteSigs`).
pub(super) const SIGNATURES: [u32; 6] = [DSA_HEADER, RSA_HEADER, OPENPGP, PGP, GPG, PGP5];

/// The tags of the signature header whose data are held where it is only looked at.
pub(super) const SHOWN: [u32; 12] = [
    DSA_HEADER,
    RSA_HEADER,
    OPENPGP,
    PGP,
    GPG,
    PGP5,
    SHA1_HEADER,
    SHA256_HEADER,
    SHA3_256_HEADER,
    SIZE,
    LONG_SIZE,
    MD5,
];

/// Types, and numbers of elements where there is one, that rpm demands of tags of the signature header when it
/// loads a package (`lib/package.c`, `xlateTags` and `headerMergeLegacySigs`; `include/rpm/rpmtag.h`).
pub(super) const TYPES: [(u32, Kind, Option<u32>); 15] = [
    (DSA_HEADER, Kind::Binary, None),
    (RSA_HEADER, Kind::Binary, None),
    (SHA1_HEADER, Kind::String, Some(1)),
    (LONG_SIZE, Kind::Int64, Some(1)),
    (LONG_ARCHIVE_SIZE, Kind::Int64, Some(1)),
    (SHA256_HEADER, Kind::String, Some(1)),
    (FILE_SIGNATURES, Kind::StringArray, None),
    (FILE_SIGNATURE_LENGTH, Kind::Int32, Some(1)),
    (VERITY_SIGNATURES, Kind::StringArray, None),
    (VERITY_SIGNATURE_ALGO, Kind::Int32, Some(1)),
    (SIZE, Kind::Int32, Some(1)),
    (PGP, Kind::Binary, None),
    (MD5, Kind::Binary, Some(16)),
    (GPG, Kind::Binary, None),
    (ARCHIVE_SIZE, Kind::Int32, Some(1)),
];

/// Tags that a main header has not beside their twin in the signature header, or (no twin) not at all, because loading
/// a package would give them twice (`lib/package.c`, `headerMergeLegacySigs`).
pub(super) const MERGED: [(u32, Option<u32>); 15] = [
    (257, None),
    (259, None),
    (261, None),
    (262, None),
    (DSA_HEADER, None),
    (RSA_HEADER, None),
    (SHA1_HEADER, None),
    (LONG_SIZE, None),
    (LONG_ARCHIVE_SIZE, None),
    (SHA256_HEADER, None),
    (VERITY_SIGNATURES, None),
    (VERITY_SIGNATURE_ALGO, None),
    (1046, Some(ARCHIVE_SIZE)),
    (5090, Some(FILE_SIGNATURES)),
    (5091, Some(FILE_SIGNATURE_LENGTH)),
];

/// Most elements that rpm takes of one of [`TYPES`] (`lib/package.c`, `headerMergeLegacySigs`).
pub(super) const MERGED_MAX: u32 = 16 << 20;

/// The tags of the main header whose data [`super::main_header`] keeps; all others are hashed and forgotten.
pub(super) const KEPT: [u32; 19] = [
    NAME,
    VERSION,
    RELEASE,
    EPOCH,
    ARCH,
    SOURCE_RPM,
    RPM_VERSION,
    SOURCE_PACKAGE,
    PAYLOAD_COMPRESSOR,
    PAYLOAD_SHA256,
    PAYLOAD_SHA256_ALT,
    PAYLOAD_SIZE,
    PAYLOAD_SIZE_ALT,
    RPM_FORMAT,
    PAYLOAD_SHA512,
    PAYLOAD_SHA512_ALT,
    PAYLOAD_SHA3_256,
    PAYLOAD_SHA3_256_ALT,
    OLD_FILENAMES,
];

/// The name that rpm shows for a signature tag.
pub(super) const fn signature_name(tag: u32) -> &'static str {
    match tag {
        DSA_HEADER => "DSAHEADER",
        RSA_HEADER => "RSAHEADER",
        OPENPGP => "OPENPGP",
        PGP => "SIGPGP",
        GPG => "SIGGPG",
        PGP5 => "SIGPGP5",
        _ => "tag",
    }
}
