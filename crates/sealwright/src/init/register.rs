//! What the authority has issued (`ca/issued.tsv`), and who may connect (`clients.toml`). The first is only ever
//! appended to; the second is edited as a person would, so that comments and order stay.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use sealwright_client::source::kept;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

use crate::failure::Failure;
use crate::init::authority::{Issued, Subject};
use crate::init::files::{self, SECRET, cannot};
use crate::mistake;

/// Longest register or clients.toml that is read, in bytes.
const FILE_BYTES_MAX: usize = 16 << 20;

/// The open register. It is locked as long as this lives: two calls of `init` do not issue or edit at the same time.
pub(crate) struct Register {
    file: File,
    path: PathBuf,
}

/// One line of the register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Lower-case hexadecimal.
    pub(crate) serial: String,
    /// Whether it is a client's.
    pub(crate) is_client: bool,
    /// Common name.
    pub(crate) name: String,
    /// Last day, as `2028-11-30`.
    pub(crate) not_after: String,
}

impl Register {
    /// Opens, and makes it if it is not there.
    pub(crate) fn open(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join("issued.tsv");
        let open = || {
            // For reading and writing: so a FIFO does not keep us waiting either.
            let file = OpenOptions::new().read(true).append(true).create(true).mode(SECRET).open(&path)?;
            if !file.metadata()?.is_file() {
                return Err(std::io::Error::other("it is not a regular file"));
            }
            rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        };
        let file = open().map_err(|error| cannot("open", &path, &error))?;
        Ok(Self { file, path })
    }

    /// Writes a certificate down, before anybody can have it.
    pub(crate) fn add(&mut self, subject: Subject<'_>, issued: &Issued) -> Result<(), Failure> {
        let (kind, name) = match subject {
            Subject::Server(names) => ("server", names.first().map_or("server", String::as_str)),
            Subject::Client(name) => ("client", name),
        };
        let line = format!("{}\t{kind}\t{name}\t{}\n", issued.serial, issued.not_after);
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_all());
        written.map_err(|error| cannot("write", &self.path, &error))
    }

    /// All lines.
    pub(crate) fn lines(&mut self) -> Result<Vec<Line>, Failure> {
        let text = read(&self.path)?;
        text.lines()
            .map(|line| {
                parse(line).ok_or_else(|| {
                    Failure::failed(
                        format!(
                            "{} has a line that was not written by sealwright: {line}",
                            self.path.display()
                        ),
                        "Remove the line, or restore the folder ca from a backup.",
                    )
                })
            })
            .collect()
    }
}

fn parse(line: &str) -> Option<Line> {
    let mut fields = line.split('\t');
    let (serial, kind, name, not_after) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let is_client = match kind {
        "client" => true,
        "server" => false,
        _ => return None,
    };
    fields.next().is_none().then(|| Line {
        serial: serial.to_owned(),
        is_client,
        name: name.to_owned(),
        not_after: not_after.to_owned(),
    })
}

/// A text file of limited length.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    kept::read_text(path, FILE_BYTES_MAX).map_err(|error| cannot("read", path, &error))
}

/// clients.toml, being edited.
pub(crate) struct Clients {
    path: PathBuf,
    document: DocumentMut,
}

impl Clients {
    /// Reads it.
    pub(crate) fn open(directory: &Path) -> Result<Self, Failure> {
        let path = directory.join("clients.toml");
        let text = read(&path)?;
        let document = text.parse::<DocumentMut>().map_err(|error| {
            let mistake = mistake::at(&text, error.span(), error.message());
            let what = format!("{}: {mistake}", path.display());
            Failure::failed(what, "Mend the file by hand; nothing was changed.")
        })?;
        Ok(Self { path, document })
    }

