//! Signatures as large as those of post-quantum keys (RFC 9980), in packages on a file system that shares blocks. No
//! such key can sign yet: the packets have the real shape and size, and random bytes as their value. Everything else
//! is real: the plan, the room that is asked of it, the files, rpm as the reader.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use disk::{Disk, temporaries};
use sealwright_client::apply::{Method, Policy, Staged, Target, Written};
use sealwright_client::error::Error;
use sealwright_client::source::file::SourceFile;
use sealwright_client::source::{Entry, Place};
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_formats::options::{IfSigned, SignOptions};
use sealwright_formats::prepared::{Output, Preparation, Prepared};
use sealwright_testkit::fixtures::{self, ED25519, RSA2048};
use sealwright_testkit::rpm::Package;
use sealwright_testkit::sealwright::Home;
use sealwright_testkit::tools::{self, RpmKeys};

#[allow(dead_code, reason = "each test target uses its part")]
#[path = "splice/disk.rs"]
mod disk;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
/// Names the package, in the process that strace watches.
const PACKAGE: &str = "SEALWRIGHT_TEST_PACKAGE";
/// Bytes of the value, in the same process.
const VALUE_BYTES: &str = "SEALWRIGHT_TEST_VALUE_BYTES";
/// ML-DSA-65 and Ed25519: 3309 and 64 bytes.
const ML_DSA_65: usize = 3309 + 64;
/// ML-DSA-87 and Ed448: 4627 and 114 bytes.
const ML_DSA_87: usize = 4627 + 114;
const BLOCK: u64 = 4096;

/// A version 6 signature packet with a value of this many random bytes: RFC 9580 section 5.2.3.
fn packet(value_bytes: usize) -> Vec<u8> {
    let algorithm = if value_bytes == ML_DSA_65 { 30 } else { 31 };
    let mut hashed = vec![5, 2];
    hashed.extend(1_796_083_200u32.to_be_bytes());
    hashed.extend([34, 33, 6]);
    hashed.extend([0x5a; 32]);
    let mut body = vec![6, 0, algorithm, 8];
    body.extend(u32::try_from(hashed.len()).unwrap().to_be_bytes());
    body.extend(hashed);
    body.extend(0u32.to_be_bytes());
    body.extend([0xaa, 0xbb, 16]);
    body.extend([0xc3; 16]);
    let mut value = vec![0; value_bytes];
    rustix::rand::getrandom(value.as_mut_slice(), rustix::rand::GetRandomFlags::empty()).unwrap();
    body.extend(value);
    let len = u16::try_from(body.len() - 192).unwrap();
    let [high, low] = len.to_be_bytes();
    [vec![0xc2, high + 192, low], body].concat()
}

/// A package of 120 MB with a reserve of this many bytes.
fn package(folder: &Path, reserve: usize) -> PathBuf {
    let spec = "Name: large\nVersion: 1\nRelease: 1\nSummary: Large\nLicense: CC0-1.0\nBuildArch: noarch\n\
        %description\nLarge.\n%install\nmkdir -p %{buildroot}/usr/share/large\n\
        head -c 120000000 /dev/urandom > %{buildroot}/usr/share/large/content\n%files\n/usr/share/large/content\n";
    let build = tempfile::tempdir_in(folder).unwrap();
    let spec_file = build.path().join("large.spec");
    fs::write(&spec_file, spec).unwrap();
    let mut command = Command::new("rpmbuild");
    command.arg("--define").arg(format!("_topdir {}", build.path().display()));
    command.arg("--define").arg(format!("__gpg_reserved_space {reserve}"));
    tools::succeed(command.args(["--define", "_binary_payload w0.ufdio", "-bb"]).arg(&spec_file));
    let package = folder.join("large.rpm");
    fs::rename(build.path().join("RPMS/noarch/large-1-1.noarch.rpm"), &package).unwrap();
    package
}

/// The plan that adds a signature to those that are there.
fn prepare(source: &SourceFile, min_rpm: &str) -> Prepared {
    let format = sealwright_formats::by_name("rpm").unwrap();
    let mut options = SignOptions { if_signed: IfSigned::Add, ..SignOptions::default() };
    let min = format.options().iter().find(|option| option.name == "min-rpm").unwrap();
    options.format.set(min, min_rpm).unwrap();
    let key = Certificate::parse(&fs::read(ED25519.public()).unwrap()).unwrap();
    match format.prepare(source, &options, &key, &[]).unwrap() {
        Preparation::Sign(prepared) => prepared,
        Preparation::Leave { why } => panic!("{why}"),
    }
}

/// Stage, plan and commit, as a signing run does; only the signature comes from nobody.
fn sign(path: &Path, value_bytes: usize, min_rpm: &str) -> Result<Written, Error> {
    let entry = Entry { shown: path.to_owned(), place: Place::Named };
    let source = Arc::new(SourceFile::open_locked(&entry)?);
    let prepared = prepare(&source, min_rpm);
    let packet = packet(value_bytes);
    let room = |layout| prepared.plan.room(packet.len(), layout);
    let staged = Staged::stage(Arc::clone(&source), Target::replacing(&source), &Policy::default(), &room)?;
    match prepared.plan.output(&[packet], staged.layout())? {
        Output::Edits(edits) => staged.commit(edits),
        Output::Beside(_) => panic!("a package has its signatures inside"),
    }
}

