//! Measurements against public tools in the same run. Results go into docs/benchmarks.md with the command that
//! made them; a limit that is broken, or a figure that falls short, fails the run.
//!
//! A bench is a function from [`Bench`] to a [`page::Section`]. `inputs` makes packages, `server` starts the real server,
//! `peers` has the tools of others, `measure` and `trace` look at processes, `plot` and `page` write.

mod big;
mod copr;
mod disk;
mod engine;
mod faults;
mod inputs;
mod keygen;
mod large;
mod load;
mod lone;
mod measure;
mod memory;
mod mixed;
mod page;
mod payload;
mod peers;
mod plot;
mod priority;
mod scale;
mod server;
pub(crate) mod storm;
mod trace;

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use self::inputs::Set;
use self::page::{Records, Section};
use crate::error::Error;
use crate::{Result, process};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which bench
    #[arg(value_enum, default_value_t = Name::Big)]
    bench: Name,
    /// Measure this program instead of building the release one; the page is not written then
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Append every single measurement to this file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A program with the command line of obs-sign, set up by whoever names it, to be measured beside
    #[arg(long, value_name = "FILE", env = "SEALWRIGHT_BENCH_OBS_SIGN")]
    obs_sign: Option<PathBuf>,
    #[command(flatten)]
    peer: copr::Peer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    /// All of them, one after the other
    All,
    /// One package of 1.9 GB: bytes sent, payload bytes read, peak memory, time; beside rpmsign
    Big,
    /// 400 packages of 20 KB to 20 MB: time and processor time; beside rpmsign and the bare operation
    Mixed,
    /// One process of the command line `sign` for each of 400 packages, eight at once; beside obs-sign
    Copr,
    /// A package of 1.9 GB against one of 20 KB
    Large,
    /// Three packages of 1.9 GB over header and payload; beside openssl
    Payload,
    /// Peak memory of client and server
    Memory,
    /// The server with RSA-4096, single requests in flight; beside the bare operation
    Rsa,
    /// The server with Ed25519, groups of 64
    Ed25519,
    /// A lone interactive request beside a campaign
    Priority,
    /// Other keys, while the worker of a token is killed, crashes and stands still
    Faults,
    /// The server with 100,000 keys and 10 million log entries, against a new one
    Scale,
    /// A thousand RSA-2048 keys by copr-keygen's HTTP API; beside the bare making of keys
    Keygen,
    /// A lone request: syncs, timers; a thousand packages: syncs, locks
    Lone,
}

/// Measures.
type Run = fn(&Bench) -> Result<Section>;

/// All but `All`, in the order in which they run.
const BENCHES: &[(Name, Run)] = &[
    (Name::Mixed, mixed::run),
    (Name::Copr, copr::run),
    (Name::Large, large::run),
    (Name::Payload, payload::run),
    (Name::Memory, memory::run),
    (Name::Rsa, engine::rsa),
    (Name::Ed25519, engine::ed25519),
    (Name::Priority, priority::run),
    (Name::Faults, faults::run),
    (Name::Keygen, keygen::run),
    (Name::Lone, lone::run),
    (Name::Scale, scale::run),
    (Name::Big, big::run),
];

/// What every bench needs.
struct Bench {
    /// The release build, or another.
    program: PathBuf,
    obs_sign: Option<PathBuf>,
    peer: copr::Peer,
    cores: usize,
}

impl Bench {
    /// A folder below target/bench.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = process::root().join("target/bench").join(name);
        fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
        Ok(folder)
    }

    /// Where packages are.
    fn inputs(&self) -> Result<PathBuf> {
        self.folder("inputs")
    }
}

/// Runs one bench, or all, and records the rows.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => process::build_sealwright(true)?,
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let bench = Bench { program, obs_sign: arguments.obs_sign.clone(), peer: arguments.peer.clone(), cores };
    let _alone = process::alone(&bench.folder("")?, "bench")?;
    let records = Records { page: arguments.program.is_none(), json: arguments.json.as_deref() };
    let chosen = |name: &Name| arguments.bench == Name::All || arguments.bench == *name;
    let (mut failed, mut short) = (0_usize, 0_usize);
    for (name, run) in BENCHES.iter().filter(|(name, _)| chosen(name)) {
        match run(&bench).and_then(|section| records.take(&section)) {
            Ok(more) => short = short.saturating_add(more),
            Err(error) if arguments.bench == Name::All => {
                eprintln!("xtask: {name:?}: {error}");
                failed = failed.saturating_add(1);
            }
            Err(error) => return Err(error),
        }
    }
    match (failed, short) {
        (0, 0) => Ok(()),
        (0, count) => Err(Error::Findings { count, what: "figures fall short" }),
        (count, _) => Err(Error::Findings { count, what: "benches failed" }),
    }
}

/// Where the payload of a package starts: after lead, signature header (padded to 8) and main header.
fn payload_offset(package: &Path) -> Result<u64> {
    let mut file = fs::File::open(package).map_err(Error::file(package))?;
    let mut header_end = |start: u64| -> Result<u64> {
        let mut intro = [0_u8; 16];
        file.seek(SeekFrom::Start(start)).map_err(Error::file(package))?;
        file.read_exact(&mut intro).map_err(Error::file(package))?;
        let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h] = intro;
        let entries = u64::from(u32::from_be_bytes([a, b, c, d]));
        let data = u64::from(u32::from_be_bytes([e, f, g, h]));
        Ok(start.saturating_add(16).saturating_add(entries.saturating_mul(16)).saturating_add(data))
    };
    let signature_end = header_end(96)?;
    header_end(signature_end.next_multiple_of(8))
}

/// The same for the first packages of a set in which it is the same for all.
fn payload_offset_of_all(set: &Set, count: usize) -> Result<u64> {
    let offsets: Result<Vec<u64>> = set.paths().take(count).map(payload_offset).collect();
    let offsets = offsets?;
    match (offsets.iter().min(), offsets.iter().max()) {
        (Some(least), Some(most)) if least == most => Ok(*least),
        _ => Err(Error::unexpected("packages of one size have payloads at different places")),
    }
}
