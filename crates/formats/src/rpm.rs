//! RPM packages: the signature over the main header (tags 267, 268; 278 in v6 packages) and the old one over
//! header and payload (1002, 1005). The main header and the payload never change; of the signature header only
//! signatures and reserve do. The byte table and its sources are in `docs/formats/rpm.md`.
//!
//! Who hashes: everything is hashed here, once, into the states that the key holder finishes. A header-only
//! signature reads no byte of the payload.
//!
//! Reading order: `rpm/package.rs` (the file), `header.rs` (the structure that it has twice), `main_header.rs`,
//! `signature_header.rs` (rewriting, reserve), `signature_read.rs` and `data.rs`, `budget.rs` (with how much memory), `signatures.rs`, `digests.rs`, `prepare.rs`, `plan.rs`, `verify.rs`.

mod budget;
mod data;
mod digests;
mod hashes;
mod header;
mod inspect;
mod limits;
mod main_header;
mod one_pass;
mod package;
mod plan;
mod prepare;
mod signature_header;
mod signature_read;
mod signatures;
mod tag_types;
mod tags;
mod verify;

use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::salt::Salt;

use crate::Format;
use crate::error::Error;
use crate::options::{OptionSpec, SignOptions};
use crate::prepared::{Preparation, salts_for};
use crate::report::{Inspection, Verification, VerifyContext};
use crate::source::ReadAt;
use crate::splice::Edits;

/// What to sign.
pub const RPM_SIGNATURE: OptionSpec = OptionSpec {
    name: "rpm-signature",
    value_name: "KIND",
    choices: &["auto", "header", "header+payload", "both"],
    default: "auto",
    help: "What to sign in an RPM package: auto signs the header, and header and payload too if the header has no digest of the payload",
    check: |_| false,
};

/// The oldest rpm that must be able to read the result.
pub const MIN_RPM: OptionSpec = OptionSpec {
    name: "min-rpm",
    value_name: "VERSION",
    choices: &[],
    default: "4.14",
    help: "Oldest rpm that must read the signed package, 4.4 or later with both numbers, as in 4.14: what its limits do not allow is refused",
    check: |text| limits::Release::parse(text).is_some(),
};

static OPTIONS: [OptionSpec; 2] = [RPM_SIGNATURE, MIN_RPM];

/// RPM packages of formats 3 (with an immutable region), 4 and 6, binary and source.
#[derive(Clone, Copy, Debug)]
pub struct Rpm;

impl Format for Rpm {
    fn name(&self) -> &'static str {
        "rpm"
    }

    fn summary(&self) -> &'static str {
        "RPM packages, binary and source, formats 3 to 6"
    }

    fn is_embedded(&self) -> bool {
        true
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn detect(&self, head: &[u8]) -> bool {
        head.starts_with(&package::LEAD_MAGIC)
    }

    fn salts_needed(&self, _: &SignOptions, key: &Certificate) -> usize {
        // Version 6 signatures are over the header alone.
        salts_for(key, 1)
    }

    fn prepare(
        &self,
        source: &dyn ReadAt,
        options: &SignOptions,
        key: &Certificate,
        salts: &[Salt],
    ) -> Result<Preparation, Error> {
        prepare::prepare(source, options, key, salts)
    }

    fn verify(&self, source: &dyn ReadAt, context: &VerifyContext<'_>) -> Result<Verification, Error> {
        verify::verify_package(source, context)
    }

    fn inspect(&self, source: &dyn ReadAt, _: Option<&[u8]>) -> Result<Inspection, Error> {
        inspect::inspect(source)
    }

    fn strip(&self, source: &dyn ReadAt) -> Result<Option<Edits>, Error> {
        // What has no signatures is not held.
        if !package::Package::read(source, signature_read::Load::Look, |_, _| {})?.signature.has_signatures()
        {
            return Ok(None);
        }
        let whole = signature_read::Load::Whole(limits::Release::NEWEST);
        let package = package::Package::read(source, whole, |_, _| {})?;
        Ok(Some(plan::strip_edits(package.signature.stripped(), package.signature_bytes, package.len)?))
    }
}
