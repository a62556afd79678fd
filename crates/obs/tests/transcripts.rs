//! Captured connections between obs-sign's own `sign` and `signd` (fixtures/obs): every request is read as what its name says and
//! written as the same bytes, every reply likewise, and refusals and packets of ours are theirs, byte for byte.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealwright_obs::command::{Keygen, NewKey};
use sealwright_obs::hashed::HashedPart;
use sealwright_obs::packet::{
    KeyAlgorithm, SignaturePacket, Value, key_id, probe_answer, version_3, version_3_len_max,
};
use sealwright_obs::project_key::ProjectKey;
use sealwright_obs::{
    Class, Command, DigestArgument, Error, Form, Hash, Parser, Progress, Refusal, Reply, Request, Verb,
};
use sha2::Digest as _;

const RSA2048: &str = "11F89654D23205FE9F9CE941A5B9A4C9E37025C8";
const RSA4096: &str = "183496C716010FEA692BC382C50F332C45132EEB";
const ED25519: &str = "CDD361BB83D291ACCB5A33F29DFBE6265B710235";

struct Connection {
    name: String,
    request: Vec<u8>,
    reply: Vec<u8>,
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/obs").join(name)).unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn connections() -> Vec<Connection> {
    let text = String::from_utf8(fixture("transcripts.tsv")).unwrap();
    let connections: Vec<_> = text
        .lines()
        .skip(1)
        .map(|line| {
            let [name, request, reply] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let reply = if reply == "-" { Vec::new() } else { hex(reply) };
            Connection { name: name.to_owned(), request: hex(request), reply }
        })
        .collect();
    assert_eq!(connections.len(), 55);
    connections
}

fn connection(name: &str) -> Connection {
    connections().into_iter().find(|connection| connection.name == name).unwrap()
}

fn parse(bytes: &[u8]) -> Result<Request, Refusal> {
    let mut parser = Parser::new();
    match parser.push(bytes) {
        Progress::Done(result) => result,
        Progress::More(_) => Err(parser.cut_short()),
    }
}

/// Those that were answered with results.
fn good() -> impl Iterator<Item = (Connection, Request, Reply)> {
    connections().into_iter().filter_map(|connection| {
        let reply = Reply::parse(&connection.reply).ok().filter(|reply| reply.status() == 0)?;
        let request = parse(&connection.request).unwrap();
        Some((connection, request, reply))
    })
}

fn digests(request: &Request) -> Vec<DigestArgument> {
    match request.command().unwrap() {
        Command::Sign { digests } | Command::Privsign { digests, .. } => digests,
        Command::Ping | Command::Pubkey | Command::Keygen(_) | Command::Privtotp { .. } => Vec::new(),
    }
}

/// What the name of a connection says of its request: form, verb, number of the command's own arguments.
fn said(name: &str) -> (Form, Verb, usize) {
    let is = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    match name {
        "ping.1" | "err-not-reserved-port.1" => (Form::OldPing, Verb::Ping, 0),
        "new-ping.1" | "new-ping-user.1" => (Form::New, Verb::Ping, 0),
        "new-pubkey.1" => (Form::New, Verb::Pubkey, 0),
        "keygen-rsa2048.1" => (Form::New, Verb::Keygen, 4),
        "totp-bad.1" => (Form::New, Verb::Privtotp, 2),
        "err-totp-args.1" => (Form::New, Verb::Privtotp, 1),
        "err-privsign-short.1" => (Form::New, Verb::Privsign, 1),
        "err-privileged-not-loaded.1" => (Form::New, Verb::Privileged, 1),
        "err-certgen.1" => (Form::New, Verb::Certgen, 1),
        "err-unknown-cmd.1" => (Form::New, Verb::Unknown, 0),
        "err-no-args.1" => (Form::New, Verb::Sign, 0),
        "new-sign-5.1" => (Form::New, Verb::Sign, 5),
        "bulk-cpio-3-sha256.1" => (Form::New, Verb::Sign, 3),
        _ if is(&["pubkey"]) => (Form::Old, Verb::Pubkey, 0),
        _ if is(&["privsign"]) => (Form::New, Verb::Privsign, 2),
        _ if is(&["new-sign", "err-"]) => (Form::New, Verb::Sign, 1),
        // Two signatures in a package of version 4, the first connection of `-4` is the probe.
        "rpm-v3-sha256-hdr+payload.1" => (Form::New, Verb::Sign, 2),
        _ if is(&["rpm-v4"]) && name.ends_with(".2") => (Form::New, Verb::Sign, 2),
        _ if is(&["clearsign", "detached", "fingerprint", "keyid", "rawopenssl", "rpm"]) => {
            (Form::Old, Verb::Sign, 1)
        }
        _ => panic!("{name}: what is it?"),
    }
}

