//! The protocol over TLS, by a client that is not ours (Python's ssl): the certificate says who asks.

use std::path::Path;
use std::process::Command;

use sealwright_testkit::server::Server;
use sealwright_testkit::tools;

use super::PROGRAM;
use super::serving::{append, free_port, refusal};

const SCRIPT: &str = "
import socket, ssl, sys
port, folder, name, request = int(sys.argv[1]), sys.argv[2], sys.argv[3], bytes.fromhex(sys.argv[4])
context = ssl.create_default_context(cafile=folder + '/ca.pem')
if len(sys.argv) > 5:
    context.load_cert_chain(folder + '/client.pem', folder + '/client.key')
reply = b''
try:
    with context.wrap_socket(socket.create_connection(('127.0.0.1', port)), server_hostname=name) as stream:
        stream.sendall(request)
        while piece := stream.recv(4096):
            reply += piece
except ssl.SSLError as error:
    sys.exit('TLS: ' + str(error))
print(reply.hex())
";

fn asked(port: u16, client: &Path, name: &str, has_certificate: bool) -> Result<Vec<u8>, String> {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", SCRIPT, &port.to_string()]).arg(client).args([name, "00000000"]);
    if has_certificate {
        command.arg("with");
    }
    let output = tools::run(&mut command);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let text = text.trim();
    Ok((0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect())
}

#[test]
fn over_tls_the_certificate_says_who_asks_and_names_are_checked_on_both_sides() {
    let mut server = Server::new(PROGRAM);
    let port = free_port();
    append(&server, "server.toml", &format!("\n[obs]\nlisten_tls = [\"127.0.0.1:{port}\"]\n"));
    server.start();
    let admin = server.admin();
    assert_eq!(asked(port, &admin, "localhost", true).unwrap(), [0; 6]);
    let text = asked(port, &admin, "signer.example.org", true).unwrap_err();
    assert!(text.contains("Hostname mismatch"), "{text}");
    let text = asked(port, &admin, "localhost", false).unwrap_err();
    assert!(text.contains("certificate required") || text.contains("reset"), "{text}");
    let clients = server.directory().join("clients.toml");
    let table = std::fs::read_to_string(&clients).unwrap();
    std::fs::write(&clients, table.replace("name = \"admin\"", "name = \"somebody\"")).unwrap();
    server.reload();
    server.await_notice("STATUS=reloaded");
    let reply = asked(port, &admin, "localhost", true).unwrap();
    assert_eq!(refusal(&reply), "this server knows no client admin");
}
