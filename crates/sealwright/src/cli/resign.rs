//! `sealwright resign`.

mod ending;
mod key_map;
mod printer;
mod progress;
mod undo;

use std::path::PathBuf;

use sealwright_client::apply::Policy;
use sealwright_client::batch::{self, Stop};
use sealwright_client::campaign::journal::{Past, Place};
use sealwright_client::campaign::keys::OldKey;
use sealwright_client::campaign::second::Second;
use sealwright_client::campaign::tree::{Tree, open_all};
use sealwright_client::campaign::{Campaign, Wish};
use sealwright_client::connection::{Connection, Priority};
use sealwright_client::error::Error;
use sealwright_client::sign::{Effect, Request, Signer};
use sealwright_formats::options::{IfSigned, PayloadCheck, Repeat, SignOptions};

use crate::cli::Context;
use crate::cli::keys::no_store;
use crate::cli::resign::key_map::Rules;
use crate::cli::resign::printer::Printer;
use crate::cli::sign::format_options::FormatArgs;
use crate::cli::sign::writing::{self, WritingArgs};
use crate::cli::sign::{HashArg, refused, trace_id};
use crate::config::{NO_HOME_ADVICE, NoHome};
use crate::failure::{Exit, Failure};
use crate::output::command_line;
use crate::remote::{Opened, ServerArgs};
use crate::terminal;

/// `sealwright resign`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Key to sign with: name, or fingerprint.
    #[arg(long, value_name = "NAME", required_unless_present_any = ["key_map", "undo"])]
    key: Option<String>,
    /// Keys by directory: lines of DIRECTORY = KEY, relative to this file; the longest that a package is beneath
    /// counts.
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    key_map: Option<PathBuf>,
    /// Only packages that this key has signed: name, fingerprint, key id, or file of a certificate. All others stay as
    /// they are, and are counted.
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// The journal by which a campaign goes on, and goes back; default: in the state directory, found by the same
    /// trees and keys.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Files in hand at once.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Signatures that are asked for in a second, at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Read headers and say what would be done; ask for nothing, write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Build a second tree in this directory, with links to unchanged files, and leave the first as it is.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Write the paths of all changed files, relative to their tree, into this file: to purge caches.
    #[arg(long, value_name = "FILE")]
    purge_list: Option<PathBuf>,
    /// Put the old signatures back, from the journal.
    #[arg(long, requires = "journal", conflicts_with_all = ["key", "key_map", "from", "dry_run", "output", "purge_list", "dirs"])]
    undo: bool,
    /// Hash algorithm of the signatures.
    #[arg(long, value_enum, value_name = "HASH", default_value_t = HashArg::Sha256)]
    hash: HashArg,
    /// Read the payloads and compare them with their digests before headers are signed.
    #[arg(long)]
    check_payload: bool,
    /// Put a random salt into each signature, so that two of one second differ.
    #[arg(long)]
    salt: bool,
    #[command(flatten)]
    of_formats: FormatArgs,
    #[command(flatten)]
    writing: WritingArgs,
    #[command(flatten)]
    server: ServerArgs,
    /// Directories whose packages are signed; one inside another is taken with it.
    #[arg(required_unless_present = "undo", value_name = "DIR")]
    dirs: Vec<PathBuf>,
}

/// Carries out `resign`, over a server or the embedded default.
pub(crate) async fn run(args: Args, context: Context) -> Result<Exit, Failure> {
    let stop = Stop::on_signals()
        .map_err(|error| Failure::failed(format!("cannot catch signals: {error}"), "Try again."))?;
    if args.undo {
        return undo::run(args.journal.unwrap_or_default(), context, stop).await;
    }
    let trees = open_all(&args.dirs).map_err(|error| failed(&error))?;
    if args.output.is_some() && trees.len() != 1 {
        let advice = "Run it once for each tree, or name the directory above them.";
        return Err(Failure::usage("--output builds one tree, and several are named", advice));
    }
    let rules = Rules::of(&args, &trees)?;
    let way = args.server.choose()?;
    if let Some(places) = way.nothing_stored()? {
        return Err(no_store(places, rules.keys.first().map_or("", String::as_str)));
    }
    let state = way.state_directory();
    if let Some(state) = state.as_ref().filter(|_| !args.dry_run) {
        writing::recover(state);
    }
    let place = match (&args.journal, &state) {
        (Some(file), _) => Place::File(file.clone()),
        (None, Some(state)) => Place::StateDirectory(state.clone()),
        (None, None) => return Err(Failure::failed(NoHome.to_string(), NO_HOME_ADVICE)),
    };
    let request = request(&args, args.writing.policy(state.as_deref())?)?;
    let opened = tokio::select! {
        biased;
        () = stop.asked() => return Err(Failure::stopped()),
        opened = way.open() => opened?,
    };
    let asked = Asked { args: &args, context, stop: &stop, place };
    let outcome = asked.campaign(&opened, trees, rules, request).await;
    opened.close().await;
    outcome
}

/// What was asked for.
struct Asked<'a> {
    args: &'a Args,
    context: Context,
    stop: &'a Stop,
    place: Place,
}

