//! The rollout of another config to a share of the sessions.
//!
//! INVARIANT: a request is assigned once, before anything of it is decided, and a session is
//! assigned by its name, or else by its caller and first prompt. So no request and no session
//! runs under two configs, but for a session that a change of the share moves, or that moves
//! between gateways at different steps.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::{
    config_source::{ConfigSource, SourceError},
    resources::AppResources,
    revision_store::RevisionError,
    revisions::ReloadCause,
    rollout_progress::{RolloutArm, RolloutChange, RolloutProgress, RolloutStatus},
    rollout_sink::RolloutReporter,
    snapshot::{BuildError, Snapshot},
};
use crate::{
    audit_log::PromotionRecord,
    config::{Config, ConfigError, Problem, RolloutUnit, SourceSpan},
    event::RuleId,
    proof::GuardStatus,
};

impl Snapshot {
    /// Returns the unit by which calls of a caller are assigned to one of two configs; `None` if
    /// all of them run under this one.
    pub fn rollout_unit(&self, caller: &str) -> Option<RolloutUnit> {
        let reporter = self.rollout.as_ref().filter(|_| self.candidate.is_some())?;
        if let Some(change) = reporter.progress.advance(Instant::now()) {
            reporter.report(change);
        }
        reporter.progress.takes_part(caller)
    }

    /// Returns the snapshot of a session, or of all sessions of a caller if it is empty: this
    /// one, or that of the config that is rolled out. Applies to callers with a
    /// [`Self::rollout_unit`].
    #[must_use]
    pub fn for_session(self: Arc<Self>, caller_key: &str, session: &str) -> Arc<Self> {
        let arm = self.rollout.as_ref();
        let arm = arm.map(|reporter| reporter.progress.arm_of(caller_key, session));
        match (&self.candidate, arm) {
            (Some(candidate), Some(RolloutArm::Candidate)) => Arc::clone(candidate),
            _ => self,
        }
    }

    /// Returns the snapshot of one of the two configs; `None` for that of a rollout if there is
    /// none, or it was aborted.
    pub(super) fn arm(&self, arm: RolloutArm) -> Option<&Self> {
        match arm {
            RolloutArm::Current => Some(self),
            RolloutArm::Candidate => {
                let (_, status) = self.rollout_status()?;
                self.candidate.as_deref().filter(|_| !status.is_aborted)
            }
        }
    }

    /// Returns the snapshot of the config that is rolled out, unless the rollout was aborted.
    pub fn active_candidate(&self) -> Option<&Self> {
        self.arm(RolloutArm::Candidate)
    }

    /// Returns this snapshot, and that of the config that is rolled out.
    pub fn arms(&self) -> impl Iterator<Item = &Self> {
        [Some(self), self.active_candidate()].into_iter().flatten()
    }

    /// Returns the warnings about this config and about the one that is rolled out, each once.
    pub fn warnings(&self) -> Vec<Problem> {
        let mut warnings = self.own_warnings.clone();
        let candidate = self.active_candidate().into_iter();
        let others = candidate.flat_map(|candidate| &candidate.own_warnings);
        warnings.extend(
            others
                .filter(|other| !self.own_warnings.contains(other))
                .cloned(),
        );
        warnings
    }

    /// Returns the result of each guard's last proof: those of this config, and of the one that is
    /// rolled out.
    pub fn guard_statuses(&self) -> impl Iterator<Item = GuardStatus> {
        self.arms().flat_map(|snapshot| snapshot.proofs.statuses())
    }

    /// Returns the result of the last proof of a policy or hook with cases. A failed proof of an
    /// equal one in the config that is rolled out takes precedence.
    pub fn guard_status(&self, rule: RuleId) -> Option<GuardStatus> {
        let failed = || {
            let candidate = self.active_candidate()?;
            let equal = candidate.trace.equal_rules(self.trace.identity(rule)?);
            let mut statuses = equal.filter_map(|id| candidate.proofs.of_rule(id));
            statuses.find(|status| !status.proven)
        };
        failed().or_else(|| self.proofs.of_rule(rule))
    }

    /// Returns the names of guards whose last proof failed, each once.
    pub fn unproven_guards(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for guard in self.guard_statuses() {
            if !guard.proven && !names.contains(&guard.name) {
                names.push(guard.name);
            }
        }
        names
    }

    /// Returns the names of upstreams, and whether their circuit breakers are open: under this
    /// config, or under the one that is rolled out.
    pub fn circuits(&self) -> BTreeMap<&str, bool> {
        let mut circuits = BTreeMap::new();
        let all = self.arms();
        for (name, is_open) in all.flat_map(|snapshot| snapshot.upstreams.circuits()) {
            *circuits.entry(name).or_default() |= is_open;
        }
        circuits
    }

    /// Returns the names of upstreams whose circuit breaker is open, as in [`Self::circuits`].
    pub fn open_circuits(&self) -> Vec<&str> {
        let open = self.circuits().into_iter().filter(|(_, is_open)| *is_open);
        open.map(|(name, _)| name).collect()
    }

    /// Returns the version that is rolled out, and how far the rollout is.
    pub fn rollout_status(&self) -> Option<(&str, RolloutStatus)> {
        let progress = &self.rollout.as_ref()?.progress;
        Some((&progress.to, progress.status()))
    }

