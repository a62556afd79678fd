//! Import: every secret key among the fixtures has its verdict here.

use super::harness::*;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::verify::State;
use sealwright_proto::convert::keys::KeyMaterial;
use sealwright_proto::signer_v1::ImportSecret;
use sealwright_proto::status::{Code, Fault};

/// What becomes of a file: the algorithm that signs and whether the key can be renewed, or words of the refusal.
type Verdict = Result<(&'static str, bool), &'static str>;

/// File, passphrase, verdict. The rest of the directory are public keys.
const TABLE: &[(&str, &str, Verdict)] = &[
    ("gen_certonly-encrypt-sub-no-sign.sec.asc", "", Err("no key in the file can sign now")),
    ("gen_certonly-expsub-livesub.sec.asc", "", Ok(("ed25519", true))),
    ("gen_dsa1024.sec.asc", "", Err("dsa1024 key")),
    ("gen_ed25519.sec.asc", "", Ok(("ed25519", true))),
    ("gen_expired-primary-rsa2048.sec.asc", "", Err("expired 2021-03-01 12:00:00 UTC")),
    ("gen_nistp256.sec.asc", "", Err("nistp256")),
    ("gen_nistp384.sec.asc", "", Err("nistp384")),
    ("gen_rsa3072-passphrase.sec.asc", "corpus-pass", Ok(("rsa3072", true))),
    ("gen_rsa4096.sec.asc", "", Ok(("rsa4096", true))),
    ("gen_sha1-selfsig-rsa2048.sec.asc", "", Ok(("rsa2048", true))),
    ("gen_stubprimary.secsub.asc", "", Ok(("rsa3072", false))),
    ("gen_v6-cv25519.sec.asc", "", Ok(("ed25519", true))),
    ("nfpm_privkey_unprotected_subkey_only.asc", "", Ok(("rsa2048", false))),
    ("obs_secret-key.asc", "", Ok(("rsa2048", true))),
    ("rpgp_alice.sec.asc", "", Err("version 3")),
    ("rpgp_rsa-key-with-modulus-e-257.asc", "", Ok(("rsa2048", true))),
    ("rpgp_v4-ed25519-x25519_tsk.asc", "", Ok(("ed25519", true))),
    ("rpgp_v6-25519-annex-a-4_tsk.asc", "", Ok(("ed25519", true))),
    ("rpgp_v6-legacy_illegal_tsk.asc", "", Err("version 6")),
    ("rpgp_v6-rsa_tsk.asc", "", Ok(("rsa4096", true))),
    ("rpmorg_alice.secret", "", Ok(("rsa3072", true))),
    ("rpmorg_different-creation-times.secret", "", Ok(("rsa3072", true))),
    ("rpmorg_rpm.org-ed25519-test.secret", "", Ok(("ed25519", true))),
    ("rpmorg_rpm.org-rsa-2048-test.secret", "", Ok(("rsa2048", true))),
    ("rpmorg_rpm.org-v6-ed25519-test.secret", "", Ok(("ed25519", true))),
    ("rpmorg_rpm.org-v6-mldsa87-test.secret", "", Err("unknown algorithm (31)")),
    ("rpmrs_rpm-testkey-v4-ed25519.secret", "", Ok(("ed25519", true))),
    ("rpmrs_rpm-testkey-v4-rsa3072-protected.secret", "thisisN0Tasecuredpassphrase", Ok(("rsa3072", true))),
    ("rpmrs_rpm-testkey-v4-rsa4096.secret", "", Ok(("rsa4096", true))),
    ("rpmrs_rpm-testkey-v6-ed25519.secret", "", Ok(("ed25519", true))),
    ("rpmrs_rpm-testkey-v6-mldsa65-ed25519.secret", "", Err("unknown algorithm (30)")),
];

#[test]
fn every_secret_key_is_imported_and_signs_or_is_refused_by_name() {
    let mut signer = Signer::start();
    for (file, passphrase, verdict) in TABLE {
        match (signer.import(1, &fixture(file), passphrase, ""), verdict) {
            (Ok(key), Ok((algorithm, renewable))) => {
                assert_eq!(
                    (key.algorithm.to_string().as_str(), key.renewable),
                    (*algorithm, *renewable),
                    "{file}"
                );
                assert_signs(&mut signer, 1, &key, file);
            }
            (Err(fault), Err(words)) => {
                assert_eq!(fault.code, Code::ImportRefused, "{file}");
                assert!(fault.message.contains(words), "{file}: {}", fault.message);
            }
            (Ok(key), Err(words)) => panic!("{file}: imported as {}; expected: {words}", key.algorithm),
            (Err(fault), Ok(_)) => panic!("{file}: {fault}"),
        }
    }
}

fn assert_signs(signer: &mut Signer, id: u8, key: &KeyMaterial, file: &str) {
    let signed = signer.sign(sealed(id, key), HashAlgorithm::Sha256, b"x").unwrap();
    assert_eq!(verdict(key, &signed.packet, b"x", NOW), State::Valid, "{file}");
}

/// Every file of the directory is in the table or is a public key, and public keys are refused as such.
#[test]
fn the_table_is_complete() {
    let mut signer = Signer::start();
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/pgp-key");
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // The same key as obs_secret-key.asc in shape, and nobody wrote its passphrase down.
        let known = TABLE.iter().any(|(file, ..)| *file == name) || name == "obs_secret-key-passphrase.asc";
        if known || name == "rpgp_two_signed.asc" || name == "nfpm_wrong_key_format.pub" {
            continue;
        }
        let fault = signer.import(1, &fixture(&name), "", "").unwrap_err();
        assert!(fault.message.contains("public key"), "{name}: {}", fault.message);
    }
    for foreign in ["rpgp_two_signed.asc", "nfpm_wrong_key_format.pub"] {
        let fault = signer.import(1, &fixture(foreign), "", "").unwrap_err();
        assert!(fault.message.contains("armor block is not supported"), "{foreign}: {}", fault.message);
    }
}

