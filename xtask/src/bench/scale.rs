//! What a signature costs when there are many keys and a long log.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Bench;
use super::inputs::float;
use super::load::{Load, Shape};
use super::measure::median;
use super::page::{self, Figure, Section};
use super::plot::{Bar, Of, Plot, short};
use super::server::Server;
use crate::{Result, process};

/// Runs of each; in turns.
const ROUNDS: usize = 7;
/// A store that is new: keys, and entries of the log.
const SMALL: [u64; 2] = [10, 0];
/// One that is not.
const LARGE: [u64; 2] = [100_000, 10_000_000];
/// The second to the first.
const GROWTH_MAX: f64 = 1.1;
/// Ed25519: the operation is cheap, so that what the store costs is seen.
const SHAPE: Shape = Shape {
    key: "ed25519",
    items: 16,
    in_flight: 64,
    groups: 500,
    connections: 2,
    priority: "batch",
    pause_ms: 0,
};

/// A server with its store.
struct Filled {
    name: &'static str,
    server: Server,
    /// Processor time of the server for a signature, in microseconds.
    us: Vec<f64>,
}

/// Signs with both in turns.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let load = Load::build()?;
    let arguments = ["build", "--release", "--locked", "--package", "sealwright-store", "--example", "fill"];
    process::run(&mut process::cargo(&arguments))?;
    let mut both = [filled(bench, "new", SMALL)?, filled(bench, "filled", LARGE)?];
    for filled in &mut both {
        // The cache of pages, the numbers of the key and the log's own file come to their size.
        load.sign(&filled.server, SHAPE)?;
    }
    for _ in 0..ROUNDS {
        for filled in &mut both {
            let before = filled.server.cpu();
            let signed = load.sign(&filled.server, SHAPE)?;
            filled.us.push((filled.server.cpu() - before) / float(signed.signatures) * 1e6);
        }
    }
    Ok(section(&both))
}

fn filled(bench: &Bench, name: &'static str, [keys, entries]: [u64; 2]) -> Result<Filled> {
    let server = Server::start(&bench.program, &[])?;
    server.import(SHAPE.key)?;
    let mut fill = Command::new(process::root().join("target/release/examples/fill"));
    fill.arg(server.store()).args([keys.to_string(), entries.to_string()]);
    process::run(&mut fill)?;
    Ok(Filled { name, server, us: Vec::new() })
}

fn section(both: &[Filled; 2]) -> Section {
    let [new, old] = both;
    let growth = median(&old.us) / median(&new.us);
    let us = |filled: &Filled| format!("{} us", short(median(&filled.us)));
    let counts = |[keys, entries]: [u64; 2]| format!("{keys} keys, {entries} entries");
    Section {
        name: "scale",
        text: format!(
            "Ed25519, groups of {}, {ROUNDS} rounds of {} signatures with each of two servers, in turns; medians of the processor\n\
             time of front and signer. Load average {}. On {}.",
            SHAPE.items,
            SHAPE.items.saturating_mul(SHAPE.groups).saturating_mul(SHAPE.connections),
            page::load(),
            page::machine(Path::new("/tmp"))
        ),
        columns: vec!["Store", "Server for one signature"],
        rows: vec![vec![counts(SMALL), us(new)], vec![counts(LARGE), us(old)]],
        plot: Some(Plot {
            title: "Processor time of the server for a signature".to_owned(),
            unit: "us",
            bars: vec![
                Bar::new(counts(SMALL), median(&new.us), Of::Ours),
                Bar::new(counts(LARGE), median(&old.us), Of::Ours),
            ],
        }),
        figures: vec![Figure {
            what: "processor time for a signature, large store to new store".to_owned(),
            measured: format!("{growth:.2}"),
            wanted: format!("{GROWTH_MAX} at most"),
            is_met: growth <= GROWTH_MAX,
        }],
        raw: both
            .iter()
            .flat_map(|filled| filled.us.iter().map(|us| json!({ "store": filled.name, "server_us": us })))
            .collect(),
    }
}
