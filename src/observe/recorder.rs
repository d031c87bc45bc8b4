//! Records what happens to one request and passes it to sinks.
//!
//! A [`Recorder`] is a handle on one request. Its clones share an [`Exchange`], the summary of
//! the request so far, and a list of [`Sink`]s: metrics, log, decision log with OTLP export, and
//! the trace of `hookgate explain`. Everything that happens is one [`ExchangeEvent`]. To add a sink,
//! implement [`Sink`] and add it where the application creates recorders.

mod event;
mod exchange;
mod header_summary;
mod log_sink;
mod metrics_sink;
mod sink;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use self::header_summary::HeaderSummary;
pub use self::{
    event::{BodySide, EventDecision, ExchangeAction, ExchangeEnd, ExchangeEvent},
    exchange::Exchange,
    header_summary::HookSummary,
    log_sink::LogSink,
    metrics_sink::MetricsSink,
    sink::{CommitFuture, Sink, Unavailable},
};

/// Records one request. Clones record the same request, which is finished when the last of them
/// is dropped; so one of them lives as long as the response body.
#[derive(Debug, Clone)]
pub struct Recorder {
    request_id: Arc<str>,
    state: Arc<Mutex<RecorderState>>,
}

#[derive(Debug)]
struct RecorderState {
    exchange: Exchange,
    sinks: Vec<Box<dyn Sink>>,
    headers: HeaderSummary,
    /// Cancelled once shutdown aborts requests; `None` if the end is not recorded.
    aborted: Option<CancellationToken>,
}

impl Recorder {
    /// Records a request to the proxy, up to the end of its response. `aborted` is cancelled
    /// when shutdown aborts requests.
    pub fn for_exchange(
        exchange: Exchange,
        sinks: Vec<Box<dyn Sink>>,
        aborted: CancellationToken,
    ) -> Self {
        Self::new(exchange, sinks, Some(aborted))
    }

    /// Records a single hook event.
    pub fn for_event(exchange: Exchange, sinks: Vec<Box<dyn Sink>>) -> Self {
        Self::new(exchange, sinks, None)
    }

    fn new(
        exchange: Exchange,
        sinks: Vec<Box<dyn Sink>>,
        aborted: Option<CancellationToken>,
    ) -> Self {
        Self {
            request_id: Arc::clone(&exchange.request_id),
            state: Arc::new(Mutex::new(RecorderState {
                exchange,
                sinks,
                headers: HeaderSummary::default(),
                aborted,
            })),
        }
    }

    /// The id in `x-hookgate-request-id`.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Records an event. Never waits.
    pub fn record(&self, event: &ExchangeEvent<'_>) {
        self.state().record(event);
    }

    /// Records an event and waits until durable sinks have stored all events so far.
    ///
    /// # Errors
    ///
    /// If a durable sink cannot store them.
    pub async fn record_durably(&self, event: &ExchangeEvent<'_>) -> Result<(), Unavailable> {
        self.record(event);
        self.commit().await
    }

    /// Waits until durable sinks have stored all events so far.
    ///
    /// # Errors
    ///
    /// If a durable sink cannot store them.
    pub async fn commit(&self) -> Result<(), Unavailable> {
        let commits: Vec<CommitFuture> = {
            let state = self.state();
            state
                .sinks
                .iter()
                .filter_map(|sink| sink.commit())
                .collect()
        };
        for commit in commits {
            commit.await?;
        }
        Ok(())
    }

    /// Returns whether a sink needs the pieces of request and response bodies.
    pub fn wants_bodies(&self) -> bool {
        self.state().sinks.iter().any(|sink| sink.wants_bodies())
    }

    /// Returns whether a sink needs the inputs of hook events.
    pub fn wants_inputs(&self) -> bool {
        self.state().sinks.iter().any(|sink| sink.wants_inputs())
    }

    /// Returns whether a sink needs the plans of hook events.
    pub fn wants_plans(&self) -> bool {
        self.state().sinks.iter().any(|sink| sink.wants_plans())
    }

    /// Takes the summary for the response headers. Later events do not change it.
    pub fn take_summary(&self) -> HookSummary {
        let mut state = self.state();
        let RecorderState {
            exchange, headers, ..
        } = &mut *state;
        headers.take(exchange)
    }

    fn state(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecorderState {
    fn record(&mut self, event: &ExchangeEvent<'_>) {
        self.exchange.apply(event);
        self.headers.apply(event);
        for sink in &mut self.sinks {
            sink.record(&self.exchange, event);
        }
    }
}

impl Drop for RecorderState {
    fn drop(&mut self) {
        if let Some(aborted) = self.aborted.take() {
            self.exchange.finish(aborted.is_cancelled());
            self.record(&ExchangeEvent::Finished);
        }
    }
}
