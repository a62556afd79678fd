//! Cases about RPM packages.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::stage::{ED, RSA, Stage, both, bytes, ensure, fixture, spawn, succeeded};

type Outcome = std::result::Result<(), String>;

/// Longest time that a package of 147 KB may take (a debug build on a busy machine; 0.2 s on an idle one): the
/// payload it announces is 4.4 GiB, and unpacking and hashing that takes longer.
const UNPACKS_NOTHING: Duration = Duration::from_secs(5);

/// Sizes above 4 GiB: kept, and the payload is not unpacked; sign, sign again, strip.
pub(super) fn four_gib_tags(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    for key in [RSA, ED] {
        let start = Instant::now();
        stage.ok(&["sign", "--key", key, "in.rpm"])?;
        ensure(start.elapsed() < UNPACKS_NOTHING, format!("signing took {:?}", start.elapsed()))?;
        stage.check()?;
    }
    stage.ok(&["strip", "in.rpm"])?;
    stage.check()
}

/// File signatures outside the region of the signature header: replace, and separately remove all.
pub(super) fn badima_resign(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    signed_or_untouched(stage, &["sign", "--key", RSA, "in.rpm"])?;
    stage.check()?;
    stage.setup()?;
    signed_or_untouched(stage, &["strip", "in.rpm"])?;
    stage.check()
}

/// A second signature beside the ones that are there: no contradictory tags; the same again changes nothing.
pub(super) fn double_addsign(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    let add = ["sign", "--key", ED, "--if-signed", "add", "in.rpm"];
    signed_or_untouched(stage, &add)?;
    stage.check()?;
    let once = bytes(&stage.file("in.rpm"))?;
    signed_or_untouched(stage, &add)?;
    ensure(bytes(&stage.file("in.rpm"))? == once, "the same request again changed the file")?;
    stage.setup()?;
    let same = ["sign", "--key", ED, "in.rpm"];
    stage.ok(&same)?;
    let once = bytes(&stage.file("in.rpm"))?;
    stage.ok(&same)?;
    ensure(bytes(&stage.file("in.rpm"))? == once, "replacing by the same signature changed the file")
}

/// Two names of one inode: the same content, or a warning that names the link.
pub(super) fn hardlinked(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    let said = stage.ok(&["sign", "--key", RSA, "el7/a.rpm"])?;
    let warned = said.contains("hard link") || said.contains("other name");
    let differ = bytes(&stage.file("el7/a.rpm"))? != bytes(&stage.file("el8/a.rpm"))?;
    ensure(warned || !differ, format!("the link was broken without a warning: {said}"))?;
    stage.ok(&["sign", "--key", RSA, "el8/a.rpm"])?;
    stage.check()?;
    // Both in one call: names of one file before and after.
    stage.setup()?;
    stage.ok(&["sign", "--key", RSA, "el7/a.rpm", "el8/a.rpm"])?;
    let same = bytes(&stage.file("el7/a.rpm"))? == bytes(&stage.file("el8/a.rpm"))?;
    ensure(same, "two names of one file have parted")?;
    // In place a linked file is refused, and with relink it changes under both names.
    stage.setup()?;
    stage.refused(&["sign", "--key", RSA, "--in-place", "el7/a.rpm"], &["el7/a.rpm", "--hardlinks"])?;
    stage.ok(&["sign", "--key", RSA, "--in-place", "--hardlinks", "relink", "el7/a.rpm"])?;
    let same = bytes(&stage.file("el7/a.rpm"))? == bytes(&stage.file("el8/a.rpm"))?;
    ensure(same, "in place both names change")?;
    stage.check()
}

/// A wrong MD5 in the signature header: refused by name, untouched.
pub(super) fn md5_wrong(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    stage.refused(&["sign", "--key", RSA, "--check-payload", "in.rpm"], &["in.rpm", "MD5"])?;
    ensure(bytes(&stage.file("in.rpm"))? == bytes(&stage.file("orig.rpm"))?, "in.rpm was changed")?;
    stage.check()
}

