//! ASCII armor (RFC 9580 section 6). Writing: 64 columns and the CRC, which old versions of rpm want. Reading:
//! CRLF, blanks at line ends, text around blocks, a missing CRC and several blocks are tolerated; a wrong
//! CRC, a foreign character or a missing end is not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::Error;

/// Most bytes of key material or signatures that are read in one go: the keys of a whole distribution fit in
/// 1 MiB, and what is larger is a wrong file.
pub const INPUT_BYTES_MAX: usize = 16 << 20;

/// Base64 digits a line, as gpg writes them.
const COLUMNS: usize = 64;

/// What a block says it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A certificate, or several.
    PublicKey,
    /// A transferable secret key.
    PrivateKey,
    /// A detached signature.
    Signature,
}

impl Kind {
    const ALL: [Self; 3] = [Self::PublicKey, Self::PrivateKey, Self::Signature];

    const fn label(self) -> &'static str {
        match self {
            Self::PublicKey => "PGP PUBLIC KEY BLOCK",
            Self::PrivateKey => "PGP PRIVATE KEY BLOCK",
            Self::Signature => "PGP SIGNATURE",
        }
    }
}

/// Wraps `bytes` into one block, without armor headers.
#[must_use]
pub fn encode(kind: Kind, bytes: &[u8]) -> String {
    let mut out = format!("-----BEGIN {}-----\n\n", kind.label());
    let text = STANDARD.encode(bytes);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at_checked(COLUMNS).unwrap_or((rest, ""));
        out.push_str(line);
        out.push('\n');
        rest = tail;
    }
    let [_, crc @ ..] = crc24(bytes).to_be_bytes();
    out.push('=');
    out.push_str(&STANDARD.encode(crc));
    out.push_str("\n-----END ");
    out.push_str(kind.label());
    out.push_str("-----\n");
    out
}

/// The packets in `bytes`: as they are if they are binary, else those of all armor blocks, joined.
///
/// # Errors
/// [`Error::TooLarge`] above [`INPUT_BYTES_MAX`]; [`Error::Malformed`] if it is neither, or a block is damaged;
/// [`Error::Unsupported`] for a block of another kind.
pub fn decode_or_binary(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    if bytes.len() > INPUT_BYTES_MAX {
        return Err(Error::TooLarge {
            what: "OpenPGP data",
            size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            limit: u64::try_from(INPUT_BYTES_MAX).unwrap_or(u64::MAX),
            unit: "bytes",
        });
    }
    // Every packet starts with bit 7 set (section 4.2). So does a byte order mark, which is no packet.
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match text.first() {
        None => Err(Error::malformed("OpenPGP data", "it is empty")),
        Some(first) if first & 0x80 != 0 => Ok(bytes.to_vec()),
        Some(_) => decode_blocks(text),
    }
}

fn decode_blocks(text: &[u8]) -> Result<Vec<u8>, Error> {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut out = Vec::new();
    let mut blocks = 0_usize;
    while let Some(line) = lines.next() {
        let Some(label) = boundary(line, b"-----BEGIN ") else { continue };
        let kind = Kind::ALL.into_iter().find(|kind| kind.label().as_bytes() == label);
        let Some(kind) = kind else {
            return Err(Error::Unsupported {
                what: "armor block",
                name: String::from_utf8_lossy(label).chars().take(40).collect(),
            });
        };
        out.extend(decode_block(kind, &mut lines)?);
        blocks = blocks.saturating_add(1);
    }
    if blocks == 0 {
        return Err(Error::malformed("OpenPGP data", "it is neither binary nor ASCII armor"));
    }
    Ok(out)
}

/// The label between the dashes, if `line` is a boundary of this kind.
fn boundary<'a>(line: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    line.strip_prefix(start)?.strip_suffix(b"-----")
}

/// Reads to the end line of a block whose first line was taken.
fn decode_block<'a>(kind: Kind, lines: &mut impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>, Error> {
    let bad = |reason| Error::malformed("ASCII armor", reason);
    let mut digits = Vec::new();
    let mut crc = None;
    for line in lines {
        if let Some(label) = boundary(line, b"-----END ") {
            if label != kind.label().as_bytes() {
                return Err(bad("the end line is that of another kind of block"));
            }
            let data = STANDARD.decode(&digits).map_err(|_| bad("it is not base64"))?;
            if crc.is_some_and(|crc| crc != crc24(&data)) {
                return Err(bad("the checksum does not match: the block is damaged"));
            }
            return Ok(data);
        }
        if crc.is_some() && !line.is_empty() {
            return Err(bad("something follows the checksum"));
        }
        let in_headers = digits.is_empty();
        if let Some(check) = line.strip_prefix(b"=").filter(|check| check.len() == 4) {
            let bytes = STANDARD.decode(check).map_err(|_| bad("the checksum is not base64"))?;
            let [a, b, c] = bytes.try_into().map_err(|_| bad("the checksum is not 24 bits"))?;
            crc = Some(u32::from_be_bytes([0, a, b, c]));
        } else if !(in_headers && line.contains(&b':')) {
            digits.extend_from_slice(line);
        }
    }
    Err(bad("the end line is missing: the block is truncated"))
}

