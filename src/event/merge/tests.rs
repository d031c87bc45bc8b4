use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::event::{BeforeTool, EventKind, EventName, Verdict};

fn any_output() -> impl Strategy<Value = HookOutput> {
    let decision = prop::sample::select(vec!["allow", "ask", "deny", "nonsense"]);
    (decision, prop::option::of(any::<bool>())).prop_map(|(decision, r#continue)| {
        let fields = json!({"decision": decision, "continue": r#continue, "reason": "r"});
        HookOutput::read(fields.as_object().unwrap().clone(), EventName::BeforeTool).0
    })
}

fn action(outputs: &[HookOutput]) -> crate::event::Action {
    BeforeTool::judge(&fold(outputs, BeforeTool::HONOURS).0).action()
}

proptest! {
    #[test]
    fn the_order_of_hooks_never_changes_the_action(mut outputs in prop::collection::vec(any_output(), 0..6)) {
        let forward = action(&outputs);
        outputs.reverse();
        prop_assert_eq!(forward, action(&outputs));
    }

    #[test]
    fn one_more_hook_never_loosens(outputs in prop::collection::vec(any_output(), 0..6), extra in any_output()) {
        let before = action(&outputs);
        let mut more = outputs;
        more.push(extra);
        prop_assert!(before <= action(&more));
    }
}

#[test]
fn a_malformed_answer_is_left_out_and_said() {
    let fields = json!({"hookSpecificOutput": {"llm_response": {"candidates": 5}}});
    let (output, _) = HookOutput::read(fields.as_object().unwrap().clone(), EventName::BeforeModel);

    let (folded, diagnostics) = fold(&[output], &[Part::SyntheticAnswer]);

    assert_eq!(folded, HookOutput::default());
    assert_eq!(diagnostics[0].code, DiagnosticCode::MalformedResponse);
}

#[test]
fn a_selection_without_a_mode_is_one_with_mode_auto() {
    let fields = json!({"hookSpecificOutput": {"toolConfig": {"allowedFunctionNames": ["a"]}}});
    let event = EventName::BeforeToolSelection;
    let (output, _) = HookOutput::read(fields.as_object().unwrap().clone(), event);

    let (folded, _) = fold(&[output], &[Part::ToolSelection]);

    let expected = json!({"mode": "AUTO", "allowedFunctionNames": ["a"]});
    assert_eq!(folded.specific("toolConfig"), Some(&expected));
}

#[test]
fn a_denial_is_told_by_its_own_words() {
    let answering = |text: &str, decision: Option<Decision>| {
        let mut output = HookOutput::default();
        let answer = serde_json::json!({ "text": text });
        output.decision = decision;
        output
            .hook_specific_output
            .insert("llm_response".to_owned(), answer);
        output
    };
    let folded = |outputs: &[HookOutput]| {
        let (folded, _) = fold(outputs, &[Part::Flow, Part::SyntheticAnswer]);
        let answer = folded.specific("llm_response").cloned();
        answer.map(|it| it["text"].as_str().unwrap().to_owned())
    };
    let (pong, own) = (
        answering("pong", None),
        answering("own", Some(Decision::Deny)),
    );
    let plain = HookOutput::denial("no");

    assert_eq!(folded(&[pong.clone(), plain.clone()]), None);
    assert_eq!(folded(&[own.clone(), pong.clone()]).as_deref(), Some("own"));
    assert_eq!(folded(&[pong, plain, own]).as_deref(), Some("own"));
}
