//! The journal of a campaign: the first byte says whether the rest is bytes as they are, the body of a record whose
//! checksum is right, or the plan of a journal, some of whose records are damaged, cut, or follow bytes of somebody else.
//!
//! What is read is written again as the same, and within the limits. Of a journal every whole record is read and nothing
//! else, also behind a damaged place; damage is told from what a crash tore at the end; the next run goes on from exactly
//! what is whole, or refuses and cuts nothing; the way back touches the files that the whole records name, as they say, and
//! nothing else.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use sealwright_client::apply::undo::{CHANGED_BYTES_MAX, PATH_BYTES_MAX};
use sealwright_client::batch::Stop;
use sealwright_client::campaign::journal::{Journal, Past, Place};
use sealwright_client::campaign::record::{self, BODY_BYTES_MAX, Before, HEAD_BYTES, Head, Record};
use sealwright_client::campaign::undo::undo;

use crate::choices::Choices;

/// The package that some records are about.
const PACKAGE: &[u8] = include_bytes!("../../fixtures/rpm/gen_tiny-reserved4096.rpm");
const DIGEST: [u8; 32] = [7; 32];
const RECORDS_MAX: usize = 8;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    // In memory, if there is such a place: each journal is synced.
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
});

pub(crate) fn run(data: &[u8]) {
    let mut input = Choices::new(data);
    match input.byte() % 4 {
        0 => bytes(input.rest()),
        1 => body(input.rest()),
        _ => journal(&mut input),
    }
}

fn bytes(bytes: &[u8]) {
    if let Ok(head) = Head::parse(bytes) {
        assert_eq!((head.encode().as_slice(), bytes.len()), (bytes, HEAD_BYTES), "two encodings of a head");
    }
    if let Ok((content, used)) = record::first(bytes) {
        assert!(content.len() <= BODY_BYTES_MAX && used <= bytes.len());
        body(content);
    }
    if let Ok(Some(at)) = record::next(bytes) {
        assert!(at > 0 && record::first(&bytes[at..]).is_ok_and(|(body, _)| Record::parse(body).is_ok()));
    }
    body(bytes);
}

fn body(bytes: &[u8]) {
    let Ok(record) = Record::parse(bytes) else { return };
    let written = record.encode();
    let (again, used) = record::first(&written).unwrap();
    assert_eq!(used, written.len());
    assert_eq!(Record::parse(again).unwrap(), record, "writing and reading changed a record");
    match &record {
        Record::Asked { path, before, .. } => {
            assert!(is_path(path) && u64::try_from(before.bytes.len()).unwrap() <= CHANGED_BYTES_MAX);
        }
        Record::Linked { path, leader } => assert!(is_path(path) && is_path(leader)),
        Record::Applied { path, .. } | Record::Failed { path, .. } => assert!(is_path(path)),
        Record::Planned { .. } | Record::Finished => {}
    }
    // Of the bytes that were there, runs of zeros can be split in many ways.
    assert!(matches!(record, Record::Asked { .. }) || again == bytes, "two encodings of a record");
}

fn is_path(path: &[u8]) -> bool {
    path.len() <= PATH_BYTES_MAX && path.starts_with(b"/") && !path.contains(&0)
}

/// What lies where a record should be.
enum Piece {
    Whole(Record),
    /// No record.
    Junk(Vec<u8>),
}

fn journal(input: &mut Choices<'_>) {
    let package = FOLDER.path().join("a.rpm");
    std::fs::write(&package, PACKAGE).unwrap();
    let count = 1 + usize::from(input.byte()) % RECORDS_MAX;
    let pieces: Vec<Piece> = (0..count).map(|_| piece(input)).collect();
    let mut bytes = Head { id: [1; 16], digest: DIGEST, begun: 3 }.encode();
    // Where the last whole record ends; whether something before it is none.
    let (mut end, mut is_damaged, mut saw_junk) = (bytes.len(), false, false);
    let mut whole = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Whole(record) => {
                bytes.extend(record.encode());
                whole.push(record);
                end = bytes.len();
                is_damaged = saw_junk;
            }
            Piece::Junk(junk) => {
                saw_junk |= !junk.is_empty();
                bytes.extend(junk);
            }
        }
    }
    let path = FOLDER.path().join("journal");
    write_private(&path, &bytes);
    read(&path, &whole, end, is_damaged);
    way_back(&path, &whole, is_damaged, &package);
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the way back changed the journal");
    next_run(&path, &whole, &bytes[..end], is_damaged);
    assert_eq!(is_damaged, std::fs::read(&path).is_ok_and(|now| is_damaged && now == bytes));
    std::fs::remove_file(&path).unwrap();
}

fn write_private(path: &Path, bytes: &[u8]) {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path).unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
}

/// Contents are of one value: the fuzzer sees what checksums are compared with, and would write whole records there.
fn piece(input: &mut Choices<'_>) -> Piece {
    let how = input.byte() % 8;
    if how == 7 {
        return Piece::Junk(vec![input.byte(); usize::from(input.byte())]);
    }
    let record = made_up(input);
    let mut bytes = record.encode();
    match how {
        5 => {
            let at = usize::from(input.number()) % bytes.len();
            bytes[at] ^= input.byte().max(1);
        }
        6 => bytes.truncate(usize::from(input.number()) % bytes.len()),
        _ => return Piece::Whole(record),
    }
    Piece::Junk(bytes)
}

