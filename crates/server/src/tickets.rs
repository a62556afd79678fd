//! Salts for version 6 signatures, each with a ticket: what front must know when the ticket comes back, sealed, so that
//! handing it out keeps no state. That a ticket is used once is the store's (`store/src/intents.rs`).
//!
//! ```text
//! length   field
//! 1        version, 1                                  \
//! 8        id of the sealing key                        | associated data
//! 12       nonce                                       /  (as the nonce)
//! ..       AES-256-GCM-SIV of:
//! 16         id of the ticket, random
//! 8          its end, Unix milliseconds, big-endian
//! 16         key id, UUID of version 7
//! 1          hash, its OpenPGP number
//! 1, ..      name of the principal: length, bytes
//! 16, 24, 32 the salt
//! 16         tag
//! ```
//!
//! The sealing key is in memory alone, and changed every hour; the one before is kept, longer than any ticket lives.

use std::sync::{Arc, Mutex, PoisonError};

use aes_gcm_siv::aead::{AeadInOut as _, KeyInit as _};
use aes_gcm_siv::{Aes256GcmSiv, Nonce, Tag};
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_proto::convert::salts::SaltTicket;
use sealwright_proto::limits::TICKET_BYTES_MAX;
use sealwright_proto::names::KeyId;
use sealwright_proto::status::{Code, Fault};
use zeroize::Zeroizing;

/// How long a ticket is good, seconds: the largest files are hashed in minutes, and a used ticket is remembered so
/// long.
pub const VALID_FOR_S: u32 = 30 * 60;

/// How long a sealing key makes tickets, milliseconds.
const ROTATION_MS: i64 = 60 * 60 * 1000;

const VERSION: u8 = 1;
const KEY_TAG_BYTES: usize = 8;
const NONCE_BYTES: usize = 12;
const ID_BYTES: usize = 16;
/// Version and id of the sealing key.
const HEADER_BYTES: usize = 1 + KEY_TAG_BYTES;

/// Hands out tickets and opens them. Clones share the sealing keys.
#[derive(Clone, Default)]
pub struct Tickets {
    keys: Arc<Mutex<Keys>>,
}

#[derive(Clone, Default)]
struct Keys {
    current: Option<Arc<SealingKey>>,
    previous: Option<Arc<SealingKey>>,
}

struct SealingKey {
    tag: [u8; KEY_TAG_BYTES],
    key: Zeroizing<[u8; 32]>,
    /// Unix milliseconds.
    made_ms: i64,
}

/// Who a ticket is for, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder<'a> {
    /// Name of the principal, at most 255 bytes.
    pub principal: &'a str,
    /// The key to sign with.
    pub key_id: KeyId,
    /// The hash of the signature.
    pub hash: HashAlgorithm,
}

/// What a ticket that fits its request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// To be used once.
    pub id: [u8; ID_BYTES],
    /// Its end, Unix milliseconds.
    pub expires_ms: i64,
    /// What the client was told to hash first.
    pub salt: Salt,
}

impl Tickets {
    /// Draws `count` salts and seals a ticket for each; all of them end [`VALID_FOR_S`] after `now_ms` (Unix
    /// milliseconds).
    ///
    /// # Errors
    /// [`Code::Internal`] if the kernel gives no random bytes.
    pub fn issue(&self, holder: &Holder<'_>, count: usize, now_ms: i64) -> Result<Vec<SaltTicket>, Fault> {
        let key = self.key_for(now_ms)?;
        let cipher = key.cipher()?;
        let expires_ms = now_ms.saturating_add(valid_for_ms());
        (0..count).map(|_| seal(&key, &cipher, holder, expires_ms)).collect()
    }

