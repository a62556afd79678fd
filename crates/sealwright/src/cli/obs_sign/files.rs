//! `-r`, `-d`, `-D`, `-c` and `--delsign`: files, several at once, and standard input.

use std::io::{Read as _, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealwright_client::apply::{HardLinks, Policy, Writing};
use sealwright_client::batch::{self, Observer, Stop};
use sealwright_client::connection::Priority;
use sealwright_client::error::Error;
use sealwright_client::sign::detached::StreamDone;
use sealwright_client::sign::{Done, Effect, FileReport, Request, Signer};
use sealwright_client::signd::SigningTime;
use sealwright_client::source::{self, Directories, Entry, Place};
use sealwright_client::strip::{Stripped, strip as strip_file};
use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_formats::cleartext::CLEARTEXT_OUTPUT;
use sealwright_formats::openpgp_detached::DETACHED_OUTPUT;
use sealwright_formats::options::{FormatOptions, IfSigned, OptionSpec, Repeat, SignOptions};
use sealwright_formats::rpm::RPM_SIGNATURE;

use super::checksums::Checksums;
use super::way::{Opened, told};
use super::words::{How, Mode, Time, Words};
use super::{Call, keys, project};
use crate::failure::{Exit, Failure};
use crate::output::shown;
use crate::terminal;

/// What obs-sign calls standard input.
const STDIN: &str = "<stdin>";
/// Files that somebody waits for; more are a mass.
const INTERACTIVE_FILES_MAX: usize = 32;

/// Files up to this length in bytes are read, hashed and copied before a signal could be missed.
const SHORT_BYTES_MAX: u64 = 32 << 20;

/// Whether the call has one file at most, and that a short one: nothing in it waits for a disk longer than a person does.
pub(super) fn are_short(words: &Words) -> bool {
    let is_short = |facts: std::fs::Metadata| facts.is_file() && facts.len() <= SHORT_BYTES_MAX;
    let asks_for_a_key = matches!(
        words.mode,
        Some(Mode::PublicKey | Mode::ShortKeyId | Mode::KeyId | Mode::Fingerprint | Mode::Ping)
    );
    match words.files.as_slice() {
        [] => asks_for_a_key,
        [path] => words.signs() && std::fs::metadata(path).is_ok_and(is_short),
        [_, _, ..] => false,
    }
}

/// Signs the files of a call, or standard input.
pub(super) async fn sign(call: &Call<'_>, opened: &Opened) -> Result<Exit, Failure> {
    let stop = stop()?;
    if call.words.files.is_empty() {
        return match how_of(call.words, Path::new(STDIN)) {
            How::Rpm => sign_package_of_stdin(call, opened, &stop).await,
            how @ (How::Clear | How::Detached | How::DetachedBinary) => {
                sign_stdin(call, opened, how, &stop).await
            }
        };
    }
    let mut checksums = Checksums::open(call.words.checksums.as_deref())?;
    let mut exit = Exit::Done;
    for how in [How::Rpm, How::Detached, How::DetachedBinary, How::Clear] {
        let paths: Vec<PathBuf> =
            call.words.files.iter().filter(|path| how_of(call.words, path) == how).cloned().collect();
        if paths.is_empty() {
            continue;
        }
        let printer = sign_files(call, opened, how, paths, &stop).await?;
        if printer.failed {
            exit = Exit::Failed;
        }
        if how == How::Rpm {
            checksums.add(printer.signed)?;
        }
    }
    Ok(exit)
}

/// Without a mode the name decides, as in obs-sign.
fn how_of(words: &Words, path: &Path) -> How {
    match words.mode {
        Some(Mode::Sign(how)) => how,
        Some(_) | None => {
            let name = path.as_os_str().as_bytes();
            let is_package = [&b".rpm"[..], b".spm"].iter().any(|end| name.ends_with(end) && name.len() > 4);
            if is_package { How::Rpm } else { How::Clear }
        }
    }
}

async fn sign_files(
    call: &Call<'_>,
    opened: &Opened,
    how: How,
    paths: Vec<PathBuf>,
    stop: &Stop,
) -> Result<Printer, Failure> {
    let signer = signer(call, opened, how, paths.len(), stop).await?;
    let listing = source::list(&paths, Directories::Refuse);
    let mut printer = Printer::new(call, opened, how);
    let jobs = if call.is_short { 1 } else { batch::default_jobs() };
    batch::sign(&signer, listing, jobs, stop, &mut printer).await;
    if printer.stopped {
        terminal::err("Stopped. Run the same command again to go on.");
    }
    Ok(printer)
}

/// A stop ends the search for a server.
async fn signer(
    call: &Call<'_>,
    opened: &Opened,
    how: How,
    files: usize,
    stop: &Stop,
) -> Result<Arc<Signer>, Failure> {
    let request = request(call, how, files)?;
    project::refuse(call, opened)?;
    let holder = project::verifiable(call)?;
    let found = async {
        match opened {
            Opened::Ours(server) => Signer::new(server.connection().clone(), call.user, request, None).await,
            Opened::Signd(signd) => {
                let time = match call.words.time {
                    Some(Time::Seconds(seconds)) => SigningTime::Claimed(seconds),
                    Some(Time::OfFile) | None => SigningTime::Now,
                };
                Signer::of_signd(signd, holder, time, request, None).await
            }
        }
    };
    if matches!(opened, Opened::Ours(_)) {
        keys::named(call.user)?;
    }
    let signer = tokio::select! {
        biased;
        () = stop.asked() => return Err(Failure::stopped()),
        signer = found => signer.map_err(|error| keys::refused(call.user, &error))?,
    };
    let algorithm = KeyAlgorithm::from_name(&signer.key().algorithm).ok();
    keys::demand(call.words.algorithm.as_deref(), algorithm)?;
    Ok(Arc::new(if call.is_short { signer.without_threads() } else { signer }))
}

fn request(call: &Call<'_>, how: How, files: usize) -> Result<Request, Failure> {
    let mut format = FormatOptions::default();
    let mut set = |spec: &'static OptionSpec, value: &str| {
        format.set(spec, value).map_err(|error| Failure::failed(error.to_string(), "Please report it."))
    };
    let name = match how {
        How::Rpm => {
            if call.words.with_payload {
                set(&RPM_SIGNATURE, "header+payload")?;
            }
            "rpm"
        }
        How::Detached => "detached",
        How::DetachedBinary => {
            set(&DETACHED_OUTPUT, "sig")?;
            "detached"
        }
        How::Clear => {
            set(&CLEARTEXT_OUTPUT, "in-place")?;
            "cleartext"
        }
    };
    let if_signed = if call.words.keep_signed { IfSigned::Skip } else { IfSigned::Replace };
    Ok(Request {
        // What was asked for is made, whatever is there.
        options: SignOptions {
            hash: call.hash,
            if_signed,
            repeat: Repeat::Force,
            format,
            ..SignOptions::default()
        },
        format: Some(name),
        salt: false,
        effect: Effect::Write,
        priority: if files > INTERACTIVE_FILES_MAX { Priority::Batch } else { Priority::Interactive },
        policy: Policy { writing: Writing::Replace, hard_links: HardLinks::Careful },
    })
}

