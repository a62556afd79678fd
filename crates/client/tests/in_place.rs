//! Writing in place: under which conditions, that nothing but the changed bytes is written, that a killed run is
//! settled by the next, whatever moment it was killed at, and that a record which does not fit touches nothing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    reason = "tests"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use rustix::fs::XattrFlags;
use sealwright_client::apply::journal::StateDirectory;
use sealwright_client::apply::recovery::{Left, Outcome, Recovered, recover};
use sealwright_client::apply::undo::{Malformed, Record, Sector, encode, parse, sha256};
use sealwright_client::apply::{HardLinks, Method, Policy, Staged, Target, Writing, group};
use sealwright_client::error::{Error, NotInPlace};
use sealwright_client::source::file::SourceFile;
use sealwright_client::source::{Entry, Place};
use sealwright_formats::prepared::Room;
use sealwright_formats::splice::{Edit, Edits};
use tempfile::TempDir;

const LEN: usize = 10_000;

struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    fn file(&self, name: &str) -> PathBuf {
        fs::write(self.path(name), old()).unwrap();
        self.path(name)
    }

    fn policy(&self, hard_links: HardLinks) -> Policy {
        let state = StateDirectory::open(&self.state()).unwrap();
        Policy { writing: Writing::InPlace(Arc::new(state)), hard_links }
    }

    fn stage(&self, path: &Path, hard_links: HardLinks) -> Result<Staged, Error> {
        stage(path, &self.policy(hard_links), true)
    }

    /// What the state directory holds but its lock.
    fn records(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = fs::read_dir(self.state())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap() != "lock")
            .collect();
        all.sort();
        all
    }

    /// As a killed process leaves it: a journal that nobody holds.
    fn plant(&self, name: &str, bytes: &[u8]) -> PathBuf {
        drop(StateDirectory::open(&self.state()).unwrap());
        fs::write(self.state().join(name), bytes).unwrap();
        self.state().join(name)
    }
}

fn old() -> Vec<u8> {
    (0..LEN).map(|at| (at % 251) as u8).collect()
}

/// Two places, one across the boundary of two pages, one in the last, short sector.
fn edits() -> Edits {
    let edit = |offset: u64, len: usize| Edit { offset, remove: len as u64, insert: vec![0xee; len] };
    Edits::new(vec![edit(4000, 200), edit(9990, 5)], LEN as u64).unwrap()
}

fn stage(path: &Path, policy: &Policy, keeps_len: bool) -> Result<Staged, Error> {
    let entry = Entry { shown: path.to_owned(), place: Place::Named };
    let source = Arc::new(SourceFile::open_locked(&entry)?);
    let target = Target::replacing(&source);
    let room = Room { from: 0, until: LEN as u64, growth_max: 0, keeps_len, shares: keeps_len };
    Staged::stage(source, target, policy, &|_| room)
}

fn record(path: &Path) -> Record {
    let meta = fs::metadata(path).unwrap();
    let (before, after) = (old(), edits().apply(&old()));
    let sectors = (0..LEN)
        .step_by(512)
        .filter(|at| before[*at..(*at + 512).min(LEN)] != after[*at..(*at + 512).min(LEN)])
        .map(|at| {
            let range = at..(at + 512).min(LEN);
            let new = sha256(&after[range.clone()]);
            Sector { offset: at as u64, old: before[range].to_vec(), new }
        })
        .collect();
    Record {
        device: meta.dev(),
        inode: meta.ino(),
        size: LEN as u64,
        modified: (1_000_000_000, 5),
        path: path.canonicalize().unwrap().into_os_string().into_encoded_bytes(),
        sectors,
    }
}

