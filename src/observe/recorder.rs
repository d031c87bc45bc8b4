//! Records what happens to one request and passes it to sinks.
//!
//! A [`Recorder`] is a handle on one request. Its clones share an [`ExchangeSummary`] of the
//! request so far, and a list of [`Sink`]s, such as metrics, log and decision log. Everything
//! that happens is one [`ExchangeEvent`]. To add a sink, implement [`Sink`] and add it in
//! `state/recorders.rs`.

mod asked_hooks;
mod event;
mod exchange_summary;
mod header_summary;
mod log_sink;
mod metrics_sink;
mod sink;

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, MutexGuard, Weak},
};

use tokio_util::sync::CancellationToken;

use self::header_summary::HeaderSummary;
pub use self::{
    asked_hooks::{AskedHooks, InFlightHooks},
    event::{
        BodyPart, BodySide, ChunkFacts, EventDecision, ExchangeAction, ExchangeEnd, ExchangeEvent,
        PlanSummary, PlannedRule,
    },
    exchange_summary::ExchangeSummary,
    header_summary::HeaderValues,
    log_sink::LogSink,
    metrics_sink::MetricsSink,
    sink::{CommitFuture, Sink, SinkNeed, Unavailable},
};

use crate::mutex::Mutex;

/// Records one request. Clones record the same request, which is finished when the last of them
/// is dropped; so one of them lives as long as the response body.
#[derive(Debug, Clone)]
pub struct Recorder {
    request_id: Arc<str>,
    state: Arc<Mutex<RecorderState>>,
}

#[derive(Debug)]
struct RecorderState {
    exchange: ExchangeSummary,
    sinks: Vec<Box<dyn Sink>>,
    headers: HeaderSummary,
    /// Cancelled once shutdown aborts requests.
    aborted: CancellationToken,
    /// Event that is recorded at the end.
    last: ExchangeEvent<'static>,
    in_flight: Option<InFlightEntry>,
}

/// Requests in flight: those whose recorder is not dropped yet. Each is read where it is recorded,
/// so nothing is copied for a list that no operator looks at.
#[derive(Debug, Default)]
pub struct InFlightExchanges(Mutex<InFlightTable>);

#[derive(Debug, Default)]
struct InFlightTable {
    /// Number of the next request.
    next: u64,
    /// By number, so the oldest is first.
    exchanges: BTreeMap<u64, Weak<Mutex<RecorderState>>>,
}

/// Place of a request in [`InFlightExchanges`], which ends with it.
#[derive(Debug)]
struct InFlightEntry {
    table: Arc<InFlightExchanges>,
    number: u64,
}

impl Recorder {
    /// Records a request to the proxy, up to the end of its response. `aborted` is cancelled
    /// when shutdown aborts requests.
    pub fn for_exchange(
        exchange: ExchangeSummary,
        sinks: Vec<Box<dyn Sink>>,
        aborted: CancellationToken,
    ) -> Self {
        Self::new(exchange, sinks, aborted, ExchangeEvent::Finished)
    }

    /// Records a single hook event. `aborted` is cancelled when shutdown aborts requests.
    pub fn for_event(
        exchange: ExchangeSummary,
        sinks: Vec<Box<dyn Sink>>,
        aborted: CancellationToken,
    ) -> Self {
        Self::new(exchange, sinks, aborted, ExchangeEvent::Closed)
    }

    /// Keeps the summary of a single hook event, for no sinks.
    pub fn without_sinks(exchange: ExchangeSummary) -> Self {
        Self::for_event(exchange, Vec::new(), CancellationToken::new())
    }

    fn new(
        exchange: ExchangeSummary,
        sinks: Vec<Box<dyn Sink>>,
        aborted: CancellationToken,
        last: ExchangeEvent<'static>,
    ) -> Self {
        Self {
            request_id: Arc::clone(&exchange.request_id),
            state: Arc::new(Mutex::new(RecorderState {
                exchange,
                sinks,
                headers: HeaderSummary::default(),
                aborted,
                last,
                in_flight: None,
            })),
        }
    }

    /// Lists the request among those in flight, until it is finished.
    pub fn list_in(&self, table: &Arc<InFlightExchanges>) {
        let entry = table.add(Arc::downgrade(&self.state));
        self.state.lock().in_flight = Some(entry);
    }

