//! Rules of RPM packages alone: which signatures are made, kept and replaced, where they go, and what is said.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::panic,
    clippy::ptr_arg,
    reason = "tests"
)]

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_crypto::openpgp::verify::State;
use sealwright_formats::error::Error;
use sealwright_formats::options::{IfSigned, PayloadCheck, Repeat, SignOptions};
use sealwright_formats::prepared::{Layout, Output, Preparation, Prepared};
use sealwright_formats::report::{DigestState, Verification, VerifyContext};
use sealwright_formats::rpm::{MIN_RPM, RPM_SIGNATURE, Rpm};
use sealwright_formats::{Format as _, by_name};
use signer::{SIGNING_TIME, Signer, fixture};

#[allow(dead_code, reason = "each test target uses its part")]
#[path = "support/signer.rs"]
mod signer;

const UNSIGNED: &str = "rpm/gen_tiny-reserved4096.rpm";
const V6: &str = "rpm/rpmrs_v6_rpm-basic-2.3.4-5.el9.noarch.rpm";
const NO_PAYLOAD_DIGEST: &str = "rpm/gru_simple-1.0.1-1.i386.rpm";

fn options(if_signed: IfSigned) -> SignOptions {
    SignOptions { if_signed, ..SignOptions::default() }
}

fn kind(value: &str) -> SignOptions {
    let mut options = SignOptions::default();
    options.format.set(&by_name("rpm").unwrap().options()[0], value).unwrap();
    assert_eq!(options.format.value(&RPM_SIGNATURE), value);
    options
}

fn min_rpm(value: &str) -> SignOptions {
    let mut options = SignOptions::default();
    options.format.set(&by_name("rpm").unwrap().options()[1], value).unwrap();
    assert_eq!(options.format.value(&MIN_RPM), value);
    options
}

fn prepare(bytes: &Vec<u8>, options: &SignOptions, signer: &Signer) -> Result<Prepared, Error> {
    match Rpm.prepare(bytes, options, &signer.certificate, &signer.salts(options.hash))? {
        Preparation::Sign(prepared) => Ok(prepared),
        Preparation::Leave { why } => panic!("left: {why}"),
    }
}

fn sign(bytes: &Vec<u8>, options: &SignOptions, signer: &Signer) -> Vec<u8> {
    let prepared = prepare(bytes, options, signer).unwrap();
    match prepared.plan.output(&signer.sign(&prepared.items), Layout::Tight).unwrap() {
        Output::Edits(edits) => edits.apply(bytes),
        Output::Beside(_) => panic!("not embedded"),
    }
}

fn left(bytes: &Vec<u8>, options: &SignOptions, signer: &Signer) -> Option<String> {
    match Rpm.prepare(bytes, options, &signer.certificate, &signer.salts(options.hash)).unwrap() {
        Preparation::Leave { why } => Some(why),
        Preparation::Sign(_) => None,
    }
}

fn strip(bytes: &Vec<u8>) -> Vec<u8> {
    Rpm.strip(bytes).unwrap().map_or_else(|| bytes.clone(), |edits| edits.apply(bytes))
}

fn verify(bytes: &Vec<u8>, certificates: &[&Certificate], now: u32) -> Verification {
    let mut keyring = Keyring::new();
    certificates.iter().for_each(|certificate| keyring.push((*certificate).clone()));
    Rpm.verify(bytes, &VerifyContext { keyring: &keyring, now: i64::from(now), sidecar: None }).unwrap()
}

/// Tags of the signature header in index order, by our own arithmetic.
fn tags(bytes: &[u8]) -> Vec<u32> {
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (0..number(104) as usize).map(|entry| number(112 + 16 * entry)).collect()
}

fn places(verification: &Verification) -> Vec<&str> {
    verification.signatures.iter().map(|signature| signature.place.as_str()).collect()
}

