//! Names, revocations, ends, and what a reload changes for connections that are open or resumed.

use std::sync::Arc;

use rcgen::ExtendedKeyUsagePurpose;
use sealwright_proto::status::Code;
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_server::metrics::Handshake;
use sealwright_server::{Clients, tls};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::bench::{Bench, CLIENTS, describe, group, outcome, sign};
use crate::certificates::{Authority, Wanted, from_now, material};

/// `build`, with the number of its certificate revoked.
const REVOKED: &str = "[[client]]\nname = \"build\"\nkeys = [\"release\"]\nrevoked = [\"0A1B\"]\n";

#[tokio::test]
async fn a_name_that_is_not_in_the_table_may_nothing() {
    let bench = Bench::start().await;
    let stranger = bench.client("stranger").await;
    assert_eq!(describe(&stranger).await, Err(Code::UnknownClient));
    assert_eq!(sign(&stranger, &group(b"x")).await, Err(Code::UnknownClient));
}

#[tokio::test]
async fn a_connection_of_a_client_that_may_nothing_any_more_is_closed_though_a_stream_is_open() {
    let bench = Bench::start().await;
    let metrics = bench.service.metrics();
    let (_groups, asked) = mpsc::channel(4);
    let mut client = SigningClient::new(bench.client("build").await);
    let _answers = client.sign(ReceiverStream::new(asked)).await.unwrap();
    bench.reload_clients(REVOKED);
    crate::bench::eventually("it is closed", || metrics.connections_open.value() == 0).await;
}

#[tokio::test]
async fn a_certificate_that_names_nobody_or_too_many_is_refused_with_the_reason() {
    let bench = Bench::start().await;
    for wanted in [
        Wanted { names: Vec::new(), ..Wanted::client("build") },
        Wanted { names: vec!["build".to_owned(), "operator".to_owned()], ..Wanted::client("build") },
        Wanted { names: vec![String::new()], ..Wanted::client("build") },
        Wanted { names: vec!["build\n".to_owned()], ..Wanted::client("build") },
        Wanted { names: vec!["b".repeat(256)], ..Wanted::client("build") },
        Wanted { usages: Vec::new(), ..Wanted::client("build") },
    ] {
        let shown = format!("{:?} {:?}", wanted.names, wanted.usages);
        let channel = bench.channel(&bench.config(&bench.authority.certify(wanted))).await;
        assert_eq!(describe(&channel).await, Err(Code::ClientCertificateRefused), "{shown}");
    }
    let both = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let both = bench.authority.certify(Wanted { usages: both, ..Wanted::client("build") });
    assert!(describe(&bench.channel(&bench.config(&both)).await).await.is_ok());
}

#[tokio::test]
async fn a_grant_is_needed_to_sign_and_a_right_to_administer() {
    let bench = Bench::start().await;
    bench.reload_clients("[[client]]\nname = \"build\"\nkeys = [\"other\"]\n");
    let build = bench.client("build").await;
    assert_eq!(sign(&build, &group(b"x")).await, Err(Code::PermissionDenied));
    assert_eq!(describe(&build).await, Err(Code::PermissionDenied));
}

#[tokio::test]
async fn a_revocation_is_in_force_for_the_next_group_of_an_open_stream() {
    let bench = Bench::start().await;
    let (groups, asked) = mpsc::channel(4);
    let mut client = SigningClient::new(bench.client("build").await);
    let mut answers = client.sign(ReceiverStream::new(asked)).await.unwrap().into_inner();
    let mut ask = async || {
        groups.send(group(b"x").to_wire()).await.unwrap();
        outcome(answers.message().await.unwrap().unwrap())
    };
    assert_eq!(ask().await, Ok(1));
    for (clients, want) in [
        (REVOKED, Err(Code::ClientRevoked)),
        ("[[client]]\nname = \"build\"\nkeys = [\"release\"]\ndisabled = true\n", Err(Code::ClientRevoked)),
        ("", Err(Code::UnknownClient)),
        ("[[client]]\nname = \"build\"\n", Err(Code::PermissionDenied)),
        (CLIENTS, Ok(1)),
    ] {
        bench.reload_clients(clients);
        assert_eq!(ask().await, want, "{clients}");
    }
}

