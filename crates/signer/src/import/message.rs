//! An encoded `ImportSecret` (protobuf), read where it lies: the usual decoder would copy the key and the passphrase
//! out of locked memory.

use crate::secret::Secret;

/// The fields.
pub(super) struct Message {
    /// Transferable secret key.
    pub(super) key: Secret,
    /// Empty: none.
    pub(super) passphrase: Secret,
    /// Fingerprint; empty: not named.
    pub(super) subkey: String,
    /// Numbers of usages, each below 128; empty: not named.
    pub(super) usages: Vec<u32>,
    /// See `signer.proto`.
    pub(super) bare_digests_on_primary: bool,
}

impl Message {
    /// `None` for anything but fields of the message, each with its length, or a number. The last of several counts.
    pub(super) fn parse(secret: &Secret) -> Option<Self> {
        let empty = secret.part(0..0)?;
        let mut message = Self {
            key: empty.clone(),
            passphrase: empty,
            subkey: String::new(),
            usages: Vec::new(),
            bare_digests_on_primary: false,
        };
        let mut at = 0;
        while at < secret.expose().len() {
            let tag = number(secret, &mut at)?;
            let len = number(secret, &mut at)?;
            // Field 5 with wire type 0: the number is the value.
            if tag == 0x28 {
                message.bare_digests_on_primary = len != 0;
                continue;
            }
            let end = at.checked_add(len)?;
            let field = secret.part(at..end)?;
            at = end;
            // Field number and wire type 2 (a length, then as many bytes).
            match tag {
                0x0a => message.key = field,
                0x12 => message.passphrase = field,
                0x1a => message.subkey = core::str::from_utf8(field.expose()).ok()?.to_owned(),
                // Numbers that are longer than a byte name nothing.
                0x22 if field.expose().iter().all(|number| *number < 0x80) => {
                    message.usages = field.expose().iter().map(|number| u32::from(*number)).collect();
                }
                _ => return None,
            }
        }
        Some(message)
    }
}

/// A number in groups of seven bits, the lowest first; at most four groups.
fn number(secret: &Secret, at: &mut usize) -> Option<usize> {
    let mut value = 0_usize;
    for shift in [0, 7, 14, 21] {
        let byte = *secret.expose().get(*at)?;
        *at = at.checked_add(1)?;
        value |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;
    use sealwright_proto::signer_v1::ImportSecret;

    #[test]
    fn what_the_client_encodes_is_read() {
        for (key, passphrase, subkey) in [(0, 0, ""), (1, 0, "ab"), (127, 128, "cd"), (1 << 20, 4096, "")] {
            let sent = ImportSecret {
                key: vec![1; key],
                passphrase: vec![2; passphrase],
                subkey: subkey.to_owned(),
                usages: if key > 1 { vec![1, 2, 127] } else { Vec::new() },
                bare_digests_on_primary: passphrase > 0,
            };
            let read = Message::parse(&Secret::new(sent.encode_to_vec()).unwrap()).unwrap();
            assert_eq!(read.key.expose(), sent.key);
            assert_eq!(read.passphrase.expose(), sent.passphrase);
            assert_eq!(read.subkey, subkey);
            assert_eq!(read.usages, sent.usages);
            assert_eq!(read.bare_digests_on_primary, passphrase > 0);
        }
    }

    #[test]
    fn what_is_cut_or_something_else_is_refused() {
        let sent = ImportSecret {
            key: vec![1; 200],
            passphrase: vec![2; 3],
            subkey: "abcdef".to_owned(),
            usages: vec![1, 2],
            bare_digests_on_primary: true,
        };
        let sent = sent.encode_to_vec();
        let whole = [203, 208, 216, 220, sent.len()];
        for len in 1..sent.len() {
            let read = Message::parse(&Secret::joined(&[&sent[..len]]).unwrap());
            assert_eq!(read.is_some(), whole.contains(&len), "{len}");
        }
        for bad in [
            &[0x08, 1][..],
            &[0x22, 1, 0x80],
            &[0x30, 0],
            &[0x28],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0x1a, 1, 0xff],
            &[0x0a],
        ] {
            assert!(Message::parse(&Secret::joined(&[bad]).unwrap()).is_none(), "{bad:?}");
        }
    }
}