#[test]
fn what_rpmsign_signed_strips_to_the_original_if_the_reserve_was_usual() {
    let pairs = [
        ("gen_tiny-signed-rsa4096", "gen_tiny-reserved4096"),
        ("gen_tiny-signed-rsa4096-rpmv3", "gen_tiny-reserved4096"),
        ("gen_tiny-signed-ed25519", "gen_tiny-reserved4096"),
        ("gen_tiny-signed-dsa1024", "gen_tiny-reserved4096"),
        ("gen_tiny-signed-in-2035", "gen_tiny-reserved4096"),
        ("rpmorg_hello-2.0-1.x86_64-signed-with-subkey", "rpmorg_hello-2.0-1.x86_64"),
        ("rpmorg_hello-2.0-1.x86_64-signed", "rpmorg_hello-2.0-1.x86_64"),
        ("rhs_testpkg-1.signed", "rhs_testpkg-1"),
        (
            "rpmrs_v4_signed_rpm-basic-with-ed25519-2.3.4-5.el9.noarch",
            "rpmrs_v4_rpm-basic-2.3.4-5.el9.noarch",
        ),
        (
            "rpmrs_v6_signed_rpm-basic-with-ed25519-2.3.4-5.el9.noarch",
            "rpmrs_v6_rpm-basic-2.3.4-5.el9.noarch",
        ),
    ];
    for (signed, original) in pairs {
        let (signed, original) =
            (fixture(&format!("rpm/{signed}.rpm")), fixture(&format!("rpm/{original}.rpm")));
        assert!(strip(&signed) == original);
    }
}

/// The packets of the package that rpmsign made, put into the unsigned one by us, give the same bytes.
#[test]
fn the_bytes_are_those_that_rpmsign_writes() {
    let cases = [
        ("gen_tiny-signed-rsa4096", "gen_tiny-reserved4096", "header"),
        ("gen_tiny-signed-rsa4096-rpmv3", "gen_tiny-reserved4096", "both"),
        ("gen_tiny-signed-ed25519", "gen_tiny-reserved4096", "header"),
        ("rpmorg_hello-2.0-1.x86_64-signed", "rpmorg_hello-2.0-1.x86_64", "both"),
        ("rhs_testpkg-1.signed", "rhs_testpkg-1", "header"),
        (
            "rpmrs_v6_signed_rpm-basic-with-ed25519-2.3.4-5.el9.noarch",
            "rpmrs_v6_rpm-basic-2.3.4-5.el9.noarch",
            "auto",
        ),
    ];
    for (signed, original, wish) in cases {
        let (signed, original) =
            (fixture(&format!("rpm/{signed}.rpm")), fixture(&format!("rpm/{original}.rpm")));
        let prepared = prepare(&original, &kind(wish), &Signer::ed25519()).unwrap();
        let packets: Vec<Vec<u8>> =
            [267, 268, 278, 1002].into_iter().filter_map(|tag| packet(&signed, tag)).collect();
        let Output::Edits(edits) = prepared.plan.output(&packets, Layout::Tight).unwrap() else {
            panic!("not embedded")
        };
        assert!(edits.keeps_layout());
        assert!(edits.apply(&original) == signed);
    }
}

/// The packet in this tag, by our own arithmetic.
fn packet(bytes: &[u8], tag: u32) -> Option<Vec<u8>> {
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let entry = 112 + 16 * tags(bytes).iter().position(|other| *other == tag)?;
    let data = &bytes[112 + 16 * number(104) + number(entry + 8)..];
    if tag != 278 {
        return Some(data[..number(entry + 12)].to_vec());
    }
    let text = data.split(|byte| *byte == 0).next().unwrap();
    Some(base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).unwrap())
}

#[test]
fn without_a_payload_digest_auto_signs_header_and_payload_too() {
    let signer = Signer::rsa4096();
    let signed = sign(&fixture(NO_PAYLOAD_DIGEST), &SignOptions::default(), &signer);
    let verification = verify(&signed, &[&signer.certificate], SIGNING_TIME);
    assert_eq!(places(&verification), ["RSAHEADER (268)", "SIGPGP (1002)"]);
    assert_eq!(verification.state(), State::Valid);
    let mut flipped = signed;
    let at = flipped.len() - 30;
    flipped[at] ^= 1;
    let verification = verify(&flipped, &[&signer.certificate], SIGNING_TIME);
    assert_eq!(verification.signatures[1].state, State::Bad);
    assert_eq!(verification.signatures[0].state, State::Valid);
}

#[test]
fn the_header_alone_is_refused_without_a_payload_digest() {
    let error = prepare(&fixture(NO_PAYLOAD_DIGEST), &kind("header"), &Signer::ed25519()).err().unwrap();
    assert!(error.to_string().contains("no SHA-256 digest of its payload"), "{error}");
}

