//! Changes of the config: the shadow and the rollout of another one, and kept revisions to promote
//! or to return to.

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
        format::{parameter, with_code},
        page::{Page, table},
        shadow_state::shadow_state,
    },
    error::ApiError,
    state::{App, ShadowAction},
    view::{
        config::{self, ConfigView, RolloutView, StoredRevisionView},
        config_change::{self, on_blocking_thread},
    },
};

const ADDRESS: &str = "/console/changes";

/// Parameter with the version of a promotion that led to the page.
const PROMOTED: &str = "promoted";

/// Field with the version that was in use when the page was built. Under another one, the action is
/// refused.
const IN_USE: &str = "in_use";

/// Shows the shadow, the rollout and the kept revisions.
///
/// # Errors
///
/// Returns an error if the shadow does not reply, or the files cannot be read for an internal
/// reason.
pub(in crate::console) async fn show(
    State(app): State<App>,
    principal: AdminPrincipal,
    fields: FormFields,
) -> Result<Page, ApiError> {
    let shadow = app.resources.shadow.request(ShadowAction::Status).await?;
    let proofs = proof_hint(&app);
    let read = on_blocking_thread(move || {
        let kept = app.active_revision().map(|_| config::history(&app));
        (config::current(&app), kept)
    });
    let (view, kept) = read.await?;
    let body = html! {
        p { "The version " code { (view.version) } " is in use. " a href="/console/config" { "Config" }
            " shows it, and reloads the config files." }
        (promotion_state(&view))
        (refused_reload(&view))
        @if fields.get(PROMOTED) == view.version { p role="status" { "The revision is in use." } }
        h2 { "Shadow" }
        (shadow_state(&shadow, &principal))
        h2 { "Rollout" }
        @match &view.rollout {
            Some(rollout) => (rollout_state(rollout, &view.version, &principal)),
            None => p { "No config is rolled out to a share of the sessions." },
        }
        h2 { "Kept revisions" }
        @match &kept {
            Some(Ok(kept)) => (kept_revisions(kept, &view.version, (&principal, &proofs))),
            Some(Err(error)) => div.problem role="status" { (error) },
            None => p { "None are kept. " code { "revisions" } " in the config keeps each config that is taken into use." },
        }
    };
    Ok(Page::new("Changes", body).under(ADDRESS))
}

/// Takes a kept revision into use for an operator.
///
/// # Errors
///
/// Returns an error if the user is no operator, the form is not that of the session, the config in
/// use has changed since the page was built, or the revision cannot be used.
pub(in crate::console) async fn promote(
    State(app): State<App>,
    principal: AdminPrincipal,
    fields: FormFields,
) -> Result<Response, ApiError> {
    fields.check_operator(&principal)?;
    let revision = fields.get("revision").to_owned();
    let in_use = fields.find(IN_USE).map(str::to_owned);
    let promotion = config_change::promote(app, revision, principal.name, None, in_use);
    Ok(back(&promotion.await?.to))
}

/// Takes the revision into use that was in use before, for an operator.
///
/// # Errors
///
/// Returns an error if the user is no operator, the form is not that of the session, the config in
/// use has changed since the page was built, or the revision cannot be used.
pub(in crate::console) async fn roll_back(
    State(app): State<App>,
    principal: AdminPrincipal,
    fields: FormFields,
) -> Result<Response, ApiError> {
    fields.check_operator(&principal)?;
    let expected = (
        fields.get(IN_USE).to_owned(),
        fields.get("revision").to_owned(),
    );
    let rollback = config_change::roll_back(app, principal.name, Some(expected));
    Ok(back(&rollback.await?.to))
}

/// Returns a note if a promoted revision is in use instead of the config file.
pub(in crate::console) fn promotion_state(view: &ConfigView) -> Markup {
    html! {
        @if let Some(file) = &view.file_version {
            p role="status" { "This revision was promoted. It stays in use until the config file changes, which has the version "
                code { (file) } "." }
        }
    }
}

/// Returns the problems of the last reload, if it was refused.
pub(in crate::console) fn refused_reload(view: &ConfigView) -> Markup {
    html! {
        @if let Some(refused) = &view.refused {
            div.problem role="status" {
                strong { "The last reload was refused" } " at " (refused.time) " (" (refused.cause)
                "). The version " code { (view.version) } " is still in use."
                ul { @for problem in &refused.problems { li { (with_code(problem)) } } }
            }
        }
    }
}

