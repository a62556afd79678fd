//! `sealwright key export-secret`: the way back to signd, beside the service (docs/adr/0020). Nothing is asked of a
//! running server; this process reads root key and store itself, and serves nobody.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sealwright_client::error::Error as ClientError;
use sealwright_client::gnupg::Home;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_proto::convert::batch::SealedKey;
use sealwright_proto::names::KeyId;
use sealwright_proto::status::Code;
use sealwright_signer::Custody;
use sealwright_store::Store;
use sealwright_store::keys::Key;
use serde::Serialize;

use crate::cli::Context;
use crate::config::{NO_HOME_ADVICE, Places};
use crate::duration::iso;
use crate::failure::{Exit, Failure};
use crate::remote::ServerArgs;
use crate::{serve, terminal};

/// What to do about a key that this signer's directory does not open.
const OTHER_DATA_KEY: &str = "Nothing was written. [signer] root of that server.toml has to be the signer's directory: where systemd starts the \
                              signer, that is /var/lib/sealwright-signer, with --root-key for the root key's file.";

/// What to do about one that cannot go.
const LEFT_OUT: &str = "Nothing was written. Leave this key out.";

/// What root can do where front and signer are two users.
const TWO_USERS: &str = "The store is another user's, so nobody may read both. As root, stop the server, copy both with server.toml to a \
                         folder of root's alone, take [users] out of the copy, and name that with --server-config.";

/// `sealwright key export-secret`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Names or fingerprints.
    #[arg(required = true, value_name = "NAME")]
    keys: Vec<String>,
    /// The home of GnuPG that gets the keys; it must be there.
    #[arg(long, value_name = "DIR")]
    gnupghome: PathBuf,
    /// The folder that gets a passphrase file for each key, by its name; it must be there.
    #[arg(long, value_name = "DIR")]
    phrases: PathBuf,
    /// The gpg that takes them, of GnuPG 2.
    #[arg(long, value_name = "PROGRAM", default_value = "gpg")]
    gpg: PathBuf,
    /// The server.toml that says where store and root key are; default: those of this user.
    #[arg(long, value_name = "FILE")]
    server_config: Option<PathBuf>,
    /// The root key's file, where it is not in the signer's directory.
    #[arg(long, value_name = "FILE")]
    root_key: Option<PathBuf>,
    /// Needed: whoever can read the home and the phrases then signs whatever they want with these keys, for ever, with
    /// no grant asked and no log entry made. It cannot be undone.
    #[arg(long)]
    secret_leaves_custody: bool,
}

/// What became of a key.
#[derive(Serialize)]
struct View<'a> {
    key: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'a str>,
}

/// All that the keys have in common.
struct Way {
    store: Store,
    custody: Custody,
    home: Home,
    gnupghome: PathBuf,
    phrases: PathBuf,
}

/// Gives each key to gpg, or says why not.
pub(super) async fn run(args: Args, server: &ServerArgs, context: Context) -> Result<Exit, Failure> {
    if server.is_given() {
        return Err(Failure::usage(
            "secrets are never asked of a server, and no configuration of a client helps",
            "Run it on the server's machine, with --server-config server.toml.",
        ));
    }
    if !args.secret_leaves_custody {
        return Err(Failure::usage(
            "whoever can read that home and its phrases will sign whatever they want with these keys, for ever, with no \
             grant asked and no log entry made",
            "If that is what you want, say --secret-leaves-custody. It is recorded beside the root key.",
        ));
    }
    let way = Way::open(&args).await?;
    let mut exit = Exit::Done;
    for name in &args.keys {
        let outcome = way.export(name).await;
        if outcome.is_err() {
            exit = Exit::Failed;
        }
        report(name, &outcome, context);
    }
    way.home.close().await;
    Ok(exit)
}

fn report(name: &str, outcome: &Result<String, Failure>, context: Context) {
    let (fingerprint, failure) = match outcome {
        Ok(fingerprint) => (Some(fingerprint.clone()), None),
        Err(failure) => (None, Some(failure)),
    };
    if context.json {
        let status = if failure.is_none() { "exported" } else { "failed" };
        let error = failure.map(|failure| failure.what.as_str());
        let advice = failure.map(|failure| failure.advice.as_str());
        terminal::json(&View { key: name, status, fingerprint: fingerprint.clone(), error, advice });
    }
    match (fingerprint, failure) {
        (Some(fingerprint), None) if !context.json => {
            terminal::out(&format!("exported {name} {fingerprint}"))
        }
        (_, Some(failure)) => {
            let name = terminal::safe(name);
            terminal::err(&format!("sealwright: {name}: {}", terminal::safe(&failure.what)));
            terminal::err(&format!("            {}", terminal::safe(&failure.advice)));
        }
        _ => {}
    }
}

