//! obs-sign's protocol and files; the first byte picks what the rest is. What is read is written as the same bytes, in pieces or
//! whole; a refusal is one line that fits a reply; a packet that is taken apart goes together again.

use sealwright_obs::config::Config;
use sealwright_obs::hashed::HashedPart;
use sealwright_obs::limits::{REQUEST_BYTES_MAX, REQUEST_HEAD_BYTES, TEXT_BYTES_MAX};
use sealwright_obs::packet::{SignaturePacket, probe_answer};
use sealwright_obs::project_key::ProjectKey;
use sealwright_obs::{Class, Command, DigestArgument, Form, Hash, Parser, Progress, Refusal, Reply, Request};

use crate::choices::Choices;

pub(crate) fn run(data: &[u8]) {
    let mut input = Choices::new(data);
    match input.byte() {
        0 => {
            let piece = usize::from(input.byte()).max(1);
            request(input.rest(), piece);
        }
        1 => reply(input.rest()),
        2 => packet(input.rest()),
        3 => project_key(input.rest()),
        _ => config(input.rest()),
    }
}

fn request(bytes: &[u8], piece: usize) {
    let mut parser = Parser::new();
    let mut seen = 0;
    for chunk in bytes.chunks(piece) {
        seen += chunk.len();
        match parser.push(chunk) {
            Progress::More(more) => {
                assert!(more > 0 && more <= REQUEST_HEAD_BYTES + 2 * REQUEST_BYTES_MAX);
                assert!(matches!(Parser::new().push(&bytes[..seen]), Progress::More(whole) if whole == more));
            }
            Progress::Done(result) => {
                assert_eq!(
                    Parser::new().push(&bytes[..seen]),
                    Progress::Done(result.clone()),
                    "pieces matter"
                );
                match result {
                    Ok(request) => {
                        assert_eq!(
                            request.to_bytes(),
                            &bytes[..seen],
                            "another encoding of the same request"
                        );
                        command(&request);
                    }
                    Err(refusal) => refused(&refusal),
                }
                return;
            }
        }
    }
    refused(&parser.cut_short());
}

fn command(request: &Request) {
    assert!(!request.user().contains('/') && !request.user().starts_with('.'));
    match request.command() {
        Ok(Command::Sign { digests } | Command::Privsign { digests, .. }) => {
            assert!(!digests.is_empty() && digests.len() <= request.arguments().len());
            let again = Request::sign(request.user(), &digests);
            assert!(again.is_ok_and(|again| again.command() == Ok(Command::Sign { digests })));
        }
        Ok(Command::Keygen(keygen)) => {
            let again = keygen.request(request.user(), Hash::Sha256).unwrap();
            assert_eq!(again.command(), Ok(Command::Keygen(keygen)));
        }
        Ok(_) => {}
        Err(refusal) => refused(&refusal),
    }
}

fn refused(refusal: &Refusal) {
    let reply = Reply::refused(refusal);
    let text = reply.text();
    assert!(text.len() <= TEXT_BYTES_MAX && text.ends_with('\n') && text.lines().count() == 1, "{text:?}");
    assert_eq!(Reply::parse(&reply.to_bytes()), Ok(reply));
}

fn reply(bytes: &[u8]) {
    let Ok(reply) = Reply::parse(bytes) else { return };
    assert_eq!(reply.to_bytes(), bytes, "another encoding of the same reply");
    for form in [Form::OldPing, Form::Old, Form::New] {
        for count in 0..4 {
            if let Ok(results) = reply.results(form, count) {
                assert_eq!(results.len(), count);
                // A ping with a result, or a table of no results, is read and never written.
                if let Ok(again) = Reply::ok(form, &results) {
                    assert_eq!(again.results(form, count).unwrap(), results);
                }
            }
        }
    }
}

fn packet(bytes: &[u8]) {
    let Ok(packet) = SignaturePacket::parse(bytes) else { return };
    let part = HashedPart {
        class: Class::from_number(packet.class).unwrap_or(Class::Binary),
        algorithm: packet.algorithm,
        hash: packet.hash,
        created: packet.created.unwrap_or_default(),
        fingerprint: packet.fingerprint,
    };
    let mut digest = vec![0; packet.hash.digest_len()];
    digest[..2].copy_from_slice(&packet.left);
    if let Ok(signature) = part.transplant(&digest, bytes) {
        let again = SignaturePacket::parse(&signature).unwrap();
        assert_eq!((&again.numbers, again.issuer), (&packet.numbers, packet.issuer));
        assert_eq!(part.transplant(&digest, &signature).unwrap(), signature);
    }
    if let Some(fingerprint) = packet.fingerprint {
        let probe = DigestArgument::probe(packet.hash);
        let answer = SignaturePacket::parse(&probe_answer(&probe, packet.algorithm, &fingerprint).unwrap());
        assert_eq!(answer.unwrap().fingerprint, Some(fingerprint));
    }
}

fn project_key(bytes: &[u8]) {
    match ProjectKey::parse(bytes) {
        Ok(key) => {
            assert_eq!(key.to_bytes(), bytes, "another encoding of the same project key");
            assert_eq!(ProjectKey::from_file(&key.to_hex()).unwrap(), key);
        }
        Err(refusal) => refused(&refusal),
    }
}

fn config(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    if let Ok(config) = Config::parse(bytes) {
        assert!(config.remarks.iter().all(|remark| (1..=lines).contains(&remark.line)));
    }
}
