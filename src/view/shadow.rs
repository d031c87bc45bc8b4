//! The shadow: another config that judges live calls after they have ended.

use crate::{
    error::{ApiError, ErrorReason},
    state::{App, ShadowAction, ShadowError, ShadowStatus},
};

/// Sends a request to the shadow, and returns its state after it.
///
/// # Errors
///
/// Returns the reason why the request has no effect.
pub async fn request(app: &App, action: ShadowAction) -> Result<ShadowStatus, ApiError> {
    let status = app.resources.shadow.request(action).await;
    status.map_err(|error| {
        let reason = match error {
            ShadowError::Config(_) => ErrorReason::BadConfig,
            ShadowError::Unavailable => ErrorReason::Overloaded,
        };
        ApiError::new(reason, error.to_string())
    })
}
