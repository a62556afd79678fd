//! `sealwright sign`.

pub(crate) mod format_options;
pub(crate) mod paths;
pub(crate) mod writing;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use sealwright_client::apply::{OutputDirectory, Policy};
use sealwright_client::batch::{self, Observer, Stop, Summary};
use sealwright_client::connection::{Connection, Priority};
use sealwright_client::error::Error;
use sealwright_client::sign::detached::StreamDone;
use sealwright_client::sign::{Done, Effect, FileReport, Request, Signed, Signer};
use sealwright_client::source;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_formats::options::{IfSigned, PayloadCheck, Repeat, SignOptions};
use serde::Serialize;

use crate::cli::keys::no_store;
use crate::cli::sign::format_options::{FormatArgs, FormatName};
use crate::cli::sign::paths::PathArgs;
use crate::cli::sign::writing::WritingArgs;
use crate::cli::{Context, list};
use crate::config::KEY_VARIABLE;
use crate::failure::{Exit, Failure};
use crate::output::{FailureView, Output, PathView, milliseconds, short_fingerprint, shown, size};
use crate::remote::ServerArgs;
use crate::terminal;

/// `sealwright sign`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Key to sign with: name, or fingerprint of the certificate or the signing subkey.
    #[arg(long, value_name = "NAME", env = KEY_VARIABLE)]
    key: String,
    /// Format of the files; default: recognised by their content.
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatName>,
    /// Files in hand at once.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Sign the packages in directories, and in those beneath; links are not followed.
    #[arg(long, short)]
    recursive: bool,
    /// Write signed copies into this directory and leave the files as they are.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// What to do with a file that is signed already.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = IfSignedArg::Replace)]
    if_signed: IfSignedArg,
    /// Sign again even if exactly this signature is there.
    #[arg(long)]
    force: bool,
    /// Hash algorithm of the signature.
    #[arg(long, value_enum, value_name = "HASH", default_value_t = HashArg::Sha256)]
    hash: HashArg,
    /// Check everything, ask for no signature, write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Read the payload and compare it with its digests before the header is signed.
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
    #[command(flatten)]
    files: PathArgs,
}

/// `--if-signed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IfSignedArg {
    /// Only the new signature remains.
    Replace,
    /// Leave the file as it is.
    Skip,
    /// Keep other keys' signatures.
    Add,
    /// Fail.
    Refuse,
}

/// `--hash`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HashArg {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl HashArg {
    /// Of the signatures.
    pub(crate) const fn algorithm(self) -> HashAlgorithm {
        match self {
            Self::Sha256 => HashAlgorithm::Sha256,
            Self::Sha384 => HashAlgorithm::Sha384,
            Self::Sha512 => HashAlgorithm::Sha512,
        }
    }
}

/// Carries out `sign`, over a server or the embedded default.
pub(crate) async fn run(args: Args, context: Context) -> Result<Exit, Failure> {
    let streamed = args.files.names_standard_input();
    let alone = args.files.paths.len() == 1 && args.files.files_from.is_none();
    if streamed && (!alone || args.output.is_some() || args.recursive) {
        return Err(Failure::usage(
            "standard input (-) is signed alone",
            "Name - as the only path, without -r, --output and --files-from.",
        ));
    }
    refuse_trees_of_detached(&args)?;
    let paths = args.files.all()?;
    let stop = Stop::on_signals()
        .map_err(|error| Failure::failed(format!("cannot catch signals: {error}"), "Try again."))?;
    let way = args.server.choose()?;
    if let Some(places) = way.nothing_stored()? {
        return Err(no_store(places, &args.key));
    }
    let state = way.state_directory();
    if let Some(state) = state.as_ref().filter(|_| !args.dry_run) {
        writing::recover(state);
    }
    let request = request(&args, args.writing.policy(state.as_deref())?)?;
    let request = Request { priority: priority(args.recursive, paths.len()), ..request };
    let opened = tokio::select! {
        biased;
        () = stop.asked() => return Err(Failure::stopped()),
        opened = way.open() => opened?,
    };
    let outcome = if streamed {
        sign_standard_input(&args, request, opened.connection(), context, &stop).await
    } else {
        sign_files(&args, paths, request, opened.connection(), context, &stop).await
    };
    opened.close().await;
    outcome
}

/// Files that somebody waits for; more are a mass.
const INTERACTIVE_FILES_MAX: usize = 32;

