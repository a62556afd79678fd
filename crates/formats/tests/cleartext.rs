//! Clear-signed documents and `Release` files: what gpg made is read, what is made reads as gpg's, and what nobody should believe is
//! refused.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::panic,
    clippy::ptr_arg,
    reason = "tests"
)]

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::armor;
use sealwright_crypto::openpgp::certificate::Keyring;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::openpgp::verify::State;
use sealwright_crypto::usage::Purpose;
use sealwright_formats::apt_release::AptRelease;
use sealwright_formats::cleartext::{
    CLEARTEXT_OUTPUT, Cleartext, ESCAPES_MAX, LINE_BYTES_MAX, STREAM_BYTES_MAX, text_of,
};
use sealwright_formats::error::Error;
use sealwright_formats::openpgp_detached::OpenPgpDetached;
use sealwright_formats::options::{IfSigned, Repeat, SignOptions};
use sealwright_formats::prepared::{
    BesideKind, BesideName, Item, Layout, NewContent, Output, Preparation, Prepared,
};
use sealwright_formats::report::{Verification, VerifyContext};
use sealwright_formats::{Format, detect, recognise};
use signer::{SIGNING_TIME, Signer, fixture};

#[allow(dead_code, reason = "each test target uses its part")]
#[path = "support/signer.rs"]
mod signer;

/// Documents that gpg 2.2.40 signed, as `NAME` and `NAME.clear.asc`.
const GPG_MADE: [&str; 6] = [
    "cleartext/gen_Release.plain",
    "cleartext/gen_dashes.txt",
    "cleartext/gen_mixedeol.txt",
    "cleartext/gen_nofinalnl.txt",
    "cleartext/gen_empty.txt",
    "cleartext/gen_onenewline.txt",
];

fn in_place() -> SignOptions {
    let mut options = SignOptions::default();
    options.format.set(&CLEARTEXT_OUTPUT, "in-place").unwrap();
    options
}

fn with(if_signed: IfSigned) -> SignOptions {
    SignOptions { if_signed, ..SignOptions::default() }
}

fn salts(signer: &Signer) -> Vec<Salt> {
    let hash = HashAlgorithm::Sha256;
    let salt = |byte: u8| Salt::new(hash, &vec![byte; hash.salt_len()]).unwrap();
    if signer.certificate.fingerprint().key_version() == 6 { vec![salt(1), salt(2)] } else { Vec::new() }
}

fn prepare(
    format: &dyn Format,
    file: &Vec<u8>,
    options: &SignOptions,
    signer: &Signer,
) -> Result<Preparation, Error> {
    format.prepare(file, options, &signer.certificate, &salts(signer))
}

fn written(contents: Vec<NewContent>, file: &Vec<u8>) -> Vec<Vec<u8>> {
    let bytes = |content| match content {
        NewContent::Bytes(bytes) => bytes,
        NewContent::Framed(framed) => {
            let mut out = Vec::new();
            let mut put = |bytes: &[u8]| {
                out.extend_from_slice(bytes);
                Ok(())
            };
            framed.write(file, &mut put).unwrap();
            out
        }
    };
    contents.into_iter().map(bytes).collect()
}

fn finish(prepared: &Prepared, file: &Vec<u8>, signer: &Signer) -> Vec<u8> {
    match prepared.plan.output(&signer.sign(&prepared.items), Layout::Tight).unwrap() {
        Output::Edits(edits) => edits.apply(file),
        Output::Beside(contents) => written(contents, file).remove(0),
    }
}

fn sign(file: &Vec<u8>, options: &SignOptions, signer: &Signer) -> Vec<u8> {
    match prepare(&Cleartext, file, options, signer).unwrap() {
        Preparation::Sign(prepared) => finish(&prepared, file, signer),
        Preparation::Leave { why } => panic!("left: {why}"),
    }
}

fn left(file: &Vec<u8>, options: &SignOptions, signer: &Signer) -> Option<String> {
    match prepare(&Cleartext, file, options, signer).unwrap() {
        Preparation::Sign(_) => None,
        Preparation::Leave { why } => Some(why),
    }
}

