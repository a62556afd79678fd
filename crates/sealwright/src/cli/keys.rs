//! `sealwright key ...`: the user's side of key administration.

pub(crate) mod bare;
mod export_secret;

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use sealwright_client::connection::{Connection, KeyState, NewKey, Token};
use sealwright_client::import;
use sealwright_client::source::stdin::NAME;
use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_proto::limits::USER_ID_BYTES_MAX;
use serde::Serialize;

use crate::cli::Context;
use crate::config::{NoHome, Places};
use crate::duration::{Validity, iso};
use crate::failure::{Exit, Failure};
use crate::remote::ServerArgs;
use crate::terminal;
use bare::BareDigests;

/// `sealwright key ...`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
    #[command(subcommand)]
    command: KeyCommand,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key. A revocation certificate is made with it and stored beside the store.
    Create(CreateArgs),
    /// List the keys.
    List,
    /// Show one key.
    Show {
        /// Name, or fingerprint of the certificate or the signing subkey.
        key: String,
    },
    /// Write the certificate (the public key).
    Export(ExportArgs),
    /// Give secret keys back to a home of GnuPG, on the machine of root key and store: the way back to signd.
    ExportSecret(export_secret::Args),
    /// Take in an OpenPGP secret key, which travels encrypted to the signer process, or a key that is on a token.
    Import(ImportArgs),
    /// Give a key a new period of validity: new self-signatures, with SHA-256.
    Renew {
        /// Name or fingerprint.
        key: String,
        /// Valid from now for: 90d, 12w, 18m, 2y, never.
        #[arg(long, value_name = "PERIOD", default_value = "2y")]
        expires: Validity,
    },
    /// Let a key make no more signatures; takes effect before the next signature leaves.
    Disable {
        /// Name or fingerprint.
        key: String,
    },
    /// Undo `disable`.
    Enable {
        /// Name or fingerprint.
        key: String,
    },
}

/// `sealwright key create`.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// Name: letters, digits and @#._+- (at most 255); never used twice.
    #[arg(value_parser = key_name)]
    name: String,
    /// Key algorithm.
    #[arg(long, value_name = "ALGORITHM", default_value = "rsa4096", value_parser = ["rsa2048", "rsa3072", "rsa4096", "ed25519"])]
    algorithm: String,
    /// OpenPGP user id, `Name <mail>`; default: the key's name.
    #[arg(long, value_name = "USER-ID", value_parser = user_id)]
    uid: Option<String>,
    /// Valid for: 90d, 12w, 18m, 2y, never.
    #[arg(long, value_name = "PERIOD", default_value = "never")]
    expires: Validity,
    /// Make it on this token of the installation (tokens.toml beside the root key); it never leaves it.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// A subkey signs; the primary key only certifies. rpm 4.18 and older cannot verify such signatures.
    #[arg(long)]
    signing_subkey: bool,
    /// Version of the OpenPGP key. Every tool reads v4; v6 (RFC 9580) is for rpm 6 and other new ones: neither gpg nor
    /// rpm 4 can read it.
    #[arg(long, value_name = "VERSION", value_enum, default_value_t = OpenPgpVersion::V4)]
    openpgp: OpenPgpVersion,
    #[command(flatten)]
    bare: BareDigests,
}

/// Version of an OpenPGP key.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OpenPgpVersion {
    /// RFC 4880.
    V4,
    /// RFC 9580.
    V6,
}

impl From<OpenPgpVersion> for KeyVersion {
    fn from(version: OpenPgpVersion) -> Self {
        match version {
            OpenPgpVersion::V4 => Self::V4,
            OpenPgpVersion::V6 => Self::V6,
        }
    }
}

/// `sealwright key export`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Name or fingerprint.
    key: String,
    /// Encoding.
    #[arg(long, value_enum, default_value_t = CertificateFormat::Armor)]
    format: CertificateFormat,
    /// Write to a new file instead of standard output (`-`).
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// How a certificate is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum CertificateFormat {
    /// ASCII armor, as rpm and apt take it.
    Armor,
    /// OpenPGP packets.
    Binary,
}

