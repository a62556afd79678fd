//! A limit of file sizes is named as what is in the way, beside a full disk, however small it is.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::arithmetic_side_effects,
    reason = "tests; the environment tells the child what it is"
)]

use std::path::Path;
use std::process::Command;

use sealwright_store::{Error, Store};

const FOLDER: &str = "SEALWRIGHT_TEST_FOLDER";
const TEST: &str = "a_limit_of_file_sizes_is_named_and_not_called_a_full_disk_alone";

/// Runs itself again under each limit, because the limit is the whole process's.
#[test]
fn a_limit_of_file_sizes_is_named_and_not_called_a_full_disk_alone() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return child(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut refused = 0;
    // In blocks of 512 or 1,024 bytes: below the index of the journal, below the journal, and above both.
    for limit in [1, 8, 16, 33, 70, 100_000] {
        let output = Command::new("sh")
            // Without the trap the kernel kills the process.
            .args(["-c", "trap '' XFSZ && ulimit -f \"$1\" && exec \"$2\" --exact \"$3\" --nocapture", "sh"])
            .arg(limit.to_string())
            .arg(std::env::current_exe().unwrap())
            .arg(TEST)
            .env(FOLDER, folder.path().join(format!("store{limit}")))
            .output()
            .unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{limit}: {text}");
        let done = text.contains("child: done");
        assert!(done || text.contains("(ulimit -f)"), "{limit}: {text}");
        assert!(done || limit < 100_000, "{text}");
        refused += u32::from(!done);
    }
    assert!(refused > 1, "{refused}");
}

fn child(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let result = runtime.block_on(async { Store::open(folder).await?.log_head().await });
    match result {
        Ok(_) => println!("child: done"),
        Err(error @ Error::CannotGrow) => println!("child: refused: {error}"),
        Err(error) => panic!("{error:?}"),
    }
}