/// A mass goes behind what single people and builds wait for, at a server that has both.
const fn priority(recursive: bool, files: usize) -> Priority {
    if recursive || files > INTERACTIVE_FILES_MAX { Priority::Batch } else { Priority::Interactive }
}

async fn sign_files(
    args: &Args,
    paths: Vec<PathBuf>,
    request: Request,
    connection: &Connection,
    context: Context,
    stop: &Stop,
) -> Result<Exit, Failure> {
    let output = output_directory(args.output.as_deref(), request.effect)?;
    let signer = Signer::new(connection.clone(), &args.key, request, output);
    let signer = tokio::select! {
        biased;
        () = stop.asked() => return Err(Failure::stopped()),
        signer = signer => Arc::new(signer.map_err(|error| refused(&error))?),
    };
    let listing = list(paths, args.recursive, stop).await?;
    let mut printer = Printer {
        output: Output::new(context, listing.len()),
        dry_run: args.dry_run,
        trace_id: trace_id(connection),
    };
    let jobs = args.jobs.map_or_else(batch::default_jobs, usize::from);
    let summary = batch::sign(&signer, listing, jobs, stop, &mut printer).await;
    printer.output.finish();
    terminal::err(&summary_line(&summary, &signer, args.dry_run));
    if summary.not_begun > 0 {
        terminal::err(how_to_go_on(args));
    } else {
        // A file found beneath a directory keeps its path there; named itself, it would lose it.
        let keep_names = args.recursive && args.output.is_some();
        printer.output.retry(&command(args), &args.files.words(), &args.files.paths, keep_names);
    }
    Ok(if summary.failed > 0 || summary.not_begun > 0 { Exit::Failed } else { Exit::Done })
}

/// After a stop: what the same command does with the files that are done.
const fn how_to_go_on(args: &Args) -> &'static str {
    if args.force {
        "Stopped. Run the same command without --force to go on: finished files are left as they are. With --force all are \
         signed again."
    } else {
        "Stopped. Run the same command again to go on: finished files are left as they are."
    }
}

/// The directory of `--output`. A dry run makes none either.
pub(crate) fn output_directory(
    dir: Option<&Path>,
    effect: Effect,
) -> Result<Option<OutputDirectory>, Failure> {
    let Some(dir) = dir else { return Ok(None) };
    let opened = match effect {
        Effect::DryRun => OutputDirectory::open_if_there(dir),
        Effect::Write => OutputDirectory::open(dir).map(Some),
    };
    opened.map_err(|error| no_output(&error))
}

/// Why `--output` cannot be used.
fn no_output(error: &Error) -> Failure {
    let what = format!("--output: {}", Failure::chain(error));
    if matches!(error, Error::OutputNotADirectory { .. }) {
        Failure::usage(what, error.advice())
    } else {
        Failure::failed(what, error.advice())
    }
}

/// A detached signature beside every file of a tree would sign the signatures too, and whatever else lies there.
fn refuse_trees_of_detached(args: &Args) -> Result<(), Failure> {
    let format = args.format.and_then(|format| sealwright_formats::by_name(format.0));
    let Some(format) = format.filter(|format| args.recursive && !format.is_found()) else { return Ok(()) };
    Err(Failure::usage(
        format!("-r finds packages; for --format {} every file must be named", format.name()),
        "Name the files, or list them: find DIR -type f -print0 | sealwright sign ... -0 --files-from -",
    ))
}

async fn sign_standard_input(
    args: &Args,
    request: Request,
    connection: &Connection,
    context: Context,
    stop: &Stop,
) -> Result<Exit, Failure> {
    let signer =
        Signer::new(connection.clone(), &args.key, request, None).await.map_err(|error| refused(&error))?;
    let signed = Arc::new(signer).sign_stream(std::io::stdin(), stop).await;
    let signed = signed.map_err(|error| {
        Failure::failed(format!("standard input: {}", Failure::chain(&error)), error.advice())
    })?;
    if context.json {
        terminal::json(&StreamView::of(&signed, args.format, &trace_id(connection)));
        return Ok(Exit::Done);
    }
    let signed = match signed {
        StreamDone::Signed(signed) => signed,
        StreamDone::WouldSign { read_bytes, .. } => {
            terminal::err(&format!("would sign standard input ({}; dry run)", size(read_bytes)));
            return Ok(Exit::Done);
        }
    };
    terminal::out_bytes(&signed.signature);
    Ok(Exit::Done)
}

