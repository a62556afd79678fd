//! Many clients that each connect afresh, all at once: errors, processor time and memory of the server for a connection,
//! few against many, and beside a tonic server with mutual TLS that does nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use super::inputs::float;
use super::load::{Crowd, Load};
use super::measure;
use super::page::{self, Figure, Records, Section};
use super::plot::{Bar, Of, Plot, short};
use super::server::Server;
use crate::error::Error;
use crate::{Result, process};

/// Connections of a small crowd.
const FEW: u64 = 100;
/// Connections that fit the usual hard limit of descriptors (20,000 here), with room for files.
const DESCRIPTORS: u64 = 19_500;
/// Small crowds, one after the other: the kernel counts in hundredths of a second.
const FEW_TIMES: u64 = 20;
/// Large crowds.
const MANY_TIMES: u64 = 2;
/// For what a crowd that is gone leaves to do, and for what one that is there does not do at once.
const REST: Duration = Duration::from_millis(500);
/// Processor time for a connection, many against few.
const GROWTH_MAX: f64 = 1.1;
/// The same against the bare server.
const BARE_MAX: f64 = 1.25;
/// Memory of an idle connection, in bytes.
const IDLE_MAX: f64 = 40_000.0;
const KEY: &str = "ed25519";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Clients at once
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=15_000))]
    connections: u64,
    /// Measure this program instead of building the release one; the page is not written then
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Append every single measurement to this file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A server under a storm.
struct Target<'a> {
    name: &'static str,
    credentials: PathBuf,
    port: u16,
    pid: u32,
    load: &'a Load,
    crowds: Vec<Seen>,
}

/// One crowd.
struct Seen {
    crowd: Crowd,
    server_cpu: f64,
    /// Growth of anonymous memory while all are connected and idle, in bytes.
    memory: i64,
}

/// Runs the storm and records it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => process::build_sealwright(true)?,
    };
    let load = Load::build()?;
    let count = arguments.connections;
    // All come with one name here, each from an address of its own; and the clients share their processors with the server.
    let room = count.saturating_add(500);
    let unauthenticated = DESCRIPTORS.saturating_sub(room).min(room);
    let limits = format!(
        "[limits]\nconnections = {room}\nconnections_per_client = {room}\n\
         unauthenticated = {unauthenticated}\nfirst_byte_ms = 60000\nhandshake_ms = 60000"
    );
    let server = Server::start(&program, &[("[limits]", &limits)])?;
    server.import(KEY)?;
    let [front, _] = server.processes();
    let (echo_port, echo) = load.echo(&server.config())?;
    let target = |name, port, pid| Target {
        name,
        credentials: server.credentials(),
        port,
        pid,
        load: &load,
        crowds: Vec::new(),
    };
    let mut targets =
        [target("sealwright", server.port(), front), target("bare tonic", echo_port, echo.id())];
    for target in &mut targets {
        // The first of a process pay for its memory and its tables.
        target.storm(FEW)?;
        target.crowds.clear();
    }
    for _ in 0..FEW_TIMES {
        targets.iter_mut().try_for_each(|target| target.storm(FEW))?;
    }
    for _ in 0..MANY_TIMES {
        targets.iter_mut().try_for_each(|target| target.storm(count))?;
    }
    let records = Records { page: arguments.program.is_none(), json: arguments.json.as_deref() };
    match records.take(&section(&targets, count))? {
        0 => Ok(()),
        count => Err(Error::Findings { count, what: "figures fall short" }),
    }
}

impl Target<'_> {
    fn storm(&mut self, count: u64) -> Result<()> {
        let (cpu, memory) = (measure::cpu(self.pid), anonymous(self.pid));
        let (crowd, connected) = self.load.crowd(&self.credentials, self.port, KEY, count)?;
        let server_cpu = measure::cpu(self.pid) - cpu;
        sleep(REST);
        let memory = anonymous(self.pid).saturating_sub(memory);
        drop(connected);
        sleep(REST);
        self.crowds.push(Seen { crowd, server_cpu, memory });
        Ok(())
    }

    fn of(&self, count: u64) -> impl Iterator<Item = &Seen> {
        self.crowds.iter().filter(move |seen| seen.crowd.connections == count)
    }

    /// Processor time of the server for a connection, in microseconds.
    fn server_us(&self, count: u64) -> f64 {
        self.of(count).map(|seen| seen.server_cpu).sum::<f64>() / self.asked(count) * 1e6
    }

    fn client_us(&self, count: u64) -> f64 {
        self.of(count).map(|seen| seen.crowd.cpu_seconds).sum::<f64>() / self.asked(count) * 1e6
    }

    /// Memory for a connection, in bytes; of the first crowd of so many, before there is memory to be used again.
    fn memory(&self, count: u64) -> f64 {
        let first = self.of(count).next().map_or(0, |seen| seen.memory);
        float(u64::try_from(first).unwrap_or(0)) / float(count)
    }

    fn asked(&self, count: u64) -> f64 {
        float(self.of(count).map(|seen| seen.crowd.connections).sum())
    }

    fn errors(&self) -> u64 {
        self.crowds.iter().map(|seen| seen.crowd.errors).sum()
    }

    fn seconds(&self, count: u64) -> f64 {
        self.of(count).map(|seen| seen.crowd.seconds).fold(f64::INFINITY, f64::min)
    }
}

