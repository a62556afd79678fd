//! Ways to sign, and what becomes of the files.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use sealwright_testkit::fixtures;
use sealwright_testkit::rpm::{GPG, Package};
use sealwright_testkit::sealwright::{Home, Ran};
use sealwright_testkit::server::Server;
use sealwright_testkit::tools::{self, Gpg};

use crate::{KEY, PACKAGE, PROGRAM, USER, gpg_accepts, package, project, rpm, sign, signs};

/// With this on standard input.
fn filter(server: &Server, words: &[&str], input: &[u8]) -> Ran {
    let mut command = server.command(&[&["obs-sign"], words].concat());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran::from(output)
}

#[test]
fn mode_owner_and_other_names_of_a_package_stay() {
    let server = project();
    let file = server.copy(PACKAGE);
    let other = server.work().join("other.rpm");
    fs::hard_link(&file, &other).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&file, Some(4321), Some(1234)).unwrap();
    }
    let facts =
        |path: &PathBuf| fs::metadata(path).map(|meta| (meta.mode(), meta.uid(), meta.gid())).unwrap();
    let before = facts(&file);
    let ran = signs(&server, &["-v", "-u", USER, "-r", file.to_str().unwrap(), "other.rpm"]);
    assert_eq!(ran.stdout.matches("rpm sign ").count(), 2, "{}", ran.stdout);
    assert!(ran.stdout.contains(&format!("rpm sign other.rpm user {USER}\n")), "{}", ran.stdout);
    assert_eq!((facts(&file), facts(&other)), (before, before));
    assert_eq!(fs::metadata(&file).unwrap().ino(), fs::metadata(&other).unwrap().ino());
    assert!(rpm().check(&other).is_signed_and_all_ok());
}

#[test]
fn delsign_gives_the_unsigned_bytes_back() {
    let server = project();
    let names = [
        "gen_tiny-reserved0.rpm",
        "gen_tiny-reserved64.rpm",
        "gen_tiny-reserved4096.rpm",
        "rpmrs_v6_gzip_rpm-basic-2.3.4-5.el9.noarch.rpm",
    ];
    let before: Vec<Vec<u8>> = names.iter().map(|name| fs::read(server.copy(name)).unwrap()).collect();
    signs(&server, &[&["-u", USER, "-r"], &names[..]].concat());
    for (name, before) in names.iter().zip(&before) {
        assert_ne!(&fs::read(server.work().join(name)).unwrap(), before, "{name}");
    }
    // No server is asked.
    let mut command = server.command(&[&["obs-sign", "--delsign"], &names[..]].concat());
    command.env("SEALWRIGHT_SERVER", "https://localhost:1").stdout(Stdio::piped());
    let ran = Ran::from(tools::run(&mut command));
    assert_eq!((ran.code, ran.text().as_str()), (Some(0), ""));
    for (name, before) in names.iter().zip(&before) {
        assert_eq!(&fs::read(server.work().join(name)).unwrap(), before, "{name}");
    }
    let text = sign(&server, &["--delsign", "text"]);
    assert_eq!(text.code, Some(1));
    assert!(text.stderr.starts_with("--delsign is only implemented for rpms: text\n"), "{}", text.stderr);
}

#[test]
fn detached_signatures_have_obs_signs_names_and_are_made_beside_each_other() {
    let server = project();
    let document = server.work().join("d.txt");
    fs::write(&document, "a document\n").unwrap();
    signs(&server, &["-u", USER, "-d", "d.txt"]);
    signs(&server, &["-u", USER, "-h", "sha512", "-D", "d.txt"]);
    for suffix in ["asc", "sig"] {
        let signature = server.work().join(format!("d.txt.{suffix}"));
        assert!(gpg_accepts(&[signature, document.clone()]), "{suffix}");
    }
    let gpg = Gpg::new();
    assert!(gpg.packets(&server.work().join("d.txt.sig")).contains("digest algo 10"));
    for (mode, name) in [("-d", "in.asc"), ("-D", "in.sig")] {
        let ran = filter(&server, &["-u", USER, mode], b"a document\n");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        fs::write(server.work().join(name), ran.bytes).unwrap();
        assert!(gpg_accepts(&[server.work().join(name), document.clone()]), "{mode}");
    }
}

