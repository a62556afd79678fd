//! Standard input: signed once, without keeping it where the format can.

use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_formats::prepared::{Layout, NewContent, Output, Preparation};

use crate::batch::Stop;
use crate::error::Error;
use crate::sign::salts::Ticket;
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
    /// The signature file's content; of a clear-signed document all of it.
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
            answer = self.way.ask_alone(&group, stop) => answer?,
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
        let contents = match prepared.plan.output(&packets, Layout::Tight)? {
            Output::Beside(contents) => contents,
            Output::Edits(_) => Vec::new(),
        };
        let Some(NewContent::Bytes(signature)) = contents.into_iter().next() else {
            return Err(Error::Internal("a stream cannot be edited"));
        };
        Ok(StreamDone::Signed(StreamSigned {
            signature,
            read_bytes,
            sent_bytes,
            log_indexes,
            issuer: self.issuer,
            request_id: answer.request_id,
            server: answer.server,
            elapsed: begun.elapsed(),
        }))
    }
}