/// Ends the shadow for an operator.
///
/// # Errors
///
/// Returns an error if the user is no operator, the form is not that of the session, or the
/// shadow does not reply.
pub(in crate::console) async fn end_shadow(
    State(app): State<App>,
    principal: AdminPrincipal,
    fields: FormFields,
) -> Result<Response, ApiError> {
    fields.check_operator(&principal)?;
    let action = ShadowAction::End { by: principal.name };
    app.resources.shadow.request(action).await?;
    Ok(Redirect::to(ADDRESS).into_response())
}

fn back(version: &str) -> Response {
    let query = parameter(PROMOTED, version);
    Redirect::to(&format!("{ADDRESS}?{query}")).into_response()
}

/// Shows a rollout, and how a user ends it.
fn rollout_state(rollout: &RolloutView, in_use: &str, principal: &AdminPrincipal) -> Markup {
    let rows = html! {
        @for arm in &rollout.arms {
            tr {
                th scope="row" { code { (arm.version) } }
                td.number { (arm.calls) }
                td.number { (arm.denied) }
                td { (arm.hook_failures) }
            }
        }
    };
    html! {
        @if rollout.is_aborted {
            p.problem role="status" { "The rollout of " code { (rollout.to) }
                " was aborted. It begins again when the config file changes. Another version in the file of its config is a new rollout." }
        } @else {
            p role="status" { "The config " code { (rollout.to) } " is rolled out to "
                (rollout.percent) " % of the sessions."
                @if rollout.awaits_comparison {
                    " The next step waits until each config has 200 calls since the last one."
                } }
        }
        (table("Calls since the last step", &["Version", "Calls", "Denied", "With failed hooks"], &rows))
        @if principal.has(AdminRole::Operator) {
            (promotion_form(in_use, in_use, principal, &html! { button { "End the rollout" } }))
        }
    }
}

/// Returns the form by which an operator takes a revision into use.
fn promotion_form(
    revision: &str,
    in_use: &str,
    principal: &AdminPrincipal,
    button: &Markup,
) -> Markup {
    html! {
        form.line method="post" action="/console/changes/promote" {
            (csrf_field(principal))
            (in_use_field(in_use))
            input type="hidden" name="revision" value=(revision);
            (button)
        }
    }
}

fn in_use_field(version: &str) -> Markup {
    html! { input type="hidden" name=(IN_USE) value=(version); }
}

/// Lists the kept revisions, for a user and with a note on the proofs of a promoted one.
fn kept_revisions(
    kept: &[StoredRevisionView],
    in_use: &str,
    (principal, proofs): (&AdminPrincipal, &Markup),
) -> Markup {
    let is_operator = principal.has(AdminRole::Operator);
    let previous = kept.iter().find(|revision| revision.state == "previous");
    let previous = previous.filter(|_| is_operator);
    let rows = html! {
        @for revision in kept {
            tr {
                th scope="row" { code { (revision.version) } }
                td.nowrap { (revision.applied) }
                td { (revision.cause) }
                td {
                    (revision.state)
                    @if revision.is_file { " (config file)" }
                    @if let Some(damage) = &revision.damage { " damaged: " (damage) }
                }
                td {
                    @if revision.version != in_use && revision.damage.is_none() {
                        a href={ "/console/config?from=" (in_use) "&to=" (revision.version) "#difference" }
                            aria-label={ "Compare " (revision.version) } { "Compare" }
                        @if is_operator {
                            (promotion_form(&revision.version, in_use, principal, &html! {
                                button aria-label={ "Promote " (revision.version) } { "Promote" }
                            }))
                        }
                    }
                }
            }
        }
    };
    html! {
        (table("Last taken into use first", &["Version", "Last taken into use", "By", "State", "Action"], &rows))
        @if let Some(previous) = previous {
            form.line method="post" action="/console/changes/rollback" {
                (csrf_field(principal))
                (in_use_field(in_use))
                input type="hidden" name="revision" value=(previous.version);
                button { "Roll back to " (previous.version) }
            }
        }
        @if is_operator { (proofs) } @else {
            p.hint { "Promoting and rolling back need the role " code { "operator" } "." }
        }
    }
}
