//! Overview: the state of the gateway at a glance. A problem that has a page links to it.

use axum::extract::State;
use maud::{Markup, html};

use crate::{
    console::{
        format::{age, bytes, counted, parameter},
        page::{BadgeKind, Page, badge},
    },
    observe::{ExportFailure, trace::DenialGroup},
    state::App,
    view::{
        overview::{self, OtlpStatus, Overview, RecordingStatus, SinkStatus},
        rules::{self, RuleRemark, RuleView},
    },
};

/// Rules with the most denials that are listed.
const LISTED_RULES: usize = 8;

/// Shows the state of the gateway.
pub(in crate::console) async fn show(State(app): State<App>) -> Page {
    let overview = overview::overview(&app);
    let (trace, rules) = (&app.resources.trace, rules::rules(&app));
    let body = html! {
        ul.cards {
            (traffic(&overview))
            (denials(&trace.denials().groups))
            (rule_card("Failing hooks", "No hook failed in 24 h.", RuleRemark::Failing, &rules))
            (proofs(&rules))
            (rule_card("Guards that fail open", "Every guard fails closed.", RuleRemark::FailsOpen, &rules))
            (config(&overview))
            (upstreams(&overview))
            (session_store(&overview))
            (fleet(&overview))
            (decision_log(&overview))
            (recording(overview.recording.as_ref()))
            (otlp(&overview.otlp))
        }
    };
    Page::new("Overview", body).under("/console/")
}

fn card(title: &str, content: &Markup) -> Markup {
    html! { li { h2 { (title) } (content) } }
}

fn traffic(overview: &Overview) -> Markup {
    let trace = overview.trace;
    let content = html! {
        div.figure { (format!("{:.1}", overview.calls_per_second)) " calls/s" }
        p {
            (overview.in_flight) " in flight, " (counted(overview.connections, "connection")) ", "
            a.nowrap href="/console/sessions" { (counted(overview.sessions, "session")) }
            @if overview.session_store.kind == "redis" { " of this process" }
        }
        p.muted {
            a href="/console/calls" { (counted(trace.records, "call")) } " in " (bytes(trace.bytes as u64))
            " of " (bytes(trace.max_bytes as u64))
        }
        @if overview.shutting_down { p { (badge(BadgeKind::Bad, "shutting down")) } }
    };
    card("Traffic", &content)
}

fn denials(groups: &[DenialGroup]) -> Markup {
    let mut rules: Vec<(&str, u64)> = Vec::new();
    for group in groups.iter().filter(|group| group.last_day > 0) {
        match rules.iter_mut().find(|(rule, _)| **rule == *group.rule) {
            Some((_, count)) => *count += group.last_day,
            None => rules.push((&group.rule, group.last_day)),
        }
    }
    rules.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let content = html! {
        @if rules.is_empty() { p { (badge(BadgeKind::Good, "none")) } } @else {
            ul {
                @for (rule, count) in rules.iter().take(LISTED_RULES) {
                    li { a href={ "/console/denials#" (parameter("rule", rule)) } { (rule) } " × " (count) }
                }
            }
            p { a href="/console/denials" { "All denials" } }
        }
    };
    card("Denials by rule, 24 h", &content)
}

/// Shows the guards whose proof failed, and those that fail closed and have none.
fn proofs(rules: &[RuleView]) -> Markup {
    let content = html! {
        (remarked("No proof failed.", RuleRemark::NotProven, rules))
        (remarked("Every guard that fails closed has a proof.", RuleRemark::WithoutProof, rules))
    };
    card("Guards that are not proven", &content)
}

fn rule_card(title: &str, none: &str, state: RuleRemark, rules: &[RuleView]) -> Markup {
    card(title, &remarked(none, state, rules))
}

/// Returns the rules with a remark, apart from those that only the config of a rollout has, or
/// `none`.
fn remarked(none: &str, state: RuleRemark, rules: &[RuleView]) -> Markup {
    let found = rules.iter().filter(|rule| rule.remarks.contains(&state));
    let (of_rollout, in_use): (Vec<&RuleView>, Vec<_>) = found.partition(|rule| rule.candidate);
    let kind = match state {
        RuleRemark::FailsOpen | RuleRemark::WithoutProof => BadgeKind::Warning,
        _ => BadgeKind::Bad,
    };
    html! {
        @if in_use.is_empty() && of_rollout.is_empty() { p { (badge(BadgeKind::Good, none)) } }
        @for (found, place) in [(in_use, ""), (of_rollout, " in the rollout")] {
            @if !found.is_empty() {
                @let text = format!("{} × {}{place}", state.as_str(), found.len());
                p { a href="/console/rules" { (badge(kind, &text)) } }
                ul { @for view in &found { li { (view.summary.rule.name)
                    @if state == RuleRemark::Failing { " × " (view.summary.last_day.failed) }
                } } }
            }
        }
    }
}

