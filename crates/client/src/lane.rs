//! File work on a few threads that take one piece after the other, as long as there are any: a piece that comes while
//! they are at work wakes nobody. Work on one short file needs none: a thread and what it is woken for cost more.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::error::Error;

/// What is said of work that panicked.
const ENDED: &str = "a worker thread ended";

type Piece = Box<dyn FnOnce() + Send>;

/// A queue, and how many threads work on it. Nothing runs before it is waited for, and what has begun runs to its end.
/// Whoever puts pieces in bounds their number: files in hand.
#[derive(Clone)]
pub(crate) struct Lane {
    /// None: whoever asks does it.
    inner: Option<Arc<Inner>>,
}

struct Inner {
    state: Mutex<State>,
    /// It is read from files of the system, once.
    threads_max: LazyLock<usize>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Piece>,
    threads: usize,
}

impl Lane {
    /// With so many threads at most, which are borrowed from the runtime and given back when nothing waits. The number is
    /// asked for when there is work for the first time.
    pub(crate) fn new(threads_max: fn() -> usize) -> Self {
        Self {
            inner: Some(Arc::new(Inner { state: Mutex::default(), threads_max: LazyLock::new(threads_max) })),
        }
    }

    /// Without threads: nothing else happens meanwhile, so the work is short.
    pub(crate) const fn here() -> Self {
        Self { inner: None }
    }

    /// Runs work that may block, after what came before it.
    ///
    /// # Errors
    /// The work panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let Some(inner) = &self.inner else {
            return catch_unwind(AssertUnwindSafe(work)).map_err(|_| Error::Internal(ENDED));
        };
        let (answer, answered) = oneshot::channel();
        let piece = Box::new(move || {
            // Given up while it waited: nothing has begun.
            if !answer.is_closed() {
                let _ = answer.send(work());
            }
        });
        if inner.add(piece) {
            let inner = Arc::clone(inner);
            drop(tokio::task::spawn_blocking(move || inner.work()));
        }
        answered.await.map_err(|_| Error::Internal(ENDED))
    }
}

impl Inner {
    /// Whether one more thread has to come.
    fn add(&self, piece: Piece) -> bool {
        let threads_max = (*self.threads_max).max(1);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.push_back(piece);
        let more = state.threads < threads_max;
        if more {
            state.threads = state.threads.saturating_add(1);
        }
        more
    }

    fn work(&self) {
        while let Some(piece) = self.next() {
            // Whoever waits for it sees that its answer does not come; the others go on.
            let _ = catch_unwind(AssertUnwindSafe(piece));
        }
    }

    /// `None` ends the thread: that nothing waits and that it ends is one step.
    fn next(&self) -> Option<Piece> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.threads = state.threads.saturating_sub(1);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn every_piece_runs_once_on_no_more_threads_than_allowed() {
        let lane = Lane::new(|| 3);
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let pieces = (0..200_usize).map(|number| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            lane.run(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
                number
            })
        });
        let numbers: Vec<usize> = join_all(pieces).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(numbers, (0..200).collect::<Vec<_>>());
        assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
        while lane.inner.as_ref().unwrap().state.lock().unwrap().threads > 0 {
            // The last one ends after its last answer.
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_piece_that_panics_fails_alone() {
        for lane in [Lane::new(|| 1), Lane::here()] {
            let broken = lane.run(|| -> u8 { std::panic::resume_unwind(Box::new("x")) });
            let (broken, whole) = tokio::join!(broken, lane.run(|| 7));
            assert!(matches!(broken, Err(Error::Internal(_))));
            assert_eq!(whole.unwrap(), 7);
        }
    }

    #[tokio::test]
    async fn work_without_threads_is_done_by_whoever_asks() {
        let asks = std::thread::current().id();
        assert_eq!(Lane::here().run(|| std::thread::current().id()).await.unwrap(), asks);
        assert_ne!(Lane::new(|| 1).run(|| std::thread::current().id()).await.unwrap(), asks);
    }

    #[tokio::test]
    async fn what_was_given_up_while_it_waited_does_not_begin() {
        let lane = Lane::new(|| 1);
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let first = tokio::spawn({
            let lane = lane.clone();
            async move { lane.run(move || gone.recv().is_ok()).await }
        });
        while lane.inner.as_ref().unwrap().state.lock().unwrap().threads == 0 {
            tokio::task::yield_now().await;
        }
        let begun = Arc::new(AtomicUsize::new(0));
        let second = tokio::spawn({
            let (lane, begun) = (lane.clone(), Arc::clone(&begun));
            async move { lane.run(move || begun.fetch_add(1, Ordering::SeqCst)).await }
        });
        second.abort();
        assert!(second.await.is_err());
        go.send(()).unwrap();
        assert!(first.await.unwrap().unwrap());
        lane.run(|| ()).await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 0);
    }
}
