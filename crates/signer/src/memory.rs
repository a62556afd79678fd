//! Locked memory for secrets: pages that are not swapped out, not in core dumps, and zeroed when given back. With
//! `backend/sha1.rs` the only file of this crate with `unsafe` code.
//!
//! One arena for the whole process, made at the first use: as many pages as `RLIMIT_MEMLOCK` lets it lock, 256 KiB at
//! best, 16 KiB at least. What does not fit (an imported key file of a megabyte) gets locked pages of its own, or is
//! refused. `docs/adr/0009-locked-memory.md` says what is not in here.

use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags};
use zeroize::Zeroize as _;

use crate::error::Error;

/// Bytes that are given out together.
const SLOT_BYTES: usize = 64;
/// Bytes of the arena: the first of these that can be locked.
const ARENA_BYTES: [usize; 4] = [256 << 10, 64 << 10, 32 << 10, 16 << 10];

/// Locked bytes of a fixed length; zeroed when dropped.
pub(crate) struct Locked {
    start: NonNull<u8>,
    len: usize,
    home: Home,
}

/// Where the bytes are given back.
enum Home {
    /// Slots of the arena, from this one on.
    Arena { first: usize, slots: usize },
    /// Pages of its own.
    Pages(#[expect(dead_code, reason = "unmapped when dropped")] Pages),
    /// No bytes.
    Nowhere,
}

#[expect(unsafe_code, reason = "the bytes are the owner's alone, wherever it is")]
// SAFETY: a Locked owns its bytes: nothing else has a pointer to them (slots are handed out once until they are given
// back, and a mapping is made for one owner).
unsafe impl Send for Locked {}
#[expect(unsafe_code, reason = "as above; shared references only read")]
// SAFETY: `&Locked` gives `&[u8]` only.
unsafe impl Sync for Locked {}

impl Locked {
    /// `len` zero bytes.
    ///
    /// # Errors
    /// [`Error::Confinement`] if they cannot be locked.
    pub(crate) fn zeroed(len: usize) -> Result<Self, Error> {
        if len == 0 {
            return Ok(Self { start: NonNull::dangling(), len, home: Home::Nowhere });
        }
        let arena = arena()?;
        if let Some((first, slots, start)) = arena.take(len) {
            return Ok(Self { start, len, home: Home::Arena { first, slots } });
        }
        let pages = Pages::lock(len).map_err(too_little)?;
        Ok(Self { start: pages.start, len, home: Home::Pages(pages) })
    }

    /// The bytes.
    #[expect(unsafe_code, reason = "bytes of a mapping that lives as long as the arena or its owner")]
    pub(crate) const fn bytes(&self) -> &[u8] {
        // SAFETY: `start` has `len` initialised bytes (fresh anonymous pages and zeroed slots), which stay until drop
        // and which only `self` can reach; for `len` 0 it is dangling, as a slice may be.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, to be written.
    #[expect(unsafe_code, reason = "as above, and `self` is borrowed alone")]
    pub(crate) const fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the exclusive borrow of `self` makes the slice the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.bytes_mut().zeroize();
        if let (Home::Arena { first, slots }, Some(Ok(arena))) = (&self.home, ARENA.get()) {
            arena.give_back(*first, *slots);
        }
    }
}

/// Whole pages: locked, not in dumps, not inherited by a child.
struct Pages {
    start: NonNull<u8>,
    len: usize,
}

impl Pages {
    #[expect(unsafe_code, reason = "there is no safe way to map and lock memory")]
    fn lock(len: usize) -> Result<Self, rustix::io::Errno> {
        let page = rustix::param::page_size();
        let len = len.checked_next_multiple_of(page).ok_or(rustix::io::Errno::NOMEM)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice: it overlaps nothing that exists.
        let start =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, protection, MapFlags::PRIVATE)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        // From here on it is unmapped if anything fails.
        let pages = Self { start, len };
        let address = pages.start.as_ptr().cast();
        // SAFETY: the whole of our own mapping, to which nothing has a reference yet; these calls change no byte of it.
        unsafe {
            rustix::mm::madvise(address, len, Advice::LinuxDontDump)?;
            rustix::mm::madvise(address, len, Advice::LinuxDontFork)?;
            rustix::mm::mlock(address, len)?;
        }
        Ok(pages)
    }
}

