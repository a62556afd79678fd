//! Mode, owner, extended attributes (ACLs and the SELinux label are some), times: kept, or the file is refused
//! before anything is written.

use std::ffi::CStr;
use std::fs::File;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;

use crate::error::{Error, Kept};
use crate::source::file::SourceFile;

/// Largest list of names, and largest value, that Linux has (XATTR_LIST_MAX, XATTR_SIZE_MAX), in bytes.
const XATTR_BYTES_MAX: usize = 64 << 10;
/// Attributes over the old content: wrong for the new one, and the kernel makes them anew where it is told to.
const NOT_COPIED: [(&CStr, &str); 2] = [
    (c"security.ima", "security.ima not kept: it vouches for the old content; sign the file for IMA again"),
    (
        c"security.evm",
        "security.evm not kept: it vouches for the old attributes; the kernel or evmctl makes it",
    ),
];
const ACL: &CStr = c"system.posix_acl_access";

/// How exact metadata must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The result takes the place of the source: all of it, or an error.
    Exact,
    /// The result is a copy elsewhere: what this user may not set is noted.
    AsFarAsAllowed,
}

pub(crate) struct Applied {
    /// What the file gets right before it gets its name.
    pub(crate) mode: Mode,
    pub(crate) notes: Vec<&'static str>,
}

/// Tries owner, attributes and mode on the temporary, then hides it again (mode 0600).
pub(crate) fn keep(source: &SourceFile, to: &File, rule: Rule) -> Result<Applied, Error> {
    let stat = source.stat();
    let mut notes = Vec::new();
    let mut mode = Mode::from_raw_mode(stat.st_mode);
    if let Err(error) = own(stat.st_uid, stat.st_gid, to) {
        if rule == Rule::Exact {
            return Err(Error::NotKept { what: Kept::Owner(stat.st_uid, stat.st_gid), source: error.into() });
        }
        mode &= Mode::RWXU | Mode::RWXG | Mode::RWXO;
        notes.push("owner not kept");
    }
    match copy_attributes(source.file(), to) {
        Ok(dropped) => notes.extend(dropped),
        Err(error) if rule == Rule::Exact => return Err(error),
        Err(_) => notes.push("extended attributes not all kept"),
    }
    set_mode(to, mode)?;
    rustix::fs::fchmod(to, Mode::RUSR | Mode::WUSR).map_err(mode_error(mode))?;
    Ok(Applied { mode, notes })
}

/// The attribute, if there is one, that vouches for the content and so would be wrong after it changed in place.
pub(crate) fn seal_over_content(file: &File) -> Result<Option<String>, Error> {
    let names = attribute_names(file)?;
    let found = names.iter().find(|name| not_copied(name).is_some());
    Ok(found.map(|name| name.to_string_lossy().into_owned()))
}

/// Sets times and mode, the last before the file gets its name. The modification time of changed content moves
/// forward by a second at least: tools that compare whole seconds must see it.
pub(crate) fn finish(source: &SourceFile, to: &File, mode: Mode, changed: bool) -> Result<(), Error> {
    let stat = source.stat();
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or_default();
    let old = Timespec { tv_sec: stat.st_mtime, tv_nsec: nanoseconds };
    let last_modification = if changed { later(old, now()) } else { old };
    let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification };
    rustix::fs::futimens(to, &times)
        .map_err(|error| Error::NotKept { what: Kept::Times, source: error.into() })?;
    set_mode(to, mode)
}

/// The later of `now` and one second after `old`.
fn later(old: Timespec, now: Timespec) -> Timespec {
    let next = Timespec { tv_sec: old.tv_sec.saturating_add(1), tv_nsec: old.tv_nsec };
    if (next.tv_sec, next.tv_nsec) > (now.tv_sec, now.tv_nsec) { next } else { now }
}

fn now() -> Timespec {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timespec {
        tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: since.subsec_nanos().into(),
    }
}

