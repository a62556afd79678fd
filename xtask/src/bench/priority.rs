//! A person who signs one thing while a mass signing has the server.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Bench;
use super::inputs::float;
use super::load::{Load, Shape, Signed};
use super::measure::quantile;
use super::page::{self, Figure, Section};
use super::plot::{Bar, Of, Plot, short};
use super::server::Server;
use crate::Result;
use crate::error::Error;

/// The slowest of a hundred beside the campaign, to the median at idle.
const TIMES_MAX: f64 = 5.0;
/// Files of the campaign.
const CAMPAIGN: u64 = 20_000;
/// Until the campaign fills all queues.
const BEGUN: Duration = Duration::from_millis(1_500);
/// Requests of one person, one after the other.
const LONE: Shape = Shape::LONE;
/// As `sealwright resign` asks: single files, as many in flight as a connection may have.
const MASS: Shape = Shape { in_flight: 256, groups: CAMPAIGN, priority: "batch", pause_ms: 0, ..LONE };

/// One state of the server.
struct Seen {
    name: &'static str,
    signed: Signed,
    /// Of syncs on the store's file system meanwhile, in seconds.
    syncs: Vec<f64>,
}

impl Seen {
    fn sync_ms(&self, share: f64) -> f64 {
        quantile(&self.syncs, share) * 1e3
    }
}

/// At idle, then beside the campaign.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let load = Load::build()?;
    let server = Server::start(&bench.program, &[])?;
    server.import(LONE.key)?;
    load.sign(&server, Shape { groups: 20, ..LONE })?;
    let idle = watch("idle", &load, &server)?;
    let campaign = load.start_signing(&server, MASS)?;
    thread::sleep(BEGUN);
    let beside = watch("beside the campaign", &load, &server)?;
    drop(campaign);
    Ok(section(&[idle, beside]))
}

fn watch(name: &'static str, load: &Load, server: &Server) -> Result<Seen> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let syncs = scope.spawn(|| sync_times(&server.config(), &over));
        let signed = load.sign(server, LONE);
        over.store(true, Ordering::Relaxed);
        let syncs = syncs.join().map_err(|_| Error::unexpected("the thread that syncs has ended"))?;
        Ok(Seen { name, signed: signed?, syncs: syncs? })
    })
}

/// How long a page takes to be durable there, again and again, in seconds.
fn sync_times(folder: &Path, over: &AtomicBool) -> Result<Vec<f64>> {
    let path = folder.join("sync-probe");
    let mut file = fs::File::create(&path).map_err(Error::file(&path))?;
    let page = [7; 4_096];
    file.write_all(&page).map_err(Error::file(&path))?;
    let mut times = Vec::new();
    while !over.load(Ordering::Relaxed) {
        file.write_all_at(&page, 0).map_err(Error::file(&path))?;
        let begun = Instant::now();
        file.sync_data().map_err(Error::file(&path))?;
        times.push(begun.elapsed().as_secs_f64());
        thread::sleep(Duration::from_millis(20));
    }
    fs::remove_file(&path).map_err(Error::file(&path))?;
    Ok(times)
}

fn section(seen: &[Seen; 2]) -> Section {
    let [idle, beside] = seen;
    let times = float(beside.signed.p99_us) / float(idle.signed.p50_us.max(1));
    let ms = |us: u64| format!("{} ms", short(float(us) / 1e3));
    Section {
        name: "priority",
        text: format!(
            "One interactive request at a time (RSA-4096), {} of them, over TLS: at idle, and beside a campaign of {CAMPAIGN} single files with\n\
             priority `batch` and {} in flight. Syncs are of one page beside the store, every 20 ms. Load average {}. On {}.",
            LONE.groups,
            MASS.in_flight,
            page::load(),
            page::machine(Path::new("/tmp"))
        ),
        columns: vec!["", "p50", "p99", "sync p50", "sync p99"],
        rows: seen
            .iter()
            .map(|seen| {
                let sync = |share| format!("{} ms", short(seen.sync_ms(share)));
                vec![
                    seen.name.to_owned(),
                    ms(seen.signed.p50_us),
                    ms(seen.signed.p99_us),
                    sync(0.5),
                    sync(0.99),
                ]
            })
            .collect(),
        plot: Some(Plot {
            title: "A lone interactive request".to_owned(),
            unit: "ms",
            bars: seen
                .iter()
                .flat_map(|seen| {
                    [("p50", seen.signed.p50_us), ("p99", seen.signed.p99_us)].map(|(what, us)| {
                        Bar::new(format!("{}, {what}", seen.name), float(us) / 1e3, Of::Ours)
                    })
                })
                .collect(),
        }),
        figures: vec![Figure {
            what: "p99 beside a campaign to p50 at idle".to_owned(),
            measured: short(times),
            wanted: format!("{TIMES_MAX} at most"),
            is_met: times <= TIMES_MAX,
        }],
        raw: seen
            .iter()
            .map(|seen| {
                json!({
                    "state": seen.name,
                    "requests": seen.signed.signatures,
                    "p50_us": seen.signed.p50_us,
                    "p99_us": seen.signed.p99_us,
                    "sync_p50_ms": seen.sync_ms(0.5),
                    "sync_p99_ms": seen.sync_ms(0.99),
                })
            })
            .collect(),
    }
}
