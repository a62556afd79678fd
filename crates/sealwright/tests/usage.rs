//! What a person is told who named the wrong thing: exit status 2 for the command line, the file by name otherwise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use std::fs;
use std::process::Command;

use sealwright_testkit::fixtures::{self, ED25519};
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::tools;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealwright");
const PACKAGE: &str = "gen_tiny-reserved4096.rpm";

fn home() -> Home {
    Home::with_keys(PROGRAM, &[ED25519])
}

#[track_caller]
fn usage(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, Some(2), "{}", ran.text());
    for word in words {
        assert!(ran.stderr.contains(word), "{word:?} is not in {}", ran.text());
    }
}

/// A line for a shell, in which `$S` is the program.
fn shell(home: &Home, line: &str) -> Ran {
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(home.work());
    command.env("S", PROGRAM).env("SEALWRIGHT_HOME", home.home()).env_remove("SEALWRIGHT_KEY");
    Ran::from(tools::run(&mut command))
}

#[test]
fn key_names_and_user_ids_that_break_the_rules_are_wrong_usage() {
    let home = Home::new(PROGRAM);
    usage(&home.run(&["key", "create", "a/b"]), &["a/b", "letters"]);
    usage(&home.run(&["key", "import", "a b", "x.asc"]), &["a b", "letters"]);
    for uid in ["", "  ", "a\nb", "a\u{1b}[2J", &"x".repeat(1025)] {
        usage(&home.run(&["key", "create", "good", "--uid", uid]), &["user id"]);
    }
    assert!(!home.home().exists(), "wrong usage makes no store");
}

#[test]
fn a_value_that_an_option_does_not_take_is_refused_with_those_it_takes() {
    let home = home();
    let ran = home.run(&["sign", "--key", ED25519.name, "--min-rpm", "4", "x.rpm"]);
    usage(&ran, &["min-rpm", "4.4 or later", "4.14"]);
}

#[test]
fn a_tree_is_not_signed_beside_its_files() {
    let home = home();
    fs::write(home.work().join("data"), "data").unwrap();
    usage(&home.run(&["sign", "--key", ED25519.name, "-r", "--format", "detached", "."]), &["--files-from"]);
    assert_eq!(fs::read_dir(home.work()).unwrap().count(), 1);
}

#[test]
fn an_output_that_is_a_file_is_wrong_usage() {
    let home = home();
    home.copy(&fixtures::package(PACKAGE));
    fs::write(home.work().join("out"), "mine").unwrap();
    for more in [&[][..], &["--dry-run"]] {
        let sign = ["sign", "--key", ED25519.name, "--output", "out", PACKAGE];
        usage(&home.run(&[&sign[..], more].concat()), &["out", "not a directory"]);
        let strip = ["strip", "--output", "out", PACKAGE];
        usage(&home.run(&[&strip[..], more].concat()), &["out", "not a directory"]);
    }
    assert_eq!(fs::read(home.work().join("out")).unwrap(), b"mine");
}

#[test]
fn strip_advises_only_what_strip_has() {
    let home = home();
    fs::write(home.work().join("notes"), "notes").unwrap();
    let ran = home.run(&["strip", "notes"]);
    ran.failed_saying(&["notes"]);
    assert!(!ran.text().contains("--format"), "{}", ran.text());
}

#[test]
fn key_and_keyring_files_are_named_when_they_cannot_be_used() {
    let home = home();
    fs::create_dir(home.work().join("dir")).unwrap();
    fs::write(home.work().join("empty"), "").unwrap();
    fs::write(home.work().join("notes"), "notes").unwrap();
    home.copy(&fixtures::package(PACKAGE));
    let secret = ED25519.secret();
    let secret = secret.to_str().unwrap();
    for bad in ["dir", "missing.asc", "empty"] {
        for arguments in [
            vec!["key", "import", "new", bad],
            vec!["key", "import", "new", secret, "--passphrase-file", bad],
            vec!["verify", "--keyring", bad, PACKAGE],
            vec!["verify", "--cert", bad, PACKAGE],
        ] {
            let ran = home.run(&arguments);
            ran.failed_saying(&[bad]);
            assert!(!ran.text().contains("-r."), "{}", ran.text());
            assert!(bad != "dir" || ran.text().contains("Name the file itself."), "{}", ran.text());
        }
    }
    home.run(&["verify", "--keyring", "notes", PACKAGE]).failed_saying(&["notes"]);
}

