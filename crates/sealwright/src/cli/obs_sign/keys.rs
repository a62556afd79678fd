//! `-p`, `-k`, `--full-keyid`, `--fingerprint`: what a user's key is.

use sealwright_client::connection::{Connection, Key};
use sealwright_client::error::{Code, Error};
use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;

use super::way::Opened;
use super::words::Mode;
use super::{Call, project};
use crate::failure::{Exit, Failure};
use crate::terminal;

/// Hexadecimal digits of a short key id.
const SHORT_DIGITS: usize = 8;

/// Prints the public key, armored.
pub(super) async fn public_key(call: &Call<'_>, opened: &Opened) -> Result<Exit, Failure> {
    let bytes = match opened {
        Opened::Ours(server) => {
            let (certificate, _) = ours(call.user, server.connection()).await?;
            certificate.to_armor().into_bytes()
        }
        Opened::Signd(signd) => {
            let sent = signd.public_key(call.user, call.hash).await;
            sent.map_err(|error| refused(call.user, &error))?
        }
    };
    terminal::out_bytes(&bytes);
    Ok(Exit::Done)
}

/// Prints the id or the fingerprint of the component that signs.
pub(super) async fn name(call: &Call<'_>, opened: &Opened) -> Result<Exit, Failure> {
    if call.words.project_key.is_some() && call.words.public_key.is_none() {
        return project::name(call, opened).await;
    }
    let (certificate, issuer) = match opened {
        Opened::Ours(server) => {
            project::refuse(call, opened)?;
            ours(call.user, server.connection()).await?
        }
        Opened::Signd(signd) => {
            let (holder, given) = project::holder(call)?;
            let found = signd.certificate(&holder, given, call.hash).await;
            found.map_err(|error| refused(call.user, &error))?
        }
    };
    let algorithm = certificate.find(&issuer).and_then(|component| component.algorithm());
    demand(call.words.algorithm.as_deref(), algorithm)?;
    let id = issuer.key_id_hex();
    print(call.words.mode, &id, &issuer.to_string());
    Ok(Exit::Done)
}

/// As `-k`, `--full-keyid` and `--fingerprint` print it.
pub(super) fn print(mode: Option<Mode>, key_id: &str, fingerprint: &str) {
    let text = match mode {
        Some(Mode::Fingerprint) => fingerprint,
        Some(Mode::ShortKeyId) => key_id.get(SHORT_DIGITS..).unwrap_or_default(),
        Some(_) | None => key_id,
    };
    terminal::out(&text.to_ascii_uppercase());
}

async fn ours(user: &str, connection: &Connection) -> Result<(Certificate, Fingerprint), Failure> {
    named(user)?;
    let key: Key = connection.describe(user).await.map_err(|error| refused(user, &error))?;
    key.parse_certificate().map_err(|error| refused(user, &error))
}

/// A server of ours has no default key.
///
/// # Errors
/// None is named.
pub(super) fn named(user: &str) -> Result<(), Failure> {
    if user.is_empty() {
        return Err(Failure::failed("sign: no key is named", "Name one: -u USER, or `user:` in sign.conf."));
    }
    Ok(())
}

/// `-A`.
///
/// # Errors
/// The key is of another algorithm.
pub(super) fn demand(wanted: Option<&str>, key: Option<KeyAlgorithm>) -> Result<(), Failure> {
    let have = match key {
        Some(KeyAlgorithm::Rsa(_)) => "rsa",
        Some(KeyAlgorithm::Ed25519) => "eddsa",
        None => "another",
    };
    demand_name(wanted, have)
}

/// The same, where the server named it.
///
/// # Errors
/// The key is of another algorithm.
pub(super) fn demand_name(wanted: Option<&str>, have: &str) -> Result<(), Failure> {
    match wanted.filter(|wanted| *wanted != have) {
        None => Ok(()),
        Some(wanted) => Err(Failure::failed(
            format!("unexpected public key algorithm: wanted {wanted}, got {have}"),
            "Use another key (-u), or leave -A out.",
        )),
    }
}

/// Why there is no key of that name. Copr looks for the text of the first, and makes the key.
pub(super) fn refused(user: &str, error: &Error) -> Failure {
    match error.server_code() {
        Some(Code::KeyNotFound) => Failure::failed(format!("unknown key: {user}"), error.advice()),
        Some(_) | None => Failure::failed(Failure::chain(error), error.advice()),
    }
}
