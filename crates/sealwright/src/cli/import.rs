//! `sealwright import ...`: keys of another signing service, all of them, with a report of what was not taken.

mod report;
mod signd;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Subcommand;
use sealwright_client::batch::Stop;
use sealwright_client::error::Error;
use sealwright_client::gnupg::Home;
use sealwright_client::migrate::plan::{Phrase, phrases, plan};
use sealwright_client::migrate::{self, Ended, JOBS_DEFAULT, JOBS_MAX, Options};

use crate::cli::Context;
use crate::cli::import::report::Report;
use crate::cli::keys::bare::BareDigests;
use crate::failure::{Exit, Failure};
use crate::remote::{Opened, ServerArgs};

/// `sealwright import ...`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    from: Service,
}

/// Where keys come from.
#[derive(Debug, Subcommand)]
enum Service {
    /// From the host of a Copr: each key that has a passphrase file, by the name of that file.
    CoprKeygen(CoprKeygen),
    /// From a signd of obs-sign: keys, and as a text for server.toml what else its sign.conf says.
    ObsSignd(ObsSignd),
}

/// `sealwright import copr-keygen`.
#[derive(Debug, clap::Args)]
struct CoprKeygen {
    /// Directory of copr-keygen, /var/lib/copr-keygen: its home of GnuPG is in gnupg, its passphrase files are in phrases.
    directory: PathBuf,
    /// The home of GnuPG; default: gnupg in the directory.
    #[arg(long, value_name = "DIR")]
    gnupghome: Option<PathBuf>,
    /// The folder with one passphrase file a key; default: phrases in the directory.
    #[arg(long, value_name = "DIR")]
    phrases: Option<PathBuf>,
    /// The gpg to ask, of GnuPG 2.
    #[arg(long, value_name = "PROGRAM", default_value = "gpg")]
    gpg: PathBuf,
    #[command(flatten)]
    how: How,
}

/// `sealwright import obs-signd`.
#[derive(Debug, clap::Args)]
struct ObsSignd {
    /// The sign.conf of that signd.
    #[arg(long, value_name = "FILE", default_value = "/etc/sign.conf")]
    sign_conf: PathBuf,
    /// The home of GnuPG; default: what sign.conf says, else what its gpg takes by itself.
    #[arg(long, value_name = "DIR")]
    gnupghome: Option<PathBuf>,
    /// The gpg to ask, of GnuPG 2; default: what sign.conf says, else gpg.
    #[arg(long, value_name = "PROGRAM")]
    gpg: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

/// Of both.
#[derive(Debug, clap::Args)]
struct How {
    /// Say what would be done; ask the server only what is there, export and import nothing.
    #[arg(long)]
    dry_run: bool,
    /// Keys in hand at once.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    #[command(flatten)]
    bare: BareDigests,
    #[command(flatten)]
    server: ServerArgs,
}

/// What a service has.
struct Source {
    program: PathBuf,
    home: Option<PathBuf>,
    phrases: Vec<Phrase>,
}

/// Takes the keys over, by a server or into the embedded default.
pub(crate) async fn run(args: Args, context: Context) -> Result<Exit, Failure> {
    let stop = Stop::on_signals()
        .map_err(|error| Failure::failed(format!("cannot catch signals: {error}"), "Try again."))?;
    match args.from {
        Service::CoprKeygen(args) => {
            let part =
                |named: Option<PathBuf>, name: &str| named.unwrap_or_else(|| args.directory.join(name));
            let home = Some(part(args.gnupghome.clone(), "gnupg"));
            let phrases = phrases_in(&part(args.phrases.clone(), "phrases"))?;
            let report = Report::new(context, args.how.dry_run);
            take(Source { program: args.gpg, home, phrases }, &args.how, report, &stop).await
        }
        Service::ObsSignd(args) => {
            let mut report = Report::new(context, args.how.dry_run);
            let old = signd::Old::read(&args.sign_conf)?;
            let phrases = match &old.config.phrases {
                Some(folder) => phrases_in(Path::new(folder))?,
                None => Vec::new(),
            };
            let named = |text: &Option<String>| text.as_ref().map(PathBuf::from);
            let home = args.gnupghome.or_else(|| named(&old.config.gnupg_home));
            let program = args.gpg.or_else(|| named(&old.config.gpg)).unwrap_or_else(|| "gpg".into());
            old.report(&mut report);
            take(Source { program, home, phrases }, &args.how, report, &stop).await
        }
    }
}

async fn take(source: Source, how: &How, mut report: Report, stop: &Stop) -> Result<Exit, Failure> {
    // Before gpg is asked, which may take minutes: a wrong server is known at once.
    let way = how.server.choose()?;
    let is_new = way.nothing_stored()?.is_some();
    let opened = if how.dry_run && is_new { None } else { Some(way.open().await?) };
    let ended = take_by(&source, how, opened.as_ref(), &mut report, stop).await;
    if let Some(opened) = opened {
        opened.close().await;
    }
    Ok(report.end(ended?))
}

async fn take_by(
    source: &Source,
    how: &How,
    opened: Option<&Opened>,
    report: &mut Report,
    stop: &Stop,
) -> Result<Ended, Failure> {
    let home = Home::open(&source.program, source.home.as_deref()).await.map_err(Error::from);
    let home = home.map_err(|error| failed(&error))?;
    let ended = tokio::select! {
        biased;
        () = stop.forced() => Err(Failure::stopped()),
        ended = take_from(&home, source, how, opened, report, stop) => ended,
    };
    home.close().await;
    ended
}

async fn take_from(
    home: &Home,
    source: &Source,
    how: &How,
    opened: Option<&Opened>,
    report: &mut Report,
    stop: &Stop,
) -> Result<Ended, Failure> {
    report.waits("gpg lists the keys");
    let listed = tokio::select! {
        biased;
        () = stop.asked() => return Err(Failure::stopped()),
        listed = home.secret_keys() => listed,
    };
    let keys = listed.map_err(|error| failed(&error.into()))?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let candidates = plan(source.phrases.clone(), &keys, now);
    drop(keys);
    report.begin(candidates.len());
    let options = Options {
        usages: how.bare.usages(),
        bare_digests_on_primary: how.bare.obs_digest_on_primary,
        jobs: how.jobs.map_or(JOBS_DEFAULT, usize::from).min(JOBS_MAX),
        dry_run: how.dry_run,
    };
    let connection = opened.map(Opened::connection);
    let ended =
        migrate::run(home, connection, candidates, &options, stop, |outcome| report.outcome(&outcome));
    ended.await.map_err(|error| {
        let exit = if report.is_empty() { Exit::Unreachable } else { Exit::Failed };
        Failure::of(&error, exit)
    })
}

fn phrases_in(folder: &Path) -> Result<Vec<Phrase>, Failure> {
    phrases(folder).map_err(|error| failed(&error))
}

fn failed(error: &Error) -> Failure {
    Failure::failed(Failure::chain(error), error.advice())
}