fn verify(file: &Vec<u8>, signers: &[&Signer]) -> Verification {
    Cleartext.verify(file, &context(&keyring(signers), None)).unwrap()
}

fn keyring(signers: &[&Signer]) -> Keyring {
    let mut keyring = Keyring::new();
    signers.iter().for_each(|signer| keyring.push(signer.certificate.clone()));
    keyring
}

fn context<'a>(keyring: &'a Keyring, sidecar: Option<&'a [u8]>) -> VerifyContext<'a> {
    VerifyContext { keyring, now: i64::from(SIGNING_TIME), sidecar }
}

fn strip(file: &Vec<u8>) -> Vec<u8> {
    Cleartext.strip(file).unwrap().unwrap().apply(file)
}

#[test]
fn documents_that_gpg_signed_are_valid_and_ours_are_written_the_same_way() {
    let signer = Signer::ed25519();
    for name in GPG_MADE {
        let (document, signed) = (fixture(name), fixture(&format!("{name}.clear.asc")));
        let now = i64::from(u32::MAX);
        let keyring = keyring(&[&signer]);
        let state =
            Cleartext.verify(&signed, &VerifyContext { now, ..context(&keyring, None) }).unwrap().state();
        assert_eq!(state, State::Valid, "{name}");
        for options in [SignOptions::default(), in_place()] {
            let ours = sign(&document, &options, &signer);
            let before_signature = |file: &[u8]| {
                let text = String::from_utf8(file.to_vec()).unwrap();
                text[..text.rfind("\n-----BEGIN PGP SIGNATURE-----").unwrap()].to_owned()
            };
            assert_eq!(before_signature(&ours), before_signature(&signed), "{name}");
            assert_eq!(text_of(&ours).unwrap(), text_of(&signed).unwrap(), "{name}");
        }
    }
}

#[test]
fn any_text_is_signed_verified_and_given_back_whatever_the_key() {
    let long = vec![b'x'; usize::try_from(LINE_BYTES_MAX).unwrap()];
    let big = b"- a line \t \r\nFrom here\n".repeat(20_000);
    let documents = [
        &b""[..],
        b"\n",
        b"\n\n\n",
        b"a",
        b"a\r\nb\r\n",
        b"a \t\nb\r\n \n",
        b"-",
        b"--\n- \n-----BEGIN PGP SIGNATURE-----\n-----BEGIN PGP SIGNED MESSAGE-----\n",
        "gr\u{fc}\u{df}e \u{1f600}\n\u{feff}".as_bytes(),
        b"\xff\xfe latin \xe4",
        &long,
        &big,
    ];
    for signer in [Signer::rsa2048(), Signer::ed25519(), Signer::ed25519_v6()] {
        for document in documents.map(<[u8]>::to_vec) {
            let signed = sign(&document, &SignOptions::default(), &signer);
            let verification = verify(&signed, &[&signer]);
            assert_eq!(verification.state(), State::Valid, "{verification:?}");
            let is_v6 = signer.certificate.fingerprint().key_version() == 6;
            assert_eq!(signed.starts_with(b"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n"), !is_v6);
            let newline = if document.ends_with(b"\n") { &b""[..] } else { b"\n" };
            assert_eq!(strip(&signed), [&document, newline].concat());
            assert!(recognise(&signed).is_some() && detect(&signed).is_none(), "never found in a tree");
        }
    }
}