#[test]
fn v6_packages_take_only_a_header_signature_in_tag_278() {
    for refused in ["header+payload", "both"] {
        let error = prepare(&fixture(V6), &kind(refused), &Signer::ed25519()).err().unwrap();
        assert!(error.to_string().contains("v6 packages"), "{error}");
    }
    let signed = sign(&fixture(V6), &kind("header"), &Signer::ed25519());
    assert_eq!(tags(&signed), [62, 273, 278, 279, 999]);
    assert_eq!(signed.len(), fixture(V6).len());
}

#[test]
fn each_kind_signs_what_it_says_in_the_tag_of_its_algorithm() {
    let cases = [
        ("header", Signer::rsa4096(), ["RSAHEADER (268)"].as_slice()),
        ("header+payload", Signer::rsa4096(), &["SIGPGP (1002)"]),
        ("both", Signer::rsa4096(), &["RSAHEADER (268)", "SIGPGP (1002)"]),
        ("header", Signer::ed25519(), &["DSAHEADER (267)"]),
        ("both", Signer::ed25519(), &["DSAHEADER (267)", "SIGGPG (1005)"]),
    ];
    for (wish, signer, wanted) in cases {
        let signed = sign(&fixture(UNSIGNED), &kind(wish), &signer);
        let verification = verify(&signed, &[&signer.certificate], SIGNING_TIME);
        assert_eq!(places(&verification), wanted);
        assert_eq!(verification.state(), State::Valid);
        assert!(tags(&signed).is_sorted(), "{:?}", tags(&signed));
        assert!(strip(&signed) == fixture(UNSIGNED));
    }
}

#[test]
fn the_same_request_again_leaves_the_file_unless_forced() {
    for (name, wish) in [(UNSIGNED, "auto"), (UNSIGNED, "both"), (V6, "auto"), (NO_PAYLOAD_DIGEST, "auto")] {
        let (signer, options) = (Signer::ed25519(), kind(wish));
        let signed = sign(&fixture(name), &options, &signer);
        assert_eq!(left(&signed, &options, &signer).as_deref(), Some("already signed by this key"), "{name}");
        let forced = SignOptions { repeat: Repeat::Force, ..options.clone() };
        assert_eq!(left(&signed, &forced, &signer), None);
        let other_hash = SignOptions { hash: HashAlgorithm::Sha512, ..options.clone() };
        assert_eq!(left(&signed, &other_hash, &signer), None);
        assert_eq!(left(&signed, &options, &Signer::rsa4096()), None);
        let add = SignOptions { if_signed: IfSigned::Add, ..options };
        assert!(left(&signed, &add, &signer).is_some(), "{name}");
    }
}

#[test]
fn a_broken_signature_of_the_same_key_is_made_again() {
    let signer = Signer::ed25519();
    let options = SignOptions::default();
    let mut signed = sign(&fixture(UNSIGNED), &options, &signer);
    // The last byte of the packet: index of 10 entries, 267 first, 119 bytes.
    let at = 96 + 16 + 16 * tags(&signed).len() + 118;
    signed[at] ^= 1;
    assert_eq!(verify(&signed, &[&signer.certificate], SIGNING_TIME).state(), State::Bad);
    assert_eq!(left(&signed, &options, &signer), None);
}

#[test]
fn skip_and_refuse_look_at_any_signature() {
    let signed = fixture("rpm/gen_tiny-signed-rsa4096.rpm");
    let signer = Signer::ed25519();
    assert_eq!(left(&signed, &options(IfSigned::Skip), &signer).as_deref(), Some("already signed (skipped)"));
    assert!(left(&fixture(UNSIGNED), &options(IfSigned::Skip), &signer).is_none());
    let error = prepare(&signed, &options(IfSigned::Refuse), &signer).err().unwrap();
    assert!(error.to_string().contains("540b4008adbe54197fba7930c1170a1e0929b21d"), "{error}");
}

#[test]
fn replace_leaves_no_signature_of_another_key() {
    let signer = Signer::rsa4096();
    let original = fixture("rpm/rpmorg_hello-2.0-1.x86_64-signed.rpm");
    let prepared = prepare(&original, &SignOptions::default(), &signer).unwrap();
    assert_eq!(
        prepared.notes,
        [
            "replaced rsa header signature of key 4344591e1964c5fc",
            "replaced rsa header+payload signature of key 4344591e1964c5fc",
            "payload not checked"
        ]
    );
    let signed = sign(&original, &SignOptions::default(), &signer);
    assert_eq!(signed.len(), original.len());
    let verification = verify(&signed, &[&signer.certificate], SIGNING_TIME);
    assert_eq!((places(&verification), verification.state()), (vec!["RSAHEADER (268)"], State::Valid));
}