/// Through a symbolic link: the link stays, mode, owner and attributes stay.
pub(super) fn metadata_preserved(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    stage.ok(&["sign", "--key", RSA, "link.rpm"])?;
    stage.check()?;
    let inspected = stage.ok(&["inspect", "a.rpm"])?;
    ensure(inspected.contains("RSA"), format!("a.rpm is not signed: {inspected}"))
}

/// 600 detached signatures in one run: minimal integers, and gpgv accepts them all; RSA and Ed25519.
pub(super) fn mpi_leading_zero(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    for (key, certificate) in [(RSA, "pgp-key/gen_rsa4096.pub.asc"), (ED, "pgp-key/gen_ed25519.pub.asc")] {
        stage.setup()?;
        let names: Vec<OsString> = (1..=600).map(|number| format!("d{number}.bin").into()).collect();
        let mut sign =
            stage.command(&["sign", "--format", "detached", "--detached-output", "sig", "--key", key]);
        succeeded(&spawn(sign.args(&names))?)?;
        stage.check()?;
        all_accepted(stage, &fixture(certificate))?;
    }
    Ok(())
}

fn all_accepted(stage: &Stage, certificate: &Path) -> Outcome {
    let keyring = stage.file("keyring.gpg");
    let dearmor =
        spawn(Command::new("gpg").args(["--batch", "--dearmor", "--output"]).arg(&keyring).arg(certificate))?;
    succeeded(&dearmor)?;
    for number in 1..=600 {
        let data = stage.file(&format!("d{number}.bin"));
        let signature = stage.file(&format!("d{number}.bin.sig"));
        let output = spawn(Command::new("gpgv").arg("--keyring").arg(&keyring).arg(&signature).arg(&data))?;
        ensure(output.status.success(), format!("d{number}.bin.sig: {}", both(&output)))?;
    }
    Ok(())
}

/// A package by nfpm (SHA-256 only, no reserve): signed by either key, nothing invented.
pub(super) fn nfpm_sha256_only(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    for key in [ED, RSA] {
        stage.setup()?;
        stage.ok(&["sign", "--key", key, "in.rpm"])?;
        stage.check()?;
    }
    Ok(())
}

/// No payload digest in the main header: the default also signs header and payload; a flipped byte shows.
pub(super) fn no_payload_digest(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    stage.ok(&["sign", "--key", RSA, "in.rpm"])?;
    stage.check()?;
    let keyring = fixture("pgp-key/gen_rsa4096.pub.asc");
    let keyring = keyring.to_string_lossy();
    stage.ok(&["verify", "--keyring", &keyring, "in.rpm"])?;
    stage.refused(&["verify", "--keyring", &keyring, "flip.rpm"], &["flip.rpm"]).map(drop)
}

/// A signature header whose region trailer has a wrong size: made right, or left alone.
pub(super) fn region_trailer(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    signed_or_untouched(stage, &["sign", "--key", RSA, "in.rpm"])?;
    stage.check()
}

/// Header and header+payload signatures of another key: all replaced, the size stays.
pub(super) fn resign_both_kinds(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    stage.ok(&["sign", "--key", RSA, "in.rpm"])?;
    stage.check()?;
    let before = bytes(&stage.file("orig.rpm"))?.len();
    let after = bytes(&stage.file("in.rpm"))?.len();
    ensure(before.abs_diff(after) <= 16, format!("{before} bytes became {after}"))
}

/// A v6 package: two signatures in tag 278, the size stays.
pub(super) fn v6_sign(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    stage.ok(&["sign", "--key", ED, "in.rpm"])?;
    stage.ok(&["sign", "--key", RSA, "--if-signed", "add", "in.rpm"])?;
    stage.check()
}

/// Exit status 0, or 1 and the file byte for byte as it was.
fn signed_or_untouched(stage: &Stage, arguments: &[&str]) -> Outcome {
    let file = stage.file("in.rpm");
    let before = bytes(&file)?;
    let output = stage.run(arguments)?;
    match output.status.code() {
        Some(0) => Ok(()),
        Some(1) if bytes(&file)? == before => {
            println!("      refused: {}", both(&output).trim());
            Ok(())
        }
        _ => Err(format!("{}: {}", output.status, both(&output))),
    }
}
