//! Cases about clear-signed documents and the indexes of repositories.

use std::process::Command;

use super::stage::{ED, RSA, Stage, bytes, ensure, spawn, succeeded};

type Outcome = std::result::Result<(), String>;

/// Lines with dashes: `in.txt` becomes `in.txt.asc`, and comes back.
pub(super) fn clear_dashes(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    let before = bytes(&stage.file("in.txt"))?;
    stage.ok(&["sign", "--key", ED, "--format", "cleartext", "in.txt"])?;
    ensure(bytes(&stage.file("in.txt"))? == before, "in.txt was changed")?;
    stage.check()?;
    stage.ok(&["verify", "--key", ED, "in.txt.asc"])?;
    stage.ok(&["strip", "in.txt.asc"])?;
    ensure(bytes(&stage.file("in.txt.asc"))? == before, "stripping gives another text")
}

/// Two keys for a rotation: each alone is enough, in both files.
pub(super) fn multi_signer_inrelease(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    stage.ok(&["sign", "--key", RSA, "--format", "apt-release", "--hash", "sha512", "Release"])?;
    stage.ok(&["sign", "--key", ED, "--format", "apt-release", "--if-signed", "add", "Release"])?;
    stage.check()?;
    let inline = bytes(&stage.file("InRelease"))?;
    let head = String::from_utf8_lossy(&inline).into_owned();
    let both = ["Hash: SHA512,SHA256", "Hash: SHA256,SHA512"];
    ensure(both.iter().any(|line| head.lines().nth(1) == Some(line)), format!("not both hashes: {head}"))
}

/// Packages, then metadata, then the signature over `repomd.xml`.
pub(super) fn repomd_order(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    stage.ok(&["sign", "--key", RSA, "-r", "repo"])?;
    let repo = stage.file("repo");
    succeeded(&spawn(Command::new("createrepo_c").arg("-q").arg(&repo))?)?;
    let index = "repo/repodata/repomd.xml";
    stage.ok(&["sign", "--key", RSA, "--format", "detached", index])?;
    let key = stage.run(&["key", "export", RSA])?;
    succeeded(&key)?;
    std::fs::write(stage.file("repo/repodata/repomd.xml.key"), &key.stdout)
        .map_err(|error| error.to_string())?;
    stage.check()
}

/// What the packets of both files say.
pub(super) fn sig_packet_version(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    stage.ok(&["sign", "--key", RSA, "--format", "apt-release", "Release"])?;
    stage.check()
}
