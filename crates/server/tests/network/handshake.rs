//! Who gets through the handshake, and what the server's own files must be.

use rcgen::ExtendedKeyUsagePurpose;
use sealwright_server::metrics::Handshake;
use sealwright_server::{Error, tls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::bench::{Bench, config, describe, group, sign};
use crate::certificates::{Authority, Wanted, from_now, material};

#[tokio::test]
async fn a_client_signs_and_the_log_says_who_it_was_and_by_which_right() {
    let bench = Bench::start().await;
    let channel = bench.client("build").await;
    assert_eq!(describe(&channel).await.unwrap(), "release");
    assert_eq!(sign(&channel, &group(b"x")).await, Ok(1));
    let store = sealwright_store::Store::open(&bench.folder.path().join("store")).await.unwrap();
    let entries = store.log_entries(0, 10).await.unwrap();
    let entry = sealwright_tlog::Entry::decode(&entries[0]).unwrap();
    assert_eq!((entry.principal.as_str(), entry.decision.as_str()), ("build", "grant"));
}

/// The client learns of the refusal at the latest when it reads.
async fn is_refused(bench: &Bench, config: &std::sync::Arc<rustls::ClientConfig>) -> bool {
    let metrics = bench.service.metrics();
    let before = (
        metrics.handshakes(Handshake::Failed),
        metrics.handshakes(Handshake::Completed) + metrics.handshakes(Handshake::Resumed),
    );
    let refused = match crate::bench::tls(bench.address, config).await {
        Ok(mut stream) => {
            let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
            let mut greeting = [0; 64];
            matches!(stream.read(&mut greeting).await, Ok(0) | Err(_))
        }
        Err(_) => true,
    };
    let after = (
        metrics.handshakes(Handshake::Failed),
        metrics.handshakes(Handshake::Completed) + metrics.handshakes(Handshake::Resumed),
    );
    refused && after == (before.0 + 1, before.1)
}

#[tokio::test]
async fn a_certificate_that_is_not_of_a_client_of_now_is_refused_in_the_handshake() {
    let bench = Bench::start().await;
    let own = |wanted| bench.config(&bench.authority.certify(wanted));
    let client = || Wanted::client("build");
    let refused = [
        ("none at all", config(&bench.authority.pem, None)),
        (
            "expired in 2020",
            own(Wanted {
                not_before: rcgen::date_time_ymd(2019, 1, 1),
                not_after: rcgen::date_time_ymd(2020, 1, 2),
                ..client()
            }),
        ),
        ("expired a minute ago", own(Wanted { not_after: from_now(-60), ..client() })),
        ("not valid yet", own(Wanted { not_before: from_now(3600), ..client() })),
        ("of a server", own(Wanted { usages: vec![ExtendedKeyUsagePurpose::ServerAuth], ..client() })),
        ("for mail", own(Wanted { usages: vec![ExtendedKeyUsagePurpose::EmailProtection], ..client() })),
        ("of another authority", bench.config(&Authority::new().client("build"))),
    ];
    for (what, config) in refused {
        assert!(is_refused(&bench, &config).await, "{what}");
    }
    assert!(!is_refused(&bench, &bench.config(&bench.authority.client("build"))).await, "the control");
}

#[tokio::test]
async fn another_protocol_inside_is_refused() {
    let bench = Bench::start().await;
    let good = bench.config(&bench.authority.client("build"));
    for protocols in [vec![b"http/1.1".to_vec()], Vec::new()] {
        let mut config = rustls::ClientConfig::clone(&good);
        config.alpn_protocols = protocols.clone();
        assert!(is_refused(&bench, &std::sync::Arc::new(config)).await, "{protocols:?}");
    }
}

#[tokio::test]
async fn what_is_no_tls_is_refused() {
    let bench = Bench::start().await;
    for bytes in
        [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".as_slice(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0; 100]]
    {
        let mut socket = tokio::net::TcpStream::connect(bench.address).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest).await;
        // At most an alert.
        assert!(rest.len() <= 7, "{rest:?}");
    }
}

#[tokio::test]
async fn a_session_that_is_resumed_is_counted_and_signs() {
    let bench = Bench::start().await;
    let config = bench.config(&bench.authority.client("build"));
    for _ in 0..3 {
        assert_eq!(sign(&bench.channel(&config).await, &group(b"x")).await, Ok(1));
    }
    assert_eq!(bench.service.metrics().handshakes(Handshake::Resumed), 2);
}

#[test]
fn files_of_the_server_that_do_not_fit_are_refused_by_name() {
    let authority = Authority::new();
    let server = || authority.server(from_now(3600), &["localhost"]);
    let refused = |material: &tls::Material| match tls::server_config(material) {
        Ok(_) => panic!("taken"),
        Err(error) => {
            assert!(!error.advice().is_empty());
            error
        }
    };
    assert!(tls::server_config(&authority.material()).is_ok());
    let expired = material(&authority.server(from_now(-60), &["localhost"]), &authority.pem, None);
    assert!(refused(&expired).to_string().contains("expired"));
    let nameless = material(&authority.server(from_now(60), &[]), &authority.pem, None);
    assert!(refused(&nameless).to_string().contains("server name"));
    let of_client = material(&authority.client("build"), &authority.pem, None);
    assert!(refused(&of_client).to_string().contains("not for servers"));
    let mut other_key = material(&server(), &authority.pem, None);
    other_key.key_pem = server().key_pem.into_bytes();
    assert!(matches!(refused(&other_key), Error::ServerKey(_)));
    let empty = material(&server(), "", None);
    assert!(matches!(refused(&empty), Error::NoCertificate { part: tls::Part::ClientCa }));
    let no_ca = material(&server(), &server().pem.replace("CERTIFICATE", "OTHER"), None);
    assert!(matches!(refused(&no_ca), Error::NoCertificate { part: tls::Part::ClientCa }));
    let mut no_key = material(&server(), &authority.pem, None);
    no_key.key_pem = b"-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n".to_vec();
    assert!(matches!(refused(&no_key), Error::Pem { part: tls::Part::Key, .. }));
    let wrong_list = material(&server(), &authority.pem, Some("nothing"));
    assert!(matches!(refused(&wrong_list), Error::NoCertificate { part: tls::Part::Crl }));
    let mut large = material(&server(), &authority.pem, None);
    large.certificate_pem.resize(tls::PEM_BYTES_MAX + 1, b'\n');
    assert!(matches!(refused(&large), Error::TlsTooLarge { part: tls::Part::Certificate, .. }));
}
