//! Packet framing (RFC 9580 section 4.2), both header formats. Lengths that are not known in advance (partial,
//! indeterminate) exist for streamed data only, and are refused: keys and signatures never need them.

use crate::error::Error;

/// The packet types that we look at (RFC 9580 section 5).
pub(crate) mod tag {
    pub(crate) const SIGNATURE: u8 = 2;
    pub(crate) const SECRET_KEY: u8 = 5;
    pub(crate) const PUBLIC_KEY: u8 = 6;
    pub(crate) const SECRET_SUBKEY: u8 = 7;
    pub(crate) const MARKER: u8 = 10;
    pub(crate) const TRUST: u8 = 12;
    pub(crate) const USER_ID: u8 = 13;
    pub(crate) const PUBLIC_SUBKEY: u8 = 14;
}

/// One packet, not interpreted.
#[derive(Clone, Copy)]
pub(crate) struct RawPacket<'a> {
    /// The packet type.
    pub(crate) tag: u8,
    /// Header and body, as they came.
    pub(crate) whole: &'a [u8],
    /// The body.
    pub(crate) body: &'a [u8],
}

/// Takes the packet at the head of `bytes`; returns it and what follows.
///
/// # Errors
/// [`Error::Malformed`], naming `what`.
pub(crate) fn split_first<'a>(
    what: &'static str,
    bytes: &'a [u8],
) -> Result<(RawPacket<'a>, &'a [u8]), Error> {
    let truncated = || Error::malformed(what, "it is truncated");
    let mut reader = Reader(bytes);
    let first = reader.u8().ok_or_else(truncated)?;
    if first & 0x80 == 0 {
        return Err(Error::malformed(what, "it does not start with a packet header"));
    }
    let (tag, length) = if first & 0x40 != 0 {
        (first & 0x3f, new_length(what, &mut reader)?)
    } else {
        let length = match first & 3 {
            0 => reader.u8().map(u32::from),
            1 => reader.u16().map(u32::from),
            2 => reader.u32(),
            _ => return Err(Error::malformed(what, "its length is indeterminate")),
        };
        ((first >> 2) & 0x0f, length.ok_or_else(truncated)?)
    };
    let body = reader.take(usize::try_from(length).unwrap_or(usize::MAX)).ok_or_else(truncated)?;
    let rest = reader.0;
    let whole = bytes.get(..bytes.len().saturating_sub(rest.len())).unwrap_or_default();
    Ok((RawPacket { tag, whole, body }, rest))
}

/// Section 4.2.1.
fn new_length(what: &'static str, reader: &mut Reader<'_>) -> Result<u32, Error> {
    let truncated = || Error::malformed(what, "it is truncated");
    match reader.u8().ok_or_else(truncated)? {
        short @ 0..192 => Ok(u32::from(short)),
        high @ 192..224 => {
            let low = reader.u8().ok_or_else(truncated)?;
            Ok(two_octets(high, low))
        }
        224..255 => Err(Error::malformed(what, "its length is partial")),
        255 => reader.u32().ok_or_else(truncated),
    }
}

/// The two-octet length of new packets and of subpackets; `high` is at least 192.
pub(crate) fn two_octets(high: u8, low: u8) -> u32 {
    (u32::from(high.saturating_sub(192)) << 8).saturating_add(192).saturating_add(u32::from(low))
}

/// One packet with a header of the new format and the shortest length.
pub(crate) fn write_packet(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0xc0 | (tag & 0x3f)];
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    match length {
        0..192 => out.push(u8::try_from(length).unwrap_or_default()),
        192..8384 => {
            let [.., high, low] = length.saturating_sub(192).to_be_bytes();
            out.extend([high.saturating_add(192), low]);
        }
        8384.. => {
            out.push(255);
            out.extend(length.to_be_bytes());
        }
    }
    out.extend_from_slice(body);
    out
}

/// Takes fields from the head of a slice; `None` when it is too short.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_packets_of_every_length_class_are_read_back() {
        for len in [0, 1, 191, 192, 193, 8383, 8384, 70_000] {
            let body = vec![7; len];
            let mut bytes = write_packet(tag::USER_ID, &body);
            let whole = bytes.clone();
            bytes.push(0xff);
            let (packet, rest) = split_first("packet", &bytes).unwrap();
            assert_eq!(
                (packet.tag, packet.body, packet.whole, rest),
                (13, &body[..], &whole[..], &[0xff][..])
            );
        }
    }

    #[test]
    fn old_headers_of_every_length_class_are_read() {
        for header in [&[0xb4, 2][..], &[0xb5, 0, 2], &[0xb6, 0, 0, 0, 2]] {
            let bytes = [header, b"ab"].concat();
            let (packet, rest) = split_first("packet", &bytes).unwrap();
            assert_eq!((packet.tag, packet.body, rest), (13, &b"ab"[..], &b""[..]));
        }
    }

    #[test]
    fn lengths_of_streams_and_lengths_past_the_end_are_refused() {
        for bad in [
            &[][..],
            &[0x34, 1, 0],
            &[0xb7, 0],
            &[0xcd, 0xe1, 0, 0],
            &[0xcd, 3, 0],
            &[0xcd, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0xcd, 0xc0],
            &[0xb6, 0, 0],
        ] {
            assert!(split_first("packet", bad).is_err(), "{bad:?}");
        }
    }
}
