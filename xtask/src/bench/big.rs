//! One package of 1.9 GB. Signing the header must send under 4 KB and read no payload byte; signing header and
//! payload must send under 4 KB and read the file once; client and children together stay under 64 MiB.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::measure::{Cost, measure};
use super::page::{self, Section};
use super::trace::{self, Reads};
use crate::error::Error;
use crate::{Result, process};

/// Size of the one file in the package, in bytes.
const CONTENT: u64 = 1_900_000_000;
/// Bytes sent for a signature at most.
const SENT_MAX: u64 = 4_000;
/// Peak memory of the program and its children at most, in bytes.
const MEMORY_MAX: u64 = 64 << 20;
/// What reading the file once may cost more than its size: headers, read again after the splice.
const READ_TWICE_MAX: u64 = 1 << 20;

const SPEC: &str = "Name: big\nVersion: 1\nRelease: 1\nSummary: One large file\nLicense: CC0-1.0\nBuildArch: noarch\n\
    %description\nOne large file.\n%install\nmkdir -p %{buildroot}/usr/share/big\n\
    ln %{_sourcedir}/content %{buildroot}/usr/share/big/content\n%files\n/usr/share/big/content\n";

/// A kind of signature, as our option and as rpmsign's.
struct Kind {
    name: &'static str,
    ours: &'static str,
    rpmsign: Option<&'static str>,
}

const KINDS: &[Kind] = &[
    Kind { name: "header only", ours: "header", rpmsign: None },
    Kind { name: "header and payload", ours: "both", rpmsign: Some("--rpmv3") },
];

struct Place {
    folder: PathBuf,
    program: PathBuf,
    package: PathBuf,
    payload_offset: u64,
}

/// Makes the package, signs it in both ways by both programs, checks the limits, writes the page.
pub(super) fn run(other: Option<&Path>) -> Result<()> {
    let program = match other {
        Some(program) => program.to_owned(),
        None => process::build_sealwright(true)?,
    };
    let folder = process::root().join("target/bench/big");
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let _alone = alone(&folder)?;
    let package = package(&folder)?;
    let payload_offset = payload_offset(&package)?;
    let place = Place { folder, program, package, payload_offset };
    prepare_keys(&place)?;
    let mut rows = Vec::new();
    for kind in KINDS {
        rows.push(ours(&place, kind)?);
        rows.push(rpmsign(&place, kind)?);
    }
    // gpg left its agent behind.
    process::run(
        Command::new("gpgconf").env("GNUPGHOME", place.folder.join("gnupg")).args(["--kill", "all"]),
    )?;
    let section = Section {
        name: "big",
        text: format!(
            "One package with one file of {CONTENT} bytes (random, payload not compressed), key RSA-4096, on\n\
             {}.\n\
             Memory is the sum of the peaks of all processes of the call. Payload read is what the program itself reads\n\
             (strace). What the kernel copies from file to file stands apart: a file is replaced by its signed copy, which\n\
             costs nothing where the file system shares extents (btrfs, xfs); rpmsign overwrites the file in place. The\n\
             time holds writing the copy to the disk (fsync); rpmsign leaves that for later. Times are\n\
             wall clock, and vary with what else the machine does.",
            page::machine(&place.folder)
        ),
        columns: vec![
            "Signature",
            "Program",
            "Sent",
            "Payload read",
            "Copied by the kernel",
            "Peak memory",
            "Time",
        ],
        rows,
    };
    if other.is_some() { page::show(&section) } else { page::write(&section) }
}

/// Two runs at once would sign each other's files; the lock goes with the value.
fn alone(folder: &Path) -> Result<fs::File> {
    let path = folder.join("lock");
    let file = fs::File::create(&path).map_err(Error::file(&path))?;
    file.try_lock()
        .map_err(|_| Error::unexpected(format!("another bench is running in {}", folder.display())))?;
    Ok(file)
}

