//! Checks every signature and digest of a file, or in the signature files beside it, against a keyring.

use sealwright_crypto::openpgp::certificate::Keyring;
use sealwright_formats::report::{Verification, VerifyContext};

use crate::error::Error;
use crate::look::{Looked, Report, report};
use crate::sign::finish::now;
use crate::source::Entry;

/// What one file's verification came to.
pub type VerifyReport = Report<Verification>;

/// Verifies one file. Reads all of it; runs on a thread that may block.
#[must_use]
pub fn verify(index: usize, entry: &Entry, format: Option<&'static str>, keyring: &Keyring) -> VerifyReport {
    report(index, entry, format, |looked| judge(looked, keyring))
}

fn judge(looked: &Looked, keyring: &Keyring) -> Result<Verification, Error> {
    let context = |sidecar| VerifyContext { keyring, now: now(), sidecar };
    if looked.format.is_embedded() {
        return Ok(looked.format.verify(&looked.source, &context(None))?);
    }
    let mut all = Verification { signatures: Vec::new(), digests: Vec::new() };
    for sidecar in &looked.sidecars {
        let one = looked.format.verify(&looked.source, &context(Some(sidecar)))?;
        all.signatures.extend(one.signatures);
        all.digests.extend(one.digests);
    }
    Ok(all)
}
