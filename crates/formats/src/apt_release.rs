//! The index of an apt repository: `Release` gets `InRelease` (clear-signed) and `Release.gpg` (detached) beside it, from one
//! pass over it. Which name changes first, and why: `docs/formats/cleartext.md`.

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::verify::State;
use sealwright_crypto::usage::Purpose;

use crate::Format;
use crate::cleartext::{self, Cleartext, Framed, Plain};
use crate::error::Error;
use crate::openpgp_detached::{check, read_sidecar, reports};
use crate::options::{OptionSpec, SignOptions};
use crate::prepared::{
    BesideFile, BesideKind, BesideName, Item, Layout, NewContent, Output, Plan, Preparation, Prepared, Room,
    first_salt, salts_for,
};
use crate::report::{Inspection, SignatureReport, Verification, VerifyContext};
use crate::source::ReadAt;
use crate::splice::Edits;

const INLINE: &str = "InRelease";
const DETACHED: &str = "Release.gpg";
const NAMES: [BesideName; 2] = [BesideName::Suffix(".gpg"), BesideName::Whole(INLINE)];

/// `Release` of an apt repository.
#[derive(Clone, Copy, Debug)]
pub struct AptRelease;

impl Format for AptRelease {
    fn name(&self) -> &'static str {
        "apt-release"
    }

    fn summary(&self) -> &'static str {
        "Release of an apt repository, with InRelease and Release.gpg beside it, both or neither"
    }

    fn is_embedded(&self) -> bool {
        false
    }

    fn beside(&self) -> &'static [BesideName] {
        &NAMES
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[]
    }

    fn detect(&self, _: &[u8]) -> bool {
        false
    }

    fn salts_needed(&self, _: &SignOptions, key: &Certificate) -> usize {
        salts_for(key, 2)
    }

    fn prepare(
        &self,
        source: &dyn ReadAt,
        options: &SignOptions,
        key: &Certificate,
        salts: &[Salt],
    ) -> Result<Preparation, Error> {
        refuse_signed(source)?;
        let of_detached = first_salt(key, salts, options.hash)?;
        let of_inline = first_salt(key, salts.get(1..).unwrap_or_default(), options.hash)?;
        let mut bytes = cleartext::salted(options.hash, of_detached);
        let plain =
            Plain::read(source, cleartext::salted(options.hash, of_inline), |chunk| bytes.update(chunk))?;
        let [suffix, whole] = NAMES;
        let beside = vec![
            BesideFile { name: suffix, kind: BesideKind::Signatures, item: 0, len_max: 0 },
            cleartext::document(whole, &plain, 1),
        ];
        let notes = plain.notes();
        let items = vec![
            item(Purpose::Detached, bytes, of_detached),
            item(Purpose::Cleartext, plain.content, of_inline),
        ];
        let plan = Box::new(ReleasePlan { document_len: source.len() });
        Ok(Preparation::Sign(Prepared { items, plan, beside, notes }))
    }

    fn verify(&self, source: &dyn ReadAt, context: &VerifyContext<'_>) -> Result<Verification, Error> {
        let Some(sidecar) = context.sidecar else {
            return Ok(Verification { signatures: Vec::new(), digests: Vec::new() });
        };
        if !Cleartext.detect(sidecar) {
            let signatures = match read_sidecar(Some(sidecar)) {
                Ok(packets) => check(source, &packets, DETACHED, context)?,
                Err(reason) => vec![SignatureReport::unreadable(DETACHED.to_owned(), reason)],
            };
            return Ok(Verification { signatures, digests: Vec::new() });
        }
        let inline = sidecar.to_vec();
        let mut verification = Cleartext.verify(&inline, context)?;
        let is_same = cleartext::text_of(&inline)? == text_of(source)?;
        for signature in &mut verification.signatures {
            signature.place = signature.place.replacen("cleartext", INLINE, 1);
            if !is_same {
                signature.state = State::Bad;
                signature.detail = Some(format!("{INLINE} has another text than this file"));
            }
        }
        Ok(verification)
    }

    fn inspect(&self, source: &dyn ReadAt, sidecar: Option<&[u8]>) -> Result<Inspection, Error> {
        let facts = vec![("size", format!("{} bytes", source.len()))];
        let signatures = match sidecar {
            None => Vec::new(),
            Some(sidecar) if Cleartext.detect(sidecar) => {
                let packets = cleartext::signatures_of(&sidecar.to_vec())?;
                reports(&packets, INLINE, SignatureReport::unchecked)
            }
            Some(sidecar) => match read_sidecar(Some(sidecar)) {
                Ok(packets) => reports(&packets, DETACHED, SignatureReport::unchecked),
                Err(reason) => vec![SignatureReport::unreadable(DETACHED.to_owned(), reason)],
            },
        };
        Ok(Inspection { facts, signatures, digests: Vec::new() })
    }

    fn strip(&self, _: &dyn ReadAt) -> Result<Option<Edits>, Error> {
        Err(Error::Refused {
            reason: "its signatures are in files of their own; there is nothing to strip".to_owned(),
            advice: "Remove InRelease and Release.gpg.",
        })
    }
}

const fn item(purpose: Purpose, content: Hasher, salt: Option<Salt>) -> Item {
    Item { purpose, content, salt }
}

fn refuse_signed(source: &dyn ReadAt) -> Result<(), Error> {
    if !cleartext::is_clear_signed(source)? {
        return Ok(());
    }
    Err(Error::Refused {
        reason: "it is clear-signed already: an InRelease, not a Release".to_owned(),
        advice: "Name the Release file.",
    })
}

fn text_of(source: &dyn ReadAt) -> Result<Digest, Error> {
    Ok(Plain::read(source, Hasher::new(HashAlgorithm::Sha256), |_| {})?.text)
}

struct ReleasePlan {
    document_len: u64,
}

impl Plan for ReleasePlan {
    fn room(&self, _: usize, _: Layout) -> Room {
        Room { from: 0, until: 0, growth_max: 0, keeps_len: true, shares: true }
    }

    fn output(&self, packets: &[Vec<u8>], _: Layout) -> Result<Output, Error> {
        let [detached, inline] = packets else {
            return Err(Error::internal("not two signatures for one Release"));
        };
        SignaturePacket::parse_many(detached)?;
        let signatures = armor::encode(armor::Kind::Signature, detached).into_bytes();
        let framed = Framed::new(inline, self.document_len)?;
        Ok(Output::Beside(vec![NewContent::Bytes(signatures), NewContent::Framed(framed)]))
    }
}
