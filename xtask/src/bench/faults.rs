//! Keys on two tokens and one in software, all at work; the worker process of one token is killed, crashes and stands
//! still, again and again. What requests for the other keys notice of it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use super::Bench;
use super::inputs::float;
use super::load::{Load, Shape, Signed};
use super::measure::{median, quantile};
use super::page::{self, Figure, Section};
use super::plot::{Bar, Of, Plot, short};
use super::server::{self, Server};
use crate::error::Error;
use crate::install::SOFTHSM;
use crate::{Result, process};

const PIN: &str = "1234";
/// Within which a token that stands still is found out, in milliseconds.
const DEADLINE_MS: u64 = 1_000;

/// The slowest of a hundred with faults, to that without.
const TIMES_MAX: f64 = 1.5;
/// Windows of each kind; in turns.
const WINDOWS: usize = 8;
/// Between two faults of a window.
const BETWEEN: Duration = Duration::from_millis(800);
/// A token that has not come back by then does not come back by itself.
const BACK_MAX: Duration = Duration::from_secs(60);

/// Requests for one key in one window: some 4 s.
const SOFT: Shape = Shape { in_flight: 4, groups: 600, pause_ms: 5, ..Shape::LONE };
/// The same for the other token, and for the one that is hit.
const OTHER: Shape = Shape { key: "hsm2", ..SOFT };
const HIT: Shape = Shape { key: "hsm1", ..SOFT };

/// What is done to the worker, in the order of the rows.
const FAULTS: [(&str, Option<&str>); 4] =
    [("none", None), ("SIGKILL", Some("KILL")), ("SIGSEGV", Some("SEGV")), ("SIGSTOP", Some("STOP"))];

/// One window.
struct Window {
    fault: &'static str,
    /// Of each fault: until the token had signed again, in seconds.
    backs: Vec<f64>,
    soft: Signed,
    other: Signed,
    hit: Signed,
}

/// Measures.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let load = Load::build()?;
    let tokens = tempfile::tempdir().map_err(Error::file(Path::new("/tmp")))?;
    let server =
        Server::start_prepared(server::folder()?, &bench.program, |config| install(config, &tokens))?;
    server.import(SOFT.key)?;
    for name in [HIT.key, OTHER.key] {
        let import = ["key", "import", name, "--token", name, "--object", "signer"];
        process::output(&mut server.client(&import))?;
    }
    for shape in [SOFT, OTHER, HIT] {
        load.sign(&server, Shape { groups: 50, ..shape })?;
    }
    let mut windows = Vec::new();
    for _ in 0..WINDOWS {
        for (name, signal) in FAULTS {
            windows.push(window(&load, &server, name, signal)?);
        }
    }
    Ok(section(&windows))
}

/// All three keys at work, and so many faults as there is time for.
fn window(load: &Load, server: &Server, fault: &'static str, signal: Option<&str>) -> Result<Window> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let hit = scope.spawn(|| load.sign_or_fail(server, HIT));
        let other = scope.spawn(|| load.sign_or_fail(server, OTHER));
        let faults = scope.spawn(|| signal.map_or(Ok(Vec::new()), |it| strike(load, server, it, &over)));
        let soft = load.sign_or_fail(server, SOFT);
        over.store(true, Ordering::Relaxed);
        let ended = |_| Error::unexpected("a thread of the window has ended");
        let backs = faults.join().map_err(ended)??;
        let (other, hit) = (other.join().map_err(ended)??, hit.join().map_err(ended)??);
        Ok(Window { fault, backs, soft: soft?, other, hit })
    })
}

