//! The listener for metrics of a real server, read by a parser that is not ours (python3-prometheus-client).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use sealwright_testkit::server::Server;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");

/// A running server with its listener for metrics.
struct Observed {
    server: Server,
    port: u16,
}

impl Observed {
    fn start() -> Self {
        let mut server = Server::new(PROGRAM);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        server.configure("# metrics", &format!("metrics = \"127.0.0.1:{port}\""));
        server.start();
        Self { server, port }
    }

    /// Status and body.
    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn page(&self) -> Page {
        let (status, body) = self.get("/metrics");
        assert_eq!(status, 200);
        Page::parse(&body)
    }
}

/// As the other parser sees it.
struct Page {
    /// Kind of each family that has a sample, by name.
    kinds: BTreeMap<String, String>,
    /// `name{label="value",...}`, labels in order.
    values: BTreeMap<String, f64>,
    /// Values of labels.
    labels: BTreeSet<String>,
}

impl Page {
    fn parse(text: &str) -> Self {
        const SCRIPT: &str = "
import json, sys
from prometheus_client.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    for sample in family.samples:
        print(json.dumps([family.name, family.type, sample.name, sorted(sample.labels.items()), sample.value]))
";
        // The module is the system's; another python3 may come first in the path.
        let mut parser = Command::new("/usr/bin/python3")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 with python3-prometheus-client");
        let (mut input, text) = (parser.stdin.take().unwrap(), text.to_owned());
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
        let output = parser.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success(), "the parser refuses the page");
        let mut page = Self { kinds: BTreeMap::new(), values: BTreeMap::new(), labels: BTreeSet::new() };
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let sample: serde_json::Value = serde_json::from_str(line).unwrap();
            page.take(&sample);
        }
        page
    }

    fn take(&mut self, sample: &serde_json::Value) {
        let text = |index: usize| sample[index].as_str().unwrap().to_owned();
        let (family, kind, name) = (text(0), text(1), text(2));
        // The parser takes the suffix away that the documentation, and everybody who asks, writes.
        let family = if kind == "counter" { format!("{family}_total") } else { family };
        self.kinds.insert(family, kind);
        let labels: Vec<(String, String)> = serde_json::from_value(sample[3].clone()).unwrap();
        self.labels.extend(labels.iter().map(|(_, value)| value.clone()));
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        let key = if labels.is_empty() { name } else { format!("{name}{{{}}}", labels.join(",")) };
        let value = sample[4].as_f64().unwrap();
        assert!(value >= 0.0, "{key} {value}");
        assert!(self.values.insert(key.clone(), value).is_none(), "{key} is there twice");
    }

    fn value(&self, name: &str) -> f64 {
        *self.values.get(name).unwrap_or_else(|| panic!("no {name}"))
    }
}

/// Names and kinds of the table in the documentation.
fn documented() -> BTreeMap<String, String> {
    let rows = include_str!("../../../docs/howto/observe.md").lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split('|').map(str::trim).collect();
        let name = cells[0].trim_end_matches('`');
        let is_metric = name.starts_with("sealwright_") || name.starts_with("process_");
        is_metric.then(|| (name.to_owned(), cells[1].to_owned()))
    });
    rows.collect()
}

#[test]
fn the_page_has_what_is_documented_counts_what_happens_and_no_word_of_a_peer() {
    let observed = Observed::start();
    let server = &observed.server;
    let before = observed.page();
    server.ok(&["key", "create", "release", "--algorithm", "ed25519"]);
    for package in ["gen_tiny-reserved4096.rpm", "gen_tiny-reserved64.rpm"] {
        let file = server.copy(package);
        server.ok(&["sign", "--key", "release", file.to_str().unwrap()]);
    }
    let peers_word = "a-name-that-only-a-peer-knows";
    assert_ne!(server.run(&["key", "show", peers_word]).code, Some(0));
    let page = observed.page();
    assert_eq!(page.kinds, documented(), "docs/howto/observe.md");
    assert!(!page.labels.iter().any(|label| label.contains(peers_word)), "{:?}", page.labels);
    for (name, value) in [
        ("sealwright_requests_total{outcome=\"success\"}", 2.0),
        ("sealwright_items_total{outcome=\"success\"}", 2.0),
        ("sealwright_signatures_total{algorithm=\"ed25519\"}", 2.0),
        ("sealwright_key_calls_total{call=\"create\",outcome=\"success\"}", 1.0),
        ("sealwright_key_calls_total{call=\"describe\",outcome=\"key-not-found\"}", 1.0),
        ("sealwright_request_seconds_count", 2.0),
        ("sealwright_signer_seconds_count", 2.0),
        ("sealwright_log_entries", 2.0),
        ("sealwright_requests_in_flight", 0.0),
        ("sealwright_signer_up", 1.0),
        ("sealwright_ready{check=\"store\"}", 1.0),
        ("sealwright_signer_restarts_total", 0.0),
        ("sealwright_handshakes_total{outcome=\"completed\"}", 4.0),
    ] {
        assert!((page.value(name) - value).abs() < f64::EPSILON, "{name} is {}", page.value(name));
    }
    // Four connections: nothing of TLS was decoded for them.
    for name in
        ["sealwright_pem_parse_total", "sealwright_key_decode_total", "sealwright_tls_config_builds_total"]
    {
        assert!(page.value(name) > 0.0, "{name}");
        assert!((page.value(name) - before.value(name)).abs() < f64::EPSILON, "{name} grew");
    }
    assert!(page.value("process_resident_memory_bytes") > 1e6);
    assert!(page.value("process_open_fds") > 5.0);
    let end = page.value("sealwright_certificate_end_timestamp_seconds{certificate=\"server\"}");
    assert!(end > 1.7e9, "{end}");
}

#[test]
fn a_server_that_cannot_sign_is_live_and_not_ready_and_says_why() {
    let observed = Observed::start();
    assert_eq!(observed.get("/readyz"), (200, "ready\n".to_owned()));
    let signer = observed.server.child("signer");
    assert!(observed.server.signal(signer, "STOP"));
    let mut answer = (200, String::new());
    observed.server.until("it is not ready", || {
        answer = observed.get("/readyz");
        answer.0 == 503
    });
    assert!(answer.1.starts_with("signer: "), "{}", answer.1);
    assert_eq!(observed.get("/livez").0, 200);
    assert!(observed.page().value("sealwright_ready{check=\"signer\"}").abs() < f64::EPSILON);
    assert!(observed.server.signal(signer, "CONT"));
    observed.server.until("it is ready", || observed.get("/readyz").0 == 200);
    // Another one is counted, and said to be there.
    assert!(observed.server.signal(signer, "KILL"));
    observed.server.until("a second signer", || {
        let page = observed.page();
        page.value("sealwright_signer_restarts_total") >= 1.0 && page.value("sealwright_signer_up") >= 1.0
    });
}

#[test]
fn a_reload_that_never_reaches_front_counts_as_refused_too() {
    let observed = Observed::start();
    std::fs::write(observed.server.directory().join("clients.toml"), "nonsense").unwrap();
    assert!(observed.server.signal(observed.server.supervisor(), "HUP"));
    observed.server.until("it is counted", || {
        observed.page().value("sealwright_reloads_total{outcome=\"refused\"}") >= 1.0
    });
}
