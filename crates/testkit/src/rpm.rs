//! A reader of RPM packages for tests, written apart from the product's: lead, signature header, main header.
//! It trusts its input.

use base64::Engine as _;

/// Bytes of the lead.
const LEAD: usize = 96;
/// Bytes before the index of a header: magic, version, reserved, two counts.
const INTRO: usize = 16;
/// Tag of signatures of any kind, base64 (rpm 6).
pub const OPENPGP: u32 = 278;
/// Tag of an RSA signature over the main header.
pub const RSA_HEADER: u32 = 268;
/// Tag of a DSA or EdDSA signature over the main header.
pub const DSA_HEADER: u32 = 267;
/// Tag of an RSA signature over header and payload.
pub const PGP: u32 = 1002;
/// Tag of a DSA or EdDSA signature over header and payload.
pub const GPG: u32 = 1005;
/// Reserve of a v4 package in the signature header.
pub const RESERVED_SPACE: u32 = 1008;
/// Reserve of a v6 package.
pub const RESERVED: u32 = 999;

/// A package, cut into its parts.
pub struct Package<'a> {
    /// Index entries of the signature header.
    pub signature: Vec<Entry<'a>>,
    /// The main header: the bytes that a header signature covers.
    pub header: &'a [u8],
    /// The main header and everything after it.
    pub header_and_payload: &'a [u8],
    /// Index entries of the main header.
    pub main: Vec<Entry<'a>>,
}

/// One tag of a header.
pub struct Entry<'a> {
    /// Number of the tag.
    pub tag: u32,
    /// Type number: 6 a string, 7 binary, 8 an array of strings.
    pub kind: u32,
    /// Count of values.
    pub count: u32,
    /// The data area from the value on.
    pub data: &'a [u8],
}

impl<'a> Package<'a> {
    /// Cuts a well-formed package.
    ///
    /// # Panics
    /// It is not one.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Self {
        assert_eq!(&bytes[..4], b"\xed\xab\xee\xdb", "no lead");
        let (signature, length) = header(&bytes[LEAD..]);
        let start = (LEAD + length).next_multiple_of(8);
        let (main, length) = header(&bytes[start..]);
        Self { signature, header: &bytes[start..start + length], header_and_payload: &bytes[start..], main }
    }

    /// Whether rpm 6 made it in its own form (the main header has RPMFORMAT 6).
    #[must_use]
    pub fn is_v6(&self) -> bool {
        const RPM_FORMAT: u32 = 5114;
        self.main.iter().any(|entry| entry.tag == RPM_FORMAT && entry.data[..4] == 6_u32.to_be_bytes())
    }

    /// Tags of the signature header, in order.
    #[must_use]
    pub fn signature_tags(&self) -> Vec<u32> {
        self.signature.iter().map(|entry| entry.tag).collect()
    }

    /// Bytes of a binary tag of the signature header.
    #[must_use]
    pub fn binary(&self, tag: u32) -> Option<&'a [u8]> {
        let entry = self.signature.iter().find(|entry| entry.tag == tag && entry.kind == 7)?;
        Some(&entry.data[..usize::try_from(entry.count).expect("a count")])
    }

    /// Signature packets of tag 278.
    ///
    /// # Panics
    /// One of them is not base64.
    #[must_use]
    pub fn openpgp(&self) -> Vec<Vec<u8>> {
        let Some(entry) = self.signature.iter().find(|entry| entry.tag == OPENPGP) else { return Vec::new() };
        assert!(entry.kind == 8, "tag 278 has type {}", entry.kind);
        entry
            .data
            .split(|byte| *byte == 0)
            .take(usize::try_from(entry.count).expect("a count"))
            .map(|text| {
                let joined: Vec<u8> =
                    text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
                base64::engine::general_purpose::STANDARD.decode(joined).expect("base64 in tag 278")
            })
            .collect()
    }

    /// Whether the signature header has a reserve of one of the two kinds.
    #[must_use]
    pub fn has_reserve(&self) -> bool {
        self.signature.iter().any(|entry| [RESERVED_SPACE, RESERVED].contains(&entry.tag))
    }
}

/// Entries of a header and its length in bytes.
fn header(bytes: &[u8]) -> (Vec<Entry<'_>>, usize) {
    assert_eq!(&bytes[..4], b"\x8e\xad\xe8\x01", "no header");
    let entries = number(bytes, 8);
    let data_start = INTRO + 16 * entries;
    let length = data_start + number(bytes, 12);
    let data = &bytes[data_start..length];
    let index = (0..entries).map(|position| {
        let at = INTRO + 16 * position;
        let word = |offset: usize| {
            u32::from_be_bytes(bytes[at + offset..at + offset + 4].try_into().expect("4 bytes"))
        };
        Entry {
            tag: word(0),
            kind: word(4),
            count: word(12),
            data: data.get(number(bytes, at + 8)..).unwrap_or_default(),
        }
    });
    (index.collect(), length)
}

fn number(bytes: &[u8], at: usize) -> usize {
    let word = u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    usize::try_from(word).expect("32 bits fit")
}