#[test]
fn a_missing_or_wrong_passphrase_is_said_to_be_that() {
    let mut signer = Signer::start();
    for file in [
        "gen_rsa3072-passphrase.sec.asc",
        "obs_secret-key-passphrase.asc",
        "rpmrs_rpm-testkey-v4-rsa3072-protected.secret",
    ] {
        for (passphrase, words) in [("", "none was given"), ("wrong", "does not open")] {
            let fault = signer.import(1, &fixture(file), passphrase, "").unwrap_err();
            assert_eq!(fault.code, Code::PassphraseWrong, "{file}");
            assert!(fault.message.contains(words), "{file}: {}", fault.message);
            assert!(!fault.message.contains("wrong key"));
        }
    }
}

/// The key with its secrets behind a passphrase: Argon2 with this memory (2 to that many KiB) and OCB.
fn locked(file: &str, passphrase: &str, memory_power: u8) -> Vec<u8> {
    use pgp::composed::{Deserializable as _, SignedSecretKey};
    use pgp::crypto::{aead::AeadAlgorithm, sym::SymmetricKeyAlgorithm};
    use pgp::types::{Password, S2kParams, StringToKey};
    let bytes = sealwright_crypto::openpgp::armor::decode_or_binary(&fixture(file)).unwrap();
    let mut key = SignedSecretKey::from_bytes(&bytes[..]).unwrap();
    let protection = || S2kParams::Aead {
        sym_alg: SymmetricKeyAlgorithm::AES256,
        aead_mode: AeadAlgorithm::Ocb,
        s2k: StringToKey::Argon2 { salt: [3; 16], t: 1, p: 1, m_enc: memory_power },
        nonce: vec![9; 15].into(),
    };
    let passphrase = Password::from(passphrase);
    key.primary_key.set_password_with_s2k(&passphrase, protection()).unwrap();
    for subkey in &mut key.secret_subkeys {
        subkey.key.set_password_with_s2k(&passphrase, protection()).unwrap();
    }
    pgp::ser::Serialize::to_bytes(&key).unwrap()
}

