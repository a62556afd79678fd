//! Signatures in files beside the one that is signed: what `--if-signed` means for them, and which of them stay.

use std::sync::Arc;

use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_crypto::error::Error as CryptoError;
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::packet::{PACKETS_MAX, SignaturePacket};
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::verify::{State, verify};
use sealwright_formats::Format as _;
use sealwright_formats::cleartext::{self, Cleartext};
use sealwright_formats::options::{IfSigned, Repeat};
use sealwright_formats::prepared::{BesideFile, BesideKind, BesideName, Prepared, kept_unchecked};
use sealwright_formats::report::VerifyContext;
use sealwright_formats::source::{ReadAt as _, for_each_chunk};

use crate::apply::Target;
use crate::apply::sidecar::{Beside, Keep, StagedSidecar, StagedSidecars};
use crate::error::Error;
use crate::shown::shown;
use crate::sign::finish::now;
use crate::sign::{Done, Effect, Pending, Signer, StagedPlace, Step};
use crate::source::Entry;
use crate::source::file::SourceFile;

/// What a detached signature can be called: a call writes one of them and looks at both.
const DETACHED: [BesideName; 2] = [BesideName::Suffix(".asc"), BesideName::Suffix(".sig")];

impl Signer {
    pub(super) fn stage_beside(
        &self,
        entry: &Entry,
        source: Arc<SourceFile>,
        target: Option<&Target>,
        prepared: Prepared,
    ) -> Result<Step, Error> {
        let beside = match target {
            Some(target) => Beside::target(target),
            None => Beside::of(entry, &source)?,
        };
        if let Some(why) = self.keep_beside(&beside, &source, &prepared)? {
            return Ok(Step::Done(Done::Unchanged { why, copy: None }));
        }
        if self.request.effect == Effect::DryRun {
            return Ok(Step::Done(Done::WouldSign { signatures: prepared.items.len() }));
        }
        let keep = if self.request.options.if_signed == IfSigned::Add { Keep::Others } else { Keep::Nothing };
        let staged = beside.stage(source, prepared.beside.clone(), keep, self.packet_len_max()?)?;
        for (file, path) in staged.files() {
            let others = self.others(file).count();
            if others >= PACKETS_MAX {
                let limit = u64::try_from(PACKETS_MAX).unwrap_or(u64::MAX);
                let size = limit.saturating_add(1);
                let what = "a list of signatures";
                let source = CryptoError::TooLarge { what, size, limit, unit: "packets" };
                return Err(Error::KeyFile { path, source });
            }
        }
        let place = StagedPlace::Sidecars(Box::new(staged));
        Ok(Step::Ask(Pending { prepared, place, target: None, kept: None }))
    }

    /// The packets of each item, others' first that stay beside ours: with `--if-signed add` those of other keys are kept, and
    /// that is noted; they are not looked at, since their keys are not known here.
    pub(super) fn merged(
        &self,
        staged: &StagedSidecars,
        ours: Vec<Vec<u8>>,
        notes: &mut Vec<String>,
    ) -> Vec<Vec<u8>> {
        let mut kept = 0;
        let mut all = Vec::new();
        for (item, packet) in ours.into_iter().enumerate() {
            let mut bytes = Vec::new();
            for (file, _) in staged.files().filter(|(file, _)| file.item() == item) {
                kept = kept.max(self.others(file).count());
                bytes.extend(self.others(file).flat_map(|packet| packet.bytes()).copied());
            }
            bytes.extend(packet);
            all.push(bytes);
        }
        notes.extend(kept_unchecked(kept));
        let mut paths = staged.files().map(|(_, path)| path).collect::<Vec<_>>();
        // The last is what the report names.
        paths.pop();
        notes.extend(paths.iter().map(|path| format!("and {}", shown(path))));
        all
    }

