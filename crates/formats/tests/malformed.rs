//! What bad input gets: one test a rule, each named after the rule that is broken. A good package is taken, one
//! thing in it is changed, and the answer must be an error that names it, without a panic and without memory
//! for what a header merely claims.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use sealwright_crypto::openpgp::certificate::Keyring;
use sealwright_formats::Format as _;
use sealwright_formats::error::Error;
use sealwright_formats::options::{PayloadCheck, SignOptions};
use sealwright_formats::prepared::{Layout, Output, Preparation};
use sealwright_formats::report::VerifyContext;
use sealwright_formats::rpm::Rpm;
use signer::{Signer, fixture};

#[allow(dead_code, reason = "each test target uses its part")]
#[path = "support/signer.rs"]
mod signer;

const GOOD: &str = "rpm/gen_tiny-reserved4096.rpm";
const SIGNATURE_HEADER: usize = 96;
const INDEX: usize = SIGNATURE_HEADER + 16;

/// A good package, and where its parts are.
struct Package(Vec<u8>);

impl Package {
    fn good() -> Self {
        Self(fixture(GOOD))
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn set(mut self, at: usize, number: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&number.to_be_bytes());
        self
    }

    fn main_header(&self) -> usize {
        let end = INDEX + 16 * self.number(104) as usize + self.number(108) as usize;
        end.next_multiple_of(8)
    }

    /// Where the entry with this tag is in the index of the header that starts at `header`.
    fn entry(&self, header: usize, tag: u32) -> usize {
        let entries = self.number(header + 8) as usize;
        (0..entries).map(|entry| header + 16 + 16 * entry).find(|at| self.number(*at) == tag).unwrap()
    }

    fn data(&self, header: usize, tag: u32) -> usize {
        let store = header + 16 + 16 * self.number(header + 8) as usize;
        store + self.number(self.entry(header, tag) + 8) as usize
    }

    /// The reason why it is refused, by signing, verifying and stripping alike; `strip` and `inspect` need not
    /// notice wrong digests.
    fn refusal(self) -> String {
        let key = Signer::ed25519().certificate;
        let options = SignOptions { payload: PayloadCheck::Always, ..SignOptions::default() };
        match Rpm.prepare(&self.0, &options, &key, &[]) {
            Ok(_) => panic!("accepted"),
            Err(error) => {
                assert!(!error.advice().is_empty());
                error.to_string()
            }
        }
    }

    /// Signed by this key, every other signature replaced.
    fn signed(&self, signer: &Signer) -> Vec<u8> {
        let prepared = Rpm.prepare(&self.0, &SignOptions::default(), &signer.certificate, &[]).unwrap();
        let Preparation::Sign(prepared) = prepared else { panic!("left as it is") };
        match prepared.plan.output(&signer.sign(&prepared.items), Layout::Tight).unwrap() {
            Output::Edits(edits) => edits.apply(&self.0),
            Output::Beside(_) => panic!("not embedded"),
        }
    }

    /// This tag of the signature header gets another number.
    fn renamed(self, tag: u32, to: u32) -> Self {
        let at = self.entry(SIGNATURE_HEADER, tag);
        self.set(at, to)
    }

    /// By signing and verifying; to look at it and to strip it are harmless.
    fn must_not_be_vouched_for(self, reason: &str) {
        let keyring = Keyring::new();
        let context = VerifyContext { keyring: &keyring, now: 0, sidecar: None };
        let text = Rpm.verify(&self.0, &context).unwrap_err().to_string();
        assert!(text.contains(reason), "{text}");
        assert!(Rpm.inspect(&self.0, None).is_ok());
        let text = self.refusal();
        assert!(text.contains(reason), "{text}");
    }

