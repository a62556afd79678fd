//! File formats: the first byte picks one from `FORMATS`, the next ones its options, and the rest is the file. A format
//! that is new in the list is fuzzed without a change here.
//!
//! Nothing panics. Edits lie in the file, grow it by no more than was said, and make a file that reads, signs and strips
//! again. What is stripped has no signature, and stripping it again does nothing. No signature is valid that no key made.

use sealwright_crypto::algorithm::{HashAlgorithm, KeyVersion};
use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_crypto::openpgp::verify::State;
use sealwright_formats::error::Error;
use sealwright_formats::options::{IfSigned, PayloadCheck, Repeat, SignOptions};
use sealwright_formats::prepared::{NewContent, Output, Preparation, Prepared};
use sealwright_formats::report::{DigestReport, DigestState, Verification, VerifyContext};
use sealwright_formats::splice::Edits;
use sealwright_formats::splice::Layout;
use sealwright_formats::{DETECT_BYTES, FORMATS, Format, by_name, detect};
use std::sync::LazyLock;

use crate::choices::Choices;
use crate::made_up;
use crate::rpm_layout;

static KEYS: LazyLock<(Vec<Certificate>, Keyring)> = LazyLock::new(|| {
    let certificates = made_up::certificates();
    let mut keyring = Keyring::new();
    certificates.iter().for_each(|certificate| keyring.push(certificate.clone()));
    (certificates, keyring)
});

pub(crate) fn run(data: &[u8]) {
    let mut input = Choices::new(data);
    let format = input.one_of(FORMATS);
    let options = choose(format, &mut input);
    let (key, salted) = (usize::from(input.byte()) % KEYS.0.len(), input.flag());
    let file = input.rest().to_vec();
    let head = &file[..file.len().min(DETECT_BYTES)];
    assert_eq!(by_name(format.name()).unwrap().name(), format.name(), "two formats have one name");
    if let Some(found) = detect(head) {
        assert!(found.is_found() && found.detect(head), "a format was found that does not know the file");
    }
    let is_another = format.is_embedded() && !format.detect(head);

    let inspection = format.inspect(&file, Some(&file));
    let before = verify(format, &file).ok();
    assert!(!is_another || (inspection.is_err() && before.is_none()), "the file of another format was read");
    if format.is_found() || !format.is_embedded() {
        strip(format, &file, before.as_ref());
    }
    let certificate = &KEYS.0[key];
    let salts = made_up::salts(certificate, options.hash, format.salts_needed(&options, certificate));
    let _ = format.prepare_stream(&mut file.as_slice(), &options, certificate, &salts);
    match format.prepare(&file, &options, certificate, &salts) {
        Ok(Preparation::Sign(prepared)) => {
            assert!(!is_another || !format.is_found(), "the file of another format was signed");
            if format.is_embedded() && !format.is_found() {
                // Any file becomes one of the format: it has a target of its own.
                return;
            }
            sign(format, &file, &options, certificate, &prepared, salted);
        }
        Ok(Preparation::Leave { why }) => assert!(!why.is_empty(), "left as it is, and nobody says why"),
        Err(error) => assert!(!error.to_string().is_empty() && !error.advice().is_empty()),
    }
}

/// Choices of every format, then one byte for each option that this format declares.
fn choose(format: &dyn Format, input: &mut Choices<'_>) -> SignOptions {
    let mut options = SignOptions {
        hash: input.one_of(&HashAlgorithm::ALL),
        if_signed: input.one_of(&[IfSigned::Replace, IfSigned::Add, IfSigned::Skip, IfSigned::Refuse]),
        payload: input.one_of(&[PayloadCheck::WhenRead, PayloadCheck::Always]),
        repeat: input.one_of(&[Repeat::Skip, Repeat::Force]),
        ..SignOptions::default()
    };
    for spec in format.options() {
        let byte = input.byte();
        if byte == 0 {
            continue;
        }
        // An option without a list of words checks its value itself; the ones that we have are versions.
        let free = format!("{}.{}", byte >> 5, byte & 31);
        let value = if spec.choices.is_empty() {
            free.as_str()
        } else {
            spec.choices[usize::from(byte) % spec.choices.len()]
        };
        let accepted = options.format.set(spec, value);
        assert!(accepted.is_ok() || spec.choices.is_empty(), "a word of the list is not accepted");
    }
    options
}

fn verify(format: &dyn Format, file: &Vec<u8>) -> Result<Verification, Error> {
    let context = VerifyContext { keyring: &KEYS.1, now: i64::from(made_up::NOW), sidecar: Some(file) };
    let verification = format.verify(file, &context)?;
    let nobody = VerifyContext { keyring: &Keyring::new(), ..context };
    let state = format.verify(file, &nobody)?.state();
    assert_ne!(state, State::Valid, "valid without a key");
    Ok(verification)
}

