//! A signer whose front goes while it starts ends, whatever it waits for: a lock that a stopped process holds, a disk
//! that does not answer. Once it serves, it reads the end of the socket itself, and gives back its numbers.
//!
//! Not the kernel's signal at the death of a parent: that comes when the *thread* ends that started us, which in a
//! front can be one of many that come and go; and it would take a signer that serves in the middle of a block of
//! numbers, which would then count as lost.

use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use crate::error::Error;

/// Ends the process if front goes before this is dropped.
pub(crate) struct Watch {
    /// Closed to end the thread.
    over: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches the socket to front.
    ///
    /// # Errors
    /// [`Error::Process`].
    pub(crate) fn of(socket: &UnixStream) -> Result<Self, Error> {
        let failed = |source| Error::Process { action: "watch for the end of front", source };
        let socket = socket.try_clone().map_err(failed)?;
        let (over, ended) = UnixStream::pair().map_err(failed)?;
        let watch = move || {
            if is_gone_before(&socket, &ended) {
                // At once: what runs at an exit could wait, too. Whatever a start writes, it can be killed meanwhile.
                let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
            }
        };
        let thread = std::thread::Builder::new().name("start".to_owned()).spawn(watch).map_err(failed)?;
        Ok(Self { over: Some(over), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether front goes before the start is over. What it has sent already stays unread; one that has nothing more to send
/// is still there. The end of both directions is reported without being asked for.
fn is_gone_before(socket: &UnixStream, over: &UnixStream) -> bool {
    loop {
        let mut both = [PollFd::new(socket, PollFlags::empty()), PollFd::new(over, PollFlags::empty())];
        match poll(&mut both, None) {
            Ok(_) => (),
            Err(rustix::io::Errno::INTR) => continue,
            // Without the watch a start can still succeed.
            Err(_) => return false,
        }
        let [gone, over] = both.map(|one| !one.revents().is_empty());
        if gone || over {
            return !over;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn front_is_gone_when_it_has_closed_its_end_and_not_when_it_has_sent_something() {
        let (mut front, socket) = UnixStream::pair().unwrap();
        let (over, ended) = UnixStream::pair().unwrap();
        front.write_all(b"a request").unwrap();
        front.shutdown(std::net::Shutdown::Write).unwrap();
        drop(over);
        assert!(!is_gone_before(&socket, &ended), "the start was over first");
        let (_over, ended) = UnixStream::pair().unwrap();
        drop(front);
        assert!(is_gone_before(&socket, &ended));
    }

    #[test]
    fn a_start_that_is_over_leaves_no_thread_and_ends_nothing() {
        let (front, socket) = UnixStream::pair().unwrap();
        drop(Watch::of(&socket).unwrap());
        drop(front);
    }
}
