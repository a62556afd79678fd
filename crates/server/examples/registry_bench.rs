//! Looks for keys while unrelated ones are registered, against none. Prints one JSON object.
//!
//! `cargo run --release -p sealwright-server --features bench --example registry_bench -- [KEYS READERS RATE ROUNDS LOOKS
//! BYTES_MAX]`. BYTES_MAX 0 is the limit of the product. Under `strace -f -c -e futex` it shows that looks take no lock.

use sealwright_server::registry_bench::{Half, Options, run};

/// Bytes of the sealed blob of an Ed25519 key, roughly.
const SEALED_BYTES: usize = 300;

#[expect(clippy::print_stdout, reason = "what it is for")]
fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>().ok());
    let mut next = |default| arguments.next().flatten().unwrap_or(default);
    let options = Options {
        keys: next(100_000),
        readers: next(64),
        registrations_per_s: u32::try_from(next(100)).unwrap_or(u32::MAX),
        rounds: next(5),
        looks: next(200_000),
        bytes_max: Some(next(256 << 20)).filter(|bytes| *bytes > 0),
        sealed_bytes: SEALED_BYTES,
    };
    let outcome = run(options);
    let quiet: Vec<_> = outcome.rounds.iter().map(|[quiet, _]| *quiet).collect();
    let busy: Vec<_> = outcome.rounds.iter().map(|[_, busy]| *busy).collect();
    let (before, after) = (cpu_ns(&quiet), cpu_ns(&busy));
    let Options { keys, readers, registrations_per_s, .. } = options;
    println!(
        "{{\"keys\": {keys}, \"readers\": {readers}, \"registrations_per_s\": {registrations_per_s}, \
         \"quiet_cpu_ns\": {before:.1}, \"busy_cpu_ns\": {after:.1}, \"ratio\": {:.3}, \"registrations\": {}, \
         \"writer_cpu_us_per_registration\": {:.1}, \"reads_of_others\": {}, \"reader_waits_quiet\": {}, \
         \"reader_waits_busy\": {}, \"looks_per_half\": {}, \"remembered_keys\": {}, \"remembered_bytes\": {}}}",
        after / before,
        sum(&busy, |half| half.registrations),
        sum(&busy, |half| half.writer_cpu_ns) as f64
            / 1e3
            / sum(&busy, |half| half.registrations).max(1) as f64,
        sum(&busy, |half| half.reads),
        sum(&quiet, |half| half.reader_waits),
        sum(&busy, |half| half.reader_waits),
        sum(&busy, |half| half.looks),
        outcome.keys,
        outcome.bytes,
    );
}

/// CPU nanoseconds for one look of a reader: the median of the rounds.
fn cpu_ns(halves: &[Half]) -> f64 {
    let mut each: Vec<f64> =
        halves.iter().map(|half| half.reader_cpu_ns as f64 / half.looks.max(1) as f64).collect();
    each.sort_by(f64::total_cmp);
    each.get(each.len() / 2).copied().unwrap_or(f64::NAN)
}

fn sum(halves: &[Half], of: impl Fn(&Half) -> u64) -> u64 {
    halves.iter().map(of).sum()
}
