//! A gateway whose policies are those of bundles on a server: fetched, verified, tested, used.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use policy_bundle::{Bundle, ExtractedBundle, Manifest};
use thiserror::Error;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use super::{
    check::run_tests,
    client::{BundleClient, BundleResponse},
    offer::{OfferRefusal, check_offer},
    store::{BundleStore, BundleStoreError},
};
use crate::{
    backoff::Backoff,
    config::{BundleOrigin, BundleTrust, Config, PolicyLayer, PollRange, SourceSettings},
    mutex::Mutex,
    observe::{BundleFetch, BundleStatuses},
    state::{App, ConfigSource, ReloadError, SourceError},
    trial::AgentHandler,
};

/// Time for the first bundles, without which a gateway does not start.
const FIRST_FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Time between two attempts to fetch the first bundles.
const FIRST_FETCH_INTERVAL: Duration = Duration::from_millis(500);

/// Longest pause before a bundle is tried again that was refused for a reason that may pass, if
/// `poll` is shorter.
const MAX_RETRY_PAUSE: Duration = Duration::from_mins(5);

/// Bundles from servers, and those of them that are stored.
#[derive(Debug)]
pub struct Replica {
    pub(super) bundles: Vec<BundleOrigin>,
    poll: PollRange,
    pub(super) client: BundleClient,
    store: BundleStore,
    /// Bundles that were fetched and refused together with the others in use, by number. Locked
    /// while one is taken into use.
    offered: Mutex<BTreeMap<usize, PolicyLayer>>,
}

