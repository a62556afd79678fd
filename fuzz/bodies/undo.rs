//! The undo journal: the first byte says whether the rest is a journal as it is, one whose checksum is made right
//! (a changed byte alone never gets past it), or the plan of a file with its record.
//!
//! A journal that reads is written again as the same bytes, is within the limits, and takes no more memory than it has
//! bytes. Any change of one that was written is noticed. Of a file, old bytes are written back only if every sector of
//! the record is old or new and there are both; then the file is the old one, and what is outside the sectors was not
//! touched.

use std::convert::Infallible;

use sealwright_client::apply::undo::{
    CHANGED_BYTES_MAX, Malformed, PATH_BYTES_MAX, RECORDS_MAX, Record, SECTOR_BYTES, Sector, State,
    Undecided, encode, parse, sha256,
};

use crate::choices::Choices;

const SECTOR: usize = 512;
/// Bytes of magic, version and checksum.
const MAGIC_AND_CHECKSUM: usize = 12 + 32;
/// Of a made-up file.
const SECTORS_MAX: usize = 8;

pub(crate) fn run(data: &[u8]) {
    let mut input = Choices::new(data);
    match input.byte() % 4 {
        0 => read(input.rest()),
        1 => read(&summed(input.rest())),
        2 => damaged(&mut input),
        _ => file(&mut input),
    }
}

/// With the checksum that it should have.
fn summed(content: &[u8]) -> Vec<u8> {
    [content, &sha256(content)].concat()
}

fn read(bytes: &[u8]) {
    let Ok(records) = parse(bytes) else { return };
    assert_eq!(encode(&records), bytes, "two encodings of one journal");
    assert!(records.len() <= RECORDS_MAX);
    let held = records.iter().map(held).sum::<usize>();
    assert!(held <= bytes.len(), "{held} bytes held of {}", bytes.len());
    for record in &records {
        assert!(record.path.len() <= PATH_BYTES_MAX && record.path.starts_with(b"/"));
        assert!(u64::try_from(record.sectors.len()).unwrap() * SECTOR_BYTES <= CHANGED_BYTES_MAX);
        let mut end = 0;
        for sector in &record.sectors {
            assert!(sector.offset >= end && sector.offset.is_multiple_of(SECTOR_BYTES), "sectors overlap");
            end = sector.offset + u64::try_from(sector.old.len()).unwrap();
            let is_whole = sector.old.len() == SECTOR || end == record.size;
            assert!(is_whole && end <= record.size && !sector.old.is_empty(), "a sector of a wrong length");
        }
    }
}

/// What of a record lies on the heap, apart from how its parts are numbered.
fn held(record: &Record) -> usize {
    record.path.len() + record.sectors.iter().map(|sector| sector.old.len() + sector.new.len()).sum::<usize>()
}

/// A journal that was written, changed in one byte, cut, or continued.
fn damaged(input: &mut Choices<'_>) {
    let (record, ..) = made_up(input);
    let count = usize::from(input.byte()) % 4;
    let good = encode(&vec![record; count]);
    read(&good);
    let mut bytes = good.clone();
    let (at, change) = (usize::from(input.number()) % good.len(), input.byte());
    bytes[at] ^= change;
    bytes.truncate(good.len() - usize::from(input.byte()) % good.len());
    // Of one value: the fuzzer sees what the checksum is compared with, and would write it there.
    bytes.extend(vec![input.byte(); usize::from(input.byte()) % 64]);
    assert_eq!(parse(&bytes).is_ok(), bytes == good, "damage that is not noticed");
    if bytes.len() >= MAGIC_AND_CHECKSUM && bytes.starts_with(&good[..12]) && bytes != good {
        assert_eq!(parse(&bytes), Err(Malformed::Checksum));
    }
}

