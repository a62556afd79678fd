//! What the machine must give before anything is begun: a lack of it would end the program in the middle.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Resource;

use crate::failure::Failure;

/// Open files that the store, the runtime, the signer's socket and one file need.
const FILES_MIN: u64 = 32;
/// Threads beside the runtime's workers that are surely needed: for files, and for the store.
const THREADS_MORE: usize = 4;

/// Refuses a clock, a limit of open files or of threads that the program cannot work with.
///
/// # Errors
/// Which, and what to do.
pub(crate) fn check() -> Result<(), Failure> {
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    check_with(workers.saturating_add(THREADS_MORE))
}

/// The same where one thread waits for all: it only needs others for what blocks.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_alone() -> Result<(), Failure> {
    check_with(1)
}

/// The same where nothing blocks for long: the thread that is there is enough.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_without_threads() -> Result<(), Failure> {
    check_with(0)
}

fn check_with(threads_min: usize) -> Result<(), Failure> {
    if SystemTime::now().duration_since(UNIX_EPOCH).is_err() {
        return Err(Failure::failed(
            "the system clock is before 1970: no signature can have such a time",
            "Set the clock.",
        ));
    }
    if let Some(files) =
        rustix::process::getrlimit(Resource::Nofile).current.filter(|files| *files < FILES_MIN)
    {
        return Err(Failure::failed(
            format!("this process may open {files} files only; at least {FILES_MIN} are needed"),
            "Raise the limit with ulimit -n.",
        ));
    }
    threads(threads_min)
}

/// Has the kernel end this process at once when its parent ends, however that ends. For children that must not outlive
/// it with its sockets in their hands.
///
/// # Errors
/// The parent has ended already; or the kernel does not do it.
pub(crate) fn end_with(parent: u32) -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(
        |error| Failure::failed(format!("cannot ask to end with the parent: {error}"), "Please report it."),
    )?;
    if rustix::process::getppid().map(|pid| pid.as_raw_pid().cast_unsigned()) == Some(parent) {
        return Ok(());
    }
    Err(Failure::failed("the process that started this one has ended", ""))
}

/// The runtime panics when it cannot start its threads, so they are tried before: all at once, then ended.
fn threads(count: usize) -> Result<(), Failure> {
    let (release, hold) = mpsc::channel::<()>();
    let hold = Arc::new(Mutex::new(hold));
    let mut waiting = Vec::new();
    let mut outcome = Ok(());
    for _ in 0..count {
        let hold = Arc::clone(&hold);
        // Ends when `release` is dropped.
        let wait = move || drop(hold.lock().map(|hold| hold.recv()));
        match thread::Builder::new().spawn(wait) {
            Ok(thread) => waiting.push(thread),
            Err(error) => {
                outcome = Err(Failure::failed(
                    format!("cannot start {count} threads: {error}"),
                    "Raise the limit of processes with ulimit -u.",
                ));
                break;
            }
        }
    }
    drop(release);
    for thread in waiting {
        let _ = thread.join();
    }
    outcome
}
