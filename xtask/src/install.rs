//! The Debian packages that tests, cases and benches need, and the one verifier that Debian does not have.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::error::Error;
use crate::process;

/// The PKCS#11 module of SoftHSM2, where Debian has it.
pub(crate) const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";

/// A program, or a file that is none, and the Debian package that has it. `tidy` finds a program of a test that is missing here
/// (`tidy/programs.rs`).
pub(crate) const NEEDED: &[(&str, &str)] = &[
    ("rpm", "rpm"),
    ("rpmdb", "rpm"),
    ("rpmkeys", "rpm"),
    ("rpmbuild", "rpm"),
    ("rpmsign", "rpm"),
    ("gpg", "gnupg"),
    ("gpgconf", "gpgconf"),
    ("gpg-connect-agent", "gpgconf"),
    ("gpg-agent", "gpg-agent"),
    ("gpgv", "gpgv"),
    ("sqv", "sqv"),
    ("sq", "sq"),
    ("faketime", "faketime"),
    ("strace", "strace"),
    ("getfattr", "attr"),
    ("setfattr", "attr"),
    ("python3", "python3"),
    ("dnf", "dnf"),
    ("createrepo_c", "createrepo-c"),
    ("openssl", "openssl"),
    ("ip", "iproute2"),
    ("/usr/lib/python3/dist-packages/prometheus_client/parser.py", "python3-prometheus-client"),
    ("ps", "procps"),
    ("systemd-analyze", "systemd"),
    ("softhsm2-util", "softhsm2"),
    (SOFTHSM, "softhsm2"),
    ("pkcs11-tool", "opensc"),
    ("cc", "gcc"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("btrfs", "btrfs-progs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("filefrag", "e2fsprogs"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("git", "git"),
];

/// A verifier of OpenPGP version 6 (Sequoia, by its binding for Python): neither gpg 2.2 nor the sq of Debian 12 reads it.
const PYSEQUOIA: &str = "pysequoia==0.1.35";
/// The Debian package that makes folders for libraries of Python.
const VENV_PACKAGE: &str = "python3-venv";

/// Installs what is missing; does nothing where everything is there.
pub(crate) fn install() -> Result<()> {
    install_programs()?;
    install_pysequoia()
}

/// Into a folder of its own beside what cargo builds; `crates/testkit/src/pysequoia.rs` looks there.
fn install_pysequoia() -> Result<()> {
    let folder = process::target_folder().join("pysequoia");
    let python = folder.join("bin/python");
    if succeeds(Command::new(&python).args(["-c", "import pysequoia"])) {
        return Ok(());
    }
    println!("xtask: installing {PYSEQUOIA} into {}", folder.display());
    process::run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    process::run(Command::new(&python).args(["-m", "pip", "install", "--quiet", PYSEQUOIA]))
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn install_programs() -> Result<()> {
    let mut missing: Vec<_> = NEEDED.iter().copied().filter(|(needed, _)| !is_there(needed)).collect();
    if !succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"])) {
        missing.push(("python3 -m venv", VENV_PACKAGE));
    }
    if missing.is_empty() {
        println!("xtask: all programs that the tests need are installed");
        return Ok(());
    }
    let programs = missing.iter().map(|(program, _)| *program).collect::<Vec<_>>().join(" ");
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    println!("xtask: missing {programs}: installing {}", packages.join(" "));
    let privilege = privilege()
        .filter(|_| process::is_there("apt-get"))
        .ok_or_else(|| Error::CannotInstall { missing: programs.clone(), packages: packages.join(" ") })?;
    process::run(apt_get(privilege).arg("update"))?;
    process::run(apt_get(privilege).args(["install", "--yes", "--no-install-recommends"]).args(&packages))
}

/// In the path, or where Debian keeps what only root runs and others do not look.
fn is_there(needed: &str) -> bool {
    process::is_there(needed)
        || ["", "/usr/sbin", "/sbin"]
            .map(|folder| Path::new(folder).join(needed))
            .iter()
            .any(|path| path.is_absolute() && path.exists())
}

/// How this user may install: as root, or by sudo; `None` where neither is there.
fn privilege() -> Option<&'static [&'static str]> {
    let id = Command::new("id").arg("-u").output().ok()?;
    if id.stdout.trim_ascii() == b"0" {
        Some(&["env"])
    } else if process::is_there("sudo") {
        Some(&["sudo", "env"])
    } else {
        None
    }
}

fn apt_get(privilege: &[&str]) -> Command {
    let mut words = privilege.iter();
    let mut command = Command::new(words.next().copied().unwrap_or("env"));
    command.args(words).args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet"]);
    command
}