    /// The signatures that stay beside ours.
    fn others<'a>(&self, file: &'a StagedSidecar) -> impl Iterator<Item = &'a SignaturePacket> + use<'a> {
        let issuer = self.issuer;
        file.kept().iter().filter(move |packet| packet.issuer_fingerprint() != Some(issuer))
    }

    /// Whether the signature files that are there stay, and why.
    fn keep_beside(
        &self,
        beside: &Beside,
        source: &SourceFile,
        prepared: &Prepared,
    ) -> Result<Option<String>, Error> {
        let is_detached = |file: &BesideFile| DETACHED.contains(&file.name);
        match prepared.beside.as_slice() {
            [file] if file.kind == BesideKind::Signatures && is_detached(file) => {
                self.keep_detached(beside, file, source, prepared)
            }
            files => self.keep_all(beside, files, source, prepared),
        }
    }

    fn keep_detached(
        &self,
        beside: &Beside,
        file: &BesideFile,
        source: &SourceFile,
        prepared: &Prepared,
    ) -> Result<Option<String>, Error> {
        for name in DETACHED {
            let there = if name == file.name {
                beside.read_signatures(name)
            } else {
                // Not to be written; other tools use the suffix too.
                beside.read_signatures(name).or(Ok(None))
            };
            let Some(bytes) = there? else { continue };
            if let Some(why) = self.as_told(beside, name)? {
                return Ok(Some(why));
            }
            let options = &self.request.options;
            if options.repeat == Repeat::Skip && self.is_ours(&bytes, source, prepared, file.item, false) {
                return Ok(Some(format!("already signed by this key ({})", label(name))));
            }
        }
        Ok(None)
    }

    /// Files that belong together stay only if each is as it would be made.
    fn keep_all(
        &self,
        beside: &Beside,
        files: &[BesideFile],
        source: &SourceFile,
        prepared: &Prepared,
    ) -> Result<Option<String>, Error> {
        let mut are_ours = true;
        for file in files {
            let is_ours = match file.kind {
                BesideKind::Signatures => beside.read_signatures(file.name)?.map(|bytes| {
                    let alone = self.request.options.if_signed == IfSigned::Replace;
                    self.is_ours(&bytes, source, prepared, file.item, alone)
                }),
                BesideKind::Document { text } => beside
                    .open_document(file.name)?
                    .map(|there| self.is_our_document(&there, text, prepared, file.item)),
            };
            if is_ours.is_some()
                && let Some(why) = self.as_told(beside, file.name)?
            {
                return Ok(Some(why));
            }
            are_ours &= is_ours.unwrap_or_default();
        }
        if !are_ours || self.request.options.repeat == Repeat::Force {
            return Ok(None);
        }
        let names: Vec<&str> = files.iter().map(|file| label(file.name)).collect();
        Ok(Some(format!("already signed by this key ({})", names.join(", "))))
    }

    /// What `--if-signed` says by itself of a signature file that is there.
    fn as_told(&self, beside: &Beside, name: BesideName) -> Result<Option<String>, Error> {
        match self.request.options.if_signed {
            IfSigned::Skip => Ok(Some(format!("already signed (skipped): {} is there", label(name)))),
            IfSigned::Refuse => {
                let by = shown(&beside.path(name));
                Err(sealwright_formats::error::Error::AlreadySigned { by }.into())
            }
            IfSigned::Replace | IfSigned::Add => Ok(None),
        }
    }

    /// Whether a signature file holds a valid signature of our key with the hash asked for; `alone`: and no other.
    fn is_ours(
        &self,
        sidecar: &[u8],
        source: &SourceFile,
        prepared: &Prepared,
        item: usize,
        alone: bool,
    ) -> bool {
        let packets = armor::decode_or_binary(sidecar).and_then(|bytes| SignaturePacket::parse_many(&bytes));
        let (Ok(packets), Some(item)) = (packets, prepared.items.get(item)) else { return false };
        let is_ours = |packet: &SignaturePacket| {
            packet.issuer_fingerprint() == Some(self.issuer)
                && packet.hash() == Some(item.content.hash())
                && self.is_over(packet, source, &item.content)
        };
        (!alone || packets.len() == 1) && packets.iter().any(is_ours)
    }

    /// Whether it is a valid signature over the file. One with a salt needs a hash of its own: the file is read again.
    fn is_over(&self, packet: &SignaturePacket, source: &SourceFile, unsalted: &Hasher) -> bool {
        let valid = |content: &Hasher| verify(packet, content, &self.keyring, now()).state == State::Valid;
        let Some(salt) = packet.salt() else { return valid(unsalted) };
        let Ok(mut content) = Salt::new(unsalted.hash(), salt).map(|salt| salt.hasher()) else {
            return false;
        };
        let read = for_each_chunk(source, 0, source.len(), |chunk| content.update(chunk));
        read.is_ok() && valid(&content)
    }

    /// Whether a clear-signed document has the text of the file and a valid signature of our key with the hash asked for; under
    /// `--if-signed replace`, and no other.
    fn is_our_document(&self, there: &SourceFile, text: Digest, prepared: &Prepared, item: usize) -> bool {
        let context = VerifyContext { keyring: &self.keyring, now: now(), sidecar: None };
        let (Ok(its_text), Ok(packets), Ok(verification), Some(item)) = (
            cleartext::text_of(there),
            cleartext::signatures_of(there),
            Cleartext.verify(there, &context),
            prepared.items.get(item),
        ) else {
            return false;
        };
        let is_alone = packets.len() == 1 || self.request.options.if_signed == IfSigned::Add;
        let mut both = packets.iter().zip(&verification.signatures);
        its_text == text
            && is_alone
            && both.any(|(packet, report)| {
                packet.hash() == Some(item.content.hash()) && report.state == State::Valid
            })
    }
}

const fn label(name: BesideName) -> &'static str {
    match name {
        BesideName::Suffix(name) | BesideName::Whole(name) => name,
    }
}