/// `sealwright key import`.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// Name: letters, digits and @#._+- (at most 255); never used twice.
    #[arg(value_parser = key_name)]
    name: String,
    /// OpenPGP secret key, armored or binary; `-` is standard input.
    #[arg(required_unless_present = "token", conflicts_with = "token")]
    file: Option<PathBuf>,
    /// File whose first line is the passphrase.
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    passphrase_file: Option<PathBuf>,
    /// Fingerprint of the subkey to sign with; default: exactly the one that can sign now.
    #[arg(long, value_name = "FINGERPRINT", conflicts_with = "token")]
    subkey: Option<String>,
    #[command(flatten)]
    bare: BareDigests,
    #[command(flatten)]
    taken_over: TakenOver,
}

/// A key that is on a token already.
#[derive(Debug, clap::Args)]
#[group(skip)]
struct TakenOver {
    /// Take over a key that is on this token of the installation (tokens.toml beside the root key): it gets a new OpenPGP
    /// certificate, and stays where it is.
    #[arg(long, value_name = "TOKEN", requires = "named")]
    token: Option<String>,
    /// Label of the key on the token (CKA_LABEL).
    #[arg(long, value_name = "LABEL", requires = "token", group = "named")]
    object: Option<String>,
    /// Id of the key on the token (CKA_ID), in hexadecimal.
    #[arg(long, value_name = "HEX", requires = "token", group = "named", value_parser = hexadecimal)]
    id: Option<Hexadecimal>,
    /// OpenPGP user id of its certificate, `Name <mail>`; default: the key's name.
    #[arg(long, value_name = "USER-ID", requires = "token", value_parser = user_id)]
    uid: Option<String>,
    /// Its certificate is valid for: 90d, 12w, 18m, 2y, never (the default).
    #[arg(long, value_name = "PERIOD", requires = "token")]
    expires: Option<Validity>,
    /// Version of its OpenPGP certificate: v4 (the default) or v6.
    #[arg(long, value_name = "VERSION", requires = "token", value_enum)]
    openpgp: Option<OpenPgpVersion>,
}

/// Bytes of an id.
#[derive(Clone, Debug)]
struct Hexadecimal(Vec<u8>);

fn hexadecimal(text: &str) -> Result<Hexadecimal, String> {
    let pairs = text.as_bytes().chunks(2).map(|pair| {
        let digits = core::str::from_utf8(pair).ok().filter(|digits| digits.len() == 2)?;
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok())?
    });
    let bytes: Option<Vec<u8>> = pairs.collect();
    let bytes = bytes.filter(|bytes| !bytes.is_empty());
    bytes
        .map(Hexadecimal)
        .ok_or_else(|| "an id is an even number of hexadecimal digits, as in 01af".to_owned())
}

/// A name that a new key may have.
fn key_name(text: &str) -> Result<String, String> {
    sealwright_proto::names::KeyName::parse(text)
        .map(|name| name.as_str().to_owned())
        .map_err(|fault| format!("{}: letters, digits and @#._+-, at most 255", fault.message))
}

/// A user id that every reader of keys shows as it is (RFC 9580 section 5.11: UTF-8).
fn user_id(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("a user id needs a text, as in \"Name <mail@example.org>\"".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("a user id has no control characters (line breaks, tabs)".to_owned());
    }
    if text.len() > USER_ID_BYTES_MAX {
        return Err(format!("a user id has at most {USER_ID_BYTES_MAX} bytes"));
    }
    Ok(text.to_owned())
}

