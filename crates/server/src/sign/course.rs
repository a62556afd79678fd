//! What is noted of a group on its way, and the line and the counts that are made of it when it is answered.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sealwright_proto::convert::group::{Group, LoggedSignature};
use sealwright_proto::names::RequestId;
use sealwright_proto::status::{Blame, Code, Fault};
use sealwright_proto::trace::TraceId;
use tokio::time::Instant;

use super::Outcomes;
use crate::Inner;
use crate::metrics::Metrics;

/// Of one group, from its arrival.
pub(crate) struct Course {
    /// Of the client's run, by its own word; for log lines alone.
    pub(super) trace_id: Option<TraceId>,
    arrived: Instant,
    /// The key's name, once it is known that there is one.
    key: OnceLock<String>,
    queue_us: AtomicU64,
    signer_us: AtomicU64,
    store_us: AtomicU64,
}

impl Course {
    /// Begins now.
    pub(crate) fn new(trace_id: Option<TraceId>) -> Self {
        Self {
            trace_id,
            arrived: Instant::now(),
            key: OnceLock::new(),
            queue_us: AtomicU64::new(0),
            signer_us: AtomicU64::new(0),
            store_us: AtomicU64::new(0),
        }
    }

    /// When nobody waits for the answer any more.
    pub(super) fn deadline(&self, group: &Group) -> Instant {
        let wait = Duration::from_millis(group.deadline_ms.into());
        self.arrived.checked_add(wait).unwrap_or(self.arrived)
    }

    pub(super) fn resolved(&self, key: &str) {
        // A second time, after the key changed, it is the same name.
        let _ = self.key.set(key.to_owned());
    }

    /// The group waited in the queue until `left`, and from there for the signer until now.
    pub(super) fn signed(&self, asked: Instant, left: Option<Instant>) {
        let now = Instant::now();
        let left = left.unwrap_or(now);
        add(&self.queue_us, left.saturating_duration_since(asked));
        add(&self.signer_us, now.saturating_duration_since(left));
    }

    /// The store was waited for.
    pub(super) async fn storing<T>(&self, work: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let done = work.await;
        add(&self.store_us, begun.elapsed());
        done
    }

    /// The line and the counts of an answer. What fails for want of a grant can be asked without end, at no cost: its lines are held to a measure.
    pub(super) fn answered(&self, front: &Inner, group: &Group, outcome: &Outcomes) {
        let metrics = &front.metrics;
        let total = self.arrived.elapsed();
        let parts = [
            (&metrics.queue_seconds, &self.queue_us),
            (&metrics.signer_seconds, &self.signer_us),
            (&metrics.store_seconds, &self.store_us),
        ];
        for (histogram, us) in parts {
            histogram.observe(Duration::from_micros(us.load(Ordering::Relaxed)));
        }
        metrics.request_seconds.observe(total);
        let fault = first_failure(outcome);
        let failure = fault.map(|fault| fault.code);
        metrics.requests.count(failure);
        count_items(metrics, group, outcome);
        let milliseconds = |us: &AtomicU64| milliseconds(us.load(Ordering::Relaxed));
        let line = Line {
            request_id: group.request_id,
            key: self.key.get().cloned(),
            asked_for: group.key.to_string(),
            items: group.items.len(),
            signed: signatures(outcome).count(),
            fault: fault.cloned(),
            log: indexes(signatures(outcome).map(|signature| signature.log_index)),
            queue_ms: milliseconds(&self.queue_us),
            signer_ms: milliseconds(&self.signer_us),
            store_ms: milliseconds(&self.store_us),
            total_ms: milliseconds(&AtomicU64::new(u64::try_from(total.as_micros()).unwrap_or(u64::MAX))),
        };
        if failure == Some(Code::PermissionDenied) {
            let span = tracing::Span::current();
            front.notices.not_granted(move |left_out| span.in_scope(|| line.write(Some(left_out))));
        } else {
            line.write(None);
        }
    }
}

/// Of an answer.
struct Line {
    request_id: RequestId,
    key: Option<String>,
    asked_for: String,
    items: usize,
    signed: usize,
    fault: Option<Fault>,
    log: String,
    queue_ms: f64,
    signer_ms: f64,
    store_ms: f64,
    total_ms: f64,
}

impl Line {
    fn write(&self, left_out: Option<u64>) {
        tracing::info!(
            request_id = %self.request_id,
            key = self.key.as_deref(),
            asked_for = self.asked_for,
            items = self.items,
            signed = self.signed,
            outcome = self.fault.as_ref().map_or("success", |fault| fault.code.name()),
            reason = self.fault.as_ref().map(tracing::field::display),
            log = self.log,
            queue_ms = self.queue_ms,
            signer_ms = self.signer_ms,
            store_ms = self.store_ms,
            total_ms = self.total_ms,
            left_out,
            "answered",
        );
    }
}

/// A call or group that did not come as far as to be signed for anybody. If that is the caller's fault, it costs him
/// nothing to repeat it.
pub(crate) fn turned_away(front: &Inner, fault: &Fault) {
    front.metrics.requests.count(Some(fault.code));
    if fault.code.row().blame == Blame::Caller {
        let (span, fault) = (tracing::Span::current(), fault.clone());
        front.notices.refused(move |left_out| span.in_scope(|| turned_away_of(&fault, left_out)));
    } else {
        tracing::info!(outcome = fault.code.name(), reason = %fault, "turned away");
    }
}

/// The line for one of several of the kind.
pub(crate) fn turned_away_of(fault: &Fault, left_out: u64) {
    tracing::info!(outcome = fault.code.name(), reason = %fault, left_out, "turned away");
}

fn add(sum: &AtomicU64, duration: Duration) {
    sum.fetch_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

fn first_failure(outcome: &Outcomes) -> Option<&Fault> {
    match outcome {
        Ok(items) => items.iter().find_map(|item| item.as_ref().err()),
        Err(fault) => Some(fault),
    }
}

fn count_items(metrics: &Metrics, group: &Group, outcome: &Outcomes) {
    match outcome {
        Ok(items) => {
            for item in items {
                metrics.items.count(item.as_ref().err().map(|fault| fault.code));
            }
        }
        Err(fault) => group.items.iter().for_each(|_| metrics.items.count(Some(fault.code))),
    }
}

fn signatures(outcome: &Outcomes) -> impl Iterator<Item = &LoggedSignature> {
    outcome.iter().flatten().filter_map(|item| item.as_ref().ok())
}

/// `17`, `17-20`, `17-20,25`.
fn indexes(indexes: impl Iterator<Item = u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            Some(_) | None => ranges.push((index, index)),
        }
    }
    let ranges = ranges
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    ranges.collect::<Vec<_>>().join(",")
}

/// With three digits behind the point.
#[expect(clippy::cast_precision_loss, reason = "2^53 microseconds are 285 years")]
fn milliseconds(us: u64) -> f64 {
    us as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_that_follow_each_other_are_one_range() {
        assert_eq!(indexes([].into_iter()), "");
        assert_eq!(indexes([17].into_iter()), "17");
        assert_eq!(indexes([17, 18, 19, 25, 24].into_iter()), "17-19,25,24");
    }
}
