//! State of this replica, and of all that share its Redis.

use super::config::applied;
use crate::{
    error::{ApiError, ErrorReason},
    fleet::{DecisionLogHead, Fleet, FleetStatus, ReplicaStatus},
    state::App,
    timestamp::rfc3339,
};

/// Characters of the problems of a refused reload that are reported.
const MAX_ERROR_CHARS: usize = 2000;

/// Returns the state of this replica.
pub fn own_status(app: &App, fleet: &Fleet) -> ReplicaStatus {
    let snapshot = app.snapshot();
    let proven = snapshot.guard_statuses().filter(|guard| guard.proven);
    let since = applied(app);
    let refused = app.refused_reload();
    let head = snapshot.audit.as_ref().and_then(|audit| audit.file_head());
    ReplicaStatus {
        id: fleet.replica.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: snapshot.config.version.clone(),
        since: since.map(rfc3339).unwrap_or_default(),
        last_reload_error: refused.map(|refused| {
            let contents = &app.resources.trace.contents;
            let error = contents.masked_text(&refused.error.to_string());
            error.chars().take(MAX_ERROR_CHARS).collect()
        }),
        guards_proven: proven.count(),
        guards_unproven: snapshot.unproven_guards(),
        decision_log: head.map(|(path, head)| DecisionLogHead {
            log: fleet.log_name(path),
            seq: head.seq,
            hash: head.hash,
        }),
    }
}

/// Returns the state of all replicas.
///
/// # Errors
///
/// Fails if the config has no Redis, or if Redis is unavailable.
pub async fn status(app: &App) -> Result<FleetStatus, ApiError> {
    let snapshot = app.snapshot();
    let Some(fleet) = &snapshot.shared.fleet else {
        let message = "the config has no Redis: `sessions.store` or `auth.limits.store`";
        return Err(ApiError::new(ErrorReason::NoFleet, message));
    };
    let status = fleet.status().await;
    status.ok_or_else(|| {
        let refusal = fleet.connection.refusal();
        let message = refusal.unwrap_or_else(|| "Redis does not answer".to_owned());
        ApiError::new(ErrorReason::FleetUnavailable, message)
    })
}
