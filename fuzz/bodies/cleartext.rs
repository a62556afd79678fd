//! Clear-signed text: the first byte says what the rest is, a document to be signed or a clear-signed one from anybody.
//!
//! Nothing panics. What is written reads again, has the canonical text of the document, and gives the document back but for its last
//! newline; signed again, its text stays as it is. A slow reading of the same rules, line by line, finds the same text. Nothing is
//! valid but what the fixtures' keys have signed.

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Digest, Hasher};
use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_crypto::openpgp::verify::State;
use sealwright_formats::Format as _;
use sealwright_formats::cleartext::{BEGIN, CLEARTEXT_OUTPUT, Cleartext, text_of};
use sealwright_formats::options::{IfSigned, Repeat, SignOptions};
use sealwright_formats::prepared::{BesideKind, Layout, NewContent, Output, Preparation, Prepared};
use sealwright_formats::report::VerifyContext;
use std::sync::LazyLock;

use crate::choices::Choices;
use crate::made_up;

static KEYS: LazyLock<Vec<Certificate>> = LazyLock::new(made_up::certificates);

/// What the keys among [`KEYS`] have signed in the fixtures, from which seeds are made.
const REALLY_SIGNED: [&[u8]; 3] = [
    include_bytes!("../../fixtures/cleartext/gen_dashes.txt"),
    include_bytes!("../../fixtures/cleartext/gen_mixedeol.txt"),
    include_bytes!("../../fixtures/cleartext/gen_Release.plain"),
];

pub(crate) fn run(data: &[u8]) {
    let mut input = Choices::new(data);
    let (is_document, in_place) = (input.flag(), input.flag());
    let key = &KEYS[usize::from(input.byte()) % KEYS.len()];
    let mut options = SignOptions {
        if_signed: input.one_of(&[IfSigned::Replace, IfSigned::Add, IfSigned::Skip, IfSigned::Refuse]),
        repeat: input.one_of(&[Repeat::Skip, Repeat::Force]),
        ..SignOptions::default()
    };
    let output = if in_place { "in-place" } else { "asc" };
    options.format.set(&CLEARTEXT_OUTPUT, output).unwrap();
    let file = input.rest().to_vec();
    if is_document && !file.starts_with(BEGIN) {
        document(&file, &options, key);
    } else {
        anything(&file, &options, key);
    }
}

/// A document is refused with a reason, or signed.
fn document(file: &Vec<u8>, options: &SignOptions, key: &Certificate) {
    assert!(Cleartext.verify(file, &context(&Keyring::new())).is_err(), "a plain document was verified");
    let salts = made_up::salts(key, options.hash, Cleartext.salts_needed(options, key));
    let streamed = Cleartext.prepare_stream(&mut file.as_slice(), options, key, &salts);
    let prepared = match Cleartext.prepare(file, options, key, &salts) {
        Ok(Preparation::Sign(prepared)) => prepared,
        Ok(Preparation::Leave { why }) => panic!("a plain document is left: {why}"),
        Err(error) => {
            assert!(streamed.is_err() && !error.to_string().is_empty() && !error.advice().is_empty());
            return;
        }
    };
    let packets = made_up::packets(&prepared.items, key, false);
    let signed = written(&prepared, &packets, file);
    let Ok(Preparation::Sign(streamed)) = streamed else { panic!("a file is signed, and a stream is not") };
    assert_eq!(written(&streamed, &packets, file), signed, "a stream and a file differ");
    let text = slow(file);
    assert_eq!(text_of(&signed).unwrap(), text, "another text was written than hashed");
    if let [beside] = prepared.beside.as_slice() {
        assert_eq!(beside.kind, BesideKind::Document { text });
        let frame = 1 << 12;
        assert!(u64::try_from(signed.len()).unwrap() <= beside.len_max + frame, "it is longer than was said");
    }
    let stripped = Cleartext.strip(&signed).unwrap().unwrap().apply(&signed);
    let mut whole = file.clone();
    if !file.ends_with(b"\n") {
        whole.push(b'\n');
    }
    assert_eq!(stripped, whole, "the document does not come back");
    signed_again(&signed, text, key);
}