#[test]
fn a_changed_text_is_bad_and_a_change_of_blanks_at_line_ends_is_none() {
    let signer = Signer::ed25519();
    let signed = sign(&b"one\ntwo\n".to_vec(), &SignOptions::default(), &signer);
    let changed = |from: &str, to: &str| {
        let text = String::from_utf8(signed.clone()).unwrap();
        assert!(text.contains(from));
        verify(&text.replacen(from, to, 1).into_bytes(), &[&signer]).state()
    };
    assert_eq!(changed("one", "One"), State::Bad);
    assert_eq!(changed("one\n", "one\n\n"), State::Bad);
    assert_eq!(changed("two\n", "two\n\n"), State::Bad);
    assert_eq!(changed("one\ntwo", "one two"), State::Bad);
    assert_eq!(changed("one\n", "one \t\r\n"), State::Valid);
    assert_eq!(changed("one\n", "- one\n"), State::Valid, "any line may be escaped");
    assert_eq!(changed("Hash: SHA256", "Hash: SHA512"), State::Valid, "nobody signed the head");
    let tampered = fixture("cleartext/gen_InRelease-tampered.asc");
    let keyring = keyring(&[&signer]);
    let now = i64::from(u32::MAX);
    let state =
        Cleartext.verify(&tampered, &VerifyContext { now, ..context(&keyring, None) }).unwrap().state();
    assert_eq!(state, State::Bad);
}

#[test]
fn what_another_reader_would_take_for_something_else_is_refused() {
    let good = fixture("cleartext/gen_Release.plain.clear.asc");
    let text = String::from_utf8(good.clone()).unwrap();
    let body = text.find("\n\n").unwrap() + 2;
    let tail = text.rfind("-----BEGIN PGP SIGNATURE-----").unwrap();
    let inserted = |at: usize, what: &str| format!("{}{what}{}", &text[..at], &text[at..]);
    let end = text.len();
    let hostile = [
        ("text before", inserted(0, "x\n")),
        ("text after", inserted(end, "unsigned\n")),
        ("another document after", inserted(end, &text)),
        ("a header that is not Hash", text.replacen("Hash: SHA256", "Comment: x", 1)),
        ("a header with text", text.replacen("Hash: SHA256", "Hash: SHA256\nVersion: 1", 1)),
        ("a hash that is no name", text.replacen("Hash: SHA256", "Hash: SHA256 and more text", 1)),
        ("NotDashEscaped", text.replacen("Hash: SHA256", "NotDashEscaped: yes", 1)),
        ("no empty line", text.replacen("SHA256\n\n", "SHA256\n", 1)),
        ("a line of blanks for the empty line", text.replacen("SHA256\n\n", "SHA256\n \t\n", 1)),
        (
            "a head without end",
            text.replacen("SHA256\n\n", &format!("SHA256\nHash: {}\n\n", "a".repeat(5000)), 1),
        ),
        ("more in the first line", text.replacen("MESSAGE-----", "MESSAGE----- x", 1)),
        ("a dash without escape", inserted(body, "-x\n")),
        ("two dashes", inserted(body, "--\n")),
        ("another block in the text", inserted(body, "-----BEGIN PGP MESSAGE-----\n")),
        ("another document in the text", inserted(body, "-----BEGIN PGP SIGNED MESSAGE-----\n")),
        ("no signature", text[..tail].to_owned()),
        ("half a signature", text[..end - 40].to_owned()),
        ("two blocks of signatures", inserted(end, &text[tail..])),
        ("a key among the signatures", inserted(end - 30, "\n-----BEGIN PGP PUBLIC KEY BLOCK-----\n")),
        ("signatures without end", inserted(end - 40, &"\n".repeat(2 << 20))),
        ("a line without end", inserted(body, &format!("a{}b\n", " ".repeat(1 << 20)))),
        ("nothing", String::new()),
        ("something else", "<html>404</html>\n".to_owned()),
    ];
    let signer = Signer::ed25519();
    let keyring = keyring(&[&signer]);
    for (what, file) in hostile {
        let file = file.into_bytes();
        let now = i64::from(u32::MAX);
        let verified = Cleartext.verify(&file, &VerifyContext { now, ..context(&keyring, None) });
        let error = verified.map(|verified| verified.state()).expect_err(what);
        assert!(!error.to_string().is_empty() && !error.advice().is_empty(), "{what}");
    }
    let html = Cleartext.verify(&b"<html>\n".to_vec(), &context(&keyring, None)).unwrap_err();
    assert!(html.to_string().contains("<html>"), "what is there is shown: {html}");
}

