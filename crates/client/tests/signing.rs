//! Signing from paths to files, over a real gRPC connection to a service in this process that signs with a real
//! key of the fixtures, or misbehaves as told. The real front and signer are tested in crate `testkit`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    reason = "tests"
)]

#[path = "signing/service.rs"]
mod service;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealwright_client::apply::journal::StateDirectory;
use sealwright_client::apply::{Policy, Writing};
use sealwright_client::batch::{self, Observer, Stop, Summary};
use sealwright_client::connection::{Connection, Priority};
use sealwright_client::error::Error;
use sealwright_client::sign::detached::StreamDone;
use sealwright_client::sign::{Done, Effect, FileReport, Request, Signer};
use sealwright_client::source::{self, Directories, Entry, Place};
use sealwright_client::{strip, trust, verify};
use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::openpgp::verify::State;
use sealwright_formats::options::{IfSigned, SignOptions};
use sealwright_proto::status::Code;
use tempfile::TempDir;

use service::{Fault, Service, fixture, fixture_path};

const UNSIGNED: &str = "rpm/rpmorg_hello-2.0-1.x86_64.rpm";

#[derive(Default)]
struct Reports(Vec<(PathBuf, String)>);

impl Observer for Reports {
    fn finished(&mut self, report: &FileReport) {
        let outcome = match &report.outcome {
            Ok(Done::Signed(_)) => "signed".to_owned(),
            Ok(Done::Unchanged { why, .. }) => why.clone(),
            Ok(Done::WouldSign { signatures }) => format!("would sign {signatures}"),
            Ok(Done::Skipped) => "skipped".to_owned(),
            Err(error) => error.to_string(),
        };
        self.0.push((report.path.clone(), outcome));
    }
}

fn request() -> Request {
    Request {
        options: SignOptions::default(),
        format: None,
        salt: false,
        effect: Effect::Write,
        priority: Priority::Interactive,
        policy: Policy::default(),
    }
}

fn copy(dir: &TempDir, name: &str) -> PathBuf {
    let to = dir.path().join("a.rpm");
    fs::copy(fixture_path(name), &to).unwrap();
    to
}

fn named(path: &Path) -> Entry {
    Entry { shown: path.to_owned(), place: Place::Named }
}

async fn signer(service: Service, request: Request) -> Arc<Signer> {
    Arc::new(Signer::new(service.connect().await, "release", request, None).await.unwrap())
}

fn state(path: &Path) -> State {
    let keyring = trust::from_files(&[fixture_path("pgp-key/gen_ed25519.pub.asc")]).unwrap();
    verify::verify(0, &named(path), None, &keyring).outcome.unwrap().unwrap().state()
}

fn only(dir: &TempDir) {
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was left behind");
}

#[tokio::test]
async fn a_package_is_signed_verified_and_stripped_back_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = copy(&dir, "rpm/gen_tiny-reserved4096.rpm");
    let before = fs::read(&path).unwrap();
    let signer = signer(Service::default(), request()).await;
    let report = signer.sign(0, &named(&path)).await;
    let Ok(Done::Signed(signed)) = &report.outcome else { panic!("{report:?}") };
    assert_eq!(signed.log_indexes, [0]);
    assert!(report.sent_bytes > 0 && report.sent_bytes < 4096, "{}", report.sent_bytes);
    assert_eq!(state(&path), State::Valid);
    assert_eq!(fs::metadata(&path).unwrap().len(), before.len() as u64, "the reserve took it");
    let again = signer.sign(1, &named(&path)).await;
    assert!(matches!(again.outcome, Ok(Done::Unchanged { .. })), "{again:?}");
    let stripped = strip::strip(0, &named(&path), Effect::Write, None);
    assert!(stripped.outcome.is_ok(), "{stripped:?}");
    assert_eq!(fs::read(&path).unwrap(), before);
    only(&dir);
}

