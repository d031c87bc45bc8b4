//! The running application: its current snapshot, and config reloads.

mod promotions;

use std::{
    mem,
    sync::{Arc, PoisonError, RwLock},
};

use jiff::Timestamp;
use tokio::runtime::Handle;

use super::{
    config_source::{ConfigInput, ConfigSource},
    resources::{AppResources, end_tasks},
    revision_store::{ActiveRevision, RevisionList},
    revisions::{self, ConfigRevision, RefusedReload, ReloadCause, ReloadError, Revisions},
    snapshot::{BuildError, Snapshot},
};
use crate::{
    audit_log::{AuditRecord, PromotionRecord},
    config::{Config, PolicyLayer},
    mutex::Mutex,
    observe::ReloadOutcome,
};

/// The running application. Clones share their state.
#[derive(Clone)]
pub struct App {
    snapshot: Arc<RwLock<Arc<Snapshot>>>,
    /// Resources that survive config reloads.
    pub resources: Arc<AppResources>,
    reloads: Arc<ReloadState>,
}

struct ReloadState {
    source: Option<ConfigSource>,
    /// The config of the start. Some of its settings a reload does not change.
    start: Arc<Config>,
    revisions: Mutex<Revisions>,
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
        Box::pin(Self::build(config, resources, None)).await
    }

    /// Builds an application like [`Self::new`], whose config can be reloaded from `source`, which
    /// has read it.
    ///
    /// # Errors
    ///
    /// Returns an error like [`Self::new`].
    pub async fn with_reloads(
        config: Config,
        resources: AppResources,
        source: ConfigSource,
    ) -> Result<Self, BuildError> {
        // Those of the file may explain why the config cannot be used.
        let of_file = config.warnings.clone();
        revisions::log_warnings(&of_file);
        let app = Box::pin(Self::build(config, resources, Some(source))).await?;
        let mut others = app.snapshot().warnings();
        others.retain(|warning| !of_file.contains(warning));
        revisions::log_warnings(&others);
        Ok(app)
    }

    async fn build(
        config: Config,
        resources: AppResources,
        source: Option<ConfigSource>,
    ) -> Result<Self, BuildError> {
        let snapshot = Snapshot::build_all(config, &resources, source.as_ref(), None);
        let snapshot = Box::pin(snapshot).await;
        if snapshot.is_err() {
            // Workers end with their snapshot.
            end_tasks(&resources.tasks).await;
        }
        let snapshot = snapshot?;
        let mut revisions = Revisions::default();
        revisions.add(ConfigRevision::new(&snapshot.config, ReloadCause::Start));
        let reloads = ReloadState {
            source,
            start: Arc::clone(&snapshot.config),
            revisions: Mutex::new(revisions),
            running: Mutex::default(),
        };
        Ok(Self {
            snapshot: Arc::new(RwLock::new(Arc::new(snapshot))),
            resources: Arc::new(resources),
            reloads: Arc::new(reloads),
        })
    }

    /// Stores the revision of the config of the start, once nothing else can refuse the start.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be stored; the one that was in use before stays.
    pub fn store_start(&self) -> Result<(), BuildError> {
        if let Some(source) = &self.reloads.source {
            let snapshot = self.snapshot();
            snapshot.store_revisions(source, &ReloadCause::Start, None)?;
        }
        Ok(())
    }

    /// Starts background tasks and prewarmed hook processes. Needs a runtime.
    pub fn start(&self) {
        let snapshot = self.snapshot();
        snapshot.start(&self.resources);
        if let (Some(source), Some(audit)) = (&self.reloads.source, &snapshot.audit) {
            let promotions = source.promotions_at_start();
            source.append_promotions(promotions, Some(audit), &self.resources.tasks);
        }
        let trace = Arc::clone(&self.resources.trace);
        let maintained = async move { trace.maintain_contents().await };
        let shutdown = self.resources.shutdown.clone();
        let maintained = shutdown.run_until_cancelled_owned(maintained);
        self.resources.tasks.spawn(maintained);
    }

    /// Ends background tasks, and waits until all hook processes have ended.
    pub async fn end(self) {
        let resources = Arc::clone(&self.resources);
        resources.shutdown.cancel();
        // Workers end with the last snapshot.
        drop(self);
        end_tasks(&resources.tasks).await;
    }

    /// Returns the current snapshot, which a request holds from start to end.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        let snapshot = self.snapshot.read();
        Arc::clone(&snapshot.unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the config of the start. The listeners are bound to its addresses.
    pub fn start_config(&self) -> &Config {
        &self.reloads.start
    }

    /// Reads the config, proves its guards and replaces the snapshot. In-flight requests
    /// keep theirs. Blocks on files and proofs, so it needs a thread for blocking tasks.
    ///
    /// # Errors
    ///
    /// Returns every problem of a config that was rejected. The snapshot stays.
    pub fn reload(&self, cause: ReloadCause) -> Result<(), ReloadError> {
        let _running = self.reloads.running.lock();
        self.change(cause, None, |source| Ok(source.read()?))
    }

    /// Takes the policies of bundles into use, with the config file and through the checks and
    /// proofs of a reload, after `check` has accepted the config. Blocks like [`Self::reload`].
    /// Does not record a refusal.
    ///
    /// # Errors
    ///
    /// Returns every problem of a config that was rejected. The snapshot stays.
    pub fn activate(
        &self,
        layers: &[PolicyLayer],
        check: impl FnOnce(&Config) -> Result<(), ReloadError>,
    ) -> Result<(), ReloadError> {
        let _running = self.reloads.running.lock();
        let config = self.source().and_then(|source| {
            let config = source.read_layers(layers.to_vec())?;
            check(&config)?;
            Ok(config)
        });
        let changed = config.and_then(|config| self.apply(config, ReloadCause::Bundle, None));
        changed.map_err(|error| error.named_by_layers(layers))
    }

    /// Returns the stored revisions: that in use first, the others by their time, newest first. Blocks.
    ///
    /// # Errors
    ///
    /// Fails if none are kept, or if they cannot be read.
    pub fn stored_revisions(&self) -> Result<RevisionList, ReloadError> {
        Ok(self.source()?.history()?)
    }

    /// Returns the revision in use, if revisions are stored.
    pub fn active_revision(&self) -> Option<ActiveRevision> {
        self.reloads.source.as_ref()?.active()
    }

    /// Returns the settings of the config in use that take effect at the next start only.
    pub fn settings_for_restart(&self) -> Vec<&'static str> {
        let snapshot = self.snapshot();
        snapshot.config.settings_for_restart(&self.reloads.start)
    }

    /// Returns the config of a version that is or was in use. Blocks.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if it cannot be loaded.
    pub fn config_of(&self, version: &str) -> Result<Arc<Config>, ReloadError> {
        let mut recent = self.revisions().into_iter();
        if let Some(revision) = recent.find(|revision| revision.config.version == version) {
            return Ok(revision.config);
        }
        let source = self.source()?;
        let config = source.read_stored(source.stored(version)?)?;
        Ok(Arc::new(config))
    }

    /// Reads a config that is not taken into use, with the command line of that in use. Blocks.
    ///
    /// # Errors
    ///
    /// Returns every problem of the config.
    pub fn read_other(&self, input: ConfigInput<'_>) -> Result<Config, ReloadError> {
        Ok(self.source()?.read_other(input)?)
    }

    fn source(&self) -> Result<&ConfigSource, ReloadError> {
        let source = self.reloads.source.as_ref();
        source.ok_or_else(|| ReloadError::Rejected("no config file to reload".to_owned()))
    }

    /// Takes the config that `read` returns into use, and records whether it was accepted.
    fn change(
        &self,
        cause: ReloadCause,
        promotion: Option<&PromotionRecord>,
        read: impl FnOnce(&ConfigSource) -> Result<Config, ReloadError>,
    ) -> Result<(), ReloadError> {
        let config = self.source().and_then(read);
        let changed = config.and_then(|config| self.apply(config, cause.clone(), promotion));
        if let Err(error) = &changed {
            self.record_refusal(cause, error.clone());
        }
        changed
    }

    /// Builds and proves the snapshot of a config, stores its revision, and replaces the
    /// snapshot in use.
    fn apply(
        &self,
        config: Config,
        cause: ReloadCause,
        promotion: Option<&PromotionRecord>,
    ) -> Result<(), ReloadError> {
        revisions::check_start_settings(&self.reloads.start, &config)?;
        let source = self.source()?;
        // A promoted revision is in use without its rollout.
        let snapshot = self.rebuild(config, promotion.is_none().then_some(source))?;
        // INVARIANT: the revision is stored before any call runs under it, so that a process that
        // is killed starts with the old one or with this one.
        snapshot.store_revisions(source, &cause, promotion)?;
        snapshot.start(&self.resources);
        // A promotion that ends the decision log is recorded in it.
        let ended = self.snapshot().audit.clone();
        let ended = ended.map(|audit| Arc::new(audit.for_config(&snapshot.config.version)));
        let audit = snapshot.audit.clone().or(ended);
        let promotions = promotion.into_iter().cloned().collect();
        source.append_promotions(promotions, audit.as_ref(), &self.resources.tasks);
        let applied = ConfigRevision::new(&snapshot.config, cause);
        let previous = self.replace(snapshot);
        previous.proofs.stop();
        self.resources.follow_config(&applied.config);
        revisions::log_removed_guards(&previous.config, &applied.config);
        revisions::log_warnings(&self.snapshot().warnings());
        tracing::info!(config.version = applied.config.version, "config reloaded");
        self.reloads.revisions.lock().add(applied);
        self.record_outcome(ReloadOutcome::Applied);
        Ok(())
    }

    /// Builds and proves the snapshot of a config, with that of its rollout if there is a source
    /// for it, unless the gateway shuts down.
    fn rebuild(
        &self,
        config: Config,
        rollout_source: Option<&ConfigSource>,
    ) -> Result<Snapshot, ReloadError> {
        let previous = self.snapshot();
        let built = Snapshot::build_all(config, &self.resources, rollout_source, Some(&previous));
        let built = self.resources.shutdown.run_until_cancelled(Box::pin(built));
        let Some(built) = Handle::current().block_on(built) else {
            let message = "the gateway is shutting down".to_owned();
            return Err(ReloadError::Transient(message));
        };
        Ok(built?)
    }

    /// Records that a config was refused.
    pub fn record_refusal(&self, cause: ReloadCause, error: ReloadError) {
        if self.resources.shutdown.is_cancelled() {
            // A shutdown ends checks and proofs, which refuses nothing.
            return;
        }
        tracing::warn!(problems = %error, "config reload rejected");
        self.reloads.revisions.lock().refused = Some(RefusedReload {
            time: Timestamp::now(),
            cause,
            error,
        });
        self.record_outcome(ReloadOutcome::Rejected);
    }

    fn record_outcome(&self, outcome: ReloadOutcome) {
        self.resources.metrics.record_reload(outcome);
        if let Some(source) = &self.reloads.source {
            source.files().notify_reloaded();
        }
        if let Some(audit) = &self.snapshot().audit {
            audit.append(&AuditRecord::Reload { outcome });
        }
    }

    /// Returns the last reload, if it failed.
    pub fn refused_reload(&self) -> Option<RefusedReload> {
        self.reloads.revisions.lock().refused.clone()
    }

    /// Returns the configs that are or were in use, newest first. Of many, the last ones.
    pub fn revisions(&self) -> Vec<ConfigRevision> {
        let revisions = self.reloads.revisions.lock();
        revisions.applied.iter().rev().cloned().collect()
    }

    /// Replaces the snapshot and returns the previous one.
    fn replace(&self, snapshot: Snapshot) -> Arc<Snapshot> {
        let current = self.snapshot.write();
        let mut current = current.unwrap_or_else(PoisonError::into_inner);
        mem::replace(&mut current, Arc::new(snapshot))
    }
}
