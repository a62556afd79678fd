//! Whether a server of this installation runs, to tell its operator what to say to it. `serve` holds a lock on the
//! folder of its store as long as it lives, and the kernel lists who holds one (proc_locks(5)).

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use toml_edit::{DocumentMut, Item};

use crate::init::register;

/// The process that holds the lock on the folder of the store; none if there is none, or it cannot be seen from here.
pub(crate) fn server_of(directory: &Path) -> Option<u32> {
    let document = register::read(&directory.join("server.toml")).ok()?.parse::<DocumentMut>().ok()?;
    let folder = document.get("store").and_then(|store| store.get("folder")).and_then(Item::as_str)?;
    let metadata = std::fs::metadata(directory.join(folder)).ok()?;
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    // The kernel's own file has no size to look at first, and grows with locks alone.
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    holder(&locks, &format!("{major:02x}:{minor:02x}:{}", metadata.ino()))
}

/// Of lines like `1: FLOCK  ADVISORY  WRITE 1234 fe:00:42 0 EOF`; those of waiting processes have an arrow.
fn holder(locks: &str, of: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, _, access) = (words.next()?, words.next()?, words.next()?);
        let (pid, file) = (words.next()?, words.next()?);
        let pid = (kind == "FLOCK" && access == "WRITE" && file == of).then(|| pid.parse().ok()).flatten();
        // Zero or less: it is in another namespace of processes, where nobody here can signal it.
        pid.filter(|pid| *pid > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_by_its_file_and_who_waits_for_it_is_not() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:42 0 EOF\n\
                     2: FLOCK  ADVISORY  READ  12 fe:00:42 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 fe:00:421 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 14 fe:00:42 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 fe:00:42 0 EOF\n\
                     5: FLOCK  ADVISORY  WRITE -1 fe:00:42 0 EOF\n\
                     6: FLOCK  ADVISORY  WRITE 15 fe:00:42 0 EOF\nnonsense\n";
        assert_eq!(holder(locks, "fe:00:42"), Some(15));
        assert_eq!(holder(locks, "fe:00:43"), None);
    }
}
