//! Trials: one action of an agent under the config in use, on a gateway of its own with the mock
//! model API. It reaches no session, no model API and no metric.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use crate::{
    auth::AdminPrincipal,
    config::AdminRole,
    dry_run::{
        ActionError, AgentAction, AgentHandler, DEFAULT_MODEL, DryRunError, DryRunReport, dry_run,
    },
    error::{ApiError, ErrorReason},
    hook::HookExecution,
    state::App,
};

/// Trials that may run at the same time.
const MAX_CONCURRENT_TRIALS: usize = 2;

/// Runs trials, a few at a time.
#[derive(Debug, Clone)]
pub struct Trials {
    handler: AgentHandler,
    slots: Arc<Semaphore>,
}

/// Whether policies and hooks of a trial run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrialMode {
    /// They are listed only.
    #[default]
    Plan,
    /// They run, with their real transports and environment.
    Run,
}

/// Reason why a trial has no result.
#[derive(Debug, Error)]
enum TrialError {
    #[error("the input is neither an event nor a request: {0}")]
    Input(#[from] ActionError),
    #[error(transparent)]
    DryRun(#[from] DryRunError),
}

impl Trials {
    /// Creates trials whose gateway handles requests of agents by `handler`.
    pub fn new(handler: AgentHandler) -> Self {
        Self {
            handler,
            slots: Arc::new(Semaphore::new(MAX_CONCURRENT_TRIALS)),
        }
    }

    /// Performs the action of a text: a hook's input, a Gemini request, or a request with its
    /// path, headers and responses.
    ///
    /// # Errors
    ///
    /// Returns an error if the user may not run hooks, the text is no action, or too many
    /// trials are running.
    pub async fn perform(
        &self,
        app: &App,
        principal: &AdminPrincipal,
        text: &str,
        mode: TrialMode,
    ) -> Result<(AgentAction, DryRunReport), ApiError> {
        let execution = match mode {
            TrialMode::Plan => HookExecution::Skipped,
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
        let action = AgentAction::from_json(text, DEFAULT_MODEL).map_err(TrialError::from)?;
        let snapshot = app.snapshot();
        let run = dry_run(&snapshot.config, &action, execution, self.handler);
        let report = Box::pin(run).await.map_err(TrialError::from)?;
        Ok((action, report))
    }
}

impl From<TrialError> for ApiError {
    fn from(error: TrialError) -> Self {
        let reason = match &error {
            TrialError::Input(_)
            | TrialError::DryRun(DryRunError::Answer(_) | DryRunError::Request(_)) => {
                ErrorReason::BadDocument
            }
            TrialError::DryRun(_) => ErrorReason::Internal,
        };
        Self::new(reason, error.to_string())
    }
}
