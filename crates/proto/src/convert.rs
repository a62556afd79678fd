//! Wire to types that cannot be wrong, and back: the only parser of messages from another process.
//!
//! * [`group`]: a client's group of things to sign, and the answer to it.
//! * [`batch`]: what front asks of the signer, and the answer to it.
//! * [`salts`]: salts to hash before the content, for version 6 keys.
//! * [`keys`]: key administration.
//! * [`project`]: keys that clients of obs-sign keep.

pub mod batch;
pub mod group;
mod key_source;
pub mod keys;
pub mod project;
pub mod salts;

use crate::limits;
use crate::status::{Code, Fault};
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::error::Error as CryptoError;
use sealwright_crypto::midstate::Midstate;
use sealwright_crypto::usage::Usage;

/// A rule of the message's shape is broken.
fn malformed(message: &str) -> Fault {
    Fault::new(Code::MalformedRequest, message)
}

/// `what` has `size` `unit`; more than `limit` is refused.
fn within(what: &str, size: usize, limit: usize, unit: &str) -> Result<(), Fault> {
    if size > limit {
        return Err(Fault::new(
            Code::LimitExceeded,
            format!("{what} has {size} {unit}; the limit is {limit}"),
        ));
    }
    Ok(())
}

/// Errors of the crypto crate about values in a message.
fn refused(error: &CryptoError) -> Fault {
    let code = if matches!(error, CryptoError::Unsupported { .. }) {
        Code::Unsupported
    } else {
        Code::MalformedRequest
    };
    Fault::new(code, error.to_string())
}

fn midstate(bytes: &[u8]) -> Result<Midstate, Fault> {
    within("a midstate", bytes.len(), limits::MIDSTATE_BYTES_MAX, "bytes")?;
    Midstate::decode(bytes).map_err(|error| refused(&error))
}

fn hash_algorithm(id: u32) -> Result<HashAlgorithm, Fault> {
    let id = u8::try_from(id).map_err(|_| malformed("the number of a hash algorithm is over 255"))?;
    HashAlgorithm::from_openpgp_id(id).map_err(|error| refused(&error))
}

/// At least one usage, none twice, in rising order of their numbers.
fn usages(numbers: &[u32]) -> Result<Vec<Usage>, Fault> {
    within("a key", numbers.len(), limits::USAGES_MAX, "usages")?;
    let mut usages = Vec::with_capacity(numbers.len());
    for number in numbers {
        usages.push(Usage::from_id(*number).map_err(|error| refused(&error))?);
    }
    usages.sort_unstable();
    usages.dedup();
    if usages.is_empty() || usages.len() != numbers.len() {
        return Err(malformed("the usages of a key are missing, or one is there twice"));
    }
    Ok(usages)
}

/// Inline content is limited over a whole group or batch: counts down what is left.
struct InlineBudget(usize);

impl InlineBudget {
    const fn new() -> Self {
        Self(limits::INLINE_BYTES_MAX)
    }

    fn take(&mut self, len: usize) -> Result<(), Fault> {
        self.0 = self.0.checked_sub(len).ok_or_else(|| {
            let message = format!("inline content is over the limit of {} bytes", limits::INLINE_BYTES_MAX);
            Fault::new(Code::LimitExceeded, message)
        })?;
        Ok(())
    }
}

/// Length-prefixed fields into one hash: no two different sequences of fields give the same bytes.
struct Canonical(Vec<u8>);

impl Canonical {
    fn new(domain: &str) -> Self {
        let mut canonical = Self(Vec::new());
        canonical.field(domain.as_bytes());
        canonical
    }

    fn field(&mut self, bytes: &[u8]) {
        self.number(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, number: u64) {
        self.0.extend(number.to_be_bytes());
    }

    fn sha256(&self) -> [u8; 32] {
        let digest = sealwright_crypto::digest::Hasher::digest(HashAlgorithm::Sha256, &self.0);
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(digest.as_bytes()) {
            *to = *from;
        }
        bytes
    }
}
