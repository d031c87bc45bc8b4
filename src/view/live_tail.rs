//! Subscriptions to calls that end.

use http::HeaderMap;

use crate::{
    error::{ApiError, ErrorReason},
    observe::trace::{TraceFilter, TraceSubscription},
    state::App,
};

/// Live subscriptions at a time.
const MAX_SUBSCRIPTIONS: usize = 64;

/// Header with which browsers continue a stream of events.
const LAST_EVENT_ID: &str = "last-event-id";

/// Returns the position of the last event that a subscriber has received, if it connects again.
pub fn last_position(headers: &HeaderMap) -> Option<u64> {
    headers.get(LAST_EVENT_ID)?.to_str().ok()?.parse().ok()
}

/// Subscribes to the calls that match a filter and end from now on, or behind a position.
///
/// # Errors
///
/// Returns an error if there are too many subscribers.
pub fn subscribe(
    app: &App,
    filter: TraceFilter,
    after: Option<u64>,
) -> Result<TraceSubscription, ApiError> {
    let store = &app.resources.trace;
    if store.subscriptions() >= MAX_SUBSCRIPTIONS {
        let message = format!("more than {MAX_SUBSCRIPTIONS} subscribers of calls");
        return Err(ApiError::new(ErrorReason::Overloaded, message));
    }
    Ok(store.subscribe(filter, after))
}
