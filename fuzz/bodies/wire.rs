//! Messages between client and front: the first byte picks one. Any bytes are read or refused; what is read is within
//! the limits, and goes over the wire as the same.

use prost::Message as _;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::tbs::Content;
use sealwright_proto::convert::group::{Group, GroupResult};
use sealwright_proto::convert::keys::{CreateKey, ImportKey, RenewKey, parse_list};
use sealwright_proto::convert::salts::{Salts, SaltsRequest};
use sealwright_proto::limits;
use sealwright_proto::names::KeyReference;
use sealwright_proto::status::Fault;
use sealwright_proto::v1;

use crate::message::{decoded, refused, round_trip, sound};

/// One for each message of `sign.proto` and `keys.proto` that travels by itself.
const MESSAGES: [fn(&[u8]); 15] = [
    sign_group,
    sign_group_result,
    create_key,
    import_key,
    renew_key,
    list_keys,
    describe_key,
    set_key_state,
    failure,
    key,
    list_keys_response,
    begin_import_response,
    import_key_response,
    begin_salts,
    begin_salts_response,
];

pub(crate) fn run(data: &[u8]) {
    if let Some((first, rest)) = data.split_first() {
        MESSAGES[usize::from(*first) % MESSAGES.len()](rest);
    }
}

fn sign_group(data: &[u8]) {
    let Some(wire) = decoded::<v1::SignGroup>(data) else { return };
    let parsed = Group::parse(wire);
    if let Ok(group) = &parsed {
        assert!((1..=limits::ITEMS_PER_GROUP_MAX).contains(&group.items.len()));
        assert!((1..=limits::DEADLINE_MS_MAX).contains(&group.deadline_ms));
        assert!(group.artefact.name.len() <= limits::FILE_NAME_BYTES_MAX);
        let inline = group.items.iter().map(|item| match &item.content {
            Content::Midstate(_) | Content::Bare(_) | Content::Project(..) => 0,
            Content::Inline(_, bytes) => bytes.len(),
        });
        let tickets = group.items.iter().filter_map(|item| item.ticket.as_ref());
        assert!(tickets.clone().all(|ticket| (1..=limits::TICKET_BYTES_MAX).contains(&ticket.len())));
        assert!(inline.sum::<usize>() <= limits::INLINE_BYTES_MAX, "more inline content than the limit");
        let wire = group.to_wire();
        assert!(wire.encoded_len() <= limits::GRPC_MESSAGE_BYTES_MAX);
        assert_eq!(Group::parse(wire).unwrap().fingerprint(), group.fingerprint(), "a retry would conflict");
    }
    round_trip(parsed, Group::parse, Group::to_wire);
}

fn sign_group_result(data: &[u8]) {
    let Some(wire) = decoded::<v1::SignGroupResult>(data) else { return };
    let parsed = GroupResult::parse(wire);
    if let Ok(GroupResult { outcome: Ok(items), .. }) = &parsed {
        assert!(items.len() <= limits::ITEMS_PER_GROUP_MAX);
        for item in items {
            match item {
                Ok(signed) => assert!((1..=limits::SIGNATURE_BYTES_MAX).contains(&signed.packet.len())),
                Err(fault) => sound(fault),
            }
        }
    }
    round_trip(parsed, GroupResult::parse, |result| result.clone().into_wire());
}

fn create_key(data: &[u8]) {
    let Some(wire) = decoded::<v1::CreateKeyRequest>(data) else { return };
    round_trip(CreateKey::parse(wire), CreateKey::parse, |create| create.clone().into_wire());
}

fn import_key(data: &[u8]) {
    let Some(wire) = decoded::<v1::ImportKeyRequest>(data) else { return };
    round_trip(ImportKey::parse(wire), ImportKey::parse, |import| import.clone().into_wire());
}

fn renew_key(data: &[u8]) {
    let Some(wire) = decoded::<v1::RenewKeyRequest>(data) else { return };
    match RenewKey::parse(&wire) {
        Ok(renew) => {
            assert!(renew.valid_for_s.is_none_or(|s| (1..=limits::VALIDITY_S_MAX).contains(&s)));
            reference(renew.key.as_str());
        }
        Err(fault) => refused(&fault),
    }
}

fn list_keys(data: &[u8]) {
    let Some(wire) = decoded::<v1::ListKeysRequest>(data) else { return };
    match parse_list(&wire) {
        Ok((after, limit)) => {
            assert!((1..=limits::KEYS_PER_PAGE_MAX).contains(&limit));
            assert_eq!(after.as_ref().map_or("", |name| name.as_str()), wire.after);
        }
        Err(fault) => refused(&fault),
    }
}

fn describe_key(data: &[u8]) {
    if let Some(wire) = decoded::<v1::DescribeKeyRequest>(data) {
        reference(&wire.key);
    }
}

fn set_key_state(data: &[u8]) {
    if let Some(wire) = decoded::<v1::SetKeyStateRequest>(data) {
        reference(&wire.key);
    }
}

/// A name is itself, and a fingerprint has one spelling.
fn reference(text: &str) {
    match KeyReference::parse(text) {
        Ok(key) => assert_eq!(KeyReference::parse(key.as_str()).unwrap(), key),
        Err(fault) => refused(&fault),
    }
}

fn failure(data: &[u8]) {
    if let Some(wire) = decoded::<v1::Failure>(data) {
        sound(&Fault::from(wire));
    }
}

fn key(data: &[u8]) {
    decoded::<v1::Key>(data);
}

fn list_keys_response(data: &[u8]) {
    decoded::<v1::ListKeysResponse>(data);
}

fn begin_import_response(data: &[u8]) {
    decoded::<v1::BeginImportResponse>(data);
}

fn import_key_response(data: &[u8]) {
    decoded::<v1::ImportKeyResponse>(data);
}

fn begin_salts(data: &[u8]) {
    let Some(wire) = decoded::<v1::BeginSaltsRequest>(data) else { return };
    let parsed = SaltsRequest::parse(&wire);
    if let Ok(asked) = &parsed {
        assert!((1..=limits::SALTS_MAX).contains(&asked.count));
    }
    round_trip(parsed, |wire| SaltsRequest::parse(&wire), SaltsRequest::to_wire);
}

/// An answer to a question that fits it in number, for each hash: the right one is among them.
fn begin_salts_response(data: &[u8]) {
    let Some(wire) = decoded::<v1::BeginSaltsResponse>(data) else { return };
    for hash in HashAlgorithm::ALL {
        let key = KeyReference::parse("k").unwrap();
        let asked = SaltsRequest { key, hash, count: wire.tickets.len() };
        let parsed = Salts::parse(wire.clone(), &asked);
        if let Ok(salts) = &parsed {
            assert!(salts.tickets.iter().all(|ticket| ticket.salt.hash() == hash));
        }
        round_trip(parsed, |wire| Salts::parse(wire, &asked), |salts| salts.clone().into_wire());
    }
}
