//! Replays the seeds of a fuzz target in the normal test command. Each is a file of `fuzz/seeds/TARGET`, named after
//! what it is or after the rule that it once broke.

use std::panic::{UnwindSafe, catch_unwind};
use std::path::Path;

/// Runs `body` over every seed of `target`; fails with the names of those on which it panics, or if there is none.
pub(crate) fn replay(target: &str, body: impl Fn(&[u8]) + Copy + UnwindSafe) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut seeds: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    let panics = |seed: &&std::path::PathBuf| {
        let bytes = std::fs::read(seed).unwrap();
        catch_unwind(move || body(&bytes)).is_err()
    };
    let failed: Vec<_> = seeds.iter().filter(panics).collect();
    assert!(failed.is_empty(), "{target}: {failed:?}");
}
