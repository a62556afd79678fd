//! `cargo xtask obs`: the captured connections of obs-sign (fixtures/obs), sent again. Without an address by the test that
//! starts a server of its own; with one to a server that runs, whatever it is.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::Error;
use crate::{Result, process};

/// A server has so long for a reply.
const WAIT_MAX: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// ADDRESS:PORT of a running server that has the keys of fixtures/obs/keys under the names of the transcripts, and lets
    /// this machine ask
    #[arg(long)]
    address: Option<SocketAddr>,
}

/// Sends them, and says what came back otherwise than was captured.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Some(address) = arguments.address else {
        let test = ["test", "--locked", "--package", "sealwright", "--test", "obs", "--", "replay::"];
        return process::run(&mut process::cargo(&test));
    };
    let (transcripts, listed) = (table("transcripts.tsv")?, table("differences.tsv")?);
    let reasons: BTreeMap<&str, &str> =
        listed.iter().map(|[name, _, reason]| (name.as_str(), reason.as_str())).collect();
    let mut unlisted = 0_usize;
    for [name, request, captured] in &transcripts {
        let reply = ask(address, &digits(request)).map_err(|source| Error::Connection { address, source })?;
        let is_same = reply == digits(captured);
        let verdict = match (is_same, reasons.get(name.as_str())) {
            (true, _) => "same".to_owned(),
            (false, Some(reason)) => format!("differs, as listed: {reason}"),
            (false, None) => {
                unlisted = unlisted.saturating_add(1);
                format!("DIFFERS: {}", String::from_utf8_lossy(&reply).escape_debug())
            }
        };
        println!("{name:32} {verdict}");
    }
    if unlisted == 0 {
        return Ok(());
    }
    Err(Error::Findings {
        count: unlisted,
        what: "replies differ and are not listed in fixtures/obs/differences.tsv",
    })
}

/// The rows of three cells below the head.
fn table(name: &str) -> Result<Vec<[String; 3]>> {
    let path = process::root().join("fixtures/obs").join(name);
    let text = std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
    let row = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>().try_into().ok();
    Ok(text.lines().skip(1).filter_map(row).collect())
}

/// Nothing more comes after the request, so that half a one is answered at once.
fn ask(address: SocketAddr, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream.write_all(request)?;
    stream.shutdown(Shutdown::Write)?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply)?;
    Ok(reply)
}

/// Bytes of hexadecimal digits; none of what is not such.
fn digits(text: &str) -> Vec<u8> {
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.iter().filter_map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_that_is_listed_is_of_a_captured_connection_and_has_a_reason() {
        let transcripts = table("transcripts.tsv").unwrap();
        let listed = table("differences.tsv").unwrap();
        assert!(!listed.is_empty() && listed.len() < transcripts.len() / 2);
        for [name, kind, reason] in &listed {
            assert!(transcripts.iter().any(|[known, ..]| known == name), "{name}");
            assert!(["probe", "other"].contains(&kind.as_str()) && !reason.is_empty(), "{name}");
        }
        assert!(transcripts.iter().all(|[_, request, _]| !digits(request).is_empty()));
    }

    #[test]
    fn digits_are_bytes() {
        assert_eq!(digits("00ffA1"), [0, 255, 161]);
        assert!(digits("-").is_empty());
    }
}
