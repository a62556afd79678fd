//! The judges themselves: each says yes to what is right and no to what is not, so that no test passes because its
//! judge is blind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs;

use sealwright_testkit::fixtures::{self, ED25519, RSA4096};
use sealwright_testkit::rpm::{self, Package};
use sealwright_testkit::tools::{self, Gpg, RpmKeys};

#[test]
fn rpmkeys_tells_signed_unsigned_unknown_and_damaged_apart() {
    let rpm = RpmKeys::new(&[RSA4096.public()]);
    let check = |name: &str| rpm.check(&fixtures::path(name));
    assert!(check("rpm/gen_tiny-signed-rsa4096.rpm").is_signed_and_all_ok());
    let unsigned = check("rpm/gen_tiny-reserved4096.rpm");
    assert!(unsigned.all_ok() && !unsigned.is_signed_and_all_ok(), "{unsigned:?}");
    assert!(!check("rpm/gen_tiny-signed-ed25519.rpm").all_ok());
    assert!(!check("rpm-malformed/gen_mut-payload-flip.rpm").all_ok());
}

#[test]
fn gpgv_and_sqv_refuse_another_key_and_another_content() {
    let data = fixtures::path("pgp-sig/librepo_test_data.txt");
    let signature = fixtures::path("pgp-sig/librepo_test_data.txt.asc");
    let certificate = fixtures::key("librepo_expired_key.asc");
    assert!(tools::gpgv(&[certificate], &signature, &data).status.success());
    assert!(!tools::gpgv(&[ED25519.public()], &signature, &data).status.success());
    assert!(
        !tools::gpgv(&[fixtures::key("librepo_expired_key.asc")], &signature, &signature).status.success()
    );
    assert!(!tools::sqv(&ED25519.public(), &signature, &data).status.success());
}

#[test]
fn gpg_lists_what_was_imported() {
    let gpg = Gpg::new();
    assert!(!gpg.list().contains("pub:"));
    gpg.import(&RSA4096.public());
    assert!(gpg.list().contains("rsa4096@corpus.invalid"));
}

#[test]
fn packages_are_cut_where_their_headers_say() {
    let bytes = fs::read(fixtures::package("gen_tiny-signed-rsa4096.rpm")).unwrap();
    let package = Package::read(&bytes);
    assert!(!package.is_v6() && package.has_reserve());
    assert!(package.signature_tags().contains(&rpm::RSA_HEADER));
    let folder = tempfile::tempdir().unwrap();
    let (header, signature) = (folder.path().join("header"), folder.path().join("signature"));
    fs::write(&header, package.header).unwrap();
    fs::write(&signature, package.binary(rpm::RSA_HEADER).unwrap()).unwrap();
    let output = tools::gpgv(&[RSA4096.public()], &signature, &header);
    assert!(output.status.success(), "{}", tools::text(&output));
    let bytes =
        fs::read(fixtures::package("rpmrs_v6_signed_rpm-basic-multiple-signatures-2.3.4-5.el9.noarch.rpm"))
            .unwrap();
    let package = Package::read(&bytes);
    assert!(package.is_v6());
    assert_eq!(package.openpgp().len(), 2);
}
