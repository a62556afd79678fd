//! Numbers are never given twice, gaps are declared, and the chain follows from what the log has.

use super::*;
use crate::seal::tests::ID;
use sealwright_crypto::digest::to_hex;

fn key(last: u8) -> KeyId {
    let mut id = ID;
    id[15] = last;
    KeyId::parse(&id).unwrap()
}

/// As it is when the keys are made.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    create(directory.path()).unwrap();
    directory
}

fn numbers(counts: &Counts, count: usize) -> Vec<u64> {
    (0..count).map(|_| counts.count(key(1), b"packet").unwrap().number).collect()
}

#[test]
fn numbers_rise_by_one_over_blocks_and_clean_ends() {
    let directory = directory();
    let mut all = Vec::new();
    for count in [3, 1500, 1, 0, 600] {
        let counts = Counts::open(directory.path()).unwrap();
        all.extend(numbers(&counts, count));
        counts.close();
    }
    let want: Vec<u64> = (1..=u64::try_from(all.len()).unwrap()).collect();
    assert_eq!(all, want);
    let counts = Counts::open(directory.path()).unwrap();
    let operation = counts.count(key(1), b"packet").unwrap();
    assert_eq!(operation.skipped, 0, "nothing was lost");
    assert_eq!(counts.count(key(2), b"packet").unwrap().number, 1, "each key has its own");
}

#[test]
fn the_chain_follows_from_reservations_and_packets() {
    let directory = directory();
    let counts = Counts::open(directory.path()).unwrap();
    let mut chain = start(&[0; 32], key(1), 1, BLOCK);
    for number in 1..=BLOCK {
        let packet = number.to_be_bytes();
        chain = step(&chain, number, &packet);
        assert_eq!(counts.count(key(1), &packet).unwrap(), Operation { number, skipped: 0, chain });
    }
    let next = start(&chain, key(1), BLOCK + 1, 2 * BLOCK);
    let operation = counts.count(key(1), b"x").unwrap();
    assert_eq!(operation.chain, step(&next, BLOCK + 1, b"x"));
}

/// Fixed for ever: entries in logs depend on it.
#[test]
fn golden_chain() {
    let block = start(&[0; 32], key(1), 1, 1024);
    let first = step(&block, 1, b"packet");
    assert_eq!(to_hex(&block), GOLDEN_BLOCK);
    assert_eq!(to_hex(&first), GOLDEN_FIRST);
}

const GOLDEN_BLOCK: &str = "63b68b80524f322407aeb82183a2668efe7924e04d0453dabb752dade4151511";
const GOLDEN_FIRST: &str = "4b8fa5d4e9b549ae4263131bcd52d6d956b64bf09a7fd1aa1a685cca94133cc1";

#[test]
fn a_killed_signer_leaves_a_gap_that_the_next_start_declares() {
    let directory = directory();
    let killed = Counts::open(directory.path()).unwrap();
    assert_eq!(numbers(&killed, 5), [1, 2, 3, 4, 5]);
    drop(killed);
    let counts = Counts::open(directory.path()).unwrap();
    let operation = counts.count(key(1), b"packet").unwrap();
    assert_eq!((operation.number, operation.skipped), (BLOCK + 1, BLOCK));
    let file = std::fs::read_to_string(directory.path().join(OPERATIONS_FILE)).unwrap();
    assert!(file.contains(&format!("{} lost 1 1024\n", to_hex(key(1).as_bytes()))), "{file}");
}

#[test]
fn signers_that_live_together_share_no_number_and_declare_each_other_not_lost() {
    let directory = directory();
    let one = Counts::open(directory.path()).unwrap();
    assert_eq!(numbers(&one, 2), [1, 2]);
    let two = Counts::open(directory.path()).unwrap();
    assert_eq!(numbers(&two, 2), [BLOCK + 1, BLOCK + 2]);
    assert_eq!(numbers(&one, 1), [3]);
    // The rest of the first block cannot be given back, since another follows: it is skipped.
    one.close();
    two.close();
    drop((one, two));
    let three = Counts::open(directory.path()).unwrap();
    let operation = three.count(key(1), b"packet").unwrap();
    assert_eq!((operation.number, operation.skipped), (BLOCK + 3, BLOCK - 3));
}

#[test]
fn many_threads_and_processes_never_get_one_number_twice() {
    let directory = directory();
    let seen = Mutex::new(std::collections::BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let counts = Counts::open(directory.path()).unwrap();
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| {
                            for number in numbers(&counts, 700) {
                                assert!(locked(&seen).insert(number), "{number}");
                            }
                        });
                    }
                });
                counts.close();
            });
        }
    });
    assert_eq!(locked(&seen).len(), 5600);
}

#[test]
fn a_line_cut_by_a_crash_is_cut_off_and_a_changed_one_stops_the_signer() {
    let directory = directory();
    let counts = Counts::open(directory.path()).unwrap();
    numbers(&counts, 1);
    counts.close();
    drop(counts);
    let path = directory.path().join(OPERATIONS_FILE);
    let good = std::fs::read(&path).unwrap();
    for cut in [b"0198".to_vec(), vec![0; 50]] {
        std::fs::write(&path, [good.as_slice(), &cut].concat()).unwrap();
        drop(Counts::open(directory.path()).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), good);
    }
    let text = String::from_utf8(good).unwrap();
    for bad in [
        text.replace("reserve 1 ", "reserve 2 "),
        text.replace("end 1 1 ", "end 1 1025 "),
        text.replace("end 1 1 ", "end 2 1 "),
        text.replace("operations 1", "operations 2"),
        text.replace(" 1024 ", " 01024 "),
        format!("{text}junk\n"),
    ] {
        std::fs::write(&path, &bad).unwrap();
        assert!(matches!(Counts::open(directory.path()), Err(Error::Damaged { .. })), "{bad}");
    }
}

#[test]
fn a_file_put_back_or_removed_while_we_run_gives_no_number() {
    let directory = directory();
    let counts = Counts::open(directory.path()).unwrap();
    numbers(&counts, 1);
    let path = directory.path().join(OPERATIONS_FILE);
    let older = std::fs::read(&path).unwrap();
    numbers(&counts, usize::try_from(BLOCK).unwrap());
    files::replace_private(directory.path(), OPERATIONS_FILE, &older).unwrap();
    assert!(counts.count(key(2), b"packet").is_err());
    std::fs::remove_file(&path).unwrap();
    assert!(counts.count(key(3), b"packet").is_err());
}

#[test]
fn a_count_that_was_lost_does_not_start_again() {
    let directory = directory();
    let path = directory.path().join(OPERATIONS_FILE);
    std::fs::remove_file(&path).unwrap();
    assert!(Counts::open(directory.path()).is_err());
    assert!(!path.exists(), "made anew");
}

#[test]
fn a_long_file_is_written_anew_and_says_the_same() {
    let directory = directory();
    for _ in 0..400 {
        let counts = Counts::open(directory.path()).unwrap();
        numbers(&counts, 1);
        counts.close();
    }
    let size = std::fs::metadata(directory.path().join(OPERATIONS_FILE)).unwrap().len();
    assert!(size < 70_000, "{size}");
    let counts = Counts::open(directory.path()).unwrap();
    let operation = counts.count(key(1), b"packet").unwrap();
    assert_eq!((operation.number, operation.skipped), (401, 0));
}
