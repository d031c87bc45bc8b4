//! Config: what is in use, the revisions before it, their differences, and reload.

use std::collections::BTreeSet;

use axum::{
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};

use crate::{
    auth::AdminPrincipal,
    config::AdminRole,
    console::{
        form::{FormFields, csrf_field, proof_hint},
        format::with_code,
        page::{Page, table},
        pages::changes::{promotion_state, refused_reload},
    },
    error::ApiError,
    state::{App, ReloadCause},
    view::{
        config::{self, ConfigDiff, ConfigView, RevisionView},
        config_change::on_blocking_thread,
    },
};

const ADDRESS: &str = "/console/config";

/// Parameter with the result of a reload.
const RELOADED: &str = "reloaded";
const CHANGED: &str = "changed";
const UNCHANGED: &str = "unchanged";

/// Shows the config, and the difference of two revisions if the query names them.
///
/// # Errors
///
/// Returns an error if the query names no revisions.
pub(in crate::console) async fn show(
    State(app): State<App>,
    principal: AdminPrincipal,
    fields: FormFields,
) -> Result<Page, ApiError> {
    let proofs = proof_hint(&app);
    let compared = [fields.get("from"), fields.get("to")].map(str::to_owned);
    let read = on_blocking_thread(move || {
        let diff = match &compared {
            [from, to] if from.is_empty() && to.is_empty() => None,
            [from, to] => Some(config::diff(&app, from, to)?),
        };
        Ok::<_, ApiError>((config::current(&app), diff))
    });
    let (view, diff) = read.await??;
    let body = html! {
        p { "Version " code { (view.version) } ". The console does not change the config file." }
        (promotion_state(&view))
        (refused_reload(&view))
        @if view.refused.is_none() { (reload_result(fields.get(RELOADED))) }
        (reload_form(&principal, &proofs))
        (needs_restart(&view.needs_restart))
        @if !view.warnings.is_empty() {
            h2 { "Warnings" }
            ul { @for warning in &view.warnings { li { (with_code(warning)) } } }
        }
        (revisions(&view.revisions, diff.as_ref()))
        h2 { "Effective config" }
        p.hint { "Defaults are filled in, and each line has its origin. Secrets are references, and other texts that may be "
            "secret are masked." }
        (sections(&view))
    };
    Ok(Page::new("Config", body).under(ADDRESS))
}

/// Reloads the config for an operator. Problems are shown on the page.
///
/// # Errors
///
/// Returns an error if the user is no operator, or the form is not that of the session.
pub(in crate::console) async fn reload(
    State(app): State<App>,
    principal: AdminPrincipal,
    fields: FormFields,
) -> Result<Response, ApiError> {
    fields.check_operator(&principal)?;
    let cause = ReloadCause::User(principal.name);
    let changed = on_blocking_thread(move || {
        let before = app.snapshot().config.version.clone();
        // The page shows a refused config, and the log has its problems.
        drop(app.reload(cause));
        app.snapshot().config.version != before
    });
    let result = if changed.await? { CHANGED } else { UNCHANGED };
    Ok(Redirect::to(&format!("{ADDRESS}?{RELOADED}={result}")).into_response())
}

/// Returns the result of the reload that led to the page.
fn reload_result(result: &str) -> Markup {
    html! {
        @match result {
            CHANGED => p role="status" { "The config files were read again. The new config is in use." },
            UNCHANGED => p role="status" { "The config files were read again. Nothing has changed." },
            _ => {}
        }
    }
}

fn reload_form(principal: &AdminPrincipal, proofs: &Markup) -> Markup {
    html! {
        @if principal.has(AdminRole::Operator) {
            form.line method="post" action="/console/config/reload" {
                (csrf_field(principal))
                button { "Reload the config files" }
            }
            (proofs)
        } @else {
            p.hint { "Reloading needs the role " code { "operator" } "." }
        }
    }
}

fn needs_restart(settings: &[&str]) -> Markup {
    html! {
        @if !settings.is_empty() {
            div.problem role="status" {
                strong { "Restart to apply" } ": these settings have changed since the start, and take effect at the next one."
                ul { @for setting in settings { li { code { (setting) } } } }
            }
        }
    }
}

fn revisions(revisions: &[RevisionView], diff: Option<&ConfigDiff>) -> Markup {
    let rows = html! {
        @for revision in revisions {
            tr {
                th scope="row" { code { (revision.version) } }
                td.nowrap { (revision.applied) }
                td { (revision.cause) }
                td { @if revision.number == 0 { "in use" } }
            }
        }
    };
    html! {
        h2 { "Revisions since the start" }
        (table("Newest first", &["Version", "In use since", "Loaded by", "State"], &rows))
        @if revisions.len() > 1 {
            form.line method="get" action=(ADDRESS) {
                @let versions = [1, 0].map(|number| revisions.get(number).map_or("", |revision| revision.version.as_str()));
                @let [from, to] = diff.map_or(versions, |diff| [diff.from.as_str(), diff.to.as_str()]);
                (revision_choice("from", "Compare", revisions, from))
                (revision_choice("to", "with", revisions, to))
                button { "Show the difference" }
            }
        }
        @if let Some(diff) = diff { (difference(diff)) }
    }
}

/// Returns the field for a version. One that is not in use since the start is a choice if it is
/// chosen.
fn revision_choice(name: &str, label: &str, revisions: &[RevisionView], chosen: &str) -> Markup {
    let number = revisions.iter().find(|revision| revision.version == chosen);
    let number = number.map(|revision| revision.number);
    html! {
        label { (label)
            select name=(name) {
                @if number.is_none() { option selected { (chosen) } }
                @for revision in revisions {
                    option value=(revision.version) selected[Some(revision.number) == number] {
                        (revision.version) " (" (revision.applied) ")"
                    }
                }
            }
        }
    }
}

fn difference(diff: &ConfigDiff) -> Markup {
    html! {
        h3 #difference { "From " code { (diff.from) } " to " code { (diff.to) } }
        @if diff.diff.is_empty() {
            p { "There is no difference." }
        } @else {
            pre.diff tabindex="0" {
                @for line in diff.diff.split_inclusive('\n') {
                    @match line.chars().next() {
                        Some('+') => ins { (line) },
                        Some('-') => del { (line) },
                        _ => (line),
                    }
                }
            }
        }
    }
}

fn sections(view: &ConfigView) -> Markup {
    // The first line with an origin is the target of links to it.
    let mut targets = BTreeSet::new();
    html! {
        @for section in &view.sections {
            details open[section.origin != "default"] {
                summary { code { (section.name) } " " span.muted { (section.origin) } }
                pre tabindex="0" {
                    @if section.line_origins.is_empty() { (section.yaml) }
                    @for (line, origin) in section.yaml.lines().zip(&section.line_origins) {
                        @let is_target = origin.contains(':') && targets.insert(origin.as_str());
                        span id=[is_target.then_some(origin)] { (line) span.muted { "  # " (origin) } }
                        "\n"
                    }
                }
            }
        }
    }
}
