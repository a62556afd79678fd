//! Properties over many packages: random damage never panics and never touches what must not change; signing
//! and stripping are inverse for any reserve and any length of a signature.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::panic,
    clippy::ptr_arg,
    reason = "tests"
)]

use proptest::prelude::*;
use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_formats::options::{IfSigned, PayloadCheck, SignOptions};
use sealwright_formats::prepared::{Layout, Output, Preparation, Room};
use sealwright_formats::report::VerifyContext;
use sealwright_formats::rpm::Rpm;
use sealwright_formats::splice::Edits;
use sealwright_formats::{FORMATS, Format as _};
use signer::{SIGNING_TIME, Signer, fixture};
use std::sync::LazyLock;

#[allow(dead_code, reason = "each test target uses its part")]
#[path = "support/signer.rs"]
mod signer;

static SIGNERS: LazyLock<[Signer; 3]> =
    LazyLock::new(|| [Signer::ed25519(), Signer::rsa2048(), Signer::rsa4096()]);

static PACKAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    [
        "rpm/gen_tiny-reserved0.rpm",
        "rpm/gen_tiny-reserved4096.rpm",
        "rpm/gen_tiny-signed-rsa4096-rpmv3.rpm",
        "rpm/rpmrs_v6_signed_rpm-basic-with-ed25519-2.3.4-5.el9.noarch.rpm",
        "rpm/rpmorg_hello-2.0-1.x86_64-badima.rpm",
        "rpm/gru_simple-1.0.1-1.i386.rpm",
    ]
    .map(fixture)
    .to_vec()
});

fn main_start(bytes: &[u8]) -> usize {
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    (112 + 16 * number(104) + number(108)).next_multiple_of(8)
}

fn sign(bytes: &Vec<u8>, options: &SignOptions, signer: &Signer) -> Option<(Edits, u64)> {
    sign_in(bytes, options, signer, Layout::Tight).map(|(edits, room)| (edits, room.growth_max))
}

fn sign_in(bytes: &Vec<u8>, options: &SignOptions, signer: &Signer, layout: Layout) -> Option<(Edits, Room)> {
    let Ok(Preparation::Sign(prepared)) =
        Rpm.prepare(bytes, options, &signer.certificate, &signer.salts(options.hash))
    else {
        return None;
    };
    let packets = signer.sign(&prepared.items);
    let longest = packets.iter().map(Vec::len).max().unwrap();
    match prepared.plan.output(&packets, layout).ok()? {
        Output::Edits(edits) => Some((edits, prepared.plan.room(longest, layout))),
        Output::Beside(_) => panic!("not embedded"),
    }
}

/// A package whose signature header is built here: digests and sizes kept, `reserve` bytes reserved in `tag`.
fn with_reserve(package: &[u8], reserve: usize, tag: u32) -> Vec<u8> {
    let number = |at: usize| u32::from_be_bytes(package[at..at + 4].try_into().unwrap());
    let entries = number(104) as usize;
    let mut index = Vec::new();
    let mut store = Vec::new();
    let old_store = 112 + 16 * entries;
    for at in (1..entries).map(|entry| 112 + 16 * entry) {
        if number(at) == tag {
            continue;
        }
        let offset = number(at + 8) as usize;
        let (kind, count) = (number(at + 4), number(at + 12) as usize);
        let (align, len) = match kind {
            4 => (4, 4 * count),
            5 => (8, 8 * count),
            6 => (1, package[old_store + offset..].iter().position(|byte| *byte == 0).unwrap() + 1),
            _ => (1, count),
        };
        store.resize(store.len().next_multiple_of(align), 0);
        index.extend([number(at), kind, store.len() as u32, count as u32]);
        store.extend_from_slice(&package[old_store + offset..old_store + offset + len]);
    }
    index.extend([tag, 7, store.len() as u32, reserve as u32]);
    store.resize(store.len() + reserve, 0);
    let entries = index.len() as u32 / 4 + 1;
    let region = [62, 7, store.len() as u32, 16];
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    store.extend(words(&[62, 7, (16 * entries).wrapping_neg(), 16]));
    let mut header = words(&[0x8ead_e801, 0, entries, store.len() as u32]);
    header.extend(words(&region));
    header.extend(words(&index));
    header.extend(store);
    header.resize((96 + header.len()).next_multiple_of(8) - 96, 0);
    [&package[..96], &header, &package[main_start(package)..]].concat()
}

