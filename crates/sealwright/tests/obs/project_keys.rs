//! Project keys over the protocol: made, used, and refused.

use std::process::Command;

use sealwright_obs::command::{Keygen, NewKey};
use sealwright_obs::packet::SignaturePacket;
use sealwright_obs::project_key::ProjectKey;
use sealwright_obs::{DigestArgument, Form, Hash, Reply, Request};
use sealwright_testkit::{fixtures, tools};

use super::serving::{KEYS, Obs, RSA2048, digest};

fn keygen(algorithm: NewKey, user: &str, email: &str) -> Vec<u8> {
    let keygen =
        Keygen { algorithm, expire_days: 800, real_name: "proj key".to_owned(), email: email.to_owned() };
    keygen.request(user, Hash::Sha256).unwrap().to_bytes()
}

fn packets(obs: &Obs, request: &Request, count: usize) -> Vec<SignaturePacket> {
    let reply = Reply::parse(&obs.ask(&request.to_bytes())).unwrap();
    let results =
        reply.results(Form::New, count).unwrap_or_else(|error| panic!("{error}\n{}", obs.server.log()));
    results.into_iter().map(|result| SignaturePacket::parse(result).unwrap()).collect()
}

#[test]
fn a_project_key_is_made_is_certified_by_its_user_and_signs_when_it_comes_back() {
    let obs = Obs::with("", &[0]);
    for algorithm in [NewKey::Rsa(2048), NewKey::Ed25519] {
        let reply = Reply::parse(&obs.ask(&keygen(algorithm, RSA2048, "proj@example.org"))).unwrap();
        let results =
            reply.results(Form::New, 2).unwrap_or_else(|error| panic!("{error}\n{}", obs.server.log()));
        let certificate = String::from_utf8(results[0].to_vec()).unwrap();
        let key = ProjectKey::from_file(std::str::from_utf8(results[1]).unwrap()).unwrap();
        let home = tempfile::tempdir().unwrap();
        let gpg = |arguments: &[&str]| {
            let mut gpg = Command::new("gpg");
            gpg.arg("--homedir").arg(home.path()).args(["--batch", "--no-tty", "--quiet"]).args(arguments);
            String::from_utf8(tools::succeed(&mut gpg)).unwrap()
        };
        let file = home.path().join("project.asc");
        std::fs::write(&file, &certificate).unwrap();
        gpg(&["--import", fixtures::path("obs/keys/rsa2048.pub.asc").to_str().unwrap()]);
        gpg(&["--import", file.to_str().unwrap()]);
        let listed = gpg(&["--with-colons", "--check-signatures", "proj@example.org"]);
        let good = listed.lines().filter(|line| line.starts_with("sig:!:"));
        assert_eq!(good.count(), 2, "its own and that of its user: {listed}");
        assert!(listed.contains("proj key <proj@example.org>"), "{listed}");

        let probe = DigestArgument::probe(Hash::Sha256);
        let asked = Request::privsign(RSA2048, &key, &[digest(1), probe, digest(2)]).unwrap();
        let packets = packets(&obs, &asked, 3);
        assert!(packets.iter().all(|packet| packet.version == 3 && packet.issuer == packets[0].issuer));
        let id: String = packets[0].issuer.iter().map(|byte| format!("{byte:02X}")).collect();
        assert!(listed.contains(&id), "{id} in {listed}");
        assert_eq!(packets[1].numbers.len(), 3 * if algorithm == NewKey::Ed25519 { 2 } else { 1 });
    }
}

#[test]
fn what_is_no_project_key_of_the_user_is_refused_with_one_text() {
    let obs = Obs::with("", &[0, 1]);
    let text = std::fs::read_to_string(fixtures::path("obs/files/P")).unwrap();
    let digits = text.trim();
    let ask = |user: &str, key: String| {
        let arguments = vec![key, digest(1).to_text()];
        obs.refusal(&Request::new_form("privsign", user, Hash::Sha256, arguments).unwrap().to_bytes())
    };
    let cut = ask(RSA2048, digits[..digits.len() - 20].to_owned());
    assert!(cut.contains("the project key does not open"), "{cut}");
    let mut changed = digits.to_owned().into_bytes();
    let last = changed.len() - 9;
    changed[last] = if changed[last] == b'0' { b'1' } else { b'0' };
    assert_eq!(ask(RSA2048, String::from_utf8(changed).unwrap()), cut, "nothing is told of where it fails");
    let other = ask(KEYS[1].0, digits.to_owned());
    assert!(other.contains("obs-project-keys"), "{other}");
    let wrapped = ask(RSA2048, "01".to_owned() + &"00".repeat(200));
    assert!(!wrapped.contains("does not open"), "{wrapped}");
}

#[test]
fn keygen_makes_nothing_of_bad_names_or_of_types_that_are_not_made() {
    let obs = Obs::with("", &[0, 1]);
    assert_eq!(obs.refusal(&keygen(NewKey::Rsa(2048), RSA2048, "a@b>")), "bad email");
    assert_eq!(obs.refusal(&keygen(NewKey::Rsa(1024), RSA2048, "a@b")), "type rsa@1024 is not made here");
    assert_eq!(obs.refusal(&keygen(NewKey::Dsa(2048), RSA2048, "a@b")), "type dsa@2048 is not made here");
    let text = obs.refusal(&keygen(NewKey::Rsa(2048), KEYS[1].0, "a@b"));
    assert!(text.contains("obs-project-keys"), "{text}");
}
