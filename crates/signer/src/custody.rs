//! The way out of custody, for whoever can read root key and store and so has every software key already: beside the
//! service, in a process that serves nobody (docs/adr/0020). No message of front reaches this.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use pgp::crypto::hash::HashAlgorithm;
use pgp::crypto::sym::SymmetricKeyAlgorithm;
use pgp::packet::{PacketHeader, SecretKey, SecretSubkey};
use pgp::ser::Serialize as _;
use pgp::types::{Password, S2kParams, StringToKey, Tag};
use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::digest::to_hex;
use sealwright_proto::convert::batch::SealedKey;
use sealwright_proto::status::{Code, Fault};
use zeroize::Zeroizing;

use crate::backend::{Backend as _, software::Software};
use crate::error::Error;
use crate::files::{self, Lock};
use crate::opened::Component;
use crate::packets;
use crate::project::secret_body;
use crate::root::{Root, Sealer};
use crate::seal::{Primary, StoredComponent, StoredKey};
use crate::secret::{Secret, fill_random};
use crate::tokens::Tokens;

/// Beside the root key: a line for each key that left, or was about to.
pub const EXPORTS_FILE: &str = "exports";

/// How often the passphrase is hashed, coded as in RFC 9580 section 3.7.1.3: 65,536 bytes. It is 256 random bits, so
/// that nobody guesses it however cheap a guess is.
const PASSPHRASE_WORK: u8 = 96;
/// Bytes of a passphrase before they are written in hexadecimal.
const PASSPHRASE_BYTES: usize = 32;

/// GnuPG's secret part for a key whose secret is elsewhere (GnuPG, doc/DETAILS).
const STUB: &[u8] = b"\xff\x00\x65\x00GNU\x01";

/// Opened root and data key.
pub struct Custody {
    directory: PathBuf,
    data_key: Sealer,
}

impl Custody {
    /// Opens what is there; nothing is made. This process forbids dumps of its memory from then on.
    ///
    /// # Errors
    /// Those of a signer that starts.
    pub fn open(directory: &Path, root_key: Option<&Path>) -> Result<Self, Error> {
        crate::process::give_up_dumps_and_privileges("forbid dumps of the memory with the secret")?;
        let root = Root::open(directory, root_key, false)?;
        Ok(Self { directory: directory.to_owned(), data_key: root.data_key })
    }

    /// The transferable secret key (RFC 9580 section 10.2) under the passphrase, as gpg 2.2 imports it: AES-256 in CFB
    /// mode with a SHA-1 check, iterated and salted SHA-256. Keys of the certificate that are not here are stubs.
    ///
    /// # Errors
    /// [`Code::Unsupported`] for a key on a token or one of version 6; [`Code::RootKeyWrong`], [`Code::SealBroken`].
    pub fn transferable(
        &self,
        key: &SealedKey,
        certificate: &[u8],
        passphrase: &str,
    ) -> Result<Vec<u8>, Fault> {
        let stored = StoredKey::open(&self.data_key, key)?;
        let primary = match &stored.primary {
            Primary::Separate(primary) => Some(primary),
            Primary::Signs | Primary::Absent => None,
        };
        let ours: Vec<&StoredComponent> = [Some(&stored.signing), primary].into_iter().flatten().collect();
        for component in &ours {
            exportable(component)?;
        }
        let mut out = Vec::new();
        let mut found = 0_usize;
        for packet in packets::split(certificate).map_err(|error| internal(&error))? {
            let tag = if packet.tag == Tag::PublicKey {
                Tag::SecretKey
            } else if packet.tag == Tag::PublicSubkey {
                Tag::SecretSubkey
            } else {
                out.extend_from_slice(packet.whole);
                continue;
            };
            let body = match ours.iter().find(|component| component.public.body() == packet.body) {
                Some(component) => {
                    found = found.saturating_add(1);
                    protected(tag, component, passphrase)?
                }
                None => [packet.body, STUB].concat(),
            };
            out.extend(packets::write(tag, &body).map_err(|error| internal(&error))?);
        }
        if found == ours.len() { Ok(out) } else { Err(internal(&"its certificate is of another key")) }
    }

    /// A new passphrase: 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::Random`].
    pub fn passphrase() -> Result<Zeroizing<String>, Error> {
        let secret = Secret::random(PASSPHRASE_BYTES)?;
        Ok(Zeroizing::new(to_hex(secret.expose())))
    }

    /// Adds the line to [`EXPORTS_FILE`] and waits until it is on the disk: before the secret goes anywhere.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::NotPrivate`].
    pub fn record(&self, line: &str) -> Result<(), Error> {
        let _lock = Lock::take(&self.directory)?;
        let path = self.directory.join(EXPORTS_FILE);
        let mut file = files::open_to_lock(&path)?;
        let text = format!("{}\n", line.replace(char::is_control, "?"));
        file.seek(SeekFrom::End(0))
            .and_then(|_| file.write_all(text.as_bytes()))
            .and_then(|()| file.sync_all())
            .map_err(files::failed("write", &path))?;
        files::sync_directory(&self.directory)
    }
}

fn exportable(component: &StoredComponent) -> Result<(), Fault> {
    if component.backend != Software.number() {
        return Err(Fault::new(Code::Unsupported, "it is on a token, which gives no secret out"));
    }
    if component.public.version() != KeyVersion::V4 {
        return Err(Fault::new(Code::Unsupported, "it is of OpenPGP version 6, which gpg cannot read"));
    }
    // The secret belongs to the public half.
    Component::open(&Tokens::none(), component).map(drop)
}

/// The body of the secret packet, its numbers under the passphrase.
fn protected(tag: Tag, component: &StoredComponent, passphrase: &str) -> Result<Vec<u8>, Fault> {
    let clear = secret_body(component)?;
    let len = u32::try_from(clear.len()).map_err(|error| internal(&error))?;
    let header = PacketHeader::new_fixed(tag, len);
    let (password, parameters) = (Password::from(passphrase), parameters()?);
    let read = clear.as_slice();
    let body = if tag == Tag::SecretKey {
        SecretKey::try_from_reader(header, read).and_then(|mut key| {
            key.set_password_with_s2k(&password, parameters)?;
            key.to_bytes()
        })
    } else {
        SecretSubkey::try_from_reader(header, read).and_then(|mut key| {
            key.set_password_with_s2k(&password, parameters)?;
            key.to_bytes()
        })
    };
    body.map_err(|error| internal(&error))
}

fn parameters() -> Result<S2kParams, Fault> {
    let (mut salt, mut iv) = ([0; 8], [0; 16]);
    fill_random(&mut salt).and_then(|()| fill_random(&mut iv)).map_err(|error| Fault::from(&error))?;
    let s2k =
        StringToKey::IteratedAndSalted { hash_alg: HashAlgorithm::Sha256, salt, count: PASSPHRASE_WORK };
    Ok(S2kParams::Cfb { sym_alg: SymmetricKeyAlgorithm::AES256, s2k, iv: iv.to_vec().into() })
}

fn internal(reason: &dyn core::fmt::Display) -> Fault {
    Fault::new(Code::Internal, format!("the key cannot be written for gpg: {reason}"))
}
