//! How much memory a large document costs, the worst for the format: every line has an escape. It is computed, not held, so that what
//! the process holds is ours. One test, since it measures its process.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs;
use std::io;

use sealwright_formats::Format as _;
use sealwright_formats::cleartext::Cleartext;
use sealwright_formats::options::SignOptions;
use sealwright_formats::prepared::{Layout, NewContent, Output, Preparation};
use sealwright_formats::source::ReadAt;
use signer::Signer;

#[allow(dead_code, reason = "each test target uses its part")]
#[path = "support/signer.rs"]
mod signer;

/// Bytes of the document.
const LEN: u64 = 48 << 20;
/// What may be held: pieces that are read, escaped and hashed, and the list of escapes up to its limit.
const HELD: u64 = 6 << 20;

struct Dashes;

impl ReadAt for Dashes {
    fn len(&self) -> u64 {
        LEN
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        for (byte, at) in buf.iter_mut().zip(offset..) {
            *byte = if at % 4 == 3 { b'\n' } else { b'-' };
        }
        Ok(())
    }
}

fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn memory_does_not_grow_with_the_document() {
    let signer = Signer::ed25519();
    let before = peak();
    let prepared = Cleartext.prepare(&Dashes, &SignOptions::default(), &signer.certificate, &[]).unwrap();
    let Preparation::Sign(prepared) = prepared else { panic!("not signed") };
    let output = prepared.plan.output(&signer.sign(&prepared.items), Layout::Tight).unwrap();
    let Output::Beside(contents) = output else { panic!("a new file") };
    let [NewContent::Framed(framed)] = contents.as_slice() else { panic!("one document") };
    let mut written = 0_u64;
    let mut put = |bytes: &[u8]| {
        written += u64::try_from(bytes.len()).unwrap();
        Ok(())
    };
    framed.write(&Dashes, &mut put).unwrap();
    assert!(written > LEN / 4 * 6, "{written}");
    let held = peak() - before;
    assert!(held < HELD, "held {held} bytes");
}
