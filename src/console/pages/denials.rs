//! Denials by rule, reason and tool, and tests made of them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use axum::extract::{Path, State};
use maud::{Markup, html};

use crate::{
    auth::AdminPrincipal,
    config::AdminRole,
    console::{
        call_row::{LIST as CALLS, verdict_badge},
        format::{
            calls_with, config_line, item_address, parameter, text_block, with_code, with_parameter,
        },
        page::Page,
        pages::{
            call::{NO_CONTENT_OF_EVENTS, unknown_call},
            try_it::missing_answers,
        },
    },
    error::ApiError,
    event::Action,
    observe::trace::{CallRecord, DenialGroup, RecordKind},
    state::{App, Snapshot},
    timestamp::rfc3339_ms,
    view::{
        content::{self, view_content, visible_denials},
        test_case::{self, CaseDifference, NamedCase, RuleSource},
    },
};

const ADDRESS: &str = "/console/denials";

/// Reason in the decision log for a view of content.
const REASON: &str = "test of the call";

/// Shows all groups of denials.
pub(in crate::console) async fn list(State(app): State<App>, principal: AdminPrincipal) -> Page {
    let snapshot = app.snapshot();
    let list = visible_denials(&app, &principal);
    let mut groups = Vec::new();
    // The first group of a rule is the target of links to it.
    let mut named = BTreeSet::new();
    for group in &list.groups {
        groups.push((group, Test::of(&app, group).await));
    }
    let body = html! {
        p.muted { "Since the start of the process, the most frequent of the last 24 hours first. " a href="/denials" { "JSON" } }
        @if list.groups.is_empty() { p { "No policy or hook has denied anything." } }
        @if !list.groups.is_empty() { (by_caller(&list.groups)) }
        @for (group, test) in &groups {
            @let id = named.insert(&group.rule).then(|| parameter("rule", &group.rule));
            (denial_group(group, id, &snapshot))
            (test_of_group(test, &principal))
        }
        @if list.evicted > 0 {
            p.muted { (list.evicted) " groups are no longer kept, because there are too many." }
        }
    };
    Page::new("Denials", body).under(ADDRESS)
}

/// Shows a test case made of one call. Its content is viewed, which is logged.
///
/// # Errors
///
/// Returns an error if the call is not kept, or the user may not see its content.
pub(in crate::console) async fn test_of_call(
    State(app): State<App>,
    Path(id): Path<String>,
    principal: AdminPrincipal,
) -> Result<Page, ApiError> {
    let Some(call) = app.resources.trace.find(&id) else {
        return Err(unknown_call(&app, &id));
    };
    let content = view_content(&app, &principal, &id, REASON).await?;
    let case = match content {
        None => without_test(&call, false),
        Some(content) => {
            let reader = app.clone();
            let make = move || match test_case::from_content(&reader, &call, &content) {
                Some(case) => html! {
                    @for difference in &case.differences { (difference_from_call(*difference)) }
                    (test_file(case.yaml.as_deref(), &case.source))
                },
                None => without_test(&call, true),
            };
            content::render(&app, make).await?
        }
    };
    let body = html! {
        p { a data-up href=(item_address(CALLS, &id, "")) { "The call" } }
        (case)
    };
    Ok(Page::new(format!("Test of call {id}"), body).under(ADDRESS))
}

/// Returns why no test is made of a call.
fn without_test(call: &CallRecord, is_kept: bool) -> Markup {
    html! {
        @if call.kind == RecordKind::Event {
            p {
                (NO_CONTENT_OF_EVENTS) " The page " a href=(ADDRESS) { "Denials" }
                " makes a test with the name of the denied tool."
            }
        } @else if let Some(error) = call.error.filter(|_| is_kept) {
            p {
                "The call ended with the error " code { (error) } ". No policy or hook denied it, so there is no "
                "verdict to test."
            }
        } @else {
            p { "The content of this call is not kept, so there is nothing to make a test of. "
                code { "trace.content" } " of the config keeps the content of denied, edited or sampled calls." }
        }
    }
}

