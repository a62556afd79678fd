//! What Copr's backend does with a build: `sign -u USER -p`, then one `sign` process for each package, eight at once. Our
//! command line and server, beside obs-sign's own where one is named, and obs-sign's client against our server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::Bench;
use super::inputs::{Kind, MIXED, Set, float};
use super::measure::{Cost, cpu_with_children, median, time};
use super::page::{self, Figure, Section};
use super::peers::{fresh_folder, rpm_database};
use super::plot::{Bar, Of, Plot, short};
use super::server::{self, Server, free_port};
use crate::error::Error;
use crate::{Result, process};

const OURS: &str = "our sign, our server";
const THEIR_CLIENT: &str = "obs-sign's client, our server";
const THEIRS: &str = "obs-sign's client and server";

/// The key, as Copr names keys.
const USER: &str = "bench#rsa2048@copr.example.org";
/// Processes at once.
const PROCESSES: &str = "8";
/// Runs of ours, in turns.
const ROUNDS: usize = 3;
/// Runs with the peer's server, which take long.
const SLOW_ROUNDS: usize = 1;
/// Ours signs at least so many times as many packages a second as the peer's client and server.
const TIMES_FASTER: f64 = 10.0;
/// The peer's client gets from our server at least so many times what it gets from its own.
const TIMES_FASTER_WITH_THEIR_CLIENT: f64 = 3.0;
/// Our server takes at most this part of the processor time of theirs.
const SERVER_CPU: f64 = 0.1;

/// obs-sign as whoever measures has set it up.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Peer {
    /// The sign.conf of the program of --obs-sign: its server has a key of 2048 bits (RSA) for the user that it names
    #[arg(long, value_name = "FILE", env = "SEALWRIGHT_BENCH_OBS_CONFIG", requires = "obs_sign")]
    obs_config: Option<PathBuf>,
    /// Processes of that server: their processor time, with that of their children, is counted
    #[arg(long, value_name = "PID", value_delimiter = ',', env = "SEALWRIGHT_BENCH_OBS_SERVER")]
    obs_server: Vec<u32>,
}

/// A client and a server.
struct Way<'a> {
    name: &'static str,
    command: Command,
    rounds: usize,
    /// Processes of the server.
    server: Vec<u32>,
    set: &'a Set,
    runs: Vec<(Cost, f64)>,
}

impl Way<'_> {
    fn of(&self, take: impl Fn(&(Cost, f64)) -> f64) -> f64 {
        median(&self.runs.iter().map(take).collect::<Vec<_>>())
    }

    fn packages_a_second(&self) -> f64 {
        packages() / self.of(|(cost, _)| cost.seconds)
    }

    fn server_cpu(&self) -> f64 {
        self.of(|(_, server)| *server)
    }

    fn run(&mut self) -> Result<()> {
        self.set.restore()?;
        self.set.warm()?;
        let server = |pids: &[u32]| pids.iter().copied().map(cpu_with_children).sum::<f64>();
        let before = server(&self.server);
        let cost = time(&mut self.command)?;
        self.runs.push((cost, server(&self.server) - before));
        Ok(())
    }
}

/// Signs the set in each way, in turns, and compares.
pub(super) fn run(bench: &Bench) -> Result<Section> {
    let place = bench.inputs()?;
    let set = Set::below(&place, Kind::Mixed)?;
    let folder = bench.folder("copr")?;
    fresh_folder(&folder)?;
    let keys = process::root().join("fixtures/obs/keys");
    let database = rpm_database(&folder, &keys.join("rsa2048.pub.asc"))?;
    let port = free_port()?;
    let server = server(bench, port)?;
    let secret = keys.join("rsa2048.sec.asc");
    let import = ["key", "import", USER, "--obs-digest", "--obs-digest-on-primary"];
    process::output(server.client(&import).arg(secret))?;
    let mut ways = ways(bench, &server, &set, &folder, port)?;
    for round in 0..ROUNDS {
        for way in ways.iter_mut().filter(|way| round < way.rounds) {
            way.run()?;
            let good = set.signed(&database)?;
            if good != set.len() {
                let of = set.len();
                return Err(Error::unexpected(format!("{}: rpm finds {good} of {of} good", way.name)));
            }
        }
    }
    Ok(section(&place, &ways))
}

/// Ours, with the protocol of obs-sign on this port for its client.
fn server(bench: &Bench, port: u16) -> Result<Server> {
    let obs = format!(
        "[obs]\nlisten = [\"127.0.0.1:{port}\"]\nallow = [{{ from = \"127.0.0.1\", client = \"admin\" }}]\n\n[limits]"
    );
    let clients = [("administrator = true", "administrator = true\nobs = [\"sign\"]")];
    Server::start_with(server::folder()?, &bench.program, &[("[limits]", &obs)], &clients)
}