async fn sign_stdin(call: &Call<'_>, opened: &Opened, how: How, stop: &Stop) -> Result<Exit, Failure> {
    let signer = signer(call, opened, how, 1, stop).await?;
    if call.words.verbose {
        told(&progress(how, STDIN, call.user), true);
    }
    let signed = signer.sign_stream(std::io::stdin(), stop).await;
    match signed.map_err(|error| Failure::failed(said(STDIN, &error), error.advice()))? {
        StreamDone::Signed(signed) => terminal::out_bytes(&signed.signature),
        StreamDone::WouldSign { .. } => {}
    }
    Ok(Exit::Done)
}

/// A package cannot be signed while it passes: it is kept in a file without a name for others.
async fn sign_package_of_stdin(call: &Call<'_>, opened: &Opened, stop: &Stop) -> Result<Exit, Failure> {
    let failed =
        |error: std::io::Error| Failure::failed(format!("{STDIN}: {error}"), "Name the file instead.");
    let kept = tempfile::Builder::new().prefix(source::TEMPORARY_PREFIX).tempfile().map_err(failed)?;
    let mut file = kept.as_file().try_clone().map_err(failed)?;
    // On a thread of its own: who waits for input must hear of a stop.
    let copy =
        tokio::task::spawn_blocking(move || std::io::copy(&mut std::io::stdin().lock(), &mut file).map(drop));
    tokio::select! {
        biased;
        () = stop.asked() => return Err(Failure::stopped()),
        copied = copy => copied.map_err(std::io::Error::other).flatten().map_err(failed)?,
    }
    let signer = signer(call, opened, How::Rpm, 1, stop).await?;
    let entry = Entry { shown: kept.path().to_owned(), place: Place::Named };
    if stop.is_asked() {
        return Err(Failure::stopped());
    }
    let report = signer.sign(0, &entry).await;
    let mut printer = Printer { is_filter: true, ..Printer::new(call, opened, How::Rpm) };
    printer.finished(&FileReport { path: PathBuf::from(STDIN), ..report });
    if printer.failed || printer.left {
        return Ok(Exit::Failed);
    }
    // The name has another file now.
    let mut signed = std::fs::File::open(kept.path()).map_err(failed)?;
    signed.rewind().map_err(failed)?;
    let mut piece = vec![0; 64 << 10];
    loop {
        let len = signed.read(&mut piece).map_err(failed)?;
        let Some(bytes) = piece.get(..len).filter(|bytes| !bytes.is_empty()) else { return Ok(Exit::Done) };
        terminal::out_bytes(bytes);
    }
}

