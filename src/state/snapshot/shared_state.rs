//! State that replicas share in Redis beside sessions: limits of callers, and heartbeats.

use std::sync::Arc;

use crate::{
    auth::SharedLimits,
    config::{CallerLimits, Config, ConfigError, Problem, Secret},
    fleet::Fleet,
    state::resources::AppResources,
};

/// State that replicas share in Redis beside sessions. Empty without Redis.
#[derive(Debug, Clone, Default)]
pub struct SharedState {
    /// Limits of callers, if callers are authenticated.
    pub limits: Option<Arc<SharedLimits>>,
    /// This replica among those with the same Redis.
    pub fleet: Option<Arc<Fleet>>,
    /// Settings of `limits`, and the URL of Redis.
    built_for: Option<(Secret, CallerLimits)>,
}

impl SharedState {
    /// Builds what `config` asks for, and reuses what is unchanged since `previous`.
    pub(in crate::state) fn build(
        config: &Config,
        resources: &AppResources,
        previous: Option<&Self>,
    ) -> Result<Self, ConfigError> {
        let limits_redis = config.limits_redis().filter(|_| config.auth.is_required());
        let has_limits = limits_redis.is_some();
        let Some(url) = limits_redis.or(config.sessions.store.redis()) else {
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
            && previous.limits.is_some() == has_limits
        {
            return Ok(previous.clone());
        }
        let metrics = &resources.metrics;
        let kept = previous.and_then(|previous| previous.fleet.clone());
        let fleet = if let Some(kept) = kept {
            kept
        } else {
            let fleet = Fleet::new(url, metrics.fleet_store_failures.clone());
            Arc::new(fleet.map_err(|error| Problem::without_span(error.to_string()))?)
        };
        let limits = has_limits.then(|| {
            SharedLimits::new(
                Arc::clone(&fleet),
                settings.on_store_loss,
                settings.min_replicas,
                metrics.limits_shared.clone(),
            )
        });
        Ok(Self {
            limits: limits.map(Arc::new),
            built_for: Some((url.clone(), settings.clone())),
            fleet: Some(fleet),
        })
    }
}
