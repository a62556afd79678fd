//! New project keys: made, certified by themselves and by the key of the request, encrypted to that, and forgotten.

use std::sync::Arc;

use pgp::packet::SubpacketData;
use pgp::ser::Serialize as _;
use pgp::types::Tag;
use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::openpgp::certificate::Certificate;
use sealwright_proto::convert::project::{MakeProjectKey, ProjectKeyMade};
use sealwright_proto::status::{Code, Fault};
use zeroize::Zeroizing;

use super::message;
use crate::backend::Backend as _;
use crate::backend::software::{Software, openpgp_numbers};
use crate::certify::{self, Claims};
use crate::clock::openpgp_time;
use crate::create::end_of_validity;
use crate::opened::Component;
use crate::packets;
use crate::public::{PublicHalf, push_mpi};
use crate::seal::{Primary, StoredComponent, StoredKey};
use crate::tokens::Tokens;

/// Makes it as of `now` (Unix seconds). Who calls it has seen that the key was sealed for project keys.
///
/// # Errors
/// [`Code::Unsupported`] if the key opens no messages, or its primary key, which certifies, is not here; [`Code::Internal`].
pub(crate) fn make(
    tokens: &Tokens,
    owner: &StoredKey,
    wanted: &MakeProjectKey,
    now: i64,
) -> Result<ProjectKeyMade, Fault> {
    let recipient = Component::open(tokens, &owner.signing)?;
    recipient.decrypting()?;
    let separate = match &owner.primary {
        Primary::Signs => None,
        Primary::Separate(primary) => Some(Component::open(tokens, primary)?),
        Primary::Absent => {
            return Err(Fault::new(Code::Unsupported, "its primary key, which certifies, is not here"));
        }
    };
    let primary = separate.as_ref().unwrap_or(&recipient);
    let created = openpgp_time(now)?;
    let (numbers, secret) = Software.generate(wanted.algorithm).map_err(|failed| internal(&failed.0))?;
    let public = PublicHalf::new(KeyVersion::V4, created, &numbers).map_err(|error| internal(&error))?;
    let stored = StoredComponent { backend: Software.number(), public: Arc::new(public), secret };
    let project = Component::open(&Tokens::none(), &stored)?;
    let certificate = certificate(primary, &project, wanted, now)?;
    let body = secret_body(&stored)?;
    Ok(ProjectKeyMade { certificate, encrypted: message::encrypt(&recipient, &body)? })
}

/// What it says of itself, and that `primary` says so too. Read like a stranger would, it can sign.
fn certificate(
    primary: &Component,
    project: &Component,
    wanted: &MakeProjectKey,
    now: i64,
) -> Result<Vec<u8>, Fault> {
    let created = openpgp_time(now)?;
    let expires = end_of_validity(now, wanted.valid_for_s)?;
    let user = certify::user_id(&wanted.user_id)?;
    let mut other = vec![SubpacketData::IsPrimary(true)];
    other.extend(certify::new_primary_claims(true));
    let mut out =
        packets::write(Tag::PublicKey, project.public().body()).map_err(|error| internal(&error))?;
    let user_body = user.to_bytes().map_err(|error| internal(&error))?;
    out.extend(packets::write(Tag::UserId, &user_body).map_err(|error| internal(&error))?);
    out.extend(certify::certify_user(project, &user, Claims { created, expires, other })?);
    out.extend(certify::certify_other(primary, project, &user, created)?);
    let read = Certificate::parse(&out).map_err(|error| internal(&error))?;
    let component = read.find(&project.public().fingerprint());
    match component.map(|component| component.unfit_to_sign(now)) {
        Some(None) if read.expires() == expires => Ok(out),
        Some(_) | None => Err(internal(&"its certificate does not let it sign as asked")),
    }
}

/// The body of an unprotected secret key packet (RFC 9580 section 5.5.3, version 4).
pub(crate) fn secret_body(stored: &StoredComponent) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let numbers =
        openpgp_numbers(&stored.secret).ok_or_else(|| internal(&"its numbers cannot be written"))?;
    let len = numbers.iter().fold(0_usize, |len, number| len.saturating_add(number.len()).saturating_add(2));
    let mut secret = Zeroizing::new(Vec::with_capacity(len));
    for number in numbers {
        push_mpi(&mut secret, number).map_err(|error| internal(&error))?;
    }
    let sum = secret.iter().fold(0_u16, |sum, byte| sum.wrapping_add(u16::from(*byte)));
    Ok(Zeroizing::new([stored.public.body(), &[0], &secret, &sum.to_be_bytes()].concat()))
}

fn internal(reason: &dyn core::fmt::Display) -> Fault {
    Fault::new(Code::Internal, format!("no project key was made: {reason}"))
}
