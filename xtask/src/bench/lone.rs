//! A lone request at idle: the syncs and timers on its path; and what the client calls for each of a thousand.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Bench;
use super::inputs::{Kind, Set, float};
use super::measure::{median, time};
use super::page::{self, Figure, Section};
use super::plot::{Bar, Of, Plot, short};
use super::server::Server;
use super::trace::{Calls, calls, count_calls, reads, timeouts};
use crate::error::Error;
use crate::{Result, process};

/// Lone requests.
const ROUNDS: usize = 9;
/// Syncs of the server for each: intent and log entry.
const SYNCS_MAX: u64 = 2;
/// Files of the second part.
const FILES: usize = 1_000;
/// Files that are committed together at most: `FILES_MAX` of `crates/client/src/apply/group.rs`.
const GROUP: u64 = 64;
/// Longest wait for strace.
const ATTACH_MAX: Duration = Duration::from_secs(10);

/// One lone request.
struct Lone {
    seconds: f64,
    calls: Calls,
    timeouts: u64,
}

/// The client over many files.
struct Many {
    files: usize,
    calls: Calls,
    payload: u64,
}

/// Measures both parts.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let place = bench.inputs()?;
    let (single, small) = (Set::below(&place, Kind::Single)?, Set::below(&place, Kind::Small)?);
    let server = Server::start(&bench.program, &[])?;
    server.import("rsa4096")?;
    // The first signature of a server reserves a block of numbers.
    time(&mut sign(&server, &single, 1))?;
    let mut plain = Vec::new();
    let mut lone = Vec::new();
    for _ in 0..ROUNDS {
        single.restore()?;
        plain.push(time(&mut sign(&server, &single, 1))?.seconds);
        single.restore()?;
        lone.push(traced(&server, &mut sign(&server, &single, 1))?);
    }
    small.restore()?;
    let calls = calls(&sign(&server, &small, FILES))?;
    small.restore()?;
    let payload =
        reads(&sign(&server, &small, FILES), small.folder(), super::payload_offset_of_all(&small, FILES)?)?
            .payload;
    Ok(section(&place, &plain, &lone, &Many { files: FILES, calls, payload }))
}

fn sign(server: &Server, set: &Set, count: usize) -> Command {
    let mut command = server.client(&["sign", "--key", "rsa4096", "--in-place"]);
    command.args(set.paths().take(count));
    command
}

/// Runs a command while strace looks at front and signer.
fn traced(server: &Server, command: &mut Command) -> Result<Lone> {
    const TRACED: &str = "trace=futex,fsync,fdatasync,syncfs,epoll_wait,epoll_pwait,epoll_pwait2,poll,ppoll,\
        clock_nanosleep,nanosleep,timerfd_settime,recvfrom,sendto,read,write,readv,writev,accept4";
    let log = tempfile::NamedTempFile::new().map_err(Error::file(Path::new("temporary file")))?;
    let mut strace = Command::new("strace");
    strace.args(["-f", "-yy", "-s", "0", "-e", TRACED, "-o"]).arg(log.path());
    for pid in server.processes() {
        strace.arg("-p").arg(pid.to_string());
    }
    let mut strace = strace
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| process::start(&Command::new("strace"), source))?;
    attached(server, &strace)?;
    let cost = time(command)?;
    process::run(Command::new("kill").args(["-INT", &strace.id().to_string()]))?;
    let _ = strace.wait();
    let text = fs::read_to_string(log.path()).map_err(Error::file(log.path()))?;
    Ok(Lone { seconds: cost.seconds, calls: count_calls(&text), timeouts: timeouts(&text) })
}

/// Waits until every thread of front and signer is traced.
fn attached(server: &Server, strace: &Child) -> Result<()> {
    let begun = Instant::now();
    let by = format!("TracerPid:\t{}", strace.id());
    loop {
        let all = server.processes().into_iter().all(|pid| {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            tasks
                .map(|task| fs::read_to_string(task.path().join("status")).unwrap_or_default())
                .all(|text| text.contains(&by))
        });
        if all {
            return Ok(());
        }
        if begun.elapsed() > ATTACH_MAX {
            return Err(Error::unexpected("strace does not attach: is it allowed to?"));
        }
        sleep(Duration::from_millis(5));
    }
}

