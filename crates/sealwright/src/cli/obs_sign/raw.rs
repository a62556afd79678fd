//! `-O`, with `--bulk-cpio`: bare signatures of RSA over files, as `openssl dgst -verify` takes them. Up to a hundred files
//! go in one request.

use std::fs::{File, Permissions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealwright_client::signd::{DIGESTS_MAX, Holder, RawKey, Signd};
use sealwright_client::source::TEMPORARY_PREFIX;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_crypto::openpgp::certificate::{Certificate, Component};
use sealwright_crypto::openpgp::fingerprint::Fingerprint;

use super::way::Opened;
use super::{Call, cpio, keys, project};
use crate::failure::{Exit, Failure};
use crate::init::files::{self, PUBLIC};
use crate::output::shown;
use crate::terminal;

/// Bytes of a file in memory at once.
const PIECE_BYTES: usize = 128 << 10;
const ENDING: &str = ".sig";
const STDIN: &str = "<stdin>";

/// Who signs.
struct Key {
    signd: Arc<Signd>,
    holder: Holder,
    certificate: Certificate,
    issuer: Fingerprint,
    hash: HashAlgorithm,
}

/// Signs the files of a call, or standard input.
///
/// # Errors
/// The key cannot be used. What fails with a file is said, and the others are signed.
pub(super) async fn sign(call: &Call<'_>, opened: &Opened) -> Result<Exit, Failure> {
    let key = Key::find(call, opened.signd("-O")?).await?;
    let paths = &call.words.files;
    if paths.is_empty() {
        return key.sign_stdin(call).await.map(|()| Exit::Done);
    }
    let mut exit = Exit::Done;
    let mut failed = |path: &Path, failure: Failure| {
        terminal::err(&terminal::safe(&format!("{}: {}", shown(path), failure.what)));
        terminal::err(&format!("    {}", terminal::safe(&failure.advice)));
        exit = Exit::Failed;
    };
    if call.words.bulk {
        for path in paths {
            if let Err(failure) = key.sign_archive_file(path).await {
                failed(path, failure);
            }
        }
        return Ok(exit);
    }
    for chunk in paths.chunks(DIGESTS_MAX) {
        let mut asked: Vec<(&PathBuf, Digest)> = Vec::new();
        for path in chunk {
            match File::open(path).and_then(|mut file| key.digest(&mut file)) {
                Ok(digest) => asked.push((path, digest)),
                Err(error) => failed(path, unread(&error)),
            }
        }
        let digests: Vec<Digest> = asked.iter().map(|(_, digest)| *digest).collect();
        for ((path, _), value) in asked.iter().zip(key.ask(&digests).await?) {
            match write(&project::with_ending(path, ENDING), &value, PUBLIC) {
                Ok(()) if call.words.verbose => terminal::out(&format!("raw openssl sign {}", shown(path))),
                Ok(()) => {}
                Err(failure) => failed(path, failure),
            }
        }
    }
    Ok(exit)
}

impl Key {
    async fn find(call: &Call<'_>, signd: &Arc<Signd>) -> Result<Self, Failure> {
        let (holder, given) = project::verifiable(call)?;
        let found = signd.certificate(&holder, given, call.hash).await;
        let (certificate, issuer) = found.map_err(|error| keys::refused(call.user, &error))?;
        let key = Self { signd: Arc::clone(signd), holder, certificate, issuer, hash: call.hash };
        project::require_rsa(call, key.component()?)?;
        Ok(key)
    }

    fn component(&self) -> Result<&Component, Failure> {
        self.certificate
            .find(&self.issuer)
            .ok_or_else(|| Failure::failed("sign: a component without its certificate", "Please report it."))
    }

    /// A signature for each digest, verified.
    async fn ask(&self, digests: &[Digest]) -> Result<Vec<Vec<u8>>, Failure> {
        if digests.is_empty() {
            return Ok(Vec::new());
        }
        let key = RawKey { holder: &self.holder, component: self.component()? };
        let values = self.signd.pkcs1(key, digests).await;
        values.map_err(|error| keys::refused(&self.holder.user, &error))
    }

    fn digest(&self, content: &mut impl Read) -> io::Result<Digest> {
        let mut hasher = Hasher::new(self.hash);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let len = content.read(&mut piece)?;
            match piece.get(..len).filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => hasher.update(bytes),
                None => return Ok(hasher.finish()),
            }
        }
    }

    async fn sign_stdin(&self, call: &Call<'_>) -> Result<(), Failure> {
        let named = |failure: Failure| Failure::failed(format!("{STDIN}: {}", failure.what), failure.advice);
        if call.words.bulk {
            let mut out = Vec::new();
            self.sign_archive(&mut io::stdin().lock(), &mut out).await.map_err(named)?;
            terminal::out_bytes(&out);
            return Ok(());
        }
        let digest = self.digest(&mut io::stdin().lock()).map_err(|error| named(unread(&error)))?;
        for value in self.ask(&[digest]).await? {
            terminal::out_bytes(&value);
        }
        Ok(())
    }

    /// The archive with the signatures, beside the archive.
    async fn sign_archive_file(&self, path: &Path) -> Result<(), Failure> {
        let mut archive =
            BufReader::with_capacity(PIECE_BYTES, File::open(path).map_err(|error| unread(&error))?);
        let target = project::with_ending(path, ENDING);
        let temporary = temporary(&target, PUBLIC).map_err(|error| unwritten(&target, &error))?;
        let mut out = BufWriter::new(temporary.as_file());
        self.sign_archive(&mut archive, &mut out).await?;
        out.flush().map_err(|error| unwritten(&target, &error))?;
        drop(out);
        name(temporary, &target).map_err(|error| unwritten(&target, &error))
    }

    /// What is no regular file is left out, as obs-sign does.
    async fn sign_archive(&self, archive: &mut impl Read, out: &mut impl Write) -> Result<(), Failure> {
        let unreadable = |error: io::Error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                return Failure::failed("the archive ends before its last entry", "Give it whole.");
            }
            unread(&error)
        };
        let full = |error: io::Error| {
            Failure::failed(format!("cannot write the signatures: {error}"), "Is the disk full?")
        };
        let mut entries: Vec<cpio::Entry> = Vec::new();
        let mut digests: Vec<Digest> = Vec::new();
        loop {
            let entry = cpio::Entry::read(archive).map_err(unreadable)?;
            let is_last = entry.is_trailer();
            if is_last || digests.len() == DIGESTS_MAX {
                for (entry, value) in entries.drain(..).zip(self.ask(&digests).await?) {
                    out.write_all(&entry.signature(&value)).map_err(full)?;
                }
                digests.clear();
            }
            if is_last {
                return out.write_all(&entry.head()).map_err(full);
            }
            let mut content = entry.content(&mut *archive);
            let digest = self.digest(&mut content).map_err(unreadable)?;
            content.finish().map_err(unreadable)?;
            if entry.is_file() {
                entries.push(entry);
                digests.push(digest);
            }
        }
    }
}

fn unread(error: &io::Error) -> Failure {
    Failure::failed(error.to_string(), "Check the file.")
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    files::cannot("write", path, error)
}

/// A file with this content in the place of what was there, or what was there.
///
/// # Errors
/// The directory cannot be written.
pub(super) fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    let write = || {
        let mut file = temporary(path, mode)?;
        file.write_all(bytes)?;
        name(file, path)
    };
    write().map_err(|error| unwritten(path, &error))
}

/// A file without its name yet; the umask takes from the mode.
fn temporary(path: &Path, mode: u32) -> io::Result<tempfile::NamedTempFile> {
    let mut new = tempfile::Builder::new();
    new.prefix(TEMPORARY_PREFIX).permissions(Permissions::from_mode(mode)).tempfile_in(folder(path))
}

fn name(file: tempfile::NamedTempFile, path: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    files::sync(folder(path))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