#[test]
fn crlf_everywhere_and_blank_lines_at_the_end_are_read() {
    let signer = Signer::ed25519();
    let signed = sign(&b"one\n-two\n".to_vec(), &SignOptions::default(), &signer);
    let text = String::from_utf8(signed).unwrap();
    for file in [text.replace('\n', "\r\n"), format!("{text}\n\n \n")] {
        assert_eq!(verify(&file.into_bytes(), &[&signer]).state(), State::Valid);
    }
}

#[test]
fn a_signature_of_one_kind_is_none_of_the_other() {
    let signer = Signer::ed25519();
    let document = b"no newline".to_vec();
    // Canonical text and bytes are the same here: only the type differs.
    let mut content = Hasher::new(HashAlgorithm::Sha256);
    content.update(&document);
    let packet = |purpose| signer.sign(&[Item { purpose, content: content.clone(), salt: None }]).remove(0);
    let (binary, text) = (packet(Purpose::Detached), packet(Purpose::Cleartext));
    let keyring = keyring(&[&signer]);
    let detached = |packet: &[u8]| {
        OpenPgpDetached.verify(&document, &context(&keyring, Some(packet))).unwrap().signatures.remove(0)
    };
    assert_eq!(detached(&binary).state, State::Valid);
    assert_eq!(detached(&text).state, State::Bad);
    let clear = |packet: &[u8]| {
        let armor = armor::encode(armor::Kind::Signature, packet);
        let file = format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nno newline\n{armor}");
        verify(&file.into_bytes(), &[&signer]).signatures.remove(0)
    };
    assert_eq!(clear(&text).state, State::Valid);
    let wrong = clear(&binary);
    assert_eq!(wrong.state, State::Bad);
    assert!(wrong.detail.unwrap().contains("0x01"));
}

#[test]
fn texts_that_readers_disagree_about_are_refused_or_noted() {
    let signer = Signer::ed25519();
    let too_long = vec![b'x'; usize::try_from(LINE_BYTES_MAX).unwrap() + 1];
    for (document, said) in [(too_long, "19994 bytes"), (b"a\0b\n".to_vec(), "zero byte")] {
        for options in [SignOptions::default(), in_place()] {
            let Err(error) = prepare(&Cleartext, &document, &options, &signer) else { panic!("{said}") };
            assert!(error.to_string().contains(said), "{error}");
            assert!(error.advice().contains("detached"));
        }
        assert!(prepare(&AptRelease, &document, &SignOptions::default(), &signer).is_err());
    }
    let noted = |document: &[u8]| match prepare(&Cleartext, &document.to_vec(), &in_place(), &signer).unwrap()
    {
        Preparation::Sign(prepared) => prepared.notes,
        Preparation::Leave { why } => panic!("{why}"),
    };
    assert!(noted(b"a\rb\n")[0].contains("carriage return"));
    assert!(noted(b"a\r\nb\n").is_empty());
}

#[test]
fn a_signed_document_gets_other_signatures_and_keeps_its_text_byte_for_byte() {
    let (rsa, ed) = (Signer::rsa2048(), Signer::ed25519());
    let document = b"- one \r\ntwo\t\nFrom\n".to_vec();
    let first = sign(&document, &SignOptions::default(), &rsa);
    let replaced = sign(&first, &SignOptions::default(), &ed);
    assert_eq!(verify(&replaced, &[&ed]).signatures.len(), 1);
    assert_eq!(replaced, sign(&document, &SignOptions::default(), &ed));
    let sha512 = SignOptions { hash: HashAlgorithm::Sha512, ..with(IfSigned::Add) };
    let both = sign(&first, &sha512, &ed);
    for signers in [&[&rsa, &ed][..], &[&ed, &rsa]] {
        let verification = verify(&both, signers);
        assert_eq!((verification.state(), verification.signatures.len()), (State::Valid, 2));
    }
    assert!(both.starts_with(b"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256,SHA512\n\n"));
    assert_eq!(strip(&both), strip(&first));
    let Preparation::Sign(prepared) = prepare(&Cleartext, &both, &with(IfSigned::Add), &ed).unwrap() else {
        panic!("another hash is another signature");
    };
    assert_eq!(prepared.notes, ["kept 1 signature of another key, not checked"]);
}

