//! Project keys: secret keys that clients of obs-sign keep, encrypted to a key of ours, and send along with each digest. They are
//! opened here, sign, and are forgotten (docs/adr/0019); and made here, certified by the key that will open them.
//!
//! Whoever has a message for this key learns from us whether it opens, and no more: there is one error for all that can be
//! wrong with it.

mod make;
mod message;

use sealwright_crypto::algorithm::KeyVersion;
use sealwright_proto::status::{Code, Fault};

pub(crate) use make::secret_body;

use crate::import;
use crate::opened::Component;
use crate::tokens::Tokens;

pub(crate) use make::make;

/// The key in a message that is encrypted to `recipient`, ready to sign.
///
/// # Errors
/// [`Code::MalformedRequest`], one for all reasons; [`Code::Unsupported`] if `recipient` opens nothing.
pub(crate) fn open(recipient: &Component, project_key: &[u8]) -> Result<Component, Fault> {
    let packet = message::decrypt(recipient, project_key)?.ok_or_else(closed)?;
    let stored = import::clear_secret(packet.expose()).map_err(|_| closed())?;
    if stored.public.version() != KeyVersion::V4 {
        return Err(closed());
    }
    Component::open(&Tokens::none(), &stored).map_err(|_| closed())
}

fn closed() -> Fault {
    let message =
        "the project key does not open: it is damaged, for another key, or of a kind that is not served here";
    Fault::new(Code::MalformedRequest, message)
}

#[cfg(test)]
mod tests;
