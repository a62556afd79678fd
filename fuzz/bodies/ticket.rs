//! Tickets for salts, as a client gives them back: no bytes open that were not sealed here, and what was sealed opens for
//! its holder to what it was sealed with, as long as no bit of it is changed.

use std::sync::LazyLock;

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_proto::limits::TICKET_BYTES_MAX;
use sealwright_proto::names::KeyId;
use sealwright_proto::status::Code;
use sealwright_server::tickets::{Holder, Tickets, VALID_FOR_S};

use crate::choices::Choices;

const KEY_ID: [u8; 16] = [0x01, 0x98, 0xf3, 0, 0, 1, 0x7a, 0xbc, 0x9d, 0, 1, 2, 3, 4, 5, 6];
const NOW_MS: i64 = 1_796_000_000_000;

static TICKETS: LazyLock<Tickets> = LazyLock::new(Tickets::default);

pub(crate) fn run(data: &[u8]) {
    let mut input = Choices::new(data);
    let is_foreign = input.flag();
    let hash = input.one_of(&HashAlgorithm::ALL);
    let holder = Holder { principal: "local", key_id: KeyId::parse(&KEY_ID).unwrap(), hash };
    let made = TICKETS.issue(&holder, 1, NOW_MS).unwrap().remove(0);
    assert!(made.ticket.len() <= TICKET_BYTES_MAX);
    if is_foreign {
        return refused(input.rest(), &holder, NOW_MS);
    }
    let mut ticket = made.ticket.clone();
    let valid_for_ms = i64::from(VALID_FOR_S) * 1000;
    // Around both ends of its life, in units that the fuzzer finds.
    let now_ms = NOW_MS + (i64::from(input.number()) - 1000) * 100;
    ticket.truncate(ticket.len() - usize::from(input.byte()) % ticket.len());
    while !input.is_empty() {
        let (at, change) = (usize::from(input.number()), input.byte());
        let len = ticket.len();
        ticket[at % len] ^= change;
    }
    if ticket != made.ticket || !(NOW_MS..NOW_MS + valid_for_ms).contains(&now_ms) {
        return refused(&ticket, &holder, now_ms);
    }
    let opened = TICKETS.open(&ticket, &holder, now_ms).unwrap();
    assert_eq!((opened.salt, opened.expires_ms), (made.salt, NOW_MS + valid_for_ms));
    refused(&ticket, &Holder { principal: "other", ..holder }, now_ms);
}

fn refused(ticket: &[u8], holder: &Holder<'_>, now_ms: i64) {
    let fault = TICKETS.open(ticket, holder, now_ms).expect_err("a ticket opened that should not");
    assert_eq!(fault.code, Code::TicketRefused, "{fault}");
}
