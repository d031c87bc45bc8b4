//! Resources that survive config reloads.

use std::{sync::Arc, time::Duration};

use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{content_owners::ContentOwners, recordings::ShadowSlot, traffic::Traffic};
use crate::{
    audit_log::OpenLogs,
    auth::{AdminAccess, AuthState},
    config::{Config, TraceSettings},
    error::ErrorReason,
    hook::Tracer,
    observe::{BundleStatuses, Metrics, trace::TraceStore},
    policy::SessionCounters,
    transport::{ProcessSlots, RecordedRuns},
};

/// Time for hook processes to end after the drain timeout. A worker has two seconds to exit
/// and two more after SIGTERM.
const TASKS_TIMEOUT: Duration = Duration::from_secs(5);

/// Pages of kept content that are made at the same time. One can take seconds.
const MAX_CONTENT_PAGES: usize = 2;

/// Resources that survive config reloads.
#[derive(Debug)]
pub struct AppResources {
    /// Metrics of the whole process.
    pub metrics: Arc<Metrics>,
    /// Calls of the last minute and day.
    pub traffic: Arc<Traffic>,
    /// Tracks every spawned task, so that shutdown can wait for them.
    pub tasks: TaskTracker,
    /// Tracks those tasks that run the hooks of events after their responses.
    pub answered_events: TaskTracker,
    /// Cancelled when readiness fails and agents should reconnect elsewhere: before
    /// `shutdown`, or with it.
    pub draining: CancellationToken,
    /// Cancelled when listeners stop accepting connections.
    pub shutdown: CancellationToken,
    /// Cancelled when in-flight requests are aborted.
    pub abort: CancellationToken,
    /// Usage of callers and failed authentication attempts.
    pub auth: Arc<AuthState>,
    /// Logins of operators, and their failed attempts.
    pub admin_access: Arc<AdminAccess>,
    /// Counters of policies, by session.
    pub session_counters: Arc<SessionCounters>,
    /// Decision logs that are open.
    pub audit_logs: Arc<OpenLogs>,
    /// Slots for hook processes.
    pub process_slots: Arc<ProcessSlots>,
    /// Owners of content cached by model APIs.
    pub cached_content: Arc<ContentOwners>,
    /// Owners of earlier responses to which later requests refer.
    pub earlier_responses: Arc<ContentOwners>,
    /// Live trace of exchanges.
    pub trace: Arc<TraceStore>,
    /// Slots for pages of kept content.
    pub content_slots: Arc<Semaphore>,
    /// Results of the last requests for bundles.
    pub bundles: Arc<BundleStatuses>,
    /// The shadow, if one is running.
    pub shadow: Arc<ShadowSlot>,
    /// Tracer of the engine, for `explain` and `test`.
    pub tracer: Option<Arc<Tracer>>,
    /// Recorded outputs of hooks, in a replay that calls none.
    pub recorded_runs: Option<Arc<RecordedRuns>>,
}

impl Default for AppResources {
    fn default() -> Self {
        let metrics: Arc<Metrics> = Arc::default();
        for reason in ErrorReason::ALL {
            metrics.errors.with([reason.as_str().into()]);
        }
        let trace = TraceStore::new(&TraceSettings::default(), Arc::clone(&metrics));
        Self {
            metrics,
            trace: Arc::new(trace),
            tasks: TaskTracker::default(),
            answered_events: TaskTracker::default(),
            draining: CancellationToken::default(),
            shutdown: CancellationToken::default(),
            abort: CancellationToken::default(),
            traffic: Arc::default(),
            auth: Arc::default(),
            admin_access: Arc::default(),
            session_counters: Arc::default(),
            audit_logs: Arc::default(),
            process_slots: Arc::default(),
            cached_content: Arc::default(),
            earlier_responses: Arc::default(),
            content_slots: Arc::new(Semaphore::new(MAX_CONTENT_PAGES)),
            bundles: Arc::default(),
            shadow: Arc::default(),
            tracer: None,
            recorded_runs: None,
        }
    }
}

impl AppResources {
    /// Spawns a task that runs the hooks of an event after its response.
    pub fn spawn_event(&self, hooks: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.answered_events.track_future(hooks));
    }

    /// Ends the logins that the config now in use does not accept, and wakes the task of the
    /// shadow.
    pub(super) fn follow_config(&self, config: &Config) {
        self.admin_access.end_outdated_sessions(&config.admin);
        self.shadow.notify_config_change();
    }
}

/// Waits until all tasks have ended, and with them all hook processes.
pub async fn end_tasks(tasks: &TaskTracker) {
    tasks.close();
    let ended = tokio::time::timeout(TASKS_TIMEOUT, tasks.wait());
    if ended.await.is_err() {
        tracing::warn!("background tasks did not finish in time");
    }
}