#[test]
fn a_version_6_key_behind_argon2_opens_with_its_passphrase_within_the_memory_that_is_allowed() {
    let mut signer = Signer::start();
    for (file, algorithm) in
        [("rpmorg_rpm.org-v6-ed25519-test.secret", "ed25519"), ("rpgp_v6-rsa_tsk.asc", "rsa4096")]
    {
        let within = locked(file, "corpus-pass", 10);
        let key = signer.import(1, &within, "corpus-pass", "").unwrap();
        assert_eq!(key.algorithm.to_string(), algorithm);
        assert_signs(&mut signer, 1, &key, file);
        for (passphrase, words) in [("", "none was given"), ("wrong", "does not open")] {
            let fault = signer.import(1, &within, passphrase, "").unwrap_err();
            assert_eq!(fault.code, Code::PassphraseWrong, "{file}");
            assert!(fault.message.contains(words), "{file}: {}", fault.message);
        }
        let fault = signer.import(1, &locked(file, "corpus-pass", 17), "corpus-pass", "").unwrap_err();
        assert_eq!(fault.code, Code::ImportRefused, "{file}");
        assert!(fault.message.contains("64 MiB"), "{file}: {}", fault.message);
    }
}

fn fingerprints(key: &KeyMaterial) -> Vec<(String, Option<i64>)> {
    let certificate = Certificate::parse(&key.certificate).unwrap();
    certificate.components().iter().map(|one| (one.fingerprint().to_string(), one.expires())).collect()
}

/// `fixtures/cases/key-expired-subkey-choice`.
#[test]
fn the_live_subkey_signs_and_the_expired_one_is_refused_even_when_named() {
    let mut signer = Signer::start();
    let file = fixture("gen_certonly-expsub-livesub.sec.asc");
    let key = signer.import(1, &file, "", "").unwrap();
    let all = fingerprints(&key);
    let (expired, _) = all.iter().find(|(_, expires)| expires.is_some_and(|end| end < NOW)).unwrap();
    assert_ne!(*expired, key.signing_fingerprint);
    assert_ne!(key.fingerprint, key.signing_fingerprint);
    let named = signer.import(1, &file, "", &key.signing_fingerprint.to_uppercase()).unwrap();
    assert_eq!(named.signing_fingerprint, key.signing_fingerprint);
    let refused = |signer: &mut Signer, name: &str| signer.import(1, &file, "", name).unwrap_err();
    let fault: Fault = refused(&mut signer, expired);
    assert_eq!(fault.code, Code::ImportRefused);
    assert!(fault.message.contains("expired 20"), "{}", fault.message);
    let fault = refused(&mut signer, &key.fingerprint);
    assert!(fault.message.contains("flags"), "the primary key only certifies: {}", fault.message);
    let fault = refused(&mut signer, &"ab".repeat(20));
    assert!(fault.message.contains("has no key"), "{}", fault.message);
    for (there, _) in &all {
        assert!(fault.message.contains(there), "{} is not named: {}", there, fault.message);
    }
    let fault = refused(&mut signer, "release");
    assert!(fault.message.contains("no fingerprint"), "{}", fault.message);
}

/// `fixtures/cases/key-subkey-only-secret`.
#[test]
fn a_stub_primary_is_said_to_be_elsewhere() {
    let mut signer = Signer::start();
    for file in ["gen_stubprimary.secsub.asc", "nfpm_privkey_unprotected_subkey_only.asc"] {
        let bytes = fixture(file);
        let key = signer.import(1, &bytes, "", "").unwrap();
        let fault = signer.import(1, &bytes, "", &key.fingerprint).unwrap_err();
        assert_eq!(fault.code, Code::ImportRefused, "{file}");
        let fault = signer.renew(1, &key, None).unwrap_err();
        assert_eq!(fault.code, Code::NotRenewable, "{file}");
        assert!(fault.message.contains("primary secret key is not here"), "{}", fault.message);
    }
}

/// `fixtures/cases/key-sha1-selfsig`.
#[test]
fn a_sha1_self_signature_is_warned_of_by_name_with_the_cure() {
    let mut signer = Signer::start();
    let key = signer.import(1, &fixture("gen_sha1-selfsig-rsa2048.sec.asc"), "", "").unwrap();
    let warning = key.warnings.iter().find(|warning| warning.contains("SHA-1")).unwrap();
    assert!(warning.contains("`sealwright key renew imported`"), "{warning}");
    let renewed = signer.renew(1, &key, None).unwrap();
    assert!(renewed.warnings.is_empty(), "{:?}", renewed.warnings);
}

