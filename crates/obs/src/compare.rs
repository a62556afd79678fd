//! Two replies to the same request: whether a client would see a difference, and which. For whoever watches a server beside
//! a `signd` before the clients are switched.
//!
//! Equal bytes are the same. Otherwise the first of these that applies is the difference:
//!
//! ```text
//! not readable -> refused by one alone -> texts -> number of results -> per result, by command:
//!   pubkey          bytes
//!   sign, privsign  what the packet says, then its numbers; of a probe algorithm and key id alone
//! ```
//!
//! Numbers of RSA and Ed25519 are a function of key and digest, so they are compared; those of DSA and ECDSA hold a nonce,
//! and only what is around them is compared.

use crate::digest::DigestArgument;
use crate::packet::{KeyAlgorithm, SignaturePacket};
use crate::reply::Reply;
use crate::request::{Request, Verb};

/// How the second reply differs from the first, which is `signd`'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Difference {
    /// The first is no reply, or has a packet that cannot be read.
    FirstUnreadable,
    /// The second is none.
    SecondUnreadable,
    /// The second says `unknown key:`, the first has results.
    UnknownKey,
    /// The second is another refusal, the first has results.
    SecondRefused,
    /// The first is a refusal, the second has results.
    FirstRefused,
    /// Both refuse, or both have results, with other words or another status.
    Text,
    /// Another number of results.
    ResultCount,
    /// Another public key, or the same one written otherwise.
    PublicKey,
    /// A probe was answered with another algorithm or another key.
    Probe,
    /// A signature by another key, algorithm or hash, or of another class or time.
    SignatureFields,
    /// A signature that says the same, with other numbers.
    SignatureNumbers,
    /// The result of a command that has no rule here.
    Other,
}

impl Difference {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::FirstUnreadable,
        Self::SecondUnreadable,
        Self::UnknownKey,
        Self::SecondRefused,
        Self::FirstRefused,
        Self::Text,
        Self::ResultCount,
        Self::PublicKey,
        Self::Probe,
        Self::SignatureFields,
        Self::SignatureNumbers,
        Self::Other,
    ];

    /// For log lines; the first is `signd`'s, the second ours.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstUnreadable => "signd-unreadable",
            Self::SecondUnreadable => "ours-unreadable",
            Self::UnknownKey => "ours-unknown-key",
            Self::SecondRefused => "ours-refused",
            Self::FirstRefused => "signd-refused",
            Self::Text => "text",
            Self::ResultCount => "result-count",
            Self::PublicKey => "public-key",
            Self::Probe => "probe",
            Self::SignatureFields => "signature-fields",
            Self::SignatureNumbers => "signature-numbers",
            Self::Other => "other",
        }
    }
}

/// Whether a request may be asked twice. `keygen` would make a second key, `privileged` administers, and a one-time password
/// is of the moment at which it is asked for.
#[must_use]
pub const fn may_be_asked_twice(verb: Verb) -> bool {
    match verb {
        Verb::Ping | Verb::Pubkey | Verb::Sign | Verb::Privsign | Verb::Certgen | Verb::Unknown => true,
        Verb::Keygen | Verb::Privtotp | Verb::Privileged => false,
    }
}

/// The difference between two replies, whole, as they came. `None`: no client would see one. Without the request, if it
/// could not be read: replies are refusals then.
#[must_use]
pub fn compare(request: Option<&Request>, first: &[u8], second: &[u8]) -> Option<Difference> {
    if first == second && Reply::parse(first).is_ok() {
        return None;
    }
    let Ok(first) = Reply::parse(first) else { return Some(Difference::FirstUnreadable) };
    let Ok(second) = Reply::parse(second) else { return Some(Difference::SecondUnreadable) };
    match (first.status(), second.status()) {
        (0, 0) => {}
        (0, _) if second.text().starts_with("unknown key:") => return Some(Difference::UnknownKey),
        (0, _) => return Some(Difference::SecondRefused),
        (_, 0) => return Some(Difference::FirstRefused),
        (_, _) => return Some(Difference::Text),
    }
    let Some(request) = request else { return Some(Difference::Other) };
    results(request, &first, &second).or_else(|| (first.text() != second.text()).then_some(Difference::Text))
}

fn results(request: &Request, first: &Reply, second: &Reply) -> Option<Difference> {
    let Ok(first) = first.all_results(request.form()) else { return Some(Difference::FirstUnreadable) };
    let Ok(second) = second.all_results(request.form()) else { return Some(Difference::SecondUnreadable) };
    if first.len() != second.len() {
        return Some(Difference::ResultCount);
    }
    let arguments = request.arguments();
    let mut pairs = first.into_iter().zip(second);
    match request.verb() {
        Verb::Sign => packets(request, &arguments, pairs),
        Verb::Privsign => packets(request, arguments.get(1..).unwrap_or_default(), pairs),
        Verb::Pubkey => pairs.any(differ).then_some(Difference::PublicKey),
        Verb::Ping | Verb::Keygen | Verb::Privtotp | Verb::Certgen | Verb::Privileged | Verb::Unknown => {
            pairs.any(differ).then_some(Difference::Other)
        }
    }
}

fn differ((first, second): (&[u8], &[u8])) -> bool {
    first != second
}

