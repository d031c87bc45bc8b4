//! The live trace: the last exchanges, statistics of rules, and denials, within a memory bound.

pub mod content;
pub mod denials;
pub mod masking;
pub mod memory;
pub mod pages;
pub mod raw_body;
pub mod ring;
pub mod subscription;
pub mod watched;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{sync::watch, task::spawn_blocking, time::timeout};

use crate::{
    config::TraceSettings,
    mutex::Mutex,
    observe::{
        metrics::Metrics,
        recorder::InFlightExchanges,
        redaction::MaskPatterns,
        trace::{
            filter::TraceFilter,
            in_flight::InFlightCalls,
            record::{CallDetail, CallRecord, cache_effect::PromptCache},
            rule::{RuleIdentity, TracedRule},
            store::{
                content::ContentStore,
                denials::{Denial, DenialTable},
                memory::{InFlightBytes, TraceMemory},
                pages::{CallList, CallView, DenialList, ScanRange, TraceStatus},
                ring::RecordRing,
                subscription::TraceSubscription,
                watched::{SessionWatch, WatchedSessions},
            },
        },
    },
    timestamp::rfc3339_ms,
};

/// Records of one page.
pub const MAX_PAGE_RECORDS: usize = 100;

/// Time between two removals of old content.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(10);

/// Rules of all configs that records may name.
const MAX_RULES: usize = 4096;

/// Rules of one config, by their number. `None`: there was no memory for it.
pub type TracedRules = Arc<[Option<Arc<TracedRule>>]>;

/// The live trace. It survives reloads of the config.
#[derive(Debug)]
pub struct TraceStore {
    memory: Arc<TraceMemory>,
    pub(crate) ring: Arc<RecordRing>,
    in_flight: Arc<InFlightExchanges>,
    rules: Mutex<Vec<Arc<TracedRule>>>,
    denials: Mutex<DenialTable>,
    pub(crate) prompts: PromptCache,
    pub(crate) contents: ContentStore,
    pub(crate) watched: WatchedSessions,
    /// Sequence number of the last record, for subscribers.
    newest: watch::Sender<u64>,
    metrics: Arc<Metrics>,
}

impl TraceStore {
    /// Creates an empty trace.
    pub fn new(settings: &TraceSettings, metrics: Arc<Metrics>) -> Self {
        let memory = Arc::new(TraceMemory::new(settings.memory));
        // These are bounded by number, and counted at their largest size.
        memory.try_add(DenialTable::max_bytes() + PromptCache::max_bytes());
        let store = Self {
            ring: Arc::new(RecordRing::new(Arc::clone(&memory))),
            memory,
            in_flight: Arc::default(),
            rules: Mutex::default(),
            denials: Mutex::default(),
            prompts: PromptCache::new(),
            contents: ContentStore::default(),
            watched: WatchedSessions::default(),
            newest: watch::Sender::new(0),
            metrics,
        };
        store.configure(settings, &MaskPatterns::new());
        store
    }

    /// Applies the settings of a config, and evicts what exceeds them. `patterns` are masked in
    /// content.
    pub fn configure(&self, settings: &TraceSettings, patterns: &MaskPatterns) {
        self.memory.set_limit(settings.memory);
        while self.memory.used() > settings.memory && self.ring.evict_oldest() {}
        self.ring.resize(settings.exchanges);
        self.contents.configure(&settings.content, patterns);
    }

    /// Returns the rules of a config by their number. Equal rules of earlier configs continue
    /// their statistics, first those of `previous`. Rules that differ from those of `beside`, the
    /// other config of a rollout, have statistics of their own.
    pub fn register(
        &self,
        identities: &[RuleIdentity],
        previous: Option<&TracedRules>,
        beside: Option<&TracedRules>,
    ) -> TracedRules {
        let mut pool = self.rules.lock();
        let mut rules: Vec<Option<Arc<TracedRule>>> = Vec::with_capacity(identities.len());
        for identity in identities {
            let is_taken = |rule: &Arc<TracedRule>| {
                let others = kept_rules(beside).filter(|other| other.identity != *identity);
                let mut taken = rules.iter().flatten().chain(others);
                taken.any(|taken| Arc::ptr_eq(&taken.statistics, &rule.statistics))
            };
            let known = kept_rules(previous).chain(pool.iter().rev());
            let same = known.filter(|rule| rule.identity.is_same_rule(identity) && !is_taken(rule));
            // An unchanged rule is first, then one of the previous config.
            let same = same.min_by_key(|rule| rule.identity != *identity);
            let rule = match same {
                Some(rule) if rule.identity == *identity => Some(Arc::clone(rule)),
                same => {
                    let statistics = same.map(|rule| Arc::clone(&rule.statistics));
                    let rule = Arc::new(TracedRule {
                        identity: identity.clone(),
                        statistics: statistics.unwrap_or_default(),
                    });
                    self.keep_rule(&mut pool, &rule).then_some(rule)
                }
            };
            rules.push(rule);
        }
        rules.into()
    }