#[tokio::test]
async fn a_wrong_answer_never_reaches_the_file() {
    for fault in [
        Fault::OtherContent,
        Fault::OtherKey,
        Fault::Garbage,
        Fault::NotMyItems,
        Fault::Refused(Code::KeyDisabled),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = copy(&dir, UNSIGNED);
        let before = fs::read(&path).unwrap();
        let signer = signer(Service::failing(fault), request()).await;
        let report = signer.sign(0, &named(&path)).await;
        let error = report.outcome.unwrap_err();
        let expected = match fault {
            Fault::OtherContent => {
                matches!(&error, Error::SignatureRefused { state } if state.starts_with("bad") && !state.contains("before"))
            }
            Fault::OtherKey => {
                matches!(&error, Error::SignatureRefused { state } if state.contains("asked for"))
            }
            Fault::Garbage => matches!(error, Error::BadAnswerBytes { .. }),
            Fault::NotMyItems => matches!(error, Error::BadAnswer { .. }),
            Fault::Refused(code) => error.server_code() == Some(code),
            Fault::None
            | Fault::LostOnce
            | Fault::BusyOnce
            | Fault::Silent
            | Fault::OtherSalt
            | Fault::TicketsOnce
            | Fault::NoTicket
            | Fault::Several(_) => false,
        };
        assert!(expected, "{fault:?}: {error}");
        assert_eq!(fs::read(&path).unwrap(), before, "{fault:?}");
        only(&dir);
    }
}

#[tokio::test]
async fn a_lost_connection_and_a_busy_server_are_asked_again_with_the_same_request_id() {
    for fault in [Fault::LostOnce, Fault::BusyOnce] {
        let dir = tempfile::tempdir().unwrap();
        let path = copy(&dir, UNSIGNED);
        let service = Service::failing(fault);
        let asked = Arc::clone(&service.asked);
        let report = signer(service, request()).await.sign(0, &named(&path)).await;
        assert!(matches!(report.outcome, Ok(Done::Signed(_))), "{fault:?}: {report:?}");
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 2, "{fault:?}");
        assert_eq!(asked[0], asked[1], "{fault:?}");
    }
}

#[tokio::test]
async fn a_file_changed_while_the_signature_was_made_is_reported_as_signed_but_not_applied() {
    let dir = tempfile::tempdir().unwrap();
    let path = copy(&dir, UNSIGNED);
    let mut service = Service::default();
    let victim = path.clone();
    service.before_answer = Some(Arc::new(move || fs::write(&victim, "somebody else's").unwrap()));
    let report = signer(service, request()).await.sign(0, &named(&path)).await;
    let error = report.outcome.unwrap_err();
    let Error::NotApplied { log_index: 0, source } = &error else { panic!("{error}") };
    assert!(matches!(**source, Error::Changed { .. }));
    assert_eq!(fs::read(&path).unwrap(), b"somebody else's");
    only(&dir);
}

/// Something happens to a file right before the answer comes.
fn meanwhile(happens: impl Fn() + Send + Sync + 'static) -> Service {
    Service { before_answer: Some(Arc::new(happens)), ..Service::default() }
}

/// The error of a signature that was made and not applied.
fn not_applied(report: FileReport) -> Error {
    let error = report.outcome.unwrap_err();
    let Error::NotApplied { source, .. } = error else { panic!("{error}") };
    *source
}

