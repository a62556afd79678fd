//! How much memory a signature header of the largest size costs. The package is computed, not held, so that what
//! the process holds is ours.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::fs;
use std::io;

use sealwright_crypto::openpgp::certificate::Keyring;
use sealwright_crypto::openpgp::verify::State;
use sealwright_formats::Format as _;
use sealwright_formats::error::Error;
use sealwright_formats::options::SignOptions;
use sealwright_formats::prepared::{Layout, Output, Preparation};
use sealwright_formats::report::VerifyContext;
use sealwright_formats::rpm::Rpm;
use sealwright_formats::source::ReadAt;
use signer::{Signer, fixture};

#[allow(dead_code, reason = "each test target uses its part")]
#[path = "support/signer.rs"]
mod signer;

/// What is not ours: stacks, pieces that are read, the allocator.
const SLACK: u64 = 8 << 20;
/// Data of the large entry: the limit is 64 MiB for all.
const LARGE: u32 = 63 << 20;

/// The good package with one large entry as the first of its signature header.
struct Large {
    head: Vec<u8>,
    rest: Vec<u8>,
    /// Byte at this offset of the large entry.
    byte: fn(u64) -> u8,
}

impl Large {
    /// With this entry; its data are what `byte` says for each offset.
    fn new(tag: u32, kind: u32, count: u32, byte: fn(u64) -> u8) -> Self {
        let good = fixture("rpm/gen_tiny-reserved4096.rpm");
        let number = |at: usize| u32::from_be_bytes(good[at..at + 4].try_into().unwrap());
        let (entries, data_bytes) = (number(104), number(108));
        let mut head = good[..104].to_vec();
        let mut put = |words: &[u32]| words.iter().for_each(|word| head.extend(word.to_be_bytes()));
        put(&[entries + 1, data_bytes + LARGE]);
        let entry = |at: usize| [number(at), number(at + 4), number(at + 8) + LARGE, number(at + 12)];
        put(&entry(112));
        put(&[tag, kind, 0, count]);
        (1..entries as usize).for_each(|at| put(&entry(112 + 16 * at)));
        let store = 112 + 16 * entries as usize;
        let end = store + data_bytes as usize;
        let mut rest = good[store..end - 16].to_vec();
        let trailer = [62, 7, (16 * (entries + 1)).wrapping_neg(), 16];
        rest.extend(trailer.iter().flat_map(|word: &u32| word.to_be_bytes()));
        let written = head.len() + LARGE as usize + rest.len() - 96;
        rest.resize(rest.len() + written.next_multiple_of(8) - written, 0);
        rest.extend_from_slice(&good[end.next_multiple_of(8)..]);
        Self { head, rest, byte }
    }
}

impl ReadAt for Large {
    fn len(&self) -> u64 {
        (self.head.len() + self.rest.len()) as u64 + u64::from(LARGE)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if offset + buf.len() as u64 > self.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (head, large) = (self.head.len() as u64, u64::from(LARGE));
        for (at, byte) in (offset..).zip(buf) {
            *byte = if at < head {
                self.head[at as usize]
            } else if at < head + large {
                (self.byte)(at - head)
            } else {
                self.rest[(at - head - large) as usize]
            };
        }
        Ok(())
    }
}

fn status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// By how many bytes the process grew at most while `work` ran.
fn peak<T>(work: impl FnOnce() -> T) -> (u64, T) {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS:");
    let result = work();
    (status("VmHWM:").saturating_sub(before), result)
}

/// One test, because the peak is that of the process.
#[test]
fn a_header_of_64_mib_is_held_once_to_sign_it_and_not_at_all_to_look_at_it() {
    let text = |at: u64| if at % 64 == 63 { 0 } else { b'a' };
    let files = Large::new(274, 8, LARGE / 64, text);
    let reserve = Large::new(999, 7, LARGE, |_| 0);
    let signature = Large::new(268, 7, LARGE, |at| at as u8);
    let (keyring, key) = (Keyring::new(), Signer::ed25519());
    let context = VerifyContext { keyring: &keyring, now: 0, sidecar: None };
    for source in [&files, &reserve, &signature] {
        let (bytes, inspection) = peak(|| Rpm.inspect(source, None).unwrap());
        assert!(bytes < SLACK, "inspect: {bytes}");
        assert!(inspection.signatures.iter().all(|found| found.state == State::Malformed));
        let (bytes, _) = peak(|| Rpm.verify(source, &context));
        assert!(bytes < SLACK, "verify: {bytes}");
        let (bytes, refused) =
            peak(|| Rpm.prepare(source, &SignOptions::default(), &key.certificate, &[]).err());
        assert!(bytes < SLACK, "sign for rpm 4.14: {bytes}");
        assert!(matches!(refused, Some(Error::TooLarge { .. })), "{refused:?}");
    }
    let count = Rpm.inspect(&files, None).unwrap().facts;
    assert!(count.contains(&("file signatures", (LARGE / 64).to_string())), "{count:?}");

    let mut options = SignOptions::default();
    options.format.set(&Rpm.options()[1], "4.16").unwrap();
    let once = u64::from(LARGE) + SLACK;
    for source in [&files, &reserve] {
        let (bytes, prepared) = peak(|| Rpm.prepare(source, &options, &key.certificate, &[]).unwrap());
        assert!(bytes < once, "prepare: {bytes}");
        assert!(bytes > u64::from(LARGE) / 2, "the meter does not see the header: {bytes}");
        let Preparation::Sign(prepared) = prepared else { panic!("left") };
        let packets = key.sign(&prepared.items);
        let (bytes, output) = peak(|| prepared.plan.output(&packets, Layout::Tight).unwrap());
        assert!(bytes < once, "output: {bytes}");
        assert!(matches!(output, Output::Edits(_)));
    }
}