#[test]
fn add_on_v6_keeps_other_keys_and_replaces_its_own() {
    let (first, second) = (Signer::ed25519(), Signer::rsa4096());
    let add = options(IfSigned::Add);
    let one = sign(&fixture(V6), &add, &first);
    let two = sign(&one, &add, &second);
    assert_eq!(two.len(), fixture(V6).len());
    let both = [&first.certificate, &second.certificate];
    let verification = verify(&two, &both, SIGNING_TIME);
    assert_eq!(places(&verification), ["OPENPGP (278) #1", "OPENPGP (278) #2"]);
    assert_eq!(verification.state(), State::Valid);
    let again = sign(&two, &SignOptions { hash: HashAlgorithm::Sha512, ..add }, &first);
    let verification = verify(&again, &both, SIGNING_TIME);
    let hashes: Vec<&str> = verification.signatures.iter().map(|signature| signature.hash.as_str()).collect();
    assert_eq!((hashes, verification.state()), (vec!["sha256", "sha512"], State::Valid));
    assert!(strip(&again) == fixture(V6));
}

#[test]
fn add_on_a_v4_package_of_another_key_goes_to_tag_278_and_no_tag_occurs_twice() {
    let signer = Signer::ed25519();
    let other = Signer::rsa4096();
    let original = fixture("rpm/gen_tiny-signed-rsa4096-rpmv3.rpm");
    let add = options(IfSigned::Add);
    let signed = sign(&original, &add, &signer);
    assert_eq!(tags(&signed), [62, 268, 269, 273, 278, 1000, 1002, 1004, 1007, 1008]);
    let now = SIGNING_TIME + 86400;
    let verification = verify(&signed, &[&signer.certificate, &other.certificate], now);
    assert_eq!(verification.state(), State::Valid, "{verification:?}");
    assert_eq!(
        places(&verification),
        ["OPENPGP (278) #1, RSAHEADER (268)", "OPENPGP (278) #2", "SIGPGP (1002)"]
    );
    assert_eq!(left(&signed, &add, &signer).as_deref(), Some("already signed by this key"));
    assert!(strip(&signed) == strip(&original));
    let both = SignOptions { if_signed: IfSigned::Add, ..kind("both") };
    let error = prepare(&original, &both, &signer).err().unwrap();
    assert!(error.to_string().contains("room for one"), "{error}");
}

#[test]
fn add_on_an_unsigned_package_is_replace() {
    for name in [UNSIGNED, V6, NO_PAYLOAD_DIGEST] {
        let signer = Signer::ed25519();
        let add = sign(&fixture(name), &options(IfSigned::Add), &signer);
        assert!(add == sign(&fixture(name), &SignOptions::default(), &signer), "{name}");
    }
}

#[test]
fn add_of_the_own_key_alone_keeps_nothing_old() {
    let signer = Signer::rsa4096();
    let add = SignOptions { hash: HashAlgorithm::Sha256, ..options(IfSigned::Add) };
    let signed = sign(&fixture("rpm/gen_tiny-signed-rsa4096.rpm"), &add, &signer);
    let verification = verify(&signed, &[&signer.certificate], SIGNING_TIME);
    assert_eq!((places(&verification), verification.state()), (vec!["RSAHEADER (268)"], State::Valid));
}

#[test]
fn verify_tells_the_six_states_apart() {
    let trusted = [&Signer::rsa4096().certificate, &certificate("pgp-key/gen_dsa1024.pub.asc")];
    let cases = [
        (UNSIGNED, State::Unsigned),
        ("rpm/gen_tiny-signed-rsa4096.rpm", State::Valid),
        ("rpm/signatrust_Imath-3.1.4-1.oe2303.x86_64.rpm", State::UnknownKey),
        ("rpm-malformed/gen_mut-payload-flip.rpm", State::Bad),
        ("rpm/gen_tiny-signed-in-2035.rpm", State::Future),
        ("rpm/gen_tiny-signed-dsa1024.rpm", State::Weak),
        ("rpm-malformed/gen_mut-rsa-openpgp-garbage.rpm", State::Malformed),
    ];
    for (name, wanted) in cases {
        assert_eq!(verify(&fixture(name), &trusted, SIGNING_TIME + 86400).state(), wanted, "{name}");
    }
}

