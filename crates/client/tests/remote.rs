//! Servers over TCP and mTLS: which are taken, which are refused and why, and what becomes of requests when one goes
//! away. The servers here are a small service behind rustls; the real front is tested where the program is.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    reason = "tests"
)]

#[allow(dead_code, reason = "shared with other tests")]
#[path = "signing/service.rs"]
mod service;

#[path = "remote/machine.rs"]
mod machine;

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use rcgen::date_time_ymd;
use sealwright_client::batch::Stop;
use sealwright_client::connection::{Connection, Group, Priority};
use sealwright_client::error::{CredentialFault, Error, Unreached};
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_crypto::usage::{Purpose, Usage};
use sealwright_proto::status::Code;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use machine::{Authority, Machine, server_params};
use service::{Fault, Service};

fn group() -> Group {
    let content = Content::Midstate(Hasher::new(HashAlgorithm::Sha256).midstate());
    Group {
        key: "release".to_owned(),
        priority: Priority::Interactive,
        name: "a.rpm".to_owned(),
        size: 1,
        items: vec![ToBeSigned { usage: Usage::OpenPgp, purpose: Purpose::Detached, content, ticket: None }],
        more: Vec::new(),
        salt: false,
    }
}

/// Why the only server that was tried did not serve.
async fn why(connection: &Connection) -> Unreached {
    let error = connection.describe("release").await.unwrap_err();
    assert!(error.nothing_was_attempted() && !error.advice().is_empty(), "{error}");
    let Error::Unreachable { tried } = error else { panic!("{error:?}") };
    assert_eq!(tried.len(), 1, "{tried:?}");
    tried[0].why.clone()
}

#[tokio::test]
async fn a_server_of_the_pinned_authority_serves_over_one_connection_and_sessions_are_resumed() {
    let authority = Authority::new();
    let server = Machine::start(&authority, server_params(&["localhost"]), Service::default()).await;
    let client = authority.client("build-7");
    let connection = client.connect(&[server.url("localhost")]);
    let asked: Vec<_> = (0..20).map(|_| connection.clone()).collect();
    let answers = futures_util::future::join_all(
        asked.iter().map(async |connection| connection.sign(&group()).await.unwrap()),
    );
    let answers = answers.await;
    assert!(answers.iter().all(|answer| answer.items[0].is_ok() && answer.server.is_some()));
    assert_eq!((server.handshakes(), server.resumed()), (1, 0), "one connection for all");
    server.cut();
    assert!(connection.sign(&group()).await.unwrap().items[0].is_ok());
    assert_eq!((server.handshakes(), server.resumed()), (2, 1), "the second one was resumed");
}

#[tokio::test]
async fn a_certificate_that_is_expired_early_foreign_or_for_another_name_or_use_is_refused_by_its_name() {
    let authority = Authority::new();
    let client = authority.client("build-7");
    let why_with = async |params: rcgen::CertificateParams, issuer: &Authority| {
        let server = Machine::start(issuer, params, Service::default()).await;
        why(&client.connect(&[server.url("localhost")])).await
    };
    let mut expired = server_params(&["localhost"]);
    (expired.not_before, expired.not_after) = (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 2, 3));
    let said = why_with(expired, &authority).await;
    assert!(matches!(said, Unreached::Expired { .. }), "{said:?}");
    assert!(said.to_string().contains("2020-02-03"), "{said}");
    let mut early = server_params(&["localhost"]);
    (early.not_before, early.not_after) = (date_time_ymd(2050, 1, 1), date_time_ymd(2051, 1, 1));
    assert!(matches!(why_with(early, &authority).await, Unreached::NotYetValid { .. }));
    let said = why_with(server_params(&["sign.example", "192.0.2.1"]), &authority).await;
    assert_eq!(said.to_string(), "its certificate is for sign.example, 192.0.2.1, not for localhost");
    let foreign = why_with(server_params(&["localhost"]), &Authority::new()).await;
    assert!(matches!(foreign, Unreached::UnknownAuthority), "{foreign:?}");
    let mut of_client = server_params(&["localhost"]);
    of_client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    assert!(matches!(why_with(of_client, &authority).await, Unreached::WrongPurpose));
}

#[tokio::test]
async fn a_server_that_refuses_our_certificate_says_why_before_anything_is_asked() {
    let (authority, other) = (Authority::new(), Authority::new());
    let service = Service::default();
    let server = Machine::start(&authority, server_params(&["localhost"]), service.clone()).await;
    let client = other.client_trusting(&authority, "build-7");
    let said = why(&client.connect(&[server.url("localhost")])).await;
    assert!(matches!(said, Unreached::RefusesUs { .. }), "{said:?}");
    assert!(service.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_is_no_sealwright_server_is_told_apart() {
    let authority = Authority::new();
    let client = authority.client("build-7");
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://127.0.0.1:{}", plain.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = plain.accept().await {
            stream.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n").await.unwrap();
        }
    });
    assert!(matches!(why(&client.connect(&[url])).await, Unreached::NotTls));
    let web = Machine::start_with_alpn(&authority, server_params(&["localhost"]), b"http/1.1").await;
    assert!(matches!(why(&client.connect(&[web.url("localhost")])).await, Unreached::NotSealwright));
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = client.connect(&[format!("https://{gone}")]).describe("release").await.unwrap_err();
    assert_eq!(error.to_string(), format!("no server can be reached: {gone}: connection refused"));
    assert!(error.advice().contains("sealwright serve"), "{}", error.advice());
}