/// Anonymous memory of a process that is resident, in bytes.
fn anonymous(pid: u32) -> i64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

fn section(targets: &[Target<'_>; 2], count: u64) -> Section {
    let [ours, bare] = targets;
    let bars = [FEW, count].into_iter().flat_map(|count| {
        let bar = |target: &Target<'_>, of| {
            Bar::new(format!("{}, {count} at once", target.name), target.server_us(count), of)
        };
        [bar(ours, Of::Ours), bar(bare, Of::Other)]
    });
    let raw = targets.iter().flat_map(|target| target.crowds.iter().map(|seen| raw(target.name, seen)));
    Section {
        name: "storm",
        text: format!(
            "{count} clients in one process, each with a connection of its own and a full TLS 1.3 handshake with certificates on both\n\
             sides, all at once, one DescribeKey each; {MANY_TIMES} times, and {FEW_TIMES} times with {FEW} clients. Beside it the same against a\n\
             tonic server with the same TLS that answers from memory. Load average {}. On {}.",
            page::load(),
            page::machine(Path::new("/tmp"))
        ),
        columns: vec!["What", ours.name, bare.name],
        rows: rows(targets, count),
        plot: Some(Plot {
            title: "Processor time of the server for a fresh connection".to_owned(),
            unit: "us",
            bars: bars.collect(),
        }),
        figures: figures(targets, count),
        raw: raw.collect(),
    }
}

fn rows([ours, bare]: &[Target<'_>; 2], count: u64) -> Vec<Vec<String>> {
    let row =
        |name: &str, value: &dyn Fn(&Target<'_>) -> String| vec![name.to_owned(), value(ours), value(bare)];
    let us = |value: f64| format!("{} us", short(value));
    let server = |count| format!("server for a connection, {count} at once, processor time");
    let client = format!("client for a connection, {count} at once, processor time");
    let until = format!("until all {count} are answered, wall clock, the better of {MANY_TIMES}");
    vec![
        row("errors", &|it| it.errors().to_string()),
        row(&server(FEW), &|it| us(it.server_us(FEW))),
        row(&server(count), &|it| us(it.server_us(count))),
        row(&client, &|it| us(it.client_us(count))),
        row(&until, &|it| format!("{} s", short(it.seconds(count)))),
        row("memory for an idle connection (RssAnon)", &|it| format!("{} KB", short(it.memory(count) / 1e3))),
    ]
}

fn figures([ours, bare]: &[Target<'_>; 2], count: u64) -> Vec<Figure> {
    let growth = ours.server_us(count) / ours.server_us(FEW);
    let beside = ours.server_us(count) / bare.server_us(count);
    let figure = |what: &str, measured: String, wanted: String, is_met: bool| Figure {
        what: what.to_owned(),
        measured,
        wanted,
        is_met,
    };
    let most = |most: f64| format!("{most} at most");
    let kb = |bytes: f64| format!("{} KB", short(bytes / 1e3));
    let (few, many) = ("processor time for a connection, many against few", format!("{growth:.2}"));
    vec![
        figure("errors", ours.errors().to_string(), "0".to_owned(), ours.errors() == 0),
        figure(few, many, most(GROWTH_MAX), growth <= GROWTH_MAX),
        figure(
            "processor time for a connection, against bare tonic",
            format!("{beside:.2}"),
            most(BARE_MAX),
            beside <= BARE_MAX,
        ),
        figure(
            "memory for an idle connection",
            kb(ours.memory(count)),
            format!("{} at most", kb(IDLE_MAX)),
            ours.memory(count) <= IDLE_MAX,
        ),
    ]
}

fn raw(server: &str, seen: &Seen) -> serde_json::Value {
    json!({
        "server": server,
        "connections": seen.crowd.connections,
        "errors": seen.crowd.errors,
        "seconds": seen.crowd.seconds,
        "client_cpu": seen.crowd.cpu_seconds,
        "server_cpu": seen.server_cpu,
        "memory": seen.memory,
    })
}
