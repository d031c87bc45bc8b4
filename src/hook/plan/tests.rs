//! Selection among hooks with the same name and command.

use serde_json::Map;

use super::*;
use crate::{
    event::{BeforeTool, Context, EventKind},
    hook::{ConditionSubject, HookTable},
};

/// The hooks of a config on calls of tools.
fn table(groups: &str) -> HookTable {
    HookTable::of_hooks(&format!("hooks:\n  BeforeTool:\n{groups}"))
}

/// The plan of a call of `tool`.
fn plan_of(table: &HookTable, only: Option<&Guard>, tool: &str) -> Plan {
    let event = BeforeTool {
        tool_name: tool.to_owned(),
        tool_input: Map::new(),
        toolset_name: None,
        mcp_context: None,
        original_request_name: None,
    };
    let (name, context) = (EventName::BeforeTool, Context::default());
    let subject = ConditionSubject::Event(event.as_event());
    let conditions = ConditionContext::new(name, &context, subject);
    plan(&[], table.groups(name), only, conditions)
}

/// The command, mode and failure mode of each hook that runs, in order.
fn running(groups: &str) -> Vec<String> {
    let plan = plan_of(&table(groups), None, "rm");
    let hooks = plan.hooks.iter().map(|hook| {
        let (_, command, _) = hook.spec.identity();
        let effect = match hook.spec.strictness() {
            None => "observes",
            Some(FailureMode::Open) => "open",
            Some(FailureMode::Closed) => "closed",
        };
        format!("{command} {effect}")
    });
    hooks.collect()
}

const GUARD: &str = "    - { matcher: ^rm$, hooks: [{ command: ./g, on_failure: closed, must_deny: [{ tool_call: { name: rm } }] }] }\n";
const OBSERVER: &str = "    - hooks: [{ command: ./g, mode: observe }, { command: ./other }]\n";

#[test]
fn of_equal_hooks_the_strictest_runs_in_the_place_of_the_first() {
    let open = "    - hooks: [{ command: ./g }]\n";
    for groups in [
        format!("{OBSERVER}{GUARD}"),
        format!("{OBSERVER}{open}{GUARD}"),
        format!("{OBSERVER}{GUARD}{open}{OBSERVER}"),
    ] {
        assert_eq!(running(&groups), ["./g closed", "./other open"], "{groups}");
    }
    assert_eq!(
        running(&format!("{GUARD}{OBSERVER}")),
        ["./g closed", "./other open"]
    );
    assert_eq!(
        running(&format!("{OBSERVER}{open}")),
        ["./g open", "./other open"]
    );
}

#[test]
fn a_stricter_hook_whose_condition_is_false_replaces_none() {
    let never = GUARD.replace("./g,", "./g, when: tool.name == 'ls',");

    let hooks = running(&format!("{OBSERVER}{never}"));

    assert_eq!(hooks, ["./g observes", "./other open"]);
}

#[test]
fn hooks_that_do_not_run_for_an_equal_one_are_recorded_as_duplicates() {
    let table = table(&format!("{OBSERVER}{GUARD}"));

    let plan = plan_of(&table, None, "rm");

    let first = table.hooks().next().unwrap().rule;
    assert_eq!(plan.skipped, [(first, SkipReason::Duplicate)]);
}

#[test]
fn a_guard_that_is_not_proven_refuses_also_behind_an_equal_hook() {
    let same = GUARD.replace(", must_deny: [{ tool_call: { name: rm } }]", "");
    let table = table(&format!("{same}{GUARD}"));
    let guard = Guard::all(&table).pop().unwrap();
    let refuses = || {
        let plan = plan_of(&table, None, "rm");
        plan.hooks.iter().any(|hook| plan.refuses(hook))
    };

    guard.proof_failed();
    let is_refused = refuses();
    guard.proof_succeeded();

    assert_eq!((is_refused, refuses()), (true, false));
}

#[test]
fn a_hook_that_only_observes_proves_nothing_of_an_equal_guard() {
    let table = table(&format!("{OBSERVER}{GUARD}"));
    let guard = Guard::all(&table).pop().unwrap();

    assert!(plan_of(&table, Some(&guard), "ls").is_empty());
    assert_eq!(plan_of(&table, Some(&guard), "rm").hooks.len(), 1);
}

#[test]
fn hooks_of_a_locked_bundle_run_last_and_are_selected_anew() {
    let table = HookTable::of_layers(
        "hooks:\n\
        \x20 BeforeTool:\n\
        \x20   - hooks: [{ command: ./g }, { command: ./w, when: tool.name == 'ls' }]\n\
        \x20   - hooks: [{ command: ./g }, { command: ./t }]\n",
    );
    let names = |hooks: &[Arc<Hook>]| {
        let hooks = hooks.iter();
        hooks.map(|hook| hook.name.clone()).collect::<Vec<_>>()
    };

    let mut plan = plan_of(&table, None, "rm");
    assert_eq!(names(&plan.hooks), ["./g", "./t"]);
    assert_eq!(
        names(plan.locked_hooks.as_deref().unwrap_or_default()),
        ["./g"]
    );
    let skipped = plan.skipped.len();

    let mut again = plan_of(&table, None, "ls");
    again.keep_locked();
    plan.reselect_locked(&again.hooks);
    assert_eq!(names(&again.hooks), ["./g", "./w"]);
    assert_eq!((skipped, plan.skipped.len()), (1, 0));
}

#[test]
fn only_a_sequence_of_hooks_that_edit_messages_reads_them_whole() {
    let plan = Plan {
        sequential: true,
        ..Plan::default()
    };

    assert_eq!(plan.detail(EventName::BeforeModel), Detail::Whole);
    assert_eq!(plan.detail(EventName::BeforeToolSelection), Detail::Texts);
    assert_eq!(plan.detail(EventName::AfterModel), Detail::Texts);
}
