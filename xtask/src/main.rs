//! Chores: everything that CI runs is a command here, so that it is the same on every machine.
//!
//! `cargo xtask ci` is the whole of CI. `cargo xtask tidy` checks what lints cannot see.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "talks to a developer's terminal")]

mod bench;
mod cases;
mod ci;
mod deny;
mod error;
mod fuzz;
mod generate;
mod install;
mod obs;
mod order;
mod process;
mod soak;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Error;

#[derive(Parser)]
#[command(about = "Chores and style checks of the Sealwright repository")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that CI runs: format, lints, tidy, tests, cases, documentation, generated files
    Ci {
        /// First install what the tests need: Debian packages (apt-get, as root or by sudo), and pysequoia below target
        #[arg(long)]
        install: bool,
    },
    /// Check edges between crates, file sizes, fixtures, links and other rules that lints cannot see
    Tidy,
    /// Write man pages and shell completions
    Generate {
        /// Write nothing; fail if a file differs
        #[arg(long)]
        check: bool,
    },
    /// Run the cases of fixtures/cases with the real program
    Cases {
        /// Use the release build
        #[arg(long)]
        release: bool,
        /// Only cases whose name contains one of these words
        names: Vec<String>,
    },
    /// Measure against public tools in the same run, and write docs/benchmarks.md
    Bench(bench::Arguments),
    /// Let thousands of clients connect at once, beside a bare server; part of docs/benchmarks.md
    Storm(bench::storm::Arguments),
    /// Send the captured connections of obs-sign again, and compare the replies
    Obs(obs::Arguments),
    /// Change product code step by step and see that the tests of the order of effects notice; long
    Order(order::Arguments),
    /// Kill signing runs, campaigns or a server at random moments and check every file; some minutes
    Soak {
        /// Kills for each way of writing and each file system; default 200. Of a server: of each process; default 20
        #[arg(long)]
        kills: Option<u32>,
        /// A server under load: its signer, front and supervisor are killed, and it is told to end five times as often;
        /// then in a crowd of idle connections
        #[arg(long)]
        serve: bool,
        /// Campaigns over 20,000 packages, each killed ten times; below 1 GB of disk
        #[arg(long, conflicts_with_all = ["serve", "kills"])]
        campaign: bool,
    },
    /// Check licences, advisories and banned edges of dependencies with cargo-deny
    Deny {
        /// Install cargo-deny first if it is missing
        #[arg(long)]
        install: bool,
    },
    /// Look for inputs that break a rule, with cargo-fuzz: docs/howto/fuzz.md
    Fuzz(fuzz::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().chore {
        Chore::Ci { install } => ci::run(install),
        Chore::Tidy => tidy::run(),
        Chore::Generate { check } => generate::run(check),
        Chore::Cases { release, names } => cases::run(release, &names),
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::Storm(arguments) => bench::storm::run(&arguments),
        Chore::Obs(arguments) => obs::run(&arguments),
        Chore::Order(arguments) => order::run(&arguments),
        Chore::Soak { campaign: true, .. } => soak::campaign(),
        Chore::Soak { kills, serve: false, campaign: false } => soak::run(kills.unwrap_or(200)),
        Chore::Soak { kills, serve: true, campaign: false } => {
            soak::serve(kills.unwrap_or(20)).and_then(|()| soak::crowd())
        }
        Chore::Deny { install } => deny::run(install),
        Chore::Fuzz(arguments) => fuzz::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                eprintln!("  because {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}

/// Shorthand of this crate.
type Result<T> = std::result::Result<T, Error>;