/// Hits the worker until it is over; each time, how long it took until the token had signed again, in seconds.
fn strike(load: &Load, server: &Server, signal: &str, over: &AtomicBool) -> Result<Vec<f64>> {
    let word = format!("{}/softhsm2.conf", HIT.key);
    let mut backs = Vec::new();
    while !over.load(Ordering::Relaxed) {
        thread::sleep(BETWEEN);
        let Some(worker) = server.token_worker(&word) else { continue };
        let kill = || process::output(Command::new("kill").arg(format!("-{signal}")).arg(worker.to_string()));
        let hit = Instant::now();
        // It may have ended by itself.
        if kill().is_err() {
            continue;
        }
        // Rust's handler leaves the signal to the kernel when it comes again, as a real one would.
        while signal == "SEGV" && server.token_worker(&word) == Some(worker) {
            in_time(hit, signal)?;
            let _ = kill();
            thread::sleep(Duration::from_millis(2));
        }
        while load.sign_or_fail(server, Shape { groups: 1, ..HIT })?.failures > 0 {
            in_time(hit, signal)?;
        }
        backs.push(hit.elapsed().as_secs_f64());
    }
    Ok(backs)
}

/// Whether there is still hope for the token that was hit then.
fn in_time(hit: Instant, signal: &str) -> Result<()> {
    if hit.elapsed() < BACK_MAX {
        return Ok(());
    }
    let seconds = BACK_MAX.as_secs();
    Err(Error::unexpected(format!("{seconds} s after SIG{signal} the token did not sign again")))
}

/// Two tokens of SoftHSM2 with a key each, and what the signer is told of them.
fn install(config: &Path, tokens: &TempDir) -> Result<()> {
    let mut entries = String::new();
    let root = config.join("root");
    for name in ["hsm1", "hsm2"] {
        let folder = tokens.path().join(name);
        fs::create_dir_all(folder.join("tokens")).map_err(Error::file(&folder))?;
        let at = folder.display().to_string();
        let config = folder.join("softhsm2.conf");
        let text =
            format!("directories.tokendir = {at}/tokens\nobjectstore.backend = file\nlog.level = ERROR\n");
        fs::write(&config, text).map_err(Error::file(&config))?;
        let key = folder.join("key.p8");
        let mut make = Command::new("openssl");
        make.args(["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out"]);
        process::output(make.arg(&key))?;
        for words in [
            vec!["--init-token", "--free", "--label", name, "--so-pin", PIN, "--pin", PIN],
            vec![
                "--import",
                key.to_str().unwrap_or_default(),
                "--token",
                name,
                "--label",
                "signer",
                "--id",
                "01",
                "--pin",
                PIN,
            ],
        ] {
            process::output(Command::new("softhsm2-util").env("SOFTHSM2_CONF", &config).args(words))?;
        }
        entries.push_str(&format!(
            "[[token]]\nname = \"{name}\"\nmodule = \"{SOFTHSM}\"\nlabel = \"{name}\"\npin_file = \"{name}.pin\"\n\
             paths = [\"{at}\"]\nenvironment = {{ SOFTHSM2_CONF = \"{at}/softhsm2.conf\" }}\ndeadline_ms = {DEADLINE_MS}\n"
        ));
        private(&root.join(format!("{name}.pin")), PIN)?;
    }
    private(&root.join("tokens.toml"), &entries)?;
    server::give(tokens.path())
}

