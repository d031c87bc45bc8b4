//! Fetches bundles again and again, and offers new ones to the gateway.

use std::{mem, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    client::{BundleResponse, FetchError},
    offer::OfferRefusal,
    replica::Replica,
};
use crate::{
    backoff::Backoff,
    config::{BundleOrigin, Config, SourceSettings},
    observe::BundleFetch,
    sha256::sha256,
    state::{App, ReloadCause, ReloadError},
    trial::AgentHandler,
};

/// Shortest time for which a server that holds requests holds one without a new bundle.
const MIN_HELD: Duration = Duration::from_secs(1);

/// Fetches the bundles of a replica and takes new ones into use, until shutdown.
pub async fn follow(replica: Arc<Replica>, app: App, handler: AgentHandler) {
    let bundles = replica.bundles.iter().enumerate();
    let followed = join_all(bundles.map(|(index, origin)| {
        let follower = BundleFollower {
            replica: &replica,
            index,
            origin,
            app: &app,
            handler,
            etag: None,
            last_archive: None,
            retry: None,
            retries: replica.retries(),
        };
        follower.run()
    }));
    let shutdown = app.resources.shutdown.clone();
    shutdown.run_until_cancelled(followed).await;
}

/// Fetches one bundle again and again.
struct BundleFollower<'a> {
    replica: &'a Arc<Replica>,
    index: usize,
    origin: &'a BundleOrigin,
    app: &'a App,
    handler: AgentHandler,
    etag: Option<String>,
    /// SHA-256 of the last archive.
    last_archive: Option<[u8; 32]>,
    /// Next attempt with the last archive, if its refusal may pass.
    retry: Option<BundleRetry>,
    /// Pauses between attempts with the last archive.
    retries: Backoff,
}

/// Attempt with a bundle that was refused: after a pause, or once another config is in use.
struct BundleRetry {
    time: Instant,
    refused_beside: Arc<Config>,
}

impl BundleFollower<'_> {
    async fn run(mut self) {
        let bundles = &self.app.resources.bundles;
        loop {
            let started = Instant::now();
            let Some(response) = self.fetch().await else {
                continue;
            };
            let (outcome, is_held) = match response {
                Ok(response) => {
                    bundles.record_response(&self.origin.name);
                    self.etag = response.etag;
                    let outcome = match response.archive {
                        Some(archive) => self.offer(archive).await,
                        None => BundleFetch::Unchanged,
                    };
                    (outcome, response.is_held && self.etag.is_some())
                }
                Err(error) => {
                    bundles.record_failure(&self.origin.name, error.to_string());
                    (BundleFetch::Failed, false)
                }
            };
            self.record(outcome);
            // A server that responds at once without a bundle that can be used is polled.
            let was_held = started.elapsed() >= MIN_HELD || outcome == BundleFetch::Activated;
            if !(is_held && was_held) {
                sleep(self.replica.delay()).await;
            }
        }
    }

    /// Fetches the bundle, unless it is the last one. `None` if a refused one is due meanwhile.
    async fn fetch(&self) -> Option<Result<BundleResponse, FetchError>> {
        let origin = self.origin_in_use();
        let is_due = self.is_retry_due();
        let etag = self.etag.as_deref().filter(|_| !is_due);
        let response = self.replica.client.fetch(&origin, etag);
        match self.retry.as_ref().filter(|_| !is_due) {
            // The server may hold the request for longer.
            Some(retry) => timeout_at(retry.time, response).await.ok(),
            None => Some(response.await),
        }
    }

    /// Returns whether a bundle that was refused is tried again.
    fn is_retry_due(&self) -> bool {
        self.retry.as_ref().is_some_and(|retry| {
            let config = &self.app.snapshot().config;
            retry.time <= Instant::now() || !Arc::ptr_eq(config, &retry.refused_beside)
        })
    }

    /// Returns the origin of the bundle with the token of the config in use.
    fn origin_in_use(&self) -> BundleOrigin {
        let snapshot = self.app.snapshot();
        let bundles = snapshot.config.source.as_ref().map(SourceSettings::bundles);
        let origin = bundles.and_then(|bundles| bundles.into_iter().nth(self.index));
        origin.unwrap_or_else(|| self.origin.clone())
    }

    /// Takes an archive into use on a thread for blocking tasks, if it is new and valid. One that is
    /// refused for a reason that may pass is fetched again after a pause.
    async fn offer(&mut self, archive: Vec<u8>) -> BundleFetch {
        // Compared, because a server may have no entity tags.
        let hash = Some(sha256(&archive));
        if mem::replace(&mut self.last_archive, hash) != hash {
            self.retries.reset();
        } else if !self.is_retry_due() {
            return BundleFetch::Unchanged;
        }
        self.retry = None;
        let (replica, app) = (Arc::clone(self.replica), self.app.clone());
        let (index, handler) = (self.index, self.handler);
        let offered =
            tokio::task::spawn_blocking(move || replica.offer(&app, index, &archive, handler));
        let (name, bundles) = (&self.origin.name, &self.app.resources.bundles);
        let refusal = match offered.await {
            Ok(Ok(outcome)) => {
                bundles.record_offer(name, None);
                return outcome;
            }
            Ok(Err(refusal)) => refusal,
            Err(_panicked) => ReloadError::Transient("the task failed".to_owned()).into(),
        };
        if refusal.is_transient() {
            self.retry = Some(BundleRetry {
                time: Instant::now() + self.retries.next_delay(),
                refused_beside: Arc::clone(&self.app.snapshot().config),
            });
        }
        let problem = Some(refusal.to_string());
        // A reload in between was applied, and this is the last one again.
        let is_recorded =
            bundles.get(name).refused == problem && self.app.refused_reload().is_some();
        if let OfferRefusal::Reload(error) = refusal
            && !is_recorded
        {
            self.app.record_refusal(ReloadCause::Bundle, error);
        }
        bundles.record_offer(name, problem);
        BundleFetch::Refused
    }

    fn record(&self, outcome: BundleFetch) {
        let layers = &self.app.snapshot().config.layers;
        let layer = layers.get(self.index);
        let in_use = layer.and_then(|layer| layer.bundle.as_ref());
        let created = in_use.map_or(0, |bundle| bundle.bundle().manifest().created.as_second());
        let status = self.app.resources.bundles.get(&self.origin.name);
        let metrics = &self.app.resources.metrics;
        let name = || self.origin.name.clone().into();
        let labels = [name(), outcome.as_str().into()];
        metrics.bundle_fetches.with(labels).inc();
        metrics.bundle_created.with([name()]).set(created);
        let is_current = i64::from(status.error().is_none());
        metrics.bundle_is_current.with([name()]).set(is_current);
    }
}