#[tokio::test]
async fn a_revoked_client_gains_nothing_by_resuming_its_session() {
    let bench = Bench::start().await;
    let config = bench.config(&bench.authority.client("build"));
    assert!(describe(&bench.channel(&config).await).await.is_ok());
    bench.reload_clients(REVOKED);
    let resumed = bench.channel(&config).await;
    assert_eq!(describe(&resumed).await, Err(Code::ClientRevoked));
    assert_eq!(sign(&resumed, &group(b"x")).await, Err(Code::ClientRevoked));
    assert_eq!(bench.service.metrics().handshakes(Handshake::Resumed), 1);
}

#[tokio::test]
async fn a_certificate_that_ends_while_its_connection_is_open_is_refused_from_then_on() {
    let bench = Bench::start().await;
    let wanted = Wanted { not_after: from_now(6), ..Wanted::client("build") };
    let config = bench.config(&bench.authority.certify(wanted));
    let channel = bench.channel(&config).await;
    for _ in 0..600 {
        match describe(&channel).await {
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            Err(code) => {
                assert_eq!(code, Code::ClientCertificateExpired);
                // Resumed: the handshake does not look, the call does.
                let resumed = bench.channel(&config).await;
                assert_eq!(describe(&resumed).await, Err(Code::ClientCertificateExpired));
                return;
            }
        }
    }
    panic!("never refused");
}

#[tokio::test]
async fn another_authority_or_revocation_list_is_in_force_for_connections_that_are_open() {
    let bench = Bench::start().await;
    let config = bench.config(&bench.authority.client("build"));
    let channel = bench.channel(&config).await;
    let server = bench.authority.server(from_now(3600), &["localhost"]);
    let reload = |client_ca: &str, crl: Option<&str>| {
        let plane = tls::server_config(&material(&server, client_ca, crl)).unwrap();
        bench.service.reload(plane, Clients::parse(CLIENTS).unwrap());
    };
    reload(&bench.authority.pem, None);
    assert!(describe(&channel).await.is_ok());
    reload(&Authority::new().pem, None);
    assert_eq!(describe(&channel).await, Err(Code::ClientCertificateRefused));
    reload(&bench.authority.pem, Some(&bench.authority.revocations(&[&[7]])));
    assert!(describe(&channel).await.is_ok());
    reload(&bench.authority.pem, Some(&bench.authority.revocations(&[&[7], &[0x0a, 0x1b]])));
    assert_eq!(describe(&channel).await, Err(Code::ClientCertificateRefused));
    // And a new one does not get through the handshake.
    let metrics = bench.service.metrics();
    let failed = metrics.handshakes(Handshake::Failed);
    let refused = match crate::bench::tls(bench.address, &config).await {
        Ok(mut stream) => tokio::io::AsyncReadExt::read_u8(&mut stream).await.is_err(),
        Err(_) => true,
    };
    assert!(refused);
    assert_eq!(metrics.handshakes(Handshake::Failed), failed + 1);
}

#[tokio::test]
async fn tickets_outlive_a_reload_of_the_same_files_and_no_other() {
    let bench = Bench::start().await;
    let config = bench.config(&bench.authority.client("build"));
    let material = bench.authority.material();
    let reload = || {
        let plane = tls::server_config(&material).unwrap();
        bench.service.reload(plane, Arc::new(Clients::parse(CLIENTS).unwrap()));
    };
    let resumed = || bench.service.metrics().handshakes(Handshake::Resumed);
    // The files of the start, then others.
    for want in [0, 1] {
        assert!(describe(&bench.channel(&config).await).await.is_ok());
        assert_eq!(resumed(), want);
    }
    reload();
    assert!(describe(&bench.channel(&config).await).await.is_ok());
    assert_eq!(resumed(), 1);
    reload();
    assert!(describe(&bench.channel(&config).await).await.is_ok());
    assert_eq!(resumed(), 2);
}

#[tokio::test]
async fn reloads_under_load_fail_no_request() {
    let bench = Bench::start().await;
    let channel = bench.client("build").await;
    let materials = [bench.authority.material(), bench.authority.material()];
    let planes = materials.map(|material| tls::server_config(&material).unwrap());
    let reloading = async {
        for number in 0..200 {
            assert!(Clients::parse("[[client]]\nname = 7").is_err(), "a bad file is none to reload");
            let clients = Clients::parse(CLIENTS).unwrap();
            bench.service.reload(Arc::clone(&planes[number % 2]), clients);
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let signing = async {
        for number in 0..100_u8 {
            assert_eq!(sign(&channel, &group(&[number])).await, Ok(1));
        }
        for _ in 0..20 {
            assert!(describe(&bench.client("build").await).await.is_ok());
        }
    };
    tokio::join!(reloading, signing);
}
