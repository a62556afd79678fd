//! Cases about files, whole batches and what verification says.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::stage::{RSA, Stage, bytes, ensure, fixture, refused, spawn};

type Outcome = std::result::Result<(), String>;

/// Eight processes on one file: it is signed once, whole; who loses says that another has it.
pub(super) fn concurrent_same(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    for how in [&[][..], &["--in-place"]] {
        stage.setup()?;
        let mut arguments = vec!["sign", "--key", RSA, "in.rpm"];
        arguments.extend(how);
        let start = |_| stage.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let signers =
            (0..8).map(start).collect::<std::io::Result<Vec<_>>>().map_err(|error| error.to_string())?;
        for signer in signers {
            let output = signer.wait_with_output().map_err(|error| error.to_string())?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure(output.status.success() || said.contains("in use") || said.contains("changed"), said)?;
        }
        stage.check()?;
    }
    Ok(())
}

/// Writing fails part-way, by the limit of the process: the cause is named, nothing is left, and with space it works.
pub(super) fn disk_full(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    let sign = stage.command(&["sign", "--key", RSA, "in.rpm"]);
    let mut shell = Command::new("bash");
    shell.args(["-c", "ulimit -f 512; trap '' XFSZ; exec \"$@\"", "bash"]);
    shell.arg(sign.get_program()).args(sign.get_args());
    for (name, value) in sign.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let output = spawn(shell.current_dir(stage.work()))?;
    refused(&output, &["in.rpm", "too large"])?;
    ensure(bytes(&stage.file("in.rpm"))? == bytes(&stage.file("orig.rpm"))?, "in.rpm was changed")?;
    stage.check()?;
    stage.ok(&["sign", "--key", RSA, "in.rpm"])?;
    stage.check()
}

/// One batch of bad files and a good one: the good one is signed, each other is named with a reason.
pub(super) fn empty_and_junk(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    let bad = ["empty.rpm", "html.rpm", "trunc.rpm", "tail.rpm", "dir.rpm", "dangling.rpm"];
    let mut arguments = vec!["sign", "--key", RSA, "--check-payload", "good.rpm"];
    arguments.extend(bad);
    let said = stage.refused(&arguments, &bad)?;
    ensure(!said.contains("panicked"), said)?;
    stage.check()
}

/// Names with spaces, quotes, a dash first and per cent signs, by glob and by directory.
pub(super) fn odd_names(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    let names: Vec<PathBuf> = std::fs::read_dir(stage.work())
        .map_err(|error| error.to_string())?
        .filter_map(|entry| entry.ok().map(|entry| PathBuf::from(entry.file_name())))
        .collect();
    let mut by_name = stage.command(&["sign", "--key", RSA, "--"]);
    super::stage::succeeded(&spawn(by_name.args(&names))?)?;
    stage.check()?;
    stage.setup()?;
    stage.ok(&["sign", "--key", RSA, "-r", "."])?;
    stage.check()
}

/// 256 packages, 64 workers, three times: all signed every time.
pub(super) fn parallel_64(stage: &Stage) -> Outcome {
    stage.import_usual()?;
    for round in 1..=3 {
        stage
            .ok(&["sign", "--key", RSA, "--jobs", "64", "--force", "-r", "p"])
            .map_err(|reason| format!("round {round}: {reason}"))?;
    }
    stage.check()
}

/// Six files, six states; exit status 0 for the valid one alone; none hides another.
pub(super) fn verify_states(stage: &Stage) -> Outcome {
    let keyring = stage.file("keyring.asc");
    let mut keys = bytes(&fixture("pgp-key/gen_rsa4096.pub.asc"))?;
    keys.extend(bytes(&fixture("pgp-key/gen_dsa1024.pub.asc"))?);
    std::fs::write(&keyring, keys).map_err(|error| error.to_string())?;
    let expected = [
        ("unsigned.rpm", "unsigned"),
        ("good.rpm", "valid"),
        ("nokey.rpm", "unknown-key"),
        ("bad.rpm", "bad"),
        ("future.rpm", "future"),
        ("weak.rpm", "weak"),
    ];
    let mut all = vec!["verify", "--keyring", "keyring.asc", "--json"];
    all.extend(expected.iter().map(|(file, _)| *file));
    let output = stage.run(&all)?;
    refused(&output, &[])?;
    let states = states(&output.stdout);
    for (file, state) in expected {
        ensure(
            states.iter().any(|(name, found)| name.ends_with(file) && found == state),
            format!("{file} should be {state}: {states:?}"),
        )?;
        let alone = stage.run(&["verify", "--keyring", "keyring.asc", file])?;
        ensure(
            alone.status.success() == (state == "valid"),
            format!("{file} is {state}, the exit status {}", alone.status),
        )?;
    }
    let plain =
        spawn(Command::new("rpmkeys").args(["-K", "--nosignature", "good.rpm"]).current_dir(stage.work()))?;
    ensure(plain.status.success(), "verification changed good.rpm")
}

/// File and state of each line of `verify --json`.
fn states(stdout: &[u8]) -> Vec<(String, String)> {
    String::from_utf8_lossy(stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|value| {
            Some((value.get("file")?.as_str()?.to_owned(), value.get("state")?.as_str()?.to_owned()))
        })
        .collect()
}
