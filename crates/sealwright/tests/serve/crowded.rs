//! A client that has as many connections as it may.

use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::sealwright::Ran;
use sealwright_testkit::server::Server;
use sealwright_testkit::tools;

use super::PROGRAM;
use super::caller::Caller;

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_too_many_is_named_waits_and_is_let_in_when_there_is_room() {
    const REASON: &str = "the client admin has as many connections here as it may (1)";
    let mut server = Server::new(PROGRAM);
    server.configure("# [limits]", "[limits]");
    server.configure("# connections_per_client", "connections_per_client = 1");
    server.start();
    server.import(ED25519);
    // The one of the import has left when this one is let in.
    let mut held = loop {
        let mut caller = Caller::connect(&server).await;
        if caller.try_sign(ED25519.name).await {
            break caller;
        }
    };
    server.run(&["key", "list"]).failed_saying(&[REASON, "come again in 2 s", "Repeat the request"]);
    let mut list = server.command(&["key", "list", "--json"]);
    let told = Ran::from(tools::run(list.stdout(std::process::Stdio::piped()))).json();
    assert_eq!(
        (&told[0]["code"], &told[0]["retry_after_ms"]),
        (&"overloaded".into(), &2_000.into()),
        "{told:?}"
    );
    let said = server.log().matches(REASON).count();
    assert!(said > 0, "{}", server.log());
    let file = server.files("a", 1).remove(0);
    let mut sign = server
        .command(&["sign", "--format", "detached", "--key", ED25519.name, &file])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // For longer than a person waits for a list.
    server.until("it was turned away again and again", || server.log().matches(REASON).count() > said + 3);
    assert!(held.sign(ED25519.name, 1, 60_000).await.iter().all(Result::is_ok), "who is in stays in");
    drop(held);
    assert!(sign.wait().unwrap().success(), "{}", server.log());
    assert!(server.stop().success(), "{}", server.log());
}
