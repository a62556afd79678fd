//! Whether a connection has a request open, and since when it has none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    open: AtomicUsize,
    /// Milliseconds from `begun` to when the last request was closed.
    quiet_since_ms: AtomicU64,
}

impl Default for Activity {
    fn default() -> Self {
        Self { begun: Instant::now(), open: AtomicUsize::new(0), quiet_since_ms: AtomicU64::new(0) }
    }
}

/// An open request; closed when dropped.
pub(super) struct Open(Arc<Activity>);

impl Drop for Open {
    fn drop(&mut self) {
        let now_ms = u64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.quiet_since_ms.store(now_ms, Ordering::Relaxed);
        self.0.open.fetch_sub(1, Ordering::Release);
    }
}

impl Activity {
    pub(super) fn open(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(self))
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    /// Waits until no request has been open for `limit`. Looks about once in that time.
    pub(super) async fn idle(&self, limit: Duration) {
        loop {
            let wait = if self.is_quiet() {
                let since = Duration::from_millis(self.quiet_since_ms.load(Ordering::Relaxed));
                limit.saturating_sub(self.begun.elapsed().saturating_sub(since))
            } else {
                limit
            };
            if wait.is_zero() {
                return;
            }
            sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_is_idle_only_after_its_last_request_and_the_limit() {
        const LIMIT: Duration = Duration::from_millis(50);
        let activity = Arc::new(Activity::default());
        let open = activity.open();
        let idle = activity.idle(LIMIT);
        tokio::pin!(idle);
        assert!(tokio::time::timeout(LIMIT * 5, &mut idle).await.is_err());
        drop(open);
        let closed = Instant::now();
        idle.await;
        // What is remembered is in whole milliseconds.
        assert!(closed.elapsed() >= LIMIT - Duration::from_millis(1), "{:?}", closed.elapsed());
    }
}
