//! `obs-shadow` between clients and a listener of this protocol, with a second one beside it: who gets which bytes, and what is
//! counted. Both sides are `serve`; what differs between them are their keys.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};

use sealwright_obs::command::{Keygen, NewKey};
use sealwright_obs::{DigestArgument, Hash, Request};
use sealwright_testkit::fixtures;
use serde_json::{Value, json};

use super::PROGRAM;
use super::replay::{differences, hex};
use super::serving::{KEYS, Obs, RSA2048, SEALED, ask, ask_half, free_port, refusal, sign};

struct Shadow {
    child: Child,
    lines: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Shadow {
    fn start(signd: u16, ours: u16, more: &[&str]) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["--json", "obs-shadow", "--listen", "127.0.0.1:0"])
            .args(["--signd", &format!("127.0.0.1:{signd}"), "--ours", &format!("127.0.0.1:{ours}")])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(said["status"], "listening");
        Self { child, lines, address: said["address"].as_str().unwrap().parse().unwrap() }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    fn ask(&self, request: &Request) -> Vec<u8> {
        ask(self.connect(), &request.to_bytes())
    }

    /// Ends it as a service manager does. Its lines, and the summary apart.
    fn stop(mut self) -> (Vec<Value>, Value) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut text = String::new();
        self.lines.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let summary = lines.pop().unwrap();
        assert_eq!(summary["status"], "summary");
        (lines, summary)
    }
}

/// Nothing that was started is left behind, also by a test that failed.
impl Drop for Shadow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pubkey(user: &str) -> Request {
    Request::pubkey(user, Hash::Sha256).unwrap()
}

/// Kind, command and user of each line.
fn kinds(lines: &[Value]) -> Vec<[&str; 3]> {
    let mut kinds: Vec<_> = lines
        .iter()
        .map(|line| ["kind", "command", "user"].map(|name| line[name].as_str().unwrap()))
        .collect();
    kinds.sort_unstable();
    kinds
}

