//! What replicas share in Redis beside sessions: limits of callers, and heartbeats.

use std::sync::Arc;

use crate::{
    auth::SharedLimits,
    config::{CallerLimits, Config, ConfigError, Problem, Secret},
    fleet::Fleet,
    state::resources::AppResources,
};

/// What replicas share in Redis beside sessions. Empty without Redis.
#[derive(Debug, Clone, Default)]
pub struct SharedState {
    /// Limits of callers, if callers are authenticated.
    pub limits: Option<Arc<SharedLimits>>,
    /// Settings of `limits`, and the URL of Redis.
    built_for: Option<(Secret, CallerLimits)>,
    fleet: Option<Arc<Fleet>>,
}

impl SharedState {
    /// Builds what `config` asks for, and reuses what is unchanged since `previous`.
    pub(in crate::state) fn build(
        config: &Config,
        resources: &AppResources,
        previous: Option<&Self>,
    ) -> Result<Self, ConfigError> {
        let Some(url) = config.limits_redis().filter(|_| config.auth.is_required()) else {
            return Ok(Self::default());
        };
        let settings = &config.auth.limits;
        let previous = previous.filter(|previous| {
            let built_for = previous.built_for.as_ref();
            built_for.is_some_and(|(built_for, _)| built_for == url)
        });
        if let Some(previous) = previous
            && let Some((_, old_settings)) = &previous.built_for
            && old_settings == settings
        {
            return Ok(previous.clone());
        }
        let metrics = &resources.metrics;
        let fleet = match previous.and_then(|previous| previous.fleet.clone()) {
            Some(fleet) => fleet,
            None => {
                let fleet = Fleet::new(url, metrics.limits_store_failures.clone());
                Arc::new(fleet.map_err(|error| Problem::without_span(error.to_string()))?)
            }
        };
        let limits = SharedLimits::new(
            Arc::clone(&fleet),
            settings.on_store_loss,
            settings.min_replicas,
            metrics.limits_shared.clone(),
        );
        Ok(Self {
            limits: Some(Arc::new(limits)),
            built_for: Some((url.clone(), settings.clone())),
            fleet: Some(fleet),
        })
    }
}
