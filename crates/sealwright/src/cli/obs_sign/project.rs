//! `-P`, `-g`, `-x`, `-C`: keys that a project keeps itself, encrypted for a user of signd, and what is made of their public
//! halves. Nothing is written that was not verified here (docs/adr/0023).

use std::path::{Path, PathBuf};

use sealwright_client::error::Error;
use sealwright_client::signd::{Holder, RawKey};
use sealwright_client::source::kept;
use sealwright_crypto::algorithm::{HashAlgorithm, KeyAlgorithm};
use sealwright_crypto::digest::{Hasher, to_hex};
use sealwright_crypto::openpgp::armor::INPUT_BYTES_MAX;
use sealwright_crypto::openpgp::certificate::{Certificate, Component};
use sealwright_obs::command::{Command, Keygen};
use sealwright_obs::limits::PROJECT_KEY_BYTES_MAX;
use sealwright_obs::packet::KeyAlgorithm as PacketAlgorithm;
use sealwright_obs::project_key::ProjectKey;
use sealwright_obs::{Hash, Request};
use zeroize::Zeroizing;

use super::way::Opened;
use super::words::Mode;
use super::{Call, keys, raw, x509};
use crate::failure::{Exit, Failure};
use crate::init::files::SECRET;
use crate::output::shown;
use crate::terminal;

/// Days that obs-sign gives a key at most.
const DAYS: core::ops::RangeInclusive<u32> = 1..=9_999;
/// What stands for standard output.
const STDOUT: &str = "-";

/// Whose key signs, and its public half where it was given.
///
/// # Errors
/// A file that cannot be read, or is no such key.
pub(super) fn holder(call: &Call<'_>) -> Result<(Holder, Option<Certificate>), Failure> {
    let words = call.words;
    let project = words.project_key.as_deref().map(project_key).transpose()?;
    let certificate = match (&project, &words.public_key) {
        (Some(_), Some(path)) => Some(public_key(path)?),
        (None, Some(_)) => {
            return Err(Failure::failed("sign: --public-key is that of -P", "Leave it out, or add -P FILE."));
        }
        (_, None) => None,
    };
    Ok((Holder { user: call.user.to_owned(), project }, certificate))
}

/// The same, for what is written: a project's key needs its public half.
///
/// # Errors
/// As [`holder`]; `-P` without `--public-key`.
pub(super) fn verifiable(call: &Call<'_>) -> Result<(Holder, Option<Certificate>), Failure> {
    if call.words.project_key.is_some() && call.words.public_key.is_none() {
        return Err(Failure::failed(
            "sign: -P: without its public key nothing that it signs can be verified, and nothing unverified is written",
            "Name it: --public-key FILE. It is what sign -g printed; OBS keeps it as _pubkey of the project.",
        ));
    }
    holder(call)
}

/// A server of ours is asked for its own keys alone.
///
/// # Errors
/// `-P` or `--public-key` with a server of ours.
pub(super) fn refuse(call: &Call<'_>, opened: &Opened) -> Result<(), Failure> {
    match (&call.words.project_key, &call.words.public_key) {
        (None, None) => Ok(()),
        _ => opened.signd("-P").map(drop),
    }
}

/// `-k`, `--full-keyid` and `--fingerprint` of a project's key whose public half is not there: what the server says.
///
/// # Errors
/// The server refuses it, or does not say the fingerprint.
pub(super) async fn name(call: &Call<'_>, opened: &Opened) -> Result<Exit, Failure> {
    let signd = opened.signd("-P")?;
    let (holder, _) = holder(call)?;
    let said =
        signd.asked_issuer(&holder, call.hash).await.map_err(|error| keys::refused(call.user, &error))?;
    let have = match said.algorithm {
        PacketAlgorithm::Rsa => "rsa",
        PacketAlgorithm::Dsa => "dsa",
        PacketAlgorithm::Ecdsa => "ecdsa",
        PacketAlgorithm::EdDsaLegacy => "eddsa",
    };
    keys::demand_name(call.words.algorithm.as_deref(), have)?;
    let fingerprint = said.fingerprint.map(|bytes| to_hex(&bytes));
    if call.words.mode == Some(Mode::Fingerprint) && fingerprint.is_none() {
        return Err(Failure::failed(
            "could not determine fingerprint",
            "Name the public key: --public-key FILE.",
        ));
    }
    keys::print(call.words.mode, &to_hex(&said.issuer), &fingerprint.unwrap_or_default());
    Ok(Exit::Done)
}

/// `-g`.
///
/// # Errors
/// Arguments that signd would refuse, what it refuses, a file of `-P` that has something in it.
pub(super) async fn make(call: &Call<'_>, opened: &Opened) -> Result<Exit, Failure> {
    let signd = opened.signd("-g")?;
    let wanted = keygen(call)?;
    let path = call.words.project_key.as_deref().filter(|path| *path != Path::new(STDOUT));
    if let Some(path) = path
        && path.metadata().is_ok_and(|there| there.len() > 0)
    {
        return Err(Failure::failed(
            format!("sign: -P: {} has something in it", shown(path)),
            "A key that is gone cannot be made again: name another file, or move that one away.",
        ));
    }
    let made = signd.make_project_key(call.user, &wanted).await;
    let (public, secret) = made.map_err(|error| keys::refused(call.user, &error))?;
    let text = format!("{}\n", secret.to_hex());
    match path {
        Some(path) => raw::write(path, text.as_bytes(), SECRET)?,
        None => terminal::out_bytes(text.as_bytes()),
    }
    terminal::out_bytes(&public);
    Ok(Exit::Done)
}