fn private(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(Error::file(path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(Error::file(path))?;
    server::give(path)
}

/// The windows of one fault.
struct Row {
    fault: &'static str,
    hits: usize,
    soft_ms: f64,
    other_ms: f64,
    failures_of_others: u64,
    hit: u64,
    hit_failures: u64,
    back: f64,
    back_max: f64,
}

impl Row {
    fn of(fault: &'static str, windows: &[Window]) -> Self {
        let windows: Vec<&Window> = windows.iter().filter(|window| window.fault == fault).collect();
        let p99 = |of: fn(&Window) -> &Signed| {
            median(&windows.iter().map(|window| float(of(window).p99_us) / 1e3).collect::<Vec<_>>())
        };
        let backs: Vec<f64> = windows.iter().flat_map(|window| window.backs.iter().copied()).collect();
        Self {
            fault,
            hits: backs.len(),
            soft_ms: p99(|window| &window.soft),
            other_ms: p99(|window| &window.other),
            failures_of_others: windows
                .iter()
                .map(|it| it.soft.failures.saturating_add(it.other.failures))
                .sum(),
            hit: windows.iter().map(|window| window.hit.signatures).sum(),
            hit_failures: windows.iter().map(|window| window.hit.failures).sum(),
            back: median(&backs),
            back_max: quantile(&backs, 1.0),
        }
    }

    fn cells(&self) -> Vec<String> {
        let back = if self.hits == 0 {
            "-".to_owned()
        } else {
            format!("{} s, {} s", short(self.back), short(self.back_max))
        };
        vec![
            self.fault.to_owned(),
            self.hits.to_string(),
            format!("{} ms", short(self.soft_ms)),
            format!("{} ms", short(self.other_ms)),
            self.failures_of_others.to_string(),
            self.hit.to_string(),
            self.hit_failures.to_string(),
            back,
        ]
    }
}

fn section(windows: &[Window]) -> Section {
    let rows = FAULTS.map(|(fault, _)| Row::of(fault, windows));
    let [none, faults @ ..] = &rows;
    let worst = |of: fn(&Row) -> f64| faults.iter().map(|row| of(row) / of(none)).fold(0.0, f64::max);
    let times = worst(|row| row.soft_ms).max(worst(|row| row.other_ms));
    let failures: u64 = rows.iter().map(|row| row.failures_of_others).sum();
    Section {
        name: "faults",
        text: format!(
            "A key in software (RSA-4096) and one on each of two tokens (SoftHSM2, RSA-2048), {} requests for each in a window, {} in\n\
             flight; in a window with faults the worker process of the first token is hit again {} ms after it has signed again (that one\n\
             stands still is found out after the token's deadline of {DEADLINE_MS} ms). {WINDOWS} windows of each kind, in turns; medians\n\
             of the windows' p99. A request for the token that is hit is signed or told why not. Load average {}. On {}.",
            SOFT.groups,
            SOFT.in_flight,
            BETWEEN.as_millis(),
            page::load(),
            page::machine(Path::new("/tmp"))
        ),
        columns: vec![
            "Fault",
            "Faults",
            "p99, software",
            "p99, other token",
            "failures of both",
            "signatures of the token that is hit",
            "failures of it",
            "it signs again after: median, longest",
        ],
        rows: rows.iter().map(Row::cells).collect(),
        plot: Some(Plot {
            title: "Requests for other keys while one token fails, p99".to_owned(),
            unit: "ms",
            bars: rows
                .iter()
                .flat_map(|row| {
                    [("software", row.soft_ms), ("other token", row.other_ms)]
                        .map(|(what, ms)| Bar::new(format!("{}, {what}", row.fault), ms, Of::Ours))
                })
                .collect(),
        }),
        figures: vec![
            Figure {
                what: "failures of requests for other keys".to_owned(),
                measured: failures.to_string(),
                wanted: "0".to_owned(),
                is_met: failures == 0,
            },
            Figure {
                what: "their p99 with faults to that without, the worst".to_owned(),
                measured: short(times),
                wanted: format!("{TIMES_MAX} at most"),
                is_met: times <= TIMES_MAX,
            },
        ],
        raw: windows.iter().map(raw).collect(),
    }
}

fn raw(window: &Window) -> serde_json::Value {
    json!({
        "fault": window.fault,
        "faults": window.backs.len(),
        "software_p50_us": window.soft.p50_us,
        "software_p99_us": window.soft.p99_us,
        "other_p50_us": window.other.p50_us,
        "other_p99_us": window.other.p99_us,
        "hit_signatures": window.hit.signatures,
        "hit_failures": window.hit.failures,
        "hit_failure": window.hit.failure,
        "back_s": window.backs,
    })
}
