//! Midstates: what decodes encodes to the same bytes; what is resumed goes on without a panic; and a content that was
//! cut anywhere hashes as another implementation hashes it whole.

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::midstate::{ENCODED_BYTES_MAX, Midstate};
use sha2::{Digest as _, Sha256, Sha384, Sha512};

use crate::choices::Choices;

pub(crate) fn run(data: &[u8]) {
    if let Ok(midstate) = Midstate::decode(data) {
        assert!(data.len() <= ENCODED_BYTES_MAX, "longer than the limit");
        assert_eq!(midstate.encode(), data, "another encoding of the same state");
        resume(&midstate, data);
    }
    hash_in_pieces(data);
}

fn resume(midstate: &Midstate, more: &[u8]) {
    let mut hasher = midstate.resume();
    assert_eq!(hasher.midstate(), *midstate, "resuming changed the state");
    hasher.update(more);
    let len = u64::try_from(more.len()).unwrap();
    assert_eq!(hasher.total(), midstate.content_len() + len, "bytes were not counted");
    // A sender may stop at the limit; a state beyond it is never sent.
    if let Ok(again) = Midstate::decode(&hasher.midstate().encode()) {
        assert_eq!(again.resume().finish(), hasher.finish(), "the wire changed the state");
    }
}

fn hash_in_pieces(data: &[u8]) {
    let mut input = Choices::new(data);
    let hash = input.one_of(&HashAlgorithm::ALL);
    let cuts = [input.number(), input.number()].map(usize::from);
    let content = input.rest();
    let mut hasher = Hasher::new(hash);
    let mut rest = content;
    for cut in cuts {
        let (head, tail) = rest.split_at(cut.min(rest.len()));
        hasher.update(head);
        hasher = Midstate::decode(&hasher.midstate().encode()).unwrap().resume();
        rest = tail;
    }
    hasher.update(rest);
    let expected = match hash {
        HashAlgorithm::Sha256 => Sha256::digest(content).to_vec(),
        HashAlgorithm::Sha384 => Sha384::digest(content).to_vec(),
        HashAlgorithm::Sha512 => Sha512::digest(content).to_vec(),
    };
    assert_eq!(hasher.finish().as_bytes(), expected, "another digest than that of sha2");
}
