//! What the next run, and the way back, make of a journal that was killed, damaged or finished.

use super::*;

fn before(bytes: &[u8]) -> Before {
    Before { offset: 96, bytes: bytes.to_vec(), size: 1000 }
}

fn open_in(folder: &tempfile::TempDir, digest: u8) -> Result<(Arc<Journal>, Past), Error> {
    let place = Place::File(folder.path().join("j"));
    Journal::open(&place, [digest; 32], &|_| Ok(())).map(|(journal, past)| (Arc::new(journal), past))
}

#[tokio::test]
async fn what_was_asked_and_not_applied_is_asked_again_under_the_same_id_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, past) = open_in(&folder, 1).unwrap();
    assert_eq!(past, Past::None);
    let open = journal.asked(Path::new("/t/open"), before(b"old")).await.unwrap();
    let done = journal.asked(Path::new("/t/done"), before(b"old")).await.unwrap();
    journal.applied(Path::new("/t/done"), 1, Some(7)).await.unwrap();
    journal.flush().await.unwrap();
    drop(journal);
    let (journal, past) = open_in(&folder, 1).unwrap();
    assert!(matches!(past, Past::Begun { applied: 1, open: 1, .. }), "{past:?}");
    assert_eq!(journal.asked(Path::new("/t/open"), before(b"")).await.unwrap(), open);
    assert_ne!(journal.asked(Path::new("/t/done"), before(b"")).await.unwrap(), done);
}

#[tokio::test]
async fn a_torn_tail_is_cut_off_at_every_length_and_what_was_before_it_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = open_in(&folder, 1).unwrap();
    journal.asked(Path::new("/t/a"), before(b"old")).await.unwrap();
    let whole = std::fs::metadata(folder.path().join("j")).unwrap().len();
    journal.asked(Path::new("/t/b"), before(b"old")).await.unwrap();
    drop(journal);
    let bytes = std::fs::read(folder.path().join("j")).unwrap();
    for len in usize::try_from(whole).unwrap()..bytes.len() {
        std::fs::write(folder.path().join("j"), &bytes[..len]).unwrap();
        let (journal, past) = open_in(&folder, 1).unwrap();
        assert!(matches!(past, Past::Begun { open: 1, .. }), "{len}: {past:?}");
        assert!(journal.is_open(Path::new("/t/a")) && !journal.is_open(Path::new("/t/b")));
        assert_eq!(std::fs::metadata(folder.path().join("j")).unwrap().len(), whole);
    }
}

#[tokio::test]
async fn damage_before_whole_records_is_no_torn_tail_and_only_the_way_back_goes_past_it() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = open_in(&folder, 1).unwrap();
    for name in ["/t/a", "/t/b", "/t/c"] {
        journal.asked(Path::new(name), before(b"old")).await.unwrap();
    }
    drop(journal);
    let path = folder.path().join("j");
    let bytes = std::fs::read(&path).unwrap();
    let record = (bytes.len() - HEAD_BYTES) / 3;
    for at in HEAD_BYTES..HEAD_BYTES + 2 * record {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        std::fs::write(&path, &damaged).unwrap();
        let refused = open_in(&folder, 1).unwrap_err();
        assert!(matches!(refused, Error::Campaign(CampaignFault::JournalDamaged { .. })), "{at}: {refused}");
        let mut found = 0;
        let journal = Journal::open_existing(&path).unwrap();
        let (_, damage) = journal
            .whole_records(&mut |_| {
                found += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(found, 2, "{at}");
        assert!(matches!(damage, Some(Error::Campaign(CampaignFault::JournalDamaged { .. }))));
        assert_eq!(std::fs::read(&path).unwrap(), damaged, "it is left as it is");
    }
}

#[test]
fn a_journal_for_which_there_was_no_room_says_so_each_time() {
    let path = Path::new("/t/j");
    let full = Error::write(path, 1, Errno::NOSPC.into());
    let again = Broken::by(&full).again(path);
    assert!(matches!(again, Error::NoSpace { need: 1, .. }), "{again}");
    let unknown = Error::sync(path, 1, Errno::IO.into());
    assert!(matches!(Broken::by(&unknown).again(path), Error::Sync { .. }));
}

#[tokio::test]
async fn a_finished_journal_is_kept_aside_and_a_foreign_or_damaged_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = open_in(&folder, 1).unwrap();
    assert!(!journal.finish(false).await.unwrap(), "nothing was asked for");
    drop(journal);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let (journal, _) = open_in(&folder, 1).unwrap();
    journal.asked(Path::new("/t/a"), before(b"old")).await.unwrap();
    assert!(journal.finish(false).await.unwrap());
    assert!(matches!(open_in(&folder, 1), Err(Error::Campaign(CampaignFault::JournalBusy { .. }))));
    drop(journal);
    let (journal, past) = open_in(&folder, 1).unwrap();
    assert_eq!(past, Past::None);
    drop(journal);
    let names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().any(|name| name.starts_with("j.") && name.ends_with(".done")), "{names:?}");
    assert!(matches!(open_in(&folder, 2), Err(Error::Campaign(CampaignFault::JournalOfAnother { .. }))));
    std::fs::write(folder.path().join("j"), [0; 100]).unwrap();
    assert!(matches!(open_in(&folder, 1), Err(Error::Campaign(CampaignFault::JournalDamaged { .. }))));
}

#[tokio::test]
async fn a_file_that_the_server_refused_is_a_new_request_the_next_time() {
    use sealwright_proto::status::{Code, Fault};
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = open_in(&folder, 1).unwrap();
    let path = Path::new("/t/a");
    let first = journal.asked(path, before(b"")).await.unwrap();
    journal.failed(path, &Error::ConnectionLost { source: None }).await.unwrap();
    assert_eq!(journal.asked(path, before(b"")).await.unwrap(), first);
    journal.failed(path, &Fault::new(Code::KeyExpired, "x").into()).await.unwrap();
    assert_ne!(journal.asked(path, before(b"")).await.unwrap(), first);
}
