//! Live tails of calls that end.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, header};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

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

/// Time after which an idle live tail has an empty batch, which keeps its connection open.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

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

    /// Returns a response of server-sent events: `begin`, and then those that `write` makes of each
    /// batch. It ends when `stop` is cancelled, or with an empty batch at `ends`.
    pub fn respond(
        self,
        begin: Option<String>,
        ends: Option<Instant>,
        stop: CancellationToken,
        write: impl Fn(&Self, &TraceBatch) -> String + Send + 'static,
    ) -> Response {
        let events = stream::unfold((self, write), move |(mut tail, write)| {
            let stop = stop.clone();
            async move {
                let now = Instant::now();
                if ends.is_some_and(|ends| now >= ends) {
                    return None;
                }
                let keep_alive = now + KEEP_ALIVE_INTERVAL;
                let deadline = ends.map_or(keep_alive, |ends| ends.min(keep_alive));
                let batch = stop.run_until_cancelled(tail.next(deadline)).await??;
                let text = write(&tail, &batch);
                Some((text, (tail, write)))
            }
        });
        let events = stream::iter(begin).chain(events).map(Ok::<_, Infallible>);
        let content_type = [(header::CONTENT_TYPE, "text/event-stream")];
        (content_type, Body::from_stream(events)).into_response()
    }

    /// Waits for the next calls; without any until `deadline`, the batch is empty. Returns `None`
    /// once the credential of the reader is no longer valid, and when the trace is dropped.
    async fn next(&mut self, deadline: Instant) -> Option<TraceBatch> {
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
