//! Subscriptions to calls that end.

use http::HeaderMap;

use crate::{
    error::{ApiError, ErrorReason},
    observe::trace::{TraceBatch, TraceFilter, TraceSubscription},
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

/// Returns the event `lost` of the last batch of a subscription, if calls were lost. Its id is the
/// position in front of the next call: behind it, the same loss is not reported again.
pub fn lost_event(subscription: &TraceSubscription, batch: &TraceBatch) -> Option<String> {
    let next = batch.calls.first();
    let id = next.map_or(subscription.position(), |call| call.seq.saturating_sub(1));
    let lost = batch.lost;
    (lost > 0).then(|| format!("id: {id}\nevent: lost\ndata: {lost}\n\n"))
}
