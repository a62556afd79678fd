//! Log entries: canonical bytes have one meaning, and an entry one encoding; the head of the log likewise.

use sealwright_tlog::entry::{ENCODED_BYTES_MAX, Entry, TEXT_BYTES_MAX};
use sealwright_tlog::merkle::{CompactRange, leaf_hash};

pub(crate) fn run(data: &[u8]) {
    if let Ok(entry) = Entry::decode(data) {
        assert!(data.len() <= ENCODED_BYTES_MAX, "longer than the limit");
        assert!(entry.principal.len() <= TEXT_BYTES_MAX && entry.decision.len() <= TEXT_BYTES_MAX);
        assert_eq!(entry.encode().unwrap(), data, "another encoding of the same entry");
    }
    head(data);
}

/// The head as the database keeps it: size, and the hashes of the subtrees.
fn head(data: &[u8]) {
    let Some((size, nodes)) = data.split_first_chunk::<8>() else { return };
    let size = u64::from_be_bytes(*size);
    let Ok(mut head) = CompactRange::decode(size, nodes) else { return };
    assert_eq!(
        (head.size(), head.encode_nodes().as_slice()),
        (size, nodes),
        "another encoding of the same head"
    );
    let before = head.root();
    if let Ok(index) = head.append(leaf_hash(data)) {
        assert_eq!((index, head.size()), (size, size + 1), "an entry has the wrong index");
        assert_ne!(head.root(), before, "an entry leaves no trace");
        let again = CompactRange::decode(head.size(), &head.encode_nodes()).unwrap();
        assert_eq!(again.root(), head.root(), "storing changed the head");
    }
}
