//! The live config and everything built from it, swapped whole.

use std::sync::Arc;

use arc_swap::ArcSwap;
use thiserror::Error;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{ApiError, Caches, ErrorReason, Reloading, Upstreams, method_policy::treatment};
use crate::{
    audit_log::{Audit, AuditError, Logs},
    auth::{AuthState, Callers, JwksError},
    config::{Config, ConfigError, Problem, StoreSettings},
    dialect::{Api, Row, method_table::Runs},
    event::EventName,
    hook::{Engine, HookTable, Tracer},
    observe::Metrics,
    policy::SessionCounters,
    session::{
        MemoryStore, RedisStore, SessionKey, SessionStore, Sessions, StoreError, Transcripts,
    },
    transport::{ProcessSlots, TransportDeps, TransportError},
    upstream::{Upstream, UpstreamError, UpstreamTimeouts},
};

/// Everything one request needs, fixed for that request's life.
#[derive(Debug)]
pub struct Snapshot {
    /// What the operator decided.
    pub config: Config,
    /// Who may call.
    pub callers: Callers,
    /// The hooks.
    pub engine: Engine,
    /// The model APIs.
    pub upstreams: Upstreams,
    /// What is remembered of sessions.
    pub sessions: Arc<Sessions>,
    /// What was said in them, as files, if the operator wants that.
    pub transcripts: Option<Arc<Transcripts>>,
    /// The decision log, if there is one and it is open, or a collector that is
    /// told what would stand there.
    pub audit: Option<Arc<Audit>>,
    /// Asked for every request.
    derives_any: bool,
}

/// Why a snapshot could not be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// Hooks cannot be built.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// What hooks are reached with cannot be built.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The upstream client cannot be built.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The decision log cannot be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
}

impl Snapshot {
    /// Builds everything a config asks for, or nothing. What `old` has of it
    /// goes on. Starts nothing.
    pub fn build(config: Config, shared: &Shared, old: Option<&Self>) -> Result<Self, BuildError> {
        let toolbox = TransportDeps::new(
            shared.tasks.clone(),
            Arc::clone(&shared.places),
            shared.metrics.hook_processes.clone(),
            config.limits.hook_output,
            config.hook_directory.clone(),
        )?;
        let before = old.map(|it| it.engine.table());
        let table = HookTable::build(&config, &toolbox, before);
        let table = table.map_err(|problems| ConfigError { problems })?;
        let patience = UpstreamTimeouts {
            connect: config.timeouts.upstream_connect,
            first_byte: config.timeouts.first_byte,
            idle: config.timeouts.stream_idle,
        };
        let upstreams = Upstreams::new(
            &config.upstreams,
            patience,
            &shared.metrics,
            old.map(|it| &it.upstreams),
        )?;
        let callers = Callers::build(&config.auth, old.map(|it| &it.callers));
        let callers = callers.map_err(|it| no_keys(&config, &it))?;
        let (sessions, transcripts) = sessions(&config, shared, old)?;
        let mut snapshot = Self {
            engine: Engine::new(
                table,
                Arc::clone(&shared.metrics),
                Arc::clone(&shared.ledger),
            )
            .with_tracer(shared.witness.clone()),
            upstreams,
            callers,
            sessions,
            transcripts,
            audit: None,
            config,
            derives_any: false,
        };
        snapshot.derives_any = EventName::ALL.iter().any(|it| snapshot.derives(*it));
        Ok(snapshot)
    }

    /// The client for an API; an error for the agent if the config names none.
    pub fn upstream(&self, api: Api) -> Result<&Arc<Upstream>, ApiError> {
        self.upstreams.get(api).ok_or_else(|| {
            let message = format!("calls of `{}` are not served here", api.as_str());
            ApiError::new(ErrorReason::UpstreamNotConfigured, message)
        })
    }

    /// Refuses a method that the operator would have to allow by name.
    pub fn covers(&self, row: &Row) -> Result<(), ApiError> {
        match treatment(row, &self.config) {
            (Runs::Refused, why) => {
                let message = why.unwrap_or_default();
                Err(ApiError::new(ErrorReason::MethodRefused, message))
            }
            _ => Ok(()),
        }
    }

    /// The same snapshot, whose decision log is open, and whose collector is told
    /// of it. Blocks.
    pub(super) fn recorded(
        mut self,
        shared: &Shared,
        old: Option<&Self>,
    ) -> Result<Self, AuditError> {
        let (version, metrics) = (&self.config.version, &shared.metrics);
        let file = self.config.audit.as_ref();
        let file = file.map(|it| Audit::open(it, version, &shared.logs, metrics));
        let mut audit = file.transpose()?;
        if let Some(collector) = &self.config.otlp {
            let old = old.and_then(|it| it.audit.as_deref());
            let told = audit.unwrap_or_else(|| Audit::nowhere(version));
            audit = Some(told.exported(collector, old, metrics)?);
        }
        let audit = audit.map(Arc::new);
        self.engine = self.engine.with_audit(audit.clone());
        self.audit = audit;
        Ok(self)
    }

