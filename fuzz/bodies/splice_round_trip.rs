//! Stripping undoes signing, for a package whose signature header is made up here: any entries in any order, with
//! signatures of known keys, of unknown ones and junk among them, with any reserve, region or none.
//!
//! The package is signed twice, with signatures that no key made, and stripped after each: what is signed is read
//! again, and what is left is what stripping the package itself leaves. Bytes of alignment that are not zero are the exception that docs/formats/rpm.md
//! names: they may come back as zeros.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealwright_crypto::digest::Hasher;
use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_crypto::usage::Purpose;
use sealwright_formats::Format as _;
use sealwright_formats::options::{IfSigned, Repeat, SignOptions};
use sealwright_formats::prepared::{Item, Output, Preparation};
use sealwright_formats::report::VerifyContext;
use sealwright_formats::rpm::{MIN_RPM, RPM_SIGNATURE, Rpm};
use sealwright_formats::splice::Layout;
use std::sync::LazyLock;

use crate::choices::Choices;
use crate::made_up;
use crate::rpm_layout;
use crate::rpm_layout::{LEAD_BYTES, main_start};

/// Small packages: v4 with payload digests, old without, v6.
const PACKAGES: [&[u8]; 3] = [
    include_bytes!("../../fixtures/rpm/crc_empty-0-0.x86_64.rpm"),
    include_bytes!("../../fixtures/rpm/gru_test-1.0.0.x86_64.rpm"),
    include_bytes!("../../fixtures/rpm/crc_empty-signed-v6-multiple-0-0.x86_64.rpm"),
];

/// Tags that may hold signatures, then reserves, then others (file signatures, unknown).
const TAGS: [u32; 12] = [1008, 999, 267, 268, 278, 1002, 1005, 1006, 274, 277, 5000, 200];
/// Mostly binary; strings are made of bytes that are not zero.
const KINDS: [u32; 6] = [7, 7, 7, 4, 5, 3];

static CERTIFICATES: LazyLock<Vec<Certificate>> = LazyLock::new(made_up::certificates);

pub(crate) fn run(data: &[u8]) {
    let mut input = Choices::new(data);
    let base = input.one_of(&PACKAGES);
    let mut options = SignOptions { repeat: Repeat::Force, ..SignOptions::default() };
    options.if_signed = input.one_of(&[IfSigned::Replace, IfSigned::Add]);
    options.format.set(&RPM_SIGNATURE, input.one_of(&["auto", "header+payload", "both"])).unwrap();
    options.format.set(&MIN_RPM, input.one_of(&["6.0", "4.14"])).unwrap();
    let signers =
        [input.byte(), input.byte()].map(|byte| &CERTIFICATES[usize::from(byte) % CERTIFICATES.len()]);
    let salted = input.flag();
    let (package, is_aligned_by_zeros) = with_signature_header(base, &mut input);
    let same =
        |one: &[u8], other: &[u8]| if is_aligned_by_zeros { one == other } else { one.len() == other.len() };

    let Ok(stripped) = strip(&package) else { return };
    let Some((once, rewritten)) = sign(&package, &options, signers[0], salted) else { return };
    // A header that rpm wrote otherwise is written anew, which the report says; then only stripping it compares.
    if !rewritten || stripped != package {
        assert!(same(&strip(&once).unwrap(), &stripped), "stripping does not undo signing");
    }
    if let Some((twice, _)) = sign(&once, &options, signers[1], salted) {
        assert!(
            same(&strip(&twice).unwrap(), &strip(&once).unwrap()),
            "stripping does not undo signing twice"
        );
    }
    if options.if_signed == IfSigned::Replace {
        let (again, _) = sign(&once, &options, signers[0], salted).unwrap();
        assert!(same(&again, &once), "the same signature again is another file");
    }
}

/// Without signatures; the package itself if it has none.
fn strip(package: &Vec<u8>) -> Result<Vec<u8>, sealwright_formats::error::Error> {
    let edits = Rpm.strip(package)?;
    Ok(edits.map_or_else(|| package.clone(), |edits| edits.apply(package)))
}

/// The signed package, and whether the report says that its signature header was not as it should be.
fn sign(
    package: &Vec<u8>,
    options: &SignOptions,
    key: &Certificate,
    salted: bool,
) -> Option<(Vec<u8>, bool)> {
    let salts = made_up::salts(key, options.hash, Rpm.salts_needed(options, key));
    let Ok(Preparation::Sign(prepared)) = Rpm.prepare(package, options, key, &salts) else { return None };
    let packets = made_up::packets(&prepared.items, key, salted);
    let layout = if salted { Layout::Blocks(4096) } else { Layout::Tight };
    let Ok(Output::Edits(edits)) = prepared.plan.output(&packets, layout) else { return None };
    let signed = edits.apply(package);
    rpm_layout::changes_only_the_signature_header(package, &signed, &edits);
    let nobody = VerifyContext { keyring: &Keyring::new(), now: i64::from(made_up::NOW), sidecar: None };
    let read = Rpm.verify(&signed, &nobody);
    assert!(read.is_ok(), "what was signed cannot be read: {read:?}");
    let longest = packets.iter().map(Vec::len).max().unwrap();
    let growth = edits.new_len().saturating_sub(edits.old_len());
    let most = prepared.plan.room(longest, layout).growth_max;
    assert!(growth <= most, "the file grows by {growth} bytes, and {most} were said");
    Some((signed, prepared.notes.iter().any(|note| note.contains("rewritten"))))
}