fn request(args: &Args, policy: Policy) -> Result<Request, Failure> {
    let options = SignOptions {
        hash: args.hash.algorithm(),
        if_signed: match args.if_signed {
            IfSignedArg::Replace => IfSigned::Replace,
            IfSignedArg::Skip => IfSigned::Skip,
            IfSignedArg::Add => IfSigned::Add,
            IfSignedArg::Refuse => IfSigned::Refuse,
        },
        payload: if args.check_payload { PayloadCheck::Always } else { PayloadCheck::WhenRead },
        repeat: if args.force { Repeat::Force } else { Repeat::Skip },
        format: args.of_formats.options()?,
    };
    Ok(Request {
        options,
        format: args.format.map(|format| format.0),
        salt: args.salt,
        effect: if args.dry_run { Effect::DryRun } else { Effect::Write },
        priority: Priority::Interactive,
        policy,
    })
}

pub(crate) fn refused(error: &Error) -> Failure {
    let exit = if error.nothing_was_attempted() { Exit::Unreachable } else { Exit::Failed };
    Failure::of(error, exit)
}

/// The command that does the rest: every choice that is not the default.
fn command(args: &Args) -> Vec<String> {
    let mut words: Vec<String> =
        ["sealwright", "sign", "--key", &args.key].iter().map(|word| (*word).to_owned()).collect();
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([format!("--{name}"), value]);
        }
    };
    let name = |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_owned());
    option("format", args.format.map(|format| format.0.to_owned()));
    option("jobs", args.jobs.map(|jobs| jobs.to_string()));
    option("output", args.output.as_ref().map(|dir| dir.display().to_string()));
    let if_signed = Some(args.if_signed).filter(|choice| *choice != IfSignedArg::Replace);
    option("if-signed", if_signed.and_then(|choice| name(choice.to_possible_value())));
    let hash = Some(args.hash).filter(|choice| *choice != HashArg::Sha256);
    option("hash", hash.and_then(|choice| name(choice.to_possible_value())));
    for (given, value) in args.of_formats.given() {
        option(given, Some(value.clone()));
    }
    let flags = [
        ("--recursive", args.recursive),
        ("--force", args.force),
        ("--dry-run", args.dry_run),
        ("--check-payload", args.check_payload),
        ("--salt", args.salt),
    ];
    words.extend(flags.iter().filter(|(_, set)| *set).map(|(flag, _)| (*flag).to_owned()));
    words.extend(args.writing.words());
    words.extend(args.server.words());
    words
}

fn summary_line(summary: &Summary, signer: &Signer, dry_run: bool) -> String {
    let mut line = format!("{} {}", summary.signed, if dry_run { "would be signed" } else { "signed" });
    let mut part = |count: usize, what: &str| {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    };
    part(summary.unchanged, "left as they are");
    part(summary.failed, "failed (unchanged)");
    part(summary.skipped, "skipped");
    part(summary.not_begun, "not begun");
    let key = signer.key();
    line.push_str(&format!(". Key {} {}", terminal::safe(&key.name), short_fingerprint(&key.fingerprint)));
    if !summary.servers.is_empty() {
        let servers: Vec<&str> = summary.servers.iter().map(AsRef::as_ref).collect();
        line.push_str(&format!(" at {}", terminal::safe(&servers.join(", "))));
    }
    if let Some(id) = &summary.request_id {
        line.push_str(&format!(", request {id}"));
    }
    line
}

struct Printer {
    output: Output,
    dry_run: bool,
    trace_id: String,
}

/// Of this run, as the logs of server and signer have it.
pub(crate) fn trace_id(connection: &Connection) -> String {
    connection.trace().trace_id.to_string()
}

impl Observer for Printer {
    fn finished(&mut self, report: &FileReport) {
        self.output.advance();
        let view = FileView::of(report, &self.trace_id);
        match &report.outcome {
            Ok(Done::Skipped) | Err(Error::Stopped) => {}
            Ok(done) => {
                self.output.result(&view, &[line(report, done, self.dry_run)]);
                self.output.warnings(&report.path, &report.warnings);
            }
            Err(error) => self.output.failure(report.index, &report.path, error, &view),
        }
    }
}