    /// Builds a snapshot, with that of a rollout unless an operator has promoted the config, and
    /// proves their guards.
    ///
    /// # Errors
    ///
    /// Returns an error if something that the configs ask for cannot be built, or if a guard is
    /// not proven.
    pub(super) async fn build_all(
        config: Config,
        resources: &AppResources,
        source: Option<&ConfigSource>,
        previous: Option<&Self>,
    ) -> Result<Self, BuildError> {
        let snapshot = Self::build(config, resources, previous, None)?;
        snapshot.prove(resources).await?;
        let mut snapshot = snapshot.open_logs(resources, previous)?;
        if let Some(source) = source
            && !source.is_promoted(&snapshot.config.version)
            && let Some(candidate) = snapshot.build_candidate(source, resources)?
        {
            candidate.prove(resources).await?;
            snapshot.add_candidate(candidate, source, resources, previous);
        }
        Ok(snapshot)
    }

    /// Builds the snapshot of the config that is rolled out, if there is one. The settings of
    /// listeners, callers, sessions, logs and the trace are those of the config in use. Stores
    /// nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the config cannot be read, any part cannot be built, or the workers of
    /// both leave no process slot.
    pub fn build_candidate(
        &self,
        source: &ConfigSource,
        resources: &AppResources,
    ) -> Result<Option<Self>, BuildError> {
        let current = &self.config;
        let Some(settings) = &current.rollout else {
            return Ok(None);
        };
        let config = source.read_candidate(&settings.to);
        let config = config.map_err(|error| candidate_error(&current.rollout_span, error))?;
        if config.version == current.version {
            tracing::warn!("the config of the rollout is in use");
            return Ok(None);
        }
        let config = Config {
            listen: current.listen,
            tls: current.tls.clone(),
            admin: current.admin.clone(),
            auth: current.auth.clone(),
            caller_policies: current.caller_policies.clone(),
            browsers: current.browsers.clone(),
            sessions: current.sessions.clone(),
            log: current.log,
            audit: current.audit.clone(),
            telemetry: current.telemetry.clone(),
            trace: current.trace,
            ..config
        };
        let candidate = Self::build(config, resources, Some(self), Some(self))?;
        let (table, other) = (self.engine.table(), candidate.engine.table());
        if table.free_slots_beside(other) == 0 {
            let message = "rollout: `instances` of the workers of both configs together must be \
                           fewer than `limits.hook_processes`";
            let problem = Problem::at(&current.rollout_span, message.to_owned());
            return Err(ConfigError::from(problem).into());
        }
        Ok(Some(candidate))
    }

    /// Stores the revisions of this config and of the one that is rolled out, once they are about
    /// to be in use. With `promotion`, this one stays in use until the config file changes.
    ///
    /// # Errors
    ///
    /// Fails if one cannot be stored; the one that was in use before stays.
    pub(super) fn store_revisions(
        &self,
        source: &ConfigSource,
        cause: &ReloadCause,
        promotion: Option<&PromotionRecord>,
    ) -> Result<(), RevisionError> {
        let candidate = self.candidate.as_deref();
        let candidate = candidate.map(|candidate| &*candidate.config);
        if let Some(candidate) = candidate {
            source.store_candidate(candidate)?;
        }
        source.store(&self.config, candidate, &cause.to_string(), promotion)
    }

    /// Adds the snapshot of the config that is rolled out. A rollout of `previous` with the same
    /// versions and settings goes on.
    fn add_candidate(
        &mut self,
        mut candidate: Self,
        source: &ConfigSource,
        resources: &AppResources,
        previous: Option<&Self>,
    ) {
        let Some(settings) = &self.config.rollout else {
            return;
        };
        let (from, to) = (&self.config.version, candidate.config.version.clone());
        let is_aborted = source.is_aborted(&to);
        let new = Arc::new(RolloutProgress::new(from, &to, settings, is_aborted));
        let running = previous.and_then(|previous| previous.rollout.as_ref());
        let running = running.map(|reporter| &reporter.progress);
        let running = running.filter(|running| running.is_same(&new));
        let reporter = RolloutReporter {
            progress: Arc::clone(running.unwrap_or(&new)),
            arm: RolloutArm::Current,
            metrics: Arc::clone(&self.metrics),
            audit: self.audit.clone(),
            source: source.clone(),
            tasks: resources.tasks.clone(),
            runtime: Handle::current(),
        };
        candidate.audit = self
            .audit
            .as_ref()
            .map(|audit| Arc::new(audit.for_config(&to)));
        candidate.rollout = Some(RolloutReporter {
            arm: RolloutArm::Candidate,
            ..reporter.clone()
        });
        let config = Arc::make_mut(&mut self.config);
        let files = candidate.config.files.iter();
        let more: Vec<_> = files
            .filter(|file| !config.files.contains(file))
            .cloned()
            .collect();
        config.files.extend(more);
        self.rollout = Some(reporter);
        self.candidate = Some(Arc::new(candidate));
    }

    /// Starts the hooks and the recording of the config that is rolled out, and reports its share.
    pub(super) fn start_candidate(&self, tasks: &TaskTracker) {
        self.metrics.rollout_share.set(0);
        let (Some(candidate), Some(reporter)) = (&self.candidate, &self.rollout) else {
            return;
        };
        candidate.recordings.start(tasks);
        candidate.engine.start();
        let share = reporter.progress.share();
        if share > 0 {
            reporter.report(RolloutChange::Step(share));
        }
    }
}

/// Returns the error of a config that cannot be rolled out. Its problems keep their positions;
/// those without one get that of the setting.
fn candidate_error(span: &SourceSpan, error: SourceError) -> BuildError {
    let (prefix, error) = match error {
        SourceError::File(error) | SourceError::FileOfBundles(error) => {
            ("rollout".to_owned(), error)
        }
        SourceError::Stored { version, source } => {
            (format!("rollout: revision `{version}`"), source)
        }
        SourceError::Revision(error) => {
            let span = span.clone();
            return BuildError::Rollout { span, error };
        }
    };
    let mut error = error.located_at(span);
    for problem in &mut error.problems {
        problem.message = format!("{prefix}: {}", problem.message);
    }
    error.into()
}
