//! Groups of items, many in flight, over one connection or several.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::usage::{Purpose, Usage};
use sealwright_proto::v1::sign_item::Content;
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_proto::v1::{SignGroup, SignGroupResult, SignItem, sign_item_result::Outcome};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use uuid::Uuid;

use crate::cpu_seconds;
use crate::line::Line;

#[derive(Clone)]
struct Shape {
    key: String,
    items: usize,
    in_flight: usize,
    groups: usize,
    priority: i32,
    /// Between an answer and the next question.
    pause: Duration,
}

#[derive(Default)]
struct Done {
    signatures: u64,
    failures: u64,
    failure: Option<String>,
    latencies_us: Vec<u64>,
}

pub(crate) async fn run(line: &Line, words: &[&str]) {
    let [key, items, in_flight, groups, connections, priority, pause_ms] = words else {
        panic!("wrong usage; the source says the right one")
    };
    let shape = Shape {
        key: (*key).to_owned(),
        items: items.parse().unwrap(),
        in_flight: in_flight.parse().unwrap(),
        groups: groups.parse().unwrap(),
        priority: i32::from(*priority == "batch"),
        pause: Duration::from_millis(pause_ms.parse().unwrap()),
    };
    let mut clients = Vec::new();
    for _ in 0..connections.parse().unwrap() {
        clients.push(SigningClient::new(line.connect().await.unwrap()).max_decoding_message_size(8 << 20));
    }
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    let running: Vec<_> =
        clients.into_iter().map(|client| tokio::spawn(stream(client, shape.clone()))).collect();
    let mut all = Done::default();
    for one in running {
        let done = one.await.unwrap();
        all.signatures += done.signatures;
        all.failures += done.failures;
        all.failure = all.failure.or(done.failure);
        all.latencies_us.extend(done.latencies_us);
    }
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    all.latencies_us.sort_unstable();
    let at = |share: usize| all.latencies_us.get(all.latencies_us.len() * share / 100).copied().unwrap_or(0);
    println!(
        "{{\"signatures\":{},\"failures\":{},\"failure\":{:?},\"seconds\":{seconds:.6},\"cpu_seconds\":{cpu:.6},\
         \"p50_us\":{},\"p99_us\":{}}}",
        all.signatures,
        all.failures,
        all.failure.unwrap_or_default(),
        at(50),
        at(99)
    );
}

async fn stream(mut client: SigningClient<tonic::transport::Channel>, shape: Shape) -> Done {
    let (groups, outgoing) = mpsc::channel(shape.in_flight);
    let mut begun: HashMap<Vec<u8>, Instant> = HashMap::new();
    let mut answers = client.sign(ReceiverStream::new(outgoing)).await.unwrap().into_inner();
    let mut asked = 0;
    let mut done = Done::default();
    while asked < shape.in_flight.min(shape.groups) {
        ask(&shape, asked, &groups, &mut begun).await;
        asked += 1;
    }
    while let Some(answer) = answers.message().await.unwrap() {
        let since = begun.remove(&answer.request_id).expect("an answer to what was asked");
        done.latencies_us.push(u64::try_from(since.elapsed().as_micros()).unwrap());
        take(&mut done, &answer);
        if asked < shape.groups {
            if !shape.pause.is_zero() {
                tokio::time::sleep(shape.pause).await;
            }
            ask(&shape, asked, &groups, &mut begun).await;
            asked += 1;
        } else if begun.is_empty() {
            break;
        }
    }
    done
}

async fn ask(
    shape: &Shape,
    number: usize,
    groups: &mpsc::Sender<SignGroup>,
    begun: &mut HashMap<Vec<u8>, Instant>,
) {
    let id = Uuid::now_v7().as_bytes().to_vec();
    let items = (0..shape.items).map(|item| {
        let mut hasher = Hasher::new(HashAlgorithm::Sha256);
        hasher.update(&(number * shape.items + item).to_be_bytes());
        hasher.update(&[0; 120]);
        SignItem {
            usage: Usage::OpenPgp.id().into(),
            purpose: Purpose::RpmHeader.id().into(),
            content: Some(Content::Midstate(hasher.midstate().encode())),
            ticket: Vec::new(),
            artefact: None,
        }
    });
    let group = SignGroup {
        request_id: id.clone(),
        key: key(&shape.key, number, &id),
        priority: shape.priority,
        deadline_ms: 60_000,
        artefact: Some(sealwright_proto::v1::ArtefactClaim { name: format!("load-{number}.rpm"), size: 128 }),
        items: items.collect(),
        salt: false,
    };
    begun.insert(id, Instant::now());
    groups.send(group).await.expect("the stream is open");
}

/// The name itself, or one of many: the one whose turn it is, or which the random part of the request's id says.
fn key(name: &str, number: usize, request_id: &[u8]) -> String {
    if let Some((prefix, count)) = name.split_once('@') {
        return format!("{prefix}-{}", number % count.parse::<usize>().unwrap());
    }
    let Some((prefix, count)) = name.split_once('*') else { return name.to_owned() };
    let random = u64::from_be_bytes(request_id[8..].try_into().unwrap());
    let random = random.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    format!("{prefix}-{}", random % count.parse::<u64>().unwrap())
}

fn take(done: &mut Done, answer: &SignGroupResult) {
    if let Some(failure) = &answer.failure {
        done.failures += 1;
        done.failure.get_or_insert_with(|| failure.message.clone());
    }
    for item in &answer.items {
        match &item.outcome {
            Some(Outcome::Signature(signature)) if !signature.packet.is_empty() => done.signatures += 1,
            Some(Outcome::Failure(failure)) => {
                done.failures += 1;
                done.failure.get_or_insert_with(|| failure.message.clone());
            }
            Some(Outcome::Signature(_)) | None => done.failures += 1,
        }
    }
}