    /// Opens a ticket for this holder.
    ///
    /// # Errors
    /// [`Code::TicketRefused`], with the reason.
    pub fn open(&self, ticket: &[u8], holder: &Holder<'_>, now_ms: i64) -> Result<Opened, Fault> {
        let Contents { id, expires_ms, key_id, hash, principal, salt } = self.unseal(ticket)?;
        let reason = if principal != holder.principal.as_bytes() {
            "the ticket was given to somebody else"
        } else if key_id != *holder.key_id.as_bytes() {
            "the ticket is for another key"
        } else if hash != holder.hash.openpgp_id() {
            "the ticket is for another hash algorithm"
        } else if expires_ms <= now_ms {
            "the ticket has ended"
        } else if expires_ms > now_ms.saturating_add(valid_for_ms()) {
            "the ticket was made later than now: the clock was put back"
        } else {
            return Ok(Opened {
                id,
                expires_ms,
                salt: Salt::new(holder.hash, &salt).map_err(|_| foreign())?,
            });
        };
        Err(refused(reason))
    }

    /// The key to seal with: a new one when that of now has had its hour.
    fn key_for(&self, now_ms: i64) -> Result<Arc<SealingKey>, Fault> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |key: &&Arc<SealingKey>| now_ms.saturating_sub(key.made_ms) < ROTATION_MS;
        if let Some(key) = keys.current.as_ref().filter(is_fresh) {
            return Ok(Arc::clone(key));
        }
        let made = Arc::new(SealingKey::new(now_ms)?);
        keys.previous = keys.current.replace(Arc::clone(&made));
        Ok(made)
    }

    fn unseal(&self, ticket: &[u8]) -> Result<Contents, Fault> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (header, rest) = ticket.split_first_chunk::<HEADER_BYTES>().ok_or_else(foreign)?;
        let [version, tag @ ..] = header;
        let known = [keys.current, keys.previous].into_iter().flatten().find(|key| key.tag == *tag);
        let key =
            known.filter(|_| *version == VERSION && ticket.len() <= TICKET_BYTES_MAX).ok_or_else(foreign)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_BYTES>().ok_or_else(foreign)?;
        let (sealed, authentication) = rest.split_last_chunk::<16>().ok_or_else(foreign)?;
        let mut plain = sealed.to_vec();
        key.cipher()?
            .decrypt_inout_detached(
                &Nonce::from(*nonce),
                header,
                plain.as_mut_slice().into(),
                &Tag::from(*authentication),
            )
            .map_err(|_| foreign())?;
        Contents::parse(&plain).ok_or_else(foreign)
    }
}

impl SealingKey {
    fn new(now_ms: i64) -> Result<Self, Fault> {
        let (mut tag, mut key) = ([0; KEY_TAG_BYTES], Zeroizing::new([0; 32]));
        fill_random(&mut tag)?;
        fill_random(key.as_mut_slice())?;
        Ok(Self { tag, key, made_ms: now_ms })
    }

    fn cipher(&self) -> Result<Aes256GcmSiv, Fault> {
        Aes256GcmSiv::new_from_slice(self.key.as_slice())
            .map_err(|_| Fault::new(Code::Internal, "a sealing key of an impossible length"))
    }
}

/// What was sealed.
struct Contents {
    id: [u8; ID_BYTES],
    expires_ms: i64,
    key_id: [u8; 16],
    hash: u8,
    principal: Vec<u8>,
    salt: Vec<u8>,
}

impl Contents {
    fn parse(plain: &[u8]) -> Option<Self> {
        let (id, rest) = plain.split_first_chunk::<ID_BYTES>()?;
        let (expires_ms, rest) = rest.split_first_chunk::<8>()?;
        let (key_id, rest) = rest.split_first_chunk::<16>()?;
        let (hash, rest) = rest.split_first()?;
        let (principal_len, rest) = rest.split_first()?;
        let (principal, salt) = rest.split_at_checked(usize::from(*principal_len))?;
        Some(Self {
            id: *id,
            expires_ms: i64::from_be_bytes(*expires_ms),
            key_id: *key_id,
            hash: *hash,
            principal: principal.to_vec(),
            salt: salt.to_vec(),
        })
    }
}

