//! OpenPGP packets in a row (RFC 9580 section 4.2), cut but not read: certificates and secret keys pass through us
//! with every packet that we do not change kept as it came.

use pgp::packet::PacketHeader;
use pgp::ser::Serialize as _;
use pgp::types::{PacketLength, Tag};
use sealwright_crypto::error::Error as CryptoError;

/// One packet.
#[derive(Clone, Copy)]
pub(crate) struct RawPacket<'a> {
    pub(crate) tag: Tag,
    /// Without header.
    pub(crate) body: &'a [u8],
    /// With header.
    pub(crate) whole: &'a [u8],
}

/// Most packets in one certificate or key file.
const PACKETS_MAX: usize = 16_384;

/// Cuts `bytes` into packets.
///
/// # Errors
/// [`CryptoError::Malformed`] for broken or partial lengths, [`CryptoError::TooLarge`] above [`PACKETS_MAX`].
pub(crate) fn split(bytes: &[u8]) -> Result<Vec<RawPacket<'_>>, CryptoError> {
    let bad = |reason| CryptoError::malformed("OpenPGP key", reason);
    let mut packets = Vec::new();
    let mut start = bytes;
    while !start.is_empty() {
        if packets.len() == PACKETS_MAX {
            let limit = u64::try_from(PACKETS_MAX).unwrap_or(u64::MAX);
            let size = limit.saturating_add(1);
            return Err(CryptoError::TooLarge { what: "OpenPGP key", size, limit, unit: "packets" });
        }
        let mut rest = start;
        let header = PacketHeader::try_from_reader(&mut rest)
            .map_err(|_| bad("a packet header is not well formed"))?;
        let PacketLength::Fixed(len) = header.packet_length() else {
            return Err(bad("a packet has no definite length"));
        };
        let len = usize::try_from(len).map_err(|_| bad("a packet is too long"))?;
        let (body, rest) = rest.split_at_checked(len).ok_or_else(|| bad("it is truncated"))?;
        let (whole, next) = start
            .split_at_checked(start.len().saturating_sub(rest.len()))
            .ok_or_else(|| bad("it is truncated"))?;
        packets.push(RawPacket { tag: header.tag(), body, whole });
        start = next;
    }
    Ok(packets)
}

/// A packet with a header of the present format.
///
/// # Errors
/// [`CryptoError::Malformed`] if it is longer than 4 GiB.
pub(crate) fn write(tag: Tag, body: &[u8]) -> Result<Vec<u8>, CryptoError> {
    let len = u32::try_from(body.len()).map_err(|_| CryptoError::malformed("packet", "it is too long"))?;
    let mut out = Vec::with_capacity(body.len().saturating_add(6));
    PacketHeader::new_fixed(tag, len)
        .to_writer(&mut out)
        .map_err(|error| CryptoError::packet("packet", error))?;
    out.extend_from_slice(body);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_splits_again() {
        let mut bytes = Vec::new();
        for len in [0, 1, 191, 192, 8383, 8384, 70_000] {
            bytes.extend(write(Tag::UserId, &vec![7; len]).unwrap());
        }
        let packets = split(&bytes).unwrap();
        let lens: Vec<_> = packets.iter().map(|packet| packet.body.len()).collect();
        assert_eq!(lens, [0, 1, 191, 192, 8383, 8384, 70_000]);
        assert_eq!(packets.iter().map(|packet| packet.whole.len()).sum::<usize>(), bytes.len());
    }

    #[test]
    fn cut_partial_and_too_many_packets_are_refused() {
        let bytes = write(Tag::UserId, &[7; 300]).unwrap();
        for len in 1..bytes.len() {
            assert!(split(&bytes[..len]).is_err(), "{len}");
        }
        assert!(split(&[0xcd, 0xe1, 1, 2, 1, 3]).is_err(), "partial length");
        assert!(split(&[0x00, 1, 2]).is_err(), "no packet");
        assert!(split(&[0xcd, 0].repeat(PACKETS_MAX)).is_ok());
        assert!(matches!(split(&[0xcd, 0].repeat(PACKETS_MAX + 1)), Err(CryptoError::TooLarge { .. })));
    }
}
