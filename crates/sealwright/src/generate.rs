//! Man pages and shell completions, made from the command tree itself. `cargo xtask generate` keeps the
//! committed ones fresh.

use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, ValueEnum as _};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::{Exit, Failure};

/// Where to write.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory for the man pages (sealwright.1, sealwright-sign.1, ...).
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
    /// Directory for the completions of every shell.
    #[arg(long, value_name = "DIR")]
    completions: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    if let Some(dir) = &args.man {
        std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(command(), dir))
            .map_err(|error| cannot_write(dir, &error))?;
    }
    if let Some(dir) = &args.completions {
        std::fs::create_dir_all(dir).map_err(|error| cannot_write(dir, &error))?;
        for shell in Shell::value_variants() {
            clap_complete::generate_to(*shell, &mut command(), "sealwright", dir)
                .map_err(|error| cannot_write(dir, &error))?;
        }
    }
    Ok(Exit::Done)
}

fn command() -> clap::Command {
    Cli::command()
}

fn cannot_write(dir: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(
        format!("cannot write in {}: {error}", dir.display()),
        "Choose a directory that is yours.",
    )
}
