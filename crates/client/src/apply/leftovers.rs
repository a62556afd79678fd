//! Temporaries that a killed run left behind: recognised by name, removed by the next run that makes one in the
//! same directory. A name is `.sealwright-SYSTEM-PID-RANDOM`; SYSTEM stands for one boot and one namespace of
//! process numbers, where PID means something.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::process::Pid;

use crate::apply::undo::sha256;
use crate::source::{TEMPORARY_PREFIX, os_name};

/// Random bytes in a name: two signers of one directory never meet.
const RANDOM_BYTES: usize = 8;
/// Age in seconds from which a temporary of another machine or of an earlier start is taken for dead: no file is
/// in hand that long without being written to.
const FOREIGN_AGE_S: i64 = 24 * 3600;

/// What tells systems apart: boot and namespace of process numbers.
static SYSTEM: LazyLock<String> = LazyLock::new(|| {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace =
        rustix::fs::statat(CWD, "/proc/self/ns/pid", AtFlags::empty()).map_or(0, |stat| stat.st_ino);
    let hash = sha256(&[boot.as_slice(), &namespace.to_be_bytes()].concat());
    sealwright_crypto::digest::to_hex(hash.get(..4).unwrap_or_default())
});

/// Directories that this process has looked through.
static SEEN: LazyLock<Mutex<HashSet<(u64, u64)>>> = LazyLock::new(Mutex::default);

/// A new name for a temporary of this process; it never ends like a package.
pub(crate) fn fresh_name() -> rustix::io::Result<OsString> {
    let mut random = [0; RANDOM_BYTES];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let random = sealwright_crypto::digest::to_hex(&random);
    Ok(format!("{TEMPORARY_PREFIX}{}-{}-{random}", *SYSTEM, std::process::id()).into())
}

/// Removes what dead runs left in this directory, the first time that this process is in it. Whatever fails only
/// leaves something behind.
pub(crate) fn remove_once(dir: &OwnedFd) {
    let Ok(stat) = rustix::fs::fstat(dir) else { return };
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_new = seen.insert((stat.st_dev, stat.st_ino));
    drop(seen);
    if !is_new {
        return;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(listed) = rustix::fs::openat(dir, ".", flags, Mode::empty()).and_then(Dir::new) else { return };
    for item in listed {
        let Ok(item) = item else { return };
        let name = item.file_name();
        if name.to_bytes().starts_with(TEMPORARY_PREFIX.as_bytes())
            && let Some(made_by) = MadeBy::parse(&name.to_string_lossy())
            && is_dead(dir, &os_name(name), &made_by)
        {
            let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
        }
    }
}

/// The process of a name.
#[derive(Debug, PartialEq, Eq)]
struct MadeBy {
    system: String,
    pid: i32,
}

impl MadeBy {
    /// `None` for names that are not exactly ours.
    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(TEMPORARY_PREFIX)?.split('-');
        let (system, pid, random) = (parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit());
        let ours = is_hex(system, 8) && is_hex(random, 2 * RANDOM_BYTES) && parts.next().is_none();
        let pid = pid.parse().ok().filter(|pid| *pid > 0)?;
        ours.then(|| Self { system: system.to_owned(), pid })
    }

    fn is_gone(&self, age_s: i64) -> bool {
        if self.system != *SYSTEM {
            return age_s > FOREIGN_AGE_S;
        }
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        let another = u32::try_from(self.pid) != Ok(std::process::id());
        another && rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
    }
}

/// A regular file of this user (root signs for all), of a process that is gone, that nobody has locked.
fn is_dead(dir: &OwnedFd, name: &OsString, made_by: &MadeBy) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(dir, name, flags, Mode::empty()) else { return false };
    let Ok(stat) = rustix::fs::fstat(&file) else { return false };
    let me = rustix::process::geteuid().as_raw();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age_s = i64::try_from(since.as_secs()).unwrap_or_default().saturating_sub(stat.st_ctime);
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && (me == 0 || stat.st_uid == me)
        && made_by.is_gone(age_s)
        && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_exactly_ours_are_taken_for_leftovers() {
        let fresh = fresh_name().unwrap().into_string().unwrap();
        let ours = MadeBy::parse(&fresh).unwrap();
        assert_eq!((ours.system.as_str(), ours.pid), (SYSTEM.as_str(), std::process::id().cast_signed()));
        assert!(!ours.is_gone(i64::MAX), "we live");
        let foreign = [
            ".sealwright-0123456789abcdef",
            ".sealwright-01234567-5-0123456789abcdef.rpm",
            ".sealwright-01234567-0-0123456789abcdef",
            ".sealwright-0123456-5-0123456789abcdef",
            ".sealwright-01234567-5-0123456789abcdef-",
            "a.sealwright-01234567-5-0123456789abcdef",
        ];
        assert!(foreign.iter().all(|name| MadeBy::parse(name).is_none()));
    }

    #[test]
    fn a_temporary_of_another_system_must_be_old_to_be_taken_for_dead() {
        let other = MadeBy { system: "00000000".to_owned(), pid: 1 };
        assert!(!other.is_gone(60));
        assert!(other.is_gone(FOREIGN_AGE_S + 1));
    }
}