    /// Returns a page of records that match, newest first. `cursor` is that of the page before.
    pub fn list(&self, filter: &TraceFilter, cursor: Option<u64>, limit: usize) -> CallList {
        let limit = limit.clamp(1, MAX_PAGE_RECORDS);
        let mut calls: Vec<Arc<CallRecord>> = Vec::new();
        let mut scanned = ScanRange {
            is_complete: true,
            ..ScanRange::default()
        };
        let (mut range, mut has_more) = (None, false);
        // Those that end meanwhile are behind it.
        let last_seq = self.ring.state().last_seq();
        for record in self.ring.before(cursor.unwrap_or(last_seq + 1)) {
            // Records are in the order of their ends.
            if filter.excludes_before(record.ended_ms()) {
                scanned.is_complete = false;
                break;
            }
            if calls.len() == limit {
                (has_more, scanned.is_complete) = (true, false);
                break;
            }
            scanned.records += 1;
            let started = record.started_ms;
            let (oldest, newest) = range.unwrap_or((started, started));
            range = Some((started.min(oldest), started.max(newest)));
            if filter.matches(&record) {
                calls.push(record);
            }
        }
        scanned.from = range.map(|(oldest, _)| rfc3339_ms(oldest));
        scanned.to = range.map(|(_, newest)| rfc3339_ms(newest));
        let last = calls.last().map(|record| record.seq);
        CallList {
            next: last.filter(|_| has_more),
            last_seq,
            calls,
            scanned,
        }
    }

    /// Returns all records for which `matches` is true, oldest first.
    pub fn matching(&self, matches: impl Fn(&CallRecord) -> bool) -> Vec<Arc<CallRecord>> {
        let records = self.ring.after(0);
        records.filter(|record| matches(record)).collect()
    }

    /// Returns the record of a request.
    pub fn find(&self, id: &str) -> Option<Arc<CallRecord>> {
        let mut records = self.ring.before(u64::MAX);
        records.find(|record| *record.id == *id)
    }

    /// Returns the record of a request with its neighbours that match a filter.
    pub fn view(&self, id: &str, filter: &TraceFilter) -> Option<CallView> {
        let call = self.find(id)?;
        let matching = |record: &Arc<CallRecord>| filter.matches(record);
        let newer = self.ring.after(call.seq).find(matching);
        let newer = newer.map(|record| Arc::clone(&record.id));
        let older = self.ring.before(call.seq).find(matching);
        let older = older.map(|record| Arc::clone(&record.id));
        Some(CallView {
            has_content: self.contents.find(id).is_some(),
            call,
            newer,
            older,
        })
    }

    /// Returns the table of requests in flight.
    pub const fn exchanges_in_flight(&self) -> &Arc<InFlightExchanges> {
        &self.in_flight
    }

    /// Returns the calls in flight that match a filter.
    pub fn calls_in_flight(&self, filter: &TraceFilter) -> InFlightCalls {
        InFlightCalls::read(&self.in_flight, filter)
    }

    /// Returns whether a request is in flight.
    pub fn is_in_flight(&self, id: &str) -> bool {
        InFlightCalls::has(&self.in_flight, id)
    }

    /// Subscribes to records that match and finish from now on, or behind a sequence number. All
    /// records are behind one of an earlier process: it is in front of the start, or behind the last
    /// record if the clock was set back.
    pub fn subscribe(
        self: &Arc<Self>,
        filter: TraceFilter,
        after: Option<u64>,
    ) -> TraceSubscription {
        let state = self.ring.state();
        let (start, last_seq) = (state.start(), state.last_seq());
        drop(state);
        let position = match after {
            None => last_seq,
            Some(seq) if seq > last_seq => start,
            Some(seq) => seq.max(start),
        };
        let newest = self.newest.subscribe();
        let metrics = Arc::clone(&self.metrics);
        TraceSubscription::new(Arc::clone(&self.ring), newest, filter, position, metrics)
    }

    /// Returns the number of subscriptions.
    pub fn subscriptions(&self) -> usize {
        self.newest.receiver_count()
    }

