//! `gpg --list-secret-keys --with-colons` (GnuPG, doc/DETAILS, "Format of the colon listings"): which secret keys there
//! are, and which of them can sign. User ids in it are anybody's text.

use core::str;

/// Keys of one home at most; the largest that is known has 122,000.
pub const KEYS_MAX: usize = 500_000;
/// Bytes of one line at most: a user id, escaped.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Subkeys and user ids of one key at most.
const PARTS_MAX: usize = 1_000;

/// What no gpg says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Beyond [`LINE_BYTES_MAX`].
    #[error("a line has more than {LINE_BYTES_MAX} bytes")]
    LongLine,
    /// Beyond [`KEYS_MAX`].
    #[error("it has more than {KEYS_MAX} keys")]
    Keys,
    /// Beyond a thousand.
    #[error("a key has more than {PARTS_MAX} subkeys or user ids")]
    Parts,
    /// A key that nothing can name.
    #[error("a key has no fingerprint")]
    NoFingerprint,
}

/// One key with its subkeys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretKey {
    /// Of the primary key, lower-case hexadecimal.
    pub fingerprint: String,
    /// That are not revoked; bytes that are no UTF-8 are replaced.
    pub user_ids: Vec<String>,
    /// By the owner of the home, `--edit-key disable`.
    pub is_disabled: bool,
    /// The primary key, then its subkeys.
    pub components: Vec<Component>,
}

/// The primary key or a subkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// As the listing says it, with the home's own clock.
    pub validity: Validity,
    /// Number of OpenPGP (RFC 9580 section 9.1).
    pub algorithm: u8,
    /// Of an RSA modulus.
    pub bits: u32,
    /// `ed25519`, `nistp256`; empty where there is none.
    pub curve: String,
    /// Unix seconds; `None`: no expiry.
    pub expires: Option<i64>,
    /// It may make signatures over data.
    pub can_sign: bool,
    /// The secret is in the home, and whole.
    pub has_secret: bool,
}

/// What became of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Nothing.
    Good,
    /// Its time is over.
    Expired,
    /// Its owner took it back.
    Revoked,
    /// Its self-signature is missing or wrong.
    Invalid,
}

impl SecretKey {
    /// The address of a user id: what stands in angle brackets at its end, or all of it, if it is nothing but an address.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.user_ids.iter().filter_map(|text| address(text))
    }
}

fn address(user_id: &str) -> Option<&str> {
    match user_id.strip_suffix('>') {
        Some(start) => start.rsplit_once('<').map(|(_, address)| address),
        None => Some(user_id).filter(|text| text.contains('@') && !text.contains(' ')),
    }
}

/// Takes a listing in pieces of any size.
#[derive(Debug, Default)]
pub struct Reader {
    line: Vec<u8>,
    keys: Vec<SecretKey>,
}

