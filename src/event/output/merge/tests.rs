use serde_json::json;

use super::*;

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