fn line(report: &FileReport, done: &Done, dry_run: bool) -> String {
    let path = shown(&report.path);
    let mut notes = report.notes.clone();
    let mut text = match done {
        Done::Signed(signed) => {
            let written = shown(&signed.written.path);
            if written.ends_with(&path) || signed.written.path.file_name() == report.path.file_name() {
                format!("signed     {path}")
            } else {
                format!("signed     {path} -> {written}")
            }
        }
        Done::Unchanged { why, copy } => {
            notes.insert(0, why.clone());
            let copied = if copy.is_some() { " (copied)" } else { "" };
            format!("unchanged  {path}{copied}")
        }
        Done::WouldSign { signatures } => {
            notes.insert(0, format!("{signatures} signature{}", if *signatures == 1 { "" } else { "s" }));
            format!("would sign {path}")
        }
        Done::Skipped => format!("skipped    {path}"),
    };
    if dry_run {
        notes.push("dry run".to_owned());
    }
    if !notes.is_empty() {
        text.push_str(&format!(" ({})", terminal::safe(&notes.join("; "))));
    }
    text
}

/// One file of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct FileView<'a> {
    #[serde(flatten)]
    path: PathView,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    log: Vec<u64>,
    size: u64,
    sent: u64,
    written: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    elapsed_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    trace_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(flatten)]
    failure: Option<FailureView>,
}

impl<'a> FileView<'a> {
    pub(crate) fn of(report: &'a FileReport, trace_id: &'a str) -> Self {
        let signed: Option<&Signed> = match &report.outcome {
            Ok(Done::Signed(signed)) => Some(signed),
            Ok(Done::Unchanged { .. } | Done::WouldSign { .. } | Done::Skipped) | Err(_) => None,
        };
        let (status, why, copy) = match &report.outcome {
            Ok(Done::Signed(_)) => ("signed", None, None),
            Ok(Done::Unchanged { why, copy }) => ("unchanged", Some(why.as_str()), copy.as_ref()),
            Ok(Done::WouldSign { .. }) => ("would-sign", None, None),
            Ok(Done::Skipped) => ("skipped", None, None),
            Err(_) => ("failed", None, None),
        };
        let written = signed.map(|signed| &signed.written).or(copy);
        Self {
            path: PathView::of(&report.path),
            status,
            format: report.format,
            key: signed.map(|signed| signed.issuer.to_string()),
            log: signed.map(|signed| signed.log_indexes.clone()).unwrap_or_default(),
            size: report.size,
            sent: report.sent_bytes,
            written: written.map_or(0, |written| written.bytes),
            output: written.map(|written| written.path.to_string_lossy().into_owned()),
            method: written.map(|written| written.method.name()),
            elapsed_ms: milliseconds(report.elapsed),
            request_id: report.request_id.as_deref(),
            trace_id,
            server: report.server.as_deref(),
            why,
            notes: &report.notes,
            warnings: &report.warnings,
            failure: report.outcome.as_ref().err().map(FailureView::of),
        }
    }
}

/// Standard input of `--json`: a file whose signature is in the object.
#[derive(Debug, Serialize)]
struct StreamView<'a> {
    #[serde(flatten)]
    file: FileView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature_hex: Option<String>,
}

impl<'a> StreamView<'a> {
    fn of(done: &'a StreamDone, format: Option<FormatName>, trace_id: &'a str) -> Self {
        let (signed, size, elapsed) = match done {
            StreamDone::Signed(signed) => (Some(signed), signed.read_bytes, signed.elapsed),
            StreamDone::WouldSign { read_bytes, elapsed } => (None, *read_bytes, *elapsed),
        };
        let signature = signed.map(|signed| signed.signature.as_slice());
        let file = FileView {
            path: PathView::of(Path::new(source::stdin::NAME)),
            status: if signed.is_some() { "signed" } else { "would-sign" },
            format: format.map(|format| format.0),
            key: signed.map(|signed| signed.issuer.to_string()),
            log: signed.map(|signed| signed.log_indexes.clone()).unwrap_or_default(),
            size,
            sent: signed.map_or(0, |signed| signed.sent_bytes),
            written: signature.map_or(0, |bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
            output: None,
            method: None,
            elapsed_ms: milliseconds(elapsed),
            request_id: signed.map(|signed| signed.request_id.as_str()),
            trace_id,
            server: signed.and_then(|signed| signed.server.as_deref()),
            why: None,
            notes: &[],
            warnings: &[],
            failure: None,
        };
        Self { file, signature_hex: signature.map(sealwright_crypto::digest::to_hex) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_signs_a_few_files_waits_for_them_and_a_mass_goes_behind() {
        assert_eq!(priority(false, 1), Priority::Interactive);
        assert_eq!(priority(false, INTERACTIVE_FILES_MAX), Priority::Interactive);
        assert_eq!(priority(false, INTERACTIVE_FILES_MAX + 1), Priority::Batch);
        assert_eq!(priority(true, 1), Priority::Batch);
    }
}