/// What anybody may have written.
fn anything(file: &Vec<u8>, options: &SignOptions, key: &Certificate) {
    let inspected = Cleartext.inspect(file, None);
    let mut keyring = Keyring::new();
    keyring.push(key.clone());
    if let Ok(verification) = Cleartext.verify(file, &context(&keyring)) {
        assert!(inspected.is_ok(), "verified, and not readable");
        let nobody = Cleartext.verify(file, &context(&Keyring::new())).unwrap();
        assert!(!nobody.signatures.is_empty() && nobody.state() != State::Valid, "valid without a key");
        let text = text_of(file).unwrap();
        let is_valid = verification.signatures.iter().any(|signature| signature.state == State::Valid);
        assert!(
            !is_valid || REALLY_SIGNED.iter().any(|signed| slow(signed) == text),
            "valid, and no key made it"
        );
        let stripped = Cleartext.strip(file).unwrap().unwrap().apply(file);
        assert_eq!(slow(&stripped), text, "what is checked is not what is given back");
    }
    let salts = made_up::salts(key, options.hash, Cleartext.salts_needed(options, key));
    if let Ok(Preparation::Sign(prepared)) = Cleartext.prepare(file, options, key, &salts) {
        let packets = made_up::packets(&prepared.items, key, false);
        if let Ok(Output::Edits(edits)) = prepared.plan.output(&packets, Layout::Tight)
            && let Ok(text) = text_of(file)
        {
            assert_eq!(text_of(&edits.apply(file)).unwrap(), text, "signing again changed the text");
        }
    }
}

/// A signed document that is signed again keeps its text.
fn signed_again(signed: &Vec<u8>, text: Digest, key: &Certificate) {
    let options = SignOptions { if_signed: IfSigned::Add, repeat: Repeat::Force, ..SignOptions::default() };
    let salts = made_up::salts(key, options.hash, Cleartext.salts_needed(&options, key));
    let Ok(Preparation::Sign(prepared)) = Cleartext.prepare(signed, &options, key, &salts) else {
        panic!("what was signed cannot be signed again");
    };
    let packets = made_up::packets(&prepared.items, key, false);
    let longest = packets.iter().map(Vec::len).max().unwrap();
    let again = written(&prepared, &packets, signed);
    let growth = again.len().saturating_sub(signed.len());
    assert!(u64::try_from(growth).unwrap() <= prepared.plan.room(longest, Layout::Tight).growth_max);
    assert_eq!(text_of(&again).unwrap(), text, "signing again changed the text");
    let [before, after] =
        [signed, &again].map(|file| Cleartext.inspect(file, None).unwrap().signatures.len());
    assert_eq!((before, after), (1, 1), "a key signs once");
}

fn written(prepared: &Prepared, packets: &[Vec<u8>], file: &Vec<u8>) -> Vec<u8> {
    let contents = match prepared.plan.output(packets, Layout::Tight).unwrap() {
        Output::Edits(edits) => return edits.apply(file),
        Output::Beside(contents) => contents,
    };
    match contents.into_iter().next().unwrap() {
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
    }
}

/// RFC 9580 sections 5.2.1 and 7.1, in the plainest way.
fn slow(document: &[u8]) -> Digest {
    let mut lines: Vec<&[u8]> = document.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let trim = |line: &&[u8]| {
        let len = line.iter().rposition(|byte| !b" \t\r".contains(byte)).map_or(0, |last| last + 1);
        line[..len].to_vec()
    };
    let lines: Vec<Vec<u8>> = lines.iter().map(trim).collect();
    Hasher::digest(HashAlgorithm::Sha256, &lines.join(&b"\r\n"[..]))
}

fn context(keyring: &Keyring) -> VerifyContext<'_> {
    VerifyContext { keyring, now: i64::from(made_up::NOW), sidecar: None }
}