/// Reason why a gateway cannot start with its bundles.
#[derive(Debug, Error)]
pub enum ReplicaError {
    /// The folder of the bundles cannot be used.
    #[error(transparent)]
    Store(#[from] BundleStoreError),
    /// A bundle cannot be fetched, and no stored one can be used.
    #[error("bundle `{0}` cannot be fetched: {1}")]
    Fetch(String, String),
    /// The bundle of a server is refused, and no stored one can be used.
    #[error("bundle `{0}` refused: {1}")]
    Refused(String, #[source] Box<OfferRefusal>),
    /// The config with the bundles has problems.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The HTTP client cannot be built.
    #[error("HTTP client: {0}")]
    Client(String),
}

impl Replica {
    /// Opens the folder of the bundles. Fetches nothing.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be used, or is used by another process.
    pub fn open(settings: &SourceSettings) -> Result<Self, ReplicaError> {
        let client = BundleClient::new(settings.wait);
        let bundles = settings.bundles();
        Ok(Self {
            poll: settings.poll,
            client: client.map_err(|error| ReplicaError::Client(error.to_string()))?,
            store: BundleStore::open(&settings.persist, &bundles)?,
            bundles,
            offered: Mutex::default(),
        })
    }

    /// Returns the config with the stored bundles; `None` if none are stored.
    ///
    /// # Errors
    ///
    /// Returns the problems of the stored bundles, and of the config with them.
    pub async fn stored_config(
        &self,
        source: &ConfigSource,
        handler: AgentHandler,
    ) -> Result<Option<Config>, ReplicaError> {
        let names = self.bundles.iter().map(|origin| origin.name.as_str());
        let Some(bundles) = self.store.read(names)? else {
            return Ok(None);
        };
        let layers = self.bundles.iter().zip(bundles);
        let layers = layers.map(|(origin, bundle)| self.layer(origin, bundle, None));
        let layers = layers.collect::<Result<_, _>>()?;
        checked_config(source, layers, handler).await.map(Some)
    }

    /// Returns the config with the bundles of the servers. They must not be older than those that
    /// were stored of their URLs, even if these have problems, unless their manifests are damaged.
    ///
    /// # Errors
    ///
    /// Returns the problems of the bundles of the servers.
    pub async fn fetched_config(
        &self,
        source: &ConfigSource,
        handler: AgentHandler,
    ) -> Result<Config, ReplicaError> {
        let stored = self.store.manifests().unwrap_or_else(|error| {
            tracing::warn!(%error, "revisions of stored bundles unknown: older bundles are accepted");
            BTreeMap::new()
        });
        let mut layers = Vec::new();
        for origin in &self.bundles {
            let bundle = self.fetch_first(origin).await?;
            let last = stored.get(&origin.name);
            let last = last.filter(|_| !self.is_revoked(origin));
            layers.push(self.layer(origin, bundle, last)?);
        }
        checked_config(source, layers, handler).await
    }

    /// Returns whether the stored bundle is intact, but signed with a key that is not trusted any
    /// more. Its age does not count for bundles of other keys.
    fn is_revoked(&self, origin: &BundleOrigin) -> bool {
        let stored = self.store.read([origin.name.as_str()]).ok().flatten();
        let mut stored = stored.into_iter().flatten();
        !origin.unsigned && stored.any(|bundle| bundle.verify(&origin.keys).is_err())
    }

    /// Stores the bundles in use.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be written; those before stay.
    pub fn store(&self, layers: &[PolicyLayer]) -> Result<(), BundleStoreError> {
        self.store.write(layers)
    }

    async fn fetch_first(&self, origin: &BundleOrigin) -> Result<Bundle, ReplicaError> {
        let deadline = Instant::now() + FIRST_FETCH_TIMEOUT;
        // Logs each reason once, as while the gateway runs.
        let statuses = BundleStatuses::default();
        let failed = |cause: String| ReplicaError::Fetch(origin.name.clone(), cause);
        let archive = loop {
            let response = self.client.fetch(origin, None);
            match tokio::time::timeout_at(deadline, response).await {
                Ok(Ok(BundleResponse { archive, .. })) => break archive.unwrap_or_default(),
                Ok(Err(error)) if Instant::now() + FIRST_FETCH_INTERVAL >= deadline => {
                    return Err(failed(error.to_string()));
                }
                Ok(Err(error)) => statuses.record_failure(&origin.name, error.to_string()),
                Err(_elapsed) => return Err(failed("the server does not respond".to_owned())),
            }
            sleep(FIRST_FETCH_INTERVAL).await;
        };
        statuses.record_response(&origin.name);
        Bundle::from_bytes(&archive).map_err(|error| refused(origin, error.into()))
    }

    /// Checks a bundle, which must not be older than `stored`, and extracts its files.
    fn layer(
        &self,
        origin: &BundleOrigin,
        bundle: Bundle,
        stored: Option<&Manifest>,
    ) -> Result<PolicyLayer, ReplicaError> {
        check_offer(origin, &bundle, stored).map_err(|error| refused(origin, error))?;
        let extracted = self.store.extract(&origin.name, bundle);
        let extracted = extracted.map_err(|error| refused(origin, error.into()))?;
        Ok(layer_of(origin, extracted))
    }

    /// Takes a bundle into use instead of that in use, if it is another one and all its checks
    /// succeed. Blocks.
    pub(super) fn offer(
        &self,
        app: &App,
        index: usize,
        archive: &[u8],
        handler: AgentHandler,
    ) -> Result<BundleFetch, OfferRefusal> {
        let mut offered = self.offered.lock();
        let Some(origin) = self.bundles.get(index) else {
            return Ok(BundleFetch::Unchanged);
        };
        offered.remove(&index);
        let snapshot = app.snapshot();
        let current = snapshot.config.layers.get(index);
        let current = current.and_then(PolicyLayer::signed_bundle);
        let bundle = Bundle::from_bytes(archive)?;
        check_offer(origin, &bundle, current.map(Bundle::manifest))?;
        // An equal bundle with another signature is stored: its key may be the only one later.
        if current == Some(&bundle) {
            return Ok(BundleFetch::Unchanged);
        }
        let extracted = self.store.extract(&origin.name, bundle)?;
        offered.insert(index, layer_of(origin, extracted));
        let all: Vec<usize> = offered.keys().copied().collect();
        let Err(mut refusal) = self.activate(app, &mut offered, &all, handler) else {
            return Ok(BundleFetch::Activated);
        };
        // Of two bundles that are refused together, each may be right without the other.
        for one in all.iter().filter(|_| all.len() > 1) {
            match self.activate(app, &mut offered, &[*one], handler) {
                Ok(()) if *one == index => return Ok(BundleFetch::Activated),
                Ok(()) => break,
                // The others are no reason then.
                Err(error) if *one == index => refusal = error,
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    /// Takes some of the offered bundles into use, beside those in use.
    fn activate(
        &self,
        app: &App,
        offered: &mut BTreeMap<usize, PolicyLayer>,
        which: &[usize],
        handler: AgentHandler,
    ) -> Result<(), OfferRefusal> {
        let snapshot = app.snapshot();
        let layers = snapshot.config.layers.iter().enumerate();
        let layers = layers.map(|(index, layer)| {
            let offered = offered.get(&index).filter(|_| which.contains(&index));
            offered.unwrap_or(layer).clone()
        });
        app.activate(&layers.collect::<Vec<_>>(), |config| {
            check(app, config, handler)
        })?;
        for activated in which {
            offered.remove(activated);
            if let Some(origin) = self.bundles.get(*activated) {
                app.resources.bundles.record_offer(&origin.name, None);
            }
        }
        Ok(())
    }

    /// Returns the pauses before a refused bundle is tried again: its tests and proofs may be slow.
    pub(super) fn retries(&self) -> Backoff {
        let longest = self.poll.max;
        Backoff::new(longest, MAX_RETRY_PAUSE.max(longest))
    }

    /// Returns a random time between two requests, so that replicas do not ask at once.
    pub(super) fn delay(&self) -> Duration {
        let mut random = [0; 4];
        // Without randomness, the longest time.
        let filled = SystemRandom::new().fill(&mut random);
        let share = filled.map_or(1.0, |()| {
            f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX)
        });
        let PollRange { min, max } = self.poll;
        min + max.saturating_sub(min).mul_f64(share)
    }
}

/// Runs the tests of a config.
fn check(app: &App, config: &Config, handler: AgentHandler) -> Result<(), ReloadError> {
    // The cases need the runtime, which ends with the gateway.
    let shutdown = &app.resources.shutdown;
    let tests = shutdown.run_until_cancelled(run_tests(config, handler));
    match Handle::current().block_on(tests) {
        Some(checked) => checked.map(drop).map_err(ReloadError::from),
        None => Err(ReloadError::Transient(
            "the gateway is shutting down".to_owned(),
        )),
    }
}

/// Reads the config with bundles and runs their tests.
async fn checked_config(
    source: &ConfigSource,
    layers: Vec<PolicyLayer>,
    handler: AgentHandler,
) -> Result<Config, ReplicaError> {
    let config = source.read_layers(layers)?;
    run_tests(&config, handler).await.map_err(|error| {
        let names = config.layers.iter().map(|layer| layer.name.as_str());
        let names = names.collect::<Vec<_>>().join("`, `");
        ReplicaError::Refused(names, Box::new(ReloadError::from(error).into()))
    })?;
    Ok(config)
}

fn layer_of(origin: &BundleOrigin, extracted: Arc<ExtractedBundle>) -> PolicyLayer {
    let trust = if origin.unsigned {
        BundleTrust::Unsigned
    } else {
        BundleTrust::Signed
    };
    PolicyLayer::of_bundle(origin.name.clone(), extracted, trust, origin.allow.clone())
}

fn refused(origin: &BundleOrigin, error: OfferRefusal) -> ReplicaError {
    ReplicaError::Refused(origin.name.clone(), Box::new(error))
}