#[tokio::test]
async fn a_file_that_grows_or_shrinks_during_signing_is_left_as_it_is_however_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let state = Arc::new(StateDirectory::open(&dir.path().join("state")).unwrap());
    let in_place = Policy { writing: Writing::InPlace(state), ..Policy::default() };
    let requests = [
        request(),
        Request { policy: in_place, ..request() },
        Request { format: Some("detached"), ..request() },
    ];
    for (number, request) in requests.into_iter().enumerate() {
        for grows in [true, false] {
            let work = dir.path().join(format!("{number}{grows}"));
            fs::create_dir(&work).unwrap();
            let path = work.join("a.rpm");
            fs::copy(fixture_path("rpm/gen_tiny-reserved4096.rpm"), &path).unwrap();
            let victim = path.clone();
            let service = meanwhile(move || {
                let file = fs::File::options().write(true).open(&victim).unwrap();
                let len = file.metadata().unwrap().len();
                file.set_len(if grows { len + 1000 } else { len - 1000 }).unwrap();
            });
            let error = not_applied(signer(service, request.clone()).await.sign(0, &named(&path)).await);
            assert!(matches!(error, Error::Changed { .. }), "{error}");
            let mut expected = fixture("rpm/gen_tiny-reserved4096.rpm");
            expected.resize(if grows { expected.len() + 1000 } else { expected.len() - 1000 }, 0);
            assert!(fs::read(&path).unwrap() == expected, "it was written to");
            assert_eq!(fs::read_dir(&work).unwrap().count(), 1, "something was left behind");
            let left = fs::read_dir(dir.path().join("state")).unwrap();
            assert!(left.map(|entry| entry.unwrap().file_name()).all(|name| name == "lock"));
        }
    }
}

#[tokio::test]
async fn a_signature_file_that_appears_or_changes_during_signing_is_not_replaced() {
    let theirs = fixture("pgp-sig/librepo_test_data.txt.asc");
    for if_signed in [IfSigned::Replace, IfSigned::Add] {
        for was_there in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let (path, sidecar) = (dir.path().join("data"), dir.path().join("data.asc"));
            fs::write(&path, "content").unwrap();
            if was_there {
                fs::write(&sidecar, theirs.repeat(2)).unwrap();
            }
            let (victim, new) = (sidecar.clone(), theirs.clone());
            let service = meanwhile(move || fs::write(&victim, &new).unwrap());
            let options = SignOptions { if_signed, ..SignOptions::default() };
            let request = Request { format: Some("detached"), options, ..request() };
            let error = not_applied(signer(service, request).await.sign(0, &named(&path)).await);
            let Error::Beside { source, .. } = &error else { panic!("{error}") };
            assert!(matches!(**source, Error::Changed { .. }), "{source}");
            assert_eq!(fs::read(&sidecar).unwrap(), theirs);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "something was left behind");
        }
    }
}

#[tokio::test]
async fn signatures_of_other_keys_that_are_kept_are_noted_as_not_checked() {
    let add = SignOptions { if_signed: IfSigned::Add, ..SignOptions::default() };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    fs::write(&path, "content").unwrap();
    for (count, note) in [
        (1, "kept 1 signature of another key, not checked"),
        (2, "kept 2 signatures of other keys, not checked"),
    ] {
        // They are over something else, which nobody notices.
        let theirs = fixture("pgp-sig/librepo_test_data.txt.asc").repeat(count);
        fs::write(dir.path().join("data.asc"), theirs).unwrap();
        let request = Request { format: Some("detached"), options: add.clone(), ..request() };
        let report = signer(Service::default(), request).await.sign(0, &named(&path)).await;
        assert!(matches!(report.outcome, Ok(Done::Signed(_))), "{report:?}");
        assert!(report.notes.iter().any(|said| said == note), "{:?}", report.notes);
    }
    let path = copy(&dir, "rpm/gen_tiny-signed-rsa4096.rpm");
    let request = Request { options: add, ..request() };
    let report = signer(Service::default(), request).await.sign(0, &named(&path)).await;
    assert!(matches!(report.outcome, Ok(Done::Signed(_))), "{report:?}");
    let kept = |note: &&String| *note == "kept 1 signature of another key, not checked";
    assert_eq!(report.notes.iter().filter(kept).count(), 1, "{:?}", report.notes);
}