impl Asked<'_> {
    async fn campaign(
        &self,
        opened: &Opened,
        trees: Vec<Tree>,
        rules: Rules,
        request: Request,
    ) -> Result<Exit, Failure> {
        let (args, connection) = (self.args, opened.connection());
        let wish = tokio::select! {
            biased;
            () = self.stop.asked() => return Err(Failure::stopped()),
            wish = self.wish(connection, trees, rules, request) => wish?,
        };
        let (campaign, past) = if args.dry_run {
            (Campaign::preview(wish), Past::None)
        } else {
            let begun = Campaign::begin(wish, &self.place, &choices(args), args.rate);
            let (campaign, past) = begun.map_err(|error| failed(&error))?;
            (Ok(campaign), past)
        };
        let campaign = campaign.map_err(|error| failed(&error))?;
        if let Some(journal) = campaign.journal() {
            opened.take_over(journal.open_requests()).await?;
        }
        let mut printer = Printer::new(self.context, args.dry_run, trace_id(connection));
        ending::say_past(&campaign, &past);
        printer.begin("looked at", None);
        let plan = campaign.plan(self.stop, &mut printer).await;
        printer.end();
        ending::say_plan(&plan);
        if args.dry_run || plan.is_stopped {
            printer.plan(&plan);
            if plan.is_stopped && !args.dry_run {
                terminal::err_whole(&format!("Go on: {}", command(args)));
            }
            let fine = plan.failed.files == 0 && !plan.is_stopped;
            return Ok(if fine { Exit::Done } else { Exit::Failed });
        }
        printer.begin("signed", Some(plan.sign));
        let summary = campaign.run(&plan, self.stop, &mut printer).await;
        printer.end();
        let summary = summary.map_err(|error| failed(&error))?;
        ending::Ending { campaign: &campaign, summary: &summary, args, printer: &printer }
            .say(self.stop)
            .await
    }

    async fn wish(
        &self,
        connection: &Connection,
        trees: Vec<Tree>,
        rules: Rules,
        request: Request,
    ) -> Result<Wish, Failure> {
        let args = self.args;
        let mut from = None;
        if let Some(old) = &args.from {
            from = Some(OldKey::find(connection, old).await.map_err(|error| named_by("--from", &error))?);
        }
        let second = match args.output.as_ref().filter(|_| !args.dry_run) {
            Some(output) => Some(Second::open(output, &trees).map_err(|error| failed(&error))?),
            None => None,
        };
        let mut signers = Vec::new();
        for (key, named) in rules.keys.iter().zip(&rules.named) {
            let output =
                second.as_ref().map(Second::directory).transpose().map_err(|error| failed(&error))?;
            let signer = Signer::new(connection.clone(), key, request.clone(), output).await;
            signers.push(signer.map_err(|error| named_by(named, &error))?);
        }
        let jobs = args.jobs.map_or_else(batch::default_jobs, usize::from);
        Ok(Wish { trees, signers, rules: rules.directories, from, second, jobs })
    }
}

/// Of several keys, the one that is meant; a connection that fails is not about a key.
fn named_by(option: &str, error: &Error) -> Failure {
    let mut failure = refused(error);
    if !error.nothing_was_attempted() {
        failure.what = format!("{option}: {}", failure.what);
    }
    failure
}

fn failed(error: &Error) -> Failure {
    Failure::failed(Failure::chain(error), error.advice())
}

fn request(args: &Args, policy: Policy) -> Result<Request, Failure> {
    let options = SignOptions {
        hash: args.hash.algorithm(),
        if_signed: IfSigned::Replace,
        payload: if args.check_payload { PayloadCheck::Always } else { PayloadCheck::WhenRead },
        repeat: Repeat::Skip,
        format: args.of_formats.options()?,
    };
    let effect = if args.dry_run { Effect::DryRun } else { Effect::Write };
    Ok(Request { options, format: None, salt: args.salt, effect, priority: Priority::Batch, policy })
}

/// What makes a campaign another one, beside trees and keys.
fn choices(args: &Args) -> Vec<String> {
    let mut choices = vec![format!("hash {:?}", args.hash)];
    let flags = [("check-payload", args.check_payload), ("salt", args.salt)];
    choices.extend(flags.iter().filter(|(_, set)| *set).map(|(name, _)| (*name).to_owned()));
    choices.extend(args.of_formats.given().iter().map(|(name, value)| format!("{name} {value}")));
    choices
}

/// The command that goes on with this campaign.
fn command(args: &Args) -> String {
    use clap::ValueEnum as _;
    let mut words: Vec<String> = vec!["sealwright".to_owned(), "resign".to_owned()];
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let hash = args.hash.to_possible_value().filter(|_| args.hash != HashArg::Sha256);
    let options = [
        ("--key", args.key.clone()),
        ("--key-map", path(&args.key_map)),
        ("--from", args.from.clone()),
        ("--journal", path(&args.journal)),
        ("--jobs", args.jobs.map(|jobs| jobs.to_string())),
        ("--rate", args.rate.map(|rate| rate.to_string())),
        ("--output", path(&args.output)),
        ("--purge-list", path(&args.purge_list)),
        ("--hash", hash.map(|hash| hash.get_name().to_owned())),
    ];
    for (name, value) in options {
        words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    }
    let flags = [("--check-payload", args.check_payload), ("--salt", args.salt)];
    words.extend(flags.iter().filter(|(_, set)| *set).map(|(name, _)| (*name).to_owned()));
    for (name, value) in args.of_formats.given() {
        words.extend([format!("--{name}"), value.clone()]);
    }
    words.extend(args.writing.words());
    words.extend(args.server.words());
    command_line(&words, &args.dirs)
}

/// A line that is for people, whatever is in it.
fn say(line: &str) {
    terminal::err(&terminal::safe(line));
}