#[test]
fn a_v6_signature_is_checked_with_its_salt() {
    let v6 = certificate("pgp-key/rpmrs_rpm-testkey-v6-ed25519.asc");
    let signed = fixture("rpm/rpmrs_v6_signed_rpm-basic-with-ed25519-2.3.4-5.el9.noarch.rpm");
    assert_eq!(verify(&signed, &[&v6], SIGNING_TIME).state(), State::Valid);
}

/// The reserve of a v6 package takes it; its tag is the only place where version 6 signatures go.
#[test]
fn a_version_6_key_signs_a_v6_package_in_tag_278_with_its_salt_in_place() {
    let signer = Signer::ed25519_v6();
    for hash in HashAlgorithm::ALL {
        let options = SignOptions { hash, ..kind("auto") };
        let signed = sign(&fixture(V6), &options, &signer);
        assert_eq!(tags(&signed), [62, 273, 278, 279, 999]);
        assert_eq!(signed.len(), fixture(V6).len());
        let verification = verify(&signed, &[&signer.certificate], SIGNING_TIME);
        assert_eq!((places(&verification), verification.state()), (vec!["OPENPGP (278) #1"], State::Valid));
        assert!(strip(&signed) == fixture(V6));
        // Signed again it has another salt; that it is there is still seen.
        assert_eq!(left(&signed, &options, &signer).as_deref(), Some("already signed by this key"));
    }
}

#[test]
fn a_salt_that_is_missing_or_for_another_hash_is_no_reason_to_hash_without() {
    let signer = Signer::ed25519_v6();
    let options = SignOptions::default();
    assert_eq!(Rpm.salts_needed(&options, &signer.certificate), 1);
    assert_eq!(Rpm.salts_needed(&options, &Signer::ed25519().certificate), 0);
    for salts in [Vec::new(), signer.salts(HashAlgorithm::Sha512)] {
        let prepared = Rpm.prepare(&fixture(V6), &options, &signer.certificate, &salts);
        assert!(matches!(prepared, Err(Error::Internal(_))));
    }
}

#[test]
fn a_version_6_key_signs_a_v4_package_only_beside_others_and_never_in_an_old_tag() {
    let (signer, other) = (Signer::ed25519_v6(), Signer::rsa4096());
    for if_signed in [IfSigned::Replace, IfSigned::Skip, IfSigned::Refuse] {
        let error = prepare(&fixture(UNSIGNED), &options(if_signed), &signer).err().unwrap();
        assert!(error.to_string().contains("rpm before version 6"), "{error}");
        assert!(error.advice().contains("--if-signed add"), "{}", error.advice());
    }
    let add = options(IfSigned::Add);
    let prepared = prepare(&fixture(UNSIGNED), &add, &signer).unwrap();
    assert!(prepared.notes.iter().any(|note| note.contains("rpm before version 6 does not see")));
    let alone = sign(&fixture(UNSIGNED), &add, &signer);
    let old_tags = [267, 268, 1002, 1005];
    assert!(tags(&alone).contains(&278) && !tags(&alone).iter().any(|tag| old_tags.contains(tag)));
    assert!(strip(&alone) == fixture(UNSIGNED));

    let both = sign(&sign(&fixture(UNSIGNED), &options(IfSigned::Replace), &other), &add, &signer);
    let verification = verify(&both, &[&signer.certificate, &other.certificate], SIGNING_TIME);
    assert_eq!(verification.state(), State::Valid, "{verification:?}");
    assert_eq!(places(&verification), ["OPENPGP (278) #1, RSAHEADER (268)", "OPENPGP (278) #2"]);
    assert!(strip(&both) == fixture(UNSIGNED));
    for wish in ["header+payload", "both"] {
        let wished = SignOptions { if_signed: IfSigned::Add, ..kind(wish) };
        let error = prepare(&fixture(UNSIGNED), &wished, &signer).err().unwrap();
        assert!(error.to_string().contains("no signature over header and payload"), "{error}");
    }
    let error = prepare(&fixture(NO_PAYLOAD_DIGEST), &add, &signer).err().unwrap();
    assert!(error.to_string().contains("no SHA-256 digest of its payload"), "{error}");
}