fn ways<'a>(bench: &Bench, server: &Server, set: &'a Set, folder: &Path, port: u16) -> Result<Vec<Way<'a>>> {
    let way = |name, command, rounds, server: &[u32]| Way {
        name,
        command,
        rounds,
        server: server.to_vec(),
        set,
        runs: Vec::new(),
    };
    // By the name by which Copr calls it.
    let sign = folder.join("sign");
    std::os::unix::fs::symlink(server.program(), &sign).map_err(Error::file(&sign))?;
    let ours = calls(server.run(Path::new("sh")), &sign, None, USER, set);
    let mut ways = vec![way(OURS, ours, ROUNDS, &server.processes())];
    let (Some(program), Some(config)) = (&bench.obs_sign, &bench.peer.obs_config) else { return Ok(ways) };
    let own = folder.join("sign.conf");
    let text = format!("server: 127.0.0.1\nport: {port}\nuser: {USER}\nuse-unprivileged-ports: 1\n");
    fs::write(&own, text).map_err(Error::file(&own))?;
    let calls_with = |config: &Path, user: &str| {
        let mut command = calls(Command::new("sh"), program, Some(config), user, set);
        command.env_remove("SIGN_CONF");
        command
    };
    ways.push(way(THEIR_CLIENT, calls_with(&own, USER), ROUNDS, &server.processes()));
    ways.push(way(THEIRS, calls_with(config, &user(config)?), SLOW_ROUNDS, &bench.peer.obs_server));
    Ok(ways)
}

/// Copr's calls: the public key once, then the packages.
fn calls(mut shell: Command, sign: &Path, config: Option<&Path>, user: &str, set: &Set) -> Command {
    let script = format!(
        "sign=$1 user=$2 config=$3; shift 3; \"$sign\" ${{config:+--config \"$config\"}} -u \"$user\" -p > /dev/null && \
         printf '%s\\0' \"$@\" | xargs -0 -n 1 -P {PROCESSES} \"$sign\" ${{config:+--config \"$config\"}} -4 -h sha256 -u \"$user\" -r"
    );
    let config = config.unwrap_or(Path::new(""));
    shell.args(["-c", &script, "sh"]).arg(sign).arg(user).arg(config).args(set.paths());
    shell
}

/// `user:` of a sign.conf.
fn user(config: &Path) -> Result<String> {
    let text = fs::read_to_string(config).map_err(Error::file(config))?;
    let user = text.lines().find_map(|line| line.strip_prefix("user:")).map(|name| name.trim().to_owned());
    user.ok_or_else(|| Error::unexpected(format!("{} has no line user:", config.display())))
}

fn section(place: &Path, ways: &[Way<'_>]) -> Section {
    let rows = ways.iter().map(|way| {
        vec![
            way.name.to_owned(),
            format!("{:.2} s", way.of(|(cost, _)| cost.seconds)),
            short(way.packages_a_second()),
            format!("{:.2} ms", way.of(|(cost, _)| cost.cpu) / packages() * 1e3),
            if way.server.is_empty() {
                "-".to_owned()
            } else {
                format!("{:.2} ms", way.server_cpu() / packages() * 1e3)
            },
        ]
    });
    Section {
        name: "copr",
        text: format!(
            "Copr's flow: `sign -u USER -p`, then one process `sign -4 -h sha256 -u USER -r FILE` for each of {MIXED} packages of\n\
             20 KB to 20 MB, {PROCESSES} at once, RSA-2048, on {}. Medians of {ROUNDS} runs ({SLOW_ROUNDS} with the peer's server).\n\
             Our `sign` asks over gRPC with midstates; obs-sign's asks our server over its own protocol. After each run rpm\n\
             finds every package good. Processor time is for one package; that of a client is of xargs and the shell too.\n\
             Load when this was written: {}.",
            page::machine(place),
            page::load(),
        ),
        columns: vec!["Client and server", "Time", "Packages a second", "Client CPU", "Server CPU"],
        rows: rows.collect(),
        plot: Some(Plot {
            title: "One sign process for each package, 8 at once".to_owned(),
            unit: "packages a second",
            bars: ways
                .iter()
                .map(|way| Bar::new(way.name, way.packages_a_second(), if way.name == THEIRS { Of::Other } else { Of::Ours }))
                .collect(),
        }),
        figures: figures(ways),
        raw: ways
            .iter()
            .flat_map(|way| way.runs.iter().map(move |(cost, server)| (way.name, cost, server)))
            .map(|(name, cost, server)| {
                json!({ "program": name, "seconds": cost.seconds, "client_cpu_s": cost.cpu, "server_cpu_s": server, "packages": MIXED })
            })
            .collect(),
    }
}

/// Nothing is compared where no peer was named.
fn figures(ways: &[Way<'_>]) -> Vec<Figure> {
    let named = |name: &str| ways.iter().find(|way| way.name == name);
    let (Some(ours), Some(mixed), Some(theirs)) = (named(OURS), named(THEIR_CLIENT), named(THEIRS)) else {
        return Vec::new();
    };
    let faster = |way: &Way<'_>, wanted: f64| {
        let ratio = way.packages_a_second() / theirs.packages_a_second();
        Figure {
            what: format!("{} against {THEIRS}, packages a second", way.name),
            measured: format!("{} times", short(ratio)),
            wanted: format!("{wanted} times"),
            is_met: ratio >= wanted,
        }
    };
    let mut figures = vec![faster(ours, TIMES_FASTER), faster(mixed, TIMES_FASTER_WITH_THEIR_CLIENT)];
    if !theirs.server.is_empty() {
        let part = ours.server_cpu() / theirs.server_cpu();
        figures.push(Figure {
            what: format!("{OURS} against {THEIRS}, processor time of the server for a package"),
            measured: short(part),
            wanted: format!("{SERVER_CPU} at most"),
            is_met: part <= SERVER_CPU,
        });
    }
    figures
}

fn packages() -> f64 {
    float(MIXED)
}