    /// Returns denials by rule, reason and tool.
    pub fn denials(&self) -> DenialList {
        let (groups, evicted) = self.denials.lock().list();
        DenialList { groups, evicted }
    }

    /// Masks content as calls end, and removes what is too old, until the future is dropped.
    pub async fn maintain_contents(self: &Arc<Self>) {
        loop {
            // Without new content, only old content is removed.
            timeout(EXPIRY_INTERVAL, self.contents.pending()).await.ok();
            let store = Arc::clone(self);
            // Masking takes milliseconds, which would delay calls on this thread.
            let maintained = spawn_blocking(move || {
                for _ in 0..store.contents.maintain() {
                    store.drop_detail();
                }
            });
            match maintained.await {
                Err(error) if error.is_cancelled() => return,
                // The message of a panic may quote the content.
                Err(_panicked) => tracing::error!("masking of the trace's content panicked"),
                Ok(()) => (),
            }
        }
    }

    /// Returns the watches of sessions that have not ended.
    pub fn watches(&self) -> Vec<SessionWatch> {
        self.watched.list(SystemTime::now())
    }

    /// Returns the size of the trace.
    pub fn status(&self) -> TraceStatus {
        let state = self.ring.state();
        let (records, last_seq) = (state.len(), state.last_seq());
        drop(state);
        TraceStatus {
            records,
            last_seq,
            bytes: self.memory.used(),
            in_flight_bytes: self.memory.in_flight(),
            max_bytes: self.memory.limit(),
            content_bytes: self.contents.bytes(),
            dropped_details: self.metrics.trace_dropped_details.get(),
            dropped_records: self.metrics.trace_dropped_records.get(),
        }
    }

    /// Counts a detail that is not kept.
    pub(crate) fn drop_detail(&self) {
        self.metrics.trace_dropped_details.inc();
    }

    /// Counts a record that is not kept.
    pub(crate) fn drop_record(&self) {
        self.metrics.trace_dropped_records.inc();
    }

    /// Returns no bytes of an exchange in flight.
    pub(crate) fn no_bytes(&self) -> InFlightBytes {
        InFlightBytes::none(Arc::clone(&self.memory))
    }

    /// Adds bytes to those that an exchange in flight holds; `false` if they do not fit.
    pub(crate) fn grow(&self, bytes: &mut InFlightBytes, more: usize) -> bool {
        let fits = bytes.grow(more, &|| self.ring.evict_oldest());
        if !fits {
            self.drop_detail();
        }
        fits
    }

    /// Keeps the record of an exchange that has ended, whose bytes in flight are released.
    pub(crate) fn push(&self, mut record: CallRecord, in_flight: InFlightBytes) {
        drop(in_flight);
        if !self.make_space(record.bytes()) {
            // Names alone are always less than a call with details.
            let dropped = record.detail.take();
            record.detail = dropped.map(|detail| Box::new(CallDetail::dropped(&detail)));
            self.drop_detail();
            if !self.make_space(record.bytes()) {
                self.drop_record();
                return;
            }
        }
        let seq = self.ring.push(record);
        if let Some(seq) = seq.filter(|_| self.newest.receiver_count() > 0) {
            self.newest.send_replace(seq);
        }
    }

    pub(crate) fn add_denial(&self, denial: Denial<'_>) {
        self.denials.lock().add(denial);
    }

    /// Adds bytes, for which the oldest records are evicted if necessary.
    fn make_space(&self, bytes: usize) -> bool {
        while !self.memory.try_add(bytes) {
            if !self.ring.evict_oldest() {
                return false;
            }
        }
        true
    }

    /// Keeps a rule for records. Returns `false` if there is no memory for it.
    fn keep_rule(&self, pool: &mut Vec<Arc<TracedRule>>, rule: &Arc<TracedRule>) -> bool {
        if pool.len() >= MAX_RULES {
            pool.retain(|rule| {
                let is_used = Arc::strong_count(rule) > 1;
                if !is_used {
                    self.memory.release(rule.bytes());
                }
                is_used
            });
        }
        if pool.len() >= MAX_RULES || !self.make_space(rule.bytes()) {
            self.drop_detail();
            return false;
        }
        pool.push(Arc::clone(rule));
        true
    }
}

/// Returns the rules of a config for which there was memory.
fn kept_rules(rules: Option<&TracedRules>) -> impl Iterator<Item = &Arc<TracedRule>> {
    rules.into_iter().flat_map(|rules| rules.iter().flatten())
}

#[cfg(test)]
mod tests;