/// Carries out one `key` command, over a server or the embedded default.
pub(crate) async fn run(args: Args, context: Context) -> Result<Exit, Failure> {
    let Args { server, command } = args;
    if let KeyCommand::ExportSecret(args) = command {
        return export_secret::run(args, &server, context).await;
    }
    let way = server.choose()?;
    if let Some(places) = way.nothing_stored()? {
        // Looking must not make a store and a root key.
        match command.looks_at() {
            Looks::AtOne(key) => return Err(no_store(places, key)),
            Looks::AtAll => {
                terminal::err(&format!(
                    "No keys: nothing is stored yet in {}. Make one with sealwright key create NAME, or name a server with --config client.toml.",
                    places.store.display()
                ));
                return Ok(Exit::Done);
            }
            Looks::Makes => {}
        }
    }
    let revocations = way.revocations();
    let opened = way.open().await?;
    let outcome = with(opened.connection(), command, context, revocations.as_deref()).await;
    opened.close().await;
    outcome.map(|()| Exit::Done)
}

/// What a command does with keys that are there.
enum Looks<'a> {
    AtOne(&'a str),
    AtAll,
    Makes,
}

impl KeyCommand {
    fn looks_at(&self) -> Looks<'_> {
        match self {
            Self::List | Self::ExportSecret(_) => Looks::AtAll,
            Self::Create(_) | Self::Import(_) => Looks::Makes,
            Self::Export(args) => Looks::AtOne(&args.key),
            Self::Show { key } | Self::Renew { key, .. } | Self::Disable { key } | Self::Enable { key } => {
                Looks::AtOne(key)
            }
        }
    }
}

/// A key was named, and nothing has been stored yet.
pub(crate) fn no_store(places: &Places, key: &str) -> Failure {
    Failure::failed(
        format!("there is no key {key}: nothing is stored yet in {}", places.store.display()),
        "Make a key with sealwright key create NAME, or set SEALWRIGHT_HOME to where your keys are.",
    )
}

async fn with(
    connection: &Connection,
    command: KeyCommand,
    context: Context,
    revocations: Option<&Path>,
) -> Result<(), Failure> {
    match command {
        KeyCommand::Create(args) => create(connection, args, context, revocations).await,
        KeyCommand::List => list(connection, context).await,
        KeyCommand::Show { key } => {
            let key = connection.describe(&key).await.map_err(refused)?;
            show(&KeyView::of(&key, connection).await, context);
            Ok(())
        }
        KeyCommand::Export(args) => export(connection, args).await,
        // Goes by no connection.
        KeyCommand::ExportSecret(_) => Ok(()),
        KeyCommand::Import(args) => import_key(connection, args, context, revocations).await,
        KeyCommand::Renew { key, expires } => {
            let key = connection.renew(&key, expires.0).await.map_err(refused)?;
            show(&KeyView::of(&key, connection).await, context);
            terminal::err("Publish the renewed certificate: sealwright key export prints it.");
            Ok(())
        }
        KeyCommand::Disable { key } => set_state(connection, &key, KeyState::Disabled, context).await,
        KeyCommand::Enable { key } => set_state(connection, &key, KeyState::Enabled, context).await,
    }
}

async fn create(
    connection: &Connection,
    args: CreateArgs,
    context: Context,
    revocations: Option<&Path>,
) -> Result<(), Failure> {
    let user_id = args.uid.unwrap_or_else(|| args.name.clone());
    let new = NewKey {
        name: args.name,
        algorithm: args.algorithm,
        user_id,
        valid_for_s: args.expires.0,
        // What it signs then can certify nobody and bind nothing.
        signing_subkey: args.signing_subkey || args.bare.wants_subkey(),
        usages: args.bare.usages(),
        bare_digests_on_primary: args.bare.obs_digest_on_primary,
        version: args.openpgp.into(),
        token: args.token.map(|name| Token { name, ..Token::default() }),
    };
    made(connection, new, context, revocations).await
}