#[test]
fn what_is_signed_as_asked_for_is_left_alone() {
    let (rsa, ed) = (Signer::rsa2048(), Signer::ed25519());
    let document = b"text\n".to_vec();
    for signer in [Signer::ed25519(), Signer::ed25519_v6()] {
        let signed = sign(&document, &SignOptions::default(), &signer);
        assert_eq!(left(&signed, &SignOptions::default(), &signer).unwrap(), "already signed by this key");
        let forced = SignOptions { repeat: Repeat::Force, ..SignOptions::default() };
        assert!(left(&signed, &forced, &signer).is_none());
        assert_eq!(left(&signed, &with(IfSigned::Skip), &rsa).unwrap(), "already signed (skipped)");
        let refused = prepare(&Cleartext, &signed, &with(IfSigned::Refuse), &rsa);
        assert!(matches!(refused, Err(Error::AlreadySigned { by }) if !by.is_empty()));
    }
    let signed = sign(&document, &SignOptions::default(), &ed);
    let both = sign(&signed, &with(IfSigned::Add), &rsa);
    assert!(left(&both, &with(IfSigned::Add), &ed).is_some());
    assert!(left(&both, &SignOptions::default(), &ed).is_none(), "replace leaves one signature");
    let mut damaged = signed;
    let at = damaged.windows(4).position(|window| window == b"text").unwrap();
    damaged[at] = b'T';
    assert!(left(&damaged, &SignOptions::default(), &ed).is_none(), "a bad signature is no signature");
    assert_eq!(verify(&sign(&damaged, &SignOptions::default(), &ed), &[&ed]).state(), State::Valid);
}

#[test]
fn signatures_that_cannot_be_read_are_replaced_and_never_kept() {
    let signer = Signer::ed25519();
    let broken = b"-----BEGIN PGP SIGNED MESSAGE-----\n\ntext\n-----BEGIN PGP SIGNATURE-----\n\nAAAA\n-----END PGP SIGNATURE-----\n";
    assert_eq!(verify(&broken.to_vec(), &[&signer]).state(), State::Malformed);
    assert!(prepare(&Cleartext, &broken.to_vec(), &with(IfSigned::Add), &signer).is_err());
    let signed = sign(&broken.to_vec(), &SignOptions::default(), &signer);
    assert_eq!(verify(&signed, &[&signer]).state(), State::Valid);
    assert_eq!(strip(&signed), b"text\n");
}

#[test]
fn escapes_without_limit_go_to_a_new_file_and_a_file_in_place_has_a_limit_by_name() {
    let signer = Signer::ed25519();
    let document = b"-\n".repeat(ESCAPES_MAX + 1);
    let Err(error) = prepare(&Cleartext, &document, &in_place(), &signer) else { panic!("no limit") };
    assert!(error.to_string().contains("65536"), "{error}");
    let signed = sign(&document, &SignOptions::default(), &signer);
    assert_eq!(verify(&signed, &[&signer]).state(), State::Valid);
    assert!(Cleartext.strip(&signed).is_err());
    let most = b"-\n".repeat(ESCAPES_MAX);
    assert_eq!(strip(&sign(&most, &in_place(), &signer)), most);
    assert!(Cleartext.strip(&document).unwrap().is_none(), "not signed");
}

