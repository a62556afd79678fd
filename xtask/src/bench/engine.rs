//! What the server adds to the private-key operation: many requests in flight over TLS with client certificates, policy,
//! durable log and the signer's own check of each signature, beside the bare operation of the engine.
//!
//! Client and server share the machine, so processor time tells more than the clock: it is read for each process.

use std::path::Path;

use serde_json::json;

use super::Bench;
use super::inputs::float;
use super::load::{Load, Shape, Signed};
use super::measure::{self, median};
use super::page::{self, Figure, Section};
use super::peers::{Bare, Operations};
use super::plot::{Bar, Of, Plot, short};
use super::server::Server;
use crate::Result;

/// Runs of each; in turns.
const ROUNDS: usize = 5;
/// Share of the bare rate that the server reaches with RSA-4096.
const RSA_SHARE_MIN: f64 = 0.90;
/// Signatures a second with Ed25519, of a machine of two cores.
const ED25519_RATE_MIN: f64 = 20_000.0;

/// One load, and what it is compared with.
struct Work {
    name: &'static str,
    shape: Shape,
}

/// One round.
struct Round {
    signed: Signed,
    front_cpu: f64,
    signer_cpu: f64,
    bare: Operations,
    bare_count: u64,
}

impl Round {
    fn count(&self) -> f64 {
        float(self.signed.signatures)
    }

    /// Processor time of the server for one signature, in microseconds.
    fn server_us(&self) -> f64 {
        (self.front_cpu + self.signer_cpu) / self.count() * 1e6
    }

    fn bare_us(&self) -> f64 {
        self.bare.cpu / float(self.bare_count) * 1e6
    }

    fn share(&self) -> f64 {
        self.bare_us() / self.server_us()
    }
}

/// RSA-4096, single requests, pipelined.
pub(super) fn rsa(bench: &Bench) -> Result<Section> {
    let work = Work {
        name: "rsa",
        shape: Shape {
            key: "rsa4096",
            items: 1,
            in_flight: 128,
            groups: 1_000,
            connections: 2,
            priority: "batch",
            pause_ms: 0,
        },
    };
    let rounds = run(bench, &work, 1_000)?;
    let of = |take: fn(&Round) -> f64| median(&rounds.iter().map(take).collect::<Vec<_>>());
    let share = of(Round::share);
    let figure = Figure {
        what: "bare operation to signature of the server, processor time".to_owned(),
        measured: format!("{share:.3}"),
        wanted: format!("{RSA_SHARE_MIN} at least"),
        is_met: share >= RSA_SHARE_MIN,
    };
    Ok(section(bench, &work, &rounds, figure))
}

/// Ed25519, groups of 64.
pub(super) fn ed25519(bench: &Bench) -> Result<Section> {
    let work = Work {
        name: "ed25519",
        shape: Shape {
            key: "ed25519",
            items: 64,
            in_flight: 32,
            groups: 400,
            connections: 2,
            priority: "batch",
            pause_ms: 0,
        },
    };
    let rounds = run(bench, &work, 51_200)?;
    let rate = median(&rounds.iter().map(|round| rate_of_server(bench, round)).collect::<Vec<_>>());
    let figure = Figure {
        what: "signatures a second by the processor time of the server, all cores".to_owned(),
        measured: short(rate),
        wanted: format!("{ED25519_RATE_MIN} at least"),
        is_met: rate >= ED25519_RATE_MIN,
    };
    Ok(section(bench, &work, &rounds, figure))
}

/// Signatures a second if the server has all cores for itself.
fn rate_of_server(bench: &Bench, round: &Round) -> f64 {
    float(u64::try_from(bench.cores).unwrap_or(1)) * 1e6 / round.server_us()
}

fn run(bench: &Bench, work: &Work, bare_count: u64) -> Result<Vec<Round>> {
    let (load, bare) = (Load::build()?, Bare::build()?);
    let server = Server::start(&bench.program, &[])?;
    server.import(work.shape.key)?;
    // The first signatures reserve numbers, open the key and grow the store's files.
    load.sign(&server, Shape { groups: 20, ..work.shape })?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let operations = bare.run(work.shape.key, bench.cores, bare_count)?;
        let [front, signer] = server.processes().map(measure::cpu);
        let signed = load.sign(&server, work.shape)?;
        let [front_after, signer_after] = server.processes().map(measure::cpu);
        rounds.push(Round {
            signed,
            front_cpu: front_after - front,
            signer_cpu: signer_after - signer,
            bare: operations,
            bare_count,
        });
    }
    Ok(rounds)
}

fn section(bench: &Bench, work: &Work, rounds: &[Round], figure: Figure) -> Section {
    let of = |take: &dyn Fn(&Round) -> f64| median(&rounds.iter().map(take).collect::<Vec<_>>());
    let us = |take: &dyn Fn(&Round) -> f64| short(of(take));
    let row = |what: &str, value: String| vec![what.to_owned(), value];
    let rate = of(&|round| round.count() / round.signed.seconds);
    let bare_rate = of(&|round| float(round.bare_count) / round.bare.seconds);
    let server_rate = of(&|round| rate_of_server(bench, round));
    let Shape { key, items, in_flight, connections, .. } = work.shape;
    Section {
        name: work.name,
        text: format!(
            "{connections} connections with client certificates, each with {in_flight} groups of {items} in flight, key `{key}`; policy, durable log and\n\
             the signer's check of each signature as always. {ROUNDS} rounds, each with as many bare operations of aws-lc-rs on all cores;\n\
             medians. Client and server share the machine; load average {}. On {}.",
            page::load(),
            page::machine(Path::new("/tmp"))
        ),
        columns: vec!["What", "Value"],
        rows: vec![
            row("bare operation, processor time", format!("{} us", us(&Round::bare_us))),
            row("server for one signature, processor time", format!("{} us", us(&Round::server_us))),
            row("of these: front", format!("{} us", us(&|round| round.front_cpu / round.count() * 1e6))),
            row("of these: signer", format!("{} us", us(&|round| round.signer_cpu / round.count() * 1e6))),
            row(
                "client for one signature, processor time",
                format!("{} us", us(&|round| round.signed.cpu_seconds / round.count() * 1e6)),
            ),
            row("bare operations a second, wall clock, all cores", short(bare_rate)),
            row("signatures a second, wall clock, the client on the same cores", short(rate)),
            row("signatures a second by the server's processor time, all cores", short(server_rate)),
            row(
                "a group, from question to answer: p50, p99",
                format!(
                    "{} ms, {} ms",
                    us(&|round| float(round.signed.p50_us) / 1e3),
                    us(&|round| float(round.signed.p99_us) / 1e3)
                ),
            ),
        ],
        plot: Some(Plot {
            title: format!("Signatures a second, {key}"),
            unit: "/s",
            bars: vec![
                Bar::new("bare aws-lc-rs", bare_rate, Of::Other),
                Bar::new("server, its processor time", server_rate, Of::Ours),
                Bar::new("server, client beside it", rate, Of::Ours),
            ],
        }),
        figures: vec![figure],
        raw: rounds
            .iter()
            .map(|round| {
                json!({
                    "signatures": round.signed.signatures,
                    "seconds": round.signed.seconds,
                    "client_cpu": round.signed.cpu_seconds,
                    "front_cpu": round.front_cpu,
                    "signer_cpu": round.signer_cpu,
                    "bare_cpu": round.bare.cpu,
                    "bare_seconds": round.bare.seconds,
                    "bare_operations": round.bare_count,
                })
            })
            .collect(),
    }
}