/// `fixtures/cases/key-expired-subkey-choice`.
#[test]
fn a_renewal_that_has_just_been_made_is_not_advised_again() {
    let mut signer = Signer::start();
    let key = signer.import(1, &fixture("gen_certonly-expsub-livesub.sec.asc"), "", "").unwrap();
    let expired = |key: &KeyMaterial| key.warnings.iter().filter(|text| text.contains("expired")).count();
    assert_eq!(expired(&key), 1, "{:?}", key.warnings);
    let renewed = signer.renew(1, &key, None).unwrap();
    assert_eq!(expired(&renewed), 1, "{:?}", renewed.warnings);
    for warning in key.warnings.iter().chain(&renewed.warnings) {
        assert!(!warning.contains("sealwright key renew"), "it does not help an unused subkey: {warning}");
    }
}

#[test]
fn several_keys_in_one_file_are_refused_and_named() {
    let mut signer = Signer::start();
    let one = fixture("gen_ed25519.sec.asc");
    for other in ["gen_rsa4096.sec.asc", "gen_rsa4096.pub.asc"] {
        let fault = signer.import(1, &[one.as_slice(), &fixture(other)].concat(), "", "").unwrap_err();
        assert!(fault.message.contains("several keys"), "{}", fault.message);
        let key = signer.import(1, &one, "", "").unwrap();
        assert!(fault.message.contains(&key.fingerprint), "{}", fault.message);
    }
}

#[test]
fn junk_and_damaged_files_are_refused_and_nothing_panics() {
    for file in ["gen_ed25519.sec.asc", "rpgp_v6-25519-annex-a-4_tsk.asc"] {
        junk_and_damage(file);
    }
}

fn junk_and_damage(file: &str) {
    let mut signer = Signer::start();
    let good = sealwright_crypto::openpgp::armor::decode_or_binary(&fixture(file)).unwrap();
    for junk in [&b""[..], b"hello", &[0x95], &[0xff; 300], &[0x80; 300], &good[..good.len() / 2]] {
        assert_eq!(signer.import(1, junk, "", "").unwrap_err().code, Code::ImportRefused);
    }
    for index in 0..good.len() {
        let mut changed = good.clone();
        changed[index] ^= 0x04;
        // Some bits do not matter (an unhashed subpacket); whatever is imported signs validly.
        match signer.import(1, &changed, "", "") {
            Ok(key) => assert_signs(&mut signer, 1, &key, "changed"),
            Err(fault) => assert!(
                matches!(fault.code, Code::ImportRefused | Code::PassphraseWrong),
                "byte {index}: {} {}",
                fault.code,
                fault.message
            ),
        }
    }
}

/// d, p or q with any bit changed do not import: aws-lc checks them against each other and the public half.
#[test]
fn rsa_numbers_that_do_not_belong_together_are_refused() {
    let mut signer = Signer::start();
    let good =
        sealwright_crypto::openpgp::armor::decode_or_binary(&fixture("rpmorg_rpm.org-rsa-2048-test.secret"))
            .unwrap();
    // Behind header, version, time, algorithm, n, e and usage: d, p, q. (u follows from them, and is computed anew.)
    let secret = 3 + 6 + 258 + 5 + 1;
    for index in (secret + 2..secret + 518).step_by(37) {
        let mut changed = good.clone();
        changed[index] ^= 0x04;
        let code = signer.import(1, &changed, "", "").err().map(|fault| fault.code);
        assert_eq!(code, Some(Code::ImportRefused), "{}", index - secret);
    }
}

#[test]
fn an_import_opens_only_under_its_name_and_in_this_process() {
    let mut signer = Signer::start();
    let secret = || ImportSecret {
        key: fixture("gen_ed25519.sec.asc"),
        passphrase: Vec::new(),
        subkey: String::new(),
        usages: vec![1],
        bare_digests_on_primary: false,
    };
    let fault = signer.import_encrypted_for(1, &secret(), "one", "two").unwrap_err();
    assert_eq!(fault.code, Code::ImportRefused);
    assert!(fault.message.contains("decrypted"), "{}", fault.message);
    signer.import_encrypted_for(1, &secret(), "one", "one").unwrap();
}
