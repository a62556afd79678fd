//! The page: Prometheus text format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats).

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use sealwright_obs::Verb;
use sealwright_proto::convert::group::Priority;

use super::{BOUNDS_US, Closed, Handshake, Histogram, KeyCall, Metrics, Outcomes, SignedWith};
use crate::signer_client::{Length, QueueNow};

/// What is not counted but looked up when a page is asked for.
#[derive(Clone, Debug, Default)]
pub struct Now {
    /// Name of a check and whether it passes.
    pub ready: Vec<(&'static str, bool)>,
    /// Entries of the log; `None`: it does not read.
    pub log_entries: Option<u64>,
    /// Commits of the store by this process.
    pub store_commits: u64,
    /// Bytes of requests that are held.
    pub request_bytes_in_work: u64,
    /// The queues to the signer.
    pub(crate) queues: Vec<QueueNow>,
    /// Unix seconds at which a certificate of ours ends, by its part: `server`, `client_ca`.
    pub certificate_ends: Vec<(&'static str, i64)>,
    /// Texts of PEM that were read, for all reloads together.
    pub pem_parses: u64,
    /// Private keys of TLS that were decoded.
    pub key_decodes: u64,
    /// TLS configurations that were built.
    pub tls_config_builds: u64,
}

impl Metrics {
    /// The whole page.
    #[must_use]
    pub fn page(&self, now: &Now) -> String {
        let mut page = Page::default();
        page.about_requests(self);
        page.about_queues(now);
        page.about_connections(self, now);
        page.about_state(self, now);
        page.about_process(self);
        page.0
    }
}

#[derive(Default)]
struct Page(String);

type Labels<'a> = &'a [(&'a str, &'a str)];

/// What of a queue is shown.
type Value = fn(&Length) -> String;

impl Page {
    fn about_requests(&mut self, metrics: &Metrics) {
        let name = "sealwright_requests_total";
        self.family(name, "counter", "Groups answered, by outcome: success, or the first failure.");
        self.outcomes(name, &[], &metrics.requests);
        let name = "sealwright_items_total";
        self.family(name, "counter", "Items of groups answered, by outcome.");
        self.outcomes(name, &[], &metrics.items);
        let name = "sealwright_signatures_total";
        self.family(name, "counter", "Signatures logged and answered with, by algorithm.");
        for (value, counter) in SignedWith::ALL.iter().zip(&metrics.signatures.0) {
            self.sample(name, &[("algorithm", value.label())], counter.value());
        }
        let name = "sealwright_key_calls_total";
        self.family(name, "counter", "Calls of key administration answered, by call and outcome.");
        for (call, outcomes) in KeyCall::ALL.iter().zip(&metrics.key_calls) {
            self.outcomes(name, &[("call", call.label())], outcomes);
        }
        let name = "sealwright_obs_requests_total";
        self.family(
            name,
            "counter",
            "Requests by obs-sign's protocol, by command and whether there was a result.",
        );
        for (verb, (answered, refused)) in Verb::ALL.iter().zip(&metrics.obs) {
            self.sample(name, &[("command", verb.name()), ("outcome", "success")], answered.value());
            self.sample(name, &[("command", verb.name()), ("outcome", "refused")], refused.value());
        }
        let histograms = [
            (
                "sealwright_request_seconds",
                "From the arrival of a group to its answer.",
                &metrics.request_seconds,
            ),
            ("sealwright_queue_seconds", "Of a group: until it left for the signer.", &metrics.queue_seconds),
            (
                "sealwright_signer_seconds",
                "Of a group: from then to the signer's answer.",
                &metrics.signer_seconds,
            ),
            (
                "sealwright_store_seconds",
                "Of a group: intent and log entry, until durable.",
                &metrics.store_seconds,
            ),
        ];
        for (name, help, histogram) in histograms {
            self.histogram(name, help, histogram);
        }
        let in_flight = metrics.requests_in_flight.value();
        self.one("sealwright_requests_in_flight", "gauge", "Groups that are not answered yet.", in_flight);
    }

    fn about_queues(&mut self, now: &Now) {
        let label = |priority| match priority {
            Priority::Interactive => "interactive",
            Priority::Batch => "batch",
        };
        let mut queues: Vec<_> = now.queues.iter().collect();
        queues.sort_by_key(|queue| (&queue.length.backend, label(queue.length.priority)));
        let gauges: [(&str, &str, Value); 3] = [
            ("sealwright_queue_groups", "Groups that wait for the signer.", |length| {
                length.groups.to_string()
            }),
            ("sealwright_queue_work_seconds", "Time of one processor that they take, estimated.", |length| {
                seconds(length.us)
            }),
            ("sealwright_signer_batches", "Batches with the signer.", |length| length.batches.to_string()),
        ];
        for (name, help, value) in gauges {
            self.family(name, "gauge", help);
            for QueueNow { length, .. } in &queues {
                let labels = [("backend", &*length.backend), ("priority", label(length.priority))];
                self.sample(name, &labels, value(length));
            }
        }
        let name = "sealwright_queue_wait_seconds";
        self.family(name, "histogram", "Of a group: in the queue, until its first item left for the signer.");
        for QueueNow { length, waits } in queues {
            if let Some(waits) = waits {
                let labels = [("backend", &*length.backend), ("priority", label(length.priority))];
                self.buckets(name, &labels, waits.of(length.priority));
            }
        }
    }

    fn about_connections(&mut self, metrics: &Metrics, now: &Now) {
        let bytes = now.request_bytes_in_work;
        self.one("sealwright_request_bytes_in_work", "gauge", "Bytes of requests that are held.", bytes);
        let taken = metrics.request_bytes.value();
        self.one("sealwright_request_bytes_total", "counter", "Bytes of calls taken from clients.", taken);
        let open = metrics.connections_open.value();
        self.one("sealwright_connections_open", "gauge", "Open connections.", open);
        let unknown = metrics.connections_unauthenticated.value();
        let name = "sealwright_connections_unauthenticated";
        self.one(name, "gauge", "Open connections that have not authenticated.", unknown);
        let accepted = metrics.connections.value();
        self.one("sealwright_connections_total", "counter", "Connections accepted.", accepted);
        let name = "sealwright_handshakes_total";
        self.family(name, "counter", "TLS handshakes ended, by outcome.");
        for (value, counter) in Handshake::ALL.iter().zip(&metrics.handshakes.0) {
            self.sample(name, &[("outcome", value.label())], counter.value());
        }
        let name = "sealwright_connections_closed_total";
        self.family(name, "counter", "Connections closed by the server, by reason.");
        for (value, counter) in Closed::ALL.iter().zip(&metrics.closed.0) {
            self.sample(name, &[("reason", value.label())], counter.value());
        }
        let name = "sealwright_certificate_end_timestamp_seconds";
        self.family(name, "gauge", "When a certificate of the server ends, Unix time.");
        for (part, end) in &now.certificate_ends {
            self.sample(name, &[("certificate", part)], end);
        }
        let pem = now.pem_parses;
        self.one("sealwright_pem_parse_total", "counter", "PEM texts read; grows with reloads only.", pem);
        let keys = now.key_decodes;
        self.one(
            "sealwright_key_decode_total",
            "counter",
            "TLS keys decoded; grows with reloads only.",
            keys,
        );
        let builds = now.tls_config_builds;
        let help = "TLS configurations built; grows with reloads only.";
        self.one("sealwright_tls_config_builds_total", "counter", help, builds);
        let name = "sealwright_reloads_total";
        self.family(name, "counter", "Reloads of configuration, by outcome.");
        self.sample(name, &[("outcome", "success")], metrics.reloads.value());
        self.sample(name, &[("outcome", "refused")], metrics.reloads_refused.value());
    }

    fn about_state(&mut self, metrics: &Metrics, now: &Now) {
        let name = "sealwright_build_info";
        self.family(name, "gauge", "Always 1; the release is the label.");
        self.sample(name, &[("version", env!("CARGO_PKG_VERSION"))], 1);
        let name = "sealwright_ready";
        self.family(name, "gauge", "1 where the check passes.");
        for (check, passes) in &now.ready {
            self.sample(name, &[("check", check)], u8::from(*passes));
        }
        let up = metrics.signer_up.value();
        self.one("sealwright_signer_up", "gauge", "1 while the signer is there.", up);
        let restarts = metrics.signer_restarts.value();
        self.one("sealwright_signer_restarts_total", "counter", "Signers that followed another.", restarts);
        let loads = metrics.key_loads.value();
        self.one("sealwright_key_loads_total", "counter", "Keys read from the store to sign.", loads);
        let commits = now.store_commits;
        self.one("sealwright_store_commits_total", "counter", "Commits of the store.", commits);
        let name = "sealwright_log_entries";
        self.family(name, "gauge", "Entries of the log of signatures; absent while it does not read.");
        if let Some(entries) = now.log_entries {
            self.sample(name, &[], entries);
        }
        let uptime = metrics.started.elapsed().as_secs();
        self.one("sealwright_uptime_seconds", "gauge", "Since the process started.", uptime);
    }

    fn about_process(&mut self, metrics: &Metrics) {
        let usage = metrics.process.usage();
        let name = "process_cpu_seconds_total";
        self.family(name, "counter", "Processor time, user and system.");
        if let Some(seconds) = usage.cpu_seconds {
            self.sample(name, &[], seconds);
        }
        let gauges = [
            ("process_resident_memory_bytes", "Memory in use.", usage.resident_bytes),
            ("process_open_fds", "Open descriptors.", usage.open_descriptors),
            ("process_max_fds", "Most descriptors that may be open.", usage.descriptors_max),
        ];
        for (name, help, value) in gauges {
            self.family(name, "gauge", help);
            if let Some(value) = value {
                self.sample(name, &[], value);
            }
        }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Names and values of labels are our own words, or names of backends, whose characters are restricted
    /// (`BackendName`): nothing in them needs an escape.
    fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn outcomes(&mut self, name: &str, labels: Labels<'_>, outcomes: &Outcomes) {
        for (outcome, count) in outcomes.each() {
            let labels = [labels, &[("outcome", outcome)]].concat();
            self.sample(name, &labels, count);
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, "histogram", help);
        self.buckets(name, &[], histogram);
    }

    fn buckets(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        let bucket = format!("{name}_bucket");
        let counts = histogram.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let bounds = BOUNDS_US.iter().map(|bound| seconds(*bound)).chain([String::from("+Inf")]);
        let mut sum = 0_u64;
        for (count, bound) in counts.zip(bounds) {
            sum = sum.saturating_add(count);
            self.sample(&bucket, &[labels, &[("le", &bound)]].concat(), sum);
        }
        self.sample(&format!("{name}_sum"), labels, seconds(histogram.sum_us.load(Ordering::Relaxed)));
        self.sample(&format!("{name}_count"), labels, sum);
    }
}

/// Exact: whole seconds, a point, six digits.
fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn buckets_are_cumulated_and_end_in_the_count() {
        let metrics = Metrics::default();
        metrics.store_seconds.observe(Duration::from_millis(2));
        metrics.store_seconds.observe(Duration::from_secs(100));
        let page = metrics.page(&Now::default());
        for line in [
            "sealwright_store_seconds_bucket{le=\"0.001000\"} 0",
            "sealwright_store_seconds_bucket{le=\"0.002500\"} 1",
            "sealwright_store_seconds_bucket{le=\"60.000000\"} 1",
            "sealwright_store_seconds_bucket{le=\"+Inf\"} 2",
            "sealwright_store_seconds_count 2",
            "sealwright_store_seconds_sum 100.002000",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in {page}");
        }
    }

    #[test]
    fn a_page_has_at_most_so_many_lines_whatever_happens() {
        let lines = Metrics::default().page(&Now::default()).lines().count();
        assert!(lines < 700, "{lines}");
    }
}
