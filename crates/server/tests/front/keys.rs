//! Key administration.

use std::collections::BTreeSet;

use sealwright_proto::names::KeyName;
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::v1::keys_client::KeysClient;
use sealwright_proto::v1::{
    BeginImportRequest, DescribeKeyRequest, ImportKeyRequest, KeyState, ListKeysRequest, RenewKeyRequest,
    SetKeyStateRequest,
};
use sealwright_server::{Grants, Principal};

use crate::bench::{Bench, create_request};
use crate::peer::{self, Act};

fn code(status: &tonic::Status) -> Code {
    Fault::from(status).code
}

#[tokio::test]
async fn a_new_key_is_described_by_name_and_by_fingerprint() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    let made = bench.create("release").await;
    assert_eq!(made.state(), KeyState::Enabled);
    assert_eq!((made.algorithm.as_str(), made.generation, made.usages.as_slice()), ("ed25519", 1, &[1][..]));
    assert_eq!(made.fingerprint, peer::certificate().fingerprint().to_string());
    assert!(!made.revocation.is_empty());
    assert_eq!(made.warnings, ["made by a test"]);
    let mut keys = bench.keys().await;
    for name in ["release", &made.fingerprint] {
        let key = keys.describe(DescribeKeyRequest { key: name.to_owned() }).await.unwrap().into_inner();
        assert_eq!(key.id, made.id);
        assert_eq!(key.certificate, made.certificate);
        assert!(key.revocation.is_empty(), "told once");
    }
    let missing = keys.describe(DescribeKeyRequest { key: "none".to_owned() }).await.unwrap_err();
    assert_eq!(code(&missing), Code::KeyNotFound);
}

#[tokio::test]
async fn names_are_restricted_and_never_reused() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    bench.create("release").await;
    let mut keys = bench.keys().await;
    for (name, want) in [
        ("release", Code::KeyExists),
        ("", Code::NameNotAllowed),
        ("a b", Code::NameNotAllowed),
        ("../x", Code::NameNotAllowed),
        (&"n".repeat(256), Code::NameNotAllowed),
    ] {
        let refused = keys.create(create_request(name)).await.unwrap_err();
        assert_eq!(code(&refused), want, "{name}");
    }
}

#[tokio::test]
async fn an_import_of_a_key_that_is_here_names_it() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    let mut keys = bench.keys().await;
    let public = keys.begin_import(BeginImportRequest {}).await.unwrap().into_inner();
    assert_eq!(public.hpke_public_key, [7; 32]);
    let import = |name: &str| ImportKeyRequest {
        name: name.to_owned(),
        encapsulated_key: vec![1; 32],
        ciphertext: vec![2; 100],
        usages: Vec::new(),
    };
    let made = keys.import(import("imported")).await.unwrap().into_inner().key.unwrap();
    assert_eq!(made.name, "imported");
    let again = Bench::start_in(bench.folder, Box::new(|_, _| Act::Sign)).await;
    let refused = again.keys().await.import(import("second")).await.unwrap_err();
    assert_eq!(code(&refused), Code::KeyHereAlready);
    assert!(refused.message().contains("imported"), "{}", refused.message());
}

#[tokio::test]
async fn pages_of_keys_follow_each_other() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    for name in ["c", "a", "b", "e", "d"] {
        bench.create(name).await;
    }
    let mut keys = bench.keys().await;
    let mut after = String::new();
    let mut pages = Vec::new();
    loop {
        let page = keys.list(ListKeysRequest { after, limit: 2 }).await.unwrap().into_inner();
        pages.push(page.keys.iter().map(|key| key.name.clone()).collect::<Vec<_>>().concat());
        after = page.keys.last().unwrap().name.clone();
        if !page.more {
            break;
        }
    }
    assert_eq!(pages, ["ab", "cd", "e"]);
}

#[tokio::test]
async fn a_renewal_raises_the_generation() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    bench.create("release").await;
    let mut keys = bench.keys().await;
    let renew = RenewKeyRequest { key: "release".to_owned(), valid_for_s: Some(1000) };
    for generation in [2, 3] {
        let key = keys.renew(renew.clone()).await.unwrap().into_inner();
        assert_eq!(key.generation, generation);
    }
    let missing = RenewKeyRequest { key: "none".to_owned(), valid_for_s: None };
    assert_eq!(code(&keys.renew(missing).await.unwrap_err()), Code::KeyNotFound);
}