#[test]
fn the_file_keeps_its_inode_mode_and_names_gets_the_bytes_and_a_later_time_and_no_record_stays() {
    let bench = Bench::new();
    let path = bench.file("a.rpm");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(&path).unwrap();
    let written = bench.stage(&path, HardLinks::Careful).unwrap().commit(edits()).unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), edits().apply(&old()));
    assert_eq!((after.ino(), after.mode(), after.len()), (before.ino(), before.mode(), before.len()));
    assert!(after.mtime() > before.mtime());
    assert_eq!((written.method, written.bytes), (Method::InPlace, 205));
    assert!(bench.records().is_empty());
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary");
    assert_eq!(fs::metadata(bench.state()).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn what_would_move_or_has_other_names_or_a_seal_is_refused_by_name_before_anything_is_written() {
    let bench = Bench::new();
    let path = bench.file("a.rpm");
    let moves = stage(&path, &bench.policy(HardLinks::Careful), false).unwrap_err();
    assert!(matches!(moves, Error::NotInPlace { why: NotInPlace::Moves }), "{moves}");
    assert!(moves.advice().contains("--in-place"));
    fs::hard_link(&path, bench.path("b.rpm")).unwrap();
    for choice in [HardLinks::Careful, HardLinks::Refuse] {
        let linked = bench.stage(&path, choice).unwrap_err();
        assert!(matches!(linked, Error::Linked { others: 1, in_place: true }), "{linked}");
        assert!(linked.advice().contains("--hardlinks"));
    }
    fs::remove_file(bench.path("b.rpm")).unwrap();
    if rustix::process::geteuid().is_root() {
        rustix::fs::setxattr(&path, "security.ima", b"\x04\x04hash", XattrFlags::empty()).unwrap();
        let sealed = bench.stage(&path, HardLinks::Careful).unwrap_err();
        assert!(matches!(sealed, Error::NotInPlace { why: NotInPlace::Sealed { .. } }), "{sealed}");
    }
    assert_eq!(fs::read(&path).unwrap(), old());
    assert!(bench.records().is_empty());
}

#[test]
fn edits_that_move_the_rest_after_all_are_refused_and_nothing_is_written() {
    let bench = Bench::new();
    let path = bench.file("a.rpm");
    let longer = Edits::new(vec![Edit { offset: 9, remove: 1, insert: vec![1, 2] }], LEN as u64).unwrap();
    let error = bench.stage(&path, HardLinks::Careful).unwrap().commit(longer).unwrap_err();
    assert!(matches!(error, Error::NotInPlace { why: NotInPlace::Moves }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), old());
    assert!(bench.records().is_empty());
}

#[test]
fn linked_files_change_under_all_names_with_relink_and_part_with_break() {
    let bench = Bench::new();
    let (first, second) = (bench.file("a.rpm"), bench.path("b.rpm"));
    fs::hard_link(&first, &second).unwrap();
    let written = bench.stage(&first, HardLinks::Relink).unwrap().commit(edits()).unwrap();
    assert_eq!((written.method, written.other_links), (Method::InPlace, 1));
    assert_eq!(fs::read(&second).unwrap(), edits().apply(&old()));

    let (first, second) = (bench.file("c.rpm"), bench.path("d.rpm"));
    fs::hard_link(&first, &second).unwrap();
    let written = bench.stage(&first, HardLinks::Break).unwrap().commit(edits()).unwrap();
    assert_ne!(written.method, Method::InPlace);
    assert_eq!(fs::read(&first).unwrap(), edits().apply(&old()));
    assert_eq!(fs::read(&second).unwrap(), old());
}

#[test]
fn a_state_directory_that_others_may_enter_is_refused() {
    let bench = Bench::new();
    fs::create_dir(bench.state()).unwrap();
    fs::set_permissions(bench.state(), fs::Permissions::from_mode(0o750)).unwrap();
    let error = StateDirectory::open(&bench.state()).unwrap_err();
    assert!(matches!(error, Error::StateDirectoryOpen { mode: 0o750, .. }), "{error}");
    assert!(matches!(recover(&bench.state()), Err(Error::StateDirectoryOpen { .. })));
    assert!(recover(&bench.dir.path().join("none")).unwrap().is_empty());
}

#[test]
fn whatever_sectors_were_written_when_it_was_killed_the_file_is_old_or_new_after_recovery() {
    let bench = Bench::new();
    let new = edits().apply(&old());
    let count = record(&bench.file("count")).sectors.len();
    assert_eq!(count, 3);
    for written in 0..1usize << count {
        let path = bench.file("a.rpm");
        let record = record(&path);
        let mut torn = old();
        for (number, sector) in record.sectors.iter().enumerate() {
            if written >> number & 1 == 1 {
                let range = sector.offset as usize..sector.offset as usize + sector.old.len();
                torn[range.clone()].copy_from_slice(&new[range]);
            }
        }
        fs::write(&path, &torn).unwrap();
        bench.plant("undo-1", &encode(std::slice::from_ref(&record)));
        let report = recover(&bench.state()).unwrap();
        let all = (1 << count) - 1;
        let now = fs::read(&path).unwrap();
        match &report[0].outcome {
            Outcome::Untouched if written == 0 => assert_eq!(now, old()),
            Outcome::Completed if written == all => assert_eq!(now, new),
            Outcome::RolledBack if written != 0 && written != all => {
                assert_eq!(now, old());
                assert_eq!(fs::metadata(&path).unwrap().mtime(), 1_000_000_000, "its old time is back");
            }
            Outcome::Untouched | Outcome::Completed | Outcome::RolledBack | Outcome::Left { .. } => {
                panic!("{written:b}: {report:?}")
            }
        }
        assert!(bench.records().is_empty());
    }
}

#[test]
fn a_record_that_does_not_fit_touches_nothing_says_why_and_stays() {
    type Spoil = fn(&Bench, &Path);
    let cases: [(&str, Spoil); 5] = [
        ("not there", |_, path| fs::remove_file(path).unwrap()),
        ("another file", |bench, path| {
            fs::rename(path, bench.path("moved")).unwrap();
            fs::write(path, old()).unwrap();
        }),
        ("size", |_, path| fs::write(path, [old(), vec![0]].concat()).unwrap()),
        ("neither", |_, path| {
            let mut bytes = edits().apply(&old());
            bytes[4001] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("another file", |bench, path| {
            fs::rename(path, bench.path("moved")).unwrap();
            std::os::unix::fs::symlink("moved", path).unwrap();
        }),
    ];
    for (word, spoil) in cases {
        let bench = Bench::new();
        let path = bench.file("a.rpm");
        let journal = encode(&[record(&path)]);
        spoil(&bench, &path);
        let before = fs::read(&path).ok();
        let planted = bench.plant("undo-1", &journal);
        for _ in 0..2 {
            let report = recover(&bench.state()).unwrap();
            let Outcome::Left { why, record } = &report[0].outcome else { panic!("{word}: {report:?}") };
            assert!(why.to_string().contains(word), "{word}: {why}");
            assert_eq!(
                (record, &report[0].path),
                (&planted, &path.parent().unwrap().canonicalize().unwrap().join("a.rpm"))
            );
            assert_eq!(fs::read(&path).ok(), before, "{word}");
        }
    }
}

#[test]
fn of_several_records_in_one_journal_only_those_that_do_not_fit_stay() {
    let bench = Bench::new();
    let (good, gone) = (bench.file("a.rpm"), bench.file("b.rpm"));
    let journal = encode(&[record(&gone), record(&good)]);
    let mut torn = old();
    torn[4000..4096].fill(0xee);
    fs::write(&good, &torn).unwrap();
    fs::remove_file(&gone).unwrap();
    bench.plant("undo-1", &journal);
    assert_eq!(recover(&bench.state()).unwrap().len(), 2);
    assert_eq!(fs::read(&good).unwrap(), old());
    let left = parse(&fs::read(&bench.records()[0]).unwrap()).unwrap();
    assert_eq!(left.len(), 1);
    assert!(left[0].path.ends_with(b"b.rpm"));
    let again = recover(&bench.state()).unwrap();
    assert!(matches!(again[0].outcome, Outcome::Left { why: Left::Gone, .. }));
    assert_eq!(again.len(), 1);
}

#[test]
fn a_damaged_record_is_named_and_kept_and_one_that_was_never_finished_goes() {
    let bench = Bench::new();
    let path = bench.file("a.rpm");
    let mut bytes = encode(&[record(&path)]);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = bench.plant("undo-1", &bytes);
    bench.plant("new-2", &bytes[..40]);
    let report = recover(&bench.state()).unwrap();
    assert!(matches!(report[0].outcome, Outcome::Left { why: Left::Record(Malformed::Checksum), .. }));
    assert_eq!(report.len(), 1);
    assert_eq!(bench.records(), [damaged]);
}

/// As it lies in the file that was reserved for records: a header in the first sector, the journal, room for others.
fn in_spare(time: u64, journal: &[u8]) -> Vec<u8> {
    let len = journal.len() as u64;
    let mut bytes = [*b"SEALKEPT", time.to_be_bytes(), len.to_be_bytes()].concat();
    bytes.resize(512, 0);
    bytes.extend_from_slice(journal);
    bytes.extend_from_slice(&[0x55; 5000]);
    bytes
}

#[test]
fn a_record_in_reserved_space_is_settled_as_any_other_and_reserved_space_without_one_goes() {
    let bench = Bench::new();
    let path = bench.file("a.rpm");
    let journal = encode(&[record(&path)]);
    let mut torn = old();
    torn[4000..4096].fill(0xee);
    fs::write(&path, &torn).unwrap();
    bench.plant("spare-1-0", &in_spare(5, &journal));
    bench.plant("spare-2-0", &[]);
    bench.plant("spare-3-0", &[0; 9000]);
    let mut unfinished = in_spare(5, &journal);
    unfinished[..24].fill(0);
    bench.plant("spare-4-0", &unfinished);
    let report = recover(&bench.state()).unwrap();
    assert!(matches!(report[..], [Recovered { outcome: Outcome::RolledBack, .. }]), "{report:?}");
    assert_eq!(fs::read(&path).unwrap(), old());
    assert!(bench.records().is_empty());
}

#[test]
fn reserved_space_with_a_damaged_record_is_named_and_kept() {
    let bench = Bench::new();
    let journal = encode(&[record(&bench.file("a.rpm"))]);
    let mut checksum = in_spare(5, &journal);
    checksum[600] ^= 1;
    let mut version = in_spare(5, &journal);
    version[7] ^= 1;
    let length = &in_spare(5, &journal)[..900];
    for (bytes, expected) in
        [(&checksum[..], Malformed::Checksum), (&version, Malformed::Version), (length, Malformed::Length)]
    {
        let planted = bench.plant("spare-1-0", bytes);
        let report = recover(&bench.state()).unwrap();
        let Outcome::Left { why: Left::Record(why), record } = &report[0].outcome else {
            panic!("{report:?}")
        };
        assert_eq!((why, record), (&expected, &planted));
        assert_eq!(fs::read(&planted).unwrap(), bytes);
    }
}

#[test]
fn of_two_records_of_one_file_the_later_is_settled_first_wherever_it_lies() {
    // What the later one says is new is what the earlier one says is old: in the wrong order the earlier fits nothing.
    for later_in_spare in [true, false] {
        let bench = Bench::new();
        let path = bench.file("a.rpm");
        let later = record(&path);
        let mut earlier = later.clone();
        for sector in &mut earlier.sectors {
            sector.new = sha256(&sector.old);
            sector.old.fill(0x33);
        }
        let mut torn = old();
        torn[4000..4096].fill(0xee);
        fs::write(&path, &torn).unwrap();
        let (in_own, in_reserved) = if later_in_spare { (&earlier, &later) } else { (&later, &earlier) };
        bench.plant("undo-00000000000000000007-0", &encode(std::slice::from_ref(in_own)));
        // Made before the other, and written after or before it.
        let time = if later_in_spare { 9 } else { 5 };
        let journal = encode(std::slice::from_ref(in_reserved));
        bench.plant("spare-00000000000000000001-0", &in_spare(time, &journal));
        let report = recover(&bench.state()).unwrap();
        assert!(matches!(report[0].outcome, Outcome::RolledBack), "{report:?}");
        assert!(matches!(report[1].outcome, Outcome::Completed), "{report:?}");
        assert_eq!(fs::read(&path).unwrap(), old());
        assert!(bench.records().is_empty());
    }
}

#[test]
fn the_record_of_a_live_process_is_left_alone() {
    let bench = Bench::new();
    let path = bench.file("a.rpm");
    let planted = bench.plant("undo-1", &encode(&[record(&path)]));
    let held = fs::File::open(&planted).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(recover(&bench.state()).unwrap().is_empty());
    drop(held);
    assert_eq!(recover(&bench.state()).unwrap().len(), 1);
}

#[test]
fn a_file_that_changed_in_hand_is_not_written_and_the_others_of_its_group_are() {
    let bench = Bench::new();
    let (first, second) = (bench.file("a.rpm"), bench.file("b.rpm"));
    let policy = bench.policy(HardLinks::Careful);
    let staged = [&first, &second].map(|path| (stage(path, &policy, true).unwrap(), edits()));
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(&first, vec![7; LEN]).unwrap();
    let outcomes = group::commit(staged.into());
    assert!(matches!(outcomes[0], Err(Error::Changed { .. })));
    assert!(outcomes[1].is_ok());
    assert_eq!(fs::read(&first).unwrap(), vec![7; LEN]);
    assert_eq!(fs::read(&second).unwrap(), edits().apply(&old()));
    assert!(bench.records().is_empty());
}

/// The bytes of version 1: a release that cannot read them any more cannot undo what an older one left.
#[test]
fn the_bytes_of_a_record_are_those_of_version_1() {
    let record = Record {
        device: 1,
        inode: 2,
        size: 600,
        modified: (-1, 3),
        path: b"/a".to_vec(),
        sectors: vec![Sector { offset: 512, old: vec![9; 88], new: [7; 32] }],
    };
    let mut golden = b"SEALUNDO\0\0\0\x01\0\0\0\x01".to_vec();
    golden.extend_from_slice(b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\x02\x58");
    golden.extend_from_slice(b"\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x03\0\0\0\x02/a\0\0\0\x01");
    golden.extend_from_slice(b"\0\0\0\0\0\0\x02\0\0\0\0\x58");
    golden.extend_from_slice(&[9; 88]);
    golden.extend_from_slice(&[7; 32]);
    let checksum = sha256(&golden);
    golden.extend_from_slice(&checksum);
    assert_eq!(encode(std::slice::from_ref(&record)), golden);
    assert_eq!(parse(&golden).unwrap(), [record]);
}

fn sectors() -> impl Strategy<Value = Vec<Sector>> {
    let sector = (0u64..40, proptest::collection::vec(any::<u8>(), 512), any::<[u8; 32]>())
        .prop_map(|(at, old, new)| Sector { offset: at * 512, old, new });
    proptest::collection::vec(sector, 0..4).prop_map(|mut sectors| {
        sectors.sort_by_key(|sector| sector.offset);
        sectors.dedup_by_key(|sector| sector.offset);
        sectors
    })
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let one = (any::<(u64, u64)>(), any::<(i64, u32)>(), "/[a-z\u{e4}]{0,20}", sectors()).prop_map(
        |((device, inode), modified, path, sectors)| {
            let path = path.into_bytes();
            Record { device, inode, size: 40 * 512, modified, path, sectors }
        },
    );
    proptest::collection::vec(one, 0..4)
}

proptest! {
    #[test]
    fn reading_undoes_writing(records in records()) {
        prop_assert_eq!(parse(&encode(&records)).unwrap(), records);
    }

    #[test]
    fn what_is_read_is_written_as_it_was_and_damage_never_panics(
        records in records(),
        damage in proptest::collection::vec((0usize..4000, any::<u8>()), 0..4),
        cut in 0usize..4000,
        sealed in any::<bool>(),
    ) {
        let mut bytes = encode(&records);
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut / 8));
        if sealed && bytes.len() >= 32 {
            // A checksum that is right: what is behind it is looked at too.
            let content = bytes.len() - 32;
            let checksum = sha256(&bytes[..content]);
            bytes[content..].copy_from_slice(&checksum);
        }
        if let Ok(read) = parse(&bytes) {
            prop_assert_eq!(encode(&read), bytes);
        }
    }
}
