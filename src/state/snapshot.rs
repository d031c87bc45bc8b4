//! A config and everything built from it, replaced as a whole on reload.

mod shared_state;

use std::sync::Arc;

use thiserror::Error;

pub use self::shared_state::SharedState;
use super::{
    live_trace::LiveTrace, method_policy::hook_coverage, recordings::Recordings,
    resources::AppResources, revision_store::RevisionError, rollout_sink::RolloutReporter,
    upstreams::Upstreams,
};
use crate::{
    audit_log::{AuditError, AuditLog},
    auth::Authenticator,
    config::{BUILTIN, Config, ConfigError, Problem, SourceSpan, StoreMode, StoreSettings},
    dialect::{
        Access, AllowedFields, Api, Call, HookCoverage, MethodSpec, ResponseStorage, Vendor,
    },
    error::{ApiError, ErrorReason},
    event::EventName,
    hook::{self, Engine, HookTable, Tracer},
    observe::Metrics,
    proof::GuardProofs,
    session::{MemoryStore, RedisStore, SessionKey, SessionStore, Sessions, Transcripts},
    timestamp::utc_timestamp,
    transport::TransportDeps,
    upstream::{Upstream, UpstreamError},
};

/// A config and everything built from it. A request holds one from start to end.
#[derive(Debug)]
pub struct Snapshot {
    /// Config that the snapshot was built from.
    pub config: Arc<Config>,
    /// Warnings about settings of the config.
    pub(super) own_warnings: Vec<Problem>,
    /// Authentication and quotas of callers.
    pub authenticator: Authenticator,
    /// State that replicas share in Redis beside sessions.
    pub shared: SharedState,
    /// Engine with all hooks and policies.
    pub engine: Engine,
    /// Proofs of guards, with their last results.
    pub proofs: GuardProofs,
    /// Clients of the model APIs.
    pub upstreams: Upstreams,
    /// Sessions and their store.
    pub sessions: Arc<Sessions>,
    /// Transcript files, if enabled.
    pub transcripts: Option<Arc<Transcripts>>,
    /// Decision log and OTLP export of decisions, if either is enabled.
    pub audit: Option<Arc<AuditLog>>,
    /// Live trace of exchanges.
    pub trace: LiveTrace,
    /// Recording of exchanges, if it is enabled.
    pub(super) recordings: Recordings,
    pub(super) metrics: Arc<Metrics>,
    /// Trace of all hook events, for `explain` and `test`.
    pub(super) tracer: Option<Arc<Tracer>>,
    /// True if any event is derived from model calls; every request needs it.
    pub derives_any: bool,
    /// Snapshot of the config that is rolled out, for a share of the sessions.
    pub(super) candidate: Option<Arc<Self>>,
    /// Counts the calls of this config during a rollout.
    pub(super) rollout: Option<RolloutReporter>,
}

/// Reason why a snapshot cannot be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// Invalid hooks, keys or session store.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Guards that are not proven.
    #[error(transparent)]
    Proof(ConfigError),
    /// An upstream client cannot be built.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The decision log cannot be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The revision of the config cannot be stored.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// The revision that is rolled out cannot be read.
    #[error("{span}: rollout: {error}")]
    Rollout {
        /// Position of the setting.
        span: SourceSpan,
        /// Reason why it cannot be read.
        #[source]
        error: RevisionError,
    },
}

