//! Packets of a certificate in the headers that gpg writes around them, which clients of `signd` have always got: of the
//! old format with the shortest length, where the packet's type has one (RFC 9580 section 4.2). The bodies stay.

use crate::bytes::Reader;
use crate::error::Error;
use crate::packet::{new_length, old_length};

/// The first type that has no header of the old format.
const OLD_TYPES: u8 = 16;

/// The same packets in gpg's headers.
///
/// # Errors
/// [`Error::Malformed`] for bytes that are no whole packets, or one without a length.
pub fn as_gpg(packets: &[u8]) -> Result<Vec<u8>, Error> {
    let broken = || Error::malformed("certificate", "it is not made of whole packets with lengths");
    let mut reader = Reader(packets);
    let mut out = Vec::with_capacity(packets.len());
    while let Some(first) = reader.u8() {
        let (kind, len) = if first & 0xc0 == 0xc0 {
            (first & 0x3f, new_length(&mut reader))
        } else {
            ((first >> 2) & 0x0f, old_length(first, &mut reader))
        };
        let body = len.filter(|_| first & 0x80 != 0).and_then(|len| reader.take(len)).ok_or_else(broken)?;
        push_header(&mut out, kind, body.len()).ok_or_else(broken)?;
        out.extend_from_slice(body);
    }
    Ok(out)
}

fn push_header(out: &mut Vec<u8>, kind: u8, len: usize) -> Option<()> {
    let bytes = u32::try_from(len).ok()?.to_be_bytes();
    if kind >= OLD_TYPES {
        out.push(0xc0 | kind);
        match bytes {
            [0, 0, 0, short @ 0..192] => out.push(short),
            [0, 0, ..] if len < 8384 => {
                let [high, low] = u16::try_from(len.checked_sub(192)?).ok()?.to_be_bytes();
                out.extend([high.checked_add(192)?, low]);
            }
            _ => {
                out.push(255);
                out.extend(bytes);
            }
        }
        return Some(());
    }
    let head = 0x80 | (kind << 2);
    match bytes {
        [0, 0, 0, short] => out.extend([head, short]),
        [0, 0, high, low] => out.extend([head | 1, high, low]),
        long => {
            out.push(head | 2);
            out.extend(long);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of the new format.
    fn new(kind: u8, len: usize) -> Vec<u8> {
        let mut out = vec![0xc0 | kind, 255];
        out.extend(u32::try_from(len).unwrap().to_be_bytes());
        out.extend(vec![7; len]);
        out
    }

    #[test]
    fn every_packet_gets_the_shortest_header_of_the_old_format_and_keeps_its_body() {
        for (len, head) in [
            (0, &[0x98, 0][..]),
            (255, &[0x98, 255]),
            (256, &[0x99, 1, 0]),
            (65_535, &[0x99, 255, 255]),
            (65_536, &[0x9a, 0, 1, 0, 0]),
        ] {
            let want = [head, &vec![7; len]].concat();
            assert_eq!(as_gpg(&new(6, len)).unwrap(), want, "{len}");
            assert_eq!(as_gpg(&want).unwrap(), want, "{len}");
        }
        let two = [new(6, 3), new(13, 1)].concat();
        assert_eq!(as_gpg(&two).unwrap(), [0x98, 3, 7, 7, 7, 0xb4, 1, 7]);
        assert_eq!(as_gpg(&[]).unwrap(), []);
    }

    #[test]
    fn a_type_that_the_old_format_cannot_say_keeps_the_new_one() {
        for (len, head) in [
            (191, &[0xd1, 191][..]),
            (192, &[0xd1, 192, 0]),
            (8383, &[0xd1, 223, 255]),
            (8384, &[0xd1, 255, 0, 0, 0x20, 0xc0]),
        ] {
            assert_eq!(as_gpg(&new(17, len)).unwrap(), [head, &vec![7; len]].concat(), "{len}");
        }
    }

    #[test]
    fn what_is_not_made_of_whole_packets_is_refused() {
        let good = new(6, 3);
        for len in 1..good.len() {
            assert!(as_gpg(&good[..len]).is_err(), "{len}");
        }
        for bad in [&[0x18, 0][..], &[0x9b, 1], &[0xc6, 0xe1, 1], &[0x98, 0, 0]] {
            assert!(as_gpg(bad).is_err(), "{bad:?}");
        }
    }
}
