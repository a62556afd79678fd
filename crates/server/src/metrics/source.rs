//! What a running service shows on the listener for metrics.

use super::listener::Source;
use super::page::Now;
use crate::{Readiness, Service, tls};

#[tonic::async_trait]
impl Source for Service {
    async fn page(&self) -> String {
        let readiness = self.readiness().await;
        let front = self.front();
        let counts = tls::counts();
        let now = Now {
            ready: ready(&readiness),
            log_entries: front.inner.store.log_head().await.ok().map(|head| head.size()),
            store_commits: front.store_commits(),
            request_bytes_in_work: front.request_bytes_in_work(),
            queues: front.inner.signer.queues(),
            certificate_ends: vec![("server", self.certificate_end_s())],
            pem_parses: counts.pem_parse_total,
            key_decodes: counts.key_decode_total,
            tls_config_builds: counts.tls_config_builds_total,
        };
        front.metrics().page(&now)
    }

    async fn not_ready(&self) -> Vec<String> {
        self.readiness().await.reasons().map(|(part, why)| format!("{part}: {why}")).collect()
    }
}

/// Each part by its name, whether it is fine or not.
fn ready(readiness: &Readiness) -> Vec<(&'static str, bool)> {
    let parts = [
        ("signer", &readiness.signer),
        ("store", &readiness.store),
        ("log", &readiness.log),
        ("disk", &readiness.disk),
    ];
    parts.into_iter().map(|(part, state)| (part, state.is_ok())).collect()
}
