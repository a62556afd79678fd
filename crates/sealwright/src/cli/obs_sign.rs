//! obs-sign's command line: this program called by the name `sign`, or `sealwright obs-sign`. What differs from obs-sign's
//! own on purpose is in docs/howto/obs.md.
//!
//! Started once for each package, it does no more than that package needs: the words are read without clap, and one
//! thread waits for the server. It does all else too where that is one file that is not long: a thread that only starts costs
//! as much as the signature.

mod checksums;
mod cpio;
mod files;
mod help;
mod keys;
mod project;
mod raw;
mod way;
mod words;
mod x509;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use sealwright_crypto::algorithm::HashAlgorithm;
use tokio::runtime::{Builder, Runtime};

use crate::failure::{Exit, Failure};
use crate::{machine, terminal};

use way::{SignConf, Way};
use words::{Hash, Mode, Time, Words};

pub(crate) use help::HELP;

/// The name by which this program is that one.
const NAME: &str = "sign";
/// The command that is it by any name.
const COMMAND: &str = "obs-sign";

/// `sealwright obs-sign`, for help and manual page; its words are not clap's.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Options of obs-sign's sign, and files.
    #[arg(value_name = "OPTION|FILE", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// The words, if these are obs-sign's: those of a process that was started as `sign`, or as `sealwright obs-sign`.
pub(crate) fn words_of(arguments: impl IntoIterator<Item = OsString>) -> Option<Vec<OsString>> {
    let mut arguments = arguments.into_iter();
    let program = arguments.next()?;
    if Path::new(&program).file_name() == Some(OsStr::new(NAME)) {
        return Some(arguments.collect());
    }
    let command = arguments.next()?;
    (command == COMMAND).then(|| arguments.collect())
}

/// Why a command line is not carried out in which the command is not the first word: clap has read it.
pub(crate) fn came_late(args: &Args) -> Failure {
    let words: Vec<_> = args.words.iter().map(|word| word.to_string_lossy()).collect();
    let advice = format!("Say it so: sealwright {COMMAND} {}", words.join(" "));
    Failure::usage(format!("{COMMAND} takes no option before it"), advice)
}

/// Carries it out. What fails is said as obs-sign says it, and the status is 0 or 1.
pub(crate) fn main(words: Vec<OsString>) -> Exit {
    match run(words) {
        Ok(exit) => exit,
        Err(failure) => {
            say(&failure);
            Exit::Failed
        }
    }
}

fn say(failure: &Failure) {
    terminal::err(&terminal::safe(&failure.what));
    if !failure.advice.is_empty() {
        terminal::err(&format!("    {}", terminal::safe(&failure.advice)));
    }
}

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    refuse_setuid()?;
    let words = Words::parse(words)?;
    if words.mode == Some(Mode::Help) {
        terminal::out(HELP);
        return Ok(Exit::Done);
    }
    if words.strip {
        return alone()?.block_on(files::strip(&words));
    }
    let conf = SignConf::read(words.config.as_deref())?;
    let (user, hash) = (conf.user(&words), hash(&words, &conf));
    let way = Way::choose(&conf)?;
    refuse_times(&words, &way)?;
    if words.version_3 && words.signs() {
        terminal::err("Warning: -3: files get OpenPGP signatures of version 4.");
    }
    let is_short = !way.is_embedded() && way.is_found_at_once() && files::are_short(&words);
    let runtime = match (way.is_embedded(), is_short) {
        (true, _) => shared()?,
        (false, true) => without_threads()?,
        (false, false) => alone()?,
    };
    let outcome = runtime.block_on(async {
        let opened = way.open().await?;
        let call = Call { words: &words, user: &user, hash, is_short };
        let outcome = match words.mode {
            Some(Mode::Help | Mode::Ping) => opened.ping().await.map(|()| Exit::Done),
            Some(Mode::PublicKey) => keys::public_key(&call, &opened).await,
            Some(Mode::ShortKeyId | Mode::KeyId | Mode::Fingerprint) => keys::name(&call, &opened).await,
            Some(Mode::Raw) => raw::sign(&call, &opened).await,
            Some(Mode::MakeKey) => project::make(&call, &opened).await,
            Some(Mode::Extend) => project::extend(&call, &opened).await,
            Some(Mode::Certify) => project::certify(&call, &opened).await,
            Some(Mode::Sign(_)) | None => files::sign(&call, &opened).await,
        };
        opened.close().await;
        outcome
    });
    runtime.shutdown_timeout(crate::END_MS_MAX);
    outcome
}

/// What every part of a call needs.
struct Call<'a> {
    words: &'a Words,
    user: &'a str,
    hash: HashAlgorithm,
    /// The runtime's one thread does everything.
    is_short: bool,
}

/// Others' privileges are no way to authenticate: a client has its own certificate here, and files are opened as its user.
fn refuse_setuid() -> Result<(), Failure> {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    if user == rustix::process::geteuid() && group == rustix::process::getegid() {
        return Ok(());
    }
    Err(Failure::failed(
        "sign: it does not run setuid or setgid",
        "Take the bits away (chmod ug-s), and give the user a client certificate, or the capability CAP_NET_BIND_SERVICE.",
    ))
}

/// SHA-1 is not made: whoever names it is told. Whoever names nothing gets SHA-256 without a word.
fn hash(words: &Words, conf: &SignConf) -> HashAlgorithm {
    match words.hash.or(conf.hash()) {
        Some(Hash::Used(hash)) => hash,
        Some(Hash::Sha1) => {
            if words.hashes() {
                terminal::err("Warning: SHA-1 signatures are not made; SHA-256 is used.");
            }
            HashAlgorithm::Sha256
        }
        None => HashAlgorithm::Sha256,
    }
}

fn refuse_times(words: &Words, way: &Way) -> Result<(), Failure> {
    match words.time {
        Some(_) if !way.is_signd() => Err(Failure::failed(
            "sign: -T: this server makes no signature with another time than its own",
            "Leave -T out.",
        )),
        Some(Time::OfFile) => Err(Failure::failed(
            "sign: -T mtime and -T buildtime are not served here",
            "Name the time in seconds: -T $(rpm -qp --qf '%{buildtime}' FILE), or stat -c %Y FILE.",
        )),
        Some(Time::Seconds(_)) | None => Ok(()),
    }
}

/// One thread waits; work on files has its own.
fn alone() -> Result<Runtime, Failure> {
    machine::check_alone()?;
    started(Builder::new_current_thread())
}

/// One thread does everything.
fn without_threads() -> Result<Runtime, Failure> {
    machine::check_without_threads()?;
    started(Builder::new_current_thread())
}

/// As for the embedded default: front is in this process.
fn shared() -> Result<Runtime, Failure> {
    machine::check()?;
    started(Builder::new_multi_thread())
}

fn started(mut builder: Builder) -> Result<Runtime, Failure> {
    let runtime = builder.enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("cannot start: {error}"), "Raise the process limits."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_sign_by_its_name_or_by_its_command() {
        let of = |words: &[&str]| words_of(words.iter().map(OsString::from));
        let rest = Some(vec![OsString::from("-p")]);
        assert_eq!(of(&["/bin/sign", "-p"]), rest);
        assert_eq!(of(&["sign", "-p"]), rest);
        assert_eq!(of(&["sealwright", "obs-sign", "-p"]), rest);
        for other in [&["sealwright", "sign", "-p"][..], &["signd", "-p"], &["sealwright"], &["design"], &[]]
        {
            assert_eq!(of(other), None, "{other:?}");
        }
    }
}
