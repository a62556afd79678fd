//! Measurements against public tools in the same run. Results go into docs/benchmarks.md with the command that
//! made them; a limit that is broken fails the run.

mod big;
mod measure;
mod page;
mod trace;

use std::path::PathBuf;

use crate::Result;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which bench
    #[arg(value_enum, default_value_t = Bench::Big)]
    bench: Bench,
    /// Measure this program instead of building the release one; nothing is recorded then
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Bench {
    /// One package of 1.9 GB: bytes sent, payload bytes read, peak memory, time; beside rpmsign
    Big,
}

/// Runs one bench and records its rows.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match arguments.bench {
        Bench::Big => big::run(arguments.program.as_deref()),
    }
}
