//! Version 6 keys: salts and tickets, as a client meets them.

use std::collections::BTreeSet;

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::openpgp::certificate::Keyring;
use sealwright_crypto::openpgp::packet::SignaturePacket;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::verify::{State, verify};
use sealwright_crypto::tbs::Content;
use sealwright_proto::convert::group::Group;
use sealwright_proto::convert::salts::{SaltTicket, Salts, SaltsRequest};
use sealwright_proto::names::{KeyName, KeyReference, RequestId};
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::v1::KeyState;
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_server::{Grants, Principal};
use uuid::Uuid;

use crate::bench::{Bench, create_request, group};
use crate::peer::{self, Act, CREATED};
use crate::sign::{failure, signatures};

async fn begin_as(bench: &Bench, principal: Principal, asked: &SaltsRequest) -> Result<Salts, Fault> {
    let mut client = SigningClient::new(bench.connect(principal).await);
    match client.begin_salts(asked.to_wire()).await {
        Ok(answer) => Ok(Salts::parse(answer.into_inner(), asked).unwrap()),
        Err(status) => Err(Fault::from(&status)),
    }
}

fn asked(key: &str, count: usize) -> SaltsRequest {
    SaltsRequest { key: KeyReference::parse(key).unwrap(), hash: HashAlgorithm::Sha256, count }
}

async fn begin(bench: &Bench, count: usize) -> Vec<SaltTicket> {
    begin_as(bench, Principal::local(), &asked("six", count)).await.unwrap().tickets
}

async fn bench(on_sign: impl FnMut(usize) -> Act + Send + 'static) -> Bench {
    let mut on_sign = on_sign;
    let bench = Bench::start(move |number, _| on_sign(number)).await;
    let create = sealwright_proto::v1::CreateKeyRequest { openpgp_version: 6, ..create_request("six") };
    bench.keys().await.create(create).await.unwrap();
    bench
}

/// Contents that were each hashed after the salt of a ticket.
fn salted(contents: &[(&[u8], &SaltTicket)]) -> Group {
    let plain: Vec<&[u8]> = contents.iter().map(|(content, _)| *content).collect();
    let mut group = group("six", &plain);
    for (item, (content, ticket)) in group.items.iter_mut().zip(contents) {
        let mut hasher = ticket.salt.hasher();
        hasher.update(content);
        item.content = Content::Midstate(hasher.midstate());
        item.ticket = Some(ticket.ticket.clone());
    }
    group
}

fn state(packet: &[u8], salt: &Salt, content: &[u8]) -> State {
    let mut keyring = Keyring::default();
    keyring.push(peer::certificate_v6());
    let packet = SignaturePacket::parse(packet).unwrap();
    assert_eq!((packet.version(), packet.salt()), (6, Some(salt.as_bytes())));
    let mut hasher = salt.hasher();
    hasher.update(content);
    verify(&packet, &hasher, &keyring, CREATED + 1).state
}

fn again(group: &Group) -> Group {
    Group { request_id: RequestId::parse(Uuid::now_v7().as_bytes()).unwrap(), ..group.clone() }
}

#[tokio::test]
async fn contents_hashed_after_salts_are_signed_with_their_tickets_each_with_its_own_salt() {
    let bench = bench(|_| Act::Sign).await;
    let tickets = begin(&bench, 3).await;
    assert!(tickets[0].salt != tickets[1].salt && tickets[1].salt != tickets[2].salt);
    let group = salted(&[(b"first", &tickets[0]), (b"second", &tickets[2])]);
    let signed = signatures(&bench.sign(&group).await);
    assert_eq!(state(&signed[0].packet, &tickets[0].salt, b"first"), State::Valid);
    assert_eq!(state(&signed[1].packet, &tickets[2].salt, b"second"), State::Valid);
    assert_eq!(state(&signed[0].packet, &tickets[0].salt, b"second"), State::Bad);
    assert_eq!(bench.log_size().await, 2);
}

#[tokio::test]
async fn inline_content_is_hashed_after_the_salt_by_the_signer() {
    let bench = bench(|_| Act::Sign).await;
    let ticket = begin(&bench, 1).await.remove(0);
    let mut group = salted(&[(b"x", &ticket)]);
    group.items[0].content = Content::Inline(HashAlgorithm::Sha256, b"seen".to_vec());
    let signed = signatures(&bench.sign(&group).await);
    assert_eq!(state(&signed[0].packet, &ticket.salt, b"seen"), State::Valid);
}

#[tokio::test]
async fn a_ticket_is_good_for_one_request_and_its_retry_is_the_same_request() {
    let bench = bench(|_| Act::Sign).await;
    let tickets = begin(&bench, 2).await;
    let group = salted(&[(b"content", &tickets[0])]);
    let first = bench.sign(&group).await;
    assert_eq!(bench.sign(&group).await, first, "a retry gets the stored answer");
    for second in [again(&group), salted(&[(b"other", &tickets[0])])] {
        let fault = failure(&bench.sign(&second).await);
        assert_eq!(fault.code, Code::TicketRefused);
        assert!(fault.message.contains("used before"), "{fault}");
    }
    let twice = salted(&[(b"one", &tickets[1]), (b"two", &tickets[1])]);
    assert_eq!(failure(&bench.sign(&twice).await).code, Code::TicketRefused);
    assert_eq!(bench.signer.items(), 1, "the signer saw one item");
    assert_eq!(bench.log_size().await, 1);
    // The refused request spent nothing.
    assert_eq!(signatures(&bench.sign(&salted(&[(b"one", &tickets[1])])).await).len(), 1);
}