fn own(uid: u32, gid: u32, to: &File) -> rustix::io::Result<()> {
    let there = rustix::fs::fstat(to)?;
    let uid = (there.st_uid != uid).then(|| Uid::from_raw(uid));
    let gid = (there.st_gid != gid).then(|| Gid::from_raw(gid));
    if uid.is_none() && gid.is_none() { Ok(()) } else { rustix::fs::fchown(to, uid, gid) }
}

fn set_mode(to: &File, mode: Mode) -> Result<(), Error> {
    rustix::fs::fchmod(to, mode).map_err(mode_error(mode))?;
    let there = rustix::fs::fstat(to).map_err(mode_error(mode))?;
    // The kernel drops set-group-id without an error if the group is not ours.
    if Mode::from_raw_mode(there.st_mode) == mode { Ok(()) } else { Err(mode_error(mode)(Errno::PERM)) }
}

fn mode_error(mode: Mode) -> impl Fn(Errno) -> Error {
    move |error| Error::NotKept { what: Kept::Mode(mode.bits()), source: error.into() }
}

/// What a user must know of an attribute that is left behind.
fn not_copied(name: &CStr) -> Option<&'static str> {
    NOT_COPIED.iter().find(|(not_copied, _)| *not_copied == name).map(|(_, note)| *note)
}

/// Returns what there is to say of those that were left behind on purpose.
fn copy_attributes(from: &File, to: &File) -> Result<Vec<&'static str>, Error> {
    let names = attribute_names(from)?;
    let mut left = Vec::new();
    for name in &names {
        if let Some(note) = not_copied(name) {
            left.push(note);
            continue;
        }
        let failed = |error: Errno| Error::NotKept {
            what: Kept::Attribute(name.to_string_lossy().into_owned()),
            source: error.into(),
        };
        let value = attribute(from, name).map_err(failed)?;
        // A label that the new file got by itself needs no permission to be set.
        if attribute(to, name).is_ok_and(|there| there == value) {
            continue;
        }
        rustix::fs::fsetxattr(to, name.as_c_str(), &value, XattrFlags::empty()).map_err(failed)?;
    }
    // An ACL that the directory gave to the new file would open it to others.
    if !names.iter().any(|name| name.as_c_str() == ACL)
        && attribute_names(to)?.iter().any(|name| name.as_c_str() == ACL)
    {
        rustix::fs::fremovexattr(to, ACL).map_err(|error| Error::NotKept {
            what: Kept::Attribute(ACL.to_string_lossy().into_owned()),
            source: error.into(),
        })?;
    }
    Ok(left)
}

fn attribute_names(file: &File) -> Result<Vec<std::ffi::CString>, Error> {
    let mut list = vec![0; XATTR_BYTES_MAX];
    let len = match rustix::fs::flistxattr(file, list.as_mut_slice()) {
        Ok(len) => len,
        Err(Errno::NOTSUP | Errno::NOSYS) => 0,
        Err(error) => {
            return Err(Error::NotKept { what: Kept::Attribute("list".to_owned()), source: error.into() });
        }
    };
    Ok(list
        .get(..len)
        .unwrap_or_default()
        .split_inclusive(|byte| *byte == 0)
        .filter_map(|name| CStr::from_bytes_with_nul(name).ok().map(CStr::to_owned))
        .collect())
}

fn attribute(file: &File, name: &CStr) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0; XATTR_BYTES_MAX];
    let len = rustix::fs::fgetxattr(file, name, value.as_mut_slice())?;
    value.truncate(len);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modification_time_moves_by_a_second_at_least_and_never_back() {
        let at = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        assert_eq!(later(at(100, 5), at(200, 0)), at(200, 0));
        assert_eq!(later(at(199, 5), at(200, 0)), at(200, 5));
        assert_eq!(later(at(300, 5), at(200, 0)), at(301, 5));
    }
}
