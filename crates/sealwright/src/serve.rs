//! The service: `serve` opens sockets and starts two processes behind them, front and signer, and starts each again when
//! it has died. `docs/adr/0011-network-service.md` has the reasons.
//!
//! ```text
//! supervisor.rs --sockets, files as read (channel.rs)--> front.rs --connects--> the signer's socket --> signer
//!               <--notices of its state (notify.rs)---
//! ```
//!
//! Under a service manager front and signer can be units of their own, without a supervisor (packaging/systemd).

mod backoff;
mod channel;
mod complaint;
mod config;
mod files;
mod front;
mod heartbeat;
mod inherit;
mod listeners;
mod notify;
mod process;
mod sandbox;
mod signals;
mod supervisor;
mod watchdog;

use std::path::PathBuf;

pub(crate) use heartbeat::watcher;

use crate::config as environment;
use crate::failure::{Exit, Failure};
use crate::machine;
use crate::terminal;

/// Folder of the store and directory of the signer, as `server.toml` says.
///
/// # Errors
/// The file cannot be read, or is wrong.
pub(crate) fn store_and_root(file: &std::path::Path) -> Result<(PathBuf, PathBuf), Failure> {
    let config = files::config(file)?;
    Ok((config.store, config.signer.root))
}

/// `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The server's configuration, as `sealwright init` makes it; default /etc/sealwright/server.toml for root, else
    /// server.toml in the directory sealwright/server of the user's configuration.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Reads everything that the configuration names, says what is wrong with it, and ends.
    #[arg(long)]
    check_config: bool,
}

/// The hidden `front`.
#[derive(Debug, clap::Args)]
pub(crate) struct FrontArgs {
    /// As for serve.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Standard input is the channel to the supervisor.
    #[arg(long)]
    supervised: bool,
    /// Ends with the process of this number, which started it.
    #[arg(long, value_name = "PID")]
    parent: Option<u32>,
}

impl ServeArgs {
    /// Whether it is a service: it writes a log. Else a person reads what it says.
    pub(crate) const fn is_service(&self) -> bool {
        !self.check_config
    }
}

/// The body of `serve`.
pub(crate) fn run(args: &ServeArgs) -> Result<Exit, Failure> {
    let inherited = inherit::Listeners::from_service_manager()?;
    let file = config_file(args.config.clone())?;
    if args.check_config {
        let loaded = files::Files::read(&file, |_| ())?.load()?;
        supervisor::check(&loaded.config)?;
        terminal::out(&format!("{}: right, with all files that it names", file.display()));
        return Ok(Exit::Done);
    }
    supervisor::run(&file, inherited)
}

/// The body of `front`.
pub(crate) fn front(args: &FrontArgs) -> Result<Exit, Failure> {
    if let Some(parent) = args.parent {
        machine::end_with(parent)?;
    }
    if args.supervised {
        return front::supervised();
    }
    let inherited = inherit::Listeners::from_service_manager()?;
    front::alone(&config_file(args.config.clone())?, inherited)
}

/// The log as `server.toml` wants it, unless the environment says how.
fn log_as_configured(config: &config::Config) {
    if environment::log_filter().is_none() {
        // Checked when it was parsed.
        let _ = crate::log::change(&config.log);
    }
}

fn config_file(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let file = match named {
        Some(file) => file,
        None => environment::server_directory()
            .map_err(|error| Failure::failed(error.to_string(), "Name it with --config."))?
            .join("server.toml"),
    };
    std::path::absolute(&file).map_err(|error| {
        Failure::failed(format!("{}: {error}", file.display()), "Name it with its whole path.")
    })
}