#[test]
fn a_stream_is_signed_as_a_file_is_up_to_a_named_length() {
    let signer = Signer::ed25519();
    let document = b"-one\ntwo".to_vec();
    let signed = sign(&document, &SignOptions::default(), &signer);
    for (input, options) in
        [(&document, SignOptions::default()), (&document, in_place()), (&signed, with(IfSigned::Replace))]
    {
        let prepared = Cleartext.prepare_stream(&mut input.as_slice(), &options, &signer.certificate, &[]);
        let Ok(Preparation::Sign(prepared)) = prepared else { panic!("not signed") };
        assert_eq!(finish(&prepared, &Vec::new(), &signer), signed);
    }
    let skip =
        Cleartext.prepare_stream(&mut signed.as_slice(), &with(IfSigned::Skip), &signer.certificate, &[]);
    assert!(skip.is_err_and(|error| error.to_string().contains("already signed")));
    let mut endless = std::io::repeat(b'\n');
    let refused = Cleartext.prepare_stream(&mut endless, &SignOptions::default(), &signer.certificate, &[]);
    assert!(refused.is_err_and(|error| error.to_string().contains(&STREAM_BYTES_MAX.to_string())));
}

#[test]
fn a_release_gets_both_files_from_one_reading() {
    let release = fixture("cleartext/gen_Release.plain");
    for signer in [Signer::rsa2048(), Signer::ed25519(), Signer::ed25519_v6()] {
        assert_eq!(
            AptRelease.salts_needed(&SignOptions::default(), &signer.certificate),
            salts(&signer).len()
        );
        let Ok(Preparation::Sign(prepared)) =
            prepare(&AptRelease, &release, &SignOptions::default(), &signer)
        else {
            panic!("not signed");
        };
        let names: Vec<_> = prepared.beside.iter().map(|file| file.name).collect();
        assert_eq!(names, [BesideName::Suffix(".gpg"), BesideName::Whole("InRelease")]);
        assert!(matches!(prepared.beside[1].kind, BesideKind::Document { .. }));
        let output = prepared.plan.output(&signer.sign(&prepared.items), Layout::Tight).unwrap();
        let Output::Beside(contents) = output else { panic!("Release itself is never changed") };
        let files = written(contents, &release);
        let [detached, inline] = files.as_slice() else { panic!("two files") };
        assert!(u64::try_from(inline.len()).unwrap() <= prepared.beside[1].len_max + 4096);
        assert_eq!(verify(inline, &[&signer]).state(), State::Valid);
        let keyring = keyring(&[&signer]);
        let state = |release: &Vec<u8>, sidecar: &[u8]| {
            AptRelease.verify(release, &context(&keyring, Some(sidecar))).unwrap().state()
        };
        let other = [&release[..], b"more\n"].concat();
        for sidecar in [detached, inline] {
            assert_eq!(state(&release, sidecar), State::Valid);
            assert_eq!(state(&other, sidecar), State::Bad);
        }
        let refused = prepare(&AptRelease, inline, &SignOptions::default(), &signer);
        assert!(refused.is_err_and(|error| error.advice().contains("Release")));
    }
}

#[test]
fn documents_of_others_are_read() {
    for name in ["rpgp_cleartext-msg-01.asc", "rpgp_v4-ed25519-x25519_csf.msg", "rpgp_v6-rsa_csf.msg"] {
        let file = fixture(&format!("cleartext/{name}"));
        assert_eq!(Cleartext.inspect(&file, None).unwrap().signatures.len(), 1, "{name}");
        assert_eq!(verify(&file, &[]).state(), State::UnknownKey, "{name}");
    }
    let annex = fixture("cleartext/rpgp_v6-25519-annex-a-4_csf.msg");
    assert_eq!(verify(&annex, &[&Signer::ed25519_v6()]).state(), State::Valid);
    let two = fixture("cleartext/gen_Release.two-signers.InRelease");
    let keyring = keyring(&[&Signer::ed25519(), &Signer::rsa4096()]);
    let now = i64::from(u32::MAX);
    let verification = Cleartext.verify(&two, &VerifyContext { now, ..context(&keyring, None) }).unwrap();
    assert_eq!((verification.state(), verification.signatures.len()), (State::Valid, 2));
    for name in ["rpgp_cleartext-msg-01-fail.asc", "gen_InRelease-trailing-unsigned.asc"] {
        assert!(Cleartext.inspect(&fixture(&format!("cleartext/{name}")), None).is_err(), "{name}");
    }
}