/// Bytes given to write calls for files in the folder of this package, by strace: this very test, in another process.
fn written(package: &Path, value_bytes: usize) -> u64 {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-y", "-qq", "-e", "trace=write,pwrite64,writev,pwritev,sendfile", "-o"])
        .arg(log.path());
    strace.arg(std::env::current_exe().unwrap()).args(["--exact", "the_run_that_strace_watches"]);
    strace.env(PACKAGE, package).env(VALUE_BYTES, value_bytes.to_string());
    tools::succeed(&mut strace);
    let folder = format!("<{}/", package.parent().unwrap().display());
    let text = fs::read_to_string(log.path()).unwrap();
    let calls = text.lines().filter(|line| line.contains(&folder));
    calls.map(|line| line.rsplit(" = ").next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn the_run_that_strace_watches() {
    let (Some(package), Ok(value_bytes)) = (std::env::var_os(PACKAGE), std::env::var(VALUE_BYTES)) else {
        return;
    };
    let package = PathBuf::from(package);
    let written = sign(&package, value_bytes.parse().unwrap(), "6.0").unwrap();
    assert_eq!(written.method, Method::Clone);
}

/// Bytes of a file that lie in shared extents, from what the file system says (FIEMAP).
fn shared(path: &Path) -> u64 {
    let said = tools::succeed(Command::new("filefrag").args(["-v", "-b4096"]).arg(path));
    let said = String::from_utf8(said).unwrap();
    let extents = said.lines().filter(|line| line.contains("shared"));
    extents.map(|line| line.split(':').nth(3).unwrap().trim().parse::<u64>().unwrap() * BLOCK).sum()
}

/// Header signatures in tag 278, and what rpm says of the package.
fn judged(path: &Path) -> usize {
    tools::succeed(Command::new("rpm").args(["-qp", "--nosignature"]).arg(path));
    assert!(
        RpmKeys::new(&[RSA2048.public()]).check(path).is_signed_and_all_ok(),
        "the other signature still holds"
    );
    Package::read(&fs::read(path).unwrap()).openpgp().len()
}

#[test]
fn a_signature_of_5_kb_grows_the_header_by_whole_blocks_and_the_payload_is_shared() {
    let Some(disk) = Disk::xfs(600) else { return };
    let home = Home::with_keys(PROGRAM, &[RSA2048]);
    let package = package(&disk.path(), 4096);
    let original = fs::read(&package).unwrap();
    home.ok(&["sign", "--key", RSA2048.name, package.to_str().unwrap()]);
    for (value_bytes, name) in [(ML_DSA_65, "65.rpm"), (ML_DSA_87, "87.rpm")] {
        let path = disk.path().join(name);
        tools::succeed(Command::new("cp").arg("--reflink=always").arg(&package).arg(&path));
        let before = fs::metadata(&path).unwrap().len();
        let written = written(&path, value_bytes);
        let after = fs::metadata(&path).unwrap().len();
        assert!(after > before && (after - before).is_multiple_of(BLOCK), "{before} {after}");
        assert!(written < 64 << 10, "{written} bytes written of {after}");
        tools::succeed(Command::new("sync").arg("-f").arg(&path));
        let own = after - shared(&path).min(after);
        assert!(own < 64 << 10, "{own} bytes of {after} are not shared");
        assert_eq!(judged(&path), 2, "the RSA signature, and ours");
        assert!(temporaries(&disk.path()).is_empty());
        home.ok(&["strip", path.to_str().unwrap()]);
        assert!(fs::read(&path).unwrap() == original, "strip gives back the original");
    }
}

#[test]
fn for_an_rpm_that_reads_8192_bytes_it_grows_tightly_if_it_fits_and_is_refused_by_name_if_not() {
    let Some(disk) = Disk::xfs(600) else { return };
    let home = Home::with_keys(PROGRAM, &[RSA2048]);
    // With the usual reserve, which stays for the day when the signatures go, 5 KB are too many.
    for (reserve, value_bytes) in [(4096, ML_DSA_65), (4096, ML_DSA_87), (0, ML_DSA_87 + 1000)] {
        let package = package(&disk.path(), reserve);
        home.ok(&["sign", "--key", RSA2048.name, package.to_str().unwrap()]);
        let before = fs::read(&package).unwrap();
        let error = sign(&package, value_bytes, "4.14").unwrap_err().to_string();
        assert!(error.contains("rpm 4.14") && error.contains("8192"), "{error}");
        assert!(fs::read(&package).unwrap() == before, "it was refused, and changed");
        assert!(temporaries(&disk.path()).is_empty());
    }
    let package = package(&disk.path(), 0);
    home.ok(&["sign", "--key", RSA2048.name, package.to_str().unwrap()]);
    let before = fs::metadata(&package).unwrap().len();
    let written = sign(&package, ML_DSA_65, "4.14").unwrap();
    let after = fs::read(&package).unwrap();
    let data_bytes = u32::from_be_bytes(after[108..112].try_into().unwrap());
    assert!(data_bytes <= 8192, "{data_bytes}");
    let grown = after.len() as u64 - before;
    assert!(!grown.is_multiple_of(BLOCK), "a whole block more would be beyond the limit");
    assert_eq!((written.method, judged(&package)), (Method::Copy, 2));
}

#[test]
fn a_package_of_version_6_takes_a_signature_of_5_kb_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let found = fixtures::packages().into_iter().find(|path| {
        let bytes = fs::read(path).unwrap();
        let package = Package::read(&bytes);
        package.is_v6() && package.signature_tags().iter().all(|tag| *tag != sealwright_testkit::rpm::OPENPGP)
    });
    let path = fixtures::copy_into(folder.path(), &found.expect("a package of version 6"));
    sign(&path, ML_DSA_87, "6.0").unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(Package::read(&bytes).openpgp()[0].len(), packet(ML_DSA_87).len());
    tools::succeed(Command::new("rpm").args(["-qp", "--nosignature"]).arg(&path));
}
