//! Cases about keys and clocks.

use std::process::Command;

use super::stage::{ED, RSA, Stage, both, bytes, ensure, fixture, refused, spawn, succeeded};

type Outcome = std::result::Result<(), String>;

/// Fingerprints of the key with a live and an expired signing subkey.
const CERTIFY_ONLY: &str = "3F0ADE5FEF5F7AA82A09AA8A820CB7E1DB3EEA04";
const EXPIRED_SUBKEY: &str = "DD480381A1DB7BABEF26492F3A518505E9CE9A3D";
const LIVE_SUBKEY: &str = "3E3FC1F7619C12FA7ACC162C09657B0611A0C1D1";

/// A primary that only certifies, an expired signing subkey, a live one: the live one signs.
pub(super) fn expired_subkey_choice(stage: &Stage) -> Outcome {
    stage.refused(&["key", "import", "old", "key.sec.asc", "--subkey", EXPIRED_SUBKEY], &["expired"])?;
    stage.ok(&["key", "import", "release", "key.sec.asc"])?;
    stage.ok(&["sign", "--key", CERTIFY_ONLY, "in.rpm"])?;
    let issuer = stage.ok(&["inspect", "--json", "in.rpm"])?.to_uppercase();
    ensure(issuer.contains(LIVE_SUBKEY), format!("not signed by {LIVE_SUBKEY}: {issuer}"))?;
    stage.check()
}

/// A certificate bound by SHA-1: a warning that names SHA-1 and the way out; renewal cures it.
pub(super) fn sha1_selfsig(stage: &Stage) -> Outcome {
    let said = stage.ok(&["key", "import", "old", "k.sec.asc"])?;
    ensure(said.contains("SHA-1") || said.contains("SHA1"), format!("no warning of SHA-1: {said}"))?;
    ensure(said.contains("key renew"), format!("no offer to renew: {said}"))?;
    stage.ok(&["key", "renew", "old"])?;
    let output = stage.run(&["key", "export", "old"])?;
    succeeded(&output)?;
    let certificate = stage.file("renewed.asc");
    std::fs::write(&certificate, &output.stdout).map_err(|error| error.to_string())?;
    let packets = spawn(Command::new("gpg").args(["--batch", "--list-packets"]).arg(&certificate))?;
    let packets = succeeded(&packets)?;
    ensure(
        packets.contains("digest algo 8") || packets.contains("digest algo 10"),
        format!("renewal made no self-signature with SHA-2: {packets}"),
    )?;
    let package = stage.file("in.rpm");
    std::fs::copy(fixture("rpm/gen_tiny-reserved4096.rpm"), &package).map_err(|error| error.to_string())?;
    stage.ok(&["sign", "--key", "old", "in.rpm"])?;
    let inspected = stage.ok(&["inspect", "--json", "in.rpm"])?;
    ensure(inspected.contains(r#""hash":"sha256""#), format!("not signed with SHA-256: {inspected}"))
}

/// The primary secret is a stub: both keys are imported, the subkey signs.
pub(super) fn subkey_only_secret(stage: &Stage) -> Outcome {
    stage.ok(&["key", "import", "a", "a.sec.asc"])?;
    stage.ok(&["key", "import", "b", "b.sec.asc"])?;
    let copy = stage.file("a.rpm");
    std::fs::copy(stage.file("in.rpm"), copy).map_err(|error| error.to_string())?;
    stage.ok(&["sign", "--key", "a", "a.rpm"])?;
    stage.ok(&["sign", "--key", "b", "in.rpm"])?;
    std::fs::remove_file(stage.file("a.rpm")).map_err(|error| error.to_string())?;
    stage.check()
}

/// A clock before the key was made: refused, untouched. Far ahead: signed with the time of that clock, if the key
/// is valid then; after that, signing at an earlier time is refused and both times are named.
pub(super) fn future_clock(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    let before = bytes(&stage.file("in.rpm"))?;
    let early = stage.at("2019-01-01", &["sign", "--key", RSA, "in.rpm"])?;
    refused(&early, &[])?;
    let said = both(&early).to_lowercase();
    ensure(said.contains("2019") && (said.contains("predate") || said.contains("before")), said)?;
    ensure(bytes(&stage.file("in.rpm"))? == before, "in.rpm was changed by a refused signature")?;
    let late = stage.at("2040-01-01", &["sign", "--key", RSA, "in.rpm"])?;
    succeeded(&late)?;
    let shown = stage.at("2040-01-02", &["inspect", "in.rpm"])?;
    ensure(both(&shown).contains("2040"), format!("the signature is not dated 2040: {}", both(&shown)))?;
    let back = stage.run(&["sign", "--key", RSA, "--force", "in.rpm"])?;
    refused(&back, &["2040"])?;
    stage.ok(&["sign", "--key", ED, "in.rpm"])?;
    expired_then(stage)
}

/// A key that has expired by the time of a clock far ahead is refused.
fn expired_then(stage: &Stage) -> Outcome {
    stage.ok(&[
        "key",
        "create",
        "short",
        "--algorithm",
        "ed25519",
        "--uid",
        "Short <s@example.org>",
        "--expires",
        "1y",
    ])?;
    let before = bytes(&stage.file("in.rpm"))?;
    let late = stage.at("2040-01-01", &["sign", "--key", "short", "in.rpm"])?;
    refused(&late, &["expired"])?;
    ensure(bytes(&stage.file("in.rpm"))? == before, "in.rpm was changed by a refused signature")
}
