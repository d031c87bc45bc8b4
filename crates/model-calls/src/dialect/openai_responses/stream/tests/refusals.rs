//! Refusals of the model, as they came and written anew.

use super::*;

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

/// The events of a stream of which those from `end` on, but for the last, are missing.
fn without_end(data: &[Bytes], end: &str) -> Vec<Bytes> {
    let is_end = |data: &Bytes| serde_json::from_slice::<Value>(data).unwrap()["type"] == end;
    let count = data.iter().position(is_end).unwrap();
    data[..count].to_vec()
}

fn merged(chunks: Vec<ResponseDocument>) -> ResponseDocument {
    ResponseDocument::merge(chunks).unwrap()
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

#[test]
fn the_refusals_of_two_answers_are_two_blocks() {
    let answer = |id: &str, pieces: &[&str]| -> Vec<ResponseDocument> {
        let data = refusal(pieces).into_iter().map(|data| {
            let text = String::from_utf8(data.to_vec()).unwrap();
            text.replace("r1", id).into()
        });
        chunks_of(&data.collect::<Vec<_>>())
    };
    let mut chunks = answer("r1", &["I can", "not"]);
    chunks.pop();
    let mut sent = [0].into();
    for mut chunk in answer("r2", &["Still", " no"]) {
        chunk.start_paragraphs(&mut sent).unwrap();
        chunks.push(chunk);
    }

    let responses = crate::dialect::of(crate::dialect::Api::OpenAiResponses);
    let body = responses.close_response(&merged(chunks)).unwrap();

    let blocks = blocks(&serde_json::from_slice(&body).unwrap());
    let texts = [&blocks[0]["refusal"], &blocks[1]["refusal"]];
    assert_eq!(texts, ["I cannot", "Still no"]);
}

/// Deltas of a stream: the types of their events and their texts.
fn deltas(stream: &str) -> Vec<(String, String)> {
    let events = parsed(stream).into_iter();
    let events = events.filter(|event| event.get("delta").is_some());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    events
        .map(|event| (text(&event["type"]), text(&event["delta"])))
        .collect()
}

#[test]
fn a_refusal_whose_item_did_not_begin_is_one_message() {
    let mut data = refusal(&["I can", "not"]);
    data.retain(|data| !data.windows(6).any(|part| part == b".added"));
    data.drain(4..data.len() - 1);
    let stream = written(&chunks_of(&data));

    let delta = |text: &str| ("response.refusal.delta".to_owned(), text.to_owned());
    assert_eq!(deltas(&stream), [delta("I can"), delta("not")]);
    assert!(!stream.contains("output_text"), "{stream}");
    let last = parsed(&stream).pop().unwrap();
    let block = json!({ "type": "refusal", "refusal": "I cannot" });
    assert_eq!(blocks(&last["response"]), json!([block]));
}

#[test]
fn a_refusal_that_has_ended_stays_one_if_a_denial_follows() {
    let mut data = refusal(&["I cannot"]);
    let is_kept = |data: &Bytes| {
        let event: Value = serde_json::from_slice(data).unwrap();
        !event["type"].as_str().unwrap().contains("content_part")
            && event["type"] != "response.refusal.delta"
    };
    data.retain(is_kept);
    let data = without_end(&data, "response.output_item.done");
    let stream = denied_after(&data, data.len());
    let events = parsed(&stream);
    let done = events
        .iter()
        .find(|event| event["type"] == "response.content_part.done");
    assert_eq!(
        done.unwrap()["part"],
        json!({ "type": "refusal", "refusal": "I cannot" })
    );
}

#[test]
fn a_text_with_an_empty_field_for_a_refusal_is_a_text() {
    let data = stream_of("r1", &[text(&["a", "b"])]);
    let with_field = |data: &Bytes| {
        let mut event: Value = serde_json::from_slice(data).unwrap();
        if event.get("part").is_some() {
            event["part"]["refusal"] = Value::Null;
        }
        Bytes::from(event.to_string())
    };
    let data: Vec<Bytes> = data.iter().map(with_field).collect();
    let stream = denied_after(&data, 4);
    let events = parsed(&stream);
    let done = events
        .iter()
        .find(|event| event["type"] == "response.content_part.done");
    assert_eq!(done.unwrap()["part"]["type"], "output_text");
}

#[test]
fn a_text_behind_a_refusal_whose_item_did_not_begin_is_a_message() {
    let mut data = stream_of("r1", &[text(&["I cannot"]), text(&["Hello"])]);
    let last = data.pop().unwrap();
    let is_delta = |data: &Bytes| data.windows(6).any(|part| part == b".delta");
    data.retain(is_delta);
    let renamed = String::from_utf8(data[0].to_vec()).unwrap();
    data[0] = renamed.replace("output_text", "refusal").into();
    let done = named(
        "response.output_text.done",
        json!({ "output_index": 1, "content_index": 0, "text": "Hello" }),
    );
    let refusal = json!({ "type": "refusal", "refusal": "I cannot" });

    for second in [data[1].clone(), done.to_string().into()] {
        let stream = written(&chunks_of(&[data[0].clone(), second, last.clone()]));
        let last = parsed(&stream).pop().unwrap();
        let blocks = blocks(&last["response"]);
        assert_eq!(blocks[0], refusal, "{stream}");
        assert_eq!(blocks[1]["text"], "Hello", "{stream}");
    }

    let stream = denied_after(&data, 1);
    let last = parsed(&stream).pop().unwrap();
    let blocks = blocks(&last["response"]);
    assert_eq!(blocks[0], refusal, "{stream}");
    assert_eq!(blocks[1]["type"], "output_text", "{stream}");
}
