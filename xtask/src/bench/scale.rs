//! What a signature costs when there are many keys and a long log.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Bench;
use super::inputs::float;
use super::load::{Load, Shape};
use super::measure::{self, median};
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
/// Keys that are used in both, at random.
const TEN: &str = "key*10";
/// A key of the fixtures.
const RSA: &str = "rsa4096";

const BATCH: Shape =
    Shape { key: TEN, items: 16, in_flight: 64, groups: 500, connections: 2, priority: "batch", pause_ms: 0 };

/// One way to ask.
struct Work {
    name: &'static str,
    small: Shape,
    large: Shape,
    /// Whether the figure is about it.
    counts: bool,
}

/// What the store costs is seen best beside Ed25519, whose operation is cheap.
const WORKS: [Work; 4] = [
    Work { name: "Ed25519, groups of 16, ten keys", small: BATCH, large: BATCH, counts: true },
    Work {
        name: "Ed25519, single, ten keys",
        small: single(TEN, 2_000),
        large: single(TEN, 2_000),
        counts: true,
    },
    Work {
        name: "RSA-4096, single, one key",
        small: single(RSA, 500),
        large: single(RSA, 500),
        counts: true,
    },
    Work {
        name: "Ed25519, groups of 16, ten keys against all of them",
        small: BATCH,
        large: Shape { key: "key*100000", ..BATCH },
        counts: false,
    },
];

const fn single(key: &'static str, groups: u64) -> Shape {
    Shape { key, items: 1, in_flight: 128, groups, ..BATCH }
}

/// Processor time for a signature, in microseconds: of front, of the signer.
#[derive(Clone, Copy)]
struct Cost {
    front: f64,
    signer: f64,
}

impl Cost {
    const fn sum(&self) -> f64 {
        self.front + self.signer
    }
}

/// Costs with both stores, a round each.
struct Costs {
    small: Vec<Cost>,
    large: Vec<Cost>,
}

/// Signs with both in turns.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let load = Load::build()?;
    let arguments = ["build", "--release", "--locked", "--package", "sealwright-store", "--example", "fill"];
    process::run(&mut process::cargo(&arguments))?;
    let (small, large) = (filled(bench, &load, SMALL)?, filled(bench, &load, LARGE)?);
    let mut all = Vec::new();
    for work in &WORKS {
        // The cache of pages, the numbers of the keys and the log's own file come to their size.
        load.sign(&small, Shape { groups: 100, ..work.small })?;
        load.sign(&large, Shape { groups: 100, ..work.large })?;
        let mut costs = Costs { small: Vec::new(), large: Vec::new() };
        for _ in 0..ROUNDS {
            costs.small.push(measured(&load, &small, work.small)?);
            costs.large.push(measured(&load, &large, work.large)?);
        }
        all.push(costs);
    }
    Ok(section(&all))
}

/// A server with so many keys, each used once, and so many entries.
fn filled(bench: &Bench, load: &Load, [keys, entries]: [u64; 2]) -> Result<Server> {
    let server = Server::start(&bench.program, &[])?;
    server.import(RSA)?;
    load.make_keys(&server, "key", keys)?;
    let mut fill = Command::new(process::root().join("target/release/examples/fill"));
    fill.arg(server.store()).args(["0".to_owned(), entries.to_string()]);
    process::run(&mut fill)?;
    // A key's first signature reserves numbers for it, with a sync.
    let key = if keys == SMALL[0] { "key@10" } else { "key@100000" };
    load.sign(&server, Shape { key, groups: keys, connections: 1, in_flight: 128, items: 1, ..BATCH })?;
    Ok(server)
}

fn measured(load: &Load, server: &Server, shape: Shape) -> Result<Cost> {
    let [front, signer] = server.processes().map(measure::cpu);
    let signed = load.sign(server, shape)?;
    let [front_after, signer_after] = server.processes().map(measure::cpu);
    let us = |spent: f64| spent / float(signed.signatures) * 1e6;
    Ok(Cost { front: us(front_after - front), signer: us(signer_after - signer) })
}

fn of(costs: &[Cost], take: impl Fn(&Cost) -> f64) -> f64 {
    median(&costs.iter().map(take).collect::<Vec<_>>())
}

fn growth(costs: &Costs) -> f64 {
    of(&costs.large, Cost::sum) / of(&costs.small, Cost::sum)
}

fn section(all: &[Costs]) -> Section {
    let counts = |[keys, entries]: [u64; 2]| format!("{keys} keys, {entries} entries");
    let halves = |costs: &[Cost]| {
        let us = |take: fn(&Cost) -> f64| short(of(costs, take));
        format!("{} us (front {}, signer {})", us(Cost::sum), us(|cost| cost.front), us(|cost| cost.signer))
    };
    let both = || WORKS.iter().zip(all);
    Section {
        name: "scale",
        text: format!(
            "A server with {}, and one with {}; real keys, entries as long as real ones. Medians of {ROUNDS} rounds\n\
             with each in turns of the processor time of front and signer for a signature; two connections, batch. Load average {}. On {}.",
            counts(SMALL),
            counts(LARGE),
            page::load(),
            page::machine(Path::new("/tmp"))
        ),
        columns: vec!["Work", "New server", "Filled server", "Growth"],
        rows: both()
            .map(|(work, costs)| {
                let growth = format!("{:.2}", growth(costs));
                vec![work.name.to_owned(), halves(&costs.small), halves(&costs.large), growth]
            })
            .collect(),
        plot: Some(Plot {
            title: "Processor time of the server for a signature".to_owned(),
            unit: "us",
            bars: both()
                .flat_map(|(work, costs)| {
                    let bar = |what, costs: &[Cost]| {
                        Bar::new(format!("{}: {what}", work.name), of(costs, Cost::sum), Of::Ours)
                    };
                    [bar("new", &costs.small), bar("filled", &costs.large)]
                })
                .collect(),
        }),
        figures: both()
            .filter(|(work, _)| work.counts)
            .map(|(work, costs)| Figure {
                what: format!("{}: filled server to new server", work.name),
                measured: format!("{:.2}", growth(costs)),
                wanted: format!("{GROWTH_MAX} at most"),
                is_met: growth(costs) <= GROWTH_MAX,
            })
            .collect(),
        raw: both()
            .flat_map(|(work, costs)| {
                let row = |store: &str, cost: &Cost| {
                    json!({ "work": work.name, "store": store, "front_us": cost.front, "signer_us": cost.signer })
                };
                let small = costs.small.iter().map(|cost| row("new", cost));
                small.chain(costs.large.iter().map(|cost| row("filled", cost))).collect::<Vec<_>>()
            })
            .collect(),
    }
}