/// A plan that was made for a version 4 key gets no version 6 packet into its old tag (rpm issue 3851).
#[test]
fn a_version_6_packet_is_refused_where_an_old_tag_was_planned() {
    let prepared = prepare(&fixture(UNSIGNED), &SignOptions::default(), &Signer::ed25519()).unwrap();
    let v6 = Signer::ed25519_v6();
    let packets = v6.sign(&prepare(&fixture(V6), &SignOptions::default(), &v6).unwrap().items);
    let error = prepared.plan.output(&packets, Layout::Tight).err().unwrap();
    assert!(error.to_string().contains("no place in an old tag"), "{error}");
}

#[test]
fn file_signatures_stay_and_are_counted() {
    let signer = Signer::ed25519();
    let prepared =
        prepare(&fixture("rpm/rpmorg_imatest-1.0-1.fc34.noarch.rpm"), &SignOptions::default(), &signer);
    assert!(prepared.unwrap().notes.contains(&"kept 2 file signatures".to_owned()));
    let signed = sign(&fixture("rpm/rpmorg_imatest-1.0-1.fc34.noarch.rpm"), &SignOptions::default(), &signer);
    assert!(tags(&signed).contains(&274) && tags(&signed).contains(&275));
}

#[test]
fn a_region_that_leaves_entries_out_is_rewritten_whole() {
    let signer = Signer::ed25519();
    for name in
        ["rpm/rpmorg_hello-2.0-1.x86_64-badima.rpm", "rpm-malformed/gen_mut-sig-region-trailer-wrong.rpm"]
    {
        let original = fixture(name);
        let prepared = prepare(&original, &SignOptions::default(), &signer).unwrap();
        assert!(prepared.notes.iter().any(|note| note.ends_with("rewritten")), "{:?}", prepared.notes);
        let signed = sign(&original, &SignOptions::default(), &signer);
        let entries = tags(&signed).len();
        let store_end =
            112 + 16 * entries + u32::from_be_bytes(signed[108..112].try_into().unwrap()) as usize;
        let trailer: Vec<u8> = [62u32, 7, (16 * entries as u32).wrapping_neg(), 16]
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .collect();
        assert_eq!(signed[store_end - 16..store_end], trailer, "{name}");
    }
}

#[test]
fn what_the_oldest_rpm_would_not_read_is_refused_by_its_name() {
    let signer = Signer::ed25519();
    let large = fixture("rpm/rpmrs_v4_signed_rpm-basic-with-ima-2.3.4-5.el9.noarch.rpm");
    for (release, fits) in [("4.14", false), ("4.15", true), ("6.0", true)] {
        match prepare(&large, &min_rpm(release), &signer) {
            Ok(_) => assert!(fits, "{release}"),
            Err(error) => {
                assert!(!fits && error.to_string().contains("rpm 4.14 reads at most 8192"), "{error}");
            }
        }
    }
    let mut options = SignOptions::default();
    assert!(options.format.set(&Rpm.options()[1], "four").is_err());
    assert!(options.format.set(&Rpm.options()[0], "everything").is_err());
}

/// A package whose payload cannot be read.
struct NoPayload(Vec<u8>, u64);

impl sealwright_formats::source::ReadAt for NoPayload {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        if offset + buf.len() as u64 > self.1 {
            return Err(std::io::Error::other("the payload was read"));
        }
        self.0.read_exact_at(buf, offset)
    }
}

#[test]
fn signing_the_header_reads_no_byte_of_the_payload() {
    let bytes = fixture("rpm/gen_manyfiles-12000.rpm");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let main = (112 + 16 * number(104) + number(108)).next_multiple_of(8);
    let payload = main + 16 + 16 * number(main + 8) + number(main + 12);
    let source = NoPayload(bytes, payload as u64);
    let signer = Signer::ed25519();
    assert!(Rpm.prepare(&source, &SignOptions::default(), &signer.certificate, &[]).is_ok());
    assert!(Rpm.inspect(&source, None).is_ok());
    assert!(Rpm.strip(&source).is_ok());
    let checked = SignOptions { payload: PayloadCheck::Always, ..SignOptions::default() };
    assert!(matches!(Rpm.prepare(&source, &checked, &signer.certificate, &[]), Err(Error::Read { .. })));
}

