//! Measures looks for keys while unrelated ones are registered, against none (`examples/registry_bench.rs`).

use std::sync::Barrier;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use sealwright_store::Material;

use super::*;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Keys that are remembered before, and looked for at random.
    pub keys: usize,
    /// Threads that look.
    pub readers: usize,
    /// New keys a second in the second half of each round.
    pub registrations_per_s: u32,
    /// Rounds: the looks without registrations, then the looks with them.
    pub rounds: usize,
    /// Looks of each thread in each half.
    pub looks: usize,
    /// Bytes that may be remembered; `None`: the limit of the product.
    pub bytes_max: Option<usize>,
    /// Bytes of each sealed blob.
    pub sealed_bytes: usize,
}

/// One half of a round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Half {
    /// Looks of all threads: by name, and by id as a resolve does it, each pair one look.
    pub looks: u64,
    /// CPU time of the readers in nanoseconds.
    pub reader_cpu_ns: u64,
    /// Times that a reader waited for anything (its voluntary context switches).
    pub reader_waits: u64,
    /// CPU time of the thread that registers, in nanoseconds.
    pub writer_cpu_ns: u64,
    /// Keys that were registered.
    pub registrations: u64,
    /// Reads of the store: constructions of keys that nobody registered.
    pub reads: u64,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// For each round: without registrations, with them.
    pub rounds: Vec<[Half; 2]>,
    /// Keys that are remembered at the end.
    pub keys: usize,
    /// Their bytes as they are counted.
    pub bytes: usize,
}

/// Measures.
#[must_use]
pub fn run(options: Options) -> Outcome {
    let source = Shop { sealed_bytes: options.sealed_bytes, reads: AtomicU64::new(0) };
    let registry = Registry::with_limit(source, options.bytes_max.unwrap_or(BYTES_MAX));
    for n in 0..options.keys {
        registry.put(key(n, options.sealed_bytes));
    }
    let references: Vec<_> = (0..options.keys).map(|n| key(n, 0)).map(|key| (key.id, key.name)).collect();
    let references: Vec<_> = references
        .into_iter()
        .filter_map(|(id, name)| KeyReference::parse(&name).ok().map(|name| (id, name)))
        .collect();
    let next = AtomicU64::new(u64::try_from(options.keys).unwrap_or(u64::MAX));
    let half = |rate| half(&registry, &references, options, rate, &next);
    let rounds = (0..options.rounds).map(|_| [half(0), half(options.registrations_per_s)]).collect();
    let (keys, bytes) = registry.memory.size();
    Outcome { rounds, keys, bytes }
}

fn half(
    registry: &Registry<Shop>,
    references: &[(Uuid, KeyReference)],
    options: Options,
    rate: u32,
    next: &AtomicU64,
) -> Half {
    let reads = registry.source.reads.load(Ordering::Relaxed);
    let (start, readers_left) = (Barrier::new(options.readers), AtomicU64::new(1));
    let mut half = std::thread::scope(|scope| {
        let writer = scope.spawn(|| register(registry, options, rate, next, &readers_left));
        let readers: Vec<_> = (0..options.readers)
            .map(|seed| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    look(registry, references, options.looks, seed)
                })
            })
            .collect();
        let mut half = Half::default();
        for reader in readers {
            let (cpu_ns, waits) = reader.join().unwrap_or_default();
            half.reader_cpu_ns = half.reader_cpu_ns.saturating_add(cpu_ns);
            half.reader_waits = half.reader_waits.saturating_add(waits);
        }
        readers_left.store(0, Ordering::Relaxed);
        (half.writer_cpu_ns, half.registrations) = writer.join().unwrap_or_default();
        half
    });
    half.looks = u64::try_from(options.readers.saturating_mul(options.looks)).unwrap_or(u64::MAX);
    half.reads = registry.source.reads.load(Ordering::Relaxed).saturating_sub(reads);
    half
}

/// Looks for random keys; returns CPU time in nanoseconds, and waits.
fn look(
    registry: &Registry<Shop>,
    references: &[(Uuid, KeyReference)],
    looks: usize,
    seed: usize,
) -> (u64, u64) {
    let mut random = u64::try_from(seed).unwrap_or_default().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let (cpu_ns, waits) = (thread_cpu_ns(), thread_waits());
    for _ in 0..looks {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let at =
            usize::try_from(random).unwrap_or_default().checked_rem(references.len()).unwrap_or_default();
        let Some((id, reference)) = references.get(at) else { continue };
        std::hint::black_box(at_once(registry.find(reference)));
        std::hint::black_box(registry.memory.by_id(id));
    }
    (thread_cpu_ns().saturating_sub(cpu_ns), thread_waits().saturating_sub(waits))
}

/// Registers new keys at a steady rate until the readers are done; returns CPU time in nanoseconds, and how many.
fn register(
    registry: &Registry<Shop>,
    options: Options,
    rate: u32,
    next: &AtomicU64,
    readers_left: &AtomicU64,
) -> (u64, u64) {
    let Some(pause) = Duration::from_secs(1).checked_div(rate) else { return (0, 0) };
    let (begun, mut registered) = (Instant::now(), 0_u32);
    let cpu_ns = thread_cpu_ns();
    while readers_left.load(Ordering::Relaxed) > 0 {
        let due = pause.saturating_mul(registered);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let n = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap_or_default();
        registry.put(key(n, options.sealed_bytes));
        registered = registered.saturating_add(1);
    }
    (thread_cpu_ns().saturating_sub(cpu_ns), registered.into())
}

/// What is ready without waiting, which a look for a remembered key is.
fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn thread_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let [seconds, ns] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or_default());
    seconds.saturating_mul(1_000_000_000).saturating_add(ns)
}

fn thread_waits() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

/// Has every key, and counts.
struct Shop {
    sealed_bytes: usize,
    reads: AtomicU64,
}

impl Source for Shop {
    async fn read(&self, wanted: &Wanted) -> Result<Key, Fault> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let n = match wanted {
            Wanted::Reference(name) => name.as_str().strip_prefix("key-").and_then(|n| n.parse().ok()),
            Wanted::Id(id) => usize::try_from(id.as_u64_pair().0).ok(),
        };
        n.map(|n| key(n, self.sealed_bytes)).ok_or_else(|| Fault::new(Code::KeyNotFound, "no such key"))
    }
}

/// Key number `n`.
fn key(n: usize, sealed_bytes: usize) -> Key {
    let number = u64::try_from(n).unwrap_or_default();
    let mut bytes = [0; 20];
    if let Some(head) = bytes.first_chunk_mut() {
        *head = number.to_be_bytes();
    }
    Key {
        id: Uuid::from_u64_pair(number, 0),
        name: format!("key-{n:08}"),
        version: 1,
        state: KeyState::Enabled,
        revision: 1,
        usages: vec![Usage::OpenPgp],
        material: Material {
            generation: 1,
            algorithm: KeyAlgorithm::Ed25519,
            fingerprint: Fingerprint::v4(bytes),
            signing_fingerprint: Fingerprint::v4(bytes),
            user_id: String::new(),
            created_s: 0,
            expires_s: None,
            certificate: Vec::new(),
            sealed: vec![0; sealed_bytes],
            data_key_id: String::new(),
            renewable: true,
        },
        last_signed_s: None,
    }
}
