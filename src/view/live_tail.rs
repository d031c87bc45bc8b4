//! Subscriptions to calls that end.

use crate::{
    error::{ApiError, ErrorReason},
    observe::trace::{TraceFilter, TraceSubscription},
    state::App,
};

/// Live subscriptions at a time.
const MAX_SUBSCRIPTIONS: usize = 64;

/// Subscribes to the calls that match a filter and end from now on.
///
/// # Errors
///
/// Returns an error if there are too many subscribers.
pub fn subscribe(app: &App, filter: TraceFilter) -> Result<TraceSubscription, ApiError> {
    let store = &app.resources.trace;
    if store.subscriptions() >= MAX_SUBSCRIPTIONS {
        let message = format!("more than {MAX_SUBSCRIPTIONS} subscribers of calls");
        return Err(ApiError::new(ErrorReason::Overloaded, message));
    }
    Ok(store.subscribe(filter))
}
