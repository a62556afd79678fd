//! Signing through a server: the way of `--server` and client.toml, servers that are away or come back, the README's
//! network section word for word, and dnf as the judge at the end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests"
)]

#[path = "network/readme.rs"]
mod readme;
#[allow(dead_code, reason = "shared by several tests")]
#[path = "network/site.rs"]
mod site;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use sealwright_testkit::sealwright::Ran;
use sealwright_testkit::tools;

use site::{Site, free_port};

#[test]
fn the_last_line_and_json_name_the_server_and_what_was_signed_verifies() {
    let site = Site::with_key();
    let server = format!("localhost:{}", site.port());
    site.packages(2);
    let signed = site.ok("admin", &["sign", "--key", "release", "0.rpm"]);
    assert!(signed.stderr.contains(&format!(" at {server}, request ")), "{}", signed.stderr);
    let signed = site.ok("admin", &["--json", "sign", "--key", "release", "1.rpm"]);
    assert_eq!(signed.json()[0]["server"], server);
    assert_eq!(site.ok("admin", &["--json", "key", "show", "release"]).json()[0]["server"], server);
    let verified = site.ok("admin", &["verify", "--key", "release", "0.rpm", "1.rpm"]);
    assert!(verified.stderr.contains("2 valid"), "{}", verified.stderr);
    assert_eq!(site.logged(), 2);
}

#[test]
fn a_server_that_cannot_be_reached_ends_with_3_and_every_address_before_a_file_is_touched() {
    let site = Site::new(&["--name", "localhost"]);
    let package = &site.packages(1)[0];
    let (before, when) = (fs::read(package).unwrap(), fs::metadata(package).unwrap().modified().unwrap());
    let (one, two) = (free_port(), free_port());
    let servers = format!("https://127.0.0.1:{one},https://127.0.0.1:{two}");
    let ran = site.run("admin", &["sign", "--server", &servers, "--key", "release", "0.rpm"]);
    assert_eq!(ran.code, Some(3), "{}", ran.text());
    for port in [one, two] {
        assert!(ran.stderr.contains(&format!("127.0.0.1:{port}: connection refused")), "{}", ran.stderr);
    }
    assert!(ran.stderr.contains("sealwright serve"), "advice: {}", ran.stderr);
    assert_eq!(fs::read(package).unwrap(), before);
    assert_eq!(fs::metadata(package).unwrap().modified().unwrap(), when);
    assert_eq!(fs::read_dir(site.work()).unwrap().count(), 1);
}

#[test]
fn a_server_that_is_named_needs_a_configuration_and_embedded_needs_none() {
    let site = Site::new(&["--name", "localhost"]);
    let ran = |arguments: &[&str]| Ran::from(tools::run(&mut site.command(arguments)));
    let nowhere = ran(&["key", "list", "--server", "https://localhost"]);
    assert_eq!(nowhere.code, Some(2), "{}", nowhere.text());
    assert!(nowhere.stderr.contains("init --client"), "{}", nowhere.stderr);
    let config = site.client_file("admin");
    let embedded = ["key", "list", "--server", "embedded", "--config", config.to_str().unwrap()];
    let embedded = ran(&embedded);
    assert_eq!((embedded.code, embedded.stderr.contains("No keys")), (Some(0), true), "{}", embedded.text());
    // Who meant the server beside sees where was looked.
    assert!(
        embedded.stderr.contains("/store") && embedded.stderr.contains("--config"),
        "{}",
        embedded.stderr
    );
    let gone = ran(&["key", "list", "--config", "/nonexistent/client.toml"]);
    assert_eq!(gone.code, Some(3), "{}", gone.text());
}

#[test]
fn init_says_the_command_after_which_a_running_server_knows_a_new_client() {
    let mut site = Site::new(&["--name", "localhost"]);
    let told = |site: &Site, name: &str| {
        let made = site.init(&["--client", name, "--key", "*"]);
        assert_eq!(made.code, Some(0), "{}", made.text());
        let line = made.stdout.lines().find(|line| line.starts_with("Reload: ")).unwrap().to_owned();
        line.trim_start_matches("Reload:").trim_start().to_owned()
    };
    assert!(told(&site, "early").starts_with("systemctl reload sealwright-front (without systemd"));
    site.start();
    site.ok("early", &["key", "list"]);
    let command = told(&site, "late");
    assert_eq!(site.run("late", &["key", "list"]).code, Some(3), "it is not known yet");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[..2], ["kill", "-HUP"], "{command}");
    tools::succeed(Command::new(words[0]).args(&words[1..]));
    let begun = Instant::now();
    while site.run("late", &["key", "list"]).code != Some(0) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", site.log());
    }
    let revoked = site.init(&["--revoke", "late", "--json"]);
    assert_eq!(revoked.json()[0]["reload"], command, "{}", revoked.text());
    assert!(!site.init(&["--client", "late"]).stdout.contains("Reload:"), "a renewal needs none");
}

