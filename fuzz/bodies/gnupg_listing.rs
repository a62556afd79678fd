//! What gpg lists. The same keys, or the same refusal, in whatever pieces it comes; every key has a fingerprint, and what is
//! told of it stays within its limits.

use sealwright_client::gnupg::listing::{Malformed, Reader, SecretKey};
use sealwright_client::migrate::plan::{Phrase, plan};

const NOW: i64 = 1_796_100_000;

pub(crate) fn run(data: &[u8]) {
    let Some((&first, text)) = data.split_first() else { return };
    let read = in_pieces(text, text.len().max(1));
    assert_eq!(in_pieces(text, usize::from(first).max(1)), read, "pieces changed what was read");
    let Ok(keys) = read else { return };
    for key in &keys {
        assert!(key.fingerprint.len() >= 40 && key.fingerprint.bytes().all(|b| b.is_ascii_hexdigit()));
        assert!(!key.components.is_empty());
    }
    // Each address as a name, and one that nobody has.
    let mut names: Vec<String> = keys.iter().flat_map(|key| key.addresses().map(str::to_owned)).collect();
    names.push("nobody at all".to_owned());
    names.sort();
    names.dedup();
    let phrases =
        names.iter().map(|name| Phrase { name: name.clone(), path: name.into(), is_file: true }).collect();
    let candidates = plan(phrases, &keys, NOW);
    for (name, candidate) in names.iter().zip(&candidates) {
        assert_eq!(&candidate.name, name, "passphrase files come first, in their order");
        if let Ok(work) = &candidate.work {
            let number = name.strip_prefix("0x").unwrap_or(name).to_ascii_lowercase();
            let has_it = |key: &SecretKey| {
                key.fingerprint == work.fingerprint
                    && (key.addresses().any(|address| address == name)
                        || key.user_ids.contains(name)
                        || (number.len() >= 16 && key.fingerprint.ends_with(&number)))
            };
            assert!(keys.iter().any(has_it), "a name is of a key that has it");
        }
    }
    assert!(candidates[names.len()..].iter().all(|candidate| candidate.work.is_err()));
}

fn in_pieces(text: &[u8], len: usize) -> Result<Vec<SecretKey>, Malformed> {
    let mut reader = Reader::default();
    for piece in text.chunks(len) {
        reader.push(piece)?;
    }
    reader.finish()
}
