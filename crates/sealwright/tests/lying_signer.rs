//! Key operations that go wrong, seen from the file: the real client, front, store and signer, and between front and
//! signer, on the real frames, something that spoils every signature. No call succeeds, and no file changes.
//!
//! The signer's own check of its key operations is tested beside it; this is what stands behind that check.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

#[path = "lies/between.rs"]
mod between;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use between::{Between, Lie};
use hyper_util::rt::TokioIo;
use sealwright_client::connection::{Connection, NewKey, Priority};
use sealwright_client::sign::{Done, Effect, Request, Signer};
use sealwright_client::source::{Entry, Place};
use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::usage::Usage;
use sealwright_formats::options::SignOptions;
use sealwright_server::{Config, Front, Principal};
use sealwright_testkit::fixtures;
use tonic::transport::{Endpoint, Uri};

const PACKAGE: &str = "gen_tiny-reserved4096.rpm";
/// Files of one round.
const FILES: usize = 100;
/// Rounds of each lie: five lies, 10,000 calls.
const ROUNDS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn of_ten_thousand_spoiled_signatures_none_is_a_success_and_none_reaches_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let between = Between::start(&folder.path().join("root"));
    let front =
        Front::start(Config::default(), &folder.path().join("store"), between.socket()).await.unwrap();
    let connection = connect(&front).await;
    for name in ["release", "other"] {
        connection.create(new_key(name)).await.unwrap();
    }
    let signer = Arc::new(Signer::new(connection, "release", request(), None).await.unwrap());
    let original = fs::read(fixtures::package(PACKAGE)).unwrap();
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    let files: Vec<PathBuf> = (0..FILES).map(|number| work.join(format!("{number}.rpm"))).collect();
    for file in &files {
        fs::write(file, &original).unwrap();
    }
    let mut calls = 0;
    for lie in Lie::ALL {
        between.tell(lie);
        for _ in 0..ROUNDS {
            assert_eq!(sign(&signer, &files).await, 0, "{lie:?}");
            calls += files.len();
        }
        for file in &files {
            assert!(fs::read(file).unwrap() == original, "{lie:?} changed {}", file.display());
        }
        assert_eq!(fs::read_dir(&work).unwrap().count(), FILES, "{lie:?} left something beside the files");
    }
    assert_eq!((calls, between.spoiled() >= calls), (10_000, true), "{}", between.spoiled());
    // The control: without a lie the same parts sign.
    between.tell(Lie::None);
    assert_eq!(sign(&signer, &files).await, FILES);
    assert!(files.iter().all(|file| fs::read(file).unwrap() != original));
}

/// How many were signed.
async fn sign(signer: &Arc<Signer>, files: &[PathBuf]) -> usize {
    let mut tasks = tokio::task::JoinSet::new();
    for (index, file) in files.iter().enumerate() {
        let (signer, entry) = (Arc::clone(signer), named(file));
        tasks.spawn(async move { signer.sign(index, &entry).await });
    }
    let reports = tasks.join_all().await;
    reports.iter().filter(|report| matches!(report.outcome, Ok(Done::Signed(_)))).count()
}

fn named(file: &Path) -> Entry {
    Entry { shown: file.to_owned(), place: Place::Named }
}

fn request() -> Request {
    Request {
        options: SignOptions::default(),
        format: None,
        salt: true,
        effect: Effect::Write,
        policy: sealwright_client::apply::Policy::default(),
        priority: Priority::Batch,
    }
}

fn new_key(name: &str) -> NewKey {
    NewKey {
        name: name.to_owned(),
        algorithm: "ed25519".to_owned(),
        user_id: format!("{name} <{name}@example.org>"),
        valid_for_s: None,
        signing_subkey: false,
        version: KeyVersion::V4,
        token: None,
        usages: vec![Usage::OpenPgp],
        bare_digests_on_primary: false,
    }
}

async fn connect(front: &Front) -> Connection {
    let (ours, theirs) = tokio::io::duplex(256 << 10);
    let front = front.clone();
    tokio::spawn(async move { front.serve_stream(theirs, Principal::local()).await });
    let mut half = Some(TokioIo::new(ours));
    let connector = tower::service_fn(move |_: Uri| {
        let half = half.take();
        async move { half.ok_or_else(|| std::io::Error::other("connected already")) }
    });
    let channel = Endpoint::from_static("http://test").connect_with_connector(connector).await.unwrap();
    Connection::new(channel)
}
