//! 400 packages of 20 KB to 20 MB, signed over their headers by one command against a running server: beside rpmsign with
//! gpg, and beside the bare private-key operations that are in it.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Bench;
use super::disk::Xfs;
use super::inputs::{Kind, MIXED, Set};
use super::measure::{Cost, median, time};
use super::page::{self, Figure, Section};
use super::peers::{Bare, Operations, Peers, openssl_speed};
use super::plot::{Bar, Of, Plot, short};
use super::server::Server;
use super::trace::{Calls, calls};
use crate::error::Error;
use crate::{Result, process};

/// Runs of ours and of the bare operation; in turns.
const ROUNDS: usize = 5;
/// Runs of what takes long.
const SLOW_ROUNDS: usize = 2;
/// MiB of the file system that shares extents.
const XFS_MIB: u64 = 3_072;
/// rpmsign takes at least so many times as long.
const TIMES_FASTER: f64 = 20.0;
/// Ours in place takes at most so many times the bare operations.
const TIMES_BARE: f64 = 1.3;

/// One way to sign the set.
struct Way<'a> {
    name: &'static str,
    set: &'a Set,
    command: Command,
    rounds: usize,
    runs: Vec<Run>,
    calls: Option<Calls>,
}

/// What is in it that cannot be less: measured alone, in the same turns.
struct Beside {
    operations: Vec<Operations>,
    copies: Vec<Cost>,
}

/// One run.
struct Run {
    cost: Cost,
    server_cpu: f64,
}

impl Way<'_> {
    fn of(&self, take: impl Fn(&Run) -> f64) -> f64 {
        median(&self.runs.iter().map(take).collect::<Vec<_>>())
    }

    fn seconds(&self) -> f64 {
        self.of(|run| run.cost.seconds)
    }
}

/// Signs the set in each way, in turns, and compares.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let place = bench.inputs()?;
    let (set, peers) = (Set::below(&place, Kind::Mixed)?, Peers::new(&bench.folder("peers")?)?);
    let xfs = Xfs::mount(&place, "mixed", XFS_MIB)?;
    let on_xfs = xfs.as_ref().map(|xfs| Set::below(xfs.path(), Kind::Mixed)).transpose()?;
    let bare = Bare::build()?;
    let server = Server::start(&bench.program, &[])?;
    server.import("rsa4096")?;
    let mut ways = ways(bench, &server, &peers, &set, on_xfs.as_ref());
    let mut operations = Vec::new();
    let mut copies = Vec::new();
    for round in 0..ROUNDS {
        operations.push(bare.run("rsa4096", bench.cores, MIXED)?);
        copies.push(copy(&set, &place)?);
        for way in ways.iter_mut().filter(|way| round < way.rounds) {
            let run = one(way, &server)?;
            way.runs.push(run);
            if round == 0 {
                check(way, &peers)?;
            }
        }
    }
    for way in ways.iter_mut().filter(|way| way.name.starts_with("sealwright")) {
        way.set.restore()?;
        way.calls = Some(calls(&way.command)?);
    }
    let speed = openssl_speed("rsa4096")?;
    let bare = Beside { operations, copies };
    Ok(section(&place, &ways, &bare, speed, &set))
}

fn ways<'a>(
    bench: &Bench,
    server: &Server,
    peers: &Peers,
    set: &'a Set,
    on_xfs: Option<&'a Set>,
) -> Vec<Way<'a>> {
    let way = |name, set, command, rounds| Way { name, set, command, rounds, runs: Vec::new(), calls: None };
    let ours = |set: &Set, options: &[&str]| {
        let mut command = server.client(&["sign", "--key", "rsa4096"]);
        command.args(options).args(set.paths());
        command
    };
    let mut ways = vec![way("sealwright --in-place", set, ours(set, &["--in-place"]), ROUNDS)];
    if let Some(set) = on_xfs {
        ways.push(way("sealwright, XFS", set, ours(set, &[]), ROUNDS));
    }
    ways.push(way("sealwright", set, ours(set, &[]), SLOW_ROUNDS));
    let mut rpmsign = peers.rpmsign();
    rpmsign.args(set.paths());
    ways.push(way("rpmsign with gpg", set, rpmsign, SLOW_ROUNDS));
    if let Some(program) = &bench.obs_sign {
        let mut command = Command::new(program);
        command.arg("-r").args(set.paths());
        ways.push(way("obs-sign", set, command, SLOW_ROUNDS));
    }
    ways
}

fn one(way: &mut Way<'_>, server: &Server) -> Result<Run> {
    way.set.restore()?;
    way.set.warm()?;
    let before = server.cpu();
    let cost = time(&mut way.command)?;
    Ok(Run { cost, server_cpu: server.cpu() - before })
}

/// The copy that a file system without shared extents makes, and its way to the disk: by `cp` and `sync`.
fn copy(set: &Set, place: &Path) -> Result<Cost> {
    set.warm()?;
    let to = place.join("mixed.copied");
    let mut command = Command::new("sh");
    command.args(["-c", "cp -r \"$1\" \"$2\" && sync --file-system \"$2\"", "sh"]).arg(set.folder()).arg(&to);
    let cost = time(&mut command);
    std::fs::remove_dir_all(&to).map_err(Error::file(&to))?;
    process::run(Command::new("sync").arg("--file-system").arg(place))?;
    cost
}

fn check(way: &Way<'_>, peers: &Peers) -> Result<()> {
    if way.name == "obs-sign" {
        return Ok(());
    }
    let good = way.set.signed(&peers.database())?;
    if good == way.set.len() {
        return Ok(());
    }
    Err(Error::unexpected(format!("{}: rpm finds {good} of {} signatures good", way.name, way.set.len())))
}

