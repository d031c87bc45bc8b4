//! Refusals of the model, as they came and written anew.

use super::*;
use crate::dialect::google::MergedChunks;

/// The events of a message that is a refusal.
fn refusal(pieces: &[&str]) -> Vec<Bytes> {
    let events = stream_of("r1", &[text(pieces)]).into_iter();
    let events = events.map(|data| {
        let data = String::from_utf8(data.to_vec()).unwrap();
        let data = data.replace("output_text", "refusal");
        let mut event: Value = serde_json::from_str(&data).unwrap();
        rename_text(&mut event);
        event.to_string().into()
    });
    events.collect()
}

fn rename_text(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(text) = fields.remove("text") {
                fields.insert("refusal".to_owned(), text);
                fields.remove("annotations");
            }
            fields.remove("logprobs");
            fields.values_mut().for_each(rename_text);
        }
        Value::Array(items) => items.iter_mut().for_each(rename_text),
        _ => (),
    }
}

fn merged(chunks: Vec<ResponseDocument>) -> ResponseDocument {
    ResponseDocument::from_merged(&MergedChunks::new(chunks).unwrap()).unwrap()
}

fn blocks(response: &Value) -> Value {
    let output = response["output"].as_array().unwrap().iter();
    output.map(|item| item["content"][0].clone()).collect()
}

#[test]
fn a_refusal_that_is_written_anew_stays_a_refusal() {
    let stream = written(&[merged(chunks_of(&refusal(&["I can", "not"])))]);

    let events = parsed(&stream);
    let of = |name: &str, field: &str| -> Vec<Value> {
        let events = events.iter().filter(|event| event["type"] == name);
        events.map(|event| event[field].clone()).collect()
    };
    assert_eq!(of("response.refusal.delta", "delta"), ["I cannot"]);
    assert_eq!(of("response.refusal.done", "refusal"), ["I cannot"]);
    let block = json!({ "type": "refusal", "refusal": "I cannot" });
    assert_eq!(
        of("response.content_part.done", "part"),
        std::slice::from_ref(&block)
    );
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["status"], "completed");
    assert_eq!(last["response"]["incomplete_details"], Value::Null);
    assert_eq!(blocks(&last["response"]), json!([block]));
    assert!(!stream.contains("output_text"), "{stream}");
}

#[test]
fn a_refusal_in_one_event_of_its_item_is_one() {
    let mut data = refusal(&["I cannot"]);
    data.retain(|data| !data.windows(6).any(|part| part == b".delta"));
    let parts = chunks_of(&data);
    let stream = written(&[merged(parts)]);
    assert!(stream.contains("event: response.refusal.delta"), "{stream}");
}

#[test]
fn a_whole_answer_of_a_text_and_a_refusal_is_complete() {
    let mut second = merged(chunks_of(&refusal(&["I cannot"])));
    second.start_paragraphs(&mut [0].into()).unwrap();
    let mut first = chunks_of(&stream_of("r2", &[text(&["first"])]));
    first.pop();
    first.push(second);
    let responses = crate::dialect::of(crate::dialect::Api::OpenAiResponses);
    let body = responses.close_response(&merged(first)).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["status"], "completed");
    assert_eq!(body["incomplete_details"], Value::Null);
    let blocks = blocks(&body);
    assert_eq!(blocks[0]["text"], "first");
    assert_eq!(
        blocks[1],
        json!({ "type": "refusal", "refusal": "I cannot" })
    );
}
