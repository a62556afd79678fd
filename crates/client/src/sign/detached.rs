//! Formats whose signature lies beside the file: what `--if-signed` means for them, and standard input.

use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use sealwright_crypto::digest::Hasher;
use sealwright_crypto::error::Error as CryptoError;
use sealwright_crypto::openpgp::armor::{self, Kind};
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::packet::{PACKETS_MAX, SignaturePacket};
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::verify::{State, verify};
use sealwright_formats::openpgp_detached::DETACHED_OUTPUT;
use sealwright_formats::options::{IfSigned, Repeat};
use sealwright_formats::prepared::{Layout, Output, Preparation, Prepared, kept_unchecked};
use sealwright_formats::source::{ReadAt as _, for_each_chunk};

use crate::apply::sidecar::{Beside, SUFFIXES, StagedSidecar};
use crate::batch::Stop;
use crate::error::Error;
use crate::shown::shown;
use crate::sign::finish::now;
use crate::sign::salts::Ticket;
use crate::sign::{Effect, Signer, blocking};
use crate::source::file::SourceFile;
use crate::source::stdin::{Counted, NAME};

/// What became of standard input.
#[derive(Debug)]
pub enum StreamDone {
    /// It was signed.
    Signed(StreamSigned),
    /// `--dry-run`: it would be.
    WouldSign {
        /// Bytes that were read.
        read_bytes: u64,
        /// From the first byte to the last.
        elapsed: std::time::Duration,
    },
}

/// A signature over standard input.
#[derive(Debug)]
pub struct StreamSigned {
    /// The signature file's content.
    pub signature: Vec<u8>,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were sent.
    pub sent_bytes: u64,
    /// Indexes of the log entries.
    pub log_indexes: Vec<u64>,
    /// Fingerprint of the component that signed.
    pub issuer: Fingerprint,
    /// Id of the request.
    pub request_id: String,
    /// The server that answered, if it is another process.
    pub server: Option<Arc<str>>,
    /// From the first byte to the signature.
    pub elapsed: std::time::Duration,
}

impl Signer {
    /// Signs what `reader` gives, once, without keeping it. A stop ends it at once until a signature is asked for; a
    /// reader that waits then stays behind on its thread.
    ///
    /// # Errors
    /// No format was named that can do it, reading failed, a stop was asked for, or no signature was given.
    pub async fn sign_stream(
        self: &Arc<Self>,
        reader: impl Read + Send + 'static,
        stop: &Stop,
    ) -> Result<StreamDone, Error> {
        let begun = Instant::now();
        let Some(format) = self.request.format.and_then(sealwright_formats::by_name) else {
            return Err(Error::StreamWithoutFormat);
        };
        // Not `self`: a thread that waits for input after a stop must not keep the connection open.
        let (options, certificate) = (self.request.options.clone(), self.certificate.clone());
        let tickets = self.take_tickets().await?;
        let salts: Vec<Salt> = tickets.iter().map(Ticket::salt).collect();
        let reading = blocking(move || {
            let mut reader = Counted::new(reader);
            let made = format.prepare_stream(&mut reader, &options, &certificate, &salts);
            (made, reader.read_bytes())
        });
        let (preparation, read_bytes) = tokio::select! {
            biased;
            () = stop.asked() => return Err(Error::Stopped),
            read = reading => read?,
        };
        let prepared = match preparation? {
            Preparation::Sign(prepared) => prepared,
            Preparation::Leave { .. } => return Err(Error::Internal("a stream cannot be signed already")),
        };
        if self.request.effect == Effect::DryRun {
            return Ok(StreamDone::WouldSign { read_bytes, elapsed: begun.elapsed() });
        }
        let group = self.group(&prepared, &tickets, NAME.to_owned(), read_bytes);
        let mut answer = tokio::select! {
            biased;
            answer = self.connection.sign_unless_stopped(&group, Some(stop)) => answer?,
            () = stop.forced() => return Err(Error::Stopped),
        };
        let sent_bytes = answer.sent_bytes;
        let mut packets = Vec::new();
        let mut log_indexes = Vec::new();
        for (item, outcome) in prepared.items.iter().zip(answer.items.drain(..)) {
            let signature = outcome?;
            self.check_one(item, &signature)?;
            log_indexes.push(signature.log_index);
            packets.push(signature.packet);
        }
        match prepared.plan.output(&packets, Layout::Tight)? {
            Output::Sidecar { bytes, .. } => Ok(StreamDone::Signed(StreamSigned {
                signature: bytes,
                read_bytes,
                sent_bytes,
                log_indexes,
                issuer: self.issuer,
                request_id: answer.request_id,
                server: answer.server,
                elapsed: begun.elapsed(),
            })),
            Output::Edits(_) => Err(Error::Internal("a stream cannot be edited")),
        }
    }