fn section(place: &Path, plain: &[f64], lone: &[Lone], many: &Many) -> Section {
    let middle =
        |take: &dyn Fn(&Lone) -> u64| median(&lone.iter().map(|one| float(take(one))).collect::<Vec<_>>());
    let syncs = |calls: &Calls| calls.syncs_of_files.saturating_add(calls.syncs_of_systems);
    let most_syncs = lone.iter().map(|one| syncs(&one.calls)).max().unwrap_or(u64::MAX);
    let least_syncs = lone.iter().map(|one| syncs(&one.calls)).min().unwrap_or(u64::MAX);
    let timeouts = lone.iter().map(|one| one.timeouts).min().unwrap_or(u64::MAX);
    let groups = u64::try_from(many.files).unwrap_or(u64::MAX).div_ceil(GROUP);
    let row = |what: &str, value: String| vec![what.to_owned(), value];
    Section {
        name: "lone",
        text: format!(
            "A lone request at idle (RSA-4096, package of 20 KB, `--in-place`), {ROUNDS} times; front and signer under strace. Then\n\
             {FILES} packages of 10 KB in one call, the client under strace. On {}.",
            page::machine(place)
        ),
        columns: vec!["What", "Value"],
        rows: vec![
            row("whole command, median", format!("{} ms", short(median(plain) * 1e3))),
            row("whole command, fastest", format!("{} ms", short(plain.iter().copied().fold(f64::INFINITY, f64::min) * 1e3))),
            row("syncs of front and signer for one request, median", short(middle(&|one| syncs(&one.calls)))),
            row("waits of theirs that ended by a timer, median", short(middle(&|one| one.timeouts))),
            row("futex calls of theirs for one request, median", short(middle(&|one| one.calls.futex))),
            row("client, 1,000 packages: syncs of files", many.calls.syncs_of_files.to_string()),
            row("client, 1,000 packages: syncs of file systems", many.calls.syncs_of_systems.to_string()),
            row("client, 1,000 packages: payload bytes read", many.payload.to_string()),
            row("client, 1,000 packages: futex calls", many.calls.futex.to_string()),
            row("client, 1,000 packages: bytes sent, received", format!("{}, {}", many.calls.sent, many.calls.received)),
            row("client, 1,000 packages: connections", many.calls.connects.to_string()),
        ],
        plot: Some(Plot {
            title: "1,000 packages in one call".to_owned(),
            unit: "calls",
            bars: vec![
                Bar::new("packages", float(u64::try_from(many.files).unwrap_or(0)), Of::Goal),
                Bar::new("syncs", float(syncs(&many.calls)), Of::Ours),
                Bar::new("futex", float(many.calls.futex), Of::Ours),
            ],
        }),
        figures: vec![
            figure("syncs on the path of a lone request", &format!("{least_syncs} to {most_syncs}"), "2 at most", most_syncs <= SYNCS_MAX),
            figure("timers on the path of a lone request", &timeouts.to_string(), "0", timeouts == 0),
            figure(
                "syncs of the client for 1,000 packages in place",
                &syncs(&many.calls).to_string(),
                &format!("grouped: under {} ", groups.saturating_mul(8)),
                syncs(&many.calls) < groups.saturating_mul(8),
            ),
            figure("payload bytes read for 1,000 header-only signatures", &many.payload.to_string(), "0", many.payload == 0),
        ],
        raw: lone
            .iter()
            .map(|one| json!({ "seconds_traced": one.seconds, "syncs": syncs(&one.calls), "timeouts": one.timeouts, "futex": one.calls.futex }))
            .chain(plain.iter().map(|seconds| json!({ "seconds": seconds })))
            .collect(),
    }
}

fn figure(what: &str, measured: &str, wanted: &str, is_met: bool) -> Figure {
    Figure { what: what.to_owned(), measured: measured.to_owned(), wanted: wanted.to_owned(), is_met }
}
