//! Mistakes in `tokens.toml`: one of a token closes that token, one of the file as a whole keeps the signer from starting.

use std::fs;

use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::softhsm::{PIN, SoftHsm};

use super::{home_with_token, is_accepted, root};

#[test]
fn a_mistake_in_the_entry_of_a_token_closes_that_token_alone_and_is_said_with_file_line_and_cure() {
    let (home, hsm) = home_with_token("");
    hsm.add_rsa("another", "02");
    home.import(ED25519.name, &ED25519.secret());
    home.ok(&["key", "import", "k", "--token", "hsm1", "--object", "signer"]);
    let second = hsm.entry("").replace("hsm1\"", "hsm2\"");
    let wrong = hsm.entry("deadline_ms = 7");
    fs::write(home.work().join("text"), "text").unwrap();
    let install = |entry: &str| SoftHsm::install(&root(&home), &format!("{second}{entry}"), PIN);
    let line = second.lines().count() + 1;
    install(&wrong);
    let ran = home.run(&["sign", "--json", "--format", "detached", "--key", "k", "text"]);
    let failed = &ran.json()[0];
    assert_eq!(failed["code"], "token-refused", "{}", ran.text());
    for said in [
        "hsm1",
        "tokens.toml",
        &format!("line {line}: "),
        "deadline_ms is not 100 to 30000",
        "start the signer again",
    ] {
        assert!(failed.to_string().contains(said), "{said}: {failed}");
    }
    is_accepted(&home, ED25519.name, "software");
    home.ok(&["key", "import", "other", "--token", "hsm2", "--object", "another"]);
    install(&hsm.entry(""));
    is_accepted(&home, "k", "text");
}

#[test]
fn a_file_that_does_not_say_which_tokens_there_are_is_refused_at_the_start_by_name_and_line() {
    let (home, hsm) = home_with_token("");
    home.import(ED25519.name, &ED25519.secret());
    let good = hsm.entry("");
    for wrong in ["[[token]\n".to_owned(), good.clone(), good.replace("name", "nam")] {
        SoftHsm::install(&root(&home), &format!("{good}{wrong}"), PIN);
        let line = format!("line {}: ", good.lines().count() + 1);
        fs::write(home.work().join("text"), "text").unwrap();
        home.run(&["sign", "--format", "detached", "--key", ED25519.name, "text"])
            .failed_saying(&["tokens.toml", &line]);
    }
    SoftHsm::install(&root(&home), &good, PIN);
    is_accepted(&home, ED25519.name, "text");
}