#[test]
fn a_text_is_clear_signed_where_it_is_and_by_its_name_alone() {
    let server = project();
    let text = "- dash\nFrom me \t\nlast\n";
    for words in [&["-c", "t.txt"][..], &["t.txt"]] {
        fs::write(server.work().join("t.txt"), text).unwrap();
        signs(&server, &[&["-u", USER], words].concat());
        assert!(gpg_accepts(&[server.work().join("t.txt")]), "{words:?}");
    }
    let ran = filter(&server, &["-u", USER, "-c"], text.as_bytes());
    fs::write(server.work().join("filtered"), ran.bytes).unwrap();
    assert!(gpg_accepts(&[server.work().join("filtered")]));
    // The name says what a file is, as in obs-sign.
    fs::write(server.work().join("t.rpm"), text).unwrap();
    sign(&server, &["-u", USER, "t.rpm"]).failed_saying(&["t.rpm: "]);
}

#[test]
fn a_package_passes_through_as_a_filter() {
    let server = project();
    let signed = filter(&server, &["-v", "-u", USER, "-r"], &package());
    assert_eq!(signed.code, Some(0), "{}", signed.stderr);
    assert_eq!(signed.stderr, format!("rpm sign <stdin> user {USER}\n"));
    let file = server.work().join("out.rpm");
    fs::write(&file, &signed.bytes).unwrap();
    assert!(rpm().check(&file).is_signed_and_all_ok());
    let kept = filter(&server, &["--keep-signed", "-u", USER, "-r"], &signed.bytes);
    assert_eq!((kept.code, kept.stdout.as_str()), (Some(1), ""));
    assert_eq!(kept.stderr, "<stdin>: already signed\n");
    let bad = filter(&server, &["-u", USER, "-r"], b"no package");
    assert_eq!((bad.code, bad.stdout.as_str()), (Some(1), ""));
    assert!(bad.stderr.starts_with("<stdin>: "), "{}", bad.stderr);
}

#[test]
fn a_signal_ends_a_filter_that_waits_for_its_input() {
    let server = project();
    let folder = server.work().join("temporary");
    fs::create_dir(&folder).unwrap();
    let mut command = server.command(&["obs-sign", "-u", USER, "-r"]);
    command.env("TMPDIR", &folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    // Signals are caught before the file is there.
    while fs::read_dir(&folder).unwrap().count() == 0 {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    tools::succeed(Command::new("kill").args(["-s", "INT", &child.id().to_string()]));
    let ran = Ran::from(child.wait_with_output().unwrap());
    drop(stdin);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.starts_with("stopped by a signal"), "{}", ran.stderr);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing is left");
}

#[test]
fn the_keys_of_this_user_are_used_where_nothing_else_is_configured() {
    let home = Home::with_keys(PROGRAM, &[KEY]);
    let file = home.copy(&fixtures::package(PACKAGE));
    let mut command = home.command(&["obs-sign", "-4", "-u", KEY.name, "-r", file.to_str().unwrap()]);
    let ran = Ran::from(tools::run(command.env("SEALWRIGHT_SERVER", "embedded")));
    assert_eq!((ran.code, ran.text().as_str()), (Some(0), ""));
    assert!(rpm().check(&file).is_signed_and_all_ok());
}

#[test]
fn sha1_becomes_sha256_with_a_word_and_noheaderonly_signs_the_payload() {
    let server = project();
    let file = server.copy(PACKAGE);
    let name = file.to_str().unwrap();
    let ran = sign(&server, &["-4", "-h", "sha1", "-u", USER, "-r", name]);
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.stderr, "Warning: SHA-1 signatures are not made; SHA-256 is used.\n");
    let verdict = rpm().check(&file);
    assert!(verdict.signatures().iter().all(|line| line.contains("SHA256")), "{verdict:?}");
    // Nothing is said where nothing is hashed.
    signs(&server, &["-h", "sha1", "-u", USER, "-p"]);
    signs(&server, &["--noheaderonly", "-u", USER, "-r", name]);
    assert!(rpm().check(&file).is_signed_and_all_ok());
    let bytes = fs::read(&file).unwrap();
    assert!(Package::read(&bytes).signature_tags().contains(&GPG));
}

