//! Files in a real directory: what is opened and what is refused, what a result keeps of its source, and that a
//! failure leaves nothing behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    reason = "tests"
)]

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::XattrFlags;
use sealwright_client::apply::{OutputDirectory, Policy, Staged, Target};
use sealwright_client::error::{Error, FileKind};
use sealwright_client::source::file::SourceFile;
use sealwright_client::source::{self, Directories, Entry, Place};
use sealwright_formats::prepared::Room;
use sealwright_formats::splice::{Edit, Edits};
use tempfile::TempDir;

fn named(path: &Path) -> Entry {
    Entry { shown: path.to_owned(), place: Place::Named }
}

fn file(dir: &TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, content).unwrap();
    path
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|item| item.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn content() -> Vec<u8> {
    (0..300_000u32).map(|at| (at % 253) as u8).collect()
}

fn edits(list: &[(u64, u64, &[u8])]) -> Edits {
    let edit = |(offset, remove, insert): &(u64, u64, &[u8])| Edit {
        offset: *offset,
        remove: *remove,
        insert: insert.to_vec(),
    };
    Edits::new(list.iter().map(edit).collect(), content().len() as u64).unwrap()
}

fn stage(path: &Path, growth_max: u64) -> Result<Staged, Error> {
    let source = Arc::new(SourceFile::open_locked(&named(path))?);
    let target = Target::replacing(&source);
    Staged::stage(source, target, &Policy::default(), &|_| room(growth_max))
}

fn room(growth_max: u64) -> Room {
    Room { from: 0, until: 300_000, growth_max, keeps_len: growth_max == 0, shares: growth_max == 0 }
}

#[test]
fn everything_that_is_no_regular_file_is_refused_by_its_own_name_and_nothing_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let open = |name: &str| SourceFile::open(&named(&at(name))).unwrap_err();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), rustix::fs::Mode::RUSR).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("loop", at("loop")).unwrap();
    fs::create_dir(at("dir")).unwrap();
    let kind = |name: &str| {
        let error = open(name);
        let Error::NotAFile { kind } = error else { panic!("{name}: {error}") };
        kind
    };
    assert_eq!(kind("fifo"), FileKind::Fifo);
    assert_eq!(kind("socket"), FileKind::Socket);
    assert_eq!(kind("dir"), FileKind::Directory);
    assert!(matches!(open("dangling"), Error::DanglingLink { target } if target == Path::new("nowhere")));
    assert!(matches!(open("absent"), Error::Missing));
    assert!(matches!(open("loop"), Error::Io { .. }));
    let device = SourceFile::open(&named(Path::new("/dev/null"))).unwrap_err();
    assert!(matches!(device, Error::NotAFile { kind: FileKind::Device }));
    assert!(open("dir").advice().contains("-r"));
}

#[test]
fn a_recursion_finds_regular_files_only_and_follows_no_link() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::create_dir(dir.path().join("outside")).unwrap();
    fs::write(dir.path().join("outside/o.rpm"), "o").unwrap();
    for name in ["x.rpm", "a/y.rpm", "a/b/z.rpm", "a/.sealwright-0123"] {
        fs::write(tree.join(name), name).unwrap();
    }
    symlink("../outside", tree.join("link")).unwrap();
    symlink("../outside/o.rpm", tree.join("o.rpm")).unwrap();
    symlink("x.rpm", tree.join("again.rpm")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, tree.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
    let listing = source::list(&[tree.clone(), tree.join("x.rpm")], Directories::Walk);
    let mut found: Vec<PathBuf> = listing.groups.iter().flatten().map(|entry| entry.shown.clone()).collect();
    let inodes: Vec<u64> = found.iter().map(|path| fs::metadata(path).unwrap().ino()).collect();
    assert!(inodes.is_sorted(), "in the order of the disk");
    found.sort();
    assert_eq!(found, ["a/b/z.rpm", "a/y.rpm", "x.rpm"].map(|name| tree.join(name)));
    assert_eq!(listing.repeated.len(), 1, "named and found");
    assert!(listing.failed.is_empty());
    for entry in listing.groups.iter().flatten() {
        SourceFile::open(entry).unwrap();
    }
}

#[test]
fn a_directory_that_becomes_a_link_after_the_listing_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::create_dir(dir.path().join("elsewhere")).unwrap();
    fs::write(tree.join("sub/a.rpm"), "a").unwrap();
    fs::write(dir.path().join("elsewhere/a.rpm"), "secret").unwrap();
    let listing = source::list(std::slice::from_ref(&tree), Directories::Walk);
    fs::rename(tree.join("sub"), tree.join("moved")).unwrap();
    symlink("../elsewhere", tree.join("sub")).unwrap();
    assert!(SourceFile::open(&listing.groups[0][0]).is_err());
}