/// Gives packages their unsigned bytes back.
pub(super) async fn strip(words: &Words) -> Result<Exit, Failure> {
    let stop = stop()?;
    if words.files.is_empty() {
        return Err(Failure::failed("--delsign works on files here", "Name them: sign --delsign FILE."));
    }
    if let Some(other) = words.files.iter().find(|path| how_of(words, path) != How::Rpm) {
        let what = format!("--delsign is only implemented for rpms: {}", shown(other));
        return Err(Failure::failed(what, "Use -r for a package of another name."));
    }
    let mut checksums = Checksums::open(words.checksums.as_deref())?;
    let listing = source::list(&words.files, Directories::Refuse);
    let mut exit = Exit::Done;
    for (path, error) in &listing.failed {
        failed(path, error);
        exit = Exit::Failed;
    }
    let work = |index, entry: Entry| async move {
        tokio::task::spawn_blocking(move || strip_file(index, &entry, Effect::Write, None)).await.ok()
    };
    let mut done = Vec::new();
    let take = |report: Option<_>| done.extend(report);
    batch::each(listing.groups, batch::hash_threads(), &stop, work, |_, _| None, take).await;
    if done.len()
        < words.files.len().saturating_sub(listing.failed.len()).saturating_sub(listing.repeated.len())
    {
        terminal::err("Stopped. Run the same command again to go on.");
        exit = Exit::Failed;
    }
    let mut written = Vec::new();
    for report in done {
        for warning in &report.warnings {
            terminal::err(&format!("Warning: {}: {}", shown(&report.path), terminal::safe(warning)));
        }
        match report.outcome {
            Ok(Stripped::Written(_) | Stripped::NotSigned) => {
                if words.verbose {
                    told(&format!("rpm delsign {}", shown(&report.path)), false);
                }
                written.push((report.index, report.path));
            }
            Ok(Stripped::Would | Stripped::Skipped) => {}
            Err(error) => {
                failed(&report.path, &error);
                exit = Exit::Failed;
            }
        }
    }
    checksums.add(written)?;
    Ok(exit)
}

fn stop() -> Result<Stop, Failure> {
    Stop::on_signals()
        .map_err(|error| Failure::failed(format!("cannot catch signals: {error}"), "Try again."))
}

