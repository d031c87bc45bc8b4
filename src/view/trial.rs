//! Trials: one action of an agent under the config in use, on a gateway of its own with the mock
//! model API. It reaches no session, no model API and no metric.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::{runtime::Builder, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use utoipa::ToSchema;

use super::config_change::on_blocking_thread;
use crate::{
    auth::AdminPrincipal,
    config::{AdminRole, Config},
    error::{ApiError, ErrorReason},
    hook::HookExecution,
    state::{App, end_tasks},
    test_case::{AgentAction, DEFAULT_MODEL},
    trial::{AgentHandler, TrialError, TrialReport, run_trial},
};

/// Trials that may run at the same time.
const MAX_CONCURRENT_TRIALS: usize = 2;

/// Runs trials, a few at a time.
#[derive(Debug, Clone)]
pub struct Trials {
    handler: AgentHandler,
    slots: Arc<Semaphore>,
}

/// Execution of policies and hooks in a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrialMode {
    /// A dry run: they are listed only.
    #[default]
    #[serde(rename = "plan")]
    DryRun,
    /// They run, with their real transports and environment.
    Run,
}

/// Input of a trial, its mode, and the config it uses.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    /// A hook's input, a Gemini request, or a request with its path, headers and responses.
    pub input: &'a str,
    /// Execution of policies and hooks: listed only, or run.
    pub mode: TrialMode,
    /// Version of a revision of the config; that in use without one.
    pub version: Option<&'a str>,
}

impl Trials {
    /// Creates trials whose gateway handles requests of agents by `handler`.
    pub fn new(handler: AgentHandler) -> Self {
        Self {
            handler,
            slots: Arc::new(Semaphore::new(MAX_CONCURRENT_TRIALS)),
        }
    }

    /// Performs a trial and renders its report, both on a thread of its own: it can take seconds.
    /// Dropping the future ends it.
    ///
    /// # Errors
    ///
    /// Returns an error if the user may not run hooks, the input is no action, no revision has
    /// the version, or too many trials are running.
    pub async fn perform<T: Send + 'static>(
        &self,
        app: &App,
        principal: &AdminPrincipal,
        trial: Trial<'_>,
        render: impl FnOnce(&AgentAction, &TrialReport) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let execution = match trial.mode {
            TrialMode::DryRun => HookExecution::Skipped,
            TrialMode::Run if principal.has(AdminRole::Operator) => HookExecution::Executed,
            TrialMode::Run => {
                let message = "the role `operator` is required to run hooks";
                return Err(ApiError::new(ErrorReason::RoleRequired, message));
            }
        };
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            let message = "too many trials are running";
            return Err(ApiError::new(ErrorReason::Overloaded, message));
        };
        let config = config(app, trial.version)?;
        let (input, handler) = (trial.input.to_owned(), self.handler);
        let cancelled = CancellationToken::new();
        let _cancel = cancelled.clone().drop_guard();
        let run = move || -> Result<T, ApiError> {
            let _slot = slot;
            let action = action(&input)?;
            let tasks = TaskTracker::new();
            let run = run_trial(&config, &action, execution, handler, tasks.clone());
            let report = block_on(cancelled.run_until_cancelled(Box::pin(run)), &tasks)?;
            Ok(render(&action, &report.ok_or(TrialError::Timeout)??))
        };
        on_blocking_thread(run).await?
    }
}

fn action(input: &str) -> Result<AgentAction, ApiError> {
    AgentAction::from_json(input, DEFAULT_MODEL).map_err(|error| {
        let message = format!("the input is neither an event nor a request: {error}");
        ApiError::new(ErrorReason::BadDocument, message)
    })
}

/// Runs a future to its end on a runtime of its own, and then its tasks: hook processes that are
/// left have the time to end.
fn block_on<T>(future: impl Future<Output = T>, tasks: &TaskTracker) -> Result<T, TrialError> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let output = runtime.block_on(future);
    runtime.block_on(end_tasks(tasks));
    runtime.shutdown_background();
    Ok(output)
}

/// Returns the config with a version, or that in use.
fn config(app: &App, version: Option<&str>) -> Result<Arc<Config>, ApiError> {
    let Some(version) = version else {
        return Ok(Arc::clone(&app.snapshot().config));
    };
    let mut configs = app.revisions().into_iter().map(|revision| revision.config);
    let found = configs.find(|config| config.version == version);
    found.ok_or_else(|| {
        let message = format!("no revision of the config has the version `{version}`");
        ApiError::new(ErrorReason::BadDocument, message)
    })
}

impl From<TrialError> for ApiError {
    fn from(error: TrialError) -> Self {
        let reason = match &error {
            TrialError::Answer(_) | TrialError::Request(_) => ErrorReason::BadDocument,
            TrialError::Build(_) | TrialError::Io(_) | TrialError::Timeout => ErrorReason::Internal,
        };
        Self::new(reason, error.to_string())
    }
}