#[tokio::test]
async fn a_signature_file_that_would_hold_more_than_anybody_reads_is_refused_before_a_signature() {
    let dir = tempfile::tempdir().unwrap();
    let (path, sidecar) = (dir.path().join("data"), dir.path().join("data.asc"));
    fs::write(&path, "content").unwrap();
    let full = fixture("pgp-sig/librepo_test_data.txt.asc").repeat(64);
    fs::write(&sidecar, &full).unwrap();
    let service = Service::default();
    let asked = Arc::clone(&service.asked);
    let options = SignOptions { if_signed: IfSigned::Add, ..SignOptions::default() };
    let request = Request { format: Some("detached"), options, ..request() };
    let report = signer(service, request).await.sign(0, &named(&path)).await;
    assert!(matches!(report.outcome, Err(Error::KeyFile { .. })), "{report:?}");
    assert!(asked.lock().unwrap().is_empty());
    assert_eq!(fs::read(&sidecar).unwrap(), full);
}

#[tokio::test]
async fn a_disabled_key_and_a_lying_server_are_noticed_before_any_file() {
    let disabled = Service { disabled: true, ..Service::default() };
    let error = Signer::new(disabled.connect().await, "release", request(), None).await.err().unwrap();
    assert_eq!(error.server_code(), Some(Code::KeyDisabled));
    let other = "0123456789abcdef0123456789abcdef01234567";
    let error = Signer::new(Service::default().connect().await, other, request(), None).await.err().unwrap();
    assert!(matches!(error, Error::BadAnswer { .. }), "{error}");
}

#[tokio::test]
async fn a_dry_run_asks_nothing_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = copy(&dir, UNSIGNED);
    let before = fs::read(&path).unwrap();
    let service = Service::default();
    let asked = Arc::clone(&service.asked);
    let report =
        signer(service, Request { effect: Effect::DryRun, ..request() }).await.sign(0, &named(&path)).await;
    assert!(matches!(report.outcome, Ok(Done::WouldSign { signatures: 1 })), "{report:?}");
    assert!(asked.lock().unwrap().is_empty());
    assert_eq!(fs::read(&path).unwrap(), before);
    only(&dir);
}

async fn batch_of(connection: Connection, paths: &[PathBuf]) -> (Summary, Vec<(PathBuf, String)>) {
    let signer = Arc::new(Signer::new(connection, "release", request(), None).await.unwrap());
    let (_level, stop) = tokio::sync::watch::channel(0);
    let mut reports = Reports::default();
    let listing = source::list(paths, Directories::Walk);
    let summary = batch::sign(&signer, listing, 8, &Stop::from_level(stop), &mut reports).await;
    (summary, reports.0)
}

#[tokio::test]
async fn in_a_batch_one_bad_file_does_not_stop_the_others_and_every_file_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("tree")).unwrap();
    for name in ["tree/1.rpm", "tree/2.rpm", "good.rpm"] {
        fs::copy(fixture_path(UNSIGNED), at(name)).unwrap();
    }
    fs::write(at("tree/notes.txt"), "no package").unwrap();
    fs::write(at("empty.rpm"), "").unwrap();
    fs::write(at("html.rpm"), "<!DOCTYPE html><html>404").unwrap();
    let paths = ["tree", "good.rpm", "empty.rpm", "html.rpm", "absent.rpm", "good.rpm"].map(at);
    let (summary, reports) = batch_of(Service::default().connect().await, &paths).await;
    let counts = (summary.signed, summary.failed, summary.skipped, summary.unchanged, summary.not_begun);
    assert_eq!(counts, (3, 3, 1, 1, 0), "{reports:?}");
    let said = |name: &str| {
        reports
            .iter()
            .find(|(path, text)| *path == at(name) && text != "signed")
            .map(|(_, text)| text.clone())
    };
    assert!(said("empty.rpm").unwrap().contains("empty"));
    assert!(said("html.rpm").unwrap().contains("web page"));
    assert!(said("absent.rpm").unwrap().contains("no such file"));
    assert_eq!(state(&at("good.rpm")), State::Valid);
    assert!(summary.sent_bytes > 0 && summary.written_bytes > 0);
}