/// Around every length at which something changes: none left, one left, and the reserves that rpmbuild makes.
fn reserve() -> impl Strategy<Value = usize> {
    prop_oneof![
        1usize..2500,
        100usize..160,
        300usize..350,
        560usize..640,
        4080usize..4160,
        (4096usize..4097).prop_flat_map(|usual| (usual + 100)..(usual + 700)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn strip_undoes_signing_for_any_reserve_key_and_kind(reserve in reserve(), key in 0usize..3, kind in 0usize..3) {
        let package = with_reserve(&PACKAGES[1], reserve, 1008);
        let mut options = SignOptions::default();
        options.format.set(&Rpm.options()[0], ["auto", "header+payload", "both"][kind]).unwrap();
        options.format.set(&Rpm.options()[1], "6.0").unwrap();
        let (edits, growth_max) = sign(&package, &options, &SIGNERS[key]).unwrap();
        let signed = edits.apply(&package);
        prop_assert!(edits.new_len() <= edits.old_len() + growth_max);
        prop_assert_eq!(main_start(&signed) % 8, 0);
        let stripped = Rpm.strip(&signed).unwrap().unwrap().apply(&signed);
        prop_assert!(stripped == package, "reserve {}", reserve);
        let mut keyring = Keyring::new();
        keyring.push(SIGNERS[key].certificate.clone());
        let context = VerifyContext { keyring: &keyring, now: i64::from(SIGNING_TIME), sidecar: None };
        prop_assert_eq!(Rpm.verify(&signed, &context).unwrap().state().name(), "valid");
    }

    #[test]
    fn a_header_grows_by_whole_blocks_and_strip_undoes_it(
        reserve in proptest::option::of(reserve()),
        keys in proptest::collection::vec(0usize..3, 1..4),
        kind in 0usize..3,
        block in prop_oneof![Just(512u32), Just(4096), Just(65536)],
    ) {
        let package = match reserve {
            Some(reserve) => with_reserve(&PACKAGES[1], reserve, 1008),
            None => PACKAGES[0].clone(),
        };
        let mut options = SignOptions::default();
        options.format.set(&Rpm.options()[0], ["auto", "header+payload", "both"][kind]).unwrap();
        options.format.set(&Rpm.options()[1], "6.0").unwrap();
        let mut now = package.clone();
        // One after the other: each replaces the one before, whatever it left of the reserve.
        for key in keys {
            let (edits, room) = sign_in(&now, &options, &SIGNERS[key], Layout::Blocks(block)).unwrap_or_else(|| {
                // The same key again: there is nothing to do.
                (Edits::new(Vec::new(), now.len() as u64).unwrap(), Room { from: 96, until: 1 << 30, growth_max: 0, keeps_len: true, shares: true })
            });
            prop_assert_eq!(edits.new_len().abs_diff(edits.old_len()) % u64::from(block), 0);
            prop_assert!(edits.new_len() <= edits.old_len() + room.growth_max);
            prop_assert!(room.shares, "all of these can grow by blocks");
            prop_assert!(!room.keeps_len || edits.keeps_layout());
            for edit in edits.as_slice() {
                prop_assert!(edit.offset >= room.from && edit.offset + edit.remove <= room.until);
            }
            now = edits.apply(&now);
            let stripped = Rpm.strip(&now).unwrap().unwrap().apply(&now);
            prop_assert!(stripped == package, "reserve {:?}", reserve);
        }
        let mut keyring = Keyring::new();
        SIGNERS.iter().for_each(|signer| keyring.push(signer.certificate.clone()));
        let context = VerifyContext { keyring: &keyring, now: i64::from(SIGNING_TIME), sidecar: None };
        prop_assert_eq!(Rpm.verify(&now, &context).unwrap().state().name(), "valid");
    }

    #[test]
    fn strip_undoes_two_signatures_of_a_v6_package_for_any_reserve(reserve in reserve()) {
        let package = with_reserve(&fixture("rpm/rpmrs_v6_rpm-basic-2.3.4-5.el9.noarch.rpm"), reserve, 999);
        let options = SignOptions { if_signed: IfSigned::Add, ..SignOptions::default() };
        let one = sign(&package, &options, &SIGNERS[0]).unwrap().0.apply(&package);
        let two = sign(&one, &options, &SIGNERS[2]).unwrap().0.apply(&one);
        let stripped = Rpm.strip(&two).unwrap().unwrap().apply(&two);
        prop_assert!(stripped == package, "reserve {}", reserve);
    }

    #[test]
    fn random_damage_never_panics_and_edits_stay_in_the_signature_header(
        which in 0usize..6,
        damage in proptest::collection::vec((0usize..8000, any::<u8>()), 1..6),
        cut in proptest::option::of(0usize..8000),
        payload in any::<bool>(),
    ) {
        let mut package = PACKAGES[which].clone();
        for (at, byte) in damage {
            let at = at % package.len();
            package[at] = byte;
        }
        if let Some(cut) = cut {
            package.truncate(cut);
        }
        let payload = if payload { PayloadCheck::Always } else { PayloadCheck::WhenRead };
        let options = SignOptions { payload, ..SignOptions::default() };
        if let Some((edits, _)) = sign(&package, &options, &SIGNERS[0]) {
            let end = main_start(&package) as u64;
            for edit in edits.as_slice() {
                prop_assert!(edit.offset >= 96 && edit.offset + edit.remove <= end);
            }
        }
        let keyring = Keyring::new();
        let context = VerifyContext { keyring: &keyring, now: i64::from(SIGNING_TIME), sidecar: Some(&package) };
        for format in FORMATS {
            let _ = format.verify(&package, &context);
            let _ = format.inspect(&package, Some(&package));
            if let Ok(Some(edits)) = format.strip(&package) {
                let end = main_start(&package) as u64;
                prop_assert!(edits.as_slice().iter().all(|e| e.offset >= 96 && e.offset + e.remove <= end));
            }
        }
    }

    #[test]
    fn damage_in_a_header_alone_never_panics(
        which in 0usize..6,
        damage in proptest::collection::vec((96usize..300, any::<u8>()), 1..4),
        main in any::<bool>(),
    ) {
        let mut package = PACKAGES[which].clone();
        let shift = if main { main_start(&package) - 96 } else { 0 };
        for (at, byte) in damage {
            let at = (at + shift) % package.len();
            package[at] = byte;
        }
        let key: &Certificate = &SIGNERS[0].certificate;
        let _ = Rpm.prepare(&package, &SignOptions::default(), key, &[]);
        let _ = Rpm.strip(&package);
        let _ = Rpm.inspect(&package, None);
    }
}