#[test]
fn a_name_through_a_linked_directory_stands_for_the_file_in_the_real_one() {
    let dir = tempfile::tempdir().unwrap();
    let real_dir = dir.path().canonicalize().unwrap().join("real");
    fs::create_dir(&real_dir).unwrap();
    let real = real_dir.join("a.rpm");
    fs::write(&real, b"content").unwrap();
    let linked_dir = dir.path().join("linked");
    symlink(&real_dir, &linked_dir).unwrap();
    let link = dir.path().join("link.rpm");
    symlink(&real, &link).unwrap();
    let through =
        [linked_dir.join("a.rpm"), linked_dir.join("../real/a.rpm"), real_dir.join("./a.rpm"), link];
    for path in &through {
        assert_eq!(SourceFile::open(&named(path)).unwrap().path(), real, "{}", path.display());
    }
    let listing = source::list(&through, Directories::Walk);
    assert_eq!((listing.len(), listing.repeated.len()), (1, 3));
    // Only a directory may have a slash behind it.
    let mut slash = real.into_os_string();
    slash.push("/");
    assert!(SourceFile::open(&named(Path::new(&slash))).is_err());
}

#[test]
fn names_of_one_inode_are_one_group_and_a_name_given_twice_is_taken_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = file(&dir, "a.rpm", b"x");
    let second = dir.path().join("b.rpm");
    fs::hard_link(&first, &second).unwrap();
    symlink("a.rpm", dir.path().join("l.rpm")).unwrap();
    let paths = [first.clone(), second, first, dir.path().join("l.rpm")];
    let listing = source::list(&paths, Directories::Refuse);
    assert_eq!(listing.groups.len(), 1);
    assert_eq!(listing.groups[0].len(), 2);
    assert_eq!(listing.repeated.len(), 2);
}

#[test]
fn edits_that_keep_or_move_the_layout_give_what_they_say_through_either_way_of_staging() {
    let cases: [&[(u64, u64, &[u8])]; 5] = [
        &[(10, 4, b"abcd")],
        &[(0, 0, b"longer at the start"), (200_000, 3, b"")],
        &[(5, 1000, b"shorter")],
        &[(300_000, 0, b"at the end")],
        &[],
    ];
    for case in cases {
        for growth_max in [0, 4096] {
            let dir = tempfile::tempdir().unwrap();
            let path = file(&dir, "a.bin", &content());
            let edits = edits(case);
            let written = stage(&path, growth_max).unwrap().commit(edits.clone()).unwrap();
            assert_eq!(fs::read(&path).unwrap(), edits.apply(&content()), "{case:?} {growth_max}");
            assert_eq!(written.size, edits.new_len());
            assert_eq!(names(dir.path()), ["a.bin"]);
            // Nothing of the reserve is kept.
            let blocks = fs::metadata(&path).unwrap().blocks() * 512;
            assert!(blocks <= edits.new_len() + 8192, "{blocks}");
        }
    }
}

#[test]
fn mode_owner_attributes_and_links_are_kept_and_the_time_moves_forward() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "a.rpm", &content());
    let link = dir.path().join("link.rpm");
    symlink("a.rpm", &link).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    rustix::fs::setxattr(&path, "user.corpus", b"keepme", XattrFlags::empty()).unwrap();
    let ahead = std::time::SystemTime::now() + std::time::Duration::from_secs(1000);
    fs::File::open(&path).unwrap().set_modified(ahead).unwrap();
    let before = fs::metadata(&path).unwrap();
    stage(&link, 0).unwrap().commit(edits(&[(0, 1, b"X")])).unwrap();
    let after = fs::metadata(&path).unwrap();
    assert!(link.is_symlink());
    assert_eq!(after.mode(), before.mode());
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert!(after.mtime() > before.mtime(), "by a second, though the clock is behind it");
    let mut value = [0; 16];
    let len = rustix::fs::getxattr(&path, "user.corpus", &mut value).unwrap();
    assert_eq!(&value[..len], b"keepme");
    assert_eq!(fs::read(&path).unwrap()[0], b'X');
}