    /// Whether it has an entry of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        let clients = self.document.get("client").and_then(Item::as_array_of_tables);
        clients.is_some_and(|clients| clients.iter().any(|client| is(client, name)))
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, name: &str, keys: &[String], administrator: bool) -> Result<(), Failure> {
        let mut client = Table::new();
        client.insert("name", value(name));
        client.insert("keys", value(keys.iter().map(String::as_str).collect::<Array>()));
        if administrator {
            client.insert("administrator", value(true));
        }
        client.decor_mut().set_prefix("\n");
        self.tables()?.push(client);
        Ok(())
    }

    /// Adds serial numbers to the revoked ones of a client; how many are new.
    pub(crate) fn revoke(&mut self, name: &str, serials: &[String]) -> Result<usize, Failure> {
        let wrong = self.shape();
        let client = self.tables()?.iter_mut().find(|client| is(client, name));
        let Some(client) = client else { return Ok(0) };
        let revoked = client.entry("revoked").or_insert_with(|| value(Array::new())).as_array_mut();
        let revoked = revoked.ok_or(wrong)?;
        let mut added = 0usize;
        for serial in serials {
            if !revoked.iter().any(|known| known.as_str() == Some(serial)) {
                revoked.push(serial.as_str());
                added = added.saturating_add(1);
            }
        }
        Ok(added)
    }

    /// Writes it back in one step.
    pub(crate) fn save(&self) -> Result<(), Failure> {
        let text = self.document.to_string();
        // What front would refuse at the next reload is not written in the first place.
        sealwright_server::clients::Clients::parse(&text)
            .map_err(|error| Failure::failed(Failure::chain(&error), error.advice()))?;
        files::replace(&self.path, text.as_bytes())
    }

    fn tables(&mut self) -> Result<&mut ArrayOfTables, Failure> {
        let wrong = self.shape();
        let clients = self.document.entry("client").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        clients.as_array_of_tables_mut().ok_or(wrong)
    }

    fn shape(&self) -> Failure {
        let what = format!("{}: client is not written as [[client]]", self.path.display());
        Failure::failed(what, "Mend the file by hand; nothing was changed.")
    }
}

fn is(client: &Table, name: &str) -> bool {
    client.get("name").and_then(Item::as_str) == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_keeps_what_was_issued_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut register = Register::open(folder.path()).unwrap();
        for serial in ["0a", "0b"] {
            let issued = Issued {
                certificate_pem: String::new(),
                serial: serial.to_owned(),
                not_after: "2028-11-30".to_owned(),
            };
            register.add(Subject::Client("build-7"), &issued).unwrap();
        }
        let lines = register.lines().unwrap();
        assert_eq!(lines.iter().map(|line| line.serial.as_str()).collect::<Vec<_>>(), ["0a", "0b"]);
        assert!(lines.iter().all(|line| line.is_client && line.name == "build-7"));
        std::fs::write(folder.path().join("issued.tsv"), "0a\tclient\n").unwrap();
        assert!(register.lines().is_err());
    }

    #[test]
    fn entries_are_added_and_revoked_and_what_a_person_wrote_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.toml");
        std::fs::write(&path, "# ours\n\n[[client]]\nname = \"admin\" # me\nkeys = [\"*\"]\n").unwrap();
        let mut clients = Clients::open(folder.path()).unwrap();
        clients.add("build-7", &["release".to_owned()], false).unwrap();
        assert!(clients.has("build-7") && clients.has("admin") && !clients.has("build"));
        assert_eq!(clients.revoke("admin", &["0a".to_owned(), "0b".to_owned()]).unwrap(), 2);
        assert_eq!(clients.revoke("admin", &["0b".to_owned()]).unwrap(), 0);
        clients.save().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# ours\n") && text.contains("# me"), "{text}");
        assert!(text.contains("revoked = [\"0a\", \"0b\"]"), "{text}");
        assert!(text.contains("[[client]]\nname = \"build-7\"\nkeys = [\"release\"]\n"), "{text}");
    }

    #[test]
    fn the_file_of_a_new_installation_is_one_that_front_takes() {
        let clients = sealwright_server::clients::Clients::parse(crate::init::text::CLIENTS).unwrap();
        assert_eq!(clients.len(), 1);
    }

    #[test]
    fn a_fifo_is_neither_a_register_nor_a_list_of_clients_and_nobody_waits_for_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["issued.tsv", "clients.toml"] {
            let fifo = folder.path().join(name);
            rustix::fs::mkfifoat(rustix::fs::CWD, fifo, rustix::fs::Mode::RWXU).unwrap();
        }
        assert!(Register::open(folder.path()).is_err());
        assert!(Clients::open(folder.path()).is_err());
    }

    #[test]
    fn a_file_that_is_no_list_of_clients_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.toml");
        std::fs::write(&path, "client = 1\n").unwrap();
        let mut clients = Clients::open(folder.path()).unwrap();
        assert!(clients.add("a", &[], false).is_err());
        std::fs::write(&path, "[[client\n").unwrap();
        assert!(Clients::open(folder.path()).is_err());
    }
}
