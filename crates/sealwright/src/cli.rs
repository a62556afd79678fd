//! The command line: the tree of commands, and which file carries each out.

mod help;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod keys;
mod obs_shadow;
pub(crate) mod obs_sign;
mod resign;
pub(crate) mod sign;
pub(crate) mod strip;
pub(crate) mod verify;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use sealwright_client::batch::Stop;
use sealwright_client::source::{self, Directories, Listing};

use crate::demo;
use crate::embedded;
use crate::failure::{Exit, Failure};
use crate::generate;
use crate::init;
use crate::serve;

/// Sign Linux packages and files: keys in one guarded place, files where they are.
///
/// With nothing set up, keys live in an embedded store under SEALWRIGHT_HOME (default: the XDG data
/// directory), sealed under a root key that only the signer process reads.
#[derive(Debug, Parser)]
#[command(name = "sealwright", version, propagate_version = true, max_term_width = 100, after_long_help = help::TOP)]
pub(crate) struct Cli {
    /// One JSON object for each file or key on standard output.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Sign real packages in a fresh folder: shows the main job from start to end.
    Demo(demo::Args),
    /// Create, list, show, export, import and change keys.
    Key(keys::Args),
    /// Take over the keys of a Copr keygen host or of obs-sign's signd.
    #[command(after_long_help = help::IMPORT)]
    Import(import::Args),
    /// Sign files.
    #[command(after_long_help = help::SIGN)]
    Sign(sign::Args),
    /// Sign every package of whole trees with a new key: can be stopped, goes on, and goes back.
    #[command(after_long_help = help::RESIGN)]
    Resign(resign::Args),
    /// Check signatures and digests of files.
    #[command(after_long_help = help::VERIFY)]
    Verify(verify::Args),
    /// Remove signatures.
    #[command(after_long_help = help::STRIP)]
    Strip(strip::Args),
    /// Show what is signed, by whom, and how; nothing is checked.
    Inspect(inspect::Args),
    /// Stand before a signd of obs-sign: clients get its answers, a server of ours is asked the same, and what differs is said.
    #[command(after_long_help = help::OBS_SHADOW)]
    ObsShadow(obs_shadow::Args),
    /// Sign with the command line of obs-sign's sign, as does this program when it is called by that name.
    #[command(disable_help_flag = true, after_long_help = obs_sign::HELP)]
    ObsSign(obs_sign::Args),
    /// Set up a server: authority, certificates, clients, root key, configuration.
    #[command(after_long_help = help::INIT)]
    Init(init::Args),
    /// Run a server: the process with the network and the process with the keys, started again when they end.
    Serve(serve::ServeArgs),
    /// The process with the network; started by serve, or by a service manager.
    #[command(hide = true)]
    Front(serve::FrontArgs),
    /// The process that holds the keys; started by the others, with its socket as standard input.
    #[command(hide = true)]
    Signer(embedded::SignerArgs),
    /// Keeps the processes running that work with tokens; started by the signer, with its socket as standard input.
    #[command(hide = true)]
    TokenKeeper,
    /// The process that loads the module of a token; started by the keeper, with its socket as standard input.
    #[command(hide = true)]
    TokenWorker {
        /// Name of the token, for whoever looks at the list of processes.
        name: String,
    },
    /// Write man pages and shell completions.
    #[command(hide = true)]
    Generate(generate::Args),
}

/// What every command may need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// `--json`.
    pub(crate) json: bool,
}

/// Lists files; a stop ends the walk through a large or hanging tree.
async fn list(paths: Vec<PathBuf>, recursive: bool, stop: &Stop) -> Result<Listing, Failure> {
    let directories = if recursive { Directories::Walk } else { Directories::Refuse };
    let walk = tokio::task::spawn_blocking(move || source::list(&paths, directories));
    tokio::select! {
        biased;
        () = stop.asked() => Err(Failure::stopped()),
        listing = walk => listing.map_err(|error| {
            Failure::failed(format!("cannot list the files: {error}"), "Please report it.")
        }),
    }
}

impl Cli {
    /// Carries the command out.
    pub(crate) async fn run(self) -> Result<Exit, Failure> {
        let context = Context { json: self.json };
        match self.command {
            Command::Demo(args) => demo::run(args, context).await,
            Command::Key(args) => keys::run(args, context).await,
            Command::Import(args) => import::run(args, context).await,
            Command::Sign(args) => sign::run(args, context).await,
            Command::Resign(args) => resign::run(args, context).await,
            Command::Verify(args) => verify::run(args, context).await,
            Command::Strip(args) => strip::run(args, context).await,
            Command::Inspect(args) => inspect::run(args, context).await,
            Command::ObsShadow(args) => obs_shadow::run(args, context).await,
            Command::ObsSign(args) => Err(obs_sign::came_late(&args)),
            Command::Init(args) => init::run(args, context),
            Command::Serve(args) => serve::run(&args),
            Command::Front(args) => serve::front(&args),
            Command::Signer(args) => embedded::signer(&args),
            Command::TokenKeeper => embedded::token_keeper(),
            Command::TokenWorker { .. } => embedded::token_worker(),
            Command::Generate(args) => generate::run(&args),
        }
    }
}