#[test]
fn ids_are_those_of_the_key_that_signs() {
    let server = project();
    let gpg = Gpg::new();
    gpg.import(&KEY.public());
    let listed = gpg.list();
    let fingerprint = listed.lines().find_map(|line| line.strip_prefix("fpr:")).unwrap();
    let fingerprint = fingerprint.trim_matches(':').to_owned();
    let said = |word| signs(&server, &["-u", USER, word]).stdout;
    assert_eq!(said("--fingerprint"), format!("{fingerprint}\n"));
    assert_eq!(said("--full-keyid"), format!("{}\n", &fingerprint[24..]));
    assert_eq!(said("-k"), format!("{}\n", &fingerprint[32..]));
    assert_eq!(said("-t"), "");
    sign(&server, &["-A", "rsa", "-u", USER, "-k"])
        .failed_saying(&["unexpected public key algorithm: wanted rsa, got eddsa"]);
}

#[test]
fn checksums_are_those_of_the_written_packages_in_order() {
    let server = project();
    let sums = server.work().join("sums");
    fs::write(&sums, "before\n").unwrap();
    let names: Vec<String> = (0..3).map(|number| format!("{number}.rpm")).collect();
    for name in &names {
        fs::write(server.work().join(name), package()).unwrap();
    }
    let words =
        [&["-S", "sums", "-u", USER, "-r"][..], &names.iter().map(String::as_str).collect::<Vec<_>>()];
    signs(&server, &words.concat());
    let written = fs::read_to_string(&sums).unwrap();
    let mut lines = written.lines();
    assert_eq!(lines.next(), Some("before"));
    for name in &names {
        let file = server.work().join(name);
        let sum = |tool: &str, file: &PathBuf| {
            let printed = String::from_utf8(tools::succeed(Command::new(tool).arg(file))).unwrap();
            printed.split_whitespace().next().unwrap().to_owned()
        };
        // Up to the main header, which starts like the signature header.
        let bytes = fs::read(&file).unwrap();
        let magic = [0x8e, 0xad, 0xe8, 0x01];
        let main = bytes.windows(4).enumerate().filter(|(_, found)| *found == magic).nth(1).unwrap().0;
        let head = server.work().join("head");
        fs::write(&head, &bytes[..main]).unwrap();
        let expected = format!(
            "{} md5:{} sha1:{} sha256:{} sha512:{}",
            sum("md5sum", &head),
            sum("md5sum", &file),
            sum("sha1sum", &file),
            sum("sha256sum", &file),
            sum("sha512sum", &file)
        );
        assert_eq!(lines.next(), Some(expected.as_str()));
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn what_cannot_be_done_is_said_with_status_1_before_anything_is_touched() {
    let server = project();
    let file = server.copy(PACKAGE);
    let name = file.to_str().unwrap();
    for (words, text) in [
        (&["-a", "-u", USER, name][..], "sign: -a is not served here\n"),
        (
            &["-T", "buildtime", "-u", USER, "-r", name],
            "sign: -T: this server makes no signature with another time",
        ),
        (&["-T", "1", "-u", USER, "-r", name], "sign: -T: this server makes no signature with another time"),
        (&["-r", name], "sign: no key is named\n"),
        (&["-u", USER, "-S", "no/such/folder", "-r", name], "-S: no/such/folder: "),
        (&["--config", "missing", "-u", USER, "-r", name], "missing: "),
    ] {
        let ran = sign(&server, words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{words:?}");
        assert!(ran.stderr.starts_with(text), "{words:?}: {}", ran.stderr);
    }
    assert_eq!(fs::read(&file).unwrap(), package());
    let help = sign(&server, &["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.starts_with("usage: sign "), "{}", help.stdout);
    let late = server.run(&["--json", "obs-sign", "-u", USER, "-p"]);
    assert_eq!(late.code, Some(2), "{}", late.text());
}

#[test]
fn it_refuses_to_run_with_privileges_of_another() {
    use std::os::unix::process::CommandExt as _;
    if !rustix::process::geteuid().is_root() {
        // Only root can lend its own.
        return;
    }
    let server = project();
    let lent = server.work().join("lent");
    // By a child: a file that this process has had open for writing cannot be run while another test's child holds it.
    assert!(Command::new("cp").arg(server.program()).arg(&lent).status().unwrap().success());
    fs::set_permissions(&lent, fs::Permissions::from_mode(0o4755)).unwrap();
    let mut command = Command::new(&lent);
    let ran = Ran::from(tools::run(command.args(["obs-sign", "-u", USER, "-p"]).uid(65_534).gid(65_534)));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.starts_with("sign: it does not run setuid or setgid\n"), "{}", ran.stderr);
}
