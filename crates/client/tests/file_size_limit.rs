//! A write that fails part-way, without a full disk: the process may write files of 64 KiB at most. The limit
//! holds for the whole process, so this test is alone in its program.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, setrlimit};
use sealwright_client::apply::{Policy, Staged, Target};
use sealwright_client::batch::Stop;
use sealwright_client::error::Error;
use sealwright_client::source::file::SourceFile;
use sealwright_client::source::{Entry, Place};
use sealwright_formats::prepared::Room;
use sealwright_formats::splice::{Edit, Edits};

fn stage(source: Arc<SourceFile>, target: Target, growth_max: u64) -> Result<Staged, Error> {
    let room = Room { from: 0, until: 0, growth_max, keeps_len: growth_max == 0, shares: growth_max == 0 };
    Staged::stage(source, target, &Policy::default(), &|_| room)
}

#[tokio::test]
async fn a_write_above_the_limit_is_an_error_that_names_it_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.rpm");
    let content = vec![7u8; 200_000];
    fs::write(&path, &content).unwrap();
    // Without this the kernel kills the process (SIGXFSZ).
    let _stop = Stop::on_signals().unwrap();
    let limit = |current| Rlimit { current, maximum: None };
    let entry = Entry { shown: path.clone(), place: Place::Named };
    for growth_max in [0, 4096] {
        setrlimit(Resource::Fsize, limit(Some(65_536))).unwrap();
        let source = Arc::new(SourceFile::open_locked(&entry).unwrap());
        let target = Target::replacing(&source);
        let error = stage(source, target, growth_max).unwrap_err();
        assert!(matches!(error, Error::FileSizeLimit { .. }), "{error}");
        assert!(error.to_string().contains("ulimit -f"));
        assert_eq!(fs::read(&path).unwrap(), content);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    // The limit falls between staging and writing: the result would be longer than the copy.
    setrlimit(Resource::Fsize, limit(Some(200_010))).unwrap();
    let source = Arc::new(SourceFile::open_locked(&entry).unwrap());
    let target = Target::replacing(&source);
    let staged = stage(source, target, 0).unwrap();
    let longer = Edit { offset: 200_000, remove: 0, insert: vec![1; 100] };
    let error = staged.commit(Edits::new(vec![longer], 200_000).unwrap()).unwrap_err();
    assert!(matches!(error, Error::FileSizeLimit { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), content);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

    // With space the next run works.
    setrlimit(Resource::Fsize, limit(None)).unwrap();
    let source = Arc::new(SourceFile::open_locked(&entry).unwrap());
    let target = Target::replacing(&source);
    let one = Edit { offset: 0, remove: 1, insert: vec![1] };
    stage(source, target, 0).unwrap().commit(Edits::new(vec![one], 200_000).unwrap()).unwrap();
    assert_eq!(fs::read(&path).unwrap()[0], 1);
}
