//! Collects files that are ready to be committed, so that those that come at the same time share their syncs.
//! Nobody waits for others to come: whoever finds nobody at work commits what is there.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::apply::Written;
use crate::apply::group::{self, EDIT_BYTES_MAX, FILES_MAX, Job};
use crate::error::Error;

/// A queue, and the right to work on it.
#[derive(Debug, Default)]
pub(crate) struct Committer {
    waiting: Mutex<VecDeque<Waiting>>,
    at_work: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Waiting {
    job: Job,
    answer: oneshot::Sender<Result<Written, Error>>,
}

impl Committer {
    /// Commits one file, with others if others wait. Cancelled, it leaves the file to whoever comes next, or unchanged.
    pub(crate) async fn commit(&self, job: Job) -> Result<Written, Error> {
        let (answer, mut answered) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(Waiting { job, answer });
        loop {
            let turn = self.at_work.lock().await;
            match answered.try_recv() {
                Ok(outcome) => return outcome,
                Err(oneshot::error::TryRecvError::Closed) => {
                    return Err(Error::Internal("a file was taken and not committed"));
                }
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            let group = self.take();
            let work = move || {
                let (jobs, answers): (Vec<Job>, Vec<_>) =
                    group.into_iter().map(|one| (one.job, one.answer)).unzip();
                for (answer, outcome) in answers.into_iter().zip(group::commit(jobs)) {
                    // Whoever asked may have been stopped; the file is whole all the same.
                    let _ = answer.send(outcome);
                }
            };
            tokio::task::spawn_blocking(work).await.map_err(|_| Error::Internal("a worker thread ended"))?;
            drop(turn);
        }
    }

    /// The first of the queue: as many as make one group.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut group = Vec::new();
        let mut bytes = 0u64;
        while group.len() < FILES_MAX {
            let Some(next) = waiting.front() else { break };
            let more = bytes.saturating_add(next.job.bytes());
            if more > EDIT_BYTES_MAX && !group.is_empty() {
                break;
            }
            bytes = more;
            group.extend(waiting.pop_front());
        }
        group
    }
}
