//! Collects files that are ready to be committed, so that those that come at the same time share their syncs.
//! Nobody waits for others to come: as long as nobody is at work, what is there is committed at once.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::apply::Written;
use crate::apply::group::{self, EDIT_BYTES_MAX, FILES_MAX, Job};
use crate::error::Error;

/// A queue, and at most one thread that works on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Committer {
    state: Arc<Mutex<State>>,
    /// Whoever asks does it, without a thread.
    is_here: bool,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Waiting>,
    is_at_work: bool,
}

#[derive(Debug)]
struct Waiting {
    job: Job,
    answer: oneshot::Sender<Result<Written, Error>>,
}

impl Committer {
    /// Without a thread: for one file alone.
    pub(crate) fn here() -> Self {
        Self { is_here: true, ..Self::default() }
    }

    /// Commits one file, with others if others wait. Given up before it began, the file stays as it is.
    pub(crate) async fn commit(&self, job: Job) -> Result<Written, Error> {
        let (answer, answered) = oneshot::channel();
        match (self.add(Waiting { job, answer }), self.is_here) {
            (true, true) => self.work(),
            (true, false) => {
                let this = self.clone();
                drop(tokio::task::spawn_blocking(move || this.work()));
            }
            (false, _) => {}
        }
        answered.await.map_err(|_| Error::Internal("a file was taken and not committed"))?
    }

    /// Whether a thread has to come.
    fn add(&self, waiting: Waiting) -> bool {
        let mut state = self.lock();
        state.waiting.push_back(waiting);
        !std::mem::replace(&mut state.is_at_work, true)
    }

    fn work(&self) {
        while let Some(group) = self.next() {
            let (jobs, answers): (Vec<Job>, Vec<_>) =
                group.into_iter().map(|one| (one.job, one.answer)).unzip();
            // Whoever waits for one of a group that panicked sees that its answer does not come; the others go on.
            let outcomes = catch_unwind(AssertUnwindSafe(|| group::commit(jobs))).unwrap_or_default();
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                // Whoever asked may have been stopped; the file is whole all the same.
                let _ = answer.send(outcome);
            }
        }
    }

    /// The next group. That nothing waits and that nobody is at work is one step.
    fn next(&self) -> Option<Vec<Waiting>> {
        let mut state = self.lock();
        let group = state.take();
        state.is_at_work = !group.is_empty();
        state.is_at_work.then_some(group)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The first of the queue: as many as make one group. What nobody waits for is not begun.
    fn take(&mut self) -> Vec<Waiting> {
        self.waiting.retain(|waiting| !waiting.answer.is_closed());
        let mut group = Vec::new();
        let mut bytes = 0u64;
        while group.len() < FILES_MAX {
            let Some(next) = self.waiting.front() else { break };
            let more = bytes.saturating_add(next.job.bytes());
            if more > EDIT_BYTES_MAX && !group.is_empty() {
                break;
            }
            bytes = more;
            group.extend(self.waiting.pop_front());
        }
        group
    }
}
