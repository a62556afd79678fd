//! The client that asked, and whether it still waits. Until the intent is recorded, nothing is done for one that went
//! away. After that its group leaves the queue to the signer, and the intent is given back; but what has left for the
//! signer runs to its end, so that a retry finds the answer.

use sealwright_proto::status::{Code, Fault};
use tokio::sync::mpsc;

/// Closed when the client's end of the call is gone; `T` is what would be sent there.
pub(crate) struct Gone<T>(mpsc::Sender<T>);

impl<T> Gone<T> {
    pub(crate) const fn new(answers: mpsc::Sender<T>) -> Self {
        Self(answers)
    }

    /// Does the work as long as somebody waits for it. It must be such that it can be dropped at any point.
    ///
    /// # Errors
    /// Those of the work; [`Code::DeadlineExceeded`], which nobody reads, when the client went away.
    pub(super) async fn unless<R>(&self, work: impl Future<Output = Result<R, Fault>>) -> Result<R, Fault> {
        tokio::select! {
            biased;
            () = self.0.closed() => Err(went_away()),
            done = work => done,
        }
    }

    /// Waits until the client has gone away.
    pub(super) async fn wait(&self) {
        self.0.closed().await;
    }

    /// # Errors
    /// As for [`Self::unless`].
    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.0.is_closed() { Err(went_away()) } else { Ok(()) }
    }
}

fn went_away() -> Fault {
    Fault::new(Code::DeadlineExceeded, "the client went away before the request was recorded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_begun_for_a_client_that_went_away() {
        let (answers, client) = mpsc::channel::<()>(1);
        let gone = Gone::new(answers);
        assert_eq!(gone.unless(async { Ok(7) }).await, Ok(7));
        gone.check().unwrap();
        let waiting = gone.unless(std::future::pending::<Result<(), Fault>>());
        tokio::pin!(waiting);
        let is_pending =
            tokio::select! { biased; _ = &mut waiting => false, () = std::future::ready(()) => true };
        assert!(is_pending);
        drop(client);
        assert_eq!(waiting.await.unwrap_err().code, Code::DeadlineExceeded);
        assert!(gone.check().is_err());
        assert!(gone.unless(async { Ok(7) }).await.is_err());
    }
}