#[test]
fn keys_and_keyrings_come_from_pipes_too() {
    let home = home();
    fs::write(home.work().join("secret"), fs::read(ED25519.secret()).unwrap()).unwrap();
    fs::write(home.work().join("public"), fs::read(ED25519.public()).unwrap()).unwrap();
    home.copy(&fixtures::package(PACKAGE));
    home.ok(&["sign", "--key", ED25519.name, PACKAGE]);
    for line in [
        format!("cat public | $S verify --keyring - {PACKAGE}"),
        format!("cat public | $S verify --cert /dev/stdin {PACKAGE}"),
        format!("$S verify --keyring <(cat public) {PACKAGE}"),
        "export SEALWRIGHT_HOME=$PWD/h1; cat secret | $S key import one -".to_owned(),
        "export SEALWRIGHT_HOME=$PWD/h2; $S key import two <(cat secret)".to_owned(),
        "export SEALWRIGHT_HOME=$PWD/h3; $S key import three /dev/stdin < secret".to_owned(),
    ] {
        let ran = shell(&home, &line);
        assert_eq!(ran.code, Some(0), "{line}: {}", ran.text());
    }
    let ran = shell(&home, "$S key import four - < /dev/zero");
    ran.failed_saying(&["standard input", "limit"]);
}

#[test]
fn the_retry_line_puts_results_where_the_first_call_would_have() {
    let home = home();
    fs::create_dir_all(home.work().join("tree/sub")).unwrap();
    let bad = home.work().join("tree/sub/bad.rpm");
    let good = fs::read(fixtures::package(PACKAGE)).unwrap();
    fs::write(&bad, &good[..good.len() / 2]).unwrap();
    let ran = home.run(&["sign", "--key", ED25519.name, "-r", "--output", "out", "tree"]);
    ran.failed_saying(&["bad.rpm"]);
    let line = ran.stderr.lines().find_map(|line| line.strip_prefix("Retry: sealwright ")).unwrap();
    fs::write(&bad, &good).unwrap();
    let again = shell(&home, &format!("$S {line}"));
    assert_eq!(again.code, Some(0), "{line}: {}", again.text());
    assert!(home.work().join("out/sub/bad.rpm").exists(), "{line}");
}

#[test]
fn an_export_is_whole_or_not_there() {
    let home = home();
    let to_stdout = home.ok(&["key", "export", ED25519.name, "-o", "-"]);
    assert!(to_stdout.stdout.starts_with("-----BEGIN PGP PUBLIC KEY"), "{}", to_stdout.text());
    if tools::succeed(Command::new("id").arg("-u")).trim_ascii() != b"0" {
        eprintln!("not root: no full file system can be mounted, this part of the test is left out");
        return;
    }
    let disk = home.work().join("disk");
    fs::create_dir(&disk).unwrap();
    tools::succeed(Command::new("mount").args(["-t", "tmpfs", "-o", "size=4k", "tmpfs"]).arg(&disk));
    fs::write(disk.join("filler"), [1; 4096]).unwrap();
    let ran = home.run(&["key", "export", ED25519.name, "-o", "disk/cert.asc"]);
    let left = disk.join("cert.asc").exists();
    tools::succeed(Command::new("umount").arg("-l").arg(&disk));
    ran.failed_saying(&["cert.asc", "space"]);
    assert!(!left, "{}", ran.text());
}

#[test]
fn what_this_machine_cannot_give_is_said_at_the_start() {
    let home = home();
    let ran = shell(&home, "ulimit -n 20; $S key list");
    ran.failed_saying(&["files", "ulimit -n"]);
    let ran = home.run_at("1960-01-01 00:00:00", &["key", "list"]);
    ran.failed_saying(&["clock", "1970"]);
}

#[test]
fn looking_for_keys_makes_no_store_and_no_root_key() {
    let home = Home::new(PROGRAM);
    home.copy(&fixtures::package(PACKAGE));
    home.ok(&["key", "list"]);
    home.ok(&["key", "list", "--json"]);
    for arguments in [
        ["key", "show", "release"].as_slice(),
        &["key", "export", "release"],
        &["key", "renew", "release"],
        &["key", "disable", "release"],
        &["key", "enable", "release"],
        &["sign", "--key", "release", PACKAGE],
    ] {
        home.run(arguments).failed_saying(&["release", "SEALWRIGHT_HOME"]);
    }
    assert!(!home.home().exists());
}

#[test]
fn a_demo_without_packages_fails() {
    let home = Home::new(PROGRAM);
    fs::create_dir(home.work().join("empty")).unwrap();
    home.run(&["demo", "--packages", "empty"]).failed_saying(&["empty", "no package", "--packages"]);
}