/// Has it made, shows it, and lays its revocation certificate by.
async fn made(
    connection: &Connection,
    new: NewKey,
    context: Context,
    revocations: Option<&Path>,
) -> Result<(), Failure> {
    let key = connection.create(new).await.map_err(refused)?;
    let mut view = KeyView::of(&key, connection).await;
    if !key.revocation.is_empty() {
        let name = format!("{}.asc", key.fingerprint);
        let stored = revocations.ok_or_else(|| std::io::Error::other(NoHome)).and_then(|folder| {
            let path = folder.join(&name);
            store_revocation(&path, &key.revocation).map(|()| path)
        });
        match stored {
            Ok(path) => view.revocation = Some(path.display().to_string()),
            // The key exists: the certificate must not be lost with the directory.
            Err(error) => {
                terminal::err(&format!("cannot write {name}: {error}; keep this:"));
                terminal::err_whole(&key.revocation);
            }
        }
    }
    show(&view, context);
    Ok(())
}

fn store_revocation(path: &Path, armored: &str) -> std::io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(armored.as_bytes())?;
    file.sync_all()
}

async fn list(connection: &Connection, context: Context) -> Result<(), Failure> {
    let keys = connection.list().await.map_err(refused)?;
    let mut views = Vec::with_capacity(keys.len());
    for key in &keys {
        views.push(KeyView::of(key, connection).await);
    }
    if context.json {
        views.iter().for_each(terminal::json);
        return Ok(());
    }
    if views.is_empty() {
        terminal::err("No keys. Make one: sealwright key create NAME");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = views
        .iter()
        .map(|key| {
            vec![
                key.name.clone(),
                key.state.to_owned(),
                key.algorithm.clone(),
                format!("v{}", key.openpgp),
                key.expires.as_deref().map_or_else(|| "never".to_owned(), for_a_person),
                key.fingerprint.clone(),
                key.backend.clone(),
                terminal::safe(&key.user_id),
            ]
        })
        .collect();
    terminal::table(
        &["NAME", "STATE", "ALGORITHM", "OPENPGP", "EXPIRES", "FINGERPRINT", "BACKEND", "USER ID"],
        &rows,
    );
    Ok(())
}

async fn export(connection: &Connection, args: ExportArgs) -> Result<(), Failure> {
    let key = connection.describe(&args.key).await.map_err(refused)?;
    let certificate = Certificate::parse(&key.certificate).map_err(|error| {
        Failure::failed(Failure::chain(&error), "The store is damaged; restore a backup.")
    })?;
    let bytes = match args.format {
        CertificateFormat::Armor => certificate.to_armor().into_bytes(),
        CertificateFormat::Binary => certificate.to_binary(),
    };
    match args.output.filter(|path| path != Path::new(NAME)) {
        None => {
            terminal::out_bytes(&bytes);
            Ok(())
        }
        Some(path) => write_new(&path, &bytes).map_err(|error| {
            Failure::failed(
                format!("cannot write {}: {error}", path.display()),
                "Choose a new file name in a directory that is yours.",
            )
        }),
    }
}

/// A file that is there whole, or not at all.
fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // It is ours: it was made new just now. What cannot be removed is at least reported as not written.
        let _ = std::fs::remove_file(path);
    }
    written
}

async fn import_key(
    connection: &Connection,
    args: ImportArgs,
    context: Context,
    revocations: Option<&Path>,
) -> Result<(), Failure> {
    let Some(file) = args.file else {
        return take_over(connection, args, context, revocations).await;
    };
    let secret = import::read_secret(&file, args.passphrase_file.as_deref(), args.subkey.as_deref())
        .map_err(|error| Failure::failed(Failure::chain(&error), error.advice()))?
        .with_usages(&args.bare.usages(), args.bare.obs_digest_on_primary);
    for warning in secret.warnings() {
        terminal::err(&format!("Warning: {}", terminal::safe(warning)));
    }
    let key = connection.import(&args.name, secret).await.map_err(refused)?;
    show(&KeyView::of(&key, connection).await, context);
    Ok(())
}