fn config(overview: &Overview) -> Markup {
    let config = &overview.config;
    let content = html! {
        p { a href="/console/config" { code { (config.version) } } }
        p.muted { "in use for " (age(config.age_s)) ", since " (config.applied) }
        @if config.last_reload_refused {
            p { a href="/console/config" { (badge(BadgeKind::Bad, "last reload refused")) } }
        }
        @if config.warnings > 0 {
            p { a href="/console/config" { (badge(BadgeKind::Warning, &counted(config.warnings, "warning"))) } }
        }
    };
    card("Config", &content)
}

fn upstreams(overview: &Overview) -> Markup {
    let content = html! {
        ul { @for upstream in &overview.upstreams { li {
            (upstream.name) " "
            @if upstream.circuit_open {
                a href="/console/calls?error=any" { (badge(BadgeKind::Bad, "circuit breaker open")) }
            } @else { (badge(BadgeKind::Good, "circuit breaker closed")) }
        } } }
    };
    card("Model APIs", &content)
}

fn session_store(overview: &Overview) -> Markup {
    let store = &overview.session_store;
    let content = html! {
        p { (store.kind) }
        @if store.failures > 0 {
            p { a href="/console/sessions" {
                (badge(BadgeKind::Bad, &format!("{} failed requests", store.failures)))
            } }
        } @else { p { (badge(BadgeKind::Good, "no failures")) } }
    };
    card("Session store", &content)
}

/// Shows the number of replicas, if they share a Redis.
fn fleet(overview: &Overview) -> Markup {
    let Some(replicas) = overview.replicas else {
        return Markup::default();
    };
    let content = if replicas == 0 {
        html! { p { a href="/console/fleet" { (badge(BadgeKind::Warning, "no heartbeat yet")) } } }
    } else {
        html! { p { a href="/console/fleet" { (counted(replicas, "replica")) } " at the last heartbeat" } }
    };
    card("Fleet", &content)
}

fn decision_log(overview: &Overview) -> Markup {
    let content = match &overview.decision_log {
        None => html! { p { (badge(BadgeKind::Neutral, "not written")) } },
        Some(log) => html! {
            p { (log.lines) " records" }
            @if log.failing { p { a href="/console/config" { (badge(BadgeKind::Bad, "cannot be written")) } } }
            @if log.dropped_lines > 0 {
                p { a href="/console/config" {
                    (badge(BadgeKind::Bad, &format!("{} records missing", log.dropped_lines)))
                } }
            }
            @if !log.failing && log.dropped_lines == 0 { p { (badge(BadgeKind::Good, "complete")) } }
            @if let Some(sink) = &log.sink { (sink_status(sink)) }
        },
    };
    card("Decision log", &content)
}

fn sink_status(sink: &SinkStatus) -> Markup {
    html! {
        p { "HTTP sink: " (sink.sent_lines) " sent, " (sink.lag_lines) " not sent yet" }
        @if sink.refused_lines > 0 {
            p { (badge(BadgeKind::Bad, &format!("{} records refused by the sink", sink.refused_lines))) }
        }
        @if sink.lost_lines > 0 {
            p { (badge(BadgeKind::Bad, &format!("{} records lost before they were sent", sink.lost_lines))) }
        }
        (export_failure(sink.last_failure.as_ref()))
    }
}

fn export_failure(failure: Option<&ExportFailure>) -> Markup {
    html! {
        @if let Some(failure) = failure {
            @if failure.is_current { p { (badge(BadgeKind::Bad, "sending fails")) } }
            p.muted { "Last failure at " (failure.time) ": " (failure.error) }
        } @else { p { (badge(BadgeKind::Good, "no failures")) } }
    }
}

/// Shows what is recorded, if anything is.
fn recording(status: Option<&RecordingStatus>) -> Markup {
    let Some(status) = status else {
        return Markup::default();
    };
    let content = html! {
        p { (counted(status.exchanges, "exchange")) }
        @if status.dropped > 0 {
            p { (badge(BadgeKind::Bad, &format!("{} missing", counted(status.dropped, "exchange")))) }
        }
        @if status.failures > 0 {
            p { (badge(BadgeKind::Warning, &counted(status.failures, "failure"))) " of the folder; see the log" }
        }
        @if status.dropped == 0 && status.failures == 0 { p { (badge(BadgeKind::Good, "complete")) } }
    };
    card("Recordings", &content)
}

/// Shows what the collector is sent, if there is one.
fn otlp(statuses: &[OtlpStatus]) -> Markup {
    if statuses.is_empty() {
        return Markup::default();
    }
    let content = html! {
        @for status in statuses {
            p { (status.signal) ": " (status.sent) " sent" }
            @if status.dropped > 0 {
                p { (badge(BadgeKind::Bad, &format!("{} {} dropped", status.dropped, status.signal))) }
            }
            (export_failure(status.last_failure.as_ref()))
        }
    };
    card("OTLP collector", &content)
}