fn section(place: &Path, ways: &[Way<'_>], bare: &Beside, speed: f64, set: &Set) -> Section {
    let of = |take: fn(&Operations) -> f64| median(&bare.operations.iter().map(take).collect::<Vec<_>>());
    let (bare_seconds, bare_cpu) = (of(|one| one.seconds), of(|one| one.cpu));
    let of = |take: fn(&Cost) -> f64| median(&bare.copies.iter().map(take).collect::<Vec<_>>());
    let (copy_seconds, copy_cpu) = (of(|one| one.seconds), of(|one| one.cpu));
    let count = f64::from(400_u16);
    let mut rows = Vec::new();
    for way in ways {
        let server = if way.calls.is_some() {
            format!("{:.2} s", way.of(|run| run.server_cpu))
        } else {
            "-".to_owned()
        };
        let of = |take: &dyn Fn(&Calls) -> u64| {
            way.calls.as_ref().map_or("-".to_owned(), |calls| take(calls).to_string())
        };
        rows.push(vec![
            way.name.to_owned(),
            format!("{:.2} s", way.seconds()),
            short(count / way.seconds()),
            format!("{:.2} s", way.of(|run| run.cost.cpu)),
            server,
            of(&|calls| calls.sent),
            of(&|calls| calls.received),
            of(&|calls| calls.futex),
            of(&|calls| calls.syncs_of_files.saturating_add(calls.syncs_of_systems)),
        ]);
    }
    rows.push(bare_row(format!("bare aws-lc-rs, {MIXED} operations"), bare_seconds, bare_cpu, count));
    rows.push(bare_row("cp and sync of the same files".to_owned(), copy_seconds, copy_cpu, count));
    Section {
        name: "mixed",
        text: format!(
            "{MIXED} packages of 20 KB to 20 MB ({} MB in all), header-only signatures, RSA-4096, one command for all of them\n\
             against a running server (mTLS over loopback, policy, log, the signer's own check of each signature), on\n\
             {}. Medians of {ROUNDS} runs in turns ({SLOW_ROUNDS} of those that take long). The packages are in the cache, as after a build. rpmsign\n\
             has no server: gpg's processes are its children. Bytes are those in the TCP connection, TLS and all. One core of\n\
             this machine makes {} RSA-4096 signatures a second with `openssl speed`. Load when this was written: {}.",
            set.bytes() / 1_000_000,
            page::machine(place),
            short(speed),
            page::load(),
        ),
        columns: vec![
            "Program",
            "Time",
            "Packages a second",
            "Client CPU",
            "Server CPU",
            "Sent",
            "Received",
            "Futex calls",
            "Syncs",
        ],
        rows,
        plot: Some(plot(ways, bare_seconds, count)),
        figures: figures(ways, bare_seconds),
        raw: raw(ways, bare),
    }
}

fn bare_row(what: String, seconds: f64, cpu: f64, count: f64) -> Vec<String> {
    let mut row = vec![what, format!("{seconds:.2} s"), short(count / seconds), format!("{cpu:.2} s")];
    row.extend(std::iter::repeat_n("-".to_owned(), 5));
    row
}

fn figures(ways: &[Way<'_>], bare: f64) -> Vec<Figure> {
    let rpmsign = ways.iter().find(|way| way.name.starts_with("rpmsign")).map_or(f64::NAN, Way::seconds);
    let mut figures = Vec::new();
    for way in ways.iter().filter(|way| way.name.starts_with("sealwright")) {
        let ratio = rpmsign / way.seconds();
        figures.push(Figure {
            what: format!("rpmsign against {}, time", way.name),
            measured: format!("{} times", short(ratio)),
            wanted: format!("{TIMES_FASTER} times"),
            is_met: ratio >= TIMES_FASTER,
        });
        if way.name.ends_with("--in-place") {
            let ratio = way.seconds() / bare;
            figures.push(Figure {
                what: format!("{} against the bare operations, time", way.name),
                measured: format!("{} times", short(ratio)),
                wanted: format!("{TIMES_BARE} times at most"),
                is_met: ratio <= TIMES_BARE,
            });
        }
    }
    figures
}

fn plot(ways: &[Way<'_>], bare: f64, count: f64) -> Plot {
    let mut bars = Vec::new();
    for way in ways {
        let of = if way.name.starts_with("sealwright") { Of::Ours } else { Of::Other };
        bars.push(Bar::new(way.name, count / way.seconds(), of));
    }
    bars.push(Bar::new("bare aws-lc-rs", count / bare, Of::Goal));
    Plot { title: "400 mixed packages, header-only".to_owned(), unit: "packages a second", bars }
}

fn raw(ways: &[Way<'_>], bare: &Beside) -> Vec<serde_json::Value> {
    let mut raw = Vec::new();
    for way in ways {
        raw.extend(way.runs.iter().map(|run| {
            json!({
                "program": way.name,
                "seconds": run.cost.seconds,
                "client_cpu_s": run.cost.cpu,
                "server_cpu_s": run.server_cpu,
                "packages": way.set.len(),
            })
        }));
    }
    let mut beside = |program: &str, seconds: f64, cpu: f64| {
        raw.push(json!({ "program": program, "seconds": seconds, "client_cpu_s": cpu }));
    };
    bare.operations.iter().for_each(|one| beside("bare", one.seconds, one.cpu));
    bare.copies.iter().for_each(|one| beside("cp and sync", one.seconds, one.cpu));
    raw
}