#[test]
fn every_captured_request_gets_its_reply_through_it_and_two_servers_with_one_key_do_not_differ() {
    let obs = Obs::with("", &[0, 1, 2]);
    let shadow = Shadow::start(obs.port, obs.port, &[]);
    let text = fs::read_to_string(fixtures::path("obs/transcripts.tsv")).unwrap();
    let (differences, mut sent) = (differences(), 0);
    for line in text.lines().skip(1) {
        let [name, request, reply] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let captured = if reply == "-" { Vec::new() } else { hex(reply) };
        let asked = if name == "err-short-packet.1" { ask_half } else { ask };
        let got = asked(shadow.connect(), &hex(request));
        sent += 1;
        if !differences.contains_key(name) {
            assert!(got == captured, "{name}: {}", String::from_utf8_lossy(&got));
        }
    }
    let (lines, summary) = shadow.stop();
    assert_eq!(summary["different"], json!({}), "{lines:?}");
    assert_eq!(summary["requests"], sent);
    assert_eq!(summary["not_asked"]["incomplete"], 1, "{summary}");
    assert!(summary["not_asked"]["keygen"].as_u64().unwrap() >= 1, "{summary}");
    let not_asked: u64 =
        summary["not_asked"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(summary["same"].as_u64().unwrap() + not_asked, sent, "{summary}");
}

#[test]
fn a_key_that_is_another_or_missing_or_not_sealed_is_named_and_the_client_sees_nothing_of_it() {
    let (signd, ours) = (Obs::with("", &[0, 1, 2]), Obs::with("", &[]));
    ours.import(RSA2048, "rsa4096", &SEALED);
    ours.import(KEYS[2].0, KEYS[2].1, &[]);
    let shadow = Shadow::start(signd.port, ours.port, &[]);
    let probe = Request::sign(RSA2048, &[DigestArgument::probe(Hash::Sha256)]).unwrap();
    let requests =
        [pubkey(RSA2048), sign(RSA2048, 1), probe, sign(KEYS[1].0, 2), sign(KEYS[2].0, 3), pubkey("nobody")];
    for request in &requests {
        assert_eq!(shadow.ask(request), signd.ask(&request.to_bytes()));
    }
    let (lines, summary) = shadow.stop();
    assert_eq!(
        kinds(&lines),
        [
            ["ours-refused", "sign", KEYS[2].0],
            ["ours-unknown-key", "sign", KEYS[1].0],
            ["probe", "sign", RSA2048],
            ["public-key", "pubkey", RSA2048],
            ["signature-fields", "sign", RSA2048],
        ]
    );
    let refused = lines.iter().find(|line| line["kind"] == "ours-refused").unwrap();
    assert!(refused["why"].as_str().unwrap().contains("is not for the usage obs-digest"), "{refused}");
    assert_eq!(
        summary["different"],
        json!({ "ours-refused": 1, "ours-unknown-key": 1, "probe": 1, "public-key": 1, "signature-fields": 1 })
    );
    assert_eq!((&summary["same"], &summary["requests"]), (&json!(1), &json!(6)));
    let digest = "01".repeat(32);
    assert!(!format!("{lines:?}").contains(&digest), "no digest is in a line");
}

#[test]
fn a_key_is_never_made_twice() {
    let (signd, ours) = (Obs::with("", &[0]), Obs::with("", &[0]));
    let shadow = Shadow::start(signd.port, ours.port, &[]);
    let keygen = Keygen {
        algorithm: NewKey::Ed25519,
        expire_days: 800,
        real_name: "proj key".to_owned(),
        email: "proj@example.org".to_owned(),
    };
    let reply = shadow.ask(&keygen.request(RSA2048, Hash::Sha256).unwrap());
    assert_eq!(reply[..2], [0, 0]);
    let (_, summary) = shadow.stop();
    assert_eq!(summary["not_asked"], json!({ "keygen": 1 }));
    assert_eq!(summary["ours_lost"], 0);
}

#[test]
fn a_client_is_served_while_ours_is_dead_or_silent() {
    let signd = Obs::with("", &[0]);
    let shadow = Shadow::start(signd.port, free_port(), &[]);
    assert_eq!(shadow.ask(&sign(RSA2048, 1)), signd.ask(&sign(RSA2048, 1).to_bytes()));
    let (lines, summary) = shadow.stop();
    assert_eq!((&summary["ours_lost"], &lines[0]["status"]), (&json!(1), &json!("ours-lost")), "{summary}");

    // Connections stay in its queue.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let shadow = Shadow::start(signd.port, silent.local_addr().unwrap().port(), &[]);
    assert_eq!(shadow.ask(&sign(RSA2048, 1)), signd.ask(&sign(RSA2048, 1).to_bytes()));
    let (waiting, _) = silent.accept().unwrap();
    drop((waiting, silent));
    let (_, summary) = shadow.stop();
    let ours = summary["ours_lost"].as_u64().unwrap()
        + summary["different"]["ours-unreadable"].as_u64().unwrap_or(0);
    assert_eq!(ours, 1, "{summary}");
}

#[test]
fn without_signd_a_client_is_cut_off_and_reads_not_a_byte_of_ours() {
    let ours = Obs::with("", &[0]);
    let shadow = Shadow::start(free_port(), ours.port, &[]);
    let (mut client, mut read) = (shadow.connect(), Vec::new());
    let _ = client.write_all(&sign(RSA2048, 1).to_bytes());
    assert!(client.read_to_end(&mut read).is_err(), "it is reset");
    assert!(read.is_empty());
    let (lines, summary) = shadow.stop();
    assert_eq!((&summary["signd_lost"], &lines[0]["status"]), (&json!(1), &json!("signd-lost")), "{summary}");
    assert_eq!(ours.server.sql("SELECT count(*) FROM log"), ["0"], "nor is ours asked");
}

#[test]
fn a_host_that_is_not_on_the_list_reads_why_and_neither_server_is_asked() {
    let shadow = Shadow::start(free_port(), free_port(), &["--allow", "127.0.0.2"]);
    assert_eq!(refusal(&shadow.ask(&pubkey(RSA2048))), "illegal host 127.0.0.1");
    let (_, summary) = shadow.stop();
    assert_eq!((&summary["strangers"], &summary["signd_lost"]), (&json!(1), &json!(0)), "{summary}");
}

#[test]
fn a_listener_for_others_does_not_start_without_a_list() {
    let run = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["obs-shadow", "--signd", "127.0.0.1:1", "--ours", "127.0.0.1:1"]).args(more);
        let ran = command.output().unwrap();
        (ran.status.code().unwrap(), String::from_utf8(ran.stderr).unwrap())
    };
    let (status, said) = run(&["--listen", "0.0.0.0:0"]);
    assert!(status == 2 && said.contains("nobody may ask"), "{said}");
    let (status, said) = run(&["--listen", "0.0.0.0:0", "--allow", "0.0.0.0/0"]);
    assert!(status == 2 && said.contains("everybody"), "{said}");
    let (status, said) = run(&["--listen", "0", "--allow", "localhost"]);
    assert!(status == 2 && said.contains("no address"), "{said}");
}
