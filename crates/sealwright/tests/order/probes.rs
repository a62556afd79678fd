//! Steps that leave nothing in the world: authorise, the check of the key at the log entry, the comparison of the
//! file; and a store that refuses. Each is pinned by something that this step alone refuses: what must come before it
//! was done, and nothing after it. Answers that lie are in `lying_signer.rs`.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use sealwright_testkit::effects::{Object, Step, Way, check};
use sealwright_testkit::fixtures::ED25519;
use sealwright_testkit::trace::{Act, Actor, Call, Moment, Traced};

use crate::bench::{Bench, DETACHED, HEADER, IN_PLACE, State, first_home};
use crate::faults::Recorded;
use crate::spot::Spots;

/// How long a second process keeps the store.
const KEPT: Duration = Duration::from_millis(700);

fn is_question(bench: &Bench, call: &Call) -> bool {
    call.actor == Actor::Front && call.is_write() && call.has(&bench.place.sealed)
}

fn has(bench: &Bench, traced: &Traced, is: impl Fn(&Call, Object) -> bool) -> bool {
    traced.calls.iter().any(|call| is(call, bench.place.object(call)))
}

/// The file is as it was, nothing is beside it, and the run says that it failed.
fn unchanged(bench: &Bench, traced: &Traced, words: &[&str]) {
    traced.ran.failed_saying(words);
    assert_eq!(bench.state(), State::Old, "{}", traced.ran.text());
    assert_eq!(bench.leftovers(), Vec::<String>::new());
}

#[test]
fn what_is_not_authorised_is_not_recorded_and_never_reaches_the_signer() {
    let bench = Bench::new(first_home(), HEADER);
    // Only the policy of front reads this.
    bench.home.sql("UPDATE keys SET usages = x''");
    let traced = bench.run(&mut |_, _| Act::Go);
    unchanged(&bench, &traced, &["is not for the usage"]);
    assert!(!has(&bench, &traced, |call, object| object == Object::StoreLog && call.is_write()));
    assert!(!has(&bench, &traced, |call, _| is_question(&bench, call)));
    assert_eq!(bench.home.sql("SELECT COUNT(*) FROM intents"), ["0"]);
}

#[test]
fn a_key_disabled_while_its_signature_is_made_gives_no_entry_and_no_signature() {
    for manner in [HEADER, IN_PLACE, DETACHED] {
        let bench = Bench::new(first_home(), manner);
        let mut disabled = false;
        let traced = bench.run(&mut |call, moment| {
            if moment == Moment::Before && !disabled && is_question(&bench, call) {
                bench.home.ok(&["key", "disable", ED25519.name]);
                disabled = true;
            }
            Act::Go
        });
        assert!(disabled);
        unchanged(&bench, &traced, &["disabled"]);
        let answered =
            |call: &Call, object| call.actor == Actor::Signer && object == Object::Numbers && call.is_sync();
        assert!(has(&bench, &traced, answered), "the signer signed and counted");
        assert_eq!(bench.home.log_size(), 0);
    }
}

#[test]
fn a_file_that_changes_in_the_last_moment_is_not_written_and_the_entry_stands() {
    for manner in [HEADER, IN_PLACE, DETACHED] {
        let recorded = Recorded::new(manner);
        let bench = Bench::new(recorded.home.twin(), manner);
        let last_moment = recorded.spot_before(Step::SourceCompared);
        let mut theirs = bench.original.clone();
        *theirs.last_mut().unwrap() ^= 1;
        let mut spots = Spots::new(&bench.place);
        let mut changed = false;
        let traced = bench.run(&mut |call, moment| {
            if spots.at(call, moment) == Some(last_moment) {
                fs::write(&bench.place.source, &theirs).unwrap();
                changed = true;
            }
            Act::Go
        });
        assert!(changed);
        traced.ran.failed_saying(&["changed"]);
        assert!(fs::read(&bench.place.source).unwrap() == theirs, "{manner:?}");
        assert!(manner.way != Way::Beside || !bench.place.result.exists());
        assert_eq!(bench.leftovers(), Vec::<String>::new(), "{manner:?}");
        assert_eq!(bench.home.log_size(), 1, "{manner:?}");
    }
}

#[test]
fn a_store_that_refuses_a_row_stops_the_request_there() {
    let refusals = [
        ("BEFORE INSERT ON intents", false),
        ("BEFORE INSERT ON log", true),
        ("BEFORE UPDATE ON log_head", true),
        ("BEFORE UPDATE OF outcome ON intents", true),
    ];
    for (when, asked) in refusals {
        let bench = Bench::new(first_home(), HEADER);
        bench.home.sql(&format!("CREATE TRIGGER refuse {when} BEGIN SELECT RAISE(ABORT, 'no'); END"));
        let traced = bench.run(&mut |_, _| Act::Go);
        unchanged(&bench, &traced, &["store"]);
        assert_eq!(has(&bench, &traced, |call, _| is_question(&bench, call)), asked, "{when}");
        assert_eq!(bench.home.log_size(), 0, "{when}");
        bench.home.sql("DROP TRIGGER refuse");
        bench.home.ok(&bench.arguments());
        assert!(bench.is_signed(), "{when}");
        assert_eq!(bench.entries(), [1], "{when}");
    }
}

/// A second process has the store for writing when the answer of the signer comes.
#[test]
fn nothing_is_written_to_a_file_while_its_entry_waits_for_the_store() {
    for manner in [HEADER, IN_PLACE, DETACHED] {
        let bench = Bench::new(first_home(), manner);
        let kept = Arc::new(AtomicBool::new(false));
        let mut keeper = None;
        let mut written_while_kept = false;
        let traced = bench.run(&mut |call, moment| {
            if moment == Moment::Before && keeper.is_none() && is_question(&bench, call) {
                keeper = Some(keep_the_store(&bench, &kept));
            }
            let object = bench.place.object(call);
            let is_result =
                [Object::Source, Object::SignatureFile, Object::Temporary, Object::Undo].contains(&object);
            let writes =
                is_result && call.actor == Actor::Front && (call.is_write() || call.name == "renameat");
            written_while_kept |= writes && kept.load(Ordering::SeqCst);
            Act::Go
        });
        keeper.expect("the signer was asked").join().unwrap();
        assert_eq!(traced.ran.code, Some(0), "{}", traced.ran.text());
        assert!(!written_while_kept, "{manner:?}");
        assert_eq!(check(&bench.effects(&traced), manner.way), Ok(()), "{manner:?}");
        assert_eq!(bench.entries(), [1]);
    }
}

/// Returns when the store is taken; it is given back after a while.
fn keep_the_store(bench: &Bench, kept: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    const SCRIPT: &str = r#"
import sqlite3, sys
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute("BEGIN IMMEDIATE")
print("taken", flush=True)
sys.stdin.read()
store.execute("ROLLBACK")
"#;
    let store = bench.home.home().join("store/store.db");
    let kept = Arc::clone(kept);
    let (taken, is_taken) = channel();
    // Children of this thread are waited for by the tracer.
    let keeper = std::thread::spawn(move || {
        let mut python = Command::new("python3");
        python.args(["-c", SCRIPT]).arg(store);
        let mut python = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 5];
        python.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        kept.store(true, Ordering::SeqCst);
        taken.send(()).unwrap();
        std::thread::sleep(KEPT);
        // Before it is given back: whoever writes after this line may have had the entry.
        kept.store(false, Ordering::SeqCst);
        drop(python.stdin.take());
        assert!(python.wait().unwrap().success());
    });
    is_taken.recv().unwrap();
    keeper
}
