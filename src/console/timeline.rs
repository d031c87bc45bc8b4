//! The timeline of one call: what happened, in order, and what each policy and hook did.

use maud::{Markup, html};

use super::{
    call_row::{session_calls, verdict_badge},
    format::{bytes, calls_with, config_line, counted, duration, line_text, with_code},
    page::{BadgeKind, badge, header_cell},
};
use crate::{
    event::{Action, HookStatus},
    observe::{
        recorder::{ExchangeAction, ExchangeEnd},
        trace::{
            CallDetail, CallRecord, ChangeKind, DocumentDiff, RecordKind, RunDetail, RunOutcome,
            TracedEvent, TracedRound, TracedRun,
        },
    },
    state::Snapshot,
};

/// Steps in the order of their times.
enum Step<'a> {
    Event(usize, &'a TracedEvent),
    Round(usize, &'a TracedRound),
}

/// Returns the timeline of a call, with links to the lines of the config in use.
pub(super) fn timeline_with_links(call: &CallRecord, snapshot: &Snapshot) -> Markup {
    whole_timeline(call, Some(snapshot))
}

/// Returns the timeline of a trial, whose config may be another than that in use.
pub(super) fn timeline(call: &CallRecord) -> Markup {
    whole_timeline(call, None)
}

fn whole_timeline(call: &CallRecord, snapshot: Option<&Snapshot>) -> Markup {
    let Some(detail) = &call.detail else {
        return without_detail(call);
    };
    let (first, last) = match call.kind {
        RecordKind::Call => ("Agent sent the request", "Agent received the answer"),
        RecordKind::Event => ("Event was fired", "Event ended"),
    };
    html! {
        ol.timeline {
            li { h3 { (first) } (received(call, detail, snapshot)) }
            @for step in steps(detail) {
                @match step {
                    Step::Event(number, event) => li { (event_step(number, event, snapshot)) },
                    Step::Round(number, round) => li { (round_step(number, round, detail)) },
                }
            }
            li { h3 { (last) } (answered(call, detail)) }
        }
        @if detail.dropped_details > 0 {
            p.problem { (detail.dropped_details)
                " details are missing, because the record or the trace is full." }
        }
    }
}

/// Returns the end of a call in which nothing was inspected.
fn without_detail(call: &CallRecord) -> Markup {
    if call.kind == RecordKind::Event {
        return html! { p { "No policy or hook is configured for this event." } };
    }
    html! {
        p {
            @match (call.error, call.rounds) {
                (Some(error), 0) => {
                    "hookgate refused the request with the error " code { (error) } ", status " (call.status)
                    ". Nothing was sent to the model API."
                }
                (Some(error), _) => {
                    "hookgate inspected nothing, and answered with the error " code { (error) } ", status "
                    (call.status) "."
                }
                (None, 0) => "The call ended before anything was sent to the model API.",
                (None, _) => "No policy or hook takes part in this call, so hookgate forwarded it unread.",
            }
        }
    }
}

fn steps(detail: &CallDetail) -> Vec<Step<'_>> {
    let rounds = (1..).zip(&detail.upstream_rounds);
    let rounds = rounds.map(|(number, round)| (round.sent_us, Step::Round(number, round)));
    let events = (1..).zip(&detail.events);
    let events = events.map(|(number, event)| (event.at_us, Step::Event(number, event)));
    let mut steps: Vec<(u32, Step<'_>)> = events.chain(rounds).collect();
    steps.sort_by_key(|(at, _)| *at);
    steps.into_iter().map(|(_, step)| step).collect()
}

fn received(call: &CallRecord, detail: &CallDetail, snapshot: Option<&Snapshot>) -> Markup {
    html! {
        p {
            (call.method)
            @if !call.requested_model.is_empty() { " for model " strong { (call.requested_model) } }
            ". "
            @if let Some(found) = detail.session_match {
                "Session "
                @if snapshot.is_none() { (call.session) } @else {
                    a href=(session_calls(&call.session, &call.caller_key)) { (call.session) }
                }
                " (" (found.result) ", found by " (found.source) ")."
            }
        }
    }
}

fn answered(call: &CallRecord, detail: &CallDetail) -> Markup {
    html! {
        p {
            "Action " strong { (call.action.as_str()) }
            @if call.kind == RecordKind::Call { ", status " (call.status) }
            ", " (call.end.as_str()) ", after " (duration(call.duration_us)) "."
            @if let Some(error) = call.error { " Error " code { (error) } "." }
            @if call.kind == RecordKind::Call && call.rounds == 0 { " Nothing was sent to the model API." }
        }
        // Of an answer in whose place an error was sent, no edit reached the agent.
        @if let Some(diff) = detail.answer_diff.as_ref().filter(|_| call.is_successful() && call.has_edited_answer()) {
            (changes("Answer: the model's against what the agent received", diff))
            p.muted { "Only changed chunks. What was held back and dropped has the number of the chunk that was read then." }
        } @else if let Some(note) = answer_note(call, detail) {
            p.muted { (note) }
        }
    }
}

/// Returns the source of an answer whose differences from the model's are not known.
fn answer_note(call: &CallRecord, detail: &CallDetail) -> Option<&'static str> {
    if call.kind == RecordKind::Event {
        return None;
    }
    if call.status == 0 {
        return Some("The agent received no answer.");
    }
    match (call.action, call.end) {
        (ExchangeAction::Respond | ExchangeAction::Deny | ExchangeAction::Stop, _) => {
            Some("hookgate answered in the place of the model.")
        }
        (ExchangeAction::Error, _) => {
            Some("hookgate answered with an error in the place of the model.")
        }
        (ExchangeAction::Edit, _) if detail.dropped_details > 0 => None,
        (ExchangeAction::Pass | ExchangeAction::Edit, ExchangeEnd::Complete) => {
            Some(if detail.answer_diff.is_some() {
                "The agent received the model's answer, parts of it in later chunks."
            } else {
                "The agent received the model's answer unchanged."
            })
        }
        (ExchangeAction::Pass | ExchangeAction::Edit, _) => {
            Some("The agent did not receive the whole answer.")
        }
    }
}

