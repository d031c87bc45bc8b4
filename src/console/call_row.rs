//! One row of the list of calls: the same for the page and for the live tail.

use maud::{Markup, html};
use serde::Serialize;

use super::{
    format::{calls_with, duration, item_address, parameter, with_parameter},
    page::{BadgeKind, badge},
};
use crate::{
    event::Action,
    observe::{
        recorder::{ExchangeAction, ExchangeEnd},
        trace::{CallRecord, CallSummary, DecidingRule, RecordKind},
    },
};

/// Columns of the list of calls.
pub(super) const COLUMNS: [&str; 13] = [
    "Time (UTC)",
    "Verdict",
    "Decided by",
    "Tools",
    "Caller",
    "Agent",
    "Session",
    "Model",
    "Edited",
    "Rounds",
    "Tokens",
    "Hooks / total",
    "Status",
];

/// Address of the list of calls.
pub(super) const LIST: &str = "/console/calls";

/// One row, as texts. The first two are a link and a badge.
#[derive(Debug, Serialize)]
pub(super) struct CallRow {
    /// Address of its page.
    pub(super) href: String,
    /// Class of the row and of the badge.
    pub(super) kind: &'static str,
    /// Shape of the badge.
    pub(super) shape: &'static str,
    /// Texts in the order of [`COLUMNS`].
    pub(super) cells: [String; COLUMNS.len()],
}

impl CallRow {
    /// Creates the row of a call in a list with this query.
    pub(super) fn new(call: &CallRecord, query: &str) -> Self {
        let (kind, verdict) = verdict(call);
        let summary = call.summary();
        let times = [summary.hooks_us, call.duration_us].map(duration);
        let tokens = summary.tokens.map(|tokens| tokens.to_string());
        let cells = [
            short_time(&call.time()),
            verdict,
            decided_by(&summary),
            summary.tools.join(", "),
            caller(&call.caller, &call.caller_key).to_owned(),
            call.agent.to_string(),
            call.session.to_string(),
            models(&call.requested_model, &call.model),
            edited(call, &summary).to_owned(),
            call.rounds.to_string(),
            tokens.unwrap_or_default(),
            times.join(" / "),
            status(call),
        ];
        Self {
            href: item_address(LIST, &call.id, query),
            kind: kind.class(),
            shape: kind.shape(),
            cells,
        }
    }

    /// Returns the row as markup.
    pub(super) fn markup(&self) -> Markup {
        let [time, verdict, others @ ..] = &self.cells;
        html! {
            tr class=(self.kind) {
                th.nowrap scope="row" { a data-row href=(self.href) { (time) } }
                td { span class={ "badge " (self.kind) } {
                    span aria-hidden="true" { (self.shape) } " " (verdict)
                } }
                @for text in others { td { (text) } }
            }
        }
    }
}

/// Returns the kind of an action on a call.
fn action_kind(action: ExchangeAction) -> BadgeKind {
    match action {
        ExchangeAction::Pass => BadgeKind::Good,
        ExchangeAction::Edit | ExchangeAction::Respond => BadgeKind::Warning,
        ExchangeAction::Deny | ExchangeAction::Stop | ExchangeAction::Error => BadgeKind::Bad,
    }
}

/// Returns a verdict as a badge.
pub(super) fn verdict_badge(verdict: Action) -> Markup {
    badge(verdict_kind(verdict), verdict.as_str())
}

const fn verdict_kind(verdict: Action) -> BadgeKind {
    match verdict {
        Action::Proceed => BadgeKind::Good,
        Action::Ask | Action::Respond => BadgeKind::Warning,
        Action::Deny | Action::Stop => BadgeKind::Bad,
    }
}

/// Returns the caller's name, or the begin of its key.
pub(super) const fn caller<'a>(name: &'a str, key: &'a str) -> &'a str {
    if name.is_empty() { key } else { name }
}

/// Returns the action on a call and, if it is stricter, the verdict on one of its events.
pub(super) fn verdict(call: &CallRecord) -> (BadgeKind, String) {
    match call.strictest_verdict() {
        // A denied tool call within an answer does not deny the call.
        Some(verdict)
            if verdict > Action::Proceed
                && call.action < ExchangeAction::Deny
                && verdict.as_str() != call.action.as_str() =>
        {
            let text = format!("{}, {}", call.action.as_str(), verdict.as_str());
            (verdict_kind(verdict), text)
        }
        _ => (action_kind(call.action), call.action.as_str().to_owned()),
    }
}

/// Returns the requested model, and the one that is called if it is another.
pub(super) fn models(requested: &str, called: &str) -> String {
    if requested == called {
        called.to_owned()
    } else {
        format!("{requested} → {called}")
    }
}

/// Returns a time in UTC without year and fractions of a second.
pub(super) fn short_time(time: &str) -> String {
    let date_and_time = time.get(5..10).zip(time.get(11..19));
    date_and_time.map_or_else(|| time.to_owned(), |(date, time)| format!("{date} {time}"))
}

fn decided_by(summary: &CallSummary<'_>) -> String {
    let rule = deciding_rule(summary).map(|rule| rule.name);
    rule.or(summary.head.error).unwrap_or_default().to_owned()
}

/// Returns the rule that decided a call or edited it. The cause of an error is no edit.
pub(super) fn deciding_rule<'a>(summary: &'a CallSummary<'_>) -> Option<&'a DecidingRule<'a>> {
    let rule = summary.decided_by.as_ref();
    rule.filter(|rule| summary.head.error.is_none() || rule.action > Action::Proceed)
}

/// Returns the address of the list of the calls of a session of a caller, whose key is empty
/// without a credential.
pub(super) fn session_calls(session: &str, caller: &str) -> String {
    with_parameter(
        &calls_with("session", session),
        &parameter("caller", caller),
    )
}

fn edited(call: &CallRecord, summary: &CallSummary<'_>) -> &'static str {
    if call.has_edited_event() {
        return "event";
    }
    match (summary.edited_request, summary.edited_answer) {
        (true, true) => "request, answer",
        (true, false) => "request",
        (false, true) => "answer",
        (false, false) => "",
    }
}

fn status(call: &CallRecord) -> String {
    match (call.kind, call.status) {
        (RecordKind::Event, _) => "event".to_owned(),
        (RecordKind::Call, 0) => call.end.as_str().to_owned(),
        (RecordKind::Call, status) if call.end == ExchangeEnd::Complete => status.to_string(),
        (RecordKind::Call, status) => format!("{status}, {}", call.end.as_str()),
    }
}