    /// The id in `x-hookgate-request-id`.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Records an event. Never waits.
    pub fn record(&self, event: &ExchangeEvent<'_>) {
        self.state.lock().record(event);
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
            let state = self.state.lock();
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

    /// Returns whether a sink needs something that is recorded only for sinks that need it.
    pub fn needs(&self, what: SinkNeed) -> bool {
        self.state.lock().sinks.iter().any(|sink| sink.needs(what))
    }

    /// Takes the summary for the response headers. Later events do not change it.
    pub fn take_summary(&self) -> HeaderValues {
        let mut state = self.state.lock();
        let RecorderState {
            exchange, headers, ..
        } = &mut *state;
        headers.take(exchange)
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
        self.exchange.finish(self.aborted.is_cancelled());
        let last = mem::replace(&mut self.last, ExchangeEvent::Closed);
        self.record(&last);
    }
}

impl InFlightExchanges {
    /// Number of bytes that are used for each request.
    pub const ENTRY_BYTES: usize = size_of::<(u64, Weak<Mutex<RecorderState>>)>() * 2;

    /// Returns the number of requests in flight, without those that are just ending.
    pub fn count(&self) -> usize {
        let table = self.table();
        let exchanges = table.exchanges.values();
        exchanges
            .filter(|exchange| exchange.strong_count() > 0)
            .count()
    }

    /// Calls `reader` with the requests in flight, the oldest first, until it returns `false`.
    pub fn read(&self, mut reader: impl FnMut(&ExchangeSummary) -> bool) {
        let (mut from, mut continues) = (0, true);
        while continues {
            // The table is not locked while a request is read: the last one who has it ends it.
            let Some((number, exchange)) = self.first_from(from) else {
                return;
            };
            continues = reader(&exchange.lock().exchange);
            from = number + 1;
        }
    }

    fn add(self: &Arc<Self>, exchange: Weak<Mutex<RecorderState>>) -> InFlightEntry {
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.exchanges.insert(number, exchange);
        drop(table);
        InFlightEntry {
            table: Arc::clone(self),
            number,
        }
    }

    fn first_from(&self, number: u64) -> Option<(u64, Arc<Mutex<RecorderState>>)> {
        let table = self.table();
        let mut exchanges = table.exchanges.range(number..);
        exchanges.find_map(|(number, exchange)| Some((*number, exchange.upgrade()?)))
    }

    fn table(&self) -> MutexGuard<'_, InFlightTable> {
        self.0.lock()
    }
}

impl Drop for InFlightEntry {
    fn drop(&mut self) {
        self.table.table().exchanges.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::event::{Action, Caller, HookResult, HookRun, RuleId};

    /// Keeps the actions with which requests finish.
    #[derive(Debug, Clone, Default)]
    struct FinishedActions(Arc<Mutex<Vec<&'static str>>>);

    impl Sink for FinishedActions {
        fn record(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
            if matches!(event, ExchangeEvent::Finished) {
                self.0.lock().push(exchange.action.as_str());
            }
        }
    }

    fn recorder(sinks: Vec<Box<dyn Sink>>) -> Recorder {
        let exchange = ExchangeSummary::new("id".into(), Caller::default());
        Recorder::for_exchange(exchange, sinks, CancellationToken::new())
    }

    fn run(name: &str) -> HookRun {
        HookRun {
            rule: RuleId::UNKNOWN,
            name: name.to_owned(),
            result: HookResult::default(),
            elapsed: Duration::from_millis(7),
            ended: SystemTime::UNIX_EPOCH,
            action: Action::Proceed,
            would: None,
            edited: false,
            refused: Vec::new(),
            input: bytes::Bytes::new(),
        }
    }

    #[test]
    fn a_request_finishes_once_with_its_strictest_action() {
        let finished = FinishedActions::default();
        let recorder = recorder(vec![Box::new(finished.clone())]);
        let clone = recorder.clone();

        recorder.record(&ExchangeEvent::ActionTaken(ExchangeAction::Deny));
        clone.record(&ExchangeEvent::ActionTaken(ExchangeAction::Edit));
        drop(recorder);
        assert!(finished.0.lock().is_empty());
        drop(clone);

        assert_eq!(*finished.0.lock(), ["deny"]);
    }

    #[test]
    fn the_summary_lists_a_policy_once_and_is_fixed_when_taken() {
        let recorder = recorder(Vec::new());
        let runs = [run("mask it")];

        recorder.record(&ExchangeEvent::PoliciesRan(&runs));
        recorder.record(&ExchangeEvent::PoliciesRan(&runs));
        let taken = recorder.take_summary();
        recorder.record(&ExchangeEvent::PoliciesRan(&[run("late")]));

        assert_eq!(taken.hooks, "mask%20it;7");
        assert_eq!(recorder.take_summary().hooks, "");
    }

    #[test]
    fn a_summary_too_long_for_a_header_is_cut() {
        let recorder = recorder(Vec::new());
        let runs: Vec<HookRun> = (0..1000).map(|number| run(&number.to_string())).collect();

        recorder.record(&ExchangeEvent::PoliciesRan(&runs));

        let hooks = recorder.take_summary().hooks;
        assert!(hooks.starts_with("0;"), "{hooks}");
        assert!((4000..=4096).contains(&hooks.len()), "{hooks}");
    }
}
