//! The result of a trial.

use std::{collections::BTreeMap, slice, sync::Arc};

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::{
    dialect::{AnswerTexts, Dialect, read_stream},
    event::{Action, EventName, RuleId},
    hook::EventTrace,
    observe::trace::{CallRecord, RulePosition, TracedEvent},
};

/// The verdict on an action that ends with an error outside of hooks.
pub(super) const ERROR: &str = "error";

/// The result of a trial.
#[derive(Debug, Serialize)]
pub struct TrialReport {
    /// `proceed`, `ask`, `respond`, `deny`, `stop` or `error`; `None` if policies and hooks are
    /// listed only, and there is no error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<&'static str>,
    /// The reason, unless the verdict is `proceed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// All events that were fired, in order.
    pub events: Vec<EventTrace>,
    /// Lines of the config that have the policies and hooks, by their number.
    #[serde(skip)]
    pub positions: BTreeMap<RuleId, RulePosition>,
    /// The record of the live trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<Arc<CallRecord>>,
    /// The requests to the model API.
    pub upstream: Vec<RecordedRequest>,
    /// The HTTP status of the response.
    pub status: u16,
    /// The body of the response; of a stream, the list of its chunks.
    pub answer: Value,
    /// All text of the response.
    pub text: String,
}

impl TrialReport {
    /// Returns the record of the first event of a name. The chunks of a response are one event
    /// there.
    pub fn first_event(&self, name: EventName) -> Option<&TracedEvent> {
        self.recorded_events().find(|event| event.event == name)
    }

    /// Returns the records of events on which no policy and no hook ran.
    pub fn unasked_events(&self) -> impl Iterator<Item = &TracedEvent> {
        self.recorded_events().filter(|event| {
            let mut listed = self.events.iter();
            !listed.any(|other| other.event == event.event)
                && event.rules.iter().all(|rule| rule.asked().is_none())
        })
    }

    fn recorded_events(&self) -> impl Iterator<Item = &TracedEvent> {
        self.record.iter().flat_map(|record| record.events())
    }
}

/// A request to the model API.
#[derive(Debug, Serialize)]
pub struct RecordedRequest {
    /// The path, with the name of the model.
    pub path: String,
    /// The body of the request.
    pub body: Value,
}

/// Returns the strictest verdict of all events, or an error outside of hooks.
pub(super) fn verdict(events: &[EventTrace], answer: &Value) -> (&'static str, Option<String>) {
    let strictest = events.iter().filter_map(|event| event.verdict).max();
    let strictest = strictest.unwrap_or(Action::Proceed);
    if let Some(message) = error_message(answer)
        && strictest < Action::Respond
    {
        return (ERROR, Some(message.to_owned()));
    }
    let first = events.iter().find(|event| event.verdict == Some(strictest));
    let reason = first.and_then(|event| event.reason.clone());
    (strictest.as_str(), reason)
}

/// Returns the message of an error in a response; of a stream, that of the first event with one.
pub fn error_message(answer: &Value) -> Option<&str> {
    answer_chunks(answer).iter().find_map(message_of_event)
}

/// Returns the chunks of a response, of which a whole one is the only one.
pub fn answer_chunks(answer: &Value) -> &[Value] {
    let chunks = answer.as_array().map(Vec::as_slice);
    chunks.unwrap_or(slice::from_ref(answer))
}

fn message_of_event(event: &Value) -> Option<&str> {
    let message = event.pointer("/error/message");
    let message = message.or_else(|| event.pointer("/response/error/message"));
    let is_error = event.get("type").is_some_and(|kind| kind == "error");
    let message = message.or_else(|| event.get("message").filter(|_| is_error));
    message.and_then(Value::as_str)
}

/// Returns the texts of a response that an agent displays, without thoughts, and the message of its
/// error.
pub(super) fn shown_text(answer: &Value, dialect: &dyn Dialect) -> String {
    let events = answer_chunks(answer).iter().map(|event| match event {
        // An event that is no JSON, such as `[DONE]`.
        Value::String(text) => Bytes::from(text.clone()),
        event => Bytes::from(event.to_string()),
    });
    let chunks = if answer.is_array() && !dialect.api().is_google() {
        read_stream(dialect, events)
    } else {
        events.map(|event| dialect.open_response(event)).collect()
    };
    let mut texts = AnswerTexts::default();
    let read = chunks.and_then(|chunks| chunks.iter().try_for_each(|chunk| texts.push(chunk)));
    // What no API has, such as the output of an event, has no texts.
    let shown = read.map_or_else(|_| String::new(), |()| texts.all());
    shown + error_message(answer).unwrap_or_default()
}