/// Returns the callers with their denials by all rules, the most frequent first.
fn by_caller(groups: &[DenialGroup]) -> Markup {
    let mut callers: BTreeMap<&str, (u64, Option<Action>)> = BTreeMap::new();
    for group in groups {
        for (caller, count) in &group.callers {
            let first = (0, Some(group.action));
            let (total, action) = callers.entry(&**caller).or_insert(first);
            *total += count;
            *action = action.filter(|action| *action == group.action);
        }
    }
    let mut callers: Vec<_> = callers.into_iter().collect();
    callers.sort_by_key(|(_, (count, _))| Reverse(*count));
    let others: u64 = groups.iter().map(|group| group.other_callers).sum();
    html! {
        h2 { "By caller" }
        ul aria-label="Denials by caller" {
            @for (caller, (count, action)) in callers {
                @let verdict = action.map(|action| parameter("verdict", action.as_str()));
                li { (caller_count(caller, count, verdict.as_deref())) }
            }
            @if others > 0 { li { "others × " (others) } }
        }
    }
}

/// Returns a caller with a link to its calls, under a further condition if there is one, and the
/// number of its denials.
fn caller_count(caller: &str, count: u64, condition: Option<&str>) -> Markup {
    let mut calls = calls_with("caller", caller);
    if let Some(condition) = condition {
        calls = with_parameter(&calls, condition);
    }
    let name = if caller.is_empty() {
        "without authentication"
    } else {
        caller
    };
    html! { a href=(calls) { (name) } " × " (count) }
}

fn denial_group(group: &DenialGroup, id: Option<String>, snapshot: &Snapshot) -> Markup {
    html! {
        h2 id=[id] { (group.rule)
            @if let Some(tool) = &group.tool { " on " code { (tool) } }
            " " (verdict_badge(group.action))
        }
        dl {
            dt { "Denials" } dd {
                strong { (group.last_day) } " in the last 24 hours, " (group.count)
                " since the start, on " (group.event.as_str())
            }
            @if let Some(at) = &group.at { dt { "Config" } dd { (config_line(snapshot, &group.rule, at)) } }
            @if let Some(reason) = &group.reason { dt { "Reason" } dd { q { (reason.display()) } } }
            dt { "Callers" } dd { (callers(group)) }
            dt { "First, last" } dd { (group.first) ", " (rfc3339_ms(group.last_ms)) }
            dt { "Last calls" } dd { (samples(group)) }
        }
        p { a href=(calls_with("rule", &group.rule)) { "Calls with this rule" } }
    }
}

fn callers(group: &DenialGroup) -> Markup {
    let mut callers: Vec<_> = group.callers.iter().collect();
    callers.sort_by_key(|(_, count)| Reverse(**count));
    let rule = parameter("rule", &group.rule);
    html! {
        @for (index, (caller, count)) in callers.iter().enumerate() {
            @if index > 0 { ", " }
            (caller_count(caller, **count, Some(&rule)))
        }
        @if group.other_callers > 0 { ", others × " (group.other_callers) }
    }
}

fn samples(group: &DenialGroup) -> Markup {
    html! {
        @for (index, id) in group.samples.iter().enumerate() {
            @if index > 0 { " " }
            a href=(item_address(CALLS, id, "")) { (short(id)) }
        }
    }
}

/// Source of a test for a group of denials.
enum Test<'a> {
    /// A call whose content is kept.
    Call(&'a str),
    Names(NamedCase),
    Nothing,
}

impl<'a> Test<'a> {
    async fn of(app: &App, group: &'a DenialGroup) -> Self {
        let mut samples = group.samples.iter();
        if let Some(id) = samples.find(|id| app.resources.trace.contents.find(id).is_some()) {
            return Self::Call(id);
        }
        let named = test_case::from_names(app, group).await;
        named.map_or(Self::Nothing, Self::Names)
    }
}

fn test_of_group(test: &Test<'_>, principal: &AdminPrincipal) -> Markup {
    html! {
        @match test {
            Test::Call(_) if !principal.has(AdminRole::Investigator) => p.hint {
                "Making a test of this needs the role " code { "investigator" } ", because its content is kept."
            },
            Test::Call(id) => p { a href={ (item_address(CALLS, id, "")) "/test" } { "Make a test of this" } },
            Test::Names(case) => details {
                summary { "Make a test of this" }
                @if case.has_other_config { (problem(OTHER_CONFIG)) } @else { (without_arguments(case)) }
                (test_file(case.yaml.as_deref(), &case.source))
            },
            Test::Nothing => p.hint {
                "A test can be made of this in a model call if " code { "trace.content.denied_or_edited" } " keeps its content."
            },
        }
    }
}

