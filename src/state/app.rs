//! The running application: its current snapshot, and config reloads.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use jiff::Timestamp;
use tokio::runtime::Handle;

use super::{
    resources::{AppResources, end_tasks},
    revisions::{ConfigRevision, RefusedReload, ReloadCause, ReloadError, Revisions},
    snapshot::{BuildError, Snapshot},
};
use crate::{
    audit_log::AuditRecord,
    config::{Config, ConfigError},
    observe::ReloadOutcome,
};

/// Reads the config from its source.
pub type ReadConfig = dyn Fn() -> Result<Config, ConfigError> + Send + Sync;

/// The running application. Clones share their state.
#[derive(Clone)]
pub struct App {
    snapshot: Arc<RwLock<Arc<Snapshot>>>,
    /// Resources that survive config reloads.
    pub resources: Arc<AppResources>,
    reloads: Arc<ReloadState>,
}

#[derive(Default)]
struct ReloadState {
    read_config: Option<Arc<ReadConfig>>,
    revisions: Revisions,
    /// Locked during a reload: two at once would both take over transports of the same
    /// snapshot, and end them with the first of the two.
    running: Mutex<()>,
}

impl App {
    /// Builds an application for `config` and proves its guards. Blocks while the decision
    /// log is opened.
    ///
    /// # Errors
    ///
    /// Returns an error if something that the config asks for cannot be built, or if a
    /// guard is not proven. No hook process is left then.
    pub async fn new(config: Config, resources: AppResources) -> Result<Self, BuildError> {
        let snapshot = Snapshot::build(config, &resources, None)?;
        if let Err(error) = snapshot.prove(&resources).await {
            // Workers end with their snapshot.
            drop(snapshot);
            end_tasks(&resources.tasks).await;
            return Err(error.into());
        }
        let snapshot = snapshot.open_logs(&resources, None)?;
        let reloads = ReloadState::default();
        reloads
            .revisions
            .add(revision(&snapshot, ReloadCause::Start));
        Ok(Self {
            snapshot: Arc::new(RwLock::new(Arc::new(snapshot))),
            resources: Arc::new(resources),
            reloads: Arc::new(reloads),
        })
    }

    /// Returns the same application, whose config can be reloaded with `read_config`.
    #[must_use]
    pub fn with_reloads(self, read_config: Arc<ReadConfig>) -> Self {
        let reloads = Arc::new(ReloadState {
            read_config: Some(read_config),
            ..ReloadState::default()
        });
        let first = revision(&self.snapshot(), ReloadCause::Start);
        reloads.revisions.add(first);
        Self { reloads, ..self }
    }

    /// Starts background tasks and prewarmed hook processes. Needs a runtime.
    pub fn start(&self) {
        self.snapshot().start(&self.resources);
        let (trace, shutdown) = (Arc::clone(&self.resources.trace), &self.resources.shutdown);
        let shutdown = shutdown.clone();
        let maintained = async move { trace.maintain_contents().await };
        let maintained = shutdown.run_until_cancelled_owned(maintained);
        self.resources.tasks.spawn(maintained);
    }

    /// Returns the current snapshot, which a request holds from start to end.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        let snapshot = self.snapshot.read();
        Arc::clone(&snapshot.unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the config, proves its guards and replaces the snapshot. In-flight requests
    /// keep theirs. Blocks on files and proofs, so it needs a thread for blocking tasks.
    ///
    /// # Errors
    ///
    /// Returns every problem of a config that was rejected. The snapshot stays.
    pub fn reload(&self, cause: ReloadCause) -> Result<(), ReloadError> {
        let _running = lock(&self.reloads.running);
        let reloaded = self.build_new_snapshot().map(|snapshot| {
            snapshot.start(&self.resources);
            let applied = revision(&snapshot, cause.clone());
            self.replace(snapshot).proofs.stop();
            self.reloads.revisions.add(applied);
        });
        let outcome = match &reloaded {
            Ok(()) => {
                tracing::info!("config reloaded");
                ReloadOutcome::Applied
            }
            Err(error) => {
                tracing::warn!(problems = %error, "config reload rejected");
                self.reloads.revisions.set_refused(RefusedReload {
                    time: Timestamp::now(),
                    cause,
                    error: error.clone(),
                });
                ReloadOutcome::Rejected
            }
        };
        self.resources.metrics.record_reload(outcome);
        if let Some(audit) = &self.snapshot().audit {
            audit.append(&AuditRecord::Reload { outcome });
        }
        reloaded
    }

    /// Returns the last reload, if it failed.
    pub fn refused_reload(&self) -> Option<RefusedReload> {
        self.reloads.revisions.refused()
    }

    /// Returns the configs that are or were in use, newest first. Of many, the last ones.
    pub fn revisions(&self) -> Vec<ConfigRevision> {
        self.reloads.revisions.list()
    }

    /// Replaces the snapshot and returns the previous one.
    fn replace(&self, snapshot: Snapshot) -> Arc<Snapshot> {
        let current = self.snapshot.write();
        let mut current = current.unwrap_or_else(PoisonError::into_inner);
        mem::replace(&mut current, Arc::new(snapshot))
    }

    fn build_new_snapshot(&self) -> Result<Snapshot, ReloadError> {
        let Some(read_config) = &self.reloads.read_config else {
            return Err(ReloadError("no config file to reload".to_owned()));
        };
        let config = read_config().map_err(|error| ReloadError(error.to_string()))?;
        let previous = self.snapshot();
        let old = &previous.config;
        if (config.listen, config.admin.listen) != (old.listen, old.admin.listen) {
            tracing::warn!("listener addresses changed; restart to apply");
        }
        let rejected = |error: BuildError| ReloadError(error.to_string());
        let built = Snapshot::build(config, &self.resources, Some(&previous)).map_err(rejected)?;
        self.prove(&built)?;
        let opened = built.open_logs(&self.resources, Some(&previous));
        opened.map_err(|error| rejected(error.into()))
    }

    /// Proves the guards of a new snapshot, unless the gateway shuts down.
    fn prove(&self, snapshot: &Snapshot) -> Result<(), ReloadError> {
        let proved = snapshot.prove(&self.resources);
        let proved = self.resources.shutdown.run_until_cancelled(proved);
        match Handle::current().block_on(proved) {
            Some(proved) => proved.map_err(|error| ReloadError(error.to_string())),
            None => Err(ReloadError("the gateway is shutting down".to_owned())),
        }
    }
}

fn revision(snapshot: &Snapshot, cause: ReloadCause) -> ConfigRevision {
    ConfigRevision {
        applied: Timestamp::now(),
        cause,
        config: Arc::clone(&snapshot.config),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
