use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::event::{BeforeTool, EventDefinition, EventName};

fn any_output() -> impl Strategy<Value = HookOutput> {
    let decision = prop::sample::select(vec!["allow", "ask", "deny", "nonsense"]);
    (decision, prop::option::of(any::<bool>())).prop_map(|(decision, r#continue)| {
        let fields = json!({"decision": decision, "continue": r#continue, "reason": "r"});
        HookOutput::read(fields.as_object().unwrap().clone(), EventName::BeforeTool).0
    })
}

fn action(outputs: &[HookOutput]) -> crate::event::Action {
    BeforeTool::action(&merge_outputs(outputs, BeforeTool::HONOURS).0)
}

proptest! {
    #[test]
    fn the_order_of_hooks_never_changes_the_action(mut outputs in prop::collection::vec(any_output(), 0..6)) {
        let forward = action(&outputs);
        outputs.reverse();
        prop_assert_eq!(forward, action(&outputs));
    }

    #[test]
    fn another_hook_never_loosens_a_verdict(outputs in prop::collection::vec(any_output(), 0..6), extra in any_output()) {
        let before = action(&outputs);
        let mut more = outputs;
        more.push(extra);
        prop_assert!(before <= action(&more));
    }
}

#[test]
fn a_malformed_response_is_dropped_with_a_diagnostic() {
    let fields = json!({"hookSpecificOutput": {"llm_response": {"candidates": 5}}});
    let (output, _) = HookOutput::read(fields.as_object().unwrap().clone(), EventName::BeforeModel);

    let (merged, diagnostics) = merge_outputs(&[output], &[OutputPart::SyntheticResponse]);

    assert_eq!(merged, HookOutput::default());
    assert_eq!(diagnostics[0].code, DiagnosticCode::MalformedResponse);
}

#[test]
fn a_selection_without_a_mode_has_mode_auto() {
    let fields = json!({"hookSpecificOutput": {"toolConfig": {"allowedFunctionNames": ["a"]}}});
    let event = EventName::BeforeToolSelection;
    let (output, _) = HookOutput::read(fields.as_object().unwrap().clone(), event);

    let (merged, _) = merge_outputs(&[output], &[OutputPart::ToolSelection]);

    let expected = json!({"mode": "AUTO", "allowedFunctionNames": ["a"]});
    assert_eq!(merged.specific("toolConfig"), Some(&expected));
}

#[test]
fn a_denial_keeps_only_a_response_of_a_hook_that_denies() {
    let responding = |text: &str, decision: Option<Decision>| {
        let mut output = HookOutput::default();
        let response = serde_json::json!({ "text": text });
        output.decision = decision;
        output
            .hook_specific_output
            .insert("llm_response".to_owned(), response);
        output
    };
    let merged_text = |outputs: &[HookOutput]| {
        let honours = [OutputPart::Flow, OutputPart::SyntheticResponse];
        let (merged, _) = merge_outputs(outputs, &honours);
        let response = merged.specific("llm_response").cloned();
        response.map(|response| response["text"].as_str().unwrap().to_owned())
    };
    let (pong, own) = (
        responding("pong", None),
        responding("own", Some(Decision::Deny)),
    );
    let plain = HookOutput::denial("no");

    assert_eq!(merged_text(&[pong.clone(), plain.clone()]), None);
    let own_first = merged_text(&[own.clone(), pong.clone()]);
    assert_eq!(own_first.as_deref(), Some("own"));
    assert_eq!(merged_text(&[pong, plain, own]).as_deref(), Some("own"));
}

#[test]
fn a_later_edit_of_a_response_keeps_what_only_an_earlier_one_changes() {
    let merged = |edits: &[Value]| {
        let outputs = edits.iter().map(|edit| {
            let mut output = HookOutput::default();
            let specific = &mut output.hook_specific_output;
            specific.insert("llm_response".to_owned(), edit.clone());
            output
        });
        let outputs: Vec<HookOutput> = outputs.collect();
        let (merged, _) = merge_outputs(&outputs, &[OutputPart::ResponseEdit]);
        merged.specific("llm_response").cloned().unwrap()
    };
    let mask = json!({"text": "***"});
    let end = json!({"candidates": [{"finishReason": "STOP"}]});
    let usage = |counts| json!({ "usageMetadata": counts });

    let content = json!({"role": "model", "parts": ["***"]});
    let both = json!({"candidates": [{"content": content, "finishReason": "STOP"}]});
    assert_eq!(merged(&[mask.clone(), end.clone()]), both);
    assert_eq!(merged(&[end, mask.clone()]), both);
    assert_eq!(merged(&[json!({"text": "other"}), mask.clone()]), mask);
    let counts = [
        usage(json!({"totalTokenCount": 1, "promptTokenCount": 1})),
        usage(json!({"totalTokenCount": 2})),
    ];
    let expected = json!({"totalTokenCount": 2, "promptTokenCount": 1});
    assert_eq!(merged(&counts)["usageMetadata"], expected);
}
