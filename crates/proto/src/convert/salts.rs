//! Salts for version 6 signatures, handed out before the content is hashed, each with a ticket. Between client and front.

use super::{hash_algorithm, malformed, refused, within};
use crate::limits;
use crate::names::KeyReference;
use crate::status::Fault;
use crate::v1;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::openpgp::salt::Salt;

/// A client's request for salts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaltsRequest {
    /// The key to sign with, of version 6.
    pub key: KeyReference,
    /// The hash of the signatures.
    pub hash: HashAlgorithm,
    /// From 1, at most [`limits::SALTS_MAX`].
    pub count: usize,
}

impl SaltsRequest {
    /// # Errors
    /// [`crate::status::Code::KeyNotFound`], [`crate::status::Code::Unsupported`], [`crate::status::Code::MalformedRequest`],
    /// [`crate::status::Code::LimitExceeded`].
    pub fn parse(wire: &v1::BeginSaltsRequest) -> Result<Self, Fault> {
        let count = usize::try_from(wire.count).unwrap_or(usize::MAX);
        within("a request for salts", count, limits::SALTS_MAX, "salts")?;
        if count == 0 {
            return Err(malformed("a request for no salts"));
        }
        Ok(Self { key: KeyReference::parse(&wire.key)?, hash: hash_algorithm(wire.hash)?, count })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn to_wire(&self) -> v1::BeginSaltsRequest {
        v1::BeginSaltsRequest {
            key: self.key.as_str().to_owned(),
            hash: self.hash.openpgp_id().into(),
            count: u32::try_from(self.count).unwrap_or(u32::MAX),
        }
    }
}

/// A salt, and what to send with the content that was hashed after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaltTicket {
    /// Hashed before the content.
    pub salt: Salt,
    /// Opaque; at most [`limits::TICKET_BYTES_MAX`] bytes.
    pub ticket: Vec<u8>,
}

/// The answer to a [`SaltsRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salts {
    /// As many as were asked for.
    pub tickets: Vec<SaltTicket>,
    /// Seconds for which they can be used.
    pub valid_for_s: u32,
}

impl Salts {
    /// For the client: what was asked for, or a refusal.
    ///
    /// # Errors
    /// [`crate::status::Code::MalformedRequest`] or [`crate::status::Code::LimitExceeded`]: the server's answer breaks a rule.
    pub fn parse(wire: v1::BeginSaltsResponse, asked: &SaltsRequest) -> Result<Self, Fault> {
        if wire.tickets.len() != asked.count {
            return Err(malformed("another number of salts than was asked for"));
        }
        let ticket = |wire: v1::SaltTicket| {
            within("a ticket", wire.ticket.len(), limits::TICKET_BYTES_MAX, "bytes")?;
            if wire.ticket.is_empty() {
                return Err(malformed("an empty ticket"));
            }
            let salt = Salt::new(asked.hash, &wire.salt).map_err(|error| refused(&error))?;
            Ok(SaltTicket { salt, ticket: wire.ticket })
        };
        let tickets = wire.tickets.into_iter().map(ticket).collect::<Result<_, _>>()?;
        Ok(Self { tickets, valid_for_s: wire.valid_for_s })
    }

    /// The inverse of [`Self::parse`].
    #[must_use]
    pub fn into_wire(self) -> v1::BeginSaltsResponse {
        let ticket = |SaltTicket { salt, ticket }| v1::SaltTicket { salt: salt.as_bytes().to_vec(), ticket };
        let tickets = self.tickets.into_iter().map(ticket).collect();
        v1::BeginSaltsResponse { tickets, valid_for_s: self.valid_for_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Code;

    fn request() -> SaltsRequest {
        SaltsRequest { key: KeyReference::parse("k").unwrap(), hash: HashAlgorithm::Sha384, count: 2 }
    }

    fn salts() -> Salts {
        let salt = Salt::new(HashAlgorithm::Sha384, &[5; 24]).unwrap();
        let ticket = |byte| SaltTicket { salt, ticket: vec![byte; limits::TICKET_BYTES_MAX] };
        Salts { tickets: vec![ticket(1), ticket(2)], valid_for_s: 1800 }
    }

    #[test]
    fn requests_and_answers_survive_the_wire() {
        assert_eq!(SaltsRequest::parse(&request().to_wire()).unwrap(), request());
        assert_eq!(Salts::parse(salts().into_wire(), &request()).unwrap(), salts());
    }

    #[test]
    fn a_request_is_for_one_salt_at_least_and_1024_at_most() {
        for (count, code) in [
            (0, Some(Code::MalformedRequest)),
            (1, None),
            (1024, None),
            (1025, Some(Code::LimitExceeded)),
            (u32::MAX, Some(Code::LimitExceeded)),
        ] {
            let wire = v1::BeginSaltsRequest { count, ..request().to_wire() };
            assert_eq!(SaltsRequest::parse(&wire).err().map(|fault| fault.code), code, "{count}");
        }
        for hash in [0, 2, 11, 256] {
            let wire = v1::BeginSaltsRequest { hash, ..request().to_wire() };
            assert!(SaltsRequest::parse(&wire).is_err(), "{hash}");
        }
    }

    #[test]
    fn an_answer_has_as_many_salts_as_asked_for_of_the_right_length() {
        for change in [
            (|wire| drop(wire.tickets.pop())) as fn(&mut v1::BeginSaltsResponse),
            |wire| wire.tickets.push(wire.tickets[0].clone()),
            |wire| wire.tickets[0].salt.truncate(16),
            |wire| wire.tickets[1].ticket.clear(),
            |wire| wire.tickets[1].ticket.push(0),
        ] {
            let mut wire = salts().into_wire();
            change(&mut wire);
            assert!(Salts::parse(wire, &request()).is_err());
        }
    }
}
