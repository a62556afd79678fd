//! Where signatures sit in files. Pure: the input is anything that can be read at an offset, the output is a
//! list of edits; nothing here writes a file, talks to a network, holds a key, or asks the clock.
//!
//! ```text
//! file --detect--> Format --prepare--> Prepared { items, plan } ... signatures ... plan.output --> Output
//! ```
//!
//! A new format is one file with one `impl Format`, one line in [`FORMATS`], and its fixtures (and, where it signs
//! what no other does, a member of `sealwright_crypto::usage::Purpose`, whose number is on the wire): the command
//! line, detection, conformance tests and fuzz targets take it from the list.
//!
//! Reading order: [`source`], [`prepared`], [`splice`], [`options`], then one format: [`rpm`].

#![forbid(unsafe_code)]

pub mod apt_release;
pub mod cleartext;
pub mod error;
pub mod openpgp_detached;
pub mod options;
pub mod prepared;
pub mod report;
pub mod rpm;
pub mod source;
pub mod splice;

use std::io::Read;

use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::salt::Salt;

use crate::error::Error;
use crate::options::{OptionSpec, SignOptions};
use crate::prepared::{BesideName, Preparation};
use crate::report::{Inspection, Verification, VerifyContext};
use crate::source::ReadAt;
use crate::splice::Edits;

/// Every format, in the order in which content is asked. The one place where a format is registered.
pub static FORMATS: &[&dyn Format] =
    &[&rpm::Rpm, &openpgp_detached::OpenPgpDetached, &cleartext::Cleartext, &apt_release::AptRelease];

/// How many bytes from the start of a file [`Format::detect`] may see.
pub const DETECT_BYTES: usize = 4096;

/// One file format. Implementations have no state.
pub trait Format: Sync {
    /// The value of `--format`: lower case, unique.
    fn name(&self) -> &'static str;

    /// One line for help and man page.
    fn summary(&self) -> &'static str;

    /// Whether a signed file has the signature inside. Only such formats are recognised by content.
    fn is_embedded(&self) -> bool;

    /// Whether a file shows before it is signed that it is of this format. Others sign what they are told to, file by file:
    /// they are never touched by `-r`.
    fn is_found(&self) -> bool {
        self.is_embedded()
    }

    /// Names of files beside a file that can hold its signatures, for verifying and inspecting.
    fn beside(&self) -> &'static [BesideName] {
        &[]
    }

    /// Options of this format alone.
    fn options(&self) -> &'static [OptionSpec];

    /// Whether a file that starts with `head` (up to [`DETECT_BYTES`]) is of this format.
    fn detect(&self, head: &[u8]) -> bool;

    /// How many salts [`Self::prepare`] needs at most, to hash each in front of something: none for a version 4 key.
    fn salts_needed(&self, options: &SignOptions, key: &Certificate) -> usize;

    /// Reads the file once, checks it, and says what to sign and where the signatures go, or that there is
    /// nothing to do. `key` is the certificate of the key that will sign; `salts` are [`Self::salts_needed`] of the
    /// server's, for `options.hash`. Which of them was used for what is said by each item.
    ///
    /// # Errors
    /// The file is malformed, damaged, not supported, or already signed under `--if-signed refuse`.
    fn prepare(
        &self,
        source: &dyn ReadAt,
        options: &SignOptions,
        key: &Certificate,
        salts: &[Salt],
    ) -> Result<Preparation, Error>;

    /// The same for a stream that can be read once (standard input).
    ///
    /// # Errors
    /// [`Error::NeedsSeek`] unless the format can do it.
    fn prepare_stream(
        &self,
        _: &mut dyn Read,
        _: &SignOptions,
        _: &Certificate,
        _: &[Salt],
    ) -> Result<Preparation, Error> {
        Err(Error::NeedsSeek { format: self.name() })
    }

    /// Checks every digest and every signature in (or, by `context.sidecar`, beside) the file.
    ///
    /// # Errors
    /// The file cannot be read or parsed; a wrong digest or signature is a state in the answer, not an error.
    fn verify(&self, source: &dyn ReadAt, context: &VerifyContext<'_>) -> Result<Verification, Error>;

    /// What is signed, by whom, how; trusts and checks nothing but the syntax.
    ///
    /// # Errors
    /// The file cannot be read or parsed.
    fn inspect(&self, source: &dyn ReadAt, sidecar: Option<&[u8]>) -> Result<Inspection, Error>;

    /// Edits that remove every signature; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read or parsed, or the format has no embedded signature.
    fn strip(&self, source: &dyn ReadAt) -> Result<Option<Edits>, Error>;
}

/// The format of which a file with this content is, signed or not: what `-r` finds.
#[must_use]
pub fn detect(head: &[u8]) -> Option<&'static dyn Format> {
    recognise(head).filter(|format| format.is_found())
}

/// The format with embedded signatures that recognises this content, which may show only in a signed file.
#[must_use]
pub fn recognise(head: &[u8]) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.is_embedded() && format.detect(head))
}

/// The format of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.name() == name)
}