/// An ACL as the kernel keeps it: version 2, then tag, permissions and id of each entry, little-endian.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn an_acl_is_kept_and_the_one_that_a_directory_would_give_is_not_taken_on() {
    const NONE: u32 = u32::MAX;
    // Owner, user 1234, group, mask, others.
    let own = acl(&[(1, 6, NONE), (2, 4, 1234), (4, 4, NONE), (16, 4, NONE), (32, 0, NONE)]);
    let of_directory = acl(&[(1, 7, NONE), (2, 7, 4321), (4, 7, NONE), (16, 7, NONE), (32, 0, NONE)]);
    let dir = tempfile::tempdir().unwrap();
    let (with, without) = (file(&dir, "a.rpm", &content()), file(&dir, "b.rpm", &content()));
    rustix::fs::setxattr(&with, "system.posix_acl_access", &own, XattrFlags::empty()).unwrap();
    rustix::fs::setxattr(dir.path(), "system.posix_acl_default", &of_directory, XattrFlags::empty()).unwrap();
    let mode = fs::metadata(&without).unwrap().mode();
    for path in [&with, &without] {
        stage(path, 0).unwrap().commit(edits(&[(0, 1, b"X")])).unwrap();
    }
    let mut value = [0; 256];
    let len = rustix::fs::getxattr(&with, "system.posix_acl_access", &mut value).unwrap();
    assert_eq!(&value[..len], own);
    assert!(rustix::fs::getxattr(&without, "system.posix_acl_access", &mut value).is_err());
    assert_eq!(fs::metadata(&without).unwrap().mode(), mode);
}

#[test]
fn what_vouches_for_the_old_content_is_not_copied_and_other_labels_are() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "a.rpm", &content());
    let set =
        |name: &str, value: &[u8]| rustix::fs::setxattr(&path, name, value, XattrFlags::empty()).unwrap();
    set("security.ima", b"\x04\x04hash");
    set("security.sealwright-test", b"label");
    set("trusted.sealwright-test", b"trusted");
    let written = stage(&path, 0).unwrap().commit(edits(&[(0, 1, b"X")])).unwrap();
    assert_eq!(written.notes.len(), 1, "it is said: {:?}", written.notes);
    assert!(written.notes[0].starts_with("security.ima not kept"), "{:?}", written.notes);
    let mut value = [0; 256];
    assert!(rustix::fs::getxattr(&path, "security.ima", &mut value).is_err());
    for (name, kept) in [("security.sealwright-test", &b"label"[..]), ("trusted.sealwright-test", b"trusted")]
    {
        let len = rustix::fs::getxattr(&path, name, &mut value).unwrap();
        assert_eq!(&value[..len], kept);
    }
}

#[test]
fn an_immutable_file_is_refused_before_a_temporary_is_made() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "a.rpm", &content());
    let open = fs::File::open(&path).unwrap();
    if rustix::fs::ioctl_setflags(&open, rustix::fs::IFlags::IMMUTABLE).is_err() {
        return;
    }
    let refused = stage(&path, 0).unwrap_err();
    rustix::fs::ioctl_setflags(&open, rustix::fs::IFlags::empty()).unwrap();
    assert!(matches!(refused, Error::Immutable), "{refused}");
    assert_eq!(names(dir.path()), ["a.rpm"]);
}

#[test]
fn while_it_is_staged_the_temporary_is_private_and_never_looks_like_a_package() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "a.rpm", &content());
    let staged = stage(&path, 0).unwrap();
    let all = names(dir.path());
    let temporary = all.iter().find(|name| name.starts_with(".sealwright-")).unwrap();
    assert!(!temporary.ends_with(".rpm"));
    let mode = fs::metadata(dir.path().join(temporary)).unwrap().mode() & 0o777;
    assert_eq!(mode, 0o600);
    drop(staged);
    assert_eq!(names(dir.path()), ["a.rpm"]);
}

#[test]
fn a_second_signer_is_refused_while_the_first_has_the_file_and_not_after() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "a.rpm", &content());
    let first = stage(&path, 0).unwrap();
    assert!(matches!(stage(&path, 0), Err(Error::Locked)));
    first.commit(edits(&[(0, 1, b"X")])).unwrap();
    stage(&path, 0).unwrap();
}

#[test]
fn a_file_that_changes_in_hand_is_not_replaced() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 6] = [
        ("shorter", |path| {
            fs::OpenOptions::new().write(true).open(path).unwrap().set_len(100).unwrap();
        }),
        ("written to", |path| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let mut bytes = fs::read(path).unwrap();
            bytes[0] ^= 1;
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        }),
        ("longer", |path| {
            use std::io::Write as _;
            fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"x").unwrap();
        }),
        ("replaced", |path| {
            fs::write(path.with_extension("new"), content()).unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        }),
        ("gone", |path| fs::remove_file(path).unwrap()),
        ("linked", |path| fs::hard_link(path, path.with_extension("link")).unwrap()),
    ];
    for (what, change) in changes {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, "a.rpm", &content());
        let staged = stage(&path, 0).unwrap();
        change(&path);
        let now = fs::read(&path).ok();
        let error = staged.commit(edits(&[(0, 1, b"X")])).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{what}: {error}");
        assert_eq!(fs::read(&path).ok(), now, "{what}");
        assert!(names(dir.path()).iter().all(|name| !name.starts_with(".sealwright-")), "{what}");
    }
}

