//! Try it: one event or request under the config in use or an earlier one, as `hookgate explain`
//! shows it.

use std::time::Duration;

use axum::{Extension, extract::State};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::{
    auth::AdminPrincipal,
    config::{AdminRole, Config},
    console::{
        call_row::verdict_badge,
        form::{FormFields, csrf_field},
        format::{bytes, counted, text_block, too_large, with_code},
        page::{BadgeKind, Page, badge, table},
        timeline::timeline,
    },
    error::{ApiError, ErrorReason},
    hook::{EventTrace, HookTrace},
    middleware::MAX_REQUEST_SECONDS,
    observe::trace::TracedEvent,
    state::App,
    test_case::AgentAction,
    trial::{ExtraKeys, TrialReport, differences, display_value},
    view::{
        bounded_text,
        config::{self, RevisionView},
        content::{self, view_content},
        recorded_call::{MAX_ANSWERS, MissingAnswers, RecordedCall},
        trial::{Trial, TrialMode, Trials},
    },
};

const ADDRESS: &str = "/console/try";

/// Maximum size of an input, as of the body of `/try`.
const MAX_INPUT_BYTES: usize = 2 * 1024 * 1024;

/// Maximum size of a form with such an input, which can consist of escapes of three characters.
pub(in crate::console) const MAX_FORM_BYTES: usize = 3 * MAX_INPUT_BYTES + 64 * 1024;

/// Reason in the decision log for a view of content.
const REASON: &str = "trial of the call";

/// Input of a new trial.
const EXAMPLE: &str = r#"{
  "hook_event_name": "BeforeTool",
  "tool_name": "run_shell_command",
  "tool_input": { "command": "rm -rf /" }
}"#;

/// Shows the form, with the request of a call if the query names one whose content is kept.
///
/// # Errors
///
/// Returns an error if the user may not see the content of the call.
pub(in crate::console) async fn show(
    State(app): State<App>,
    principal: AdminPrincipal,
    fields: FormFields,
) -> Result<Page, ApiError> {
    let call = fields.get("call");
    let recorded = match call {
        "" => None,
        id => recorded_input(&app, &principal, id).await?,
    };
    let input = recorded
        .as_ref()
        .and_then(|recorded| recorded.text.as_deref());
    let trial = Trial {
        input: input.unwrap_or(EXAMPLE),
        mode: TrialMode::DryRun,
        version: None,
    };
    let body = html! {
        @match &recorded {
            None if call.is_empty() => {}
            None => p role="status" { "The content of this call is not kept." },
            Some(RecordedInput { text: None, .. }) => (too_large(MAX_INPUT_BYTES)),
            Some(RecordedInput { missing, .. }) => {
                p role="status" { "The call with its masked request and the answers of the model API." }
                @if let Some(missing) = missing { (missing_answers(*missing)) }
            }
        }
        (form(&app, &principal, trial))
    };
    Ok(page(body))
}

/// Tries the event or request of the form.
///
/// # Errors
///
/// Returns an error if the form is not that of the session.
pub(in crate::console) async fn submit(
    State(app): State<App>,
    Extension(trials): Extension<Trials>,
    principal: AdminPrincipal,
    fields: FormFields,
) -> Result<Page, ApiError> {
    fields.check_csrf(&principal)?;
    // Browsers end the lines of a text area with both characters.
    let input = fields.get("input").replace("\r\n", "\n");
    let trial = Trial {
        input: &input,
        mode: match fields.get("mode") {
            "run" => TrialMode::Run,
            _ => TrialMode::DryRun,
        },
        version: Some(fields.get("version")).filter(|version| !version.is_empty()),
    };
    let (mode, version) = (trial.mode, trial.version.map(str::to_owned));
    let shown = move |action: &AgentAction, report: &TrialReport| {
        result(action, report, mode, version.as_deref())
    };
    let tried = if input.len() > MAX_INPUT_BYTES {
        let message = format!("the input has more than {}", bytes(MAX_INPUT_BYTES as u64));
        Err(ApiError::new(ErrorReason::BodyTooLarge, message))
    } else {
        trials.perform(&app, &principal, trial, shown).await
    };
    let body = html! {
        @match &tried {
            Err(error) => p.problem role="alert" { (with_code(error.message())) },
            Ok(shown) => (shown),
        }
        (form(&app, &principal, trial))
    };
    Ok(page(body).with_error(tried.err()))
}

