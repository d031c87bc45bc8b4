//! Live tails of calls that end.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, timeout_at};

use super::content;
use crate::{
    auth::AdminPrincipal,
    error::{ApiError, ErrorReason},
    observe::trace::{TraceBatch, TraceFilter, TraceSubscription},
    state::App,
};

/// Live tails at a time. Each may hold a connection to the admin listener, which has twice as many.
const MAX_LIVE_TAILS: usize = 32;

/// Longest time for which the credential of a reader is not checked.
const CREDENTIAL_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Header with which browsers continue a stream of events.
const LAST_EVENT_ID: &str = "last-event-id";

/// The calls of a subscription, as its reader may see them.
pub struct LiveTail {
    app: App,
    reader: AdminPrincipal,
    subscription: TraceSubscription,
}

impl LiveTail {
    /// Subscribes a reader to the calls that match a filter and end from now on, or behind a
    /// position.
    ///
    /// # Errors
    ///
    /// Returns an error if there are too many live tails.
    pub fn open(
        app: &App,
        reader: AdminPrincipal,
        filter: TraceFilter,
        after: Option<u64>,
    ) -> Result<Self, ApiError> {
        let store = &app.resources.trace;
        if store.subscriptions() >= MAX_LIVE_TAILS {
            let message = format!("more than {MAX_LIVE_TAILS} live tails of calls");
            return Err(ApiError::new(ErrorReason::Overloaded, message));
        }
        Ok(Self {
            app: app.clone(),
            reader,
            subscription: store.subscribe(filter, after),
        })
    }

    /// Returns the position of the last call that was searched, behind which another live tail can
    /// continue.
    pub const fn position(&self) -> u64 {
        self.subscription.position()
    }

    /// Waits for the next calls; without any until `deadline`, the batch is empty. Returns `None`
    /// once the credential of the reader is no longer valid, and when the trace is dropped.
    pub async fn next(&mut self, deadline: Instant) -> Option<TraceBatch> {
        loop {
            let check = deadline.min(Instant::now() + CREDENTIAL_CHECK_INTERVAL);
            let batch = timeout_at(check, self.subscription.next()).await;
            // INVARIANT: calls are sent under the roles that the reader has now.
            let settings = &self.app.snapshot().config.admin;
            let access = &self.app.resources.admin_access;
            self.reader = access.renew(settings, &self.reader)?;
            match batch {
                Ok(batch) => return Some(self.visible(batch?)),
                Err(_) if Instant::now() >= deadline => return Some(TraceBatch::default()),
                Err(_) => (),
            }
        }
    }

    /// Returns the event `lost` of the last batch, if calls were lost. Its id is the position in
    /// front of the next call: behind it, the same loss is not reported again.
    pub fn lost_event(&self, batch: &TraceBatch) -> Option<String> {
        let next = batch.calls.first();
        let id = next.map_or(self.position(), |call| call.seq.saturating_sub(1));
        let lost = batch.lost;
        (lost > 0).then(|| format!("id: {id}\nevent: lost\ndata: {lost}\n\n"))
    }

    fn visible(&self, batch: TraceBatch) -> TraceBatch {
        let calls = batch.calls.into_iter();
        let calls = calls.map(|call| content::visible_call(&self.reader, call));
        TraceBatch {
            calls: calls.collect(),
            ..batch
        }
    }
}

/// Returns the position of the last event that a reader has received, if it connects again.
pub fn last_position(headers: &HeaderMap) -> Option<u64> {
    headers.get(LAST_EVENT_ID)?.to_str().ok()?.parse().ok()
}