fn round_step(number: usize, round: &TracedRound, detail: &CallDetail) -> Markup {
    let is_last = number == detail.upstream_rounds.len();
    html! {
        h3 { "Sent to the model API" @if number > 1 { ", round " (number) } }
        p {
            @if let Some(why) = round.asked_again { "Asked again: " (why) ". " }
            "After " (duration(round.sent_us.into()))
            @if let Some(size) = round.request_bytes { ", " (bytes(size)) }
            ", address " (round.upstream) ". "
            @match (round.status, round.answered_us) {
                (Some(status), Some(answered)) => {
                    "Status " (status) " after " (duration(answered.saturating_sub(round.sent_us).into())) "."
                }
                _ => strong { "No answer." },
            }
        }
        @if is_last {
            @if let Some(diff) = &detail.request_diff {
                (changes("Request: the agent's against what was sent", diff))
            } @else if detail.dropped_details == 0 {
                p.muted { "The request went out as the agent sent it." }
            }
        }
    }
}

fn event_step(number: usize, event: &TracedEvent, snapshot: Option<&Snapshot>) -> Markup {
    html! {
        h3 {
            (event.event.as_str())
            @if let Some(subject) = &event.subject { " of " code { (subject) } }
            @if let Some(verdict) = event.verdict_on_calls() { " " (verdict_badge(verdict)) }
        }
        @if let Some(reason) = &event.reason { p { "Reason: " q { (reason.display()) } } }
        p.muted {
            "After " (duration(event.at_us.into())) ", for "
            (duration(event.ended_us.saturating_sub(event.at_us).into())) ", " (event.origin) " event"
            @if event.sequential { ", hooks one after the other" }
            @if let Some(chunks) = event.chunks { ", " (counted(chunks, "chunk")) }
            "."
        }
        @if event.rules.is_empty() {
            p.muted { "No policy or hook is configured for this event." }
        } @else {
            (rule_table(number, event, snapshot))
        }
    }
}

