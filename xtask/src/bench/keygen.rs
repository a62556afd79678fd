//! A farm that asks for a thousand keys at once, as Copr does: beside the bare making of keys by the engine, and what a
//! person who signs meanwhile notices of it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Bench;
use super::inputs::float;
use super::load::{Load, Shape, Signed};
use super::measure::median;
use super::page::{self, Figure, Section};
use super::peers::{Bare, Operations};
use super::plot::{Bar, Of, Plot, short};
use super::server::{Server, free_port};
use crate::Result;
use crate::error::Error;

/// Keys of one round.
const KEYS: u64 = 1_000;
/// Runs of each; in turns.
const ROUNDS: u64 = 2;
/// Requests that wait for an answer at the same time.
const IN_FLIGHT: usize = 64;
/// Wall clock of the server to that of the bare operations on all cores.
const TIMES_MAX: f64 = 1.3;
/// One request for a key, until it is tried once more.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Keys in the background of a person who signs.
const KEYS_BESIDE: u64 = 300;
/// The slowest of a hundred beside the farm, to the median at idle.
const LONE_TIMES_MAX: f64 = 5.0;
/// Requests of one person, one after the other.
const LONE: Shape = Shape { groups: 200, ..Shape::LONE };

/// One round.
struct Round {
    seconds: f64,
    server_cpu: f64,
    bare: Operations,
}

impl Round {
    fn times(&self) -> f64 {
        self.seconds / self.bare.seconds
    }
}

/// Measures.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let (load, bare) = (Load::build()?, Bare::build()?);
    let port = free_port()?;
    let filter = format!(
        "filter = \"info\"\n[copr_keygen]\naddress = [\"127.0.0.1:{port}\"]\nallow = [{{ from = \"127.0.0.1\", client = \"admin\" }}]"
    );
    let server = Server::start(&bench.program, &[("filter", &filter)])?;
    server.import(LONE.key)?;
    farm(port, "warm", 8)?;
    let mut rounds = Vec::new();
    for number in 0..ROUNDS {
        let bare = bare.run("rsa2048-keys", bench.cores, KEYS)?;
        let cpu = server.cpu();
        let seconds = farm(port, &format!("round-{number}"), KEYS)?;
        rounds.push(Round { seconds, server_cpu: server.cpu() - cpu, bare });
    }
    load.sign(&server, Shape { groups: 20, ..LONE })?;
    let idle = load.sign(&server, LONE)?;
    let beside = thread::scope(|scope| {
        let farm = scope.spawn(|| farm(port, "beside", KEYS_BESIDE));
        // Until it has all threads at work.
        thread::sleep(Duration::from_millis(500));
        let beside = load.sign(&server, LONE);
        farm.join().map_err(|_| Error::unexpected("the farm has ended"))??;
        beside
    })?;
    Ok(section(bench, &rounds, &idle, &beside))
}

/// Has so many keys made; the wall clock of it, in seconds.
fn farm(port: u16, name: &str, keys: u64) -> Result<f64> {
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    thread::scope(|scope| {
        let work = || loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= keys {
                return Ok(());
            }
            gen_key(port, &format!("{name}#{number}@copr.example.org"))?;
        };
        let running: Vec<_> = (0..IN_FLIGHT).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| Error::unexpected("a thread of the farm has ended"))?
        })
    })?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Asks until it is made, as Copr's client does.
fn gen_key(port: u16, email: &str) -> Result<()> {
    let body = json!({ "name_real": "farm", "name_email": email, "key_length": 2048 }).to_string();
    let request = format!(
        "POST /gen_key HTTP/1.1\r\nHost: k\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.write_all(request.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    for _ in 0..8 {
        let text = answer().map_err(Error::file(Path::new("127.0.0.1")))?;
        match text.split(' ').nth(1) {
            Some("201" | "200") => return Ok(()),
            Some("503") => (),
            _ => return Err(Error::unexpected(format!("asked for a key, the server says {text}"))),
        }
    }
    Err(Error::unexpected("a key was not made in minutes"))
}

fn section(bench: &Bench, rounds: &[Round], idle: &Signed, beside: &Signed) -> Section {
    let of = |take: &dyn Fn(&Round) -> f64| median(&rounds.iter().map(take).collect::<Vec<_>>());
    let times = of(&Round::times);
    let lone_times = float(beside.p99_us) / float(idle.p50_us.max(1));
    let row = |what: &str, value: String| vec![what.to_owned(), value];
    let ms = |us: u64| format!("{} ms", short(float(us) / 1e3));
    let of_one = |seconds: f64| format!("{} ms", short(seconds / float(KEYS) * 1e3));
    Section {
        name: "keygen",
        text: format!(
            "{KEYS} RSA-2048 keys by copr-keygen's HTTP API, {IN_FLIGHT} requests in flight: made, certified, sealed, stored durably. {ROUNDS} rounds, each\n\
             with as many keys made by aws-lc-rs alone on all {} cores; medians. How long one key takes is chance: two rounds of the bare\n\
             operation differ by some percent. Then one interactive request at a time (RSA-4096), {} of them, at idle and while {KEYS_BESIDE} keys\n\
             are made. Load average {}. On {}.",
            bench.cores,
            LONE.groups,
            page::load(),
            page::machine(Path::new("/tmp"))
        ),
        columns: vec!["What", "Value"],
        rows: vec![
            row("bare making of a key, wall clock, all cores", of_one(of(&|round| round.bare.seconds))),
            row("a key of the server, wall clock, all cores", of_one(of(&|round| round.seconds))),
            row("bare making of a key, processor time", of_one(of(&|round| round.bare.cpu))),
            row(
                "a key of the server, processor time of front and signer",
                of_one(of(&|round| round.server_cpu)),
            ),
            row("a lone signature at idle: p50, p99", format!("{}, {}", ms(idle.p50_us), ms(idle.p99_us))),
            row(
                "the same while keys are made: p50, p99",
                format!("{}, {}", ms(beside.p50_us), ms(beside.p99_us)),
            ),
        ],
        plot: Some(Plot {
            title: "1,000 RSA-2048 keys".to_owned(),
            unit: "s",
            bars: vec![
                Bar::new("bare aws-lc-rs", of(&|round| round.bare.seconds), Of::Other),
                Bar::new("server", of(&|round| round.seconds), Of::Ours),
            ],
        }),
        figures: vec![
            Figure {
                what: "wall clock of 1,000 keys to that of the bare operations on all cores".to_owned(),
                measured: short(times),
                wanted: format!("{TIMES_MAX} at most"),
                is_met: times <= TIMES_MAX,
            },
            Figure {
                what: "p99 of a lone signature while keys are made to p50 at idle".to_owned(),
                measured: short(lone_times),
                wanted: format!("{LONE_TIMES_MAX} at most"),
                is_met: lone_times <= LONE_TIMES_MAX,
            },
        ],
        raw: raw(rounds, idle, beside),
    }
}

/// Every single measurement.
fn raw(rounds: &[Round], idle: &Signed, beside: &Signed) -> Vec<serde_json::Value> {
    let of_rounds = rounds.iter().map(|round| {
        json!({
            "keys": KEYS,
            "seconds": round.seconds,
            "server_cpu": round.server_cpu,
            "bare_seconds": round.bare.seconds,
            "bare_cpu": round.bare.cpu,
        })
    });
    let of_lone = [("idle", idle), ("beside", beside)]
        .map(|(state, signed)| json!({ "state": state, "p50_us": signed.p50_us, "p99_us": signed.p99_us }));
    of_rounds.chain(of_lone).collect()
}