/// An entry of a signature header.
struct Entry {
    tag: u32,
    kind: u32,
    count: u32,
    data: Vec<u8>,
    /// Fills the bytes that align it.
    padding: u8,
}

/// `base` with the digests and sizes that it has, and entries that `input` makes up between them; and whether all bytes
/// of alignment are zero.
fn with_signature_header(base: &[u8], input: &mut Choices<'_>) -> (Vec<u8>, bool) {
    let trailer_tag = input.one_of(&[62, 61, 0]);
    let (has_region, tail) = (trailer_tag != 0, input.one_of(&[0, 0, 0, 7]));
    let mut entries = kept(base);
    while !input.is_empty() && entries.len() < 31 {
        let at = usize::from(input.byte()) % (entries.len() + 1);
        let entry = made_up_entry(input);
        if entries.iter().all(|other| other.tag != entry.tag) {
            entries.insert(at, entry);
        }
    }
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let count = (entries.len() + usize::from(has_region)) as u32;
    let (mut index, mut store) = (Vec::new(), Vec::new());
    let mut is_zero = tail == 0;
    for entry in &entries {
        let align = match entry.kind {
            3 => 2,
            4 => 4,
            5 => 8,
            _ => 1,
        };
        is_zero &= entry.padding == 0 || store.len().is_multiple_of(align);
        store.resize(store.len().next_multiple_of(align), entry.padding);
        index.extend(words(&[entry.tag, entry.kind, store.len() as u32, entry.count]));
        store.extend_from_slice(&entry.data);
    }
    let region = words(&[62, 7, store.len() as u32, 16]);
    if has_region {
        store.extend(words(&[trailer_tag, 7, (16 * count).wrapping_neg(), 16]));
    }
    let mut header = words(&[0x8ead_e801, 0, count, store.len() as u32]);
    header.extend(if has_region { region } else { Vec::new() });
    header.extend(index);
    header.extend(store);
    header.resize(header.len().next_multiple_of(8), tail);
    ([&base[..LEAD_BYTES], &header, &base[main_start(base)..]].concat(), is_zero)
}

/// The entries of a fixture that are neither region nor signature nor reserve.
fn kept(base: &[u8]) -> Vec<Entry> {
    let number = |at: usize| u32::from_be_bytes(base[at..at + 4].try_into().unwrap());
    let count = number(104) as usize;
    let store = LEAD_BYTES + 16 + 16 * count;
    let entry = |at: usize| {
        let (tag, kind, offset, count) = (number(at), number(at + 4), number(at + 8), number(at + 12));
        let data = &base[store + offset as usize..];
        let len = match kind {
            6 => data.iter().position(|byte| *byte == 0).unwrap() + 1,
            3 => 2 * count as usize,
            4 => 4 * count as usize,
            5 => 8 * count as usize,
            _ => count as usize,
        };
        Entry { tag, kind, count, data: data[..len].to_vec(), padding: 0 }
    };
    let entries = (1..count).map(|number| entry(LEAD_BYTES + 16 + 16 * number));
    entries.filter(|entry| !TAGS.contains(&entry.tag)).collect()
}

fn made_up_entry(input: &mut Choices<'_>) -> Entry {
    let tag = input.one_of(&TAGS);
    let padding = input.one_of(&[0, 0, 0, 9]);
    let what = input.byte();
    let signer = &CERTIFICATES[usize::from(input.byte()) % CERTIFICATES.len()];
    let packet = |text: &[u8]| {
        let hash = sealwright_crypto::algorithm::HashAlgorithm::Sha256;
        let is_v6 = signer.fingerprint().key_version() == 6;
        let salt = made_up::salts(signer, hash, usize::from(is_v6)).pop();
        let mut content = salt.map_or_else(|| Hasher::new(hash), |salt| salt.hasher());
        content.update(text);
        made_up::packets(&[Item { purpose: Purpose::RpmHeader, content, salt }], signer, false).remove(0)
    };
    if tag == 278 && what % 4 != 3 {
        let packets = (0..=what % 3).map(|number| STANDARD.encode(packet(&[number])) + "\0");
        let data = packets.collect::<String>().into_bytes();
        return Entry { tag, kind: 8, count: u32::from(what % 3) + 1, data, padding };
    }
    let is_signature = matches!(tag, 267 | 268 | 1002 | 1005 | 1006);
    if is_signature && what % 4 != 3 {
        let data = packet(&[]);
        return Entry { tag, kind: 7, count: data.len() as u32, data, padding };
    }
    let kind = KINDS[usize::from(what) / 4 % KINDS.len()];
    let width = match kind {
        3 => 2,
        4 => 4,
        5 => 8,
        _ => 1,
    };
    let count = usize::from(input.number()) % (6000 / width) + 1;
    let fill = input.one_of(&[0, 0, 0, 0x41]);
    Entry { tag, kind, count: count as u32, data: vec![fill; width * count], padding }
}
