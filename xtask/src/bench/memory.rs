//! Peak memory of client and server: it does not grow with the files.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Bench;
use super::inputs::{Kind, Set};
use super::measure::measure;
use super::page::{self, Figure, Section};
use super::plot::{Bar, Of, Plot};
use super::server::Server;
use crate::Result;

/// Bytes of the client at most.
const CLIENT_MAX: u64 = 64 << 20;
/// Bytes of front and signer at most.
const SERVER_MAX: u64 = 128 << 20;

/// What was measured.
struct Row {
    name: &'static str,
    client: u64,
    server: u64,
}

/// Runs each kind of work with eight jobs.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let place = bench.inputs()?;
    let sets = [Kind::Mixed, Kind::Large, Kind::Small].map(|kind| Set::below(&place, kind));
    let [mixed, large, small] = sets;
    let (mixed, large, small) = (mixed?, large?, small?);
    let server = Server::start(&bench.program, &[])?;
    server.import("rsa4096")?;
    let payload = &["--in-place", "--rpm-signature", "header+payload"];
    let work: [(&str, &[&Set], &[&str]); 4] = [
        ("400 mixed packages, header", &[&mixed], &[]),
        ("400 mixed packages, header and payload, --in-place", &[&mixed], payload),
        ("3 packages of 1.9 GB at once, header and payload, --in-place", &[&large], payload),
        ("20,000 packages of 10 KB, header, --in-place", &[&small], &["--in-place"]),
    ];
    let mut rows = Vec::new();
    for (name, sets, options) in work {
        sets.iter().try_for_each(|set| set.restore())?;
        server.forget_peak();
        let cost = measure(&mut sign(&server, sets, options))?;
        rows.push(Row { name, client: cost.memory, server: server.peak() });
    }
    Ok(section(&place, &rows))
}

fn sign(server: &Server, sets: &[&Set], options: &[&str]) -> Command {
    let mut command = server.client(&["sign", "--key", "rsa4096", "--jobs", "8", "--recursive"]);
    command.args(options).args(sets.iter().map(|set| set.folder()));
    command
}

fn section(place: &Path, rows: &[Row]) -> Section {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let most = |take: fn(&Row) -> u64| rows.iter().map(take).max().unwrap_or(u64::MAX);
    let figure = |what: &str, measured: u64, limit: u64| Figure {
        what: what.to_owned(),
        measured: mib(measured),
        wanted: format!("{} at most", mib(limit)),
        is_met: measured <= limit,
    };
    let (client, server) = (most(|row| row.client), most(|row| row.server));
    let bars = rows.iter().flat_map(|row| {
        let name = row.name.split(',').next().unwrap_or_default();
        let value = |bytes: u64| super::inputs::float(bytes >> 10) / 1024.0;
        [
            Bar::new(format!("client: {name}"), value(row.client), Of::Ours),
            Bar::new("front and signer", value(row.server), Of::Ours),
        ]
    });
    Section {
        name: "memory",
        text: format!(
            "Peak of resident memory (the kernel's `VmHWM`, pages of the program and its libraries included) with `--jobs 8`\n\
             against a running server, on {}.",
            page::machine(place)
        ),
        columns: vec!["Work", "Client", "Front and signer"],
        rows: rows.iter().map(|row| vec![row.name.to_owned(), mib(row.client), mib(row.server)]).collect(),
        plot: Some(Plot { title: "Peak memory".to_owned(), unit: "MiB", bars: bars.collect() }),
        figures: vec![
            figure("client, most of all", client, CLIENT_MAX),
            figure("front and signer, most of all", server, SERVER_MAX),
        ],
        raw: rows
            .iter()
            .map(|row| json!({ "work": row.name, "client_bytes": row.client, "server_bytes": row.server }))
            .collect(),
    }
}
