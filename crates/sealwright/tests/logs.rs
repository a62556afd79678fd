//! What a whole session writes at the level `trace`: lines that a program reads, one that accounts for each answer, the
//! trace of the client's run in all processes, and nothing that is secret.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Instant;

use sealwright_crypto::digest::to_hex;
use sealwright_crypto::openpgp::armor;
use sealwright_testkit::fixtures;
use sealwright_testkit::sealwright::Ran;
use sealwright_testkit::server::Server;
use sealwright_testkit::tools;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
/// Opens the key of the fixture.
const PASSPHRASE: &str = "corpus-pass";

struct Session {
    server: Server,
    /// Standard error of the client's commands.
    client: String,
    signed: Value,
}

/// Key creation, import with a passphrase, signatures, refusals, over the network, everything at `trace`.
fn session() -> Session {
    let mut server = Server::new(PROGRAM);
    server.configure("format =", "format = \"json\"");
    server.configure("filter =", "filter = \"trace\"");
    server.start();
    let mut client = String::new();
    let mut run = |arguments: &[&str]| {
        let mut command = server.command(arguments);
        command.env("SEALWRIGHT_LOG", "trace").env("SEALWRIGHT_LOG_FORMAT", "json");
        command.env("TRACEPARENT", format!("00-{TRACE}-00f067aa0ba902b7-01"));
        let ran = Ran::from(tools::run(command.stdout(Stdio::piped())));
        client.push_str(&ran.stderr);
        ran
    };
    run(&["key", "create", "release", "--algorithm", "ed25519"]);
    let secret =
        private(&server, "secret.asc", &fs::read(fixtures::key("gen_rsa3072-passphrase.sec.asc")).unwrap());
    let right = private(&server, "right", PASSPHRASE.as_bytes());
    let wrong = private(&server, "wrong", b"a wrong passphrase\n");
    for passphrase in [wrong, right] {
        run(&["key", "import", "imported", &secret, "--passphrase-file", &passphrase]);
    }
    let file = server.copy("gen_tiny-reserved4096.rpm");
    let signed = run(&["sign", "--json", "--key", "release", file.to_str().unwrap()]);
    assert_eq!(signed.code, Some(0), "{}", signed.text());
    let signed = serde_json::from_str(signed.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(run(&["sign", "--key", "imported", "--force", file.to_str().unwrap()]).code, Some(0));
    assert_eq!(run(&["key", "disable", "release"]).code, Some(0));
    assert_eq!(run(&["key", "show", "nothere"]).code, Some(1));
    assert_eq!(run(&["key", "show", "x\u{1b}[2J\nlevel=ERROR"]).code, Some(1));
    assert!(server.stop().success());
    Session { server, client, signed }
}

fn private(server: &Server, name: &str, content: &[u8]) -> String {
    let path = server.work().join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_session_at_trace_is_accounted_for_and_holds_no_secret() {
    let session = session();
    let server_lines = session.server.log();
    let objects: Vec<Value> = server_lines.lines().map(object).collect();
    // The client's own words to a person are between its log lines.
    let of_client: Vec<Value> =
        session.client.lines().filter(|line| line.starts_with('{')).map(object).collect();
    assert_accounted(&session.signed, &objects);
    let processes = |objects: &[Value]| -> BTreeSet<String> {
        let traced = objects.iter().filter(|object| object["trace_id"] == TRACE);
        traced.map(|object| object["process"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(processes(&objects), BTreeSet::from(["front".to_owned(), "signer".to_owned()]));
    assert_eq!(processes(&of_client), BTreeSet::from(["sealwright".to_owned()]));
    assert_eq!(session.signed["trace_id"], TRACE);
    let all = server_lines + &session.client;
    assert!(!all.contains('\u{1b}'));
    assert_no_secret(&session.server, &all);
}

/// The lines of the log with this message, once one of them is as wanted.
fn awaited(server: &Server, message: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let found = || {
        let log = server.log();
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut lines = whole.lines().map(object).filter(|line| line["message"] == message);
        lines.find(|line| is_wanted(line))
    };
    server.until(message, || found().is_some());
    found().unwrap()
}

/// A client's folder with files of two installations.
fn mixed(server: &Server, name: &str, ca: &Server, own: &Server) -> String {
    let folder = server.work().join(name);
    fs::create_dir(&folder).unwrap();
    for (from, file) in [(ca, "ca.pem"), (own, "client.pem"), (own, "client.key"), (server, "client.toml")] {
        fs::copy(from.admin().join(file), folder.join(file)).unwrap();
    }
    folder.join("client.toml").to_str().unwrap().to_owned()
}

#[test]
fn an_operator_sees_at_info_who_was_not_let_in_and_why() {
    let (mut server, other) = (Server::new(PROGRAM), Server::new(PROGRAM));
    server.configure("format =", "format = \"json\"");
    server.configure("filter =", "filter = \"info\"");
    let directory = server.directory();
    let init = |arguments: &[&str]| {
        server.ok(&[&["init", "--directory", directory.to_str().unwrap()], arguments].concat());
    };
    server.configure("# [limits]", "[limits]");
    server.configure("# connections_per_client", "unauthenticated_per_address = 64");
    init(&["--client", "build", "--key", "release"]);
    init(&["--client", "gone", "--key", "*"]);
    init(&["--revoke", "gone"]);
    server.start();
    server.ok(&["key", "create", "release", "--algorithm", "ed25519"]);
    server.ok(&["key", "create", "other", "--algorithm", "ed25519"]);
    let file = server.copy("gen_tiny-reserved4096.rpm");
    let refused = |config: &str, key: &str| {
        let mut command = server.command(&["sign", "--config", config, "--key", key, file.to_str().unwrap()]);
        command.env_remove("SEALWRIGHT_CLIENT_CONFIG");
        command.env("TRACEPARENT", format!("00-{TRACE}-00f067aa0ba902b7-01")).stdout(Stdio::piped());
        assert_eq!(Ran::from(tools::run(&mut command)).code, Some(3), "{config}");
    };
    for (config, why) in [
        (mixed(&server, "other-ca", &other, &server), "the client does not trust this server's certificate"),
        (mixed(&server, "other-client", &server, &other), "the client's certificate is of another authority"),
    ] {
        refused(&config, "release");
        let line = awaited(&server, "a handshake failed", |line| {
            line["reason"].as_str().is_some_and(|reason| reason.starts_with(why))
        });
        assert!(line["peer"].as_str().unwrap().contains(':') && line["left_out"].is_u64(), "{line}");
    }
    let config =
        |name: &str| directory.join("clients").join(name).join("client.toml").to_str().unwrap().to_owned();
    refused(&config("gone"), "release");
    refused(&config("build"), "other");
    for (message, principal, outcome) in
        [("turned away", "gone", "client-revoked"), ("answered", "build", "permission-denied")]
    {
        let line = awaited(&server, message, |line| line["principal"] == principal);
        assert_eq!((&line["outcome"], &line["trace_id"]), (&Value::from(outcome), &Value::from(TRACE)));
        assert!(line["peer"].is_string() && line["reason"].is_string() && line["call"].is_string(), "{line}");
    }
    let connect = |_| TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let silent: Vec<_> = (0..65).map(connect).collect();
    awaited(&server, "a connection was closed by a limit", |line| {
        line["limit"] == "unauthenticated" && line["peer"].as_str().unwrap().starts_with("127.0.0.1:")
    });
    drop(silent);
    assert!(server.stop().success());
}

#[test]
fn a_storm_of_handshakes_that_fail_writes_a_line_a_second_and_counts_the_others() {
    const STORM: u64 = 300;
    let mut server = Server::new(PROGRAM);
    server.configure("format =", "format = \"json\"");
    server.configure("filter =", "filter = \"info\"");
    server.start();
    let begun = Instant::now();
    for _ in 0..STORM {
        let mut socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        socket.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        // Whatever it says, until it closes.
        let _ = socket.read_to_end(&mut Vec::new());
    }
    let left_out = || -> Vec<u64> {
        let log = server.log();
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines = whole.lines().map(object).filter(|line| line["message"] == "a handshake failed");
        lines.map(|line| line["left_out"].as_u64().unwrap()).collect()
    };
    let told = |left_out: &[u64]| left_out.iter().map(|more| more + 1).sum::<u64>();
    server.until("all are told of", || told(&left_out()) >= STORM);
    let left_out = left_out();
    assert_eq!(told(&left_out), STORM);
    assert!(left_out.len() as u64 <= begun.elapsed().as_secs() + 1, "{left_out:?}");
    assert!(server.stop().success());
}

#[test]
fn a_reload_changes_how_lines_look_and_which_there_are() {
    let mut server = Server::new(PROGRAM);
    server.configure("format =", "format = \"text\"");
    server.configure("filter =", "filter = \"warn\"");
    server.start();
    server.ok(&["key", "create", "first", "--algorithm", "ed25519"]);
    assert!(!server.log().contains("answered"), "{}", server.log());
    server.configure("format =", "format = \"json\"");
    server.configure("filter =", "filter = \"info\"");
    let supervisor = server.supervisor();
    assert!(server.signal(supervisor, "HUP"));
    server.await_notice("STATUS=reloaded");
    server.ok(&["key", "create", "second", "--algorithm", "ed25519"]);
    let answered: Vec<String> =
        server.log().lines().filter(|line| line.contains("answered")).map(str::to_owned).collect();
    assert!(answered.iter().any(|line| object(line)["key"] == "second"), "{}", server.log());
    // What cannot be used leaves it as it is.
    server.configure("filter =", "filter = \"info,,=\"");
    assert!(server.signal(supervisor, "HUP"));
    server.await_notice("STATUS=not reloaded");
    server.ok(&["key", "create", "third", "--algorithm", "ed25519"]);
    assert!(server.log().lines().any(|line| line.contains("answered") && line.contains("third")));
}

#[test]
fn what_ends_a_process_is_an_event_like_any_other_where_the_log_is_json() {
    let server = Server::new(PROGRAM);
    server.configure("format =", "format = \"json\"");
    // Front alone finds that out.
    fs::write(server.directory().join("store/store.db"), "no database ".repeat(1000)).unwrap();
    let mut serve = server.serve().spawn().unwrap();
    server.until("front has failed", || server.log().contains("ends with a failure"));
    serve.kill().unwrap();
    serve.wait().unwrap();
    // And this the supervisor.
    fs::write(server.directory().join("clients.toml"), "nonsense").unwrap();
    assert_eq!(server.serve().status().unwrap().code(), Some(1));
    let log = server.log();
    let objects: Vec<Value> = log.lines().map(object).collect();
    for process in ["front", "supervisor"] {
        let end = objects
            .iter()
            .find(|object| object["process"] == process && object["message"] == "ends with a failure");
        let end = end.unwrap_or_else(|| panic!("{process}: {log}"));
        assert_eq!(end["level"], "ERROR");
        for name in ["reason", "advice"] {
            assert!(end[name].as_str().is_some_and(|text| !text.is_empty()), "{end}");
        }
    }
    assert!(objects.iter().any(|object| object["child"] == "front"), "{log}");
    assert!(!log.contains("field_"), "no field has the name of another: {log}");
}

fn object(line: &str) -> Value {
    let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    for name in ["time", "level", "process", "target", "message"] {
        assert!(object[name].is_string(), "{name} in {line}");
    }
    object
}

/// The line of the signed file, those of the refusals, and those of the key calls.
fn assert_accounted(signed: &Value, objects: &[Value]) {
    let answered: Vec<&Value> = objects.iter().filter(|object| object["message"] == "answered").collect();
    let of_request = |object: &&&Value| object["request_id"] == signed["request_id"];
    let line = answered.iter().find(of_request).expect("a line for the request");
    for (name, value) in [
        ("level", "INFO"),
        ("call", "sign"),
        ("principal", "admin"),
        ("key", "release"),
        ("outcome", "success"),
        ("log", "0"),
        ("trace_id", TRACE),
    ] {
        assert_eq!(line[name], value, "{name} in {line}");
    }
    assert_eq!((&line["items"], &line["signed"]), (&Value::from(1), &Value::from(1)), "{line}");
    assert!(line["peer"].as_str().unwrap().starts_with(['1', '[']), "{line}");
    let parts = ["queue_ms", "signer_ms", "store_ms"].map(|part| line[part].as_f64().unwrap());
    assert!(parts.iter().sum::<f64>() <= line["total_ms"].as_f64().unwrap() + 1.0, "{line}");
    assert!(parts[2] > 0.0, "{line}");
    let is = |call: &str, outcome: &str| {
        answered.iter().any(|object| object["call"] == call && object["outcome"] == outcome)
    };
    for (call, outcome) in [
        ("create", "success"),
        ("begin-import", "success"),
        ("import", "passphrase-wrong"),
        ("import", "success"),
        ("set-state", "success"),
        ("describe", "success"),
        ("describe", "key-not-found"),
    ] {
        assert!(is(call, outcome), "{call} {outcome}");
    }
}

/// Neither as it is nor in hexadecimal, in base64 at any place, or as Rust shows bytes.
fn assert_no_secret(server: &Server, text: &str) {
    for words in [PASSPHRASE, "a wrong passphrase"] {
        assert!(!text.contains(words), "{words}");
        assert!(!text.contains(&to_hex(words.as_bytes())), "{words} in hexadecimal");
        assert!(!text.contains(&decimal(words.as_bytes())), "{words} as bytes");
    }
    let [key, public] = ["gen_rsa3072-passphrase.sec.asc", "gen_rsa3072-passphrase.pub.asc"]
        .map(|name| armor::decode_or_binary(&fs::read(fixtures::key(name)).unwrap()).unwrap());
    // Its fingerprint is in both, and in lines.
    let is_public = |window: &[u8]| public.windows(window.len()).any(|found| found == window);
    let root = server.directory().join("root");
    let files = ["root.key", "data.key"].map(|name| fs::read(root.join(name)).unwrap());
    let of_files = files.iter().flat_map(|file| {
        let text = String::from_utf8_lossy(file).into_owned();
        let digits =
            text.split_whitespace().filter(|word| word.len() >= 64).map(from_hex).collect::<Vec<_>>();
        assert!(!digits.is_empty(), "no key in {text}");
        digits
    });
    for secret in of_files.chain([key]) {
        for window in secret.windows(16).step_by(4).filter(|window| !is_public(window)) {
            assert!(!text.contains(&to_hex(window)), "in hexadecimal");
            assert!(!text.contains(&decimal(window)), "as bytes");
        }
        for start in 0..3 {
            for window in secret[start..].chunks_exact(18).filter(|window| !is_public(window)) {
                assert!(!text.contains(&base64(window)), "in base64");
            }
        }
    }
}

fn decimal(bytes: &[u8]) -> String {
    bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}

fn from_hex(digits: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).expect("hexadecimal");
    digits
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| u8::try_from(digit(pair[0]) * 16 + digit(pair[1])).unwrap())
        .collect()
}

/// Of a length that takes no padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = bytes.chunks_exact(3).flat_map(|three| {
        let bits = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[(bits >> shift & 63) as usize]))
    });
    digits.collect()
}
