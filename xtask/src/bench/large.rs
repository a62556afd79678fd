//! One package of 1.9 GB against one of 20 KB: a signature over the header costs the same.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Bench;
use super::disk::Xfs;
use super::inputs::{Kind, Set};
use super::measure::{median, time};
use super::page::{self, Figure, Section};
use super::plot::{Bar, Of, Plot, short};
use super::server::Server;
use crate::Result;

/// Runs of each, in turns.
const ROUNDS: usize = 15;
/// MiB of the file system that shares extents.
const XFS_MIB: u64 = 3_072;
/// The whole command, in seconds.
const SECONDS_MAX: f64 = 0.050;
/// Times the one of 20 KB.
const TIMES_MAX: f64 = 2.0;

/// One file signed in one way, again and again.
struct Way {
    name: &'static str,
    set: Set,
    options: &'static [&'static str],
    seconds: Vec<f64>,
    cpu: Vec<f64>,
}

impl Way {
    fn new(name: &'static str, place: &Path, kind: Kind, options: &'static [&'static str]) -> Result<Self> {
        Ok(Self { name, set: Set::below(place, kind)?, options, seconds: Vec::new(), cpu: Vec::new() })
    }

    fn command(&self, server: &Server) -> Command {
        let mut command = server.client(&["sign", "--key", "rsa4096"]);
        command.args(self.options).args(self.set.paths().take(1));
        command
    }
}

/// Signs each, in turns.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let place = bench.inputs()?;
    let xfs = Xfs::mount(&place, "large", XFS_MIB)?;
    let server = Server::start(&bench.program, &[])?;
    server.import("rsa4096")?;
    let mut ways = vec![
        Way::new("20 KB, --in-place", &place, Kind::Single, &["--in-place"])?,
        Way::new("1.9 GB, --in-place", &place, Kind::Large, &["--in-place"])?,
    ];
    if let Some(xfs) = &xfs {
        ways.push(Way::new("20 KB, XFS, reflink", xfs.path(), Kind::Single, &[])?);
        ways.push(Way::new("1.9 GB, XFS, reflink", xfs.path(), Kind::LargeOne, &[])?);
    }
    for _ in 0..ROUNDS {
        for way in &mut ways {
            way.set.restore()?;
            let cost = time(&mut way.command(&server))?;
            way.seconds.push(cost.seconds);
            way.cpu.push(cost.cpu);
        }
    }
    Ok(section(&place, &ways))
}

fn section(place: &Path, ways: &[Way]) -> Section {
    let milliseconds = |values: &[f64]| format!("{} ms", short(median(values) * 1e3));
    let rows = ways.iter().map(|way| {
        let most = way.seconds.iter().copied().fold(0.0, f64::max);
        vec![
            way.name.to_owned(),
            milliseconds(&way.seconds),
            format!("{} ms", short(most * 1e3)),
            milliseconds(&way.cpu),
        ]
    });
    let raw = ways.iter().flat_map(|way| {
        way.seconds
            .iter()
            .zip(&way.cpu)
            .map(|(seconds, cpu)| json!({ "way": way.name, "seconds": seconds, "client_cpu_s": cpu }))
    });
    Section {
        name: "large",
        text: format!(
            "The whole command for one package, from its start to its end, against a running server: header-only signature,\n\
             RSA-4096, on {}. Medians of {ROUNDS} runs in turns. Nothing of the payload is read\n\
             (bench `big`). Load when this was written: {}.",
            page::machine(place),
            page::load(),
        ),
        columns: vec!["Package and way", "Time", "Slowest", "Client CPU"],
        rows: rows.collect(),
        plot: Some(Plot {
            title: "One package, header-only".to_owned(),
            unit: "ms",
            bars: ways.iter().map(|way| Bar::new(way.name, median(&way.seconds) * 1e3, Of::Ours)).collect(),
        }),
        figures: figures(ways),
        raw: raw.collect(),
    }
}

fn figures(ways: &[Way]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for pair in ways.chunks_exact(2) {
        let [small, large] = pair else { continue };
        let (small_seconds, seconds) = (median(&small.seconds), median(&large.seconds));
        figures.push(Figure {
            what: format!("{}, time", large.name),
            measured: format!("{} ms", short(seconds * 1e3)),
            wanted: "50 ms at most".to_owned(),
            is_met: seconds <= SECONDS_MAX,
        });
        figures.push(Figure {
            what: format!("{} against {}, time", large.name, small.name),
            measured: format!("{} times", short(seconds / small_seconds)),
            wanted: format!("{TIMES_MAX} times at most"),
            is_met: seconds / small_seconds <= TIMES_MAX,
        });
    }
    figures
}