fn rule_table(number: usize, event: &TracedEvent, snapshot: Option<&Snapshot>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Rules of event " (number) ", " (event.event.as_str()) } {
            table {
                caption { "Every policy and hook of the event, in order" }
                thead { tr { @for column in ["Policy or hook", "Config", "Status", "Decision", "Effect", "Time", "Reason"] {
                    th scope="col" class=[(column == "Time").then_some("number")] { (column) }
                } } }
                tbody { @for rule in &event.rules { (rule_row(rule, snapshot)) } }
            }
        }
    }
}

fn rule_row(rule: &TracedRun, snapshot: Option<&Snapshot>) -> Markup {
    let identity = rule.rule.as_ref().map(|rule| &rule.identity);
    let kind = identity.map_or("", |rule| rule.policy.as_deref().unwrap_or(&rule.kind));
    html! {
        tr class=[row_class(rule)] {
            th scope="row" {
                a href=(calls_with("rule", rule.name())) { (rule.name()) }
                " " span.muted { (kind) }
            }
            td.nowrap { @if let Some(at) = rule.position() {
                @match snapshot {
                    Some(snapshot) => (config_line(snapshot, rule.name(), at)),
                    None => code { (line_text(at)) },
                }
            } }
            @match &rule.outcome {
                RunOutcome::NotAsked(reason) => {
                    td colspan="5" { (badge(BadgeKind::Neutral, "not run")) " " (with_code(reason.explanation())) }
                }
                RunOutcome::Asked(run) => (run_cells(run)),
            }
        }
    }
}

fn run_cells(run: &RunDetail) -> Markup {
    html! {
        td { (status_badge(run.status)) @if run.runs > 1 { " " (run.runs) " runs" } }
        td {
            @match run.would {
                Some(would) => {
                    @let kind = if would_act(run) { BadgeKind::Warning } else { BadgeKind::Neutral };
                    (badge(kind, &format!("would {}", would.as_str())))
                }
                None => (verdict_badge(run.action_on_calls())),
            }
        }
        td { (effects(run).join(", ")) }
        td.number { (duration(run.duration_us.into())) }
        td {
            @if let Some(reason) = &run.reason { (reason.display()) }
            @for code in &run.diagnostics { " " code { (code) } }
        }
    }
}

fn effects(run: &RunDetail) -> Vec<String> {
    let mut effects: Vec<String> = run.fields.names().map(str::to_owned).collect();
    let is_observed = run.would.is_some();
    if run.edited {
        effects.push(if is_observed { "would edit" } else { "edited" }.to_owned());
    }
    if run.refused_calls > 0 {
        let calls = counted(run.refused_calls, "tool call");
        effects.push(if is_observed {
            format!("would remove {calls}")
        } else {
            format!("{calls} removed")
        });
    }
    effects
}

fn status_badge(status: HookStatus) -> Markup {
    match status {
        HookStatus::Ok => badge(BadgeKind::Good, "ok"),
        HookStatus::Block => badge(BadgeKind::Bad, "block"),
        HookStatus::Failed => badge(BadgeKind::Bad, "failed"),
    }
}

fn row_class(rule: &TracedRun) -> Option<&'static str> {
    let run = rule.asked()?;
    let decides = run.would.is_none() && run.action_on_calls() > Action::Proceed;
    if run.status == HookStatus::Failed || decides {
        Some("bad")
    } else {
        (run.has_acted() || would_act(run)).then_some("warning")
    }
}

/// Returns whether an observing rule would have decided or edited something.
fn would_act(run: &RunDetail) -> bool {
    let is_effect = |would| would > Action::Proceed || run.has_effect();
    run.would.is_some_and(is_effect)
}

fn changes(caption: &str, diff: &DocumentDiff) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) " (" (bytes(diff.before_bytes)) " → " (bytes(diff.after_bytes)) ")" }
                thead { tr {
                    @for column in ["Where", "Change", "Before", "After"] { (header_cell(column)) }
                } }
                tbody { @for change in &diff.changes { tr {
                    th scope="row" { code { (change.pointer) } }
                    td { (change_word(change.kind)) }
                    td.number { (bytes(change.before_bytes)) }
                    td.number { (bytes(change.after_bytes)) }
                } } }
            }
        }
        @if diff.more_changes > 0 { p { "and " (diff.more_changes) " more" } }
    }
}

const fn change_word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "added",
        ChangeKind::Removed => "removed",
        ChangeKind::Changed => "changed",
    }
}
