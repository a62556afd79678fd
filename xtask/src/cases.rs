//! Runs the cases of fixtures/cases with the real program: `setup.sh` makes files, our commands run, `check.sh`
//! (or, where there is none, the code here after `expected.md`) says what is right.

mod documents;
mod files;
mod keys;
mod rpm;
mod stage;
mod tokens;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use crate::error::Error;
use crate::{Result, process};
use stage::Stage;

/// What a case does between `setup.sh` and `check.sh`; `Err` says what was not right.
type Steps = fn(&Stage) -> std::result::Result<(), String>;

/// Every case: the folder, and our commands for it.
const CASES: &[(&str, Steps)] = &[
    ("clear-dashes", documents::clear_dashes),
    ("file-concurrent-same", files::concurrent_same),
    ("file-disk-full", files::disk_full),
    ("file-empty-and-junk", files::empty_and_junk),
    ("file-odd-names", files::odd_names),
    ("future-clock", keys::future_clock),
    ("gpg-parallel-64", files::parallel_64),
    ("hsm-sessions", tokens::sessions),
    ("key-expired-subkey-choice", keys::expired_subkey_choice),
    ("key-sha1-selfsig", keys::sha1_selfsig),
    ("key-subkey-only-secret", keys::subkey_only_secret),
    ("multi-signer-inrelease", documents::multi_signer_inrelease),
    ("repomd-order", documents::repomd_order),
    ("rpm-4gib-tags", rpm::four_gib_tags),
    ("rpm-badima-resign", rpm::badima_resign),
    ("rpm-double-addsign", rpm::double_addsign),
    ("rpm-hardlinked-package-file", rpm::hardlinked),
    ("rpm-md5-wrong-refuse", rpm::md5_wrong),
    ("rpm-metadata-preserved", rpm::metadata_preserved),
    ("rpm-mpi-leading-zero", rpm::mpi_leading_zero),
    ("rpm-nfpm-sha256-only", rpm::nfpm_sha256_only),
    ("rpm-no-payload-digest", rpm::no_payload_digest),
    ("rpm-region-trailer-malformed", rpm::region_trailer),
    ("rpm-resign-both-kinds", rpm::resign_both_kinds),
    ("rpm-v6-sign", rpm::v6_sign),
    ("sig-packet-version", documents::sig_packet_version),
    ("verify-states", files::verify_states),
];

/// Runs the cases whose name contains one of `names`, all if there is none, and prints a table.
pub(crate) fn run(release: bool, names: &[String]) -> Result<()> {
    let folder = process::root().join("fixtures/cases");
    every_folder_has_steps(&folder)?;
    let program = process::build_sealwright(release)?;
    let mut failed = 0_usize;
    for (name, steps) in CASES {
        if !names.is_empty() && !names.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let start = Instant::now();
        let outcome = one(&program, &folder.join(name), *steps);
        let seconds = start.elapsed().as_secs_f32();
        match outcome {
            Ok(()) => println!("PASS  {name:<32} {seconds:6.1} s"),
            Err(reason) => {
                failed = failed.saturating_add(1);
                println!("FAIL  {name:<32} {seconds:6.1} s\n      {}", reason.replace('\n', "\n      "));
            }
        }
    }
    if failed == 0 { Ok(()) } else { Err(Error::Findings { count: failed, what: "cases failed" }) }
}

fn every_folder_has_steps(folder: &Path) -> Result<()> {
    let there: BTreeSet<String> = std::fs::read_dir(folder)
        .map_err(Error::file(folder))?
        .filter_map(std::result::Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let ours: BTreeSet<String> = CASES.iter().map(|(name, _)| (*name).to_owned()).collect();
    match there.symmetric_difference(&ours).next() {
        None => Ok(()),
        Some(name) => {
            Err(Error::unexpected(format!("case {name}: a folder without steps, or steps without a folder")))
        }
    }
}

fn one(program: &Path, case: &Path, steps: Steps) -> std::result::Result<(), String> {
    let stage = Stage::new(program, case)?;
    stage.setup()?;
    steps(&stage)
}
