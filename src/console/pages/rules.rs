//! Policies and hooks: how often each ran and acted, how long it took, and whether it
//! works.

use axum::extract::State;
use maud::{Markup, html};

use crate::{
    console::{
        format::{calls_with, config_line, counted, duration},
        page::{BadgeKind, Page, badge, table},
    },
    state::{App, Snapshot},
    view::rules::{self, RuleRemark, RuleView},
};

/// Shows the policies and hooks of the config in use, and of the one that is rolled out.
pub(in crate::console) async fn list(State(app): State<App>) -> Page {
    let (rules, snapshot) = (rules::rules(&app), app.snapshot());
    let rows = html! { @for rule in &rules { (row(rule, &snapshot)) } };
    let body = html! {
        p.muted { "Counts of the last 24 hours, of all since the start of the process. " a href="/rules" { "JSON" } }
        @if rules.is_empty() {
            p { "The config has no policy and no hook." }
        } @else {
            (table("In the order in which they run",
                &["Policy or hook", "State", "Events", "Acted", "Runs", "Would have", "Failed", "p50", "p99",
                    "Last acted", "Config"], &rows))
        }
    };
    Page::new("Policies and hooks", body).under("/console/rules")
}

fn row(view: &RuleView, snapshot: &Snapshot) -> Markup {
    let summary = &view.summary;
    let (rule, all, day) = (&summary.rule, &summary.counts, &summary.last_day);
    let events: Vec<&str> = rule.events.iter().map(|event| event.as_str()).collect();
    let time = |time: Option<u64>| time.map(duration).unwrap_or_default();
    html! {
        tr class=[row_class(view)] {
            th scope="row" {
                a data-row href=(calls_with("rule", &rule.name)) { (rule.name) }
                " " span.muted { (rule.policy.as_deref().unwrap_or(&rule.kind)) }
            }
            td {
                @for state in &view.remarks { div { (remark_badge(*state)) } }
                @if let Some(proof) = &view.proof {
                    div.muted { "since " (proof.since) ", " (counted(proof.cases, "case")) }
                    @if let Some(error) = &proof.error { div { (error) } }
                }
            }
            td { (events.join(", ")) }
            (count(day.acted, all.acted))
            (count(day.asked, all.asked))
            (count(day.would_have, all.would_have))
            (count(day.failed, all.failed))
            td.number { (time(summary.p50_us)) }
            td.number { (time(summary.p99_us)) }
            td.nowrap { (summary.last_acted.as_deref().unwrap_or("never")) }
            td.nowrap {
                (config_line(snapshot, &rule.name, &rule.at))
                @if view.candidate { br; (badge(BadgeKind::Neutral, "rollout")) }
                @if let Some(when) = &rule.when { br; "when " code { (when) } }
            }
        }
    }
}

/// Returns a count of the last 24 hours, and that since the start if it is another.
fn count(last_day: u64, since_start: u64) -> Markup {
    html! {
        td.number.nowrap {
            (last_day)
            @if since_start != last_day { span.muted { " of " (since_start) } }
        }
    }
}

fn remark_badge(state: RuleRemark) -> Markup {
    let kind = match state {
        RuleRemark::Proven => BadgeKind::Good,
        RuleRemark::NeverActed | RuleRemark::Observes | RuleRemark::Disabled => BadgeKind::Neutral,
        RuleRemark::FailsOpen | RuleRemark::WithoutProof | RuleRemark::NeverAsked => {
            BadgeKind::Warning
        }
        RuleRemark::Failing | RuleRemark::NotProven => BadgeKind::Bad,
    };
    badge(kind, state.as_str())
}

fn row_class(view: &RuleView) -> Option<&'static str> {
    let is_bad = |state: &RuleRemark| matches!(state, RuleRemark::Failing | RuleRemark::NotProven);
    view.remarks.iter().any(is_bad).then_some("bad")
}
