//! Many connections at once, one question each.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::Ipv4Addr;
use std::time::Instant;

use sealwright_proto::v1::DescribeKeyRequest;
use sealwright_proto::v1::keys_client::KeysClient;
use tonic::transport::Channel;

use crate::cpu_seconds;
use crate::line::Line;

pub(crate) async fn run(line: &Line, key: &str, connections: usize) {
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    let all: Vec<_> = (0..connections)
        .map(|number| {
            let (line, key) = (line.clone(), key.to_owned());
            tokio::spawn(async move { ask(&line, address(number), key).await })
        })
        .collect();
    let mut channels = Vec::with_capacity(connections);
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    for one in all {
        match one.await.unwrap() {
            Ok(channel) => channels.push(channel),
            Err(error) => *errors.entry(error).or_default() += 1,
        }
    }
    let failed: u64 = errors.values().sum();
    for (error, times) in &errors {
        #[allow(clippy::print_stderr, reason = "for whoever runs it")]
        {
            eprintln!("{times} times: {error}");
        }
    }
    println!(
        "{{\"connections\":{connections},\"errors\":{failed},\"seconds\":{:.3},\"cpu_seconds\":{:.3}}}",
        begun.elapsed().as_secs_f64(),
        cpu_seconds() - cpu
    );
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.unwrap().unwrap();
    drop(channels);
}

/// Each client has its own, below 127.1.0.0/16.
fn address(number: usize) -> Ipv4Addr {
    let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
    Ipv4Addr::new(127, 1, high, low)
}

async fn ask(line: &Line, own: Ipv4Addr, key: String) -> Result<Channel, String> {
    let channel = line.connect_from(own).await.map_err(|error| causes(&error))?;
    let answer = KeysClient::new(channel.clone()).describe(DescribeKeyRequest { key }).await;
    let answer = answer.map_err(|status| causes(&status))?.into_inner();
    if answer.certificate.is_empty() { Err("an answer without certificate".to_owned()) } else { Ok(channel) }
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}