    fn must_be_refused_for(self, reason: &str) {
        let structural = reason != "differs";
        if structural {
            assert!(Rpm.strip(&self.0).is_err());
            assert!(Rpm.inspect(&self.0, None).is_err());
        }
        let text = self.refusal();
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn the_good_package_is_accepted() {
    let key = Signer::ed25519().certificate;
    assert!(Rpm.prepare(&Package::good().0, &SignOptions::default(), &key, &[]).is_ok());
}

#[test]
fn lead_of_version_5() {
    let mut package = Package::good();
    package.0[4] = 5;
    package.must_be_refused_for("package version 5");
}

#[test]
fn signature_header_without_magic() {
    Package::good().set(SIGNATURE_HEADER, 0).must_be_refused_for("header magic");
}

#[test]
fn signature_header_that_claims_256_mib() {
    Package::good().set(108, 256 << 20).must_be_refused_for("the limit of rpm is 67108864");
}

#[test]
fn signature_header_that_claims_64_mib_in_a_small_file() {
    Package::good().set(108, 64 << 20).must_be_refused_for("truncated: the signature header needs");
}

#[test]
fn signature_header_with_33_tags() {
    Package::good().set(104, 33).must_be_refused_for("it claims 33 tags");
}

#[test]
fn main_header_that_claims_256_mib() {
    let package = Package::good();
    let at = package.main_header() + 12;
    package.set(at, 256 << 20).must_be_refused_for("the limit of rpm is 268435455");
}

#[test]
fn main_header_that_claims_255_mib_in_a_small_file() {
    let package = Package::good();
    let at = package.main_header() + 12;
    package.set(at, 255 << 20).must_be_refused_for("truncated: the main header needs");
}

#[test]
fn main_header_with_65536_tags() {
    let package = Package::good();
    let at = package.main_header() + 8;
    package.set(at, 65_536).must_be_refused_for("it claims 65536 tags");
}

#[test]
fn entry_with_an_offset_out_of_range() {
    for offset in [0x0fff_ffff, 0x7fff_ffff, 0xffff_ffff] {
        let package = Package::good();
        let at = package.entry(SIGNATURE_HEADER, 1004) + 8;
        package.set(at, offset).must_be_refused_for("offset out of range");
    }
}

#[test]
fn entry_whose_data_reach_past_the_header() {
    let package = Package::good();
    let (at, data_bytes) = (package.entry(SIGNATURE_HEADER, 1008) + 12, package.number(108));
    package.set(at, data_bytes).must_be_refused_for("data reaches past the header");
}

#[test]
fn entry_with_more_elements_than_bytes() {
    let package = Package::good();
    let at = package.entry(SIGNATURE_HEADER, 1004) + 12;
    package.set(at, u32::MAX).must_be_refused_for("more elements than the header has bytes");
}

#[test]
fn entry_without_elements() {
    let package = Package::good();
    let at = package.entry(SIGNATURE_HEADER, 1004) + 12;
    package.set(at, 0).must_be_refused_for("no elements");
}

#[test]
fn entry_of_unknown_type() {
    for kind in [0, 10, u32::MAX] {
        let package = Package::good();
        let at = package.entry(SIGNATURE_HEADER, 1004) + 4;
        package.set(at, kind).must_be_refused_for("unknown type");
    }
}

#[test]
fn entry_with_a_tag_below_100() {
    let package = Package::good();
    let at = package.entry(SIGNATURE_HEADER, 1004);
    package.set(at, 99).must_be_refused_for("reserved tag number");
}

#[test]
fn entry_that_is_not_aligned() {
    let package = Package::good();
    let at = package.entry(SIGNATURE_HEADER, 1000) + 8;
    let offset = package.number(at);
    package.set(at, offset + 1).must_be_refused_for("not aligned");
}

#[test]
fn entry_that_overlaps_the_one_before_it() {
    let package = Package::good();
    let at = package.entry(SIGNATURE_HEADER, 1004) + 8;
    let offset = package.number(at);
    package.set(at, offset - 1).must_be_refused_for("overlaps");
}

#[test]
fn gap_between_entries() {
    let package = Package::good();
    let at = package.entry(SIGNATURE_HEADER, 1008);
    let (offset, count) = (package.number(at + 8), package.number(at + 12));
    package.set(at + 8, offset + 1).set(at + 12, count - 1).must_be_refused_for("do not follow");
}

#[test]
fn string_with_two_elements() {
    let package = Package::good();
    let at = package.entry(SIGNATURE_HEADER, 269) + 12;
    package.set(at, 2).must_be_refused_for("a string that is not one");
}

#[test]
fn text_that_does_not_end() {
    let mut package = Package::good();
    let header = package.main_header();
    let store = header + 16 + 16 * package.number(header + 8) as usize;
    let end = store + package.number(header + 12) as usize - 16;
    package.0[store..end].fill(b'x');
    package.must_be_refused_for("main header");
}

#[test]
fn tag_that_occurs_twice_in_the_signature_header() {
    let package = Package::good();
    let at = package.entry(SIGNATURE_HEADER, 1004);
    package.set(at, 1008).must_be_refused_for("tag 1008 occurs twice");
}

#[test]
fn tag_that_occurs_twice_in_the_main_header() {
    let package = Package::good();
    let at = package.entry(package.main_header(), 1001);
    package.set(at, 1000).must_be_refused_for("tag 1000 occurs twice");
}

#[test]
fn main_header_without_region() {
    let mut package = Package::good();
    let header = package.main_header();
    let (entries, data_bytes) = (package.number(header + 8), package.number(header + 12));
    let end = header + 16 + 16 * entries as usize + data_bytes as usize;
    package.0.drain(end - 16..end);
    package.0.drain(header + 16..header + 32);
    package
        .set(header + 8, entries - 1)
        .set(header + 12, data_bytes - 16)
        .must_be_refused_for("no immutable region");
}

#[test]
fn main_header_whose_region_does_not_cover_the_index() {
    let package = Package::good();
    let header = package.main_header();
    let trailer = package.data(header, 63);
    let entries = package.number(header + 8);
    let shorter = (entries - 1).wrapping_mul(16).wrapping_neg();
    package.set(trailer + 8, shorter).must_be_refused_for("its region does not cover the index");
}

#[test]
fn main_header_whose_region_trailer_is_not_last() {
    let package = Package::good();
    let at = package.entry(package.main_header(), 63) + 8;
    let offset = package.number(at);
    package.set(at, offset - 16).must_be_refused_for("its region does not cover the index");
}

#[test]
fn region_entry_out_of_range() {
    let package = Package::good();
    let at = package.entry(SIGNATURE_HEADER, 62) + 8;
    package.set(at, u32::MAX).must_be_refused_for("bad region entry");
}

#[test]
fn changed_main_header() {
    let mut package = Package::good();
    let at = package.data(package.main_header(), 1000);
    package.0[at] ^= 1;
    package.must_be_refused_for("differs");
}

#[test]
fn each_recorded_header_digest_is_compared() {
    for (tag, name) in [(269, "header SHA-1"), (273, "header SHA-256")] {
        let mut package = Package::good();
        let at = package.data(SIGNATURE_HEADER, tag);
        package.0[at] = if package.0[at] == b'0' { b'1' } else { b'0' };
        let text = package.refusal();
        assert!(text.contains("differs") && text.contains(name), "{text}");
    }
}

#[test]
fn changed_payload() {
    let mut package = Package::good();
    let at = package.0.len() - 20;
    package.0[at] ^= 1;
    package.must_be_refused_for("differs");
}

#[test]
fn truncated_payload_is_found_without_reading_it() {
    let mut package = Package::good();
    package.0.pop();
    let key = Signer::ed25519().certificate;
    let error = Rpm.prepare(&package.0, &SignOptions::default(), &key, &[]).err().unwrap();
    assert!(matches!(error, Error::Damaged { what: "size of header and payload", .. }), "{error}");
}

#[test]
fn appended_bytes_are_found_without_reading_them() {
    let mut package = Package(fixture("rpm/rpmrs_v6_rpm-basic-2.3.4-5.el9.noarch.rpm"));
    package.0.push(0);
    let key = Signer::ed25519().certificate;
    let error = Rpm.prepare(&package.0, &SignOptions::default(), &key, &[]).err().unwrap();
    assert!(matches!(error, Error::Damaged { what: "payload size", .. }), "{error}");
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let good = Package::good().0;
    let key = Signer::ed25519().certificate;
    for len in (0..good.len()).step_by(7) {
        assert!(Rpm.prepare(&good[..len].to_vec(), &SignOptions::default(), &key, &[]).is_err(), "{len}");
    }
}

#[test]
fn lead_of_another_signature_type() {
    for kind in [0, 4, 6, 0x0500] {
        let mut package = Package::good();
        package.0[78..80].copy_from_slice(&u16::to_be_bytes(kind));
        package.must_be_refused_for(&format!("signature type {kind}; rpm reads 5"));
    }
}

#[test]
fn tag_number_that_is_negative_for_rpm() {
    for number in [0x8000_0000, 0xffff_ff90, u32::MAX] {
        Package::good().renamed(1007, number).must_be_refused_for("tag number out of range");
        let package = Package::good();
        let at = package.entry(package.main_header(), 1001);
        package.set(at, number).must_be_refused_for("tag number out of range");
    }
}

#[test]
fn signature_header_without_tags() {
    let mut package = Package::good();
    let main = package.main_header();
    package.0.drain(INDEX..main);
    package.set(104, 0).set(108, 0).must_be_refused_for("it has no tags");
}

#[test]
fn tag_of_another_type_than_rpm_takes() {
    let package = Package::good();
    let at = package.entry(SIGNATURE_HEADER, 269) + 4;
    package.set(at, 8).must_not_be_vouched_for("rpm does not take tag 269 with type 8");
    let package = Package::good();
    let at = package.entry(SIGNATURE_HEADER, 1007) + 4;
    package.set(at, 7).set(at + 8, 4).must_not_be_vouched_for("rpm does not take tag 1007 with type 7");
}

#[test]
fn tag_of_the_main_header_that_has_another_type() {
    let package = Package::good();
    let at = package.entry(package.main_header(), 1000) + 4;
    package.set(at, 7).must_be_refused_for("not the type of its tag (tag 1000, type 7");
}

#[test]
fn tag_of_the_signature_header_in_the_main_header_too() {
    let package = Package::good();
    // RPMVERSION becomes SHA1HEADER; both are text.
    let at = package.entry(package.main_header(), 1064);
    package.set(at, 269).must_not_be_vouched_for("rpm does not take tag 269 here");
}

#[test]
fn package_whose_main_header_no_digest_covers() {
    let package = Package::good().renamed(269, 280).renamed(273, 281);
    let key = Signer::ed25519().certificate;
    assert!(Rpm.prepare(&package.0, &SignOptions::default(), &key, &[]).is_ok(), "the MD5 of both covers it");
    package.renamed(1004, 1003).must_not_be_vouched_for("no digest of the main header");
}

#[test]
fn package_of_version_6_without_sha_256_of_its_main_header() {
    let package = Package(fixture("rpm/rpmrs_v6_rpm-basic-2.3.4-5.el9.noarch.rpm"));
    package.renamed(273, 280).must_not_be_vouched_for("no digest of the main header");
}

#[test]
fn package_whose_payload_no_digest_covers() {
    let package = Package(fixture("rpm/gru_simple-1.0.1-1.i386.rpm"));
    package.renamed(1004, 1003).must_not_be_vouched_for("no digest of the payload");
}

#[test]
fn payload_that_is_missing_is_found_without_being_asked_for() {
    // Without a size and an MD5 that would tell.
    let mut package = Package::good().renamed(1000, 1001).renamed(1004, 1003);
    let header = package.main_header();
    let end = header + 16 + 16 * package.number(header + 8) as usize + package.number(header + 12) as usize;
    package.0.truncate(end);
    let key = Signer::ed25519().certificate;
    let error = Rpm.prepare(&package.0, &SignOptions::default(), &key, &[]).err().unwrap();
    assert!(matches!(error, Error::Damaged { what: "payload SHA-256", .. }), "{error}");
}

#[test]
fn region_that_rpm_does_not_read_is_repaired_by_signing_and_never_valid() {
    let entries = Package::good().number(104);
    let covering = |count: u32| (16 * count).wrapping_neg();
    // Word of the trailer, value, whether rpm 4.18 reads it.
    let cases = [
        (0, 61, true),
        (0, 1008, false),
        (0, 63, false),
        (4, 6, false),
        (8, covering(entries - 1), true),
        (8, covering(1), true),
        (8, covering(0), false),
        (8, covering(entries + 1), false),
        (8, covering(entries) + 1, false),
        (8, 16, false),
        (12, 15, false),
    ];
    let (signer, keyring) = (Signer::ed25519(), Keyring::new());
    let context = VerifyContext { keyring: &keyring, now: 0, sidecar: None };
    for (word, value, reads) in cases {
        let package = Package::good();
        let at = package.data(SIGNATURE_HEADER, 62) + word;
        let package = package.set(at, value);
        assert_eq!(Rpm.verify(&package.0, &context).is_ok(), reads, "{word} {value}");
        assert!(Rpm.verify(&package.signed(&signer), &context).is_ok(), "{word} {value}");
    }
}

#[test]
fn signature_of_another_type_than_rpm_takes_is_replaced_by_signing_and_never_valid() {
    let (signer, keyring) = (Signer::ed25519(), Keyring::new());
    let context = VerifyContext { keyring: &keyring, now: 0, sidecar: None };
    for tag in [267, 268, 1002, 1005] {
        // The reserve becomes one, of bytes that are characters.
        let package = Package::good();
        let at = package.entry(SIGNATURE_HEADER, 1008);
        let package = package.set(at, tag).set(at + 4, 1);
        let text = Rpm.verify(&package.0, &context).unwrap_err().to_string();
        assert!(text.contains(&format!("rpm does not take tag {tag} with type 1")), "{text}");
        let signed = Rpm.verify(&package.signed(&signer), &context).unwrap();
        assert_eq!(signed.signatures.len(), 1, "only the new one is there");
    }
}