impl Drop for Pages {
    #[expect(unsafe_code, reason = "there is no safe way to unmap memory")]
    fn drop(&mut self) {
        // SAFETY: our own mapping, whole; whoever had bytes of it is gone (a Locked drops its pages last). Unmapping
        // unlocks.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "our own mapping");
    }
}

struct Arena {
    pages: Pages,
    /// Whether each slot is taken.
    taken: Mutex<Vec<bool>>,
}

#[expect(unsafe_code, reason = "the pointer is to memory that lives as long as the process")]
// SAFETY: the pages are only given out in slots, each to one owner, under the lock.
unsafe impl Send for Arena {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl Sync for Arena {}

static ARENA: OnceLock<Result<Arena, rustix::io::Errno>> = OnceLock::new();

fn arena() -> Result<&'static Arena, Error> {
    ARENA.get_or_init(Arena::new).as_ref().map_err(|errno| too_little(*errno))
}

fn too_little(errno: rustix::io::Errno) -> Error {
    Error::Confinement { action: "lock memory for secrets", source: std::io::Error::from(errno).into() }
}

impl Arena {
    fn new() -> Result<Self, rustix::io::Errno> {
        let mut failed = rustix::io::Errno::NOMEM;
        for bytes in ARENA_BYTES {
            match Pages::lock(bytes) {
                Ok(pages) => {
                    let taken = Mutex::new(vec![false; bytes.checked_div(SLOT_BYTES).unwrap_or_default()]);
                    return Ok(Self { pages, taken });
                }
                Err(errno) => failed = errno,
            }
        }
        Err(failed)
    }

    /// The first run of free slots that is long enough.
    #[expect(unsafe_code, reason = "the address of a slot within the mapping")]
    fn take(&self, len: usize) -> Option<(usize, usize, NonNull<u8>)> {
        let slots = len.div_ceil(SLOT_BYTES);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = 0_usize;
        let last = taken.iter().position(|taken| {
            free = if *taken { 0 } else { free.saturating_add(1) };
            free == slots
        })?;
        let first = last.checked_add(1)?.checked_sub(slots)?;
        taken.get_mut(first..=last)?.fill(true);
        let offset = first.checked_mul(SLOT_BYTES)?;
        debug_assert!(offset.saturating_add(len) <= self.pages.len);
        // SAFETY: `first` is the number of a slot, so the offset lies within the mapping.
        let start = unsafe { self.pages.start.add(offset) };
        Some((first, slots, start))
    }

    /// The slots are zero again.
    fn give_back(&self, first: usize, slots: usize) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = first.checked_add(slots).and_then(|end| taken.get_mut(first..end)) {
            run.fill(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_do_not_overlap_and_bytes_come_back_zeroed() {
        let lens = [1, 63, 64, 65, 1000, 32, 5000];
        for round in 0..20 {
            let mut owners: Vec<_> = lens.iter().map(|len| Locked::zeroed(*len).unwrap()).collect();
            for (value, owner) in owners.iter_mut().enumerate() {
                assert!(owner.bytes().iter().all(|byte| *byte == 0), "{round}");
                owner.bytes_mut().fill(u8::try_from(value + 1).unwrap());
            }
            for (value, owner) in owners.iter().enumerate() {
                assert!(owner.bytes().iter().all(|byte| usize::from(*byte) == value + 1), "{round}");
            }
            if round % 2 == 0 {
                owners.reverse();
            }
        }
    }

    #[test]
    fn more_than_the_arena_has_gets_pages_of_its_own() {
        let mut large = Locked::zeroed(300 << 10).unwrap();
        assert!(matches!(large.home, Home::Pages(_)));
        large.bytes_mut().fill(1);
        assert!(Locked::zeroed(0).unwrap().bytes().is_empty());
    }

    #[test]
    fn the_pages_are_locked_and_not_in_dumps() {
        let one = Locked::zeroed(32).unwrap();
        let address = one.start.as_ptr().addr();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut flags = "";
        let mut inside = false;
        for line in maps.lines() {
            if let Some((from, to)) = line.split(' ').next().and_then(|range| range.split_once('-'))
                && let (Ok(from), Ok(to)) = (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
            {
                inside = (from..to).contains(&address);
            }
            if inside && line.starts_with("VmFlags:") {
                flags = line;
            }
        }
        for flag in [" lo", " dd", " dc"] {
            assert!(flags.contains(flag), "{flag} in {flags}");
        }
    }
}