    /// Whether a signature file that is there stays, and why.
    pub(super) fn keep_sidecar(
        &self,
        beside: &Beside,
        source: &SourceFile,
        prepared: &Prepared,
    ) -> Result<Option<String>, Error> {
        let options = &self.request.options;
        let ours = format!(".{}", options.format.value(&DETACHED_OUTPUT));
        for suffix in SUFFIXES {
            let there = if suffix == ours {
                beside.read_signatures(suffix)
            } else {
                // Not to be written; other tools use the suffix too.
                beside.read_signatures(suffix).or(Ok(None))
            };
            let Some(bytes) = there? else { continue };
            match options.if_signed {
                IfSigned::Skip => return Ok(Some(format!("already signed (skipped): {suffix} is there"))),
                IfSigned::Refuse => {
                    let by = shown(&beside.path(suffix));
                    return Err(sealwright_formats::error::Error::AlreadySigned { by }.into());
                }
                IfSigned::Replace | IfSigned::Add => {}
            }
            if options.repeat == Repeat::Skip && self.is_ours(&bytes, source, prepared) {
                return Ok(Some(format!("already signed by this key ({suffix})")));
            }
        }
        Ok(None)
    }

    /// Whether a signature file holds a valid signature of our key with the hash asked for.
    fn is_ours(&self, sidecar: &[u8], source: &SourceFile, prepared: &Prepared) -> bool {
        let packets = armor::decode_or_binary(sidecar).and_then(|bytes| SignaturePacket::parse_many(&bytes));
        let (Ok(packets), [item]) = (packets, prepared.items.as_slice()) else { return false };
        packets.iter().any(|packet| {
            packet.issuer_fingerprint() == Some(self.issuer)
                && packet.hash() == Some(item.content.hash())
                && self.is_over(packet, source, &item.content)
        })
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

    /// With `--if-signed add`, other keys' signatures of the file that is replaced are kept, and that is noted: they
    /// are not looked at, since their keys are not known here.
    pub(super) fn merge_sidecar(
        &self,
        staged: &StagedSidecar,
        ours: Vec<u8>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<u8>, Error> {
        let others = self.others(staged)?;
        if others.is_empty() {
            return Ok(ours);
        }
        notes.extend(kept_unchecked(others.len()));
        let mut all: Vec<u8> = others.iter().flat_map(|packet| packet.bytes()).copied().collect();
        let is_armored = ours.starts_with(b"-----BEGIN");
        let unusable = |source| Error::KeyFile { path: staged.path(), source };
        all.extend(armor::decode_or_binary(&ours).map_err(unusable)?);
        Ok(if is_armored { armor::encode(Kind::Signature, &all).into_bytes() } else { all })
    }

    /// The signatures that stay beside ours.
    ///
    /// # Errors
    /// With ours there would be more than anybody reads: tried before it is asked for.
    pub(super) fn others(&self, staged: &StagedSidecar) -> Result<Vec<SignaturePacket>, Error> {
        let Some(there) = staged.kept() else { return Ok(Vec::new()) };
        let unusable = |source| Error::KeyFile { path: staged.path(), source };
        let there = armor::decode_or_binary(there).map_err(unusable)?;
        let mut packets = SignaturePacket::parse_many(&there).map_err(unusable)?;
        packets.retain(|packet| packet.issuer_fingerprint() != Some(self.issuer));
        if packets.len() < PACKETS_MAX {
            return Ok(packets);
        }
        let limit = u64::try_from(PACKETS_MAX).unwrap_or(u64::MAX);
        let size = limit.saturating_add(1);
        Err(unusable(CryptoError::TooLarge { what: "a list of signatures", size, limit, unit: "packets" }))
    }
}
