//! Frames that ask for nothing cost who sends them his connection, and nobody else.

use sealwright_server::Limits;
use sealwright_server::metrics::Closed;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::bench::{Bench, describe, group, sign};
use crate::peer::Act;

/// Of each kind that a peer may send at any time (RFC 9113 sections 6.3, 6.5, 6.7, 6.9): length, kind, flags, stream, content.
const FRAMES: [&[u8]; 4] = [
    &[0, 0, 5, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 7],
    &[0, 0, 0, 4, 0, 0, 0, 0, 0],
    &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
    &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1],
];

/// Sends one frame again and again, takes what is answered, and returns once the server has closed the connection.
async fn flood(bench: &Bench, frame: &[u8]) {
    let config = bench.config(&bench.authority.client("build"));
    let stream = crate::bench::tls(bench.address, &config).await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let reading = async move {
        let mut said = vec![0; 64 << 10];
        while reader.read(&mut said).await.is_ok_and(|read| read > 0) {}
    };
    let writing = async move {
        let _ = writer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
        let many = frame.repeat(1_000);
        while writer.write_all(&many).await.is_ok() {}
    };
    tokio::join!(reading, writing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_frames_that_ask_for_nothing_is_slowed_then_closed_and_others_are_served_meanwhile() {
    let bench = Bench::start_with(Limits::default(), |_, _| Act::Sign).await;
    let honest = bench.client("build").await;
    let metrics = bench.service.metrics();
    let floods = async {
        tokio::join!(
            flood(&bench, FRAMES[0]),
            flood(&bench, FRAMES[1]),
            flood(&bench, FRAMES[2]),
            flood(&bench, FRAMES[3])
        )
    };
    tokio::pin!(floods);
    let mut served = 0_u64;
    loop {
        let group = group(&served.to_be_bytes());
        tokio::select! {
            _ = floods.as_mut() => break,
            signed = sign(&honest, &group) => assert_eq!(signed, Ok(1)),
        }
        served += 1;
    }
    assert!(served > 100, "{served}");
    assert_eq!(metrics.closings(Closed::Flood), 4);
    assert!(describe(&honest).await.is_ok(), "who asks for something is not closed");
}

#[tokio::test]
async fn thousands_of_calls_and_groups_are_no_flood() {
    let bench = Bench::start_with(Limits::default(), |_, _| Act::Sign).await;
    let honest = bench.client("build").await;
    for number in 0..3_000_u32 {
        assert!(describe(&honest).await.is_ok(), "{number}");
    }
    assert_eq!(bench.service.metrics().closings(Closed::Flood), 0);
}
