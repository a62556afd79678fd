//! Three packages of 1.9 GB at once, signed over header and payload: every byte is read once and hashed, beside the
//! fastest hash of the same bytes.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Bench;
use super::inputs::{Kind, Set, float};
use super::measure::{Cost, median, time};
use super::page::{self, Figure, Section};
use super::peers::openssl_digest;
use super::plot::{Bar, Of, Plot, short};
use super::server::Server;
use crate::Result;

/// Runs of each, in turns.
const ROUNDS: usize = 3;
/// Of what openssl reaches.
const SHARE_MIN: f64 = 0.85;

/// One way to read all bytes of a set.
struct Way<'a> {
    name: &'static str,
    set: &'a Set,
    seconds: Vec<f64>,
    cpu: Vec<f64>,
}

impl<'a> Way<'a> {
    const fn new(name: &'static str, set: &'a Set) -> Self {
        Self { name, set, seconds: Vec::new(), cpu: Vec::new() }
    }

    fn take(&mut self, cost: &Cost) {
        self.seconds.push(cost.seconds);
        self.cpu.push(cost.cpu);
    }

    /// In GB a second.
    fn rate(&self) -> f64 {
        float(self.set.bytes()) / 1e9 / median(&self.seconds)
    }
}

/// Signs the set in both forms and hashes it, in turns.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let place = bench.inputs()?;
    let set = Set::below(&place, Kind::Large)?;
    let server = Server::start(&bench.program, &[])?;
    server.import("rsa4096")?;
    let mut openssl = Way::new("openssl dgst -sha256", &set);
    let mut ours = [
        Way::new("sealwright, package with SHA-256 alone", &set),
        Way::new("sealwright, package with MD5 too", &set),
    ];
    for _ in 0..ROUNDS {
        for way in &mut ours {
            let is_alone = way.name.ends_with("alone");
            if is_alone {
                set.restore_without_md5()?
            } else {
                set.restore()?
            }
            set.warm()?;
            if is_alone {
                openssl.take(&openssl_digest(&way.set.paths().collect::<Vec<_>>())?);
            }
            let cost = time(&mut sign(&server, way.set))?;
            way.take(&cost);
        }
    }
    let [alone, md5] = ours;
    Ok(section(&place, &[openssl, alone, md5]))
}

fn sign(server: &Server, set: &Set) -> Command {
    let mut command =
        server.client(&["sign", "--key", "rsa4096", "--in-place", "--rpm-signature", "header+payload"]);
    command.args(set.paths());
    command
}

fn section(place: &Path, ways: &[Way<'_>]) -> Section {
    let reference = ways.first().map_or(f64::NAN, Way::rate);
    let rows = ways.iter().map(|way| {
        vec![
            way.name.to_owned(),
            format!("{:.2} s", median(&way.seconds)),
            format!("{} GB/s", short(way.rate())),
            short(way.rate() / reference),
            format!("{:.2} s", median(&way.cpu)),
        ]
    });
    let raw = ways.iter().flat_map(|way| {
        way.seconds.iter().zip(&way.cpu).map(|(seconds, cpu)| {
            json!({ "way": way.name, "seconds": seconds, "client_cpu_s": cpu, "bytes": way.set.bytes() })
        })
    });
    let figures = ways.iter().skip(1).map(|way| Figure {
        what: format!("{} against openssl, GB/s", way.name),
        measured: short(way.rate() / reference),
        wanted: format!("{SHARE_MIN} at least"),
        is_met: way.rate() / reference >= SHARE_MIN,
    });
    Section {
        name: "payload",
        text: format!(
            "Three packages of 1.9 GB at once, in the cache, signed over header and payload with `--in-place` against a running\n\
             server, on {}. Medians of {ROUNDS} runs in turns. openssl runs once for each\n\
             file, all at once. Signing takes two SHA-256 of each file (payload alone, which the header\n\
             records; header and payload, which is signed) and, where the package has it, MD5 of header and payload.\n\
             Load when this was written: {}.",
            page::machine(place),
            page::load(),
        ),
        columns: vec!["Program", "Time", "Rate", "Of openssl", "CPU"],
        rows: rows.collect(),
        plot: Some(Plot {
            title: "Three packages of 1.9 GB, header and payload".to_owned(),
            unit: "GB/s",
            bars: ways
                .iter()
                .map(|way| {
                    Bar::new(
                        way.name,
                        way.rate(),
                        if way.name.starts_with("openssl") { Of::Other } else { Of::Ours },
                    )
                })
                .collect(),
        }),
        figures: figures.collect(),
        raw: raw.collect(),
    }
}