/// Packages of different sizes, and what is claimed of each.
fn many(dir: &TempDir) -> (Vec<PathBuf>, Vec<(String, u64)>) {
    let paths: Vec<PathBuf> = (0..40).map(|number| dir.path().join(format!("p{number:02}.rpm"))).collect();
    let mut claims = Vec::new();
    for (path, name) in paths.iter().zip(["rpm/gen_tiny-reserved4096.rpm", UNSIGNED].iter().cycle()) {
        fs::copy(fixture_path(name), path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        claims.push((name, fs::metadata(path).unwrap().len()));
    }
    (paths, claims)
}

#[tokio::test]
async fn files_that_are_ready_together_are_asked_for_together_and_each_has_its_own_signature_and_claim() {
    let dir = tempfile::tempdir().unwrap();
    let (paths, claims) = many(&dir);
    let service = Service::default();
    let (asked, claimed) = (Arc::clone(&service.asked), Arc::clone(&service.claims));
    let (summary, _) = batch_of(service.connect().await, &paths).await;
    assert_eq!((summary.signed, summary.failed), (40, 0));
    assert!(paths.iter().all(|path| state(path) == State::Valid));
    let asked = asked.lock().unwrap().len();
    assert!(asked < 40, "{asked} groups for 40 files, of which 8 are in hand");
    let mut claimed = claimed.lock().unwrap().clone();
    claimed.sort();
    assert_eq!(claimed, claims);
}

#[tokio::test]
async fn a_group_that_is_refused_as_a_whole_for_one_of_its_items_is_asked_for_file_by_file() {
    let dir = tempfile::tempdir().unwrap();
    let (paths, _) = many(&dir);
    let service = Service::failing(Fault::Several(Code::UsageNotAllowed));
    let (summary, reports) = batch_of(service.connect().await, &paths).await;
    assert_eq!((summary.signed, summary.failed), (40, 0), "{reports:?}");
    // What is no item's fault is told to each file, and nothing is asked again.
    let (paths, _) = many(&dir);
    let service = Service::failing(Fault::Several(Code::KeyDisabled));
    let asked = Arc::clone(&service.asked);
    let (summary, _) = batch_of(service.connect().await, &paths).await;
    assert_eq!(summary.signed + summary.failed, 40);
    assert!(summary.failed > 0 && asked.lock().unwrap().len() < 40);
}

#[tokio::test]
async fn a_group_whose_answer_was_lost_is_asked_for_again_under_its_own_id_and_no_file_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (paths, _) = many(&dir);
    let service = Service::failing(Fault::LostOnce);
    let (asked, claimed) = (Arc::clone(&service.asked), Arc::clone(&service.claims));
    let (summary, _) = batch_of(service.connect().await, &paths).await;
    assert_eq!((summary.signed, summary.failed), (40, 0));
    let asked = asked.lock().unwrap();
    let ids: std::collections::BTreeSet<_> = asked.iter().map(|id| *id.as_bytes()).collect();
    assert!(asked[1..].contains(&asked[0]), "the first group came again");
    // Each file is in the groups of one id.
    let claimed = claimed.lock().unwrap().len();
    assert!(claimed > 40 && ids.len() < asked.len(), "{claimed} items in {} groups", asked.len());
}

#[tokio::test]
async fn both_names_of_one_inode_are_signed_and_the_broken_link_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let first = copy(&dir, UNSIGNED);
    let second = dir.path().join("b.rpm");
    fs::hard_link(&first, &second).unwrap();
    let signer = signer(Service::default(), request()).await;
    let report = signer.sign(0, &named(&first)).await;
    assert!(report.warnings.iter().any(|warning| warning.contains("hard link")), "{report:?}");
    let (summary, _) = batch_of(Service::default().connect().await, &[first.clone(), second.clone()]).await;
    assert_eq!(summary.signed + summary.unchanged, 2);
    assert_eq!((state(&first), state(&second)), (State::Valid, State::Valid));
}