fn page(body: Markup) -> Page {
    Page::new("Try it", body).under(ADDRESS)
}

/// The action of a call as the input of a trial.
struct RecordedInput {
    /// The action in JSON; `None` if it is too large for a trial.
    text: Option<String>,
    missing: Option<MissingAnswers>,
}

/// Returns a call with the answers of the model API. That is logged as a view of content.
async fn recorded_input(
    app: &App,
    principal: &AdminPrincipal,
    id: &str,
) -> Result<Option<RecordedInput>, ApiError> {
    let content = view_content(app, principal, id, REASON).await?;
    let Some((call, content)) = app.resources.trace.find(id).zip(content) else {
        return Ok(None);
    };
    content::render(app, move || {
        let recorded = RecordedCall::new(&call, &content)?;
        let missing = recorded.missing_answers;
        let text = bounded_text(&Value::Object(recorded.into_fields("body")));
        Some(RecordedInput {
            text: text.filter(|text| text.len() <= MAX_INPUT_BYTES),
            missing,
        })
    })
    .await
}

/// Returns a note on answers of a call that its action does not have.
pub(super) fn missing_answers(missing: MissingAnswers) -> Markup {
    html! {
        p.problem {
            @match missing {
                MissingAnswers::All => {
                    "The answers of the model API are not kept, because they are too large or there was no memory "
                    "for them. The mock answers in their place, so a decision on an answer or a tool call is not "
                    "made again."
                }
                MissingAnswers::Unreadable => {
                    "An answer of the model API, such as an error alone, is in no form that a trial can read, so it is "
                    "missing here. The mock answers a first request in its place and has none for a further one, so a "
                    "decision on this answer is not made again."
                }
                MissingAnswers::Further(answers) => {
                    "It has the first " (MAX_ANSWERS) " of " (answers) " answers of the model API. The mock has none "
                    "for a further request."
                }
                MissingAnswers::OtherChoices => {
                    "An answer has more than one choice. The mock writes the first one only, so a decision on another "
                    "one is not made again."
                }
            }
        }
    }
}

