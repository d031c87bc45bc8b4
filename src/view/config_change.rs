//! Changes of the config that operators ask for, and the errors of those that were not made.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::{
    audit_log::PromotionRecord,
    error::{ApiError, ErrorReason},
    state::{App, ReloadError, ShadowError},
};

/// Takes a stored revision into use. `report` is the SHA-256 of the report on which the
/// promotion is based, and `expected` the version that must be in use.
///
/// # Errors
///
/// Returns the reason why the revision is not in use.
pub async fn promote(
    app: App,
    revision: String,
    by: Arc<str>,
    report: Option<String>,
    expected: Option<String>,
) -> Result<PromotionRecord, ApiError> {
    let promote = move || app.promote(&revision, &by, report, expected.as_deref());
    Ok(on_blocking_thread(promote).await??)
}

/// Takes the revision into use that was in use before. `expected` has the version that must be in
/// use, and the one before it.
///
/// # Errors
///
/// Returns the reason why the revision is not in use.
pub async fn roll_back(
    app: App,
    by: Arc<str>,
    expected: Option<(String, String)>,
) -> Result<PromotionRecord, ApiError> {
    Ok(on_blocking_thread(move || app.roll_back(&by, expected.as_ref())).await??)
}

/// Runs a function that uses files or computes for long on a thread for blocking tasks. The thread
/// of the admin listener also accepts the connections of agents.
///
/// # Errors
///
/// Fails if the function panics.
pub async fn on_blocking_thread<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let run = spawn_blocking(run).await;
    run.map_err(|_panicked| ApiError::new(ErrorReason::Internal, "task aborted"))
}

impl From<ReloadError> for ApiError {
    fn from(error: ReloadError) -> Self {
        Self::new(ErrorReason::BadConfig, error.to_string())
    }
}

impl From<ShadowError> for ApiError {
    fn from(error: ShadowError) -> Self {
        let reason = match error {
            ShadowError::Config(_) => ErrorReason::BadConfig,
            ShadowError::Unavailable => ErrorReason::Overloaded,
        };
        Self::new(reason, error.to_string())
    }
}
