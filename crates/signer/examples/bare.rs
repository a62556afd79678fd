//! The private-key operation of aws-lc-rs and nothing else, for benches to compare with: `bare rsa4096 2 400` makes 400
//! signatures on two threads and prints a line of JSON; `bare rsa2048-keys 2 400` makes 400 keys instead.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::fs;
use std::thread::scope;
use std::time::Instant;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};

/// What is signed: as long as a digest. Signing hashes it, which costs nothing beside the operation.
const MESSAGE: [u8; 32] = [7; 32];

enum Work {
    Rsa(Box<RsaKeyPair>),
    Ed25519(Ed25519KeyPair),
    /// A new key each time.
    NewRsa2048,
}

impl Work {
    fn of(algorithm: &str) -> Result<Self, Box<dyn Error>> {
        match algorithm {
            "rsa2048" => Ok(Self::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048)?))),
            "rsa4096" => Ok(Self::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa4096)?))),
            "ed25519" => Ok(Self::Ed25519(Ed25519KeyPair::generate()?)),
            "rsa2048-keys" => Ok(Self::NewRsa2048),
            other => Err(format!("{other} is none of rsa2048, rsa4096, ed25519, rsa2048-keys").into()),
        }
    }

    /// Processor time of this thread for so many operations, in nanoseconds.
    fn run(&self, operations: u64) -> Result<u64, String> {
        let before = thread_cpu();
        let random = SystemRandom::new();
        for _ in 0..operations {
            match self {
                Self::Rsa(key) => {
                    let mut signature = vec![0; key.public_modulus_len()];
                    let made = key.sign(&RSA_PKCS1_SHA256, &random, &MESSAGE, &mut signature);
                    made.map_err(|_| "RSA signing failed")?;
                    std::hint::black_box(signature);
                }
                Self::Ed25519(key) => {
                    std::hint::black_box(key.sign(&MESSAGE));
                }
                Self::NewRsa2048 => {
                    let made = RsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| "making a key failed")?;
                    std::hint::black_box(made);
                }
            }
        }
        Ok(thread_cpu().saturating_sub(before))
    }
}

/// Processor time of this thread so far, in nanoseconds.
fn thread_cpu() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: bare ALGORITHM THREADS OPERATIONS");
    let (algorithm, threads, operations) = (next()?, next()?.parse::<u64>()?, next()?.parse::<u64>()?);
    let work = Work::of(&algorithm)?;
    work.run(1)?;
    let begun = Instant::now();
    let cpu_ns = scope(|scope| -> Result<u64, String> {
        let share = |number: u64| {
            let rest = operations.checked_rem(threads).unwrap_or(0);
            operations.checked_div(threads).unwrap_or(0).saturating_add(u64::from(number < rest))
        };
        let work = &work;
        let running: Vec<_> =
            (0..threads).map(|number| scope.spawn(move || work.run(share(number)))).collect();
        let mut sum = 0_u64;
        for thread in running {
            sum = sum.saturating_add(thread.join().map_err(|_| "a thread ended")??);
        }
        Ok(sum)
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{{\"seconds\":{seconds:.6},\"cpu_seconds\":{}.{:09}}}",
        cpu_ns / 1_000_000_000,
        cpu_ns % 1_000_000_000
    );
    Ok(())
}