#[test]
fn who_has_no_grant_or_was_revoked_gets_3_and_a_renewed_certificate_works_again() {
    let mut site = Site::new(&["--name", "localhost"]);
    assert_eq!(site.init(&["--client", "alice", "--key", "nightly"]).code, Some(0));
    site.start();
    site.ok("admin", &["key", "create", "release", "--algorithm", "ed25519"]);
    site.ok("admin", &["key", "create", "nightly", "--algorithm", "ed25519"]);
    site.packages(1);
    let sign = |key: &str| site.run("alice", &["sign", "--force", "--key", key, "0.rpm"]);
    assert_eq!(sign("release").code, Some(3));
    assert_eq!(sign("nightly").code, Some(0));
    assert_eq!(site.run("alice", &["key", "create", "mine"]).code, Some(3));
    assert_eq!(site.init(&["--revoke", "alice"]).code, Some(0));
    site.reload();
    let revoked = sign("nightly");
    assert_eq!(revoked.code, Some(3), "{}", revoked.text());
    assert!(revoked.stderr.contains("revoked"), "{}", revoked.stderr);
    assert_eq!(site.init(&["--client", "alice"]).code, Some(0));
    assert_eq!(sign("nightly").code, Some(0), "no reload is needed for a new certificate");
}

#[test]
fn a_server_that_is_killed_and_one_that_is_stopped_in_a_run_cost_no_file_and_no_second_signature() {
    const FILES: usize = 200;
    let mut site = Site::with_key();
    site.packages(FILES);
    let output = site.work().join("output");
    let mut sign = site.command_of("admin", &["sign", "--key", "release", "--jobs", "4", "-r", "."]);
    let said = site.work().join("said");
    sign.stdout(fs::File::create(&output).unwrap()).stderr(fs::File::create(&said).unwrap());
    let mut sign = sign.spawn().unwrap();
    let wait_for = |lines: usize| {
        let begun = Instant::now();
        while fs::read_to_string(&output).unwrap().lines().count() < lines {
            assert!(begun.elapsed() < Duration::from_secs(120));
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    wait_for(10);
    site.kill();
    site.start();
    wait_for(80);
    assert_eq!(site.stop(), Some(0));
    site.start();
    assert_eq!(sign.wait().unwrap().code(), Some(0), "{}", fs::read_to_string(&said).unwrap());
    wait_for(FILES);
    let verified = site.ok("admin", &["verify", "--key", "release", "-r", "."]);
    assert!(verified.stderr.contains(&format!("{FILES} valid")), "{}", verified.stderr);
    assert_eq!(site.logged(), FILES, "one log entry for each signature");
}

#[test]
fn dnf_installs_what_was_signed_through_a_server_and_refuses_what_another_key_signed() {
    let site = Site::with_key();
    site.ok("admin", &["key", "create", "other", "--algorithm", "rsa2048"]);
    site.ok("admin", &["key", "create", "trusted", "--algorithm", "rsa2048"]);
    site.packages(1);
    let certificate = site.ok("admin", &["key", "export", "trusted"]).stdout;
    fs::write(site.work().join("trusted.asc"), certificate).unwrap();
    let install = |key: &str| {
        site.ok("admin", &["sign", "--key", key, "0.rpm"]);
        let (repository, root) = (site.work().join(key), site.work().join(format!("{key}.root")));
        fs::create_dir_all(&repository).unwrap();
        fs::create_dir_all(&root).unwrap();
        fs::copy(site.work().join("0.rpm"), repository.join("tiny.rpm")).unwrap();
        tools::succeed(Command::new("createrepo_c").arg("--quiet").arg(&repository));
        let text = format!(
            "[main]\nreposdir=/nonexistent\n[local]\nname=local\nbaseurl=file://{}\nenabled=1\ngpgcheck=1\ngpgkey=file://{}\n",
            repository.display(),
            site.work().join("trusted.asc").display(),
        );
        let config = site.work().join(format!("{key}.conf"));
        fs::write(&config, text).unwrap();
        let state = |name: &str| {
            let folder = site.work().join(format!("{key}.{name}"));
            fs::create_dir_all(&folder).unwrap();
            folder.display().to_string()
        };
        let mut dnf = Command::new("dnf");
        dnf.arg("--config").arg(&config).arg("--installroot").arg(&root);
        dnf.args(["--assumeyes", "--releasever=1", "--noplugins", "--setopt=keepcache=0"]);
        dnf.arg(format!("--setopt=cachedir={}", state("cache")));
        dnf.arg(format!("--setopt=logdir={}", state("log")));
        dnf.arg(format!("--setopt=persistdir={}", state("persist")));
        let output = tools::run(dnf.args(["install", "tiny"]));
        (output.status.success(), root.join("usr/share/tiny").exists(), tools::text(&output))
    };
    let (done, installed, said) = install("trusted");
    assert!(done && installed, "{said}");
    let (done, installed, said) = install("other");
    assert!(!done && !installed, "{said}");
    assert!(said.contains("GPG") || said.contains("signature") || said.contains("public key"), "{said}");
}

#[test]
fn the_network_section_of_the_readme_works_word_for_word_for_another_user() {
    let Some(isolated) = readme::Isolated::new() else {
        eprintln!("left out: this needs root, and a kernel that gives it name spaces and overlays");
        return;
    };
    let (root, user) = readme::commands();
    assert!(root.iter().any(|line| line.starts_with("sealwright init")), "{root:?}");
    assert!(user.iter().any(|line| line.starts_with("sealwright sign")), "{user:?}");
    let said = isolated.run(&root, &user);
    assert!(said.contains("1 signed. Key release"), "{said}");
    assert!(said.contains("1 valid"), "{said}");
}