/// Each digest with its packets.
fn packets<'a>(
    request: &Request,
    digests: &[&str],
    pairs: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])>,
) -> Option<Difference> {
    if pairs.len() != digests.len() {
        return Some(Difference::ResultCount);
    }
    digests.iter().zip(pairs).find_map(|(digest, (first, second))| {
        if first == second {
            return None;
        }
        let Ok(first) = SignaturePacket::parse(first) else { return Some(Difference::FirstUnreadable) };
        let Ok(second) = SignaturePacket::parse(second) else { return Some(Difference::SecondUnreadable) };
        let digest = DigestArgument::parse(digest, request.hash_name());
        if digest.is_ok_and(|digest| digest.is_probe()) {
            let same = (first.algorithm, first.issuer) == (second.algorithm, second.issuer);
            return (!same).then_some(Difference::Probe);
        }
        signature(&first, second)
    })
}

fn signature(first: &SignaturePacket, mut second: SignaturePacket) -> Option<Difference> {
    let numbers = core::mem::replace(&mut second.numbers, first.numbers.clone());
    if *first != second {
        return Some(Difference::SignatureFields);
    }
    let is_fixed = match first.algorithm {
        KeyAlgorithm::Rsa | KeyAlgorithm::EdDsaLegacy => true,
        KeyAlgorithm::Dsa | KeyAlgorithm::Ecdsa => false,
    };
    (is_fixed && first.numbers != numbers).then_some(Difference::SignatureNumbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::{Class, Hash};
    use crate::packet::{self, Value};
    use crate::request::Form;

    fn digest(byte: u8) -> DigestArgument {
        DigestArgument::new(Hash::Sha256, &[byte; 32], Class::Binary, 7).unwrap()
    }

    fn signed(key: u8, byte: u8, number: u8) -> Vec<u8> {
        packet::version_3(&digest(byte), [key; 8], &Value::Rsa(&[number; 256])).unwrap()
    }

    fn ok(form: Form, results: &[Vec<u8>]) -> Vec<u8> {
        Reply::ok(form, results).unwrap().to_bytes()
    }

    fn one(difference: Option<Difference>) -> &'static str {
        difference.map_or("same", Difference::name)
    }

    #[test]
    fn signatures_are_compared_field_by_field_and_number_by_number() {
        let request = Request::sign("user", &[digest(1), digest(2)]).unwrap();
        let first = ok(Form::New, &[signed(1, 1, 5), signed(1, 2, 6)]);
        for (second, want) in [
            (vec![signed(1, 1, 5), signed(1, 2, 6)], "same"),
            (vec![signed(1, 1, 5), signed(1, 2, 7)], "signature-numbers"),
            (vec![signed(1, 1, 5), signed(2, 2, 6)], "signature-fields"),
            (vec![signed(1, 1, 5), b"no packet".to_vec()], "ours-unreadable"),
            (vec![signed(1, 1, 5)], "result-count"),
        ] {
            assert_eq!(one(compare(Some(&request), &first, &ok(Form::New, &second))), want);
        }
        let request = Request::sign("user", &[digest(1)]).unwrap();
        let ecdsa = |byte: u8| {
            packet::version_3(&digest(1), [1; 8], &Value::Ecdsa { r: &[byte; 32], s: &[byte; 32] }).unwrap()
        };
        let compared = compare(Some(&request), &ok(Form::Old, &[ecdsa(3)]), &ok(Form::Old, &[ecdsa(5)]));
        assert_eq!(one(compared), "same", "a nonce is no difference");
    }

    #[test]
    fn of_a_probe_algorithm_and_key_count() {
        let probe = DigestArgument::probe(Hash::Sha256);
        let request = Request::sign("user", std::slice::from_ref(&probe)).unwrap();
        let old = packet::version_3(&probe, [7; 8], &Value::Rsa(&[9; 256])).unwrap();
        let answer = |byte: u8, algorithm| packet::probe_answer(&probe, algorithm, &[byte; 20]).unwrap();
        let compared = |second: Vec<u8>| {
            one(compare(
                Some(&request),
                &ok(Form::Old, std::slice::from_ref(&old)),
                &ok(Form::Old, &[second]),
            ))
        };
        assert_eq!(compared(answer(7, KeyAlgorithm::Rsa)), "same");
        assert_eq!(compared(answer(8, KeyAlgorithm::Rsa)), "probe");
        assert_eq!(compared(answer(7, KeyAlgorithm::EdDsaLegacy)), "probe");
    }

    #[test]
    fn refusals_texts_and_replies_that_are_none_are_told_apart() {
        let request = Request::pubkey("user", Hash::Sha256).unwrap();
        let key = |text: &str| ok(Form::Old, &[text.as_bytes().to_vec()]);
        let refused = |text: &str| Reply::refused(&text).to_bytes();
        for (first, second, want) in [
            (key("a"), key("a"), "same"),
            (key("a"), key("b"), "public-key"),
            (key("a"), refused("unknown key: user"), "ours-unknown-key"),
            (key("a"), refused("no grant"), "ours-refused"),
            (refused("unknown key: user"), key("a"), "signd-refused"),
            (refused("one"), refused("two"), "text"),
            (refused("one"), refused("one"), "same"),
            (key("a"), Vec::new(), "ours-unreadable"),
            (Vec::new(), key("a"), "signd-unreadable"),
            (Vec::new(), Vec::new(), "signd-unreadable"),
        ] {
            assert_eq!(one(compare(Some(&request), &first, &second)), want);
        }
        let warned = Reply::ok(Form::Old, &["a"]).unwrap().with_warning(&"soon").to_bytes();
        assert_eq!(one(compare(Some(&request), &key("a"), &warned)), "text");
        assert_eq!(one(compare(None, &refused("one"), &refused("two"))), "text");
        assert_eq!(one(compare(None, &key("a"), &key("b"))), "other");
    }

    #[test]
    fn every_difference_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = Difference::ALL.map(Difference::name).into();
        assert_eq!(names.len(), Difference::ALL.len());
    }
}
