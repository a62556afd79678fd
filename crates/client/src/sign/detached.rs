//! Formats whose signature lies beside the file: what `--if-signed` means for them, and standard input.

use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use sealwright_crypto::openpgp::armor::{self, Kind};
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::verify::{State, verify};
use sealwright_formats::openpgp_detached::DETACHED_OUTPUT;
use sealwright_formats::options::{IfSigned, Repeat};
use sealwright_formats::prepared::{Layout, Output, Preparation, Prepared};

use crate::apply::sidecar::{Beside, SUFFIXES};
use crate::batch::Stop;
use crate::error::Error;
use crate::sign::finish::now;
use crate::sign::{Effect, Signer, blocking};
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
        let reading = blocking(move || {
            let mut reader = Counted::new(reader);
            let made = format.prepare_stream(&mut reader, &options, &certificate);
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
        let group = self.group(&prepared, NAME.to_owned(), read_bytes);
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
    pub(super) fn keep_sidecar(&self, beside: &Beside, prepared: &Prepared) -> Result<Option<String>, Error> {
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
                    let by = beside.path(suffix).display().to_string();
                    return Err(sealwright_formats::error::Error::AlreadySigned { by }.into());
                }
                IfSigned::Replace | IfSigned::Add => {}
            }
            if options.repeat == Repeat::Skip && self.is_ours(&bytes, prepared) {
                return Ok(Some(format!("already signed by this key ({suffix})")));
            }
        }
        Ok(None)
    }

    /// Whether a signature file holds a valid signature of our key with the hash asked for.
    fn is_ours(&self, sidecar: &[u8], prepared: &Prepared) -> bool {
        let packets = armor::decode_or_binary(sidecar).and_then(|bytes| SignaturePacket::parse_many(&bytes));
        let (Ok(packets), [item]) = (packets, prepared.items.as_slice()) else { return false };
        packets.iter().any(|packet| {
            packet.issuer_fingerprint() == Some(self.issuer)
                && packet.hash() == Some(item.content.hash())
                && verify(packet, &item.content, &self.keyring, now()).state == State::Valid
        })
    }

    /// With `--if-signed add`, other keys' signatures of the file that is replaced are kept.
    pub(super) fn merge_sidecar(
        &self,
        beside: &Beside,
        suffix: &str,
        ours: Vec<u8>,
    ) -> Result<Vec<u8>, Error> {
        if self.request.options.if_signed != IfSigned::Add {
            return Ok(ours);
        }
        let Some(there) = beside.read_signatures(suffix)? else { return Ok(ours) };
        let unusable = |source| Error::KeyFile { path: beside.path(suffix), source };
        let there = armor::decode_or_binary(&there).map_err(unusable)?;
        let mut all = Vec::new();
        for packet in SignaturePacket::parse_many(&there).map_err(unusable)? {
            if packet.issuer_fingerprint() != Some(self.issuer) {
                all.extend_from_slice(packet.bytes());
            }
        }
        let is_armored = ours.starts_with(b"-----BEGIN");
        all.extend(armor::decode_or_binary(&ours).map_err(unusable)?);
        Ok(if is_armored { armor::encode(Kind::Signature, &all).into_bytes() } else { all })
    }
}
