//! One package of 1.9 GB. Signing the header must send under 4 KB and read no payload byte; signing header and
//! payload must send under 4 KB and read the file once; client and children together stay under 64 MiB.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::measure::{Cost, measure};
use super::page::{self, Section};
use super::peers::{Peers, fresh_folder};
use super::trace::{self, Reads};
use super::{Bench, payload_offset};
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
    peers: Peers,
}

/// Makes the package, signs it in both ways by both programs, and checks the limits.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let folder = bench.folder("big")?;
    let package = package(&folder)?;
    let payload_offset = payload_offset(&package)?;
    let peers = Peers::new(&folder)?;
    let place = Place { folder, program: bench.program.clone(), package, payload_offset, peers };
    prepare_key(&place)?;
    let mut rows = Vec::new();
    for kind in KINDS {
        rows.push(ours(&place, kind)?);
        rows.push(rpmsign(&place, kind)?);
    }
    let raw =
        rows.iter().map(|row| serde_json::json!(row)).map(|row| serde_json::json!({ "row": row })).collect();
    Ok(Section {
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
        plot: None,
        figures: Vec::new(),
        raw,
    })
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
        let mut command = place.peers.rpmsign();
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
            .arg(place.peers.database())
            .args(["-K", "-v"])
            .arg(place.folder.join("work/big.rpm")),
    )?;
    let right =
        said.lines().filter(|line| line.contains("Signature, key ID") && line.ends_with(": OK")).count();
    let wanted = if kind.ours == "both" { 2 } else { 1 };
    if right == wanted { Ok(()) } else { Err(Error::unexpected(format!("rpmkeys: {said}"))) }
}

/// The test key, for us.
fn prepare_key(place: &Place) -> Result<()> {
    fresh_folder(&place.folder.join("home"))?;
    let secret = process::root().join("fixtures/pgp-key/gen_rsa4096.sec.asc");
    process::run(sealwright(place).args(["key", "import", "rsa4096"]).arg(secret))
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
