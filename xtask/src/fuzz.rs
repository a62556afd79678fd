//! Fuzzing: runs the targets of `fuzz/` with cargo-fuzz, for a given time and within given memory. How to go on from a
//! finding is in docs/howto/fuzz.md.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde::Deserialize;

use crate::Result;
use crate::error::Error;
use crate::process::{self, cargo};

/// The manifest that lists the targets.
const MANIFEST: &str = "fuzz/Cargo.toml";
/// Bytes of an input at most, for a target that says nothing else in the manifest.
const INPUT_BYTES_MAX: u32 = 4096;
/// Mebibytes of a fuzzing process at most; above it is a finding.
const MEMORY_MIB_MAX: u32 = 2048;
/// Seconds for one input at most, for a target that says nothing else in the manifest; more is a finding.
const INPUT_SECONDS_MAX: u32 = 10;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Name of a target in fuzz/Cargo.toml, or `all`, one after the other
    target: String,
    /// How long each target runs
    #[arg(long, default_value_t = 10)]
    minutes: u32,
    /// Processes that share one target's work
    #[arg(long, default_value_t = 1)]
    jobs: u8,
    /// Install cargo-fuzz first if it is missing
    #[arg(long)]
    install: bool,
}

#[derive(Deserialize)]
struct Manifest {
    package: Package,
    bin: Vec<Target>,
}

#[derive(Deserialize)]
struct Package {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "max-len")]
    max_len: BTreeMap<String, u32>,
    #[serde(rename = "seconds-max")]
    seconds_max: BTreeMap<String, u32>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Runs one target or all; all of them even if one has a finding, and says at the end which.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let path = process::root().join(MANIFEST);
    let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
    let manifest: Manifest = toml::from_str(&text).map_err(|source| Error::Toml { path, source })?;
    let targets = chosen(&manifest, &arguments.target)?;
    install(arguments.install)?;
    let mut findings = Vec::new();
    for target in targets {
        println!("xtask: fuzz {target} for {} min", arguments.minutes);
        match process::run(&mut fuzz(target, &manifest.package.metadata, arguments)?) {
            Ok(()) => {}
            Err(Error::Command { .. }) => findings.push(target),
            Err(error) => return Err(error),
        }
    }
    for target in &findings {
        println!("xtask: {target} has a finding, in fuzz/artifacts/{target}; see docs/howto/fuzz.md");
    }
    if findings.is_empty() {
        Ok(())
    } else {
        Err(Error::Findings { count: findings.len(), what: "fuzz targets with findings" })
    }
}

fn chosen<'a>(manifest: &'a Manifest, name: &str) -> Result<Vec<&'a str>> {
    let all = manifest.bin.iter().map(|target| target.name.as_str());
    let chosen: Vec<&str> = all.clone().filter(|target| name == "all" || name == *target).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = all.collect();
        return Err(Error::unexpected(format!("no fuzz target {name}; there are: {}", names.join(", "))));
    }
    Ok(chosen)
}

fn install(install: bool) -> Result<()> {
    if cargo(&["fuzz", "--version"]).output().is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    if !install {
        return Err(Error::unexpected(
            "cargo-fuzz is not installed: add --install, or run `cargo install --locked cargo-fuzz`",
        ));
    }
    process::run(&mut cargo(&["install", "--locked", "cargo-fuzz"]))
}

/// The command. New inputs go to `fuzz/corpus`, which git ignores; the seeds are only read.
fn fuzz(target: &str, metadata: &Metadata, arguments: &Arguments) -> Result<Command> {
    let max_len = metadata.max_len.get(target).copied().unwrap_or(INPUT_BYTES_MAX);
    let seconds_max = metadata.seconds_max.get(target).copied().unwrap_or(INPUT_SECONDS_MAX);
    let corpus = format!("fuzz/corpus/{target}");
    let full = process::root().join(&corpus);
    fs::create_dir_all(&full).map_err(Error::file(&full))?;
    let mut command = cargo(&["fuzz", "run", "--fuzz-dir", "fuzz", target, &corpus]);
    command.arg(format!("fuzz/seeds/{target}"));
    if arguments.jobs > 1 {
        command.args(["--jobs", &arguments.jobs.to_string()]);
    }
    let seconds = arguments.minutes.saturating_mul(60);
    command.args(["--", "-print_final_stats=1"]).args([
        format!("-max_total_time={seconds}"),
        format!("-max_len={max_len}"),
        format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
        format!("-timeout={seconds_max}"),
    ]);
    // Instrumentation is unstable, and the toolchain is the stable one: this lets it compile with both.
    command.env("RUSTC_BOOTSTRAP", "1");
    Ok(command)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn manifest() -> Manifest {
        toml::from_str(&fs::read_to_string(process::root().join(MANIFEST)).unwrap()).unwrap()
    }

    #[test]
    fn every_target_has_a_body_and_seeds_and_a_test_that_replays_them() {
        let root = process::root();
        let crates = fs::read_dir(root.join("crates")).unwrap();
        let replays: Vec<String> = crates
            .filter_map(|entry| fs::read_to_string(entry.unwrap().path().join("tests/fuzz_seeds.rs")).ok())
            .collect();
        for target in chosen(&manifest(), "all").unwrap() {
            assert!(root.join(format!("fuzz/bodies/{target}.rs")).is_file(), "{target} has no body");
            assert!(root.join(format!("fuzz/targets/{target}.rs")).is_file(), "{target} has no target");
            let replay = format!("replay(\"{target}\", {target}::run)");
            assert!(replays.iter().any(|test| test.contains(&replay)), "no test replays {target}");
            assert!(fs::read_dir(root.join(format!("fuzz/seeds/{target}"))).unwrap().count() > 0);
        }
    }

    #[test]
    fn seeds_stay_small() {
        fn bytes(path: &Path) -> u64 {
            let inside = |entry: std::io::Result<fs::DirEntry>| bytes(&entry.unwrap().path());
            if path.is_dir() {
                fs::read_dir(path).unwrap().map(inside).sum()
            } else {
                path.metadata().unwrap().len()
            }
        }
        assert!(bytes(&process::root().join("fuzz/seeds")) < 1 << 20);
    }

    #[test]
    fn an_unknown_target_is_refused_and_the_known_ones_are_named() {
        let error = chosen(&manifest(), "nonsense").unwrap_err().to_string();
        assert!(error.contains("nonsense") && error.contains("midstate"), "{error}");
    }
}