/// A retry after a failure that passes goes on with the tickets that its first attempt spent.
#[tokio::test]
async fn a_retry_after_a_failure_that_passes_is_signed_with_the_same_ticket() {
    let bench = bench(|number| if number == 0 { Act::RefuseAll(Code::Overloaded) } else { Act::Sign }).await;
    let ticket = begin(&bench, 1).await.remove(0);
    let group = salted(&[(b"content", &ticket)]);
    assert_eq!(failure(&bench.sign(&group).await).code, Code::Overloaded);
    assert_eq!(failure(&bench.sign(&again(&group)).await).code, Code::TicketRefused, "it is spent");
    let signed = signatures(&bench.sign(&group).await);
    assert_eq!(state(&signed[0].packet, &ticket.salt, b"content"), State::Valid);
}

#[tokio::test]
async fn a_ticket_that_does_not_fit_is_refused_by_name_and_nothing_is_signed() {
    let bench = bench(|_| Act::Sign).await;
    bench.create("four").await;
    let ticket = begin(&bench, 1).await.remove(0);
    let good = || salted(&[(b"x", &ticket)]);
    let mut none = good();
    none.items[0].ticket = None;
    let mut changed = good();
    changed.items[0].ticket.as_mut().unwrap()[40] ^= 1;
    let mut other_hash = good();
    other_hash.items[0].content = Content::Inline(HashAlgorithm::Sha512, b"x".to_vec());
    let mut other_key = good();
    other_key.key = KeyReference::parse("four").unwrap();
    for (group, words) in [
        (none, "needs the ticket"),
        (changed, "not made here"),
        (other_hash, "another hash"),
        (other_key, "version 4"),
    ] {
        let fault = failure(&bench.sign(&group).await);
        assert_eq!(fault.code, Code::TicketRefused, "{words}");
        assert!(fault.message.contains(words), "{words}: {fault}");
    }
    // Front of another process has other keys; nothing was spent meanwhile.
    let restarted = bench_in(bench.folder).await;
    let fault = failure(&restarted.sign(&good()).await);
    assert!(fault.message.contains("restarted"), "{fault}");
    assert_eq!((bench.signer.items(), restarted.signer.items()), (0, 0));
}

async fn bench_in(folder: tempfile::TempDir) -> Bench {
    Bench::start_in(folder, Box::new(|_, _| Act::Sign)).await
}

/// The answer is kept a day, a ticket half an hour and no longer than the process: an old request is still answered.
#[tokio::test]
async fn a_retry_is_answered_when_its_ticket_opens_no_more() {
    let bench = bench(|_| Act::Sign).await;
    let ticket = begin(&bench, 1).await.remove(0);
    let group = salted(&[(b"content", &ticket)]);
    let first = bench.sign(&group).await;
    let restarted = bench_in(bench.folder).await;
    assert_eq!(restarted.sign(&group).await, first);
    assert_eq!(failure(&restarted.sign(&again(&group)).await).code, Code::TicketRefused);
    let mut conflict = group.clone();
    conflict.artefact.size += 1;
    assert_eq!(failure(&restarted.sign(&conflict).await).code, Code::RequestConflict);
}

#[tokio::test]
async fn a_ticket_of_another_principal_is_refused() {
    let bench = bench(|_| Act::Sign).await;
    let granted = BTreeSet::from([KeyName::parse("six").unwrap()]);
    let ci = Principal::new("ci", Grants::keys(granted)).unwrap();
    let ticket = begin_as(&bench, ci, &asked("six", 1)).await.unwrap().tickets.remove(0);
    let fault = failure(&bench.sign(&salted(&[(b"x", &ticket)])).await);
    assert_eq!(fault.code, Code::TicketRefused);
    assert!(fault.message.contains("somebody else"), "{fault}");
}

#[tokio::test]
async fn salts_are_for_those_who_may_sign_with_a_version_6_key() {
    let bench = bench(|_| Act::Sign).await;
    bench.create("four").await;
    let code = async |principal: Principal, key: &str| {
        begin_as(&bench, principal, &asked(key, 1)).await.unwrap_err().code
    };
    assert_eq!(code(Principal::local(), "none").await, Code::KeyNotFound);
    assert_eq!(code(Principal::local(), "four").await, Code::Unsupported);
    let stranger = Principal::new("stranger", Grants::keys(BTreeSet::new())).unwrap();
    assert_eq!(code(stranger.clone(), "six").await, Code::PermissionDenied);
    assert_eq!(code(stranger, "four").await, Code::PermissionDenied, "nothing is said about the key");
    let most = begin(&bench, 1024).await;
    assert_eq!(most.len(), 1024);
    let over = begin_as(&bench, Principal::local(), &asked("six", 1025)).await.unwrap_err();
    assert_eq!(over.code, Code::LimitExceeded);
    let state =
        sealwright_proto::v1::SetKeyStateRequest { key: "six".to_owned(), state: KeyState::Disabled.into() };
    bench.keys().await.set_state(state).await.unwrap();
    assert_eq!(code(Principal::local(), "six").await, Code::KeyDisabled);
}

#[tokio::test]
async fn a_signer_that_puts_another_salt_into_the_packet_is_found_out() {
    let spoil = |item: &mut sealwright_proto::convert::batch::SignedItem| {
        let at = item.packet.len() - 64 - 16;
        item.packet[at] ^= 1;
    };
    let bench = bench(move |_| Act::Spoil(spoil)).await;
    let ticket = begin(&bench, 1).await.remove(0);
    let fault = failure(&bench.sign(&salted(&[(b"x", &ticket)])).await);
    assert_eq!(fault.code, Code::SignatureSelfCheckFailed);
    assert!(fault.message.contains("another salt"), "{fault}");
    assert_eq!(bench.log_size().await, 0);
}
