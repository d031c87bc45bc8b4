//! Fleet: replicas that share a Redis, and the last lines of their decision logs.

use axum::extract::State;
use maud::{Markup, html};

use crate::{
    console::{
        format::with_code,
        page::{BadgeKind, Page, badge, table},
    },
    fleet::{DecisionLogView, FleetStatus, ReplicaView},
    state::App,
    view::fleet,
};

/// Shows the replicas with their configs and logs.
pub(in crate::console) async fn show(State(app): State<App>) -> Page {
    let body = match fleet::status(&app).await {
        Ok(status) => fleet_body(&status),
        Err(error) => html! {
            p { "Gateways that share a Redis are listed here: the config of each and since when it is in use, "
                "those that lag behind the newest one, guards that are not proven, and the last line of each decision log." }
            p { (with_code(error.message())) }
        },
    };
    Page::new("Fleet", body).under("/console/fleet")
}

fn fleet_body(status: &FleetStatus) -> Markup {
    let lagging = status.replicas.iter().filter(|view| view.is_lagging);
    let lagging = lagging.count();
    let replicas = html! { @for view in &status.replicas { (replica(view)) } };
    html! {
        p {
            "The newest revision in use is " code { (status.revision) } ". "
            @if lagging > 0 {
                (badge(BadgeKind::Bad, &format!("{lagging} of {} replicas lag behind", status.replicas.len())))
            } @else {
                (badge(BadgeKind::Good, "every replica has it"))
            }
            " " a href="/fleet" { "JSON" }
        }
        (table("Replicas with a heartbeat in the last 10 seconds",
            &["Replica", "Config", "In use since", "Guards", "Version", "Heartbeat"], &replicas))
        h2 { "Decision logs" }
        (decision_logs(&status.decision_logs))
    }
}

fn replica(view: &ReplicaView) -> Markup {
    let status = &view.status;
    html! {
        tr class=[view.is_lagging.then_some("bad")] {
            th scope="row" { code { (status.id) } }
            td {
                code { (status.revision) } " "
                @if view.is_lagging { (badge(BadgeKind::Bad, "lagging")) }
                @if let Some(error) = &status.last_reload_error {
                    div { (badge(BadgeKind::Bad, "last reload refused")) }
                    pre { (error) }
                }
            }
            td.nowrap { (status.since) }
            td {
                (status.guards_proven) " proven"
                @if !status.guards_unproven.is_empty() {
                    div { (badge(BadgeKind::Bad, &format!("not proven: {}", status.guards_unproven.join(", ")))) }
                }
            }
            td { (status.version) }
            td.nowrap { (view.heartbeat_age_ms) " ms ago" }
        }
    }
}

fn decision_logs(logs: &[DecisionLogView]) -> Markup {
    if logs.is_empty() {
        return html! { p { "No replica writes a decision log to a file." } };
    }
    let rows = html! {
        @for log in logs {
            tr class=[log.lost.is_some().then_some("bad")] {
                th scope="row" { code { (log.head.log) } }
                td { (log.head.seq) }
                td.path { code { (log.head.hash) } }
                td.path {
                    @if let Some(lost) = &log.lost {
                        (badge(BadgeKind::Bad, "became shorter or was replaced"))
                        " line " (lost.seq) " was its last one, with hash " code { (lost.hash) }
                    } @else {
                        (badge(BadgeKind::Good, "only grew"))
                    }
                }
            }
        }
    };
    let columns = ["Log", "Last line", "Hash", "Since its first heartbeat"];
    table("Last line of each decision log", &columns, &rows)
}
