//! With few open files allowed, each call succeeds or says so; nothing panics and nothing hangs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests; the environment tells the child what it is"
)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sealwright_store::{Error, Store};

const FOLDER: &str = "SEALWRIGHT_TEST_FOLDER";
const TEST: &str = "a_low_limit_of_open_files_is_a_typed_error";

/// Runs itself again under each limit, because the limit is the whole process's.
#[test]
fn a_low_limit_of_open_files_is_a_typed_error() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return child(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let mut said = Vec::new();
    for limit in 3..24 {
        let output = Command::new("sh")
            .args(["-c", "ulimit -n \"$1\" && exec \"$2\" --exact \"$3\" --nocapture", "sh"])
            .arg(limit.to_string())
            .arg(std::env::current_exe().unwrap())
            .arg(TEST)
            .env(FOLDER, folder.path().join(format!("store{limit}")))
            .output()
            .unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let reached = text.contains("child: ");
        // Below some eight files not even the runtime of the test starts.
        assert!(!reached || output.status.success(), "{limit}: {text}");
        said.push((limit, reached, text.contains("child: refused"), text.contains("child: done")));
    }
    assert!(said.iter().any(|(_, _, refused, _)| *refused), "{said:?}");
    assert!(said.iter().any(|(_, _, _, done)| *done), "{said:?}");
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}

fn child(folder: &Path) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let result = runtime.block_on(async {
        let store = Store::open(folder).await?;
        store.log_head().await?;
        store.key_by_name("release").await
    });
    match result {
        Ok(key) => println!("child: done {}", key.is_none()),
        Err(error @ (Error::CannotOpen { .. } | Error::Path { .. } | Error::Overloaded)) => {
            println!("child: refused: {error}");
        }
        Err(other) => panic!("child: {other:?}"),
    }
}
