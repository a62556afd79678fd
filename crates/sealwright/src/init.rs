//! `sealwright init`: the directory of a server, and later one more client, a revocation, a new server certificate.

pub(crate) mod authority;
pub(crate) mod files;
mod installation;
mod register;
mod running;
mod text;

use std::path::{Path, PathBuf};

use sealwright_proto::names::KeyName;
use serde::Serialize;

use crate::cli::Context;
use crate::config::{self, NO_HOME_ADVICE, SYSTEM_DIRECTORY};
use crate::failure::{Exit, Failure};
use crate::terminal;
use crate::users::{self, User};

use installation::{Installation, Plan};

/// Port of a server that says nothing else.
const PORT: u16 = sealwright_client::connection::remote::PORT_DEFAULT;

/// `sealwright init`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory of the server. Default: /etc/sealwright for root, else ~/.config/sealwright/server.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Name or address under which clients reach the server; the first is the one they are told. Default: the host
    /// name, localhost, 127.0.0.1 and ::1.
    #[arg(long, value_name = "NAME", value_parser = server_name, conflicts_with_all = ["client", "revoke"])]
    name: Vec<String>,
    /// Port of the server.
    #[arg(long, value_name = "PORT", default_value_t = PORT, conflicts_with_all = ["client", "revoke", "renew_server"])]
    port: u16,
    /// Issue a certificate for this client, and put what it needs into clients/NAME. Done again, it renews it.
    #[arg(long, value_name = "NAME", value_parser = client_name)]
    client: Option<String>,
    /// A key that the new client may sign with; `*` is every key. Given by name, also before the key is made.
    #[arg(long, value_name = "KEY", requires = "client", value_parser = granted_key)]
    key: Vec<String>,
    /// The new client may make, import, renew, enable and disable keys.
    #[arg(long, requires = "client")]
    administrator: bool,
    /// Accept none of the certificates any more that this client has by now.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["client", "renew_server"], value_parser = client_name)]
    revoke: Option<String>,
    /// Issue a new certificate for the server, over the same key, for the names that it has; --name adds one.
    #[arg(long, conflicts_with = "client")]
    renew_server: bool,
    /// With --renew-server: the names given by --name are all, and those before are gone.
    #[arg(long, requires_all = ["renew_server", "name"])]
    only_names: bool,
    /// User that the network side (front) is to run as; root only, together with --user-signer.
    #[arg(long, value_name = "USER", requires = "user_signer", conflicts_with_all = ["client", "revoke", "renew_server"])]
    user_front: Option<String>,
    /// User that the signer is to run as.
    #[arg(long, value_name = "USER", requires = "user_front")]
    user_signer: Option<String>,
}

/// The two users of an installation that has two.
#[derive(Clone, Debug)]
struct Users {
    front: (String, User),
    signer: (String, User),
}

/// What was done, for a program.
#[derive(Debug, Serialize)]
struct View<'a> {
    status: &'static str,
    directory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reload: Option<String>,
}

/// Carries out `init`.
#[expect(clippy::needless_pass_by_value, reason = "as all commands")]
pub(crate) fn run(args: Args, context: Context) -> Result<Exit, Failure> {
    let directory = directory(&args)?;
    let (view, lines) = if let Some(name) = &args.client {
        add_client(&args, name, Installation::open(&directory)?)?
    } else if let Some(name) = &args.revoke {
        revoke(name, Installation::open(&directory)?)?
    } else if args.renew_server {
        renew_server(&args, Installation::open(&directory)?)?
    } else {
        make(&args, directory)?
    };
    if context.json {
        terminal::json(&view);
    } else {
        lines.iter().for_each(|line| terminal::out(&terminal::safe(line)));
    }
    Ok(Exit::Done)
}

fn directory(args: &Args) -> Result<PathBuf, Failure> {
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    if let Some(directory) = &args.directory {
        return Ok(absolute(directory.clone()));
    }
    if rustix::process::geteuid().is_root() {
        return Ok(SYSTEM_DIRECTORY.into());
    }
    let config = config::config_directory();
    config
        .map(|config| config.join("server"))
        .map_err(|error| Failure::failed(error.to_string(), NO_HOME_ADVICE))
}

type Report<'a> = (View<'a>, Vec<String>);

fn make<'a>(args: &Args, directory: PathBuf) -> Result<Report<'a>, Failure> {
    let names = if args.name.is_empty() { default_names() } else { args.name.clone() };
    let users = match (&args.user_front, &args.user_signer) {
        (Some(front), Some(signer)) => Some(two_users(front, signer)?),
        (Some(_), None) | (None, Some(_)) | (None, None) => None,
    };
    let of_machine = args.directory.is_none() && rustix::process::geteuid().is_root();
    let plan = Plan { directory, names, port: args.port, users, of_machine };
    let url = plan.url();
    let made = plan.make()?;
    let at = made.directory().display().to_string();
    let serve = if of_machine {
        "sealwright serve".to_owned()
    } else {
        format!("sealwright serve --config {at}/server.toml")
    };
    let lines = vec![
        format!("made       {at}"),
        format!("Next:      {serve}"),
        format!("Clients:   are told {url}; --name NAME when it is made names it as they reach it."),
        format!(
            "Keep:      {at}/ca in a safe place: who has it can be any client. {at}/root with the backups of the store, apart from them."
        ),
        format!(
            "Administer with {at}/clients/admin: sealwright key create release --config {at}/clients/admin/client.toml"
        ),
        format!("Add users: sealwright init{} --client NAME --key KEY", directory_words(args)),
    ];
    let view = View { status: "made", directory: at, ..View::none() };
    Ok((view, lines))
}

