//! From answer to file: every signature is checked against our own hash before it goes anywhere.

use std::time::{SystemTime, UNIX_EPOCH};

use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::verify::{Verified, verify_kind};
use sealwright_formats::prepared::{Item, Output};
use sealwright_formats::splice::Layout;
use sealwright_proto::convert::group::LoggedSignature;

use crate::apply::group::Job;
use crate::connection::Answer;
use crate::error::Error;
use crate::sign::{Pending, Signer, StagedPlace};

/// Seconds by which the signer's clock may be ahead of ours.
const CLOCK_SKEW_S_MAX: i64 = 300;

/// Signatures that are proven to be over our items, by the key asked for.
struct Checked {
    packets: Vec<Vec<u8>>,
    log_indexes: Vec<u64>,
    /// One for each packet: nothing is spliced without.
    _proofs: Vec<Verified>,
}

/// A file whose signatures are proven: it only waits for the disk.
pub(super) struct Ready {
    pub(super) job: Job,
    pub(super) log_indexes: Vec<u64>,
    pub(super) notes: Vec<String>,
}

impl Signer {
    /// Checks, and turns signatures into edits or into a signature file. Runs on a thread that may block.
    pub(super) fn finish(&self, pending: Pending, answer: Answer) -> Result<Ready, Error> {
        let checked = self.check(&pending.prepared.items, answer)?;
        let log_indexes = checked.log_indexes;
        let log_index = log_indexes.first().copied().unwrap_or_default();
        let not_applied = |source: Error| Error::NotApplied { log_index, source: Box::new(source) };
        let layout = match &pending.place {
            StagedPlace::File(staged) => staged.layout(),
            StagedPlace::Sidecars(_) => Layout::Tight,
        };
        let mut notes = Vec::new();
        let packets = match &pending.place {
            StagedPlace::File(_) => checked.packets,
            StagedPlace::Sidecars(staged) => self.merged(staged, checked.packets, &mut notes),
        };
        let output = pending.prepared.plan.output(&packets, layout);
        let job = match (pending.place, output.map_err(|error| not_applied(error.into()))?) {
            (StagedPlace::File(staged), Output::Edits(edits)) => Ok(Job::File(staged, edits)),
            (StagedPlace::Sidecars(staged), Output::Beside(contents)) => {
                staged.filled(contents).map(|sidecars| Job::Sidecars(Box::new(sidecars)))
            }
            (StagedPlace::File(_), Output::Beside(_)) | (StagedPlace::Sidecars(_), Output::Edits(_)) => {
                Err(Error::Internal("the format's plan does not fit its kind"))
            }
        };
        Ok(Ready { job: job.map_err(not_applied)?, log_indexes, notes })
    }

    fn check(&self, items: &[Item], answer: Answer) -> Result<Checked, Error> {
        let made =
            answer.items.iter().filter_map(|item| item.as_ref().ok()).map(|made| made.log_index).next();
        let mut checked = Checked { packets: Vec::new(), log_indexes: Vec::new(), _proofs: Vec::new() };
        for (item, outcome) in items.iter().zip(answer.items) {
            let signature = outcome.map_err(|error| match made {
                // Another signature of the group was made and logged.
                Some(log_index) => Error::NotApplied { log_index, source: Box::new(error) },
                None => error,
            })?;
            checked._proofs.push(self.check_one(item, &signature)?);
            checked.packets.push(signature.packet);
            checked.log_indexes.push(signature.log_index);
        }
        Ok(checked)
    }

    /// As a stranger would: nothing of the answer is believed but what our own hash confirms.
    pub(super) fn check_one(&self, item: &Item, signature: &LoggedSignature) -> Result<Verified, Error> {
        let packet = SignaturePacket::parse(&signature.packet)
            .map_err(|source| Error::BadAnswerBytes { what: "signature", source })?;
        if packet.issuer_fingerprint() != Some(self.issuer) {
            return Err(Error::SignatureRefused {
                state: format!("it is by {}, asked for was {}", packet.issuer_hex(), self.issuer),
            });
        }
        if packet.hash() != Some(item.content.hash()) {
            return Err(Error::SignatureRefused { state: format!("it uses {}", packet.hash_name()) });
        }
        // A stranger hashes the salt that the packet has; ours is in our hash already.
        if packet.salt() != item.salt.as_ref().map(Salt::as_bytes) {
            return Err(Error::SignatureRefused {
                state: "it has another salt than the one hashed".to_owned(),
            });
        }
        let kind = item.purpose.data_kind();
        let outcome =
            verify_kind(kind, &packet, &item.content, &self.keyring, now().saturating_add(CLOCK_SKEW_S_MAX));
        let (state, detail) = (outcome.state, outcome.detail);
        outcome.verified.ok_or_else(|| Error::SignatureRefused {
            state: detail
                .map_or_else(|| state.name().to_owned(), |detail| format!("{}: {detail}", state.name())),
        })
    }
}

/// Unix seconds.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
