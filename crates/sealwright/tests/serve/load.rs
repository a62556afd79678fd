//! Clients that sign, round after round, until they are told to stop; and what must be true of it afterwards.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Hasher, to_hex};
use sealwright_crypto::openpgp::armor;
use sealwright_testkit::server::Server;

/// Files of a round.
const FILES: usize = 60;

/// Signs the files of one folder again and again.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    signed: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<String>>,
}

impl Load {
    /// A client that signs the files of a new folder with this key.
    pub(crate) fn start(server: &Server, folder: &str, key: &str) -> Self {
        let files = server.files(folder, FILES);
        let (stop, signed) = <(Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
        let said = server.work().join(format!("{folder}.said"));
        let arguments = ["sign", "--format", "detached", "--force", "--jobs", "4", "--json", "--key", key];
        let mut command = server.command(&arguments);
        let paths: Vec<PathBuf> = files.iter().map(|file| server.work().join(file)).collect();
        command.args(files);
        let (stopping, counting) = (Arc::clone(&stop), Arc::clone(&signed));
        let thread = std::thread::spawn(move || {
            let mut failures = Vec::new();
            for round in 0.. {
                if stopping.load(Ordering::SeqCst) {
                    break;
                }
                // Ed25519 gives one signature for one content in one second, however often it is asked.
                for path in &paths {
                    std::fs::write(path, format!("{} in round {round}", path.display())).unwrap();
                }
                // Into a file: a pipe that nobody reads would fill, and hold the program up.
                let [out, err] =
                    [0, 1].map(|number| File::create(said.with_extension(format!("{number}"))).unwrap());
                let status = command.stdout(out).stderr(err).status().unwrap();
                let [out, err] = [0, 1]
                    .map(|number| std::fs::read_to_string(said.with_extension(format!("{number}"))).unwrap());
                let round = Round::of(&out);
                counting.fetch_add(round.signed, Ordering::SeqCst);
                let all = round.signed + round.failures.len();
                assert!(!err.contains("panicked"), "{err}");
                // Either each file has a line, or the whole run says why it did not begin.
                let not_begun = status.code() == Some(3) && all == 0 && out.contains("\"error\"");
                assert!(all == FILES || not_begun, "{status}: {all} files\n{out}\n{err}");
                assert_eq!(status.success(), round.signed == FILES, "{out}");
                failures.extend(round.failures);
                if not_begun {
                    failures.push(out);
                }
            }
            failures
        });
        Self { stop, signed, thread }
    }

    /// Signatures so far, of whole rounds.
    pub(crate) fn signed(&self) -> usize {
        self.signed.load(Ordering::SeqCst)
    }

    /// Waits for the end of the round in work. The failures of files, as they were reported.
    pub(crate) fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

struct Round {
    signed: usize,
    failures: Vec<String>,
}

impl Round {
    fn of(said: &str) -> Self {
        let mut round = Self { signed: 0, failures: Vec::new() };
        for line in said.lines() {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            match object["status"].as_str() {
                Some("signed") => round.signed += 1,
                Some("failed") if object.get("file").is_some() => {
                    // A failure is typed: it has a code, and says whether to come again.
                    assert!(object["code"].is_string(), "{object}");
                    round.failures.push(line.to_owned());
                }
                _ => (),
            }
        }
        round
    }
}

/// Each signature in a file of these folders has exactly one log entry.
pub(crate) fn each_signature_is_logged_once(server: &Server, folders: &[&str]) {
    let mut logged = BTreeMap::<String, usize>::new();
    let entries = server.sql("SELECT hex(entry) FROM log");
    for folder in folders {
        for number in 0..FILES {
            let file: PathBuf = server.work().join(folder).join(format!("{number}.txt.asc"));
            let Ok(signature) = std::fs::read(&file) else { continue };
            let packet = armor::decode_or_binary(&signature).unwrap();
            let hash = to_hex(Hasher::digest(HashAlgorithm::Sha256, &packet).as_bytes()).to_uppercase();
            let found = entries.iter().filter(|entry| entry.contains(&hash)).count();
            assert_eq!(found, 1, "{}", file.display());
            *logged.entry(hash).or_default() += 1;
        }
    }
    assert!(!logged.is_empty(), "nothing was signed");
    assert!(logged.values().all(|count| *count == 1), "two files have one signature");
    let counts = server.sql("SELECT (SELECT COUNT(*) FROM log), (SELECT size FROM log_head)");
    let (rows, head) = counts[0].split_once('|').unwrap();
    assert_eq!(rows, head, "rows of the log against its head");
}