fn add_client<'a>(args: &Args, name: &'a str, mut installation: Installation) -> Result<Report<'a>, Failure> {
    let added = installation.add_client(name, &args.key, args.administrator)?;
    let folder = added.folder.display().to_string();
    let reload = added.is_new.then(|| reload(installation.directory()));
    let mut lines = vec![
        format!(
            "{:<10} {folder} (certificate {}, valid until {})",
            if added.is_new { "made" } else { "renewed" },
            added.serial,
            added.not_after
        ),
        format!(
            "Hand over: copy the files in it to ~/.config/sealwright of the user, mode 0600, and remove them here."
        ),
    ];
    if let Some(reload) = &reload {
        if args.key.is_empty() {
            lines.push(format!("Keys:      none yet; add names to the entry of {name} in clients.toml."));
        }
        lines.push(reload_line(reload));
    } else {
        lines.push(
            "The certificates before stay valid until they end; --revoke refuses them, then issue again."
                .to_owned(),
        );
    }
    let view = View {
        status: if added.is_new { "made" } else { "renewed" },
        directory: installation.directory().display().to_string(),
        client: Some(name),
        client_directory: Some(folder),
        serial: Some(added.serial),
        not_after: Some(added.not_after),
        revoked: None,
        reload,
    };
    Ok((view, lines))
}

fn revoke(name: &str, mut installation: Installation) -> Result<Report<'_>, Failure> {
    let revoked = installation.revoke(name)?;
    let directory = installation.directory().display().to_string();
    let certificates = if revoked == 1 { "certificate" } else { "certificates" };
    let reload = reload(installation.directory());
    let lines = vec![format!("revoked    {revoked} {certificates} of {name}"), reload_line(&reload)];
    let (client, revoked, reload) = (Some(name), Some(revoked), Some(reload));
    Ok((View { status: "revoked", directory, client, revoked, reload, ..View::none() }, lines))
}

fn renew_server<'a>(args: &Args, mut installation: Installation) -> Result<Report<'a>, Failure> {
    let (issued, names) = installation.renew_server(&args.name, args.only_names)?;
    let reload = reload(installation.directory());
    let directory = installation.directory().display().to_string();
    let lines = vec![
        format!("renewed    {directory}/tls/server.pem (valid until {})", issued.not_after),
        format!("Names:     {}", names.join(", ")),
        reload_line(&reload),
    ];
    let view = View {
        status: "renewed",
        directory,
        serial: Some(issued.serial),
        not_after: Some(issued.not_after),
        reload: Some(reload),
        ..View::none()
    };
    Ok((view, lines))
}

/// What a server has to be told before it knows of a change: the command.
fn reload(directory: &Path) -> String {
    match running::server_of(directory) {
        Some(pid) => format!("kill -HUP {pid}"),
        None => RELOAD_UNIT.to_owned(),
    }
}

/// The server is one of systemd, of another machine, or not started; then it needs nothing.
const RELOAD_UNIT: &str = "systemctl reload sealwright-front";

fn reload_line(command: &str) -> String {
    let other =
        if command == RELOAD_UNIT { " (without systemd: kill -HUP PID, of sealwright serve)" } else { "" };
    format!("Reload:    {command}{other}")
}

fn directory_words(args: &Args) -> String {
    args.directory.as_ref().map(|dir| format!(" --directory {}", dir.display())).unwrap_or_default()
}

impl View<'_> {
    const fn none() -> Self {
        Self {
            status: "",
            directory: String::new(),
            client: None,
            client_directory: None,
            serial: None,
            not_after: None,
            revoked: None,
            reload: None,
        }
    }
}

fn two_users(front: &str, signer: &str) -> Result<Users, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::usage(
            "only root can give files to other users",
            "Run it as root, or leave out --user-front and --user-signer.",
        ));
    }
    let users = Users {
        front: (front.to_owned(), users::find(front)?),
        signer: (signer.to_owned(), users::find(signer)?),
    };
    if users.front.1.uid == users.signer.1.uid || users.signer.1.uid == 0 || users.front.1.uid == 0 {
        return Err(Failure::usage(
            "front and signer need two users, and neither is root",
            "Make two system users, or leave out --user-front and --user-signer.",
        ));
    }
    Ok(users)
}

/// The host name, if it is one that a certificate can hold, and the names of this machine for itself.
fn default_names() -> Vec<String> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().to_ascii_lowercase();
    let host = server_name(&host).ok().filter(|host| host != "localhost");
    host.into_iter().chain(["localhost", "127.0.0.1", "::1"].map(str::to_owned)).collect()
}

/// A DNS name or an address.
fn server_name(text: &str) -> Result<String, String> {
    // As everybody writes it: ::1, not 0::1.
    if let Ok(address) = text.parse::<std::net::IpAddr>() {
        return Ok(address.to_string());
    }
    let name = rustls_pki_types::ServerName::try_from(text.to_owned());
    name.map(|name| name.to_str().into_owned()).map_err(|_| "a DNS name or an IP address".to_owned())
}

/// As keys' names, and never that of the user of an embedded store.
fn client_name(text: &str) -> Result<String, String> {
    const COMMON_NAME_MAX: usize = 64;
    let name = KeyName::parse(text).map_err(|fault| fault.message)?;
    if text.len() > COMMON_NAME_MAX {
        return Err("a client's name has at most 64 characters (X.520)".to_owned());
    }
    if text == "local" || text.starts_with('.') {
        return Err("no client can have this name".to_owned());
    }
    Ok(name.as_str().to_owned())
}

fn granted_key(text: &str) -> Result<String, String> {
    if text == "*" {
        return Ok(text.to_owned());
    }
    KeyName::parse(text).map(|name| name.as_str().to_owned()).map_err(|fault| fault.message)
}