#[tokio::test]
async fn a_detached_signature_lies_beside_its_file_and_follows_if_signed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.tar");
    let sidecar = dir.path().join("data.tar.asc");
    fs::write(&path, "content").unwrap();
    let of = |if_signed| Request {
        format: Some("detached"),
        options: SignOptions { if_signed, ..SignOptions::default() },
        ..request()
    };
    let first = signer(Service::default(), of(IfSigned::Replace)).await;
    assert!(matches!(first.sign(0, &named(&path)).await.outcome, Ok(Done::Signed(_))));
    assert_eq!(fs::read(&path).unwrap(), b"content");
    assert_eq!(state(&path), State::Valid);
    assert_eq!(state(&sidecar), State::Valid, "named by its signature file");
    let made = fs::read(&sidecar).unwrap();

    let again = first.sign(0, &named(&path)).await;
    assert!(matches!(again.outcome, Ok(Done::Unchanged { .. })));
    fs::write(&path, "other content").unwrap();
    assert_eq!(state(&path), State::Bad);
    let skip = signer(Service::default(), of(IfSigned::Skip)).await;
    assert!(matches!(skip.sign(0, &named(&path)).await.outcome, Ok(Done::Unchanged { .. })));
    let refuse = signer(Service::default(), of(IfSigned::Refuse)).await;
    assert!(refuse.sign(0, &named(&path)).await.outcome.is_err());
    assert_eq!(fs::read(&sidecar).unwrap(), made);
    assert!(matches!(first.sign(0, &named(&path)).await.outcome, Ok(Done::Signed(_))));
    assert_eq!(state(&path), State::Valid);
}

#[tokio::test]
async fn a_stream_is_signed_once_read_and_needs_a_format() {
    let request = |format| Request { format, ..request() };
    let signer_of = |format| signer(Service::default(), request(format));
    let stop = Stop::from_level(tokio::sync::watch::channel(0).1);
    let done = signer_of(Some("detached")).await.sign_stream(&b"content"[..], &stop).await.unwrap();
    let StreamDone::Signed(signed) = done else { panic!("{done:?}") };
    assert_eq!(signed.read_bytes, 7);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s"), "content").unwrap();
    fs::write(dir.path().join("s.asc"), &signed.signature).unwrap();
    assert_eq!(state(&dir.path().join("s")), State::Valid);
    let error = signer_of(None).await.sign_stream(&b"content"[..], &stop).await.unwrap_err();
    assert!(matches!(error, Error::StreamWithoutFormat));
    assert!(signer_of(Some("rpm")).await.sign_stream(&b"content"[..], &stop).await.is_err());
}

#[tokio::test]
async fn a_server_that_never_answers_is_left_by_a_second_stop_and_the_file_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = copy(&dir, UNSIGNED);
    let service = Service::failing(Fault::Silent);
    let asked = Arc::clone(&service.asked);
    let signer = signer(service, request()).await;
    let (level, stop) = tokio::sync::watch::channel(0);
    let listing = source::list(std::slice::from_ref(&path), Directories::Refuse);
    let mut reports = Reports::default();
    let stop = Stop::from_level(stop);
    let batch = batch::sign(&signer, listing, 1, &stop, &mut reports);
    let stopper = async {
        while asked.lock().unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        level.send_replace(2);
    };
    let (summary, ()) = tokio::join!(batch, stopper);
    assert_eq!(summary.not_begun, 1);
    assert_eq!(fs::read(&path).unwrap(), fixture(UNSIGNED));
    only(&dir);
}

const V6_PACKAGE: &str = "rpm/rpmrs_v6_rpm-basic-2.3.4-5.el9.noarch.rpm";

fn of_v6_key(fault: Fault) -> Service {
    Service { version: KeyVersion::V6, fault, ..Service::default() }
}

