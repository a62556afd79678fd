//! The directory of a server: made whole in a temporary directory and renamed, and changed one file at a time.

use std::net::{TcpListener, ToSocketAddrs as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{CWD, RenameFlags};
use zeroize::Zeroizing;

use crate::config;
use crate::failure::Failure;
use crate::init::authority::{Authority, Found, Issued, Subject, new_key};
use crate::init::files::{self, GROUP, PRIVATE_DIRECTORY, PUBLIC, SECRET, cannot, make_directory, write_new};
use crate::init::register::{self, Clients, Register};
use crate::init::text::{self, ServerText};
use crate::init::{PORT, Users};
use crate::mistake;

/// Where the store of an installation of the whole machine lies.
const MACHINE_STATE: &str = "/var/lib/sealwright";
/// Directory of the signer's socket of such an installation; made at each start.
const MACHINE_RUN: &str = "/run/sealwright";
/// Longest path of a Unix socket in bytes (unix(7)), without the zero at its end.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// The first client.
const ADMIN: &str = "admin";
/// Directories that others pass through, with two users: what is in them has modes of its own.
const PASSAGE: u32 = 0o711;

/// What shall be made.
pub(super) struct Plan {
    /// Where.
    pub(super) directory: PathBuf,
    /// Names of the server.
    pub(super) names: Vec<String>,
    /// Its port.
    pub(super) port: u16,
    /// Users of its two parts.
    pub(super) users: Option<Users>,
    /// The store lies where a whole machine keeps it.
    pub(super) of_machine: bool,
}

/// A directory that is there.
pub(super) struct Installation {
    directory: PathBuf,
}

/// A client that was added or renewed.
pub(super) struct Added {
    /// To be handed over.
    pub(super) folder: PathBuf,
    /// Of the certificate.
    pub(super) serial: String,
    /// Its last day.
    pub(super) not_after: String,
    /// It had no entry before.
    pub(super) is_new: bool,
}

impl Plan {
    /// Where clients are told to find the server.
    pub(super) fn url(&self) -> String {
        url(&self.names, self.port)
    }

    /// Makes everything, or nothing.
    pub(super) fn make(self) -> Result<Installation, Failure> {
        self.refuse_what_is_there()?;
        let parent = self.directory.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(parent).map_err(|error| cannot("make", parent, &error))?;
        let building = tempfile::Builder::new()
            .prefix(".sealwright-init-")
            .tempdir_in(parent)
            .map_err(|error| cannot("make a directory in", parent, &error))?;
        self.fill(building.path())?;
        let mode = if self.users.is_some() { PASSAGE } else { PRIVATE_DIRECTORY };
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(building.path(), permissions)
            .map_err(|error| cannot("change", building.path(), &error))?;
        if self.of_machine {
            self.make_machine_store()?;
        }
        // Over an empty directory at most: the kernel refuses one that somebody filled meanwhile.
        std::fs::rename(building.path(), &self.directory)
            .map_err(|error| cannot("make", &self.directory, &error))?;
        let _renamed = building.keep();
        files::sync(parent).map_err(|error| cannot("write", parent, &error))?;
        Ok(Installation { directory: self.directory })
    }

    fn refuse_what_is_there(&self) -> Result<(), Failure> {
        let store = Path::new(MACHINE_STATE).join("store");
        for place in [&self.directory, &store].into_iter().take(if self.of_machine { 2 } else { 1 }) {
            let Ok(entries) = place.read_dir() else { continue };
            let mut there: Vec<String> =
                entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            there.sort();
            if !there.is_empty() {
                return Err(Failure::failed(
                    format!("{} is in use: {} is there", place.display(), there.join(", ")),
                    "Use it (sealwright init --client NAME adds a user), move it away, or choose another with --directory DIR.",
                ));
            }
        }
        if self.directory.join(self.socket()).as_os_str().as_bytes().len() > SOCKET_PATH_BYTES_MAX {
            let what = format!("{} is too long a name for a socket in it", self.directory.display());
            return Err(Failure::usage(what, "Choose a shorter --directory DIR."));
        }
        Ok(())
    }

    fn socket(&self) -> PathBuf {
        Path::new(if self.of_machine { MACHINE_RUN } else { "run" }).join("signer.sock")
    }

    fn fill(&self, at: &Path) -> Result<(), Failure> {
        let (authority, ca_key) = Authority::make()?;
        let passage = if self.users.is_some() { PASSAGE } else { PRIVATE_DIRECTORY };
        make_directory(&at.join("ca"), PRIVATE_DIRECTORY)?;
        write_new(&at.join("ca/ca.key"), ca_key.as_bytes(), SECRET)?;
        write_new(&at.join("ca/ca.pem"), authority.certificate_pem().as_bytes(), PUBLIC)?;
        let mut register = Register::open(&at.join("ca"))?;
        make_directory(&at.join("tls"), passage)?;
        let key = new_key()?;
        let subject = Subject::Server(&self.names);
        let issued = authority.issue(subject, &key)?;
        register.add(subject, &issued)?;
        write_new(&at.join("tls/ca.pem"), authority.certificate_pem().as_bytes(), PUBLIC)?;
        write_new(&at.join("tls/server.pem"), issued.certificate_pem.as_bytes(), PUBLIC)?;
        write_new(&at.join("tls/server.key"), Zeroizing::new(key.serialize_pem()).as_bytes(), SECRET)?;
        let store = Path::new(if self.of_machine { MACHINE_STATE } else { "" }).join("store");
        let listen = format!("{}:{}", if has_ipv6() { "[::]" } else { "0.0.0.0" }, self.port);
        let server = text::server(&ServerText {
            listen: &listen,
            store: &store,
            socket: &self.socket(),
            users: self.users.as_ref(),
        });
        write_new(&at.join("server.toml"), server.as_bytes(), GROUP)?;
        write_new(&at.join("clients.toml"), text::CLIENTS.as_bytes(), GROUP)?;
        make_directory(&at.join("clients"), PRIVATE_DIRECTORY)?;
        let url = self.url();
        fill_client(&at.join("clients").join(ADMIN), ADMIN, &url, &authority, &mut register)?;
        make_root_key(&at.join("root"))?;
        if !self.of_machine {
            make_directory(&at.join("store"), PRIVATE_DIRECTORY)?;
        }
        self.hand_out(at)?;
        files::sync(at).map_err(|error| cannot("write", at, &error))
    }

    /// With two users: to front what front reads, to the signer the root key.
    fn hand_out(&self, at: &Path) -> Result<(), Failure> {
        let Some(Users { front: (_, front), signer: (_, signer) }) = &self.users else { return Ok(()) };
        let (to_front, root_and_front) = ((front.uid, front.gid), (0, front.gid));
        files::give(&at.join("server.toml"), root_and_front)?;
        files::give(&at.join("clients.toml"), root_and_front)?;
        files::give(&at.join("tls/server.key"), to_front)?;
        files::give(&at.join("root"), (signer.uid, signer.gid))?;
        if !self.of_machine {
            files::give(&at.join("store"), to_front)?;
        }
        Ok(())
    }

    fn make_machine_store(&self) -> Result<(), Failure> {
        let base = Path::new(MACHINE_STATE);
        let passage = if self.users.is_some() { PASSAGE } else { PRIVATE_DIRECTORY };
        for (path, mode) in [(base.to_owned(), passage), (base.join("store"), PRIVATE_DIRECTORY)] {
            if !path.is_dir() {
                make_directory(&path, mode)?;
            }
            if let Some(users) = self.users.as_ref().filter(|_| path != base) {
                files::give(&path, (users.front.1.uid, users.front.1.gid))?;
            }
        }
        Ok(())
    }
}

impl Installation {
    /// One that `init` made.
    pub(super) fn open(directory: &Path) -> Result<Self, Failure> {
        let file = directory.join("server.toml");
        if file.try_exists().map_err(|error| cannot("look at", &file, &error))? {
            return Ok(Self { directory: directory.to_owned() });
        }
        Err(Failure::failed(
            format!("there is no server in {}: no server.toml", directory.display()),
            "Make one with sealwright init, or name its directory with --directory DIR.",
        ))
    }

    /// Where.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn ca(&self) -> PathBuf {
        self.directory.join("ca")
    }

    /// One more client, or a new certificate for one that has an entry.
    pub(super) fn add_client(
        &mut self,
        name: &str,
        keys: &[String],
        administrator: bool,
    ) -> Result<Added, Failure> {
        let authority = Authority::open(&self.ca())?;
        let mut register = Register::open(&self.ca())?;
        let mut clients = Clients::open(&self.directory)?;
        let is_new = !clients.has(name);
        if !is_new && (administrator || !keys.is_empty()) {
            return Err(Failure::usage(
                format!(
                    "the client {name} is there; init renews its certificate and leaves its grants alone"
                ),
                "Leave out --key and --administrator, and edit its entry in clients.toml.",
            ));
        }
        let folder = self.directory.join("clients").join(name);
        let building = self.directory.join("clients").join(format!(".sealwright-new-{name}"));
        let _ = std::fs::remove_dir_all(&building);
        let (names, port) = self.reached_at()?;
        let issued = fill_client(&building, name, &url(&names, port), &authority, &mut register)?;
        put(&building, &folder)?;
        if is_new {
            clients.add(name, keys, administrator)?;
            clients.save()?;
        }
        Ok(Added { folder, serial: issued.serial, not_after: issued.not_after, is_new })
    }

    /// Refuses all certificates that a client has by now; how many were not refused before.
    pub(super) fn revoke(&mut self, name: &str) -> Result<usize, Failure> {
        let mut register = Register::open(&self.ca())?;
        let mut clients = Clients::open(&self.directory)?;
        if !clients.has(name) {
            let what =
                format!("there is no client {name} in {}", self.directory.join("clients.toml").display());
            return Err(Failure::failed(what, "Check the name; who has no entry may do nothing."));
        }
        let lines = register.lines()?.into_iter().filter(|line| line.is_client && line.name == name);
        let serials: Vec<String> = lines.map(|line| line.serial).collect();
        let revoked = clients.revoke(name, &serials)?;
        clients.save()?;
        Ok(revoked)
    }

    /// A new certificate over the same key, so that one file changes, in one step. Who reaches the server by a name that
    /// it has goes on to, unless `names` shall be all; the first name stays the one that clients are told. Returns the
    /// names, too.
    pub(super) fn renew_server(
        &mut self,
        names: &[String],
        are_all: bool,
    ) -> Result<(Issued, Vec<String>), Failure> {
        let authority = Authority::open(&self.ca())?;
        let mut register = Register::open(&self.ca())?;
        let key_path = self.directory.join("tls/server.key");
        let key = Zeroizing::new(register::read(&key_path)?);
        let key = rcgen::KeyPair::from_pem(&key).map_err(|_| {
            Failure::failed(format!("{} is damaged", key_path.display()), "Restore it from a backup.")
        })?;
        let mut all = if are_all { Vec::new() } else { self.reached_at()?.0 };
        for name in names {
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        let names = all;
        let subject = Subject::Server(&names);
        let issued = authority.issue(subject, &key)?;
        register.add(subject, &issued)?;
        files::replace(&self.directory.join("tls/server.pem"), issued.certificate_pem.as_bytes())?;
        Ok((issued, names))
    }

    /// Names of the server's certificate, and its port.
    fn reached_at(&self) -> Result<(Vec<String>, u16), Failure> {
        let certificate = self.directory.join("tls/server.pem");
        let found = Found::read(&register::read(&certificate)?).filter(|found| !found.names.is_empty());
        let found = found.ok_or_else(|| {
            let what = format!("{} names no server", certificate.display());
            Failure::failed(what, "Issue it again: sealwright init --renew-server --only-names --name NAME.")
        })?;
        let configuration = self.directory.join("server.toml");
        let text = register::read(&configuration)?;
        let table: toml::Table = text.parse().map_err(|error| {
            let what = format!("{}: {}", configuration.display(), mistake::of(&text, &error));
            Failure::failed(what, "Mend the file.")
        })?;
        let address = table.get("listen").and_then(|listen| listen.get("address")).and_then(|all| all.get(0));
        let port = address.and_then(toml::Value::as_str).and_then(|address| address.rsplit_once(':'));
        Ok((found.names, port.and_then(|(_, port)| port.parse().ok()).unwrap_or(PORT)))
    }
}

/// Everything that a client needs.
fn fill_client(
    folder: &Path,
    name: &str,
    url: &str,
    authority: &Authority,
    register: &mut Register,
) -> Result<Issued, Failure> {
    let key = new_key()?;
    let issued = authority.issue(Subject::Client(name), &key)?;
    register.add(Subject::Client(name), &issued)?;
    make_directory(folder, PRIVATE_DIRECTORY)?;
    write_new(&folder.join("client.toml"), text::client(url).as_bytes(), SECRET)?;
    write_new(&folder.join("ca.pem"), authority.certificate_pem().as_bytes(), SECRET)?;
    write_new(&folder.join("client.pem"), issued.certificate_pem.as_bytes(), SECRET)?;
    write_new(&folder.join("client.key"), Zeroizing::new(key.serialize_pem()).as_bytes(), SECRET)?;
    files::sync(folder).map_err(|error| cannot("write", folder, &error))?;
    Ok(issued)
}

/// Puts a directory in its place, also over one that is there: whoever copies it meanwhile sees one or the other.
fn put(building: &Path, place: &Path) -> Result<(), Failure> {
    let put = || {
        if place.try_exists()? {
            rustix::fs::renameat_with(CWD, building, CWD, place, RenameFlags::EXCHANGE)?;
            std::fs::remove_dir_all(building)?;
        } else {
            std::fs::rename(building, place)?;
        }
        files::sync(place.parent().unwrap_or(Path::new(".")))
    };
    put().map_err(|error: std::io::Error| cannot("make", place, &error))
}

/// The signer makes its own key: this process never sees it.
fn make_root_key(root: &Path) -> Result<(), Failure> {
    let made = Command::new("/proc/self/exe")
        .args(["signer", "--make-root-key", "--root"])
        .arg(root)
        .env_clear()
        .envs(config::signer_environment())
        // What it says is part of what we say.
        .env_remove("SEALWRIGHT_LOG_FORMAT")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .map_err(|error| Failure::failed(format!("cannot start the signer: {error}"), "Try again."))?;
    if made.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&made.stderr).trim().to_owned();
    Err(Failure::failed(format!("the signer made no root key: {said}"), "See what it says."))
}

/// What clients are told: the first name, or, if this machine does not know it, the one by which it knows itself.
fn url(names: &[String], port: u16) -> String {
    let known =
        |name: &String| (name.as_str(), port).to_socket_addrs().is_ok_and(|mut all| all.next().is_some());
    let first = names.first().map_or("localhost", String::as_str);
    let only_local = |name: &String| name == "localhost";
    let host = match names.first() {
        Some(name) if !known(name) && names.iter().any(only_local) => "localhost",
        Some(_) | None => first,
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("https://{host}:{port}")
}

/// Whether the kernel has IPv6; a container often has not.
fn has_ipv6() -> bool {
    TcpListener::bind("[::]:0").is_ok()
}