fn strip(format: &dyn Format, file: &Vec<u8>, before: Option<&Verification>) {
    let Ok(Some(edits)) = format.strip(file) else { return };
    let stripped = apply(format, file, &edits);
    assert!(format.strip(&stripped).unwrap().is_none(), "stripping twice changes the file again");
    assert!(format.inspect(&stripped, None).unwrap().signatures.is_empty(), "a signature is left");
    if let Some(before) = before {
        assert!(!before.signatures.is_empty(), "a file without signatures was stripped");
        let after = verify(format, &stripped).unwrap();
        assert_eq!(
            digests(&before.digests),
            digests(&after.digests),
            "stripping changed what the digests say"
        );
    }
}

fn sign(
    format: &dyn Format,
    file: &Vec<u8>,
    options: &SignOptions,
    certificate: &Certificate,
    prepared: &Prepared,
    salted: bool,
) {
    assert!(!prepared.items.is_empty(), "nothing to sign");
    let packets = made_up::packets(&prepared.items, certificate, salted);
    let longest = packets.iter().map(Vec::len).max().unwrap();
    let layout = if salted { Layout::Blocks(4096) } else { Layout::Tight };
    assert!(
        prepared.plan.output(&packets[1..], layout).is_err(),
        "a signature is missing, and nobody says so"
    );
    let edits = match prepared.plan.output(&packets, layout) {
        Err(error) => return assert!(!error.advice().is_empty()),
        Ok(Output::Beside(contents)) => {
            assert!(!format.is_embedded() && contents.len() == prepared.beside.len());
            let found = contents.iter().map(|content| {
                let bytes = written(content, file);
                format.inspect(file, Some(&bytes)).unwrap().signatures.len()
            });
            return assert_eq!(found.sum::<usize>(), packets.len(), "the new signatures are not found");
        }
        Ok(Output::Edits(edits)) => edits,
    };
    let signed = apply(format, file, &edits);
    let growth = edits.new_len().saturating_sub(edits.old_len());
    let most = prepared.plan.room(longest, layout).growth_max;
    assert!(growth <= most, "the file grows by {growth} bytes, and {most} were said");
    let after = verify(format, &signed).unwrap();
    assert!(after.signatures.len() >= packets.len(), "the new signatures are not found");
    assert_ne!(after.state(), State::Valid, "valid, and no key made it");
    match verify(format, file) {
        Ok(before) => {
            assert_eq!(
                digests(&before.digests),
                digests(&after.digests),
                "signing changed what the digests say"
            );
        }
        // Signing writes a signature header anew that nobody reads, and takes signatures of a wrong type away. A
        // fault anywhere else it would leave, so it must refuse it.
        Err(error) => assert!(
            matches!(error, Error::Malformed { what: "signature header", .. }),
            "signed, and not valid before: {error}"
        ),
    }
    let [looked, looked_after] = [file, &signed].map(|file| format.inspect(file, None).unwrap().digests);
    assert_eq!(digests(&looked), digests(&looked_after), "signing changed what inspecting shows");
    let stripped = format.strip(&signed).unwrap().unwrap().apply(&signed);
    assert!(format.strip(&stripped).unwrap().is_none());
    // A version 6 key signs version 4 packages only beside what is there.
    let if_signed = match certificate.fingerprint().version() {
        KeyVersion::V6 => IfSigned::Add,
        KeyVersion::V4 => IfSigned::Replace,
    };
    let again = SignOptions { if_signed, repeat: Repeat::Force, ..options.clone() };
    let salts = made_up::salts(certificate, options.hash, format.salts_needed(options, certificate));
    let again = format
        .prepare(&signed, &again, certificate, &salts)
        .map(|again| matches!(again, Preparation::Sign(_)));
    assert!(matches!(again, Ok(true)), "what was signed cannot be signed again");
}

/// A new file beside this one.
fn written(content: &NewContent, file: &Vec<u8>) -> Vec<u8> {
    match content {
        NewContent::Bytes(bytes) => bytes.clone(),
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

/// The new file; the edits are for this one, and stay where the format's signatures are.
fn apply(format: &dyn Format, file: &[u8], edits: &Edits) -> Vec<u8> {
    let len = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap();
    let new = edits.apply(file);
    assert_eq!((edits.old_len(), edits.new_len()), (len(file), len(&new)), "edits with wrong lengths");
    assert!(format.detect(&new[..new.len().min(DETECT_BYTES)]), "the edits made another kind of file");
    if format.name() == "rpm" {
        rpm_layout::changes_only_the_signature_header(file, &new, edits);
    }
    new
}

fn digests(reports: &[DigestReport]) -> Vec<(&'static str, DigestState)> {
    reports.iter().map(|digest| (digest.what, digest.state)).collect()
}