/// A record, the old and the new content of its file.
fn made_up(input: &mut Choices<'_>) -> (Record, Vec<u8>, Vec<u8>) {
    let len = SECTOR * (usize::from(input.byte()) % SECTORS_MAX) + usize::from(input.number()) % SECTOR;
    let fill = input.byte();
    let old: Vec<u8> = (0..len).map(|at| fill ^ u8::try_from(at % 251).unwrap()).collect();
    let mut new = old.clone();
    let mut sectors = Vec::new();
    for at in (0..len).step_by(SECTOR) {
        // Some do not change at all, one in a byte, others in all bytes; one is recorded and stays as it is.
        let (how, change) = (input.byte() % 4, input.byte());
        let sector = at..(at + SECTOR).min(len);
        match how {
            0 => continue,
            1 => new[at] ^= change,
            2 => new[sector.clone()].fill(change),
            _ => {}
        }
        sectors.push(Sector {
            offset: at.try_into().unwrap(),
            old: old[sector.clone()].to_vec(),
            new: sha256(&new[sector]),
        });
    }
    let record = Record {
        device: u64::from(input.number()),
        inode: u64::from(input.number()),
        size: len.try_into().unwrap(),
        modified: (i64::from(input.byte()) - 128, u32::from(input.number())),
        path: [b"/".as_slice(), &vec![b'a'; usize::from(input.byte())]].concat(),
        sectors,
    };
    (record, old, new)
}

/// A file as a killed run, or somebody else, left it.
fn file(input: &mut Choices<'_>) {
    let (record, old, new) = made_up(input);
    let mut there = old.clone();
    let (mut olds, mut news, mut foreign) = (0, 0, None);
    for sector in &record.sectors {
        let from = usize::try_from(sector.offset).unwrap();
        let range = from..from + sector.old.len();
        match input.byte() % 4 {
            0 => {}
            1 => there[range.clone()].copy_from_slice(&new[range.clone()]),
            2 => there[from + usize::from(input.number()) % range.len()] ^= input.byte(),
            _ => there[range.clone()].fill(input.byte()),
        }
        let is = |content: &[u8]| there[range.clone()] == content[range.clone()];
        match (is(&old), is(&new)) {
            (true, true) => {}
            (true, false) => olds += 1,
            (false, true) => news += 1,
            (false, false) => foreign = foreign.or(Some(sector.offset)),
        }
    }
    // What is outside the sectors is nobody's business.
    let outside = usize::from(input.number());
    if there.get(outside).is_some() && !record.sectors.iter().any(|sector| covers(sector, outside)) {
        there[outside] ^= input.byte();
    }
    let before = there.clone();
    let short = usize::from(input.byte()) % 8 == 7;
    match state(&record, if short { &there[..there.len() / 2] } else { &there }) {
        Err(Undecided::Read(())) => assert!(short),
        Err(Undecided::Foreign(offset)) => assert_eq!(Some(offset), foreign, "another sector is foreign"),
        Ok(_) if short && foreign.is_some() => panic!("a foreign sector was not seen"),
        Ok(State::Old) => assert!(news == 0 && foreign.is_none()),
        Ok(State::New) => assert!(olds == 0 && news > 0 && foreign.is_none()),
        Ok(State::Torn) => {
            assert!(olds > 0 && news > 0 && foreign.is_none());
            put_back(&record, &mut there);
            assert_eq!(state(&record, &there), Ok(State::Old));
            let kept = |at: usize| there[at] == before[at];
            let covered = |at: usize| record.sectors.iter().any(|sector| covers(sector, at));
            assert!((0..there.len()).all(|at| if covered(at) { there[at] == old[at] } else { kept(at) }));
        }
    }
    let written: Result<State, Undecided<Infallible>> = record.state(|buffer, offset| {
        let from = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&new[from..from + buffer.len()]);
        Ok(())
    });
    let changes = record.sectors.iter().any(|sector| sha256(&sector.old) != sector.new);
    let expected = if changes { State::New } else { State::Old };
    assert_eq!(written, Ok(expected), "a file that was written whole is the new one");
}

fn covers(sector: &Sector, at: usize) -> bool {
    let from = usize::try_from(sector.offset).unwrap();
    (from..from + sector.old.len()).contains(&at)
}

fn state(record: &Record, file: &[u8]) -> Result<State, Undecided<()>> {
    record.state(|buffer, offset| {
        let from = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(file.get(from..from + buffer.len()).ok_or(())?);
        Ok(())
    })
}

/// As recovery does with a file.
fn put_back(record: &Record, file: &mut [u8]) {
    for sector in &record.sectors {
        let from = usize::try_from(sector.offset).unwrap();
        file[from..from + sector.old.len()].copy_from_slice(&sector.old);
    }
}