/// CRC-24 of RFC 9580 section 6.1.
fn crc24(bytes: &[u8]) -> u32 {
    let mut crc: u32 = 0x00b7_04ce;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
        }
    }
    crc & 0x00ff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: &[u8] = &[0x99, 1, 2, 3, 4, 5, 6, 7, 8, 9];

    #[test]
    fn what_is_encoded_decodes_for_every_length() {
        for kind in Kind::ALL {
            for len in 0..200 {
                let bytes = vec![0x99; len];
                assert_eq!(decode_or_binary(encode(kind, &bytes).as_bytes()).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn the_text_is_what_gpg_writes() {
        // gpg --enarmor writes these lines, with another label.
        assert_eq!(
            encode(Kind::Signature, b"\x99ab"),
            "-----BEGIN PGP SIGNATURE-----\n\nmWFi\n=/KGh\n-----END PGP SIGNATURE-----\n"
        );
    }

    #[test]
    fn binary_is_passed_through() {
        assert_eq!(decode_or_binary(BYTES).unwrap(), BYTES);
    }

    #[test]
    fn crlf_headers_text_around_and_byte_order_mark_are_tolerated() {
        let text =
            encode(Kind::PublicKey, BYTES).replace("-----\n\n", "-----\nVersion: X 1\nComment: a: b\n\n");
        let text =
            format!("\u{feff}pub  ed25519\nNote: this is a key\n\n{text}\nbye\n").replace('\n', "\r\n");
        assert_eq!(decode_or_binary(text.as_bytes()).unwrap(), BYTES);
    }

    #[test]
    fn a_missing_checksum_is_tolerated_and_a_wrong_one_is_not() {
        let text = encode(Kind::PublicKey, BYTES);
        let crc = text.lines().find(|line| line.starts_with('=')).unwrap().to_owned();
        let without: String =
            text.lines().filter(|line| *line != crc).map(|line| format!("{line}\n")).collect();
        assert_eq!(decode_or_binary(without.as_bytes()).unwrap(), BYTES);
        let wrong = text.replace(&crc, "=AAAA");
        assert!(matches!(decode_or_binary(wrong.as_bytes()), Err(Error::Malformed { .. })));
    }

    #[test]
    fn a_checksum_line_of_padding_only_data_is_not_confused() {
        // Data whose base64 ends in padding on a line of its own would start with '='; it never does: the
        // encoder breaks at 64, a multiple of four.
        for len in [48, 47, 46, 96, 95, 94] {
            let bytes = vec![0x80; len];
            assert_eq!(decode_or_binary(encode(Kind::Signature, &bytes).as_bytes()).unwrap(), bytes);
        }
    }

    #[test]
    fn several_blocks_are_joined() {
        let text = [encode(Kind::PublicKey, BYTES), encode(Kind::PublicKey, BYTES)].concat();
        assert_eq!(decode_or_binary(text.as_bytes()).unwrap(), [BYTES, BYTES].concat());
    }

    #[test]
    fn truncated_foreign_and_damaged_blocks_are_refused() {
        let text = encode(Kind::PublicKey, BYTES);
        for bad in [
            String::new(),
            "hello\n".to_owned(),
            text.replace("-----END PGP PUBLIC KEY BLOCK-----\n", ""),
            text.replace("-----END PGP PUBLIC", "-----END PGP PRIVATE"),
            text.replace("PUBLIC KEY BLOCK", "SIGNED MESSAGE"),
            text.replace("AwQ", "A*Q"),
            text.replace("-----END", "AAAA\n-----END"),
        ] {
            assert!(decode_or_binary(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn input_over_the_limit_is_refused_by_size() {
        assert!(matches!(decode_or_binary(&vec![0x99; INPUT_BYTES_MAX + 1]), Err(Error::TooLarge { .. })));
    }
}
