//! A request for the public key of a project that has none makes it, where an operator wants that.

use sealwright_obs::{Form, Hash, Reply, Request};

use super::serving::{Obs, append, sign};

const NEW: &str = "alice#proj@copr.example.org";

fn public_key(user: &str) -> Vec<u8> {
    Request::pubkey(user, Hash::Sha256).unwrap().to_bytes()
}

/// Client `maker` at this machine, who may make keys of one domain, and use all.
fn started(table: &str) -> Obs {
    let mut obs = Obs::new(table);
    obs.server.configure("allow", "allow = [{ from = \"127.0.0.1\", client = \"maker\" }]");
    let maker = "\n[[client]]\nname = \"maker\"\nkeys = [\"*\"]\ncreate_keys = [\"@copr.example.org\"]\nobs = [\"sign\"]\n";
    append(&obs.server, "clients.toml", maker);
    obs.server.start();
    obs
}

#[test]
fn the_first_request_for_a_public_key_makes_it_once_and_it_signs() {
    let obs = started("make_on_pubkey = {}");
    let keys = || obs.server.sql("SELECT name, user_id FROM keys");
    let replies: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| obs.ask(&public_key(NEW)))).collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let first = Reply::parse(&replies[0]).unwrap();
    let results = first.results(Form::Old, 1).unwrap_or_else(|error| panic!("{error}\n{}", obs.server.log()));
    assert!(results[0].starts_with(b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n"));
    assert!(replies.iter().all(|reply| *reply == replies[0]), "all get the same key");
    assert_eq!(keys(), [format!("{NEW}|alice_proj <{NEW}>")]);
    assert_eq!(obs.ask(&sign(NEW, 7).to_bytes())[..2], [0, 0]);
    for (user, what) in [
        ("alice#proj@elsewhere.example", "another domain"),
        ("release", "no project"),
        ("alice@copr.example.org", "no project"),
    ] {
        assert_eq!(obs.refusal(&public_key(user)), format!("unknown key: {user}"), "{what}");
        assert_eq!(obs.refusal(&sign(user, 1).to_bytes()), format!("unknown key: {user}"), "{what}");
    }
    let other = "bob#proj@copr.example.org";
    assert_eq!(obs.refusal(&sign(other, 1).to_bytes()), format!("unknown key: {other}"), "only a public key");
    assert_eq!(keys().len(), 1);
}

#[test]
fn nothing_is_made_unless_it_is_configured() {
    let obs = started("");
    assert_eq!(obs.refusal(&public_key(NEW)), format!("unknown key: {NEW}"));
    assert_eq!(obs.server.sql("SELECT count(*) FROM keys"), ["0"]);
}
