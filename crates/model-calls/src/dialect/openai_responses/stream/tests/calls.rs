//! Tool calls in streams: edited, withheld, contradicted.

use super::*;

#[test]
fn a_withheld_call_leaves_no_gap() {
    let items = [text(&["a"]), call("rm"), call("ls"), text(&["b"])];
    let mut chunks = chunks_of(&stream_of("r1", &items));
    withhold(&mut chunks, "rm");
    let stream = written(&chunks);
    let (text, output) = checked(&stream);
    assert_eq!(text, "ab");
    assert_eq!(output.len(), 3);
    assert!(!stream.contains("rm.txt"));
}

#[test]
fn an_edited_call_is_edited_in_every_event() {
    let items = [call("read"), Item::Custom("old".to_owned())];
    let mut chunks = chunks_of(&stream_of("r1", &items));
    for chunk in &mut chunks {
        let calls = chunk.calls().unwrap().into_iter();
        let new = |key: &str| json!({ key: "new.txt" }).as_object().unwrap().clone();
        let decisions = calls.map(|(_, call)| match call.name.as_str() {
            "read" => CallDecision::Rewrite(new("path")),
            _ => CallDecision::Rewrite(new("input")),
        });
        chunk.decide_calls(decisions.collect()).unwrap();
    }
    let stream = written(&chunks);
    let (_, output) = checked(&stream);
    assert_eq!(output[0]["arguments"], r#"{"path":"new.txt"}"#);
    assert_eq!(output[1]["input"], "new.txt");
    assert!(!stream.contains("read.txt") && !stream.contains("old"));
    let events = parsed(&stream);
    let deltas = events.iter().filter_map(|event| event["delta"].as_str());
    assert_eq!(
        deltas.collect::<Vec<_>>(),
        [r#"{"path":"new.txt"}"#, "new.txt"]
    );
}

#[test]
fn a_call_with_truncated_arguments_is_a_call_with_a_text() {
    let truncated = r#"{"path":"/tmp/a.txt","content":"hello wor"#;
    let items = [Item::Call("write", truncated.to_owned())];
    let data = stream_of("r1", &items);
    let chunks = chunks_of(&data);
    let mut calls = chunks.iter().flat_map(|chunk| chunk.calls().unwrap());
    assert_eq!(calls.next().unwrap().1.arguments, truncated);
    assert_eq!(written(&chunks), sse(&data));
}

#[test]
fn reasoning_in_front_of_a_withheld_call_is_complete() {
    let items = [Item::Reasoning("plan".to_owned()), call("rm")];
    let data = stream_of("r1", &items);
    let mut chunks = chunks_of(&data);
    withhold(&mut chunks, "rm");
    let stream = written(&chunks);
    assert!(stream.starts_with(&sse(&data[..8])), "{stream}");
    let (_, output) = checked(&stream);
    assert_eq!(output.len(), 1);
    assert_eq!(output[0]["encrypted_content"], "gAAA");
}

#[test]
fn reasoning_that_breaks_off_is_completed_as_it_was_sent() {
    let data = stream_of("r1", &[Item::Reasoning("plan".to_owned()), text(&["a"])]);
    let stream = denied_after(&data, 5);
    let (text, output) = checked(&stream);
    assert_eq!(text, "denied");
    let summary = json!([{ "type": "summary_text", "text": "plan" }]);
    assert_eq!(output[0]["summary"], summary);
    assert_eq!(output[0]["encrypted_content"], "gAAA");
    // Without encrypted content, requests must not have it.
    assert_eq!(output[0]["status"], "incomplete");
}

#[test]
fn an_explanation_replaces_a_withheld_call() {
    let mut chunks = chunks_of(&stream_of("r1", &[text(&["a"]), call("rm")]));
    withhold(&mut chunks, "rm");
    for chunk in &mut chunks {
        chunk
            .explain_withheld_calls(&std::collections::BTreeSet::new())
            .unwrap();
    }
    let (text, output) = checked(&written(&chunks));
    assert_eq!(text, "aTool execution blocked: no");
    assert_eq!(output.len(), 2);
}

#[test]
fn pieces_that_contradict_a_call_are_refused() {
    let data = stream_of("r1", &[call("read")]);
    let mut reader = EventReader::default();
    let results = data.iter().map(|data| {
        let text = String::from_utf8(data.to_vec()).unwrap();
        let text = if text.contains("function_call_arguments.done") {
            text.replace("read.txt", "other.txt")
        } else {
            text
        };
        reader.read(text.into())
    });
    assert!(results.collect::<Result<Vec<_>, _>>().is_err());
}