#[test]
fn every_request_is_what_its_name_says_and_keeps_its_bytes() {
    for Connection { name, request: bytes, .. } in connections() {
        match name.as_str() {
            "err-short-packet.1" => assert_eq!(parse(&bytes), Err(Refusal::TooSmall)),
            "err-control-char.1" => assert_eq!(parse(&bytes), Err(Refusal::MalformedArgument)),
            _ => {
                let request = parse(&bytes).unwrap();
                let (form, verb, arguments) = said(&name);
                assert_eq!((request.form(), request.verb()), (form, verb), "{name}");
                assert_eq!(request.arguments().len(), arguments, "{name}");
                assert_eq!(request.to_bytes(), bytes, "{name}");
                let user = request.user();
                let named = user.starts_with("bench#") && user.ends_with("@copr.example.org");
                assert!(named || user.starts_with("nosuch") || verb == Verb::Ping, "{name}: {user}");
                let probe = name.contains("-v4-") && name.ends_with(".1") || name.starts_with("fingerprint");
                if let Ok(Command::Sign { digests }) = request.command() {
                    assert!(digests.iter().all(|digest| digest.is_probe() == probe), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_request_may_come_in_pieces_of_any_size() {
    for Connection { name, request: bytes, .. } in connections() {
        for size in [1, 3, 7, 64, 1024] {
            let mut parser = Parser::new();
            let mut done = None;
            for piece in bytes.chunks(size) {
                assert!(done.is_none(), "{name}: done before its end");
                if let Progress::Done(result) = parser.push(piece) {
                    done = Some(result);
                }
            }
            assert_eq!(done.unwrap_or_else(|| Err(parser.cut_short())), parse(&bytes), "{name}");
        }
    }
}

/// What a server answers without a key of that name, and else before it uses one.
fn refusal(name: &str, bytes: &[u8]) -> Refusal {
    let request = match parse(bytes) {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    if name.contains("unknown-user") {
        return Refusal::UnknownKey { user: request.user().to_owned() };
    }
    request.command().unwrap_err()
}

#[test]
fn refusals_are_those_of_signd_byte_for_byte() {
    let mut count = 0;
    for Connection { name, request, reply } in connections() {
        let refused = name.starts_with("err-") || name.contains("unknown");
        if refused && name != "err-not-reserved-port.1" {
            count += 1;
            let ours = Reply::refused(&refusal(&name, &request)).to_bytes();
            assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&reply), "{name}");
        }
    }
    assert_eq!(count, 15);
}

#[test]
fn every_reply_is_read_and_written_as_the_same_bytes() {
    for Connection { name, reply: bytes, .. } in connections() {
        if name == "err-not-reserved-port.1" {
            assert_eq!(Reply::parse(&bytes), Err(Error::EmptyReply));
            continue;
        }
        let reply = Reply::parse(&bytes).unwrap();
        assert_eq!(reply.to_bytes(), bytes, "{name}");
        let failed = name.starts_with("err-") || name.contains("unknown-user") || name == "totp-bad.1";
        assert_eq!(reply.status(), u16::from(failed), "{name}");
        let refused = matches!(reply.results(Form::New, 1), Err(Error::Refused { .. }));
        assert_eq!(refused, failed, "{name}");
    }
}

#[test]
fn every_result_is_found_and_packed_as_the_same_bytes() {
    for (connection, request, reply) in good() {
        let expected = match request.verb() {
            Verb::Ping => 0,
            Verb::Keygen => 2,
            Verb::Pubkey => 1,
            Verb::Sign | Verb::Privsign => digests(&request).len(),
            Verb::Privtotp | Verb::Certgen | Verb::Privileged | Verb::Unknown => {
                panic!("{}", connection.name)
            }
        };
        let results = reply.results(request.form(), expected).unwrap();
        assert_eq!(Reply::ok(request.form(), &results).unwrap().to_bytes(), connection.reply);
        if request.verb() == Verb::Pubkey {
            assert!(results[0].starts_with(b"-----BEGIN PGP PUBLIC KEY BLOCK-----"), "{}", connection.name);
        }
    }
}

/// The numbers of a packet, without their lengths.
fn numbers(packet: &SignaturePacket) -> Vec<&[u8]> {
    let mut rest = packet.numbers.as_slice();
    let mut numbers = Vec::new();
    while let Some(([high, low], tail)) = rest.split_first_chunk::<2>() {
        let (number, tail) = tail.split_at(usize::from(u16::from_be_bytes([*high, *low])).div_ceil(8));
        numbers.push(number);
        rest = tail;
    }
    numbers
}

#[test]
fn every_signature_packet_is_composed_again_from_its_numbers() {
    let mut seen = 0;
    for (connection, request, reply) in good() {
        let digests = digests(&request);
        let results = reply.results(request.form(), digests.len());
        for (digest, bytes) in
            digests.iter().zip(results.into_iter().flatten()).filter(|(d, _)| !d.is_probe())
        {
            let packet = SignaturePacket::parse(bytes).unwrap();
            let values = numbers(&packet);
            let value = match (packet.algorithm, values.as_slice()) {
                (KeyAlgorithm::Rsa, [number]) => Value::Rsa(number),
                (KeyAlgorithm::EdDsaLegacy, [r, s]) => Value::EdDsaLegacy { r, s },
                other => panic!("{}: {other:?}", connection.name),
            };
            assert_eq!(version_3(digest, packet.issuer, &value).unwrap(), bytes, "{}", connection.name);
            let longest = values.iter().map(|number| number.len()).max().unwrap();
            assert!(bytes.len() <= version_3_len_max(packet.algorithm, longest));
            seen += 1;
        }
    }
    assert_eq!(seen, 32);
}

#[test]
fn answers_to_probes_differ_from_signds_in_their_numbers_alone() {
    let mut seen = 0;
    for (connection, request, reply) in good() {
        for digest in digests(&request).iter().filter(|digest| digest.is_probe()) {
            let bytes = reply.results(request.form(), 1).unwrap()[0];
            let theirs = SignaturePacket::parse(bytes).unwrap();
            let fingerprint = theirs.fingerprint.unwrap();
            let answer = probe_answer(digest, theirs.algorithm, &fingerprint).unwrap();
            let mut ours = SignaturePacket::parse(&answer).unwrap();
            ours.numbers.clone_from(&theirs.numbers);
            assert_eq!(ours, theirs, "{}", connection.name);
            // The areas too: all between the packet header and the numbers.
            let head = 49;
            let skip = |packet: &[u8]| if packet[0] == 0x88 { 2 } else { 3 };
            assert_eq!(answer[2..2 + head], bytes[skip(bytes)..skip(bytes) + head], "{}", connection.name);
            seen += 1;
        }
    }
    assert_eq!(seen, 9);
}

#[test]
fn a_client_of_ours_sends_the_bytes_of_theirs() {
    for (connection, request, _) in good() {
        let (user, digests) = (request.user(), digests(&request));
        let hash = Hash::from_request(request.hash_name()).unwrap();
        let ours = match request.command().unwrap() {
            Command::Ping => Request::ping(),
            Command::Pubkey => Request::pubkey(user, hash).unwrap(),
            Command::Privsign { key, .. } => Request::privsign(user, &key, &digests).unwrap(),
            Command::Keygen(keygen) => keygen.request(user, hash).unwrap(),
            Command::Sign { .. } => Request::sign(user, &digests).unwrap(),
            Command::Privtotp { .. } => panic!("{}", connection.name),
        };
        // Those were sent by hand, in the new form where the client has an old one.
        let by_hand = connection.name.starts_with("new-") && connection.name != "new-sign-5.1";
        assert_eq!(ours.to_bytes() == connection.request, !by_hand, "{}", connection.name);
    }
}

fn fingerprint(text: &str) -> [u8; 20] {
    hex(text).try_into().unwrap()
}

/// The part of an armored file that follows `head`.
fn armored(name: &str) -> Vec<u8> {
    let text = String::from_utf8(fixture(name)).unwrap();
    let (_, block) = text.split_once("-----BEGIN PGP SIGNATURE-----").unwrap();
    let (_, body) = block.split_once("\n\n").unwrap();
    let body: String = body.lines().take_while(|line| !line.starts_with(['=', '-'])).collect();
    STANDARD.decode(body).unwrap()
}

#[test]
fn a_version_4_signature_is_the_file_that_upstreams_client_writes() {
    let document = fixture("files/d.txt");
    for (name, algorithm, key, file) in [
        ("detached-raw-D-v4-sha256.2", KeyAlgorithm::Rsa, RSA2048, fixture("files/d.v4.sig")),
        ("detached-v4-sha256.2", KeyAlgorithm::Rsa, RSA2048, armored("files/d.v4.asc")),
        ("detached-v4-sha256-rsa4096.2", KeyAlgorithm::Rsa, RSA4096, armored("files/d.rsa4096.asc")),
        ("detached-v4-sha256-ed25519.2", KeyAlgorithm::EdDsaLegacy, ED25519, armored("files/d.ed25519.asc")),
    ] {
        let Connection { request, reply, .. } = connection(name);
        let (request, reply) = (parse(&request).unwrap(), Reply::parse(&reply).unwrap());
        let asked = digests(&request).remove(0);
        let part = HashedPart {
            class: Class::Binary,
            algorithm,
            hash: Hash::Sha256,
            created: asked.created(),
            fingerprint: Some(fingerprint(key)),
        };
        let digest = sha2::Sha256::new().chain_update(&document).chain_update(part.trailer()).finalize();
        assert_eq!(part.argument(&digest).unwrap(), asked, "{name}");
        let result = reply.results(request.form(), 1).unwrap()[0];
        assert_eq!(part.transplant(&digest, result).unwrap(), file, "{name}");
        let other = HashedPart { fingerprint: Some([7; 20]), ..part };
        assert_eq!(other.transplant(&digest, result), Err(Error::OtherThanAsked { what: "issuer" }));
    }
}

#[test]
fn a_clear_signature_in_version_4_is_the_one_in_the_file() {
    let Connection { request, reply, .. } = connection("clearsign-v4-sha256.2");
    let (request, reply) = (parse(&request).unwrap(), Reply::parse(&reply).unwrap());
    let asked = digests(&request).remove(0);
    let part = HashedPart {
        class: Class::Text,
        algorithm: KeyAlgorithm::Rsa,
        hash: Hash::Sha256,
        created: asked.created(),
        fingerprint: Some(fingerprint(RSA2048)),
    };
    // The text of files/c.txt without its last line end (RFC 9580 section 7.2).
    let digest = sha2::Sha256::new().chain_update("hello obs-sign").chain_update(part.trailer()).finalize();
    assert_eq!(asked.digest(), &digest[..]);
    let result = reply.results(request.form(), 1).unwrap()[0];
    assert_eq!(part.transplant(&digest, result).unwrap(), armored("files/c.txt"));
}

#[test]
fn a_version_3_digest_is_of_the_document_and_the_five_bytes_of_the_argument() {
    let document = fixture("files/d.txt");
    for (name, file) in [("detached-v3-sha256.1", Some("files/d.v3.asc")), ("rawopenssl-O-sha256.1", None)] {
        let Connection { request, reply, .. } = connection(name);
        let (request, reply) = (parse(&request).unwrap(), Reply::parse(&reply).unwrap());
        let asked = digests(&request).remove(0);
        let mut hasher = sha2::Sha256::new().chain_update(&document);
        let result = reply.results(request.form(), 1).unwrap()[0];
        if let Some(file) = file {
            hasher.update([asked.class().number()]);
            hasher.update(asked.created().to_be_bytes());
            assert_eq!(result, armored(file), "{name}");
        } else {
            let packet = SignaturePacket::parse(result).unwrap();
            assert_eq!(numbers(&packet)[0], fixture("files/d.O.sig"), "{name}");
        }
        assert_eq!(asked.digest(), &hasher.finalize()[..], "{name}");
    }
}

#[test]
fn the_key_id_of_an_empty_document_is_found_with_sha_1() {
    let Connection { request, reply, .. } = connection("keyid.1");
    let (request, reply) = (parse(&request).unwrap(), Reply::parse(&reply).unwrap());
    let asked = digests(&request).remove(0);
    let trailer = [&[asked.class().number()][..], &asked.created().to_be_bytes()].concat();
    assert_eq!((asked.hash(), asked.digest()), (Hash::Sha1, &sha1::Sha1::digest(trailer)[..]));
    let packet = SignaturePacket::parse(reply.results(Form::Old, 1).unwrap()[0]).unwrap();
    assert_eq!(packet.issuer, key_id(&fingerprint(RSA2048)));
}

#[test]
fn a_project_key_is_the_same_in_the_reply_that_made_it_its_file_and_the_requests_that_use_it() {
    let Connection { request, reply, .. } = connection("keygen-rsa2048.1");
    let (request, reply) = (parse(&request).unwrap(), Reply::parse(&reply).unwrap());
    assert_eq!(
        request.command().unwrap(),
        Command::Keygen(Keygen {
            algorithm: NewKey::Rsa(2048),
            expire_days: 800,
            real_name: "proj key".to_owned(),
            email: "proj@example.org".to_owned(),
        })
    );
    let results = reply.results(Form::New, 2).unwrap();
    assert_eq!(results[0], fixture("files/proj.asc"));
    let file = String::from_utf8(fixture("files/P")).unwrap();
    let key = ProjectKey::from_file(&file).unwrap();
    assert_eq!(key.to_hex().as_bytes(), results[1]);
    let ProjectKey::OpenPgp(message) = &key else { panic!("not a message") };
    assert_eq!((message.recipient(), message.algorithm()), (key_id(&fingerprint(RSA2048)), 1));
    let mut used = 0;
    for connection in connections().iter().filter(|connection| connection.name.starts_with("privsign")) {
        let request = parse(&connection.request).unwrap();
        let Ok(Command::Privsign { key: sent, .. }) = request.command() else {
            panic!("{}", connection.name)
        };
        assert_eq!(sent, key, "{}", connection.name);
        used += 1;
    }
    assert_eq!(used, 3);
}