impl Snapshot {
    /// Builds everything that a config asks for, and reuses what is unchanged since
    /// `previous`. `beside` is the snapshot of the config in use, if this one is rolled out.
    /// Starts nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if any part cannot be built.
    pub fn build(
        config: Config,
        resources: &AppResources,
        previous: Option<&Self>,
        beside: Option<&Self>,
    ) -> Result<Self, BuildError> {
        let transport_deps = transport_deps(&config, resources);
        let old_table = previous.map(|previous| previous.engine.table());
        let table =
            HookTable::build(&config, &transport_deps, old_table).map_err(ConfigError::from)?;
        let proofs = GuardProofs::build(&table).map_err(ConfigError::from)?;
        let upstreams = Upstreams::new(
            &config.upstreams,
            config.timeouts,
            &resources.metrics,
            previous.map(|previous| &previous.upstreams),
        )?;
        let shared = SharedState::build(&config, resources, previous.map(|old| &old.shared))?;
        let authenticator = build_authenticator(&config, &shared, previous)?;
        let kept = previous.filter(|previous| previous.config.sessions == config.sessions);
        let (sessions, transcripts) = match kept {
            Some(kept) => (Arc::clone(&kept.sessions), kept.transcripts.clone()),
            None => build_sessions(&config, resources)?,
        };
        let tracer = resources.tracer.clone();
        let execution = tracer.as_ref().map(|tracer| tracer.execution());
        let counters = Arc::clone(&resources.session_counters);
        let recorded = previous.map(|previous| &previous.recordings);
        let recordings = Recordings::new(&config, &table, resources, recorded)?;
        let mut snapshot = Self {
            own_warnings: hook::warnings(&config, &table),
            recordings,
            trace: LiveTrace::new(
                &resources.trace,
                table.rules(),
                &config,
                previous.map(|previous| &previous.trace),
                beside.map(|current| &current.trace),
            ),
            engine: Engine::new(table, counters, execution.unwrap_or_default()),
            proofs,
            metrics: Arc::clone(&resources.metrics),
            tracer,
            upstreams,
            authenticator,
            shared,
            sessions,
            transcripts,
            audit: None,
            config: Arc::new(config),
            derives_any: false,
            candidate: None,
            rollout: None,
        };
        snapshot.derives_any = EventName::ALL.iter().any(|event| snapshot.derives(*event));
        Ok(snapshot)
    }

    /// Proves all guards of a snapshot that is not in use yet. Only the processes of
    /// guards are started, and they end.
    ///
    /// # Errors
    ///
    /// Returns the problems of all guards that are not proven.
    pub async fn prove(&self, resources: &AppResources) -> Result<(), BuildError> {
        if self.proofs.is_empty() {
            return Ok(());
        }
        resources
            .process_slots
            .ensure(self.engine.table().free_slots());
        let (engine, config, timestamp) = (&self.engine, &self.config, utc_timestamp());
        let proved = self.proofs.prove_all(engine, config, &timestamp);
        let proved = proved.await.map_err(ConfigError::from);
        proved.map_err(BuildError::Proof)
    }

    /// Opens the decision log and the OTLP export of decisions. Blocks.
    pub(super) fn open_logs(
        mut self,
        resources: &AppResources,
        previous: Option<&Self>,
    ) -> Result<Self, AuditError> {
        let (version, metrics) = (&self.config.version, &resources.metrics);
        let file = self.config.audit.as_ref();
        let file = file.map(|file| AuditLog::open(file, version, &resources.audit_logs, metrics));
        let mut audit = file.transpose()?;
        if let Some(collector) = &self.config.telemetry.otlp {
            let previous = previous.and_then(|previous| previous.audit.as_deref());
            let audit_to_export = audit.unwrap_or_else(|| AuditLog::without_file(version));
            audit = Some(audit_to_export.with_collector(collector, previous, metrics)?);
        }
        self.audit = audit.map(Arc::new);
        Ok(self)
    }

    /// Returns the client for an API.
    ///
    /// # Errors
    ///
    /// Returns an error for the agent if the API is not configured.
    pub fn upstream(&self, api: Api) -> Result<&Arc<Upstream>, ApiError> {
        self.upstreams.get(api).ok_or_else(|| {
            let message = format!("upstream `{}` is not configured", api.upstream());
            ApiError::new(ErrorReason::UpstreamNotConfigured, message)
        })
    }

    /// Returns the API that the headers of a request name. One that is not configured is not meant.
    pub fn configured_api(&self, named: Option<Api>) -> Option<Api> {
        named.filter(|api| self.upstreams.get(*api).is_some())
    }

    /// Checks that a method may be called under the `coverage` settings.
    ///
    /// # Errors
    ///
    /// Returns an error for the agent if the method is refused.
    pub fn check_coverage(&self, row: &MethodSpec) -> Result<(), ApiError> {
        match hook_coverage(row, &self.config) {
            (HookCoverage::Refused, why) => {
                let reason = match row.access {
                    Access::Socket => ErrorReason::WebsocketRefused,
                    Access::Open | Access::ByName | Access::Never(_) => ErrorReason::MethodRefused,
                };
                Err(ApiError::new(reason, why.unwrap_or_default()))
            }
            _ => Ok(()),
        }
    }