fn made_up(input: &mut Choices<'_>) -> Record {
    let kind = input.byte() % 8;
    let path = name(input);
    match kind {
        0 => Record::Planned { files: input.number().into(), bytes: input.number().into() },
        1..=3 => Record::Asked { path, request_id: [input.byte(); 16], before: before(input) },
        4 | 5 => {
            let size = if input.flag() { input.number().into() } else { PACKAGE.len().try_into().unwrap() };
            Record::Applied { path, size, log_index: input.flag().then(|| input.number().into()) }
        }
        6 if input.flag() => Record::Linked { path, leader: name(input) },
        6 => Record::Failed { path, may_be_signed: input.flag(), why: "w".repeat(input.byte().into()) },
        _ => Record::Finished,
    }
}

fn name(input: &mut Choices<'_>) -> Vec<u8> {
    let name = input.one_of(&["a.rpm", "b", "c"]);
    FOLDER.path().join(name).as_os_str().as_bytes().to_vec()
}

fn before(input: &mut Choices<'_>) -> Before {
    let (offset, len) = (usize::from(input.number()), usize::from(input.number()) % 8192);
    let is_old = input.flag();
    let old = PACKAGE.get(offset..offset + len).filter(|_| is_old);
    let bytes = old.map_or_else(|| vec![input.byte(); len], <[u8]>::to_vec);
    let size = if input.flag() { u64::from(input.number()) } else { PACKAGE.len().try_into().unwrap() };
    Before { offset: offset.try_into().unwrap(), bytes, size }
}

fn read(path: &Path, whole: &[Record], end: usize, is_damaged: bool) {
    let journal = Journal::open_existing(path).unwrap();
    let mut found = Vec::new();
    let (read_to, damage) = journal
        .whole_records(&mut |record| {
            found.push(record);
            Ok(())
        })
        .unwrap();
    assert_eq!(found, whole, "other records than those that are whole");
    assert_eq!((read_to, damage.is_some()), (end.try_into().unwrap(), is_damaged));
}

/// For whom a signature was asked for and applied: its bytes and size before the last one that was, and its other names.
fn way_back(path: &Path, whole: &[Record], is_damaged: bool, package: &Path) {
    let journal = Journal::open_existing(path).unwrap();
    let (_level, stop) = tokio::sync::watch::channel(0);
    let mut undone: Vec<PathBuf> = Vec::new();
    let mut content = PACKAGE.to_vec();
    let ended = undo(&journal, &Stop::from_level(stop), &mut |file| {
        let is_changed = file.path == *package && matches!(file.outcome, Ok(Some(_)));
        let now = std::fs::read(package).unwrap();
        let is_as_said = if is_changed {
            whole.iter().any(|record| with(record, &content) == Some(now.clone()))
        } else {
            now == content
        };
        assert!(is_as_said, "the package is neither as it was nor as a record says: {:?}", file.outcome);
        content = now;
        undone.push(file.path);
    });
    assert_eq!(ended.is_err(), is_damaged);
    let mut expected = Vec::new();
    for (at, record) in whole.iter().enumerate() {
        let Record::Asked { path, .. } = record else { continue };
        let is_of = |other: &&Record| matches!(other, Record::Asked { path: of, .. } if of == path);
        let last =
            whole.iter().rposition(|other| matches!(other, Record::Applied { path: of, .. } if of == path));
        // It is the last one before the last time that one was applied.
        let Some(last) = last.filter(|last| *last > at) else { continue };
        if whole[at + 1..last].iter().any(|other| is_of(&other)) {
            continue;
        }
        expected.push(path);
        for other in whole {
            if let Record::Linked { path: name, leader } = other
                && leader == path
            {
                expected.push(name);
            }
        }
    }
    let undone: Vec<&[u8]> = undone.iter().map(|path| path.as_os_str().as_bytes()).collect();
    assert_eq!(undone, expected, "other files than those that were replaced");
}

/// The package with what was there before a signature was asked for.
fn with(record: &Record, content: &[u8]) -> Option<Vec<u8>> {
    let Record::Asked { before, .. } = record else { return None };
    let from = usize::try_from(before.offset).unwrap();
    let tail = usize::try_from(before.size).unwrap().checked_sub(from + before.bytes.len())?;
    let tail = content.get(content.len().checked_sub(tail)?..)?;
    Some([content.get(..from)?, &before.bytes, tail].concat())
}

/// The next run of the same campaign.
fn next_run(path: &Path, whole: &[Record], kept: &[u8], is_damaged: bool) {
    let opened = Journal::open(&Place::File(path.to_owned()), DIGEST, &|_| Ok(()));
    if is_damaged {
        assert!(opened.is_err(), "a damaged journal goes on");
        return;
    }
    let (journal, past) = opened.unwrap();
    let mut open = HashMap::new();
    let mut applied = 0;
    for record in whole {
        match record {
            Record::Asked { path, request_id, .. } => drop(open.insert(path, request_id)),
            Record::Applied { path, .. } => {
                open.remove(path);
                applied += 1;
            }
            Record::Failed { path, may_be_signed: false, .. } => drop(open.remove(path)),
            Record::Linked { .. } => applied += 1,
            Record::Planned { .. } | Record::Failed { .. } | Record::Finished => {}
        }
    }
    let is_finished = matches!(whole.last(), Some(Record::Finished));
    let expected = Past::Begun { at: 3, applied, open: open.len() };
    assert_eq!(past, if is_finished { Past::None } else { expected });
    let mut ids: Vec<[u8; 16]> = journal.open_requests().iter().map(|id| id.into_bytes()).collect();
    let mut asked: Vec<[u8; 16]> = open.values().map(|id| **id).filter(|_| !is_finished).collect();
    ids.sort_unstable();
    asked.sort_unstable();
    assert_eq!(ids, asked, "other requests are open");
    drop(journal);
    let done = FOLDER.path().join("journal.01010101.done");
    let old = if is_finished { done.as_path() } else { path };
    assert_eq!(std::fs::read(old).unwrap(), kept, "what is whole was cut or changed");
    if is_finished {
        std::fs::remove_file(done).unwrap();
    }
}
