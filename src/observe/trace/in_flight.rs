//! Calls in flight, as far as they are known before their end.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    observe::{
        recorder::{ExchangeSummary, InFlightExchanges, InFlightHooks},
        trace::filter::{FilterKey, TraceFilter},
    },
    timestamp::{now_ms, rfc3339_ms},
};

/// Calls of a list.
const MAX_LISTED_CALLS: usize = 100;

/// A list of calls in flight.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct InFlightCalls {
    /// Calls that match, the oldest first; at most 100.
    pub calls: Vec<InFlightCall>,
    /// Number of all calls in flight.
    pub total: usize,
}

/// One call in flight.
#[derive(Debug, Serialize, ToSchema)]
pub struct InFlightCall {
    /// Request id, as in `x-hookgate-request-id`.
    pub id: String,
    /// Time of the request's head: RFC 3339 in UTC.
    pub time: String,
    /// Time since then, in microseconds.
    pub elapsed_us: u32,
    /// Name of the caller; empty without authentication.
    pub caller: String,
    /// First digits of the caller's key; empty without a credential, and for calls that no policy,
    /// hook or decision log reads.
    pub caller_key: String,
    /// `User-Agent` of the request, once it is read.
    pub agent: String,
    /// Session of the request; empty if unknown so far.
    pub session: String,
    /// Name of the model API; empty until it is known.
    pub dialect: &'static str,
    /// Name of the method, such as `generateContent`.
    pub method: &'static str,
    /// Model that the agent requested.
    pub requested_model: String,
    /// Model that is called.
    pub model: String,
    /// Address of upstream that was called: `primary` or `fallback`; empty if none was so far.
    pub upstream: &'static str,
    /// HTTP status that the agent received; 0 if it waits for it.
    pub status: u16,
    /// Strictest action of policies and hooks so far.
    pub action: &'static str,
    /// Hooks that the call waits for; absent if it waits for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<InFlightHooks>,
}

impl InFlightCalls {
    /// Reads the calls in flight that match a filter. Conditions on what is known at the end
    /// only, such as `rule`, match none of them.
    pub(crate) fn read(exchanges: &InFlightExchanges, filter: &TraceFilter) -> Self {
        let now_ms = now_ms();
        let mut found = Self::default();
        exchanges.read(|exchange| {
            let started_ms = now_ms.saturating_sub(u64::from(exchange.micros_now()) / 1000);
            if matches(filter, exchange, started_ms) {
                found.calls.push(InFlightCall::new(exchange, started_ms));
            }
            found.calls.len() < MAX_LISTED_CALLS
        });
        // Listed calls may have ended.
        found.total = exchanges.count().max(found.calls.len());
        found
    }

    /// Returns whether a request is in flight.
    pub(crate) fn has(exchanges: &InFlightExchanges, id: &str) -> bool {
        let mut is_found = false;
        exchanges.read(|exchange| {
            is_found |= *exchange.request_id == *id;
            !is_found
        });
        is_found
    }
}

impl InFlightCall {
    fn new(exchange: &ExchangeSummary, started_ms: u64) -> Self {
        Self {
            id: exchange.request_id.to_string(),
            time: rfc3339_ms(started_ms),
            elapsed_us: exchange.micros_now(),
            caller: exchange.caller.name.clone(),
            caller_key: exchange.caller.short_key().to_owned(),
            agent: exchange.caller.agent.clone(),
            session: exchange.session_id.clone(),
            dialect: exchange.api,
            method: exchange.operation,
            requested_model: exchange.requested_model.clone(),
            model: exchange.model.clone(),
            upstream: exchange.upstream,
            status: exchange.status,
            action: exchange.action.as_str(),
            waits_for: exchange.asked.pending(),
        }
    }
}

fn matches(filter: &TraceFilter, exchange: &ExchangeSummary, started_ms: u64) -> bool {
    filter.keyed().all(|(key, value)| match key {
        FilterKey::Caller => {
            let caller = &exchange.caller;
            TraceFilter::names_caller(value, &caller.name, &caller.key)
        }
        FilterKey::Dialect => exchange.api == value,
        FilterKey::Session => exchange.session_id == value,
        FilterKey::Request => *exchange.request_id == *value,
        FilterKey::Model => exchange.model == value || exchange.requested_model == value,
        FilterKey::Verdict => exchange.action.as_str() == value,
        FilterKey::Since => !filter.excludes_before(started_ms),
        FilterKey::Rule
        | FilterKey::Tool
        | FilterKey::Would
        | FilterKey::Edited
        | FilterKey::Error
        | FilterKey::Ended => false,
    })
}