    /// Whether an event is read off model calls: somebody listens, and the
    /// operator wants it.
    pub fn derives(&self, event: EventName) -> bool {
        self.config.events.derives(event) && self.engine.handles_derived(event)
    }

    /// Whether any event is.
    pub const fn derives_any(&self) -> bool {
        self.derives_any
    }

    /// Removes what was written down of a session that has ended.
    pub fn remove_transcript(&self, key: &SessionKey) {
        if let Some(transcripts) = &self.transcripts {
            transcripts.remove(key);
        }
    }

    /// Makes room for its hooks, and starts what they should have ahead of time.
    fn take_effect(&self, shared: &Shared) {
        if let Some(audit) = &self.audit {
            audit.begin(&shared.tasks);
        }
        shared.places.resize(self.engine.table().free_slots());
        if let Some(transcripts) = &self.transcripts {
            transcripts.remove_leftovers();
        }
        self.callers.begin(|tended| {
            let closing = shared.shutdown.clone();
            shared
                .tasks
                .spawn(closing.run_until_cancelled_owned(tended));
        });
        self.engine.start();
    }
}

/// What is remembered of sessions, and what was said in them.
type Remembered = (Arc<Sessions>, Option<Arc<Transcripts>>);

/// Sessions are remembered on, unless they are to be kept otherwise.
fn sessions(
    config: &Config,
    shared: &Shared,
    old: Option<&Snapshot>,
) -> Result<Remembered, ConfigError> {
    let settings = &config.sessions;
    if let Some(old) = old.filter(|it| it.config.sessions == *settings) {
        return Ok((Arc::clone(&old.sessions), old.transcripts.clone()));
    }
    let (max, idle) = (settings.max, settings.idle);
    let store: Arc<dyn SessionStore> = match &settings.store {
        StoreSettings::Memory => Arc::new(MemoryStore::new(max, idle)),
        StoreSettings::Redis { url } => {
            let failures = shared.metrics.session_store_failures.clone();
            let store = RedisStore::new(url, (max, idle), failures);
            Arc::new(store.map_err(|it| unusable(&it))?)
        }
    };
    let folder = settings.transcripts.clone();
    let transcripts = folder.map(|it| Arc::new(Transcripts::new(it, max, idle)));
    Ok((Arc::new(Sessions::new(store)), transcripts))
}

fn no_keys(config: &Config, error: &JwksError) -> ConfigError {
    let problem = Problem {
        span: config.auth.jwt.as_ref().map(|it| it.span.clone()),
        message: format!("`auth.jwt.jwks`: {error}"),
    };
    problem.into()
}

fn unusable(error: &StoreError) -> ConfigError {
    let problem = Problem {
        span: None,
        message: error.to_string(),
    };
    problem.into()
}

/// What outlives every config.
#[derive(Debug, Default)]
pub struct Shared {
    /// What operators see.
    pub metrics: Arc<Metrics>,
    /// Every task is spawned here, so that shutdown can wait for it.
    pub tasks: TaskTracker,
    /// Cancelled when agents should look for another gateway: a while before
    /// `shutdown`, or with it.
    pub leaving: CancellationToken,
    /// Cancelled when the house closes.
    pub shutdown: CancellationToken,
    /// Cancelled when what is under way is cut off.
    pub cut: CancellationToken,
    /// What callers have used.
    pub callers: Arc<AuthState>,
    /// What policies count.
    pub ledger: Arc<SessionCounters>,
    /// The decision logs that are written.
    pub logs: Arc<Logs>,
    /// Where hook processes run.
    pub places: Arc<ProcessSlots>,
    /// Whose the content is that model APIs keep.
    pub caches: Arc<Caches>,
    /// Who sees all that is fired; nobody, where agents are served.
    pub witness: Option<Arc<Tracer>>,
}

/// The house's one shared state.
#[derive(Debug, Clone)]
pub struct App {
    snapshot: Arc<ArcSwap<Snapshot>>,
    /// What outlives every config.
    pub shared: Arc<Shared>,
    pub(super) reloading: Reloading,
}

impl App {
    /// An app serving `config`.
    pub fn new(config: Config, shared: Shared) -> Result<Self, BuildError> {
        let snapshot = Snapshot::build(config, &shared, None)?.recorded(&shared, None)?;
        Ok(Self {
            snapshot: Arc::new(ArcSwap::from_pointee(snapshot)),
            shared: Arc::new(shared),
            reloading: Reloading::default(),
        })
    }

    /// Lets hooks start what they should have ahead of time. Needs a runtime.
    pub fn begin(&self) {
        self.snapshot().take_effect(&self.shared);
    }

    /// Requests from now on hold `snapshot`.
    pub(super) fn swap(&self, snapshot: Snapshot) {
        snapshot.take_effect(&self.shared);
        self.snapshot.store(Arc::new(snapshot));
    }

    /// The snapshot to hold for one request.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }
}