#[tokio::test]
async fn each_file_of_a_version_6_key_has_a_salt_of_its_own_and_one_request_gives_many() {
    let dir = tempfile::tempdir().unwrap();
    let service = of_v6_key(Fault::None);
    let signer = signer(service.clone(), request()).await;
    let mut keyring = sealwright_crypto::openpgp::certificate::Keyring::new();
    keyring.push(service::certificate(KeyVersion::V6));
    for number in 0..10 {
        let path = dir.path().join(format!("{number}.rpm"));
        fs::copy(fixture_path(V6_PACKAGE), &path).unwrap();
        let report = signer.sign(number, &named(&path)).await;
        assert!(matches!(report.outcome, Ok(Done::Signed(_))), "{report:?}");
        let verification = verify::verify(0, &named(&path), None, &keyring).outcome.unwrap().unwrap();
        assert_eq!(verification.state(), State::Valid);
    }
    let used = service.tickets.lock().unwrap().clone();
    let different: std::collections::HashSet<_> = used.iter().map(|ticket| ticket.clone().unwrap()).collect();
    assert_eq!((used.len(), different.len()), (10, 10));
    assert_eq!(*service.salts_asked.lock().unwrap(), [4, 8]);
    // What is left as it is uses none up.
    for number in 0..10 {
        let report = signer.sign(number, &named(&dir.path().join(format!("{number}.rpm")))).await;
        assert!(matches!(report.outcome, Ok(Done::Unchanged { .. })), "{report:?}");
    }
    assert_eq!(*service.salts_asked.lock().unwrap(), [4, 8]);
}

#[tokio::test]
async fn a_detached_signature_of_a_version_6_key_is_seen_to_be_there_although_salts_differ() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.txt");
    fs::write(&path, b"content").unwrap();
    let service = of_v6_key(Fault::None);
    let request = Request { format: Some("detached"), ..request() };
    let signer = signer(service.clone(), request).await;
    assert!(matches!(signer.sign(0, &named(&path)).await.outcome, Ok(Done::Signed(_))));
    assert!(matches!(signer.sign(1, &named(&path)).await.outcome, Ok(Done::Unchanged { .. })));
    fs::write(&path, b"changed").unwrap();
    assert!(
        matches!(signer.sign(2, &named(&path)).await.outcome, Ok(Done::Signed(_))),
        "it is of another content"
    );
    assert_eq!(service.tickets.lock().unwrap().len(), 2);
}

/// A stranger hashes the salt that the packet has: with another one than ours the signature verifies nowhere.
#[tokio::test]
async fn a_signature_with_another_salt_never_reaches_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = copy(&dir, V6_PACKAGE);
    let before = fs::read(&path).unwrap();
    let report = signer(of_v6_key(Fault::OtherSalt), request()).await.sign(0, &named(&path)).await;
    assert!(matches!(report.outcome, Err(Error::SignatureRefused { .. })), "{report:?}");
    assert_eq!(fs::read(&path).unwrap(), before);
    only(&dir);
}

#[tokio::test]
async fn after_a_refused_ticket_the_file_is_hashed_once_more_after_a_new_salt_and_only_once() {
    for (fault, asked) in [(Fault::TicketsOnce, 2), (Fault::NoTicket, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let path = copy(&dir, V6_PACKAGE);
        let service = of_v6_key(fault);
        let report = signer(service.clone(), request()).await.sign(0, &named(&path)).await;
        if fault == Fault::TicketsOnce {
            assert!(matches!(report.outcome, Ok(Done::Signed(_))), "{report:?}");
        } else {
            assert_eq!(report.outcome.unwrap_err().server_code(), Some(Code::TicketRefused));
        }
        let requests = service.asked.lock().unwrap().clone();
        assert_eq!(requests.len(), asked);
        assert_ne!(requests[0], requests[1], "other content is another request");
        let tickets = service.tickets.lock().unwrap().clone();
        assert_ne!(tickets[0], tickets[1]);
        assert_eq!(service.salts_asked.lock().unwrap().len(), 2, "the reserve was thrown away");
        only(&dir);
    }
}
