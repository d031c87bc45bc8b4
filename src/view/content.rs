//! Kept content of calls. Every view is a line of the decision log, but for reasons of hooks,
//! which are in records.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::config_change::on_blocking_thread;
use crate::{
    audit_log::{AuditRecord, CallerRecord, ViewRecord, short_name},
    auth::AdminPrincipal,
    config::AdminRole,
    error::{ApiError, ErrorReason},
    observe::trace::{CallRecord, DenialList, SessionWatch, StoredContent},
    state::App,
};

/// Longest time for which a session can be watched.
const MAX_WATCH_MINUTES: u64 = 24 * 60;

/// Longest reason of a watch, in characters.
const MAX_REASON_CHARS: usize = 500;

/// Longest session id and caller key of a watch, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// Returns the content of a call for a user, and records in the decision log who saw it and
/// why. `None` if none is kept.
///
/// # Errors
///
/// Returns an error if the user is no investigator, or the decision log cannot be written.
pub async fn view_content(
    app: &App,
    principal: &AdminPrincipal,
    request: &str,
    reason: &str,
) -> Result<Option<Arc<StoredContent>>, ApiError> {
    require_investigator(principal)?;
    let Some(content) = app.resources.trace.contents.find(request) else {
        return Ok(None);
    };
    let record = ViewRecord::new(&principal.name, &content.id, &content.session, reason);
    record_view(app, record).await?;
    tracing::info!(
        user.name = &*principal.name,
        request.id = request,
        "content of a call viewed"
    );
    Ok(Some(content))
}

/// Makes a part of a page from kept content, which can take seconds, on a thread for blocking
/// tasks. Waits until one of the few slots for this is free.
///
/// # Errors
///
/// Fails if the function panics.
pub async fn render<T: Send + 'static>(
    app: &App,
    make: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let slots = Arc::clone(&app.resources.content_slots);
    // The slots are never closed.
    let slot = slots.acquire_owned().await.ok();
    on_blocking_thread(move || {
        let _slot = slot;
        make()
    })
    .await
}

/// Keeps the content of the session of a caller, or of all callers with a session of this id, for
/// some minutes and a reason, and records in the decision log who asked for it.
///
/// # Errors
///
/// Returns an error if the user is no investigator, the trace is off, minutes or a text are out of
/// range, or the decision log cannot be written.
pub async fn watch(
    app: &App,
    principal: &AdminPrincipal,
    session: String,
    caller: Option<String>,
    (minutes, reason): (u64, String),
) -> Result<SessionWatch, ApiError> {
    require_investigator(principal)?;
    require_trace(app)?;
    let is_too_long = |name: &str| name.len() > MAX_NAME_BYTES;
    if is_too_long(&session) || caller.as_deref().is_some_and(is_too_long) {
        let message = format!("session and `caller` must have at most {MAX_NAME_BYTES} bytes");
        return Err(ApiError::new(ErrorReason::BadDocument, message));
    }
    let has_reason = !reason.trim().is_empty() && reason.chars().count() <= MAX_REASON_CHARS;
    if !has_reason || !(1..=MAX_WATCH_MINUTES).contains(&minutes) {
        let message = format!(
            "`reason` must have 1 to {MAX_REASON_CHARS} characters, `minutes` must be 1 to \
             {MAX_WATCH_MINUTES}"
        );
        return Err(ApiError::new(ErrorReason::BadDocument, message));
    }
    let by = principal.name.to_string();
    let watched_caller = caller.as_deref().map(|key| CallerRecord {
        key: short_name(key),
        ..CallerRecord::default()
    });
    let record = ViewRecord {
        caller: watched_caller,
        ..ViewRecord::new(&by, "", &session, &reason)
    };
    record_view(app, record).await?;
    let watch = SessionWatch {
        until: SystemTime::now() + Duration::from_mins(minutes),
        session,
        caller,
        reason,
        by,
    };
    app.resources.trace.watched.add(watch.clone());
    tracing::info!(
        user.name = watch.by,
        session.id = watch.session,
        duration_min = minutes,
        "session content is kept"
    );
    Ok(watch)
}

/// Returns a record as a user may see it: without content, unless the user is an investigator.
pub fn visible_call(principal: &AdminPrincipal, call: Arc<CallRecord>) -> Arc<CallRecord> {
    if principal.has(AdminRole::Investigator) {
        return call;
    }
    Arc::new(call.without_content())
}

/// Returns the denials as a user may see them: without content, unless the user is an
/// investigator.
pub fn visible_denials(app: &App, principal: &AdminPrincipal) -> DenialList {
    let mut list = app.resources.trace.denials();
    if !principal.has(AdminRole::Investigator) {
        for group in &mut list.groups {
            group.remove_content();
        }
    }
    list
}

fn require_investigator(principal: &AdminPrincipal) -> Result<(), ApiError> {
    if principal.has(AdminRole::Investigator) {
        return Ok(());
    }
    let message = "the role `investigator` is required";
    Err(ApiError::new(ErrorReason::RoleRequired, message))
}

/// Refuses a watch of which nothing could be kept.
fn require_trace(app: &App) -> Result<(), ApiError> {
    if app.snapshot().config.trace.exchanges > 0 {
        return Ok(());
    }
    let message = "the trace is off (`trace.exchanges: 0`), so no content can be kept";
    Err(ApiError::new(ErrorReason::BadConfig, message))
}

/// Records a view of content. In `durable` mode the record is on disk before the content is shown.
async fn record_view(app: &App, record: ViewRecord) -> Result<(), ApiError> {
    if let Some(audit) = &app.snapshot().audit {
        audit.ensure_writable()?;
        let since = audit.checkpoint();
        audit.append(&AuditRecord::Viewed(record));
        audit.commit(since).await?;
    }
    Ok(())
}
