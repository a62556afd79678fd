//! The program: composes client, server and signer, and decides the exit status in one place.

mod cli;
mod config;
mod demo;
mod duration;
mod embedded;
mod failure;
mod generate;
mod init;
mod log;
mod machine;
mod mistake;
mod output;
mod remote;
mod serve;
mod terminal;
mod users;

use std::io::{ErrorKind, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser as _};

use crate::cli::{Cli, Command, obs_sign};
use crate::failure::{Exit, Failure};
use crate::log::Process;

/// For Rust's code; SQLite and aws-lc keep libc's. docs/adr/0024.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long threads that nobody waits for may take to end after the last result.
const END_MS_MAX: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    if let Some(words) = obs_sign::words_of(std::env::args_os()) {
        log::start(Process::Command, config::log_filter().as_deref(), config::log_format().as_deref());
        return all_written(obs_sign::main(words)).into();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return help_or_usage(said),
    };
    let json = cli.json;
    let is_service = is_service(&cli.command);
    start_log(&cli.command);
    let outcome = match &cli.command {
        // The key-holding process runs no async runtime.
        Command::Signer(args) => embedded::signer(args),
        Command::TokenKeeper => embedded::token_keeper(),
        Command::TokenWorker { .. } => embedded::token_worker(),
        // These take descriptors and shut themselves in before they have a thread.
        Command::Serve(args) => serve::run(args),
        Command::Front(args) => serve::front(args),
        Command::Demo(_)
        | Command::Key(_)
        | Command::Import(_)
        | Command::ObsShadow(_)
        | Command::ObsSign(_)
        | Command::Sign(_)
        | Command::Resign(_)
        | Command::Verify(_)
        | Command::Strip(_)
        | Command::Inspect(_)
        | Command::Init(_)
        | Command::Generate(_) => machine::check().and_then(|()| with_runtime(cli)),
    };
    let exit = match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            if json {
                terminal::json(&failure.view());
            }
            if is_service && log::is_json() {
                tracing::error!(reason = failure.what, advice = failure.advice, "ends with a failure");
            } else {
                say(&failure);
            }
            failure.exit
        }
    };
    all_written(exit).into()
}

/// What clap has to say: help and version are results, the rest is wrong usage.
fn help_or_usage(said: clap::Error) -> ExitCode {
    let said = without_hidden(said);
    if said.use_stderr() {
        // Whoever closed standard error wants to hear nothing.
        let _ = said.print();
        return Exit::Usage.into();
    }
    if std::io::stdout().is_terminal() {
        // In colours.
        let _ = said.print();
    } else {
        terminal::out_bytes(said.render().to_string().as_bytes());
    }
    all_written(Exit::Done).into()
}

/// Commands that only the program itself starts are no advice for a slip of the finger.
fn without_hidden(mut said: clap::Error) -> clap::Error {
    let Some(ContextValue::Strings(mut names)) = said.remove(ContextKind::SuggestedSubcommand) else {
        return said;
    };
    let cli = Cli::command();
    names.retain(|name| {
        !cli.get_subcommands().any(|command| command.is_hide_set() && command.get_name() == name)
    });
    if !names.is_empty() {
        said.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
    }
    said
}

/// Results that could not be written are no success, whatever was done.
fn all_written(exit: Exit) -> Exit {
    let Some(error) = terminal::fault() else { return exit };
    terminal::err(&format!("sealwright: cannot write the results: {error}"));
    if error.kind() != ErrorKind::BrokenPipe {
        terminal::err("            Check where standard output goes. What was done stays done.");
    }
    if exit == Exit::Done { Exit::Failed } else { exit }
}

fn say(failure: &Failure) {
    terminal::err(&format!("sealwright: {}", terminal::safe(&failure.what)));
    if !failure.advice.is_empty() {
        terminal::err(&format!("            {}", terminal::safe(&failure.advice)));
    }
}

/// Whether standard error is a log, not what a person reads.
const fn is_service(command: &Command) -> bool {
    match command {
        Command::Serve(args) => args.is_service(),
        Command::Front(_) | Command::Signer(_) | Command::TokenKeeper | Command::TokenWorker { .. } => true,
        Command::Demo(_)
        | Command::Key(_)
        | Command::Import(_)
        | Command::ObsShadow(_)
        | Command::ObsSign(_)
        | Command::Sign(_)
        | Command::Resign(_)
        | Command::Verify(_)
        | Command::Strip(_)
        | Command::Inspect(_)
        | Command::Init(_)
        | Command::Generate(_) => false,
    }
}

fn with_runtime(cli: Cli) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}"), "Raise the process limits."))?;
    let outcome = runtime.block_on(cli.run());
    // A thread that waits for standard input or hashes on after a stop would wait for ever.
    runtime.shutdown_timeout(END_MS_MAX);
    outcome
}

fn start_log(command: &Command) {
    let process = match command {
        Command::Signer(_) => Process::Signer,
        Command::TokenKeeper => Process::TokenKeeper,
        Command::TokenWorker { .. } => Process::TokenWorker,
        Command::Serve(_) => Process::Supervisor,
        Command::Front(_) => Process::Front,
        Command::Demo(_)
        | Command::Key(_)
        | Command::Import(_)
        | Command::ObsShadow(_)
        | Command::ObsSign(_)
        | Command::Sign(_)
        | Command::Resign(_)
        | Command::Verify(_)
        | Command::Strip(_)
        | Command::Inspect(_)
        | Command::Init(_)
        | Command::Generate(_) => Process::Command,
    };
    log::start(process, config::log_filter().as_deref(), config::log_format().as_deref());
}
