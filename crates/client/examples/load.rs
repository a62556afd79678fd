//! Load for a server, and a bare server to compare with, for the benches of `cargo xtask`. It speaks the protocol and
//! skips what a client does with files. Each command prints a line of JSON.
//!
//! ```text
//! load sign FOLDER PORT KEY ITEMS IN_FLIGHT GROUPS CONNECTIONS interactive|batch PAUSE_MS
//!                                             # KEY `PREFIX*COUNT`: each group with one of PREFIX-0 ... at random; `@`: in turns
//! load keys FOLDER PORT PREFIX COUNT          # makes the keys PREFIX-0, PREFIX-1 ...
//! load crowd FOLDER PORT KEY CONNECTIONS      # stays connected until its standard input ends
//! load echo FOLDER                            # a tonic server with mutual TLS and nothing behind it; says its port
//! ```

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    missing_docs,
    reason = "a tool for benches: what is wrong ends it, its output is its purpose"
)]

#[path = "load/crowd.rs"]
mod crowd;
#[path = "load/echo.rs"]
mod echo;
#[path = "load/keys.rs"]
mod keys;
#[path = "load/line.rs"]
mod line;
#[path = "load/sign.rs"]
mod sign;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    raise_descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        match words.as_slice() {
            ["sign", folder, port, rest @ ..] => sign::run(&line::Line::new(folder, port), rest).await,
            ["keys", folder, port, prefix, count] => {
                keys::run(&line::Line::new(folder, port), prefix, count.parse().unwrap()).await;
            }
            ["crowd", folder, port, key, connections] => {
                crowd::run(&line::Line::new(folder, port), key, connections.parse().unwrap()).await;
            }
            ["echo", folder] => echo::run(folder).await,
            _ => panic!("wrong usage; the source says the right one"),
        }
    });
}

/// As far as this user may: a crowd takes a descriptor each.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// Processor time of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    std::time::Duration::try_from(time).unwrap().as_secs_f64()
}