fn ours(place: &Place, kind: &Kind) -> Result<Vec<String>> {
    let cost = measure(&mut sign(place, kind)?)?;
    let sent = sent(&cost)?;
    accepted(place, kind)?;
    let reads = trace::reads(&sign(place, kind)?, &place.folder.join("work"), place.payload_offset)?;
    limits(kind, &cost, sent, &reads)?;
    Ok(row(kind, "sealwright", &sent.to_string(), &reads, &cost))
}

fn rpmsign(place: &Place, kind: &Kind) -> Result<Vec<String>> {
    let command = || -> Result<Command> {
        let copy = fresh(place)?;
        let mut command = Command::new("rpmsign");
        command.env("GNUPGHOME", place.folder.join("gnupg"));
        command.args([
            "--define",
            "__gpg /usr/bin/gpg",
            "--define",
            "_gpg_name rsa4096@corpus.invalid",
            "--addsign",
        ]);
        command.args(kind.rpmsign).arg(copy);
        Ok(command)
    };
    let cost = measure(&mut command()?)?;
    accepted(place, kind)?;
    let reads = trace::reads(&command()?, &place.folder.join("work"), place.payload_offset)?;
    Ok(row(kind, "rpmsign", "-", &reads, &cost))
}

fn limits(kind: &Kind, cost: &Cost, sent: u64, reads: &Reads) -> Result<()> {
    let at_most = |what, measured, allowed| {
        if measured <= allowed { Ok(()) } else { Err(Error::Beyond { what, measured, allowed }) }
    };
    at_most("bytes sent", sent, SENT_MAX)?;
    at_most("bytes of memory", cost.memory, MEMORY_MAX)?;
    at_most("memory maps of the package", reads.maps, 0)?;
    if kind.ours == "header" {
        at_most("payload bytes read", reads.payload, 0)
    } else {
        at_most("payload bytes read", reads.payload, CONTENT.saturating_add(READ_TWICE_MAX))?;
        if reads.payload < CONTENT {
            return Err(Error::unexpected("the payload was not read, yet a signature over it was made"));
        }
        Ok(())
    }
}

fn row(kind: &Kind, program: &str, sent: &str, reads: &Reads, cost: &Cost) -> Vec<String> {
    let copied = if reads.clones > 0 {
        "0 (shared extents)".to_owned()
    } else {
        format!("{} MB", megabytes(reads.by_kernel))
    };
    vec![
        kind.name.to_owned(),
        program.to_owned(),
        sent.to_owned(),
        format!("{} MB", megabytes(reads.payload)),
        copied,
        format!("{} MiB", cost.memory >> 20),
        format!("{:.2} s", cost.seconds),
    ]
}

fn megabytes(bytes: u64) -> u64 {
    bytes / 1_000_000
}

/// Our command on a fresh copy of the package.
fn sign(place: &Place, kind: &Kind) -> Result<Command> {
    let copy = fresh(place)?;
    let mut command = sealwright(place);
    command.args(["sign", "--key", "rsa4096", "--json", "--rpm-signature", kind.ours]).arg(copy);
    Ok(command)
}

fn sealwright(place: &Place) -> Command {
    let mut command = Command::new(&place.program);
    command.env("SEALWRIGHT_HOME", place.folder.join("home"));
    command.env_remove("SEALWRIGHT_KEY").env_remove("SEALWRIGHT_SERVER");
    command
}

/// Bytes sent, from the line of JSON.
fn sent(cost: &Cost) -> Result<u64> {
    serde_json::from_str::<serde_json::Value>(cost.stdout.trim())
        .ok()
        .and_then(|value| value.get("sent")?.as_u64())
        .ok_or_else(|| Error::unexpected(format!("no bytes sent in {}", cost.stdout)))
}