    /// Applies the `coverage` settings to a call. Callers with limits may only use fields that
    /// hooks see nonetheless.
    pub fn apply_coverage(&self, mut call: Call, is_restricted: bool) -> Call {
        let (api, coverage) = (call.method.api, &self.config.coverage);
        if !coverage.allow.is_empty() {
            call.allowed_fields = AllowedFields::of(api, |field| {
                let is_visible = field.if_allowed == HookCoverage::Hooked;
                (is_visible || !is_restricted) && coverage.allows(field.name)
            });
        }
        if (api.vendor(), coverage.store) == (Vendor::OpenAi, StoreMode::Never) {
            call.storage = ResponseStorage::Never;
        }
        call
    }

    /// Returns whether an event is derived from model calls: it is enabled and has hooks.
    pub fn derives(&self, event: EventName) -> bool {
        self.config.events.derives(event) && self.engine.handles_derived(event)
    }

    /// Removes the transcript of a session that has ended, unless the agent has continued it since.
    pub async fn remove_transcript(&self, key: &SessionKey) {
        if let Some(transcripts) = &self.transcripts
            && self.sessions.store().load(key).await.is_none()
        {
            transcripts.remove(key);
        }
    }

    /// Resizes the process slots for these hooks, and starts background tasks and
    /// prewarmed processes.
    pub(super) fn start(&self, resources: &AppResources) {
        if let Some(audit) = &self.audit {
            audit.start(&resources.tasks, &resources.shutdown);
        }
        self.trace.start();
        self.recordings.start(&resources.tasks);
        let table = self.engine.table();
        let candidate = self.candidate.as_ref().map(|other| other.engine.table());
        let slots = table.free_slots_beside(candidate.unwrap_or(table));
        resources.process_slots.resize(slots);
        if let Some(transcripts) = &self.transcripts {
            transcripts.remove_leftovers();
        }
        self.authenticator.start(|refresh| {
            let shutdown = resources.shutdown.clone();
            let refresh = shutdown.run_until_cancelled_owned(refresh);
            resources.tasks.spawn(refresh);
        });
        self.engine.start();
        self.create_hook_runs();
        self.start_candidate(&resources.tasks);
    }

    /// Creates the series of runs of all hooks, so that the first failure is an increase.
    fn create_hook_runs(&self) {
        let rules = self.engine.table().rules().iter();
        for rule in rules.filter(|rule| rule.kind != BUILTIN && !rule.disabled) {
            for event in &rule.events {
                self.metrics.create_hook_runs(*event, &rule.name);
            }
        }
    }
}

fn transport_deps(config: &Config, resources: &AppResources) -> TransportDeps {
    let deps = TransportDeps::new(
        resources.tasks.clone(),
        Arc::clone(&resources.process_slots),
        resources.metrics.hook_processes.clone(),
        config.limits.hook_output,
        config.hook_directory.clone(),
    );
    TransportDeps {
        recorded: resources.recorded_runs.clone(),
        ..deps
    }
}

fn build_authenticator(
    config: &Config,
    shared: &SharedState,
    previous: Option<&Snapshot>,
) -> Result<Authenticator, ConfigError> {
    let previous = previous.map(|previous| &previous.authenticator);
    Authenticator::new(&config.auth, previous, shared.limits.clone()).map_err(|error| {
        ConfigError::from(Problem {
            span: config.auth.jwt.as_ref().map(|jwt| jwt.span.clone()),
            message: format!("`auth.jwt.jwks`: {error}"),
        })
    })
}

fn build_sessions(
    config: &Config,
    resources: &AppResources,
) -> Result<(Arc<Sessions>, Option<Arc<Transcripts>>), ConfigError> {
    let settings = &config.sessions;
    let (max, idle) = (settings.max, settings.idle);
    let transcripts = settings.transcripts.clone();
    let new = |folder| Transcripts::new(folder, max, idle, resources.tasks.clone());
    let transcripts = transcripts.map(|folder| Arc::new(new(folder)));
    let store = match &settings.store {
        StoreSettings::Memory => SessionStore::Memory(Box::new(MemoryStore::new(max, idle))),
        StoreSettings::Redis { url } => {
            let failures = resources.metrics.session_store_failures.clone();
            let store = RedisStore::new(url, max, idle, failures);
            SessionStore::Redis(Box::new(store.map_err(|error| {
                ConfigError::from(Problem::without_span(error.to_string()))
            })?))
        }
    };
    Ok((Arc::new(Sessions::new(store)), transcripts))
}
