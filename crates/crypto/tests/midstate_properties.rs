//! A midstate taken anywhere and resumed elsewhere gives the digest of one pass.

use proptest::prelude::*;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::midstate::Midstate;

fn one_pass(hash: HashAlgorithm, data: &[u8]) -> Vec<u8> {
    use sha2::Digest as _;
    match hash {
        HashAlgorithm::Sha256 => sha2::Sha256::digest(data).to_vec(),
        HashAlgorithm::Sha384 => sha2::Sha384::digest(data).to_vec(),
        HashAlgorithm::Sha512 => sha2::Sha512::digest(data).to_vec(),
    }
}

/// Every split of every length up to 300 bytes, through the wire encoding.
#[test]
fn split_anywhere_equals_one_pass() {
    let data: Vec<u8> = (0..300u32).map(|i| (i * 7 % 251) as u8).collect();
    for hash in HashAlgorithm::ALL {
        for len in 0..=data.len() {
            let whole = one_pass(hash, &data[..len]);
            for split in 0..=len {
                let mut first = Hasher::new(hash);
                first.update(&data[..split]);
                let wire = first.midstate().encode();
                let mut second = Midstate::decode(&wire).unwrap().resume();
                second.update(&data[split..len]);
                assert_eq!(second.finish().as_bytes(), whole, "{hash:?} {len} {split}");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_cutting_equals_one_pass(data in proptest::collection::vec(any::<u8>(), 0..4000), cuts in proptest::collection::vec(0usize..4000, 0..8)) {
        for hash in HashAlgorithm::ALL {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| (*cut).min(data.len())).collect();
            cuts.sort_unstable();
            let mut hasher = Hasher::new(hash);
            let mut at = 0;
            for cut in cuts {
                hasher.update(&data[at..cut]);
                hasher = Midstate::decode(&hasher.midstate().encode()).unwrap().resume();
                at = cut;
            }
            hasher.update(&data[at..]);
            let digest = hasher.finish();
            prop_assert_eq!(digest.as_bytes(), one_pass(hash, &data));
        }
    }

    #[test]
    fn random_bytes_never_panic(data in proptest::collection::vec(any::<u8>(), 0..220)) {
        if let Ok(midstate) = Midstate::decode(&data) {
            prop_assert_eq!(midstate.encode(), data);
        }
    }
}