fn form(app: &App, principal: &AdminPrincipal, trial: Trial<'_>) -> Markup {
    let Trial { input, mode, .. } = trial;
    let may_run = principal.has(AdminRole::Operator);
    html! {
        form method="post" action=(ADDRESS) {
            (csrf_field(principal))
            p {
                label for="input" { "Hook input with " code { "hook_event_name" } ", a Gemini request, or "
                    code { r#"{"path", "headers", "body", "answer", "then"}"# } }
            }
            textarea #input name="input" spellcheck="false" { (input) }
            (revision_choice(&config::revisions(app), trial.version))
            p {
                label { input type="radio" name="mode" value="plan" checked[mode == TrialMode::DryRun]; " List policies and hooks" }
                " "
                label { input type="radio" name="mode" value="run" checked[mode == TrialMode::Run] disabled[!may_run]; " Run them" }
            }
            @if may_run {
                @let longest = longest_timeout(&app.snapshot().config);
                p.hint {
                    @if !longest.is_zero() {
                        "Each hook may run until its timeout, in the config in use at most " (longest.as_secs_f32()) " s for each event. "
                    }
                    "The trial ends within " (MAX_REQUEST_SECONDS) " s."
                }
            } @else {
                p.hint { "Running hooks needs the role " code { "operator" } "." }
            }
            p { button { "Try it" } }
            p.hint { "It runs on a gateway of its own with the mock model API: no session, no model API "
                "and no metric is reached. Hooks run with their real transport and environment; those of an "
                "earlier config, too, with the scripts that are on the disk now." }
        }
    }
}

/// Returns the longest timeout of the hooks of a config.
fn longest_timeout(config: &Config) -> Duration {
    let groups = config.hooks.values().flatten();
    let hooks = groups.flat_map(|group| &group.hooks);
    hooks.map(|hook| hook.timeout).max().unwrap_or_default()
}

fn revision_choice(revisions: &[RevisionView], chosen: Option<&str>) -> Markup {
    html! {
        p {
            label { "Config "
                select name="version" {
                    @for revision in revisions {
                        option value=(if revision.number == 0 { "" } else { revision.version.as_str() }) selected[chosen == Some(revision.version.as_str())] {
                            @if revision.number == 0 { "in use, " } (revision.version) " since " (revision.applied)
                        }
                    }
                }
            }
        }
    }
}

fn result(
    action: &AgentAction,
    report: &TrialReport,
    mode: TrialMode,
    version: Option<&str>,
) -> Markup {
    html! {
        h2 {
            @match report.verdict {
                Some(verdict) => { "Verdict: " (verdict) },
                None => "Policies and hooks that would run",
            }
        }
        @if let Some(version) = version { p { "Under the config " code { (version) } "." } }
        @if let Some(reason) = &report.reason { p { "Reason: " q { (reason) } } }
        @if report.events.is_empty() { p { "No policy and no hook runs on this." } }
        @for (number, event) in (1..).zip(&report.events) { (event_result(number, event, report)) }
        @for (number, event) in (report.events.len() + 1..).zip(report.unasked_events()) {
            h3 { (event.event.as_str()) }
            (hook_table(number, &skipped_rows(event)))
        }
        @if mode == TrialMode::Run {
            (upstream(action, report))
            h3 { "The agent receives status " (report.status) }
            @if !report.text.is_empty() { p { (report.text) } }
        }
        @if let Some(record) = &report.record {
            details { summary { "Timeline" } (timeline(record)) }
        }
        details { summary { "JSON" } (text_block(bounded_text(&json!(report)).as_deref())) }
        h2 { "Input" }
    }
}

fn event_result(number: usize, event: &EventTrace, report: &TrialReport) -> Markup {
    // The record has the chunks of a response as one event.
    let mut earlier = report.events.iter().take(number - 1);
    let is_first = earlier.all(|other| other.event != event.event);
    let traced = report.first_event(event.event).filter(|_| is_first);
    let rows = html! {
        @for hook in &event.hooks { (hook_row(hook)) }
        @if let Some(traced) = traced { (skipped_rows(traced)) }
    };
    html! {
        h3 { (event.event.as_str()) " "
            @if let Some(verdict) = event.verdict { (verdict_badge(verdict)) }
        }
        @if let Some(reason) = &event.reason { p { "Reason: " q { (reason) } } }
        @for (code, detail) in &event.diagnostics { p { code { (code) } " " (detail) } }
        (hook_table(number, &rows))
    }
}

fn hook_table(number: usize, rows: &Markup) -> Markup {
    let caption = format!("Policies and hooks of event {number}, in order");
    let columns = ["Policy or hook", "Status", "Would", "Time", "Output"];
    table(&caption, &columns, rows)
}

/// Returns rows of the rules that did not run, with the reasons.
fn skipped_rows(event: &TracedEvent) -> Markup {
    html! {
        @for (rule, reason) in event.skipped_rules() {
            tr {
                th scope="row" { (rule.name()) }
                td colspan="4" { (badge(BadgeKind::Neutral, "not run")) " " (with_code(reason.explanation())) }
            }
        }
    }
}

fn hook_row(hook: &HookTrace) -> Markup {
    html! {
        tr {
            th scope="row" { (hook.name) " " span.muted { (hook.kind) } }
            @match &hook.ran {
                None => td colspan="4" { "would run" },
                Some(run) => {
                    td {
                        @let kind = if run.status == "ok" { BadgeKind::Good } else { BadgeKind::Bad };
                        (badge(kind, run.status))
                    }
                    td { @if let Some(would) = run.would { (would.as_str()) } }
                    td.number { (run.ms) " ms" }
                    td {
                        code { (run.output.to_string()) }
                        @if run.edited { @if run.would.is_some() { " would edit" } @else { " edited" } }
                        @for (code, detail) in &run.diagnostics { " " code { (code) } " " (detail) }
                    }
                }
            }
        }
    }
}

fn upstream(action: &AgentAction, report: &TrialReport) -> Markup {
    let AgentAction::Call(call) = action else {
        return html! {};
    };
    let sent = json!(call.body);
    html! {
        h3 { "The model API is called " (counted(report.upstream.len(), "time")) }
        @for request in &report.upstream {
            p { code { (request.path) } }
            @let changes = differences(&sent, &request.body, ExtraKeys::Reported);
            @if changes.is_empty() { p.muted { "unchanged" } }
            ul { @for change in &changes { li {
                code { (change.path) } ": " (display_value(change.first.as_ref())) " → "
                (display_value(change.second.as_ref()))
            } } }
        }
    }
}