/// Difference of a config file from the config of a call.
const OTHER_CONFIG: &str = "The config file may have other policies and hooks than this call had: a stored revision \
    was in use, a rollout has the policy or hook in both of its configs, or it was changed or removed since. If so, \
    let `config` name a file with that policy or hook.";

/// Returns why a test of a call's content may end otherwise than the call.
fn difference_from_call(difference: CaseDifference) -> Markup {
    let text = match difference {
        CaseDifference::MissingAnswers(missing) => return missing_answers(missing),
        CaseDifference::OtherConfig => OTHER_CONFIG,
        CaseDifference::MaskedContent => {
            "Secrets and personal data are masked in this file. If the policy or hook decided by them, put \
             examples in the place of the labels; else the test does not pass."
        }
        CaseDifference::RepeatedDecision => {
            "The decision is that of an earlier call in the session. The test runs without it: its policies and \
             hooks decide again, which may give another verdict."
        }
        CaseDifference::EarlierCalls => {
            "The session had earlier calls or reported events, or the request has `previous_response_id`. \
             The test begins a new session without earlier responses: policies and hooks decide again on its \
             earlier prompts and tool results, and on events that the agent had reported itself."
        }
        CaseDifference::NoAnswer => {
            "The model API answered with an error, which is not kept. The mock answers in its place, so hooks \
             decide on an answer that this call did not have."
        }
        CaseDifference::HookFailed => {
            "A hook failed in this call, or its last proof had failed. It runs again in the test and may decide \
             otherwise."
        }
        CaseDifference::CallerKey => {
            "A condition compares `caller.key`, and the caller has no name. The test sends no key, so the \
             condition may differ."
        }
        CaseDifference::RequestLimits => {
            "A policy `request_limits` decided. The test runs without the earlier calls of this session, so it \
             does not pass if they had used up its `max_calls` or `max_tokens`. The request is kept without white \
             space and most of the envelope of Code Assist, so it may be within `max_input`."
        }
        CaseDifference::UnreadableValue => {
            "`hookgate test` cannot read this file: it has a number that is too large, more than 64 levels, or \
             more than 250,000 values. Replace or remove them."
        }
    };
    problem(text)
}

/// Returns a paragraph on a problem; words in backticks are code.
fn problem(text: &str) -> Markup {
    html! { p.problem { (with_code(text)) } }
}

/// Returns whether a test of names alone passes.
fn without_arguments(case: &NamedCase) -> Markup {
    html! {
        @match case.passes {
            Some(true) => p { "The policy decides by the tool's name, so the test passes as it is." },
            Some(false) => p.problem {
                "This test does not pass as it is: the policy decides by the arguments of the tool, which are not "
                "kept. Add them to " code { "tool_input" } ", or let " code { "trace.content.denied_or_edited" }
                " keep the content of the next denial in a model call."
            },
            None => p.problem {
                "This test passes only if the hook decides by the tool's name: its arguments are not kept. Else add "
                "them to " code { "tool_input" } ", or let " code { "trace.content.denied_or_edited" }
                " keep the content of the next denial in a model call."
            },
        }
    }
}

fn test_file(yaml: Option<&str>, source: &RuleSource) -> Markup {
    html! {
        @match source {
            RuleSource::File(_) => {}
            RuleSource::Bundles => p {
                "The policies and hooks come from bundles. Save this in the folder " code { "tests" }
                " of the bundle, where " code { "hookgate bundle build" } " runs it, too."
            },
            RuleSource::CommandLine => p {
                "The gateway has no config file. Add its settings files to this file as "
                code { "hook_files" } "."
            },
        }
        p { "Save this as " code { "denial.yaml" } " and run " code { "hookgate test denial.yaml" } "." }
        (text_block(yaml))
    }
}

fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}
