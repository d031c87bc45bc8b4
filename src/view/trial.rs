//! Trials: one action of an agent under the config in use, on a gateway of its own with the mock
//! model API. It reaches no session, no model API and no metric.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use crate::{
    auth::AdminPrincipal,
    config::{AdminRole, Config},
    error::{ApiError, ErrorReason},
    hook::HookExecution,
    state::App,
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

    /// Performs a trial.
    ///
    /// # Errors
    ///
    /// Returns an error if the user may not run hooks, the input is no action, no revision has
    /// the version, or too many trials are running.
    pub async fn perform(
        &self,
        app: &App,
        principal: &AdminPrincipal,
        trial: Trial<'_>,
    ) -> Result<(AgentAction, TrialReport), ApiError> {
        let execution = match trial.mode {
            TrialMode::DryRun => HookExecution::Skipped,
            TrialMode::Run if principal.has(AdminRole::Operator) => HookExecution::Executed,
            TrialMode::Run => {
                let message = "the role `operator` is required to run hooks";
                return Err(ApiError::new(ErrorReason::RoleRequired, message));
            }
        };
        let Ok(_slot) = self.slots.try_acquire() else {
            let message = "too many trials are running";
            return Err(ApiError::new(ErrorReason::Overloaded, message));
        };
        let action = AgentAction::from_json(trial.input, DEFAULT_MODEL).map_err(|error| {
            let message = format!("the input is neither an event nor a request: {error}");
            ApiError::new(ErrorReason::BadDocument, message)
        })?;
        let config = config(app, trial.version)?;
        let run = run_trial(&config, &action, execution, self.handler);
        let report = Box::pin(run).await?;
        Ok((action, report))
    }
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