fn seal(
    key: &SealingKey,
    cipher: &Aes256GcmSiv,
    holder: &Holder<'_>,
    expires_ms: i64,
) -> Result<SaltTicket, Fault> {
    let internal = || Fault::new(Code::Internal, "a ticket could not be sealed");
    let mut random = [0; ID_BYTES + NONCE_BYTES + sealwright_crypto::openpgp::salt::SALT_BYTES_MAX];
    fill_random(&mut random)?;
    let (id, rest) = random.split_first_chunk::<ID_BYTES>().ok_or_else(internal)?;
    let (nonce, salt) = rest.split_first_chunk::<NONCE_BYTES>().ok_or_else(internal)?;
    let salt = salt.get(..holder.hash.salt_len()).ok_or_else(internal)?;
    let principal = holder.principal.as_bytes();
    let mut plain = id.to_vec();
    plain.extend(expires_ms.to_be_bytes());
    plain.extend(holder.key_id.as_bytes());
    plain.extend([holder.hash.openpgp_id(), u8::try_from(principal.len()).map_err(|_| internal())?]);
    plain.extend_from_slice(principal);
    plain.extend_from_slice(salt);
    let mut ticket = vec![VERSION];
    ticket.extend(key.tag);
    let tag = cipher
        .encrypt_inout_detached(&Nonce::from(*nonce), &ticket, plain.as_mut_slice().into())
        .map_err(|_| internal())?;
    ticket.extend(nonce);
    ticket.extend(plain);
    ticket.extend_from_slice(&tag);
    Ok(SaltTicket { salt: Salt::new(holder.hash, salt).map_err(|_| internal())?, ticket })
}

/// Random bytes of the kernel.
fn fill_random(bytes: &mut [u8]) -> Result<(), Fault> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let filled = match rustix::rand::getrandom(&mut *rest, rustix::rand::GetRandomFlags::empty()) {
            Err(rustix::io::Errno::INTR) => continue,
            filled => filled,
        };
        let filled = filled.ok().filter(|filled| *filled > 0);
        rest = filled
            .and_then(|filled| rest.get_mut(filled..))
            .ok_or_else(|| Fault::new(Code::Internal, "the kernel gave no random bytes"))?;
    }
    Ok(())
}

fn valid_for_ms() -> i64 {
    i64::from(VALID_FOR_S).saturating_mul(1000)
}

fn refused(reason: &str) -> Fault {
    Fault::new(Code::TicketRefused, reason)
}