impl Reader {
    /// The next bytes.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Malformed> {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len().saturating_add(piece.len()) > LINE_BYTES_MAX {
                return Err(Malformed::LongLine);
            }
            self.line.extend_from_slice(piece);
            if self.line.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.take(&line)?;
            }
        }
        Ok(())
    }

    /// After the last bytes.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn finish(mut self) -> Result<Vec<SecretKey>, Malformed> {
        let line = std::mem::take(&mut self.line);
        self.take(&line)?;
        self.last_is_named()?;
        Ok(self.keys)
    }

    fn take(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let line = line.trim_ascii_end();
        let mut fields = line.split(|byte| *byte == b':');
        let kind = fields.next().unwrap_or_default();
        let fields: Vec<&[u8]> = fields.collect();
        // Fields are numbered from 1 there, and the kind is the first.
        let field = |number: usize| fields.get(number.saturating_sub(2)).copied().unwrap_or_default();
        match kind {
            b"sec" => {
                self.last_is_named()?;
                if self.keys.len() >= KEYS_MAX {
                    return Err(Malformed::Keys);
                }
                let is_disabled = field(12).contains(&b'D');
                let components = vec![component(field)];
                self.keys.push(SecretKey { is_disabled, components, ..SecretKey::default() });
            }
            b"ssb" => self.part(|key| (&mut key.components, component(field)))?,
            b"uid" if field(2) != b"r" => self.part(|key| (&mut key.user_ids, unescaped(field(10))))?,
            b"fpr" => {
                // Of the subkeys after the first.
                if let Some(key) = self.keys.last_mut().filter(|key| key.fingerprint.is_empty()) {
                    let text = str::from_utf8(field(10)).unwrap_or_default();
                    if text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                        key.fingerprint = text.to_ascii_lowercase();
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn part<T>(&mut self, of: impl FnOnce(&mut SecretKey) -> (&mut Vec<T>, T)) -> Result<(), Malformed> {
        // Before the first key there is nothing that it could be of.
        let Some(key) = self.keys.last_mut() else { return Ok(()) };
        let (parts, part) = of(key);
        if parts.len() >= PARTS_MAX {
            return Err(Malformed::Parts);
        }
        parts.push(part);
        Ok(())
    }

    fn last_is_named(&self) -> Result<(), Malformed> {
        let is_named = self.keys.last().is_none_or(|key| !key.fingerprint.is_empty());
        if is_named { Ok(()) } else { Err(Malformed::NoFingerprint) }
    }
}

fn component<'a>(field: impl Fn(usize) -> &'a [u8]) -> Component {
    let text = |number| str::from_utf8(field(number)).unwrap_or_default();
    Component {
        validity: match field(2) {
            b"e" => Validity::Expired,
            b"r" => Validity::Revoked,
            b"i" => Validity::Invalid,
            _ => Validity::Good,
        },
        bits: text(3).parse().unwrap_or_default(),
        algorithm: text(4).parse().unwrap_or_default(),
        expires: text(7).parse().ok(),
        // Small letters are about this key; capital ones about the whole.
        can_sign: field(12).contains(&b's'),
        // `#`: not there; a serial number: on a card.
        has_secret: field(15) == b"+",
        curve: text(17).to_owned(),
    }
}

/// `\x3a` and its like.
fn unescaped(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let escape = after.split_first_chunk::<3>().filter(|([x, ..], _)| byte == b'\\' && *x == b'x');
        let value = escape.and_then(|([_, digits @ ..], after)| {
            let digits =
                str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        let (byte, after) = value.unwrap_or((byte, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "tru::1:1796099854:1953779854:3:1:5\n\
        sec:u:2048:1:D03A7E00DB2CDC01:1796099854:1953779854::u:::escaESCA:::+:::23::0:\n\
        fpr:::::::::42FC5B919BD7C531D7FB36B6D03A7E00DB2CDC01:\n\
        grp:::::::::69D6BB7CEC7366C841AE8A4A6FA60D72EEF618C5:\n\
        uid:u::::1796099854::28D5::o_p1 (None) <o#p1@copr.example.org>::::::::::0:\n\
        sec:e:256:22:1122334455667788:1696099854:1753779854::u:::cC:::#::ed25519:::0:\n\
        fpr:::::::::C59A5BE16FF4293723EC2B6552D4C4C4FFC24E2A:\n\
        uid:r::::1::A::old <old@example.org>::::::::::0:\n\
        uid:u::::1::B::a\\x3ab \\\\x <new@example.org>::::::::::0:\n\
        ssb:u:256:22:99:1696099854::::::s:::+::ed25519::\n\
        fpr:::::::::449B06427B3972D5B8655CA4ECE476981AEF6F3A:\n";

    fn read(text: &[u8], piece: usize) -> Result<Vec<SecretKey>, Malformed> {
        let mut reader = Reader::default();
        for chunk in text.chunks(piece) {
            reader.push(chunk)?;
        }
        reader.finish()
    }

    #[test]
    fn keys_subkeys_and_addresses_are_read_whatever_the_size_of_the_pieces() {
        let keys = read(LISTING.as_bytes(), 4096).unwrap();
        for piece in [1, 2, 3, 7, 100] {
            assert_eq!(read(LISTING.as_bytes(), piece).unwrap(), keys);
        }
        let [copr, other] = keys.as_slice() else { panic!("{keys:?}") };
        assert_eq!(copr.fingerprint, "42fc5b919bd7c531d7fb36b6d03a7e00db2cdc01");
        assert_eq!(copr.addresses().collect::<Vec<_>>(), ["o#p1@copr.example.org"]);
        let [primary] = copr.components.as_slice() else { panic!("{copr:?}") };
        assert!(primary.can_sign && primary.has_secret && primary.validity == Validity::Good);
        assert_eq!((primary.algorithm, primary.bits, primary.expires), (1, 2048, Some(1_953_779_854)));
        assert_eq!(other.fingerprint, "c59a5be16ff4293723ec2b6552d4c4c4ffc24e2a");
        assert_eq!(other.user_ids, ["a:b \\\\x <new@example.org>"]);
        let [primary, subkey] = other.components.as_slice() else { panic!("{other:?}") };
        assert!(!primary.can_sign && !primary.has_secret && primary.validity == Validity::Expired);
        assert!(subkey.can_sign && subkey.has_secret && subkey.curve == "ed25519");
    }

    #[test]
    fn an_address_is_what_stands_at_the_end_or_all_of_it() {
        for (user_id, want) in [
            ("a (b) <c@d>", Some("c@d")),
            ("<x@y> <c@d>", Some("c@d")),
            ("c@d", Some("c@d")),
            ("c@d e", None),
            ("c@d>", None),
            ("name", None),
        ] {
            assert_eq!(address(user_id), want, "{user_id}");
        }
    }

    #[test]
    fn what_no_gpg_says_is_refused() {
        let named = "sec:u:2048:1:A::::::::scESC:::+:::23::0:\nuid:u::::1::A::x::::::::::0:\n";
        assert_eq!(read(named.as_bytes(), 100), Err(Malformed::NoFingerprint));
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        assert_eq!(read(long.as_bytes(), 1000), Err(Malformed::LongLine));
        let many = format!("sec:\n{}", "uid:u:\n".repeat(PARTS_MAX + 1));
        assert_eq!(read(many.as_bytes(), 1000), Err(Malformed::Parts));
        assert_eq!(read(b"\xff:\x00\nfpr::::\nssb:\n", 5), Ok(Vec::new()));
    }
}
