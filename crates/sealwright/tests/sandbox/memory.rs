//! Searching the memory of a process for secrets that the test knows.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use aes_gcm_siv::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};
use sealwright_crypto::openpgp::armor;

/// Name, and bytes that only that secret has.
pub(crate) struct Secrets(Vec<(&'static str, Vec<u8>)>);

impl Secrets {
    /// Root key and data key of the directory; seed or first prime of the Ed25519 and the RSA key.
    pub(crate) fn of(root: &Path, keys: &[PathBuf; 2]) -> Self {
        let text = fs::read_to_string(root.join("root.key")).unwrap();
        let digits = text.lines().nth(1).unwrap();
        let root_key = from_hex(digits);
        let file = fs::read_to_string(root.join("data.key")).unwrap();
        let (head, sealed) = file.trim_end().split_once("sealed ").unwrap();
        let sealed = from_hex(sealed);
        let nonce = Nonce::from(<[u8; 12]>::try_from(&sealed[..12]).unwrap());
        let payload = Payload { msg: &sealed[12..], aad: head.as_bytes() };
        let data_key = Aes256GcmSiv::new_from_slice(&root_key).unwrap().decrypt(&nonce, payload).unwrap();
        let [ed25519, rsa] =
            keys.each_ref().map(|file| armor::decode_or_binary(&fs::read(file).unwrap()).unwrap());
        let (seed, prime) = (seed(&ed25519), prime(&rsa));
        // Big numbers lie in memory with the lowest word first.
        let reversed = prime.iter().rev().copied().collect();
        Self(vec![
            ("root key", root_key),
            ("root key", digits.as_bytes().to_vec()),
            ("data key", data_key),
            ("ed25519", seed),
            ("rsa2048", prime),
            ("rsa2048", reversed),
        ])
    }
}

/// The names of those that are anywhere in the memory of the process.
pub(crate) fn holds(pid: u32, secrets: &Secrets) -> BTreeSet<&'static str> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut found = BTreeSet::new();
    let mut searched = 0;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (from, to) = words.next().unwrap().split_once('-').unwrap();
        if !words.next().unwrap().starts_with('r') || line.contains("[vvar") || line.contains("[vsyscall]") {
            continue;
        }
        let (from, to) = (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        if memory.seek(SeekFrom::Start(from)).and_then(|_| memory.read_exact(&mut bytes)).is_err() {
            continue;
        }
        searched += bytes.len();
        for (name, secret) in &secrets.0 {
            if contains(&bytes, &secret[..32.min(secret.len())]) {
                found.insert(*name);
            }
        }
    }
    assert!(searched > 1 << 20, "only {searched} bytes could be read");
    found
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == wanted[0]) {
        if rest[at..].starts_with(wanted) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// The first secret number after the public part of an unprotected key (RFC 9580 section 5.5.3).
fn seed(key: &[u8]) -> Vec<u8> {
    // Object identifier of Ed25519, then the point, the byte that says "in the clear", the seed.
    let oid = [0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];
    let at = key.windows(oid.len()).position(|window| window == oid).unwrap() + oid.len();
    let (_, rest) = number(&key[at..]);
    assert_eq!(rest[0], 0, "in the clear");
    let (seed, _) = number(&rest[1..]);
    [vec![0; 32 - seed.len()], seed.to_vec()].concat()
}

fn prime(key: &[u8]) -> Vec<u8> {
    // Packet header of 3 bytes (old format, length of two bytes), version, time, algorithm.
    assert_eq!((key[3], key[8]), (4, 1), "a version 4 RSA key");
    let (_modulus, rest) = number(&key[9..]);
    let (_exponent, rest) = number(rest);
    assert_eq!(rest[0], 0, "in the clear");
    let (_d, rest) = number(&rest[1..]);
    number(rest).0.to_vec()
}

fn number(bytes: &[u8]) -> (&[u8], &[u8]) {
    let bits = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
    bytes[2..].split_at(bits.div_ceil(8))
}

fn from_hex(digits: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.as_bytes().chunks(2).map(byte).collect()
}