/// Says what became of each file, as obs-sign does: nothing, unless it was asked or it failed.
struct Printer {
    how: How,
    user: String,
    verbose: bool,
    keep_signed: bool,
    is_filter: bool,
    /// signd has no log: what its signatures are called "signed, not applied" for has no entry.
    has_log: bool,
    failed: bool,
    left: bool,
    stopped: bool,
    /// Signed packages, by their place in the call.
    signed: Vec<(usize, PathBuf)>,
}

impl Printer {
    fn new(call: &Call<'_>, opened: &Opened, how: How) -> Self {
        Self {
            how,
            user: call.user.to_owned(),
            verbose: call.words.verbose,
            keep_signed: call.words.keep_signed,
            is_filter: false,
            has_log: matches!(opened, Opened::Ours(_)),
            failed: false,
            left: false,
            stopped: false,
            signed: Vec::new(),
        }
    }

    fn not_signed(&mut self, path: &Path, error: &Error) {
        self.failed = true;
        if matches!(error, Error::Stopped) {
            self.stopped = true;
        } else if let (Error::NotApplied { source, .. }, false) = (error, self.has_log) {
            let why = Failure::chain(source.as_ref());
            terminal::err(&terminal::safe(&format!("{}: signed, not applied: {why}", shown(path))));
            terminal::err(&format!("    {}", error.advice()));
        } else {
            failed(path, error);
        }
    }
}

impl Observer for Printer {
    fn finished(&mut self, report: &FileReport) {
        for warning in &report.warnings {
            terminal::err(&format!("Warning: {}: {}", shown(&report.path), terminal::safe(warning)));
        }
        let path = shown(&report.path);
        match &report.outcome {
            Ok(Done::Signed(signed)) => {
                if self.verbose {
                    told(&progress(self.how, &path, &self.user), self.is_filter);
                }
                self.signed.push((report.index, signed.written.path.clone()));
            }
            Ok(Done::Unchanged { .. } | Done::WouldSign { .. } | Done::Skipped) => {
                self.left = true;
                if self.keep_signed {
                    told(&format!("{path}: already signed"), self.is_filter);
                }
            }
            Err(error) => self.not_signed(&report.path, error),
        }
    }
}

fn failed(path: &Path, error: &Error) {
    terminal::err(&terminal::safe(&said(&shown(path), error)));
    terminal::err(&format!("    {}", terminal::safe(error.advice())));
}

/// What a signd refused is said as it says it: programs look for it at the beginning of a line.
fn said(path: &str, error: &Error) -> String {
    format!("{path}: {}", Failure::chain(error))
}

/// What obs-sign says of a file with `-v`.
fn progress(how: How, path: &str, user: &str) -> String {
    let what = match how {
        How::Rpm => "rpm sign",
        How::Clear => "clear sign",
        How::Detached => "detached sign",
        How::DetachedBinary => "raw detached sign",
    };
    let user = if user.is_empty() { String::new() } else { format!(" user {}", terminal::safe(user)) };
    format!("{what} {path}{user}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_regular_file_that_is_not_long_or_a_question_is_short() {
        let folder = tempfile::tempdir().unwrap();
        let of_len = |name: &str, len| {
            let path = folder.path().join(name);
            std::fs::File::create(&path).unwrap().set_len(len).unwrap();
            path
        };
        let (short, long) = (of_len("short", SHORT_BYTES_MAX), of_len("long", SHORT_BYTES_MAX + 1));
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        let is_short = |mode, files: &[&PathBuf]| {
            let files = files.iter().copied().cloned().collect();
            are_short(&Words { mode: Some(mode), files, ..Words::default() })
        };
        let rpm = Mode::Sign(How::Rpm);
        assert!(is_short(rpm, &[&short]) && is_short(Mode::PublicKey, &[]));
        assert!(!is_short(Mode::Raw, &[&short]) && !is_short(Mode::MakeKey, &[]));
        for files in [&[&long][..], &[&fifo], &[&short, &short], &[&folder.path().join("gone")], &[]] {
            assert!(!is_short(rpm, files), "{files:?}");
        }
    }
}