#[test]
fn a_broken_hard_link_is_reported_with_the_number_of_names_that_keep_the_old_content() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "a.rpm", &content());
    let other = dir.path().join("b.rpm");
    fs::hard_link(&path, &other).unwrap();
    let written = stage(&path, 0).unwrap().commit(edits(&[(0, 1, b"X")])).unwrap();
    assert_eq!(written.other_links, 1);
    assert_eq!(fs::read(&other).unwrap(), content());
}

#[test]
fn an_output_directory_gets_copies_under_the_same_paths_and_never_overwrites_a_source() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("sub/a.rpm"), content()).unwrap();
    let out = dir.path().join("out");
    let output = OutputDirectory::open(&out).unwrap();
    let listing = source::list(std::slice::from_ref(&tree), Directories::Walk);
    let entry = &listing.groups[0][0];
    let source = Arc::new(SourceFile::open_locked(entry).unwrap());
    let target = output.target(entry, &source).unwrap();
    Staged::stage(Arc::clone(&source), target, &Policy::default(), &|_| room(0))
        .unwrap()
        .commit(edits(&[(0, 1, b"X")]))
        .unwrap();
    assert_eq!(fs::read(tree.join("sub/a.rpm")).unwrap(), content());
    assert_eq!(fs::read(out.join("sub/a.rpm")).unwrap()[0], b'X');
    // The same source may be tried again; another of this name would overwrite the result.
    output.target(entry, &source).unwrap();
    let other = dir.path().join("other");
    fs::create_dir_all(other.join("sub")).unwrap();
    fs::write(other.join("sub/a.rpm"), content()).unwrap();
    let listing = source::list(std::slice::from_ref(&other), Directories::Walk);
    let same_name = SourceFile::open_locked(&listing.groups[0][0]).unwrap();
    let taken = output.target(&listing.groups[0][0], &same_name);
    assert!(matches!(taken, Err(Error::OutputNameTaken { .. })));

    let here = OutputDirectory::open(&tree.join("sub")).unwrap();
    let again = named(&tree.join("sub/a.rpm"));
    let target = here.target(&again, &source).unwrap();
    let error = Staged::stage(source, target, &Policy::default(), &|_| room(0)).unwrap_err();
    assert!(matches!(error, Error::OutputIsSource { .. }));
    assert_eq!(names(&tree.join("sub")), ["a.rpm"]);
}

#[test]
fn names_that_are_no_text_are_files_like_others() {
    let dir = tempfile::tempdir().unwrap();
    for name in [&b"\xff\xfe.rpm"[..], b"-dash.rpm", b"a b\n.rpm"] {
        let path = dir.path().join(std::ffi::OsStr::from_bytes(name));
        fs::write(&path, content()).unwrap();
        stage(&path, 0).unwrap().commit(edits(&[(0, 1, b"X")])).unwrap();
        assert_eq!(fs::read(&path).unwrap()[0], b'X');
    }
    assert_eq!(names(dir.path()).len(), 3);
}

#[test]
fn a_secret_is_read_with_limits_and_a_passphrase_is_the_first_line() {
    use sealwright_client::import::read_secret;
    let dir = tempfile::tempdir().unwrap();
    let key = file(&dir, "key.asc", b"secret");
    let passphrase = file(&dir, "pass", b"open sesame\r\nnot this\n");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&passphrase, fs::Permissions::from_mode(0o644)).unwrap();
    let secret = read_secret(&key, Some(&passphrase), None).unwrap();
    assert_eq!(secret.warnings().len(), 1, "the passphrase file is open to others");
    let long = file(&dir, "long", &vec![b'x'; (1 << 20) + 1]);
    let error = |path: &Path| read_secret(path, None, None).err().unwrap();
    let too_long = error(&long);
    let Error::Beside { path, source, .. } = &too_long else { panic!("{too_long}") };
    assert!(path == &long && matches!(**source, Error::TooLarge { .. }), "the file is named: {too_long}");
    assert!(error(&dir.path().join("none")).to_string().contains("none"));
    assert!(!error(dir.path()).advice().contains("-r"), "a directory is not walked for keys");
    let empty = file(&dir, "empty", b"\n");
    assert!(matches!(read_secret(&key, Some(&empty), None), Err(Error::EmptyFile { .. })));
}
