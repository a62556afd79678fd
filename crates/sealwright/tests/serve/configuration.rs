//! Configurations that are wrong: said at the start, by file, and nothing is left running.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use sealwright_testkit::server::Server;
use sealwright_testkit::tools;

use super::PROGRAM;

#[test]
fn check_config_names_the_file_that_is_wrong() {
    let server = Server::new(PROGRAM);
    let file = server.directory().join("server.toml");
    let check = ["serve", "--check-config", "--config", file.to_str().unwrap()];
    server.ok(&check);
    for (name, text, words) in [
        ("clients.toml", "[[client]]\nnam = \"a\"\n", &["clients.toml", "line 2"][..]),
        ("clients.toml", "# cut off\n", &["clients.toml", "names no client"]),
        ("tls/server.key", "no key\n", &["key"]),
        ("tls/ca.pem", "", &["authority of clients"]),
        ("server.toml", "[listen]\naddress = [\"localhost\"]\n", &["server.toml", "line 2"]),
    ] {
        let wrong = server.directory().join(name);
        let right = fs::read(&wrong).unwrap();
        fs::write(&wrong, text).unwrap();
        server.run(&check).failed_saying(words);
        fs::write(&wrong, right).unwrap();
    }
    fs::remove_file(server.directory().join("tls/server.pem")).unwrap();
    server.run(&check).failed_saying(&["tls/server.pem"]);
}

#[test]
fn a_fifo_in_the_place_of_a_file_is_refused_and_nobody_waits_for_its_writer() {
    let server = Server::new(PROGRAM);
    let file = server.directory().join("server.toml");
    let check = ["serve", "--check-config", "--config", file.to_str().unwrap()];
    for name in ["tls/server.pem", "tls/server.key", "tls/ca.pem", "clients.toml", "server.toml"] {
        let place = server.directory().join(name);
        let right = fs::read(&place).unwrap();
        fs::remove_file(&place).unwrap();
        tools::succeed(std::process::Command::new("mkfifo").arg(&place));
        server.run(&check).failed_saying(&[name, "not a regular file"]);
        fs::remove_file(&place).unwrap();
        fs::write(&place, right).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).unwrap();
    }
    server.ok(&check);
}

#[test]
fn a_key_of_the_server_that_others_can_read_is_refused() {
    let server = Server::new(PROGRAM);
    let file = server.directory().join("server.toml");
    let check = ["serve", "--check-config", "--config", file.to_str().unwrap()];
    let key = server.directory().join("tls/server.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    server.run(&check).failed_saying(&["tls/server.key", "0644", "chmod 600"]);
}

#[test]
fn a_list_of_clients_that_others_can_write_is_refused() {
    let server = Server::new(PROGRAM);
    let file = server.directory().join("server.toml");
    let check = ["serve", "--check-config", "--config", file.to_str().unwrap()];
    let clients = server.directory().join("clients.toml");
    fs::set_permissions(&clients, fs::Permissions::from_mode(0o646)).unwrap();
    server.run(&check).failed_saying(&["clients.toml", "0646", "chmod go-w"]);
    fs::set_permissions(&clients, fs::Permissions::from_mode(0o644)).unwrap();
    server.ok(&check);
}

/// It would say the same at each new start: there is none.
#[test]
fn a_wrong_file_at_the_start_ends_serve_and_is_named() {
    let server = Server::new(PROGRAM);
    fs::write(server.directory().join("clients.toml"), "nonsense").unwrap();
    let mut serve = server.serve();
    let ended = tools::run(serve.stderr(std::process::Stdio::piped()));
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("clients.toml: line 1, column"), "{said}");
}

#[test]
fn a_front_of_its_own_does_not_start_where_it_must_read_the_folder_of_the_root_key() {
    let server = Server::new(PROGRAM);
    let file = server.directory().join("server.toml");
    // As init makes it for one user, the root key lies beside server.toml: that needs a supervisor.
    let ran = server.run(&["front", "--config", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(2), "{}", ran.text());
    assert!(ran.text().contains("root key") && ran.text().contains("serve"), "{}", ran.text());
}

#[test]
fn a_child_whose_supervisor_is_gone_does_not_start() {
    let server = Server::new(PROGRAM);
    let root = server.directory().join("root");
    let mut supervisor = std::process::Command::new("true").spawn().unwrap();
    supervisor.wait().unwrap();
    let gone = supervisor.id().to_string();
    let ran = server.run(&["signer", "--root", root.to_str().unwrap(), "--parent", &gone]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
}
