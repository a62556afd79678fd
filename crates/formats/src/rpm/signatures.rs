//! The OpenPGP signatures that are in a package, parsed but not checked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::packet::{PACKET_BYTES_MAX, PACKETS_MAX, SignaturePacket};

use super::header::Kind;
use super::signature_header::{Item, SignatureHeader};
use super::tags;

/// What a signature covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Covers {
    /// The main header.
    Header,
    /// The main header and the payload.
    HeaderAndPayload,
}

/// One signature.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) tag: u32,
    /// Position in tag 278, from 0.
    pub(super) number: usize,
    pub(super) covers: Covers,
    /// The packet, or why it is none.
    pub(super) packet: Result<SignaturePacket, String>,
    /// Where else the same packet is: rpm 6 writes one signature to tag 278 and to 267 or 268.
    pub(super) also: Vec<u32>,
}

impl Found {
    /// `RSAHEADER (268)`, `OPENPGP (278) #2`.
    pub(super) fn place(&self) -> String {
        let mut place = format!("{} ({})", tags::signature_name(self.tag), self.tag);
        if self.tag == tags::OPENPGP {
            place.push_str(&format!(" #{}", self.number.saturating_add(1)));
        }
        for tag in &self.also {
            place.push_str(&format!(", {} ({tag})", tags::signature_name(*tag)));
        }
        place
    }

    /// Whether it says that a key of this certificate made it.
    pub(super) fn claims(&self, key: &Certificate) -> bool {
        self.packet.as_ref().is_ok_and(|packet| is_by(packet, key))
    }

    /// For messages: `rsa header signature of key 0123...`.
    pub(super) fn describe(&self) -> String {
        let covers = match self.covers {
            Covers::Header => "header",
            Covers::HeaderAndPayload => "header+payload",
        };
        match &self.packet {
            Ok(packet) => {
                let (algorithm, issuer) = (packet.key_algorithm_name(), packet.issuer_hex());
                let issuer = if issuer.is_empty() { "that it does not name".to_owned() } else { issuer };
                format!("{algorithm} {covers} signature of key {issuer}")
            }
            Err(_) => format!("malformed {covers} signature in {}", self.place()),
        }
    }
}

/// Whether `packet` says that a key of this certificate made it.
pub(super) fn is_by(packet: &SignaturePacket, key: &Certificate) -> bool {
    key.components().iter().any(|component| match packet.issuer_fingerprint() {
        Some(issuer) => issuer == component.fingerprint(),
        None => packet.issuer_key_id() == Some(component.fingerprint().key_id()),
    })
}

/// Every signature, those of tag 278 first, each packet once.
pub(super) fn find(header: &SignatureHeader) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for tag in [tags::OPENPGP, tags::DSA_HEADER, tags::RSA_HEADER, tags::PGP, tags::GPG, tags::PGP5] {
        let Some(item) = header.find(tag) else { continue };
        let covers = match tag {
            tags::PGP | tags::GPG | tags::PGP5 => Covers::HeaderAndPayload,
            _ => Covers::Header,
        };
        for (number, packet) in packets(item).into_iter().enumerate() {
            let same = all.iter_mut().find(|known| match (&known.packet, &packet) {
                (Ok(one), Ok(other)) => one.bytes() == other.bytes() && known.covers == covers,
                _ => false,
            });
            match same {
                Some(known) => known.also.push(tag),
                None => all.push(Found { tag, number, covers, packet, also: Vec::new() }),
            }
        }
    }
    all
}

/// The packets of one entry: its bytes, or the base64 of each of its strings.
fn packets(item: &Item) -> Vec<Result<SignaturePacket, String>> {
    if item.data.left_filled().is_some() {
        return vec![Err("it is too large".to_owned())];
    }
    if item.tag != tags::OPENPGP {
        if item.kind != Kind::Binary {
            return vec![Err("its tag has the wrong type".to_owned())];
        }
        return vec![parse(item.data.bytes())];
    }
    if item.kind != Kind::StringArray {
        return vec![Err("its tag has the wrong type".to_owned())];
    }
    let mut packets: Vec<_> = item.strings_of().take(PACKETS_MAX).map(decode).collect();
    if item.strings_of().nth(PACKETS_MAX).is_some() {
        packets.push(Err(format!("more than {PACKETS_MAX} signatures")));
    }
    packets
}

/// One string of tag 278. Line breaks are tolerated, as rpm does.
fn decode(text: &[u8]) -> Result<SignaturePacket, String> {
    if text.len() > PACKET_BYTES_MAX.saturating_mul(2) {
        return Err("it is too large".to_owned());
    }
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let bytes = STANDARD.decode(text).map_err(|_| "it is not base64".to_owned())?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<SignaturePacket, String> {
    SignaturePacket::parse(bytes).map_err(|error| error.to_string())
}

/// A packet as a string of tag 278.
pub(super) fn encode(packet: &[u8]) -> Vec<u8> {
    STANDARD.encode(packet).into_bytes()
}
