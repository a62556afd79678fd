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
use super::server::{self, Server};
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

/// Where a sync costs nothing: what is left there is not the disk's.
const MEMORY: &str = "/dev/shm";

/// One state of the server.
struct Seen {
    place: &'static str,
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

/// A server with its store on the disk, and one with it in memory.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let load = Load::build()?;
    let memory = server::folder_in(Path::new(MEMORY))?;
    let mut seen = Vec::new();
    for (place, folder) in [("disk", server::folder()?), ("memory", memory)] {
        let server = Server::start_in(folder, &bench.program, &[])?;
        seen.push(idle_and_beside(place, &load, &server)?);
    }
    Ok(section(&seen))
}

/// At idle, then beside the campaign.
fn idle_and_beside(place: &'static str, load: &Load, server: &Server) -> Result<[Seen; 2]> {
    server.import(LONE.key)?;
    load.sign(server, Shape { groups: 20, ..LONE })?;
    let idle = watch(place, "idle", load, server)?;
    let campaign = load.start_signing(server, MASS)?;
    thread::sleep(BEGUN);
    let beside = watch(place, "beside the campaign", load, server)?;
    drop(campaign);
    Ok([idle, beside])
}

fn watch(place: &'static str, name: &'static str, load: &Load, server: &Server) -> Result<Seen> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let syncs = scope.spawn(|| sync_times(&server.config(), &over));
        let signed = load.sign(server, LONE);
        over.store(true, Ordering::Relaxed);
        let syncs = syncs.join().map_err(|_| Error::unexpected("the thread that syncs has ended"))?;
        Ok(Seen { place, name, signed: signed?, syncs: syncs? })
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

fn figure([idle, beside]: &[Seen; 2]) -> Figure {
    let times = float(beside.signed.p99_us) / float(idle.signed.p50_us.max(1));
    Figure {
        what: format!("store on {}: p99 beside a campaign to p50 at idle", idle.place),
        measured: short(times),
        wanted: format!("{TIMES_MAX} at most"),
        is_met: times <= TIMES_MAX,
    }
}

fn section(places: &[[Seen; 2]]) -> Section {
    let ms = |us: u64| format!("{} ms", short(float(us) / 1e3));
    let all = || places.iter().flatten();
    Section {
        name: "priority",
        text: format!(
            "One interactive request at a time (RSA-4096), {} of them, over TLS: at idle, and beside a campaign of {CAMPAIGN} single files with\n\
             priority `batch` and {} in flight; with the store on the disk, then with it in memory ({MEMORY}), where syncs cost nothing. Syncs are\n\
             of one page beside the store, every 20 ms. Load average {}. On {}.",
            LONE.groups,
            MASS.in_flight,
            page::load(),
            page::machine(Path::new("/tmp"))
        ),
        columns: vec!["Store", "", "p50", "p99", "sync p50", "sync p99"],
        rows: all()
            .map(|seen| {
                let sync = |share| format!("{} ms", short(seen.sync_ms(share)));
                vec![
                    seen.place.to_owned(),
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
            bars: all()
                .flat_map(|seen| {
                    [("p50", seen.signed.p50_us), ("p99", seen.signed.p99_us)].map(|(what, us)| {
                        let what = format!("{}, {}, {what}", seen.place, seen.name);
                        Bar::new(what, float(us) / 1e3, Of::Ours)
                    })
                })
                .collect(),
        }),
        figures: places.iter().map(figure).collect(),
        raw: all()
            .map(|seen| {
                json!({
                    "store": seen.place,
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
