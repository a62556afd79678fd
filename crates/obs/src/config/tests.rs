//! Tests of sign.conf: what Copr and OBS have in theirs, every key, every mistake.

use super::*;

fn parsed(text: &str) -> Config {
    Config::parse(text.as_bytes()).unwrap()
}

fn error(text: &str) -> String {
    Config::parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_client_of_copr_is_read() {
    let config = parsed(
        "# backend\nserver: keygen-signd\nallowuser: 1000\nallowuser: copr\nuse-unprivileged-ports: TRUE\n",
    );
    assert_eq!(config.server.as_deref(), Some("keygen-signd"));
    assert_eq!(config.allow_users, ["1000", "copr"]);
    assert!(config.use_unprivileged_ports);
    assert_eq!(config.port_or_default(), 5167);
    assert!(config.remarks.is_empty());
}

#[test]
fn a_server_of_copr_is_read() {
    let config = parsed(
        "allow: 0.0.0.0/0\nallow: 10.0.0.1 ::1 builder.example.org\nphrases: /var/lib/copr-keygen/phrases\n\
         gpg: /usr/bin/gpg-copr\nallow-unprivileged-ports: true\nkeycache: /run/x\nlogfile: /var/log/signd.log\n",
    );
    assert_eq!(config.allow.len(), 4);
    assert_eq!(config.allow[3], Allowed::Host("builder.example.org".to_owned()));
    assert_eq!(config.phrases.as_deref(), Some("/var/lib/copr-keygen/phrases"));
    assert_eq!(config.gpg.as_deref(), Some("/usr/bin/gpg-copr"));
    assert!(config.allow_unprivileged_ports && !config.use_unprivileged_ports);
    let remarks: Vec<_> = config.remarks.iter().map(|remark| (remark.line, remark.key.as_str())).collect();
    assert_eq!(remarks, [(6, "keycache"), (7, "logfile")]);
}

#[test]
fn every_key_of_sign_and_signd_is_known() {
    let text = "server: a\nport: 1\nproto: ssl\nuser: u\nhash: SHA256\nallowuser: x\nuse-unprivileged-ports: 1\n\
        ssl_certfile: c\nssl_keyfile: k\nssl_verifyfile: v\nssl_verifydir: d\nproxyport: 2\nproxyproto: unprotected\n\
        allow: 127.0.0.1\nallow-unprivileged-ports: 0\nmap: SHA1:a b\nmap: c\ngpg: g\nphrases: p\naliases: a\n\
        encryptionkeys: e\ngnupghome: h\nproxyssl_certfile: pc\nproxyssl_keyfile: pk\nproxyssl_verifyfile: pv\n\
        proxyssl_verifydir: pd\nallow_subject: CN=a b,O=c\nallow_subject: /CN=.*/\nssl_allow_certless: 1\nopensslkeys: o\n";
    let config = parsed(text);
    assert_eq!(config.remarks, []);
    assert_eq!((config.listener(), config.protocol), ((2, Protocol::Plain), Protocol::Tls));
    assert_eq!(config.hash, Some(Hash::Sha256));
    assert_eq!(config.tls.certificate_file.as_deref(), Some("c"));
    assert_eq!(config.tls.key_file.as_deref(), Some("k"));
    assert_eq!(config.tls.verify_file.as_deref(), Some("v"));
    assert_eq!(config.tls.verify_folder.as_deref(), Some("d"));
    assert_eq!(config.proxy_tls.certificate_file.as_deref(), Some("pc"));
    assert_eq!(config.proxy_tls.verify_folder.as_deref(), Some("pd"));
    assert_eq!(
        config.allow_subjects,
        [Subject::Exact("CN=a b,O=c".to_owned()), Subject::Pattern("CN=.*".to_owned())]
    );
    assert!(config.allow_certless && !config.allow_unprivileged_ports);
    let [mapped, emptied] = config.map.as_slice() else { panic!("{:?}", config.map) };
    assert_eq!((mapped.hash.as_deref(), mapped.from.as_str(), mapped.to.as_str()), (Some("SHA1"), "a", "b"));
    assert_eq!((emptied.hash.as_deref(), emptied.from.as_str(), emptied.to.as_str()), (None, "c", ""));
    assert_eq!((config.encryption_keys.as_deref(), config.openssl_keys.as_deref()), (Some("e"), Some("o")));
    assert_eq!((config.gnupg_home.as_deref(), config.aliases.as_deref()), (Some("h"), Some("a")));
}

#[test]
fn keys_without_a_meaning_here_are_named_with_a_reason() {
    let text = "modulepath: m\nmodule: ssl tpm\nuse-agent: 1\nuse-gcrypt: sign,privsign\nuse-tpm: 1\nuse-pkcs11: 1\n\
        agentsocket: s\nopenssl: o\ntpm_ctxcache: c\ntpm_device: d\ntpm_lock: l\nkeycache: k\npatchclasstime: 1\n\
        tmpdir: t\nlogfile: l\npidfile: p\nrestricted_gnupghome: r\nrestricted_phrases: r\nrestricted_aliases: r\n\
        privileged_gnupghome: p\nprivileged_logfile: p\nsystem_gnupghome: s\nextranonce: e\nkeybackup: k\nbackup: b\n\
        backup_user: u\nUser: x\nno colon\n";
    let config = parsed(text);
    assert_eq!(config.remarks.len(), text.lines().count());
    let lines: Vec<_> = config.remarks.iter().map(|remark| remark.line).collect();
    assert_eq!(lines, (1..=text.lines().count()).collect::<Vec<_>>());
    let known = config.remarks.iter().filter(|remark| !remark.reason.starts_with("neither")).count();
    assert_eq!(known, text.lines().count() - 2);
    let silent = Config { remarks: Vec::new(), ..config };
    assert_eq!(silent, Config::default());
}

#[test]
fn values_that_cannot_be_meant_are_refused_with_their_line() {
    for (value, reason) in [
        ("port: 0", "port: it is not a port, 1 to 65535"),
        ("port: 65536", "port: it is not a port, 1 to 65535"),
        ("proxyport: x", "proxyport: it is not a port, 1 to 65535"),
        ("proto: tls", "proto: it is not `ssl` or `unprotected`"),
        ("proxyproto: plain", "proxyproto: it is not `ssl` or `unprotected`"),
        ("hash: md5", "hash: it is not sha1, sha256 or sha512"),
        ("hash:", "hash: it is not sha1, sha256 or sha512"),
        ("server:", "server: it has no value"),
        ("map: ", "map: it has no value"),
        (
            "allow: 10.0.0.1/33",
            "allow: the length of its network is not a number of bits that its address has",
        ),
        ("allow: ::1/129", "allow: the length of its network is not a number of bits that its address has"),
        ("allow: ::1/+8", "allow: the length of its network is not a number of bits that its address has"),
        ("allow: 10.0.0.300", "allow: it is not an address, a network or a host name"),
        ("allow: 10.0.0/8", "allow: it is not an address, a network or a host name"),
        ("allow: *", "allow: it is not an address, a network or a host name"),
        ("allow_subject: /CN=x", "allow_subject: its pattern has no end"),
        ("allow_subject:", "allow_subject: it has no value"),
    ] {
        assert_eq!(error(&format!("\n# a\n{value}\n")), format!("sign.conf line 3: {reason}"));
    }
    let text = Config::parse(b"user: a\nuser: \xff\n").unwrap_err().to_string();
    assert_eq!(text, "sign.conf line 2: : it is not UTF-8");
    assert!(matches!(
        Config::parse(&vec![b'#'; CONFIG_BYTES_MAX + 1]),
        Err(Error::TooLarge { size, .. }) if size == CONFIG_BYTES_MAX + 1
    ));
}

#[test]
fn where_sign_and_signd_differ_a_remark_says_so() {
    let long = format!("user: {}", "u".repeat(249));
    let config = parsed(&format!("server: a # b\nallow-unprivileged-ports: yes\n{long}\nmap: a b c\r\n"));
    assert_eq!(config.server.as_deref(), Some("a"));
    assert_eq!(config.user.as_ref().map(String::len), Some(249));
    assert!(!config.allow_unprivileged_ports);
    assert_eq!(config.map[0].to, "b");
    let lines: Vec<_> = config.remarks.iter().map(|remark| remark.line).collect();
    assert_eq!(lines, [1, 2, 3, 4]);
    assert_eq!(parsed(&long[..CONFIG_LINE_BYTES_SEEN]).remarks, []);
}

#[test]
fn the_last_of_two_values_counts_and_an_empty_file_of_tls_is_none() {
    let config = parsed("user: a\nuser: b\nssl_keyfile: k\nssl_keyfile:\n  port:6000\n");
    assert_eq!(config.user.as_deref(), Some("b"));
    assert_eq!((config.tls.key_file, config.port), (None, Some(6000)));
}

#[test]
fn networks_contain_what_shares_their_first_bits() {
    let contains =
        |network: &str, address: &str| Allowed::parse(network).unwrap().contains(address.parse().unwrap());
    for (network, address) in [
        ("0.0.0.0/0", "1.2.3.4"),
        ("10.1.0.0/16", "10.1.255.255"),
        ("10.1.2.3", "10.1.2.3"),
        ("10.1.2.3", "::ffff:10.1.2.3"),
        ("::ffff:10.1.0.0/112", "10.1.2.3"),
        ("::/0", "2001:db8::1"),
        ("2001:db8::/32", "2001:db8:ffff::1"),
    ] {
        assert!(contains(network, address), "{network} {address}");
    }
    for (network, address) in [
        ("10.1.0.0/16", "10.2.0.0"),
        ("10.1.2.3", "10.1.2.2"),
        ("0.0.0.0/0", "::1"),
        ("::/0", "1.2.3.4"),
        ("2001:db8::/32", "2001:db9::1"),
        ("::ffff:10.1.0.0/112", "10.2.0.0"),
    ] {
        assert!(!contains(network, address), "{network} {address}");
    }
    assert!(!Allowed::Host("a".to_owned()).contains("127.0.0.1".parse().unwrap()));
}