#[test]
fn the_payload_may_be_there_uncompressed() {
    let compressed = fixture("rpm/rpmrs_v6_gzip_rpm-basic-2.3.4-5.el9.noarch.rpm");
    let plain = fixture(V6);
    let mut mixed = compressed[..compressed.len() - 318].to_vec();
    mixed.extend_from_slice(&plain[plain.len() - 620..]);
    let verification = verify(&mixed, &[], SIGNING_TIME);
    let right =
        |what: &str| verification.digests.iter().any(|d| d.what == what && d.state == DigestState::Right);
    assert_eq!(verification.state(), State::Unsigned, "{verification:?}");
    assert!(right("uncompressed payload SHA-256") && right("payload size"), "{verification:?}");
}

#[test]
fn every_digest_that_is_recorded_is_computed() {
    for (name, digests) in [(UNSIGNED, 6), (V6, 9), (NO_PAYLOAD_DIGEST, 3)] {
        let verification = verify(&fixture(name), &[], SIGNING_TIME);
        assert_eq!(verification.digests.len(), digests, "{name}: {:?}", verification.digests);
        assert!(verification.digests.iter().all(|digest| digest.state != DigestState::Wrong));
        let computed = |what: &str| what.starts_with("uncompressed") || what.contains("payload size");
        assert!(verification.digests.iter().all(|d| d.state == DigestState::Right || computed(d.what)));
    }
}

/// Renames a tag of the signature header, by our own arithmetic.
fn renamed(mut bytes: Vec<u8>, from: u32, to: u32) -> Vec<u8> {
    let at = 112 + 16 * tags(&bytes).iter().position(|tag| *tag == from).unwrap();
    bytes[at..at + 4].copy_from_slice(&to.to_be_bytes());
    bytes
}

#[test]
fn a_package_that_is_signed_in_part_is_not_valid() {
    let signer = Signer::rsa4096();
    let signed = sign(&fixture(NO_PAYLOAD_DIGEST), &SignOptions::default(), &signer);
    // Without the signature over header and payload nothing vouches for the payload.
    let part = renamed(signed.clone(), 1002, 1001);
    let verification = verify(&part, &[&signer.certificate], SIGNING_TIME);
    assert_eq!((places(&verification), verification.state()), (vec!["RSAHEADER (268)"], State::Weak));
    // No rpm looks at the tag of PGP 5.
    let pgp5 = renamed(signed, 1002, 1006);
    let verification = verify(&pgp5, &[&signer.certificate], SIGNING_TIME);
    assert!(verification.signatures.iter().all(|signature| signature.state == State::Weak));
}

#[test]
fn a_signature_that_cannot_be_read_says_so_and_nothing_else() {
    let garbage = fixture("rpm-malformed/gen_mut-rsa-openpgp-garbage.rpm");
    let report = &Rpm.inspect(&garbage, None).unwrap().signatures[0];
    assert_eq!((report.made().as_str(), report.state), ("unreadable", State::Malformed));
    let signed = fixture("rpm/rpmorg_hello-2.0-1.x86_64-signed.rpm");
    let report = &Rpm.inspect(&signed, None).unwrap().signatures[0];
    assert_eq!(report.made(), "v4 rsa/sha256 by 4344591e1964c5fc");
}

#[test]
fn inspect_names_the_package_and_every_signature() {
    let inspection = Rpm.inspect(&fixture("rpm/rpmorg_hello-2.0-1.x86_64-signed.rpm"), None).unwrap();
    let fact = |what: &str| inspection.facts.iter().find(|(name, _)| *name == what).unwrap().1.as_str();
    assert_eq!(fact("name"), "hello-2.0-1.x86_64");
    assert_eq!(
        (fact("rpm format"), fact("payload compressor"), fact("reserve")),
        ("4", "gzip", "3520 bytes")
    );
    let signature = &inspection.signatures[0];
    assert_eq!((signature.place.as_str(), signature.version), ("RSAHEADER (268)", 4));
    assert_eq!((signature.key_algorithm.as_str(), signature.hash.as_str()), ("rsa", "sha256"));
    assert_eq!(signature.issuer, "4344591e1964c5fc");
    let format = |name: &str| {
        let inspection = Rpm.inspect(&fixture(name), None).unwrap();
        inspection.facts.iter().find(|(name, _)| *name == "rpm format").unwrap().1.clone()
    };
    assert_eq!(format(V6), "6");
    let source = Rpm.inspect(&fixture("rpm/rpmorg_hello-1.0-1.src.rpm"), None).unwrap();
    assert_eq!(source.facts[0].1, "hello-1.0-1.src");
}

fn certificate(path: &str) -> Certificate {
    Certificate::parse(&fixture(path)).unwrap()
}
