//! What an operator's tools are shown, on the listener for metrics.

use std::sync::Arc;

use sealwright_server::metrics::Now;
use sealwright_server::metrics::listener::Source;
use sealwright_server::tls::{self, Plane};
use sealwright_server::{Front, Service};

/// Puts the page together.
pub(super) struct Observed {
    pub(super) front: Front,
    pub(super) service: Service,
    /// Of now; exchanged by a reload.
    pub(super) tls: tokio::sync::watch::Receiver<Arc<Plane>>,
}

#[tonic::async_trait]
impl Source for Observed {
    async fn page(&self) -> String {
        let readiness = self.service.readiness().await;
        let counts = tls::counts();
        let certificate_ends = vec![("server", self.tls.borrow().not_after_s())];
        let now = Now {
            ready: vec![
                ("signer", readiness.signer.is_ok()),
                ("store", readiness.store.is_ok()),
                ("log", readiness.log.is_ok()),
                ("disk", readiness.disk.is_ok()),
            ],
            store_commits: self.front.store_commits(),
            certificate_ends,
            pem_parses: counts.pem_parse_total,
            key_decodes: counts.key_decode_total,
            tls_config_builds: counts.tls_config_builds_total,
            ..Now::default()
        };
        self.service.metrics().page(&now)
    }

    async fn not_ready(&self) -> Vec<String> {
        self.service.readiness().await.reasons().map(|(part, why)| format!("{part}: {why}")).collect()
    }
}