#[tokio::test]
async fn another_server_takes_over_with_the_same_request_id_when_one_stops_or_dies() {
    let authority = Authority::new();
    let client = authority.client("build-7");
    for fault in [Fault::Refused(Code::ShuttingDown), Fault::LostOnce] {
        let (bad, good) = (Service::failing(fault), Service::default());
        let ends = Machine::start(&authority, server_params(&["localhost"]), bad.clone()).await;
        let stays = Machine::start(&authority, server_params(&["localhost"]), good.clone()).await;
        // Order is random: ask until the first one was taken.
        let mut met = false;
        for _ in 0..64 {
            let connection = client.connect(&[ends.url("localhost"), stays.url("localhost")]);
            let answer = connection.sign(&group()).await.unwrap();
            assert!(answer.items[0].is_ok(), "{fault:?}");
            met = !bad.asked.lock().unwrap().is_empty();
            if met {
                break;
            }
        }
        assert!(met, "in 64 times the first one was never tried first");
        let asked = bad.asked.lock().unwrap().clone();
        let answered = good.asked.lock().unwrap().clone();
        if fault == Fault::Refused(Code::ShuttingDown) {
            assert_eq!(answered.last(), asked.last(), "the same id");
        }
    }
}

#[tokio::test]
async fn a_dead_address_in_the_list_costs_nothing_but_its_try() {
    let authority = Authority::new();
    let client = authority.client("build-7");
    let server = Machine::start(&authority, server_params(&["localhost"]), Service::default()).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for _ in 0..8 {
        let connection = client.connect(&[format!("https://{gone}"), server.url("localhost")]);
        assert!(connection.sign(&group()).await.unwrap().items[0].is_ok());
    }
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_again_and_no_request_is_lost() {
    let authority = Authority::new();
    let client = authority.client("build-7");
    let service = Service::default();
    let server = Machine::start(&authority, server_params(&["localhost"]), service.clone()).await;
    let connection = client.connect(&[server.url("localhost")]);
    assert!(connection.sign(&group()).await.unwrap().items[0].is_ok());
    let port = server.stop().await;
    let waiting = tokio::spawn({
        let connection = connection.clone();
        async move { connection.sign(&group()).await }
    });
    tokio::time::sleep(Duration::from_millis(400)).await;
    let _again = Machine::start_at(port, &authority, server_params(&["localhost"]), service).await;
    assert!(waiting.await.unwrap().unwrap().items[0].is_ok());
}

#[tokio::test]
async fn a_stop_ends_the_wait_for_a_server_that_was_never_asked_and_not_the_wait_for_an_answer() {
    let authority = Authority::new();
    let client = authority.client("build-7");
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (level, receiver) = tokio::sync::watch::channel(0);
    let stop = Stop::from_level(receiver);
    let away = client.connect(&[format!("https://{gone}")]);
    let waiting = tokio::spawn({
        let stop = stop.clone();
        async move { away.sign_unless_stopped(&group(), Some(&stop)).await }
    });
    let service = Service::failing(Fault::LostOnce);
    let server = Machine::start(&authority, server_params(&["localhost"]), service.clone()).await;
    let asked = client.connect(&[server.url("localhost")]);
    let answered = tokio::spawn({
        let stop = stop.clone();
        async move { asked.sign_unless_stopped(&group(), Some(&stop)).await }
    });
    while service.asked.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    level.send_replace(1);
    assert!(matches!(waiting.await.unwrap(), Err(Error::Stopped)));
    assert!(answered.await.unwrap().unwrap().items[0].is_ok(), "asked before: it may be signed already");
}

#[tokio::test]
async fn when_the_user_goes_the_server_sees_the_stream_end() {
    let authority = Authority::new();
    let client = authority.client("build-7");
    let service = Service::failing(Fault::Silent);
    let server = Machine::start(&authority, server_params(&["localhost"]), service.clone()).await;
    let connection = client.connect(&[server.url("localhost")]);
    let asked = tokio::spawn(async move { connection.sign(&group()).await });
    let begun = Instant::now();
    while service.asked.lock().unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    asked.abort();
    assert!(asked.await.is_err());
    server.all_closed().await;
}

#[tokio::test]
async fn each_fault_of_our_own_files_is_named_with_the_file() {
    let authority = Authority::new();
    let load = |client: &machine::Client| match client.credentials().load() {
        Err(Error::Credential { what, path, why }) => {
            assert!(path.exists() || matches!(why, CredentialFault::Read(_)));
            assert!(!why.advice().is_empty());
            (what, why)
        }
        other => panic!("{:?}", other.map(|_| ())),
    };
    let client = authority.client("a");
    client.credentials().load().unwrap();
    let key = client.credentials().key;
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(load(&client), ("client key", CredentialFault::OpenToOthers { mode: 0o644 })));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&key, std::fs::read(authority.client("b").credentials().key).unwrap()).unwrap();
    assert!(matches!(load(&client), ("client key", CredentialFault::KeyMismatch { .. })));
    std::fs::write(&key, "nothing").unwrap();
    assert!(matches!(load(&client).1, CredentialFault::Nothing { what: "private key" }));
    std::fs::write(client.credentials().ca, "").unwrap();
    assert!(matches!(load(&client), ("certificate authority", CredentialFault::Nothing { .. })));
    std::fs::remove_file(client.credentials().ca).unwrap();
    assert!(matches!(load(&client).1, CredentialFault::Read(_)));
    let of = |from, to| {
        let mut params = machine::client_params("c");
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        authority.client_with(&params)
    };
    let (what, why) = load(&of(2019, 2020));
    assert_eq!((what, why.to_string().contains("expired on 2020-01-01")), ("client certificate", true));
    assert!(matches!(load(&of(2050, 2051)).1, CredentialFault::NotYetValid { .. }));
}