#[tokio::test]
async fn a_state_that_is_none_is_refused() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    bench.create("release").await;
    let mut keys = bench.keys().await;
    let set = |state| SetKeyStateRequest { key: "release".to_owned(), state };
    for state in [0, 3, -1] {
        assert_eq!(code(&keys.set_state(set(state)).await.unwrap_err()), Code::MalformedRequest);
    }
    let disabled = keys.set_state(set(2)).await.unwrap().into_inner();
    assert_eq!(disabled.state(), KeyState::Disabled);
    assert_eq!(keys.set_state(set(1)).await.unwrap().into_inner().state(), KeyState::Enabled);
}

#[tokio::test]
async fn only_an_administrator_may_touch_keys() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    bench.create("release").await;
    let stranger = Principal::new("ci", Grants::keys(BTreeSet::new())).unwrap();
    let mut keys = KeysClient::new(bench.connect(stranger).await);
    let name = || "release".to_owned();
    let refused = [
        keys.create(create_request("other")).await.unwrap_err(),
        keys.describe(DescribeKeyRequest { key: name() }).await.unwrap_err(),
        keys.begin_import(BeginImportRequest {}).await.unwrap_err(),
        keys.renew(RenewKeyRequest { key: name(), valid_for_s: None }).await.unwrap_err(),
        keys.set_state(SetKeyStateRequest { key: name(), state: 2 }).await.unwrap_err(),
    ];
    for status in refused {
        assert_eq!(code(&status), Code::PermissionDenied);
        assert_eq!(status.code(), tonic::Code::PermissionDenied);
    }
    let listed = keys.list(ListKeysRequest::default()).await.unwrap().into_inner();
    assert!(listed.keys.is_empty() && !listed.more);
}

#[tokio::test]
async fn who_has_a_grant_sees_those_keys_and_is_told_nothing_of_others() {
    let bench = Bench::start(|_, _| Act::Sign).await;
    let mut made = Vec::new();
    for name in ["a", "b", "c", "d"] {
        made.push(bench.create(name).await);
    }
    let granted = ["d", "b", "later", "a"].map(|name| KeyName::parse(name).unwrap());
    let client = Principal::new("ci", Grants::keys(granted.into())).unwrap();
    let mut keys = KeysClient::new(bench.connect(client).await);
    let mut names = Vec::new();
    let mut after = String::new();
    loop {
        let page = keys.list(ListKeysRequest { after, limit: 2 }).await.unwrap().into_inner();
        names.extend(page.keys.iter().map(|key| key.name.clone()));
        after = names.last().unwrap().clone();
        if !page.more {
            break;
        }
    }
    assert_eq!(names, ["a", "b", "d"]);
    let mut describe = async |key: &str| {
        let described = keys.describe(DescribeKeyRequest { key: key.to_owned() }).await;
        described
            .map(|key| key.into_inner().name)
            .map_err(|status| (code(&status), status.message().to_owned()))
    };
    assert_eq!(describe("b").await.unwrap(), "b");
    assert_eq!(describe(&made[1].fingerprint).await.unwrap(), "b");
    assert_eq!(describe("later").await.unwrap_err().0, Code::KeyNotFound);
    // A key that is there and one that is not: the same words, by name and by fingerprint.
    let (there, missing) = (describe("c").await.unwrap_err(), describe("x").await.unwrap_err());
    assert_eq!(there, (Code::PermissionDenied, "ci has no grant for the key c".to_owned()));
    assert_eq!(missing, (Code::PermissionDenied, "ci has no grant for the key x".to_owned()));
    let (there, missing) = (&made[2].fingerprint, "ab".repeat(20));
    for fingerprint in [there, &missing] {
        let want = (Code::PermissionDenied, format!("ci has no grant for the key {fingerprint}"));
        assert_eq!(describe(fingerprint).await.unwrap_err(), want);
    }
}