/// It does not open here. Why is not said to who may have made it.
fn foreign() -> Fault {
    refused("the ticket was not made here, or by a server that was restarted since")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_796_000_000_000;

    fn key_id(last: u8) -> KeyId {
        KeyId::parse(&[0x01, 0x98, 0xf3, 0, 0, 1, 0x7a, 0xbc, 0x9d, 0, 1, 2, 3, 4, 5, last]).unwrap()
    }

    fn holder(principal: &str) -> Holder<'_> {
        Holder { principal, key_id: key_id(1), hash: HashAlgorithm::Sha512 }
    }

    #[test]
    fn a_ticket_opens_for_its_holder_to_its_salt_and_every_one_is_another() {
        let tickets = Tickets::default();
        let longest = "p".repeat(255);
        for principal in ["", "local", &longest] {
            for hash in HashAlgorithm::ALL {
                let holder = Holder { hash, ..holder(principal) };
                let made = tickets.issue(&holder, 3, NOW_MS).unwrap();
                let opened: Vec<_> =
                    made.iter().map(|made| tickets.open(&made.ticket, &holder, NOW_MS).unwrap()).collect();
                for (made, opened) in made.iter().zip(&opened) {
                    assert!(made.ticket.len() <= TICKET_BYTES_MAX);
                    assert_eq!((made.salt, made.salt.as_bytes().len()), (opened.salt, hash.salt_len()));
                    assert_eq!(opened.expires_ms, NOW_MS + 1_800_000);
                }
                assert!(opened[0].id != opened[1].id && opened[0].salt != opened[1].salt);
                assert!(opened[1].id != opened[2].id && opened[1].salt != opened[2].salt);
            }
        }
    }

    fn reason(tickets: &Tickets, ticket: &[u8], holder: &Holder<'_>, now_ms: i64) -> String {
        let fault = tickets.open(ticket, holder, now_ms).unwrap_err();
        assert_eq!(fault.code, Code::TicketRefused);
        fault.message
    }

    #[test]
    fn a_ticket_of_another_principal_key_hash_or_time_is_refused_by_name() {
        let tickets = Tickets::default();
        let own = holder("local");
        let ticket = tickets.issue(&own, 1, NOW_MS).unwrap().remove(0).ticket;
        assert!(reason(&tickets, &ticket, &holder("locale"), NOW_MS).contains("somebody else"));
        let other = Holder { key_id: key_id(2), ..own };
        assert!(reason(&tickets, &ticket, &other, NOW_MS).contains("another key"));
        let other = Holder { hash: HashAlgorithm::Sha256, ..own };
        assert!(reason(&tickets, &ticket, &other, NOW_MS).contains("another hash"));
        assert!(tickets.open(&ticket, &own, NOW_MS + 1_799_999).is_ok());
        assert!(reason(&tickets, &ticket, &own, NOW_MS + 1_800_000).contains("has ended"));
        assert!(reason(&tickets, &ticket, &own, NOW_MS - 1).contains("clock"));
    }

    #[test]
    fn a_ticket_with_any_bit_changed_cut_or_longer_does_not_open() {
        let tickets = Tickets::default();
        let own = holder("local");
        let ticket = tickets.issue(&own, 1, NOW_MS).unwrap().remove(0).ticket;
        for index in 0..ticket.len() {
            assert!(tickets.open(&ticket[..index], &own, NOW_MS).is_err(), "{index}");
            for bit in 0..8 {
                let mut changed = ticket.clone();
                changed[index] ^= 1 << bit;
                assert!(tickets.open(&changed, &own, NOW_MS).is_err(), "byte {index} bit {bit}");
            }
        }
        assert!(tickets.open(&[ticket.as_slice(), &[0]].concat(), &own, NOW_MS).is_err());
        assert!(tickets.open(&vec![0; 1 << 20], &own, NOW_MS).is_err());
    }

    #[test]
    fn a_sealing_key_lasts_an_hour_and_its_tickets_outlive_it() {
        let tickets = Tickets::default();
        let own = holder("local");
        let issue = |now_ms| tickets.issue(&own, 1, now_ms).unwrap().remove(0).ticket;
        let (first, later) = (issue(NOW_MS), issue(NOW_MS + ROTATION_MS - 1));
        assert_eq!(first[..HEADER_BYTES], later[..HEADER_BYTES]);
        let next_ms = NOW_MS + ROTATION_MS;
        let next = issue(next_ms);
        assert_ne!(later[..HEADER_BYTES], next[..HEADER_BYTES]);
        assert!(tickets.open(&later, &own, next_ms).is_ok(), "the key before is kept");
        assert!(tickets.open(&next, &own, next_ms).is_ok());
        let _ = issue(next_ms + ROTATION_MS);
        assert!(reason(&tickets, &later, &own, next_ms).contains("not made here"), "and no longer");
    }

    #[test]
    fn another_server_does_not_open_it_unless_it_shares_the_keys() {
        let tickets = Tickets::default();
        let own = holder("local");
        let ticket = tickets.issue(&own, 1, NOW_MS).unwrap().remove(0).ticket;
        assert!(tickets.clone().open(&ticket, &own, NOW_MS).is_ok());
        assert!(reason(&Tickets::default(), &ticket, &own, NOW_MS).contains("not made here"));
    }
}