impl Way {
    async fn open(args: &Args) -> Result<Self, Failure> {
        let (folder, root) = match &args.server_config {
            Some(file) => serve::store_and_root(file)?,
            None => {
                let places = Places::from_environment()
                    .map_err(|error| Failure::failed(error.to_string(), NO_HOME_ADVICE))?;
                (places.store, places.root)
            }
        };
        for (what, folder) in [("store", &folder), ("phrases", &args.phrases)] {
            if !folder.is_dir() {
                return Err(Failure::failed(
                    format!("{} is no folder; it should be that of the {what}", folder.display()),
                    "Nothing is made for an export: name a folder that is there.",
                ));
            }
        }
        // First: only who may read the root key goes on.
        let custody = Custody::open(&root, args.root_key.as_deref()).map_err(|error| {
            let advice = if of_two_users(&folder, &root) { TWO_USERS } else { error.advice() };
            Failure::failed(Failure::chain(&error), advice)
        })?;
        let store = Store::open(&folder).await.map_err(|error| of_store(&error))?;
        let home =
            Home::open(&args.gpg, Some(&args.gnupghome)).await.map_err(|error| of_gpg(&error.into()))?;
        let (gnupghome, phrases) = (args.gnupghome.clone(), args.phrases.clone());
        Ok(Self { store, custody, home, gnupghome, phrases })
    }

    /// The fingerprint of what was given.
    async fn export(&self, name: &str) -> Result<String, Failure> {
        let key = self.find(name).await?;
        let fingerprint = key.material.fingerprint.to_string();
        let known = self.home.has_secret(&fingerprint).await.map_err(|error| of_gpg(&error.into()))?;
        if known {
            return Err(Failure::failed(
                format!("the home has the secret of {fingerprint} already, under a passphrase of its own"),
                "There is nothing to do: signd serves it if its phrase file is there.",
            ));
        }
        let key_id = KeyId::parse(key.id.as_bytes())
            .map_err(|fault| Failure::failed(fault.message, "The store is damaged; restore a backup."))?;
        let sealed =
            SealedKey { key_id, generation: key.material.generation, blob: key.material.sealed.clone() };
        let of_signer =
            |error: sealwright_signer::Error| Failure::failed(Failure::chain(&error), error.advice());
        let phrase = Custody::passphrase().map_err(of_signer)?;
        let transferable = self.custody.transferable(&sealed, &key.material.certificate, &phrase);
        let transferable = transferable.map_err(|fault| {
            let advice = if fault.code == Code::RootKeyWrong { OTHER_DATA_KEY } else { LEFT_OUT };
            Failure::failed(fault.message, advice)
        })?;
        let file = self.phrases.join(&key.name);
        write_phrase(&file, &phrase).map_err(|error| {
            Failure::failed(
                format!("cannot write {}: {error}", file.display()),
                "A phrase file that is there is never replaced: move it away, or leave the key out.",
            )
        })?;
        let given = match self.custody.record(&self.line(&key)).map_err(of_signer) {
            Ok(()) => {
                tracing::warn!(key = key.name, fingerprint, "a secret key leaves custody");
                self.home.import(&transferable).await.map_err(|error| of_gpg(&error.into()))
            }
            Err(failure) => Err(failure),
        };
        if given.is_err() {
            // Without its key it opens nothing.
            let _ = std::fs::remove_file(&file);
        }
        given.map(|()| fingerprint)
    }

    async fn find(&self, name: &str) -> Result<Key, Failure> {
        let named = self.store.key_by_name(name).await.map_err(|error| of_store(&error))?;
        let found = match (named, Fingerprint::from_hex(name)) {
            (None, Ok(fingerprint)) => {
                self.store.key_by_fingerprint(&fingerprint).await.map_err(|error| of_store(&error))?
            }
            (named, _) => named,
        };
        found.ok_or_else(|| {
            Failure::failed("there is no key of this name", "sealwright key list shows the names.")
        })
    }

    /// For [`sealwright_signer::EXPORTS_FILE`].
    fn line(&self, key: &Key) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = iso(i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        format!(
            "{now} user={} key={} fingerprint={} generation={} to={}",
            rustix::process::getuid().as_raw(),
            key.name,
            key.material.fingerprint,
            key.material.generation,
            self.gnupghome.display(),
        )
    }
}

/// Whether store and root key have different owners, so that nobody may read both.
fn of_two_users(store: &Path, root: &Path) -> bool {
    match (store.metadata(), root.metadata()) {
        (Ok(store), Ok(root)) => store.uid() != root.uid(),
        (Ok(_) | Err(_), Ok(_) | Err(_)) => false,
    }
}

/// New, for its owner alone, and on the disk; as root, it becomes that of the folder's owner.
fn write_phrase(path: &Path, phrase: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let folder = path.parent().unwrap_or(Path::new(".")).metadata()?;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::fchown(&file, Some(folder.uid()), Some(folder.gid()))?;
    }
    file.write_all(phrase.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

fn of_gpg(error: &ClientError) -> Failure {
    Failure::failed(Failure::chain(error), error.advice())
}

fn of_store(error: &sealwright_store::error::Error) -> Failure {
    Failure::failed(
        Failure::chain(error),
        "Run it as the user whose store and root key these are; nothing was written.",
    )
}