#[test]
fn what_lies_in_an_output_directory_is_replaced_only_if_it_is_a_package() {
    let home = home();
    home.copy(&fixtures::package(PACKAGE));
    let out = home.work().join("out");
    let there = out.join(PACKAGE);
    fs::create_dir(&out).unwrap();
    fs::write(home.work().join("important"), "important").unwrap();
    let sign = ["sign", "--key", ED25519.name, "--output", "out", PACKAGE];
    let strip = ["strip", "--output", "out", PACKAGE];
    home.ok(&["sign", "--key", ED25519.name, PACKAGE]);
    let signatures = home.log_size();
    let in_the_way = [
        ("cp important out/NAME", "no package"),
        ("ln -s ../important out/NAME", "symbolic link"),
        ("ln -s nowhere out/NAME", "symbolic link"),
        ("cp NAME other.rpm; ln -s ../other.rpm out/NAME", "symbolic link"),
        ("mkfifo out/NAME", "FIFO"),
        ("mkdir out/NAME", "directory"),
        (": > out/NAME", "no package"),
    ];
    for (make, kind) in in_the_way {
        assert_eq!(shell(&home, &make.replace("NAME", PACKAGE)).code, Some(0), "{make}");
        let before = fs::symlink_metadata(&there).unwrap().file_type();
        for command in [&[&sign[..], &["--force"]].concat()[..], &strip] {
            for more in [&[][..], &["--dry-run"]] {
                home.run(&[command, more].concat()).failed_saying(&[
                    &format!("out/{PACKAGE}"),
                    kind,
                    "--output",
                ]);
                assert_eq!(fs::symlink_metadata(&there).unwrap().file_type(), before, "{make}");
            }
        }
        assert_eq!(shell(&home, &format!("rm -r out/{PACKAGE}")).code, Some(0));
    }
    assert_eq!(home.log_size(), signatures, "nothing was asked for");
    assert_eq!(fs::read(home.work().join("important")).unwrap(), b"important");
    for _ in 0..2 {
        home.ok(&[&sign[..], &["--force"]].concat());
        home.ok(&strip);
    }
}

#[test]
fn a_hidden_command_is_no_advice_for_an_unknown_one() {
    let home = Home::new(PROGRAM);
    for unknown in ["frobnicate", "fron", "signers", "generat"] {
        let ran = home.run(&[unknown]);
        usage(&ran, &[unknown]);
        for hidden in ["'front'", "'signer'", "'generate'"] {
            assert!(!ran.stderr.contains(hidden), "{}", ran.text());
        }
    }
    usage(&home.run(&["sing"]), &["'sign'"]);
}

#[test]
fn the_help_of_strip_speaks_of_strip() {
    let help = Home::new(PROGRAM).ok(&["strip", "--help"]).stdout;
    for other in ["verify", "`sign`", "--format", "a signature is asked"] {
        assert!(!help.contains(other), "{other} in {help}");
    }
}

#[test]
fn a_name_that_is_taken_is_said_once() {
    let home = home();
    let ran = home.run(&["key", "create", ED25519.name]);
    ran.failed_saying(&["is taken; names are never reused", "Choose another name."]);
    assert_eq!(ran.stderr.matches("never reused").count(), 1, "{}", ran.text());
}

#[test]
fn a_name_too_long_for_any_file_is_cut_for_display() {
    let home = home();
    fs::write(home.work().join("list"), "x".repeat(3 << 20)).unwrap();
    for command in [&["sign", "--key", ED25519.name][..], &["strip"]] {
        let ran = home.run(&[command, &["--files-from", "list"]].concat());
        ran.failed_saying(&["FAILED xxx", "(3145728 bytes)"]);
        assert!(ran.text().len() < 8 << 10, "{} bytes", ran.text().len());
        assert!(ran.stderr.contains("--files-from list"), "{}", ran.text());
    }
}

#[test]
fn names_in_notes_are_escaped_like_the_name_of_the_file() {
    let home = home();
    let lines = "printf data > $'\\xff\\xfe' && $S sign --key KEY --format detached $'\\xff\\xfe' && \
                 $S verify --key KEY $'\\xff\\xfe'";
    let ran = shell(&home, &lines.replace("KEY", ED25519.name));
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    assert!(ran.stdout.contains("\\xff\\xfe (signature in ./\\xff\\xfe.asc)"), "{}", ran.text());
}