/// The copy that is signed and thrown away; its pages are in the cache and on disk.
fn fresh(place: &Place) -> Result<PathBuf> {
    let copy = place.folder.join("work/big.rpm");
    if let Some(folder) = copy.parent() {
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    fs::copy(&place.package, &copy).map_err(Error::file(&copy))?;
    process::run(Command::new("sync").arg(&copy))?;
    Ok(copy)
}

/// rpm finds every signature that was asked for, and finds it right.
fn accepted(place: &Place, kind: &Kind) -> Result<()> {
    let said = process::output(
        Command::new("rpmkeys")
            .arg("--dbpath")
            .arg(place.folder.join("rpmdb"))
            .args(["-K", "-v"])
            .arg(place.folder.join("work/big.rpm")),
    )?;
    let right =
        said.lines().filter(|line| line.contains("Signature, key ID") && line.ends_with(": OK")).count();
    let wanted = if kind.ours == "both" { 2 } else { 1 };
    if right == wanted { Ok(()) } else { Err(Error::unexpected(format!("rpmkeys: {said}"))) }
}

/// The test key, for us, for gpg and for rpm.
fn prepare_keys(place: &Place) -> Result<()> {
    let keys = process::root().join("fixtures/pgp-key");
    let (secret, public) = (keys.join("gen_rsa4096.sec.asc"), keys.join("gen_rsa4096.pub.asc"));
    for name in ["home", "gnupg", "rpmdb"] {
        let folder = place.folder.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
        }
        process::run(Command::new("install").args(["-d", "-m", "0700"]).arg(&folder))?;
    }
    process::run(sealwright(place).args(["key", "import", "rsa4096"]).arg(&secret))?;
    process::run(
        Command::new("gpg")
            .env("GNUPGHOME", place.folder.join("gnupg"))
            .args(["--batch", "--quiet", "--import"])
            .arg(&secret),
    )?;
    let database = place.folder.join("rpmdb");
    process::run(Command::new("rpmdb").arg("--initdb").arg("--dbpath").arg(&database))?;
    process::run(Command::new("rpmkeys").arg("--dbpath").arg(&database).arg("--import").arg(&public))
}

/// The package; built once, kept for the next run.
fn package(folder: &Path) -> Result<PathBuf> {
    let package = folder.join("RPMS/noarch/big-1-1.noarch.rpm");
    if package.is_file() {
        return Ok(package);
    }
    println!("xtask: building a package of {CONTENT} bytes");
    let sources = folder.join("SOURCES");
    fs::create_dir_all(&sources).map_err(Error::file(&sources))?;
    let content = sources.join("content");
    let random = fs::File::open("/dev/urandom").map_err(Error::file(Path::new("/dev/urandom")))?;
    let mut file = fs::File::create(&content).map_err(Error::file(&content))?;
    std::io::copy(&mut random.take(CONTENT), &mut file).map_err(Error::file(&content))?;
    let spec = folder.join("big.spec");
    fs::write(&spec, SPEC).map_err(Error::file(&spec))?;
    process::run(
        Command::new("rpmbuild")
            .args(["-bb", "--quiet", "--define", "_binary_payload w0.ufdio", "--define"])
            .arg(format!("_topdir {}", folder.display()))
            .arg(&spec),
    )?;
    fs::remove_file(&content).map_err(Error::file(&content))?;
    Ok(package)
}

/// Where the payload starts: after lead, signature header (padded to 8) and main header.
fn payload_offset(package: &Path) -> Result<u64> {
    let mut file = fs::File::open(package).map_err(Error::file(package))?;
    let mut header_end = |start: u64| -> Result<u64> {
        let mut intro = [0_u8; 16];
        file.seek(SeekFrom::Start(start)).map_err(Error::file(package))?;
        file.read_exact(&mut intro).map_err(Error::file(package))?;
        let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h] = intro;
        let entries = u64::from(u32::from_be_bytes([a, b, c, d]));
        let data = u64::from(u32::from_be_bytes([e, f, g, h]));
        Ok(start.saturating_add(16).saturating_add(entries.saturating_mul(16)).saturating_add(data))
    };
    let signature_end = header_end(96)?;
    header_end(signature_end.next_multiple_of(8))
}