/// The four words, checked as signd checks them.
fn keygen(call: &Call<'_>) -> Result<Keygen, Failure> {
    let words = call.words.files.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let said = |why: String| Failure::failed(format!("sign: -g: {why}"), "See sign --help.");
    let request = Request::new_form("keygen", call.user, Hash::Sha256, words);
    let command = request.map_err(|error| said(error.to_string()))?.command();
    let command = command.map_err(|refusal| said(refusal.to_string()))?;
    let Command::Keygen(keygen) = command else { return Err(misread()) };
    Ok(keygen)
}

/// `-x`.
///
/// # Errors
/// A file that is no public key or has no end, what signd refuses.
pub(super) async fn extend(call: &Call<'_>, opened: &Opened) -> Result<Exit, Failure> {
    let signd = opened.signd("-x")?;
    let [days, path] = call.words.files.as_slice() else { return Err(misread()) };
    let days = days.to_str().and_then(|days| days.parse().ok()).filter(|days| DAYS.contains(days));
    let days = days.ok_or_else(|| Failure::failed("bad expire argument", "Days: 1 to 9999."))?;
    let certificate = public_key(path)?;
    let (holder, _) = holder(call)?;
    let extended = signd.extended(&holder, &certificate, days).await;
    let extended = extended.map_err(|error| of_other_key(call, &error))?;
    terminal::out_bytes(extended.to_armor().as_bytes());
    Ok(Exit::Done)
}

/// `-C`.
///
/// # Errors
/// A file that is no public key of RSA with an end and an address, what signd refuses.
pub(super) async fn certify(call: &Call<'_>, opened: &Opened) -> Result<Exit, Failure> {
    let signd = opened.signd("-C")?;
    let [path] = call.words.files.as_slice() else { return Err(misread()) };
    let certificate = public_key(path)?;
    let component = primary(&certificate)?;
    require_rsa(call, component)?;
    let hash = match call.hash {
        HashAlgorithm::Sha512 => HashAlgorithm::Sha512,
        HashAlgorithm::Sha256 | HashAlgorithm::Sha384 => HashAlgorithm::Sha256,
    };
    let unsigned = x509::Unsigned::new(&certificate, component, hash)?;
    let (holder, _) = holder(call)?;
    let digest = Hasher::digest(hash, unsigned.to_be_signed());
    let key = RawKey { holder: &holder, component };
    let values = signd.pkcs1(key, &[digest]).await.map_err(|error| of_other_key(call, &error))?;
    let [value] = values.as_slice() else { return Err(misread()) };
    terminal::out_bytes(unsigned.finish(value)?.as_bytes());
    Ok(Exit::Done)
}

/// The primary key.
///
/// # Errors
/// None is there; parsing has refused that.
pub(super) fn primary(certificate: &Certificate) -> Result<&Component, Failure> {
    certificate.components().first().ok_or_else(misread)
}

/// What is made here without OpenPGP is of RSA.
///
/// # Errors
/// Another key; another than `-A` says.
pub(super) fn require_rsa(call: &Call<'_>, component: &Component) -> Result<(), Failure> {
    keys::demand(call.words.algorithm.as_deref(), component.algorithm())?;
    match component.algorithm() {
        Some(KeyAlgorithm::Rsa(_)) => Ok(()),
        Some(KeyAlgorithm::Ed25519) | None => {
            Err(Failure::failed("not a RSA pubkey", "Use an RSA key of 2048 bits or more (-u, -P)."))
        }
    }
}

fn public_key(path: &Path) -> Result<Certificate, Failure> {
    let bytes = read(path, INPUT_BYTES_MAX)?;
    Certificate::parse(&bytes).map_err(|error| {
        let what = format!("{}: {}", shown(path), Failure::chain(&error));
        Failure::failed(what, "Name a file with one public key, as sign -p or sign -g prints it.")
    })
}

fn project_key(path: &Path) -> Result<ProjectKey, Failure> {
    // Two digits a byte, and the end of a line.
    let bytes = read(path, PROJECT_KEY_BYTES_MAX.saturating_mul(2).saturating_add(2))?;
    ProjectKey::from_file(&String::from_utf8_lossy(&bytes)).map_err(|error| {
        Failure::failed(format!("{}: {error}", shown(path)), "Name the file that sign -g wrote with -P.")
    })
}

fn read(path: &Path, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let read = kept::open(path).and_then(|file| kept::read(&file, bytes_max));
    read.map_err(|error| Failure::failed(format!("{}: {error}", shown(path)), "Check the name of the file."))
}

/// Who forgets `-P` has the user's key asked.
fn of_other_key(call: &Call<'_>, error: &Error) -> Failure {
    let failure = keys::refused(call.user, error);
    let is_other = failure.what.contains("has another issuer");
    if is_other && call.words.project_key.is_none() {
        return Failure::failed(failure.what, "It is not the key of this user. Did you forget -P?");
    }
    failure
}

fn misread() -> Failure {
    Failure::failed("sign: the words were misread", "Please report it.")
}

/// A path with an ending behind its name.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
