//! The units of systemd: they say nothing that systemd does not know, they start commands that there are, and they are as
//! closed as `docs/howto/serve.md` says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sealwright_testkit::tools;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");

/// Exposure by `systemd-analyze security`, times ten, at most: the howto names them.
const EXPOSURE_MAX: [(&str, u32); 2] = [("sealwright-front", 14), ("sealwright-signer", 6)];

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd")
}

/// Copies that name the program of this build.
fn staged() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(units()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let text = fs::read_to_string(&path).unwrap().replace("/usr/bin/sealwright", PROGRAM);
            fs::write(folder.path().join(path.file_name().unwrap()), text).unwrap();
        }
    }
    folder
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let folder = staged();
    for unit in ["sealwright-front", "sealwright-signer"] {
        for kind in ["service", "socket"] {
            let unit = folder.path().join(format!("{unit}.{kind}"));
            let output = tools::run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit));
            let said = tools::text(&output);
            assert!(output.status.success() && said.trim().is_empty(), "{}: {said}", unit.display());
        }
    }
}

#[test]
fn the_services_are_as_closed_as_the_howto_says() {
    let howto = include_str!("../../../docs/howto/serve.md");
    for (unit, most) in EXPOSURE_MAX {
        let path = units().join(format!("{unit}.service"));
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true", &format!("--threshold={most}")]).arg(&path);
        let output = tools::run(&mut command);
        assert!(output.status.success(), "{}", tools::text(&output));
        let row = format!("| `{unit}.service` | {}.{} |", most / 10, most % 10);
        assert!(howto.contains(&row), "docs/howto/serve.md has no row {row}");
    }
}

/// The commands are those of this program, with options that it has.
#[test]
fn the_commands_of_the_units_are_understood() {
    for (unit, stops_at) in [("sealwright-front", "server.toml"), ("sealwright-signer", "standard input")] {
        let text = fs::read_to_string(units().join(format!("{unit}.service"))).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/sealwright ")).unwrap();
        // A user that is on every machine; the rest is looked at only after the arguments were understood.
        let line = line.replace("--front-user sealwright", "--front-user root");
        // No server that is installed on this machine.
        let line = line.replace("%d", "/nonexistent").replace("/etc/sealwright", "/nonexistent");
        let mut command = Command::new(PROGRAM);
        command.args(line.split(' ')).stdin(std::process::Stdio::null());
        let said = tools::text(&tools::run(&mut command));
        assert!(said.contains(stops_at) && !said.contains("Usage:"), "{unit}: {said}");
    }
}