async fn take_over(
    connection: &Connection,
    args: ImportArgs,
    context: Context,
    revocations: Option<&Path>,
) -> Result<(), Failure> {
    let ImportArgs { name, bare, taken_over: taken, .. } = args;
    let token = Token {
        name: taken.token.unwrap_or_default(),
        label: taken.object.unwrap_or_default(),
        id: taken.id.map(|id| id.0).unwrap_or_default(),
    };
    let new = NewKey {
        user_id: taken.uid.unwrap_or_else(|| name.clone()),
        name,
        algorithm: String::new(),
        valid_for_s: taken.expires.and_then(|validity| validity.0),
        signing_subkey: false,
        usages: bare.usages(),
        bare_digests_on_primary: bare.obs_digest_on_primary,
        version: taken.openpgp.unwrap_or(OpenPgpVersion::V4).into(),
        token: Some(token),
    };
    made(connection, new, context, revocations).await
}

async fn set_state(
    connection: &Connection,
    key: &str,
    state: KeyState,
    context: Context,
) -> Result<(), Failure> {
    let key = connection.set_state(key, state).await.map_err(refused)?;
    show(&KeyView::of(&key, connection).await, context);
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "what map_err hands over")]
fn refused(error: sealwright_client::error::Error) -> Failure {
    let exit = if error.nothing_was_attempted() { Exit::Unreachable } else { Exit::Failed };
    Failure::of(&error, exit)
}

/// What a user sees of a key.
#[derive(Debug, Serialize)]
struct KeyView {
    name: String,
    state: &'static str,
    algorithm: String,
    /// Version of the OpenPGP key: 4 or 6.
    openpgp: u8,
    fingerprint: String,
    signing_fingerprint: String,
    user_id: String,
    created: String,
    expires: Option<String>,
    renewable: bool,
    /// `software`, `pkcs11:TOKEN`.
    backend: String,
    /// What it is sealed for.
    usages: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revocation: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
}

impl KeyView {
    async fn of(key: &sealwright_client::connection::Key, connection: &Connection) -> Self {
        // It has answered just now; if it went away since, that is no failure of this call.
        let server = connection.server().await.ok().flatten();
        Self {
            server: server.map(|server| server.to_string()),
            name: key.name.clone(),
            state: key.state.name(),
            algorithm: key.algorithm.clone(),
            openpgp: key.openpgp_version(),
            fingerprint: key.fingerprint.clone(),
            signing_fingerprint: key.signing_fingerprint.clone(),
            user_id: key.user_id.clone(),
            created: iso(key.created),
            expires: key.expires.map(iso),
            renewable: key.renewable,
            backend: key.backend.clone(),
            usages: key.usages.clone(),
            revocation: None,
            warnings: key.warnings.clone(),
        }
    }
}

/// A time of JSON, easier to read.
fn for_a_person(iso: &str) -> String {
    iso.replacen('T', " ", 1)
}

fn show(key: &KeyView, context: Context) {
    for warning in &key.warnings {
        terminal::err(&format!("Warning: {}", terminal::safe(warning)));
    }
    if context.json {
        terminal::json(key);
        return;
    }
    let line = |name: &str, value: &str| terminal::out(&format!("{name:<12} {}", terminal::safe(value)));
    line("name", &key.name);
    line("state", key.state);
    line("algorithm", &key.algorithm);
    line("OpenPGP", &format!("v{}", key.openpgp));
    line("user id", &key.user_id);
    line("fingerprint", &key.fingerprint);
    if key.signing_fingerprint != key.fingerprint {
        line("signs with", &format!("{} (subkey)", key.signing_fingerprint));
    }
    line("created", &for_a_person(&key.created));
    line("expires", &key.expires.as_deref().map_or_else(|| "never".to_owned(), for_a_person));
    line("backend", &key.backend);
    line("usages", &key.usages.join(", "));
    if !key.renewable {
        line("renewable", "no (the primary secret is not here)");
    }
    if let Some(path) = &key.revocation {
        line("revocation", path);
    }
    if let Some(server) = &key.server {
        line("server", server);
    }
}
