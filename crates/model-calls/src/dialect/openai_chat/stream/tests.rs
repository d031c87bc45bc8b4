use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{last_chunk::ChunkEdit, reader::ChatChunkReader, writer::ChatChunkWriter};
use crate::dialect::{Document, ReadChunks, ResponseDocument, WriteChunks};

/// A stream of events with the texts, and `tail` at the end.
fn events(texts: &[&str], tail: &[Value]) -> Vec<Bytes> {
    let event = |choice: Value| {
        json!({ "id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [choice], "usage": null })
    };
    let mut events = vec![event(json!({ "index": 0,
        "delta": { "role": "assistant", "content": "", "refusal": null },
        "logprobs": null, "finish_reason": null }))];
    for text in texts {
        events.push(event(json!({ "index": 0, "delta": { "content": text },
            "logprobs": null, "finish_reason": null })));
    }
    events.extend(tail.iter().map(|choice| event(choice.clone())));
    events
        .iter()
        .map(|event| event.to_string().into())
        .collect()
}

fn finish(reason: &str) -> Value {
    json!({ "index": 0, "delta": {}, "logprobs": null, "finish_reason": reason })
}

fn call_pieces(index: u64, id: &str, name: &str, arguments: &[&str]) -> Vec<Value> {
    let delta = |piece: Value| {
        json!({ "index": 0, "delta": { "tool_calls": [piece] },
            "logprobs": null, "finish_reason": null })
    };
    let function = json!({ "name": name, "arguments": "" });
    let mut pieces = vec![delta(
        json!({ "index": index, "id": id, "type": "function", "function": function }),
    )];
    for arguments in arguments {
        let function = json!({ "arguments": arguments });
        pieces.push(delta(json!({ "index": index, "function": function })));
    }
    pieces
}

fn usage_event() -> Bytes {
    let usage = json!({ "prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3 });
    let event = json!({ "id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [], "usage": usage });
    event.to_string().into()
}

/// Edit of the chunks of one answer. Returning false drops a chunk.
type Edit<'a> = &'a mut dyn FnMut(&mut Value) -> bool;

fn pass(writer: &mut ChatChunkWriter, events: &[Bytes], edit: Edit<'_>) {
    let mut reader = ChatChunkReader::default();
    let mut chunks = Vec::new();
    for event in events {
        chunks.extend(reader.read_event(event.clone()).unwrap());
    }
    chunks.extend(reader.finish_events().unwrap());
    for (form, wire) in chunks {
        let mut edited = form.clone();
        if edit(&mut edited) {
            let document = |form: &Value| Document::from_checked(form.to_string().into()).unwrap();
            let (before, after) = (&document(&form), &document(&edited));
            let edit = ChunkEdit { before, after };
            writer.write_chunk(&wire, edit).unwrap();
        }
    }
}

/// Returns the data of the events that are sent.
fn sent(writer: &mut ChatChunkWriter) -> Vec<String> {
    let text = std::str::from_utf8(writer.output()).unwrap();
    let events = text.split_terminator("\n\n");
    events
        .map(|event| event.strip_prefix("data: ").unwrap().to_owned())
        .collect()
}

fn rewritten(events: &[Bytes], edit: Edit<'_>) -> Vec<String> {
    let mut writer = ChatChunkWriter::default();
    pass(&mut writer, events, edit);
    writer.write_end().unwrap();
    sent(&mut writer)
}

/// Reads events as a client does: text, calls as (index, id, name, arguments), end and usage.
#[derive(Debug, Default, PartialEq)]
struct Received {
    text: String,
    calls: Vec<(u64, String, String, String)>,
    ends: Vec<String>,
    total_tokens: Option<u64>,
    roles: usize,
}

#[track_caller]
fn received(sent: &[String]) -> Received {
    let mut received = Received::default();
    let (last, events) = sent.split_last().unwrap();
    assert_eq!(last, "[DONE]");
    for event in events {
        let event: Value = serde_json::from_str(event).unwrap();
        assert_eq!(event["object"], "chat.completion.chunk", "{event}");
        if let Some(total) = event["usage"]["total_tokens"].as_u64() {
            received.total_tokens = Some(total);
        }
        for choice in event["choices"].as_array().unwrap() {
            let delta = &choice["delta"];
            received.roles += usize::from(delta.get("role").is_some());
            received.text += delta["content"].as_str().unwrap_or_default();
            for piece in delta["tool_calls"].as_array().into_iter().flatten() {
                let index = piece["index"].as_u64().unwrap();
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                if received.calls.len() as u64 == index {
                    let id = text(&piece["id"]);
                    received
                        .calls
                        .push((index, id, String::new(), String::new()));
                }
                let call = &mut received.calls[usize::try_from(index).unwrap()];
                call.2 += &text(&piece["function"]["name"]);
                call.3 += &text(&piece["function"]["arguments"]);
            }
            let end = choice["finish_reason"].as_str();
            received.ends.extend(end.map(str::to_owned));
        }
    }
    received
}

fn two_calls() -> Vec<Bytes> {
    let mut tail = call_pieces(0, "c1", "read", &["{\"p\"", ":1}"]);
    tail.extend(call_pieces(1, "c2", "rm", &["{}"]));
    tail.push(finish("tool_calls"));
    let mut events = events(&["I ", "will"], &tail);
    events.push(usage_event());
    events
}

#[test]
fn each_text_is_a_chunk_and_the_rest_is_one() {
    let mut reader = ChatChunkReader::default();
    let mut chunks = Vec::new();
    for event in two_calls() {
        chunks.extend(reader.read_event(event).unwrap());
    }
    let texts: Vec<String> = chunks.iter().map(|(form, _)| form.to_string()).collect();
    let text = |text: &str| {
        format!(
            r#"{{"modelVersion":"m","responseId":"1","candidates":[{{"index":0,"content":{{"role":"model","parts":[{{"text":"{text}","hookgateSource":0}}]}}}}]}}"#
        )
    };
    let opening = r#"{"modelVersion":"m","responseId":"1"}"#;
    assert_eq!(texts, [opening, &text("I "), &text("will")]);
    let (last, wire) = reader.finish_events().unwrap().unwrap();
    assert_eq!(wire.len(), 7);
    assert_eq!(
        last["candidates"].to_string(),
        r#"[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"id":"c1","name":"read","args":{"p":1}},"hookgateSource":0},{"functionCall":{"id":"c2","name":"rm","args":{}},"hookgateSource":1}]},"finishReason":"STOP"}]"#
    );
    assert_eq!(last["usageMetadata"]["totalTokenCount"], 3);
}

#[test]
fn an_unedited_stream_keeps_its_events() {
    let events = two_calls();
    let mut expected: Vec<String> = events
        .iter()
        .map(|event| String::from_utf8(event.to_vec()).unwrap())
        .collect();
    expected.push("[DONE]".to_owned());
    assert_eq!(rewritten(&events, &mut |_| true), expected);
}

#[test]
fn an_edited_text_keeps_its_event() {
    let sent = rewritten(&events(&["a", "b"], &[finish("stop")]), &mut |form| {
        if let Some(part) = form.pointer_mut("/candidates/0/content/parts/0") {
            let text = part["text"]
                .as_str()
                .unwrap()
                .replace('a', "")
                .replace('b', "[x]");
            part["text"] = text.into();
        }
        true
    });
    // A text that is held back leaves no event.
    assert_eq!(sent.len(), 4, "{sent:#?}");
    assert_eq!(
        sent[1],
        r#"{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"[x]"},"logprobs":null,"finish_reason":null}],"usage":null}"#
    );
}

#[test]
fn a_withheld_call_vanishes_and_the_others_are_renumbered() {
    let sent = rewritten(&two_calls(), &mut |form| {
        if let Some(parts) = form.pointer_mut("/candidates/0/content/parts")
            && parts[0].get("functionCall").is_some()
        {
            parts.as_array_mut().unwrap().remove(0);
        }
        true
    });
    let expected = Received {
        text: "I will".to_owned(),
        calls: vec![(0, "c2".to_owned(), "rm".to_owned(), "{}".to_owned())],
        ends: vec!["tool_calls".to_owned()],
        total_tokens: Some(3),
        roles: 1,
    };
    assert_eq!(received(&sent), expected);
}

#[test]
fn a_stream_whose_calls_are_all_withheld_ends_with_their_explanation() {
    let sent = rewritten(&two_calls(), &mut |form| {
        if form.pointer("/candidates/0/finishReason").is_some() {
            form["candidates"][0]["content"]["parts"] = json!([{ "text": "no" }]);
        }
        true
    });
    let received = received(&sent);
    assert_eq!(received.text, "I willno");
    assert_eq!(received.calls, []);
    assert_eq!(received.ends, ["stop"]);
}

#[test]
fn edited_arguments_are_sent_at_once() {
    let sent = rewritten(&two_calls(), &mut |form| {
        if let Some(args) = form.pointer_mut("/candidates/0/content/parts/0/functionCall/args") {
            *args = json!({ "p": 2 });
        }
        true
    });
    let received = received(&sent);
    assert_eq!(received.calls[0].3, r#"{"p":2}"#);
    assert_eq!(received.calls[1].3, "{}");
}

/// The events under the id of a second answer.
fn of_second_answer(events: &[Bytes]) -> Vec<Bytes> {
    let with_id = |event: &Bytes| {
        let event = std::str::from_utf8(event).unwrap();
        event.replacen(r#""id":"1""#, r#""id":"2""#, 1).into()
    };
    events.iter().map(with_id).collect()
}

#[test]
fn a_second_answer_continues_the_first() {
    let mut writer = ChatChunkWriter::default();
    writer.begin_answer();
    // The end of the first answer is not sent.
    pass(&mut writer, &two_calls(), &mut |form| {
        form.pointer("/candidates/0/finishReason").is_none()
    });
    let second = of_second_answer(&two_calls());
    writer.begin_answer();
    pass(&mut writer, &second, &mut |_| true);
    writer.write_end().unwrap();

    let sent = sent(&mut writer);
    let received = received(&sent);
    assert_eq!(received.text, "I willI will");
    assert_eq!(received.roles, 1);
    assert_eq!(received.calls.len(), 2);
    assert_eq!(received.ends, ["tool_calls"]);
    assert_eq!(received.total_tokens, Some(3));
    let (_, events) = sent.split_last().unwrap();
    assert!(
        events
            .iter()
            .all(|event| event.starts_with(r#"{"id":"1","#)),
        "{sent:#?}"
    );
}

#[test]
fn a_second_answer_of_the_same_id_does_not_open_the_message_again() {
    let mut writer = ChatChunkWriter::default();
    writer.begin_answer();
    // Of the first answer, only the beginning is sent.
    pass(&mut writer, &two_calls(), &mut |form| {
        form.pointer("/candidates/0/finishReason").is_none()
    });
    writer.begin_answer();
    let second = events(&["again"], &[finish("stop")]);
    pass(&mut writer, &second, &mut |_| true);
    writer.write_end().unwrap();
    let received = received(&sent(&mut writer));
    assert_eq!(received.roles, 1);
    assert_eq!(received.text, "I willagain");
    assert_eq!(received.ends, ["stop"]);
}

#[test]
fn a_denial_after_a_text_ends_the_stream() {
    let mut writer = ChatChunkWriter::default();
    pass(&mut writer, &two_calls(), &mut |form| {
        form.pointer("/candidates/0/finishReason").is_none()
    });
    let denial = json!({ "candidates": [{ "content": { "parts": [{ "text": "\n\nno" }] },
        "finishReason": "STOP", "index": 0 }], "modelVersion": "m", "responseId": "h" });
    let denial = Document::from_checked(denial.to_string().into()).unwrap();
    writer.write_synthetic(&denial, &[]).unwrap();
    writer.write_end().unwrap();

    let received = received(&sent(&mut writer));
    assert_eq!(received.text, "I will\n\nno");
    assert_eq!(received.ends, ["stop"]);
    assert_eq!(received.roles, 1);
}

#[test]
fn a_denial_alone_is_a_whole_stream() {
    let mut writer = ChatChunkWriter::default();
    let denial = json!({ "candidates": [{ "content": { "parts": [{ "text": "no" }] },
        "finishReason": "STOP", "index": 0 }], "modelVersion": "m", "responseId": "h" });
    let denial = Document::from_checked(denial.to_string().into()).unwrap();
    writer.write_synthetic(&denial, &[]).unwrap();
    writer.write_end().unwrap();

    let sent = sent(&mut writer);
    let event: Value = serde_json::from_str(&sent[0]).unwrap();
    assert_eq!(event["id"], "chatcmpl-h");
    assert_eq!(event["model"], "m");
    let expected = Received {
        text: "no".to_owned(),
        ends: vec!["stop".to_owned()],
        roles: 1,
        ..Received::default()
    };
    assert_eq!(received(&sent), expected);
}

#[test]
fn calls_of_one_index_and_two_ids_are_two_calls() {
    let mut tail = call_pieces(0, "c1", "read", &["{\"a\":1}"]);
    tail.extend(call_pieces(0, "c2", "read", &["{\"a\":2}"]));
    tail.push(finish("stop"));
    let mut reader = ChatChunkReader::default();
    for event in events(&[], &tail) {
        reader.read_event(event).unwrap();
    }
    let (last, _) = reader.finish_events().unwrap().unwrap();
    let parts = &last["candidates"][0]["content"]["parts"];
    assert_eq!(parts[0]["functionCall"]["args"], json!({ "a": 1 }));
    assert_eq!(parts[1]["functionCall"]["args"], json!({ "a": 2 }));
}

#[test]
fn a_deprecated_call_whose_name_comes_twice_is_sent_whole() {
    let piece = |arguments: &str| {
        let call = json!({ "name": "read", "arguments": arguments });
        json!({ "index": 0, "delta": { "function_call": call }, "finish_reason": null })
    };
    let tail = [piece("{\"a\":"), piece("1}"), finish("function_call")];

    let sent = rewritten(&events(&[], &tail), &mut |_| true);

    let calls: Vec<Value> = sent
        .iter()
        .filter_map(|event| serde_json::from_str::<Value>(event).ok())
        .map(|event| event["choices"][0]["delta"]["function_call"].clone())
        .filter(|call| !call.is_null())
        .collect();
    assert_eq!(calls, [json!({ "name": "read", "arguments": "{\"a\":1}" })]);
}

#[test]
fn a_call_that_changes_its_name_is_refused() {
    let mut tail = call_pieces(0, "c1", "read", &[]);
    tail.extend(call_pieces(0, "c1", "rm", &["{}"]));
    tail.push(finish("tool_calls"));
    let mut reader = ChatChunkReader::default();
    for event in events(&[], &tail) {
        reader.read_event(event).unwrap();
    }
    assert!(reader.finish_events().is_err());
}

#[test]
fn interleaved_choices_keep_their_texts() {
    let choice = |index: u64, text: &str, reason: Value| json!({ "index": index, "delta": { "content": text }, "finish_reason": reason });
    let tail = [
        choice(0, "a", Value::Null),
        choice(1, "x", Value::Null),
        json!({ "index": 0, "delta": {}, "finish_reason": "stop" }),
        choice(1, "y", "length".into()),
    ];
    let mut texts = [String::new(), String::new()];
    let sent = rewritten(&events(&[], &tail), &mut |form| {
        for candidate in form["candidates"].as_array_mut().into_iter().flatten() {
            let index = usize::try_from(candidate["index"].as_u64().unwrap()).unwrap();
            for part in candidate["content"]["parts"].as_array_mut().unwrap() {
                texts[index] += part["text"].as_str().unwrap();
                part["text"] = format!("{}!", part["text"].as_str().unwrap()).into();
            }
        }
        true
    });
    assert_eq!(texts, ["a", "xy"]);
    let received = received(&sent);
    assert_eq!(received.text, "a!x!y!");
    assert_eq!(received.ends, ["stop", "length"]);
}

#[test]
fn thoughts_are_texts_of_their_own() {
    let thought = json!({ "index": 0, "delta": { "reasoning_content": "hm", "content": null },
        "finish_reason": null });
    let mut seen = Vec::new();
    let sent = rewritten(&events(&[], &[thought, finish("stop")]), &mut |form| {
        if let Some(part) = form.pointer_mut("/candidates/0/content/parts/0") {
            seen.push(part.to_string());
            part["text"] = "*".into();
        }
        true
    });
    assert_eq!(seen, [r#"{"text":"hm","thought":true,"hookgateSource":0}"#]);
    assert!(
        sent[1].contains(r#""delta":{"reasoning_content":"*","content":null}"#),
        "{sent:#?}"
    );
}

#[test]
fn thoughts_precede_the_first_call() {
    let mut reader = ChatChunkReader::default();
    let thought =
        |text: &str| json!({ "index": 0, "delta": { "reasoning": text }, "finish_reason": null });
    let mut tail = vec![thought("h"), thought("m")];
    tail.extend(call_pieces(0, "c1", "f", &["{}"]));
    tail.extend(call_pieces(1, "c2", "f", &["{}"]));
    tail.push(finish("tool_calls"));
    for event in events(&[], &tail) {
        reader.read(event).unwrap();
    }
    let (last, _) = reader.finish_events().unwrap().unwrap();
    let parts = &last["candidates"][0]["content"]["parts"];
    let preceding = json!({ "message": { "reasoning": "hm" } });
    assert_eq!(parts[0]["hookgatePreceding"], preceding);
    assert_eq!(parts[1].get("hookgatePreceding"), None);
}

#[test]
fn pieces_of_a_detailed_thought_precede_the_first_call_as_one() {
    let piece = |mut detail: Value| {
        detail["index"] = 0.into();
        json!({ "index": 0, "delta": { "reasoning_details": [detail] }, "finish_reason": null })
    };
    let kind = "reasoning.text";
    let mut tail = vec![
        piece(json!({ "type": kind, "text": "Let", "signature": null })),
        piece(json!({ "type": kind, "text": " me" })),
        piece(json!({ "type": kind, "signature": "Et8B" })),
        piece(json!({ "type": "reasoning.encrypted", "data": "RD" })),
        piece(json!({ "type": "reasoning.encrypted", "data": "RE" })),
    ];
    tail.extend(call_pieces(0, "c1", "f", &["{}"]));
    tail.push(finish("tool_calls"));
    let mut reader = ChatChunkReader::default();
    for event in events(&[], &tail) {
        reader.read(event).unwrap();
    }
    let (last, _) = reader.finish_events().unwrap().unwrap();
    let preceding = &last["candidates"][0]["content"]["parts"][0]["hookgatePreceding"];
    let expected = json!([
        { "type": kind, "text": "Let me", "signature": "Et8B", "index": 0 },
        { "type": "reasoning.encrypted", "data": "RD", "index": 0 },
        { "type": "reasoning.encrypted", "data": "RE", "index": 0 },
    ]);
    assert_eq!(preceding["message"]["reasoning_details"], expected);
}

#[test]
fn a_later_answer_keeps_all_but_its_opening() {
    let mut writer = ChatChunkWriter::default();
    pass(&mut writer, &two_calls(), &mut |form| {
        form.pointer("/candidates/0/finishReason").is_none()
    });
    let with_role = |mut delta: Value| {
        delta["role"] = "assistant".into();
        delta["content"] = "".into();
        json!({ "index": 0, "delta": delta, "finish_reason": null })
    };
    let mut tail = vec![
        with_role(json!({ "reasoning_details": [{ "data": "RD" }] })),
        with_role(json!({ "annotations": [{ "type": "url_citation" }] })),
        with_role(call_pieces(0, "c3", "ls", &[])[0]["delta"].clone()),
    ];
    tail.push(finish("tool_calls"));
    let second = of_second_answer(&events(&[], &tail));

    writer.begin_answer();
    pass(&mut writer, &second, &mut |_| true);
    writer.write_end().unwrap();

    let sent = sent(&mut writer);
    let received = received(&sent);
    assert_eq!(received.roles, 1, "{sent:#?}");
    assert_eq!(received.calls.len(), 1);
    for field in [r#""data":"RD""#, "url_citation"] {
        assert!(sent.concat().contains(field), "{field}: {sent:#?}");
    }
    let (_, events) = sent.split_last().unwrap();
    let is_of_first = |event: &String| event.starts_with(r#"{"id":"1","#);
    assert!(events.iter().all(is_of_first), "{sent:#?}");
}

#[test]
fn a_later_answer_that_begins_with_a_text_has_the_id_of_the_first() {
    let mut writer = ChatChunkWriter::default();
    pass(&mut writer, &two_calls(), &mut |form| {
        form.pointer("/candidates/0/finishReason").is_none()
    });
    let event = |delta: Value, reason: Value| -> Bytes {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        let event = json!({ "id": "2", "object": "chat.completion.chunk", "choices": [choice] });
        event.to_string().into()
    };
    let second = [
        event(json!({ "role": "assistant", "content": "a" }), Value::Null),
        event(json!({ "content": "b" }), Value::Null),
        event(json!({}), "stop".into()),
    ];

    writer.begin_answer();
    pass(&mut writer, &second, &mut |_| true);
    writer.write_end().unwrap();

    let sent = sent(&mut writer);
    let received = received(&sent);
    assert_eq!(received.text, "I willab");
    assert_eq!(received.roles, 1, "{sent:#?}");
    assert!(
        sent.iter().all(|event| !event.contains(r#""id":"2""#)),
        "{sent:#?}"
    );
}

#[test]
fn fields_without_a_part_survive_edits_of_the_last_chunk() {
    let mut call = call_pieces(0, "c1", "f", &["{}"]);
    call[0]["delta"]["reasoning_details"] =
        json!([{ "type": "reasoning.encrypted", "data": "RD" }]);
    let mut end = finish("tool_calls");
    end["delta"]["images"] = json!([{ "type": "image_url", "image_url": { "url": "data:" } }]);
    let tail: Vec<Value> = call.into_iter().chain([end]).collect();
    let sent = rewritten(&events(&[], &tail), &mut |form| {
        if let Some(args) = form.pointer_mut("/candidates/0/content/parts/0/functionCall/args") {
            *args = json!({ "p": 2 });
        }
        true
    });
    assert_eq!(received(&sent).calls[0].3, r#"{"p":2}"#);
    for field in [r#""data":"RD""#, r#""url":"data:""#] {
        assert_eq!(
            sent.concat().matches(field).count(),
            1,
            "{field}: {sent:#?}"
        );
    }
}

#[test]
fn an_edited_thought_in_the_last_chunk_has_no_unedited_copy() {
    let mut call = call_pieces(0, "c1", "f", &["{}"]);
    call[0]["delta"]["reasoning"] = "hm".into();
    call[0]["delta"]["reasoning_details"] =
        json!([{ "text": "hm", "signature": "s" }, { "data": "RD" }]);
    call.push(finish("tool_calls"));
    let sent = rewritten(&events(&[], &call), &mut |form| {
        if let Some(part) = form.pointer_mut("/candidates/0/content/parts/0")
            && part["thought"] == true
        {
            part["text"] = "*".into();
        }
        true
    });
    let sent = sent.concat();
    assert!(sent.contains(r#""reasoning":"*""#), "{sent}");
    assert!(sent.contains(r#""data":"RD""#), "{sent}");
    assert!(!sent.contains("hm"), "{sent}");
}

#[test]
fn a_stream_that_breaks_off_is_an_error() {
    let mut reader = ChatChunkReader::default();
    for event in events(&["a"], &[]) {
        reader.read_event(event).unwrap();
    }
    assert!(reader.finish_events().is_err());
}

#[test]
fn a_terminator_ends_texts_and_no_calls() {
    let thought = json!({ "index": 0, "delta": { "reasoning": "hm" }, "finish_reason": null });
    let open = |choices: Vec<Value>| {
        let mut reader = ChatChunkReader::default();
        for event in events(&[], &choices) {
            reader.read_event(event).unwrap();
        }
        reader.read_terminator().unwrap();
        reader.finish_events()
    };
    let text = json!({ "index": 0, "delta": { "content": "a" }, "finish_reason": null });
    let (last, _) = open(vec![thought.clone(), text.clone()]).unwrap().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert!(open(vec![thought]).is_err());
    let call = call_pieces(0, "c1", "f", &["{"]);
    assert!(open([vec![text], call].concat()).is_err());
}

#[test]
fn a_stream_in_which_one_of_two_choices_breaks_off_is_an_error() {
    let half = json!({ "index": 1, "delta": { "content": "half" }, "finish_reason": null });
    let mut reader = ChatChunkReader::default();
    for event in events(&["a"], &[half, finish("stop")]) {
        reader.read_event(event).unwrap();
    }
    assert!(reader.finish_events().is_err());
    let end = json!({ "choices": [{ "index": 1, "delta": {}, "finish_reason": "length" }] });
    reader.read_event(end.to_string().into()).unwrap();
    assert!(reader.finish_events().is_ok());
}

#[test]
fn an_empty_message_beside_a_delta_is_no_whole_answer() {
    for message in [
        json!(null),
        json!({}),
        json!({ "role": "assistant", "content": "", "tool_calls": [], "audio": null }),
    ] {
        let piece = json!({ "index": 0, "delta": { "content": "he" }, "message": message,
            "finish_reason": null });
        let sent = rewritten(
            &events(&[], &[piece.clone(), piece, finish("stop")]),
            &mut |_| true,
        );
        assert_eq!(received(&sent).text, "hehe");
    }
}

#[test]
fn a_message_or_call_beside_a_delta_is_refused() {
    let message = json!({ "index": 0, "message": { "role": "assistant", "content": "" } });
    let delta = json!({ "index": 1, "delta": { "content": "a" } });
    let call = json!({ "index": 0, "id": "a", "function": { "name": "rm", "arguments": "{}" } });
    let call = json!({ "index": 0, "delta": { "content": "a" }, "tool_calls": [call] });
    for choices in [json!([message, delta]), json!([call])] {
        let event = json!({ "choices": choices }).to_string();
        let mut reader = ChatChunkReader::default();
        assert!(reader.read_event(event.into()).is_err(), "{choices}");
    }
}

proptest! {
    /// However a text is cut, and wherever it is edited, the agent receives the edited text
    /// and one complete stream.
    #[test]
    fn edits_at_every_cut_reach_the_agent(
        pieces in prop::collection::vec("[a-c \"\\\\é]{0,4}", 0..6),
        withheld in prop::collection::vec(any::<bool>(), 0..4),
        ends_with_text in any::<bool>(),
    ) {
        let mut tail = Vec::new();
        for (index, _) in (0..).zip(&withheld) {
            tail.extend(call_pieces(index, &format!("c{index}"), "f", &["{", "}"]));
        }
        let reason = if withheld.is_empty() { "stop" } else { "tool_calls" };
        let mut end = finish(reason);
        if ends_with_text {
            end["delta"]["content"] = "a".into();
        }
        tail.push(end);
        let texts: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let mut expected: String = texts.concat().replace('a', "[x]");
        if ends_with_text {
            expected.push_str("[x]");
        }
        let sent = rewritten(&events(&texts, &tail), &mut |form| {
            if let Some(part) = form.pointer_mut("/candidates/0/content/parts") {
                let mut number = 0;
                part.as_array_mut().unwrap().retain_mut(|part| {
                    if let Some(text) = part["text"].as_str() {
                        part["text"] = text.replace('a', "[x]").into();
                        return true;
                    }
                    number += 1;
                    !withheld[number - 1]
                });
            }
            true
        });
        let received = received(&sent);
        prop_assert_eq!(received.text, expected);
        let kept: Vec<String> = (0..).zip(&withheld)
            .filter(|(_, withheld)| !**withheld)
            .map(|(index, _): (u64, _)| format!("c{index}"))
            .collect();
        let ids: Vec<String> = received.calls.iter().map(|call| call.1.clone()).collect();
        let reason = if kept.is_empty() { "stop" } else { "tool_calls" };
        prop_assert_eq!(ids, kept);
        prop_assert_eq!(received.ends, [reason]);
        prop_assert_eq!(received.roles, 1);
    }
}

/// Thoughts in pieces with details and a signature, then an answer.
fn thinking() -> Vec<Bytes> {
    let thought = |text: &str| json!({ "reasoning": text, "reasoning_details": [detail(text)] });
    let deltas = [
        thought("think a"),
        thought("bout"),
        thought(" it"),
        json!({ "reasoning_details": [signature()] }),
        json!({ "content": "ok" }),
    ];
    let choice = |delta: Value| json!({ "index": 0, "delta": delta, "finish_reason": null });
    let tail = deltas.into_iter().map(choice).chain([finish("stop")]);
    events(&[], &tail.collect::<Vec<_>>())
}

fn detail(text: &str) -> Value {
    json!({ "type": "reasoning.text", "index": 0, "format": "f", "text": text })
}

fn signature() -> Value {
    json!({ "type": "reasoning.text", "index": 0, "signature": "s" })
}

/// Returns the thoughts that are sent, and their details, if the end of each thought is held back
/// and `b` becomes `mask`.
fn held_thoughts(thoughts: &[Bytes], mask: &str) -> (String, Vec<Value>) {
    let mut held = String::new();
    let sent = rewritten(thoughts, &mut |chunk| {
        let is_last = chunk["candidates"][0]["finishReason"].is_string();
        let parts = chunk.pointer_mut("/candidates/0/content/parts");
        let Some(parts) = parts.and_then(Value::as_array_mut) else {
            return true;
        };
        for part in parts.iter_mut().filter(|part| part["thought"] == true) {
            let mut text = std::mem::take(&mut held) + part["text"].as_str().unwrap();
            held = text.split_off(text.len() - 1);
            part["text"] = text.replace('b', mask).into();
        }
        if is_last {
            parts.push(json!({ "text": held, "thought": true }));
        }
        true
    });
    let (mut thoughts, mut details) = (String::new(), Vec::new());
    for event in sent.iter().filter(|data| *data != "[DONE]") {
        let event: Value = serde_json::from_str(event).unwrap();
        let delta = &event["choices"][0]["delta"];
        let thought = delta["reasoning"].as_str().unwrap_or_default();
        thoughts += thought;
        let sent = delta["reasoning_details"].as_array().cloned();
        let sent = sent.unwrap_or_default();
        // Some clients read the one, some the other.
        let texts: String = sent.iter().filter_map(|one| one["text"].as_str()).collect();
        assert!(texts == thought || mask != "b", "{event}");
        details.extend(sent);
    }
    (thoughts, details)
}

#[test]
fn details_of_thoughts_are_kept_if_only_the_ends_of_these_are_held_back() {
    let (thoughts, details) = held_thoughts(&thinking(), "b");
    assert_eq!(thoughts, "think about it");
    assert_eq!(
        details,
        [
            detail("think "),
            detail("a"),
            detail("bou"),
            detail("t"),
            detail(" i"),
            detail("t"),
            signature()
        ]
    );
}

#[test]
fn details_of_masked_thoughts_lose_their_texts() {
    let (thoughts, details) = held_thoughts(&thinking(), "*");
    assert_eq!(thoughts, "think a*out it");
    assert!(details.contains(&signature()));
    assert!(!json!(details).to_string().contains("bout"), "{details:?}");
}

#[test]
#[should_panic(expected = "reasoning_details")]
fn details_that_wait_for_a_held_thought_are_bounded() {
    let thought = json!({ "reasoning": "think", "reasoning_details": [detail("think")] });
    let encrypted = json!({ "reasoning_details": [{ "data": "x".repeat(1 << 20) }] });
    let deltas = [vec![thought], vec![encrypted; 17]].concat();
    let choice = |delta: Value| json!({ "index": 0, "delta": delta, "finish_reason": null });
    let tail = deltas.into_iter().map(choice).chain([finish("stop")]);

    held_thoughts(&events(&[], &tail.collect::<Vec<_>>()), "b");
}

#[test]
fn token_counts_are_in_the_event_that_ends_the_last_choice() {
    let events: Vec<Bytes> = [0, 1]
        .map(|index| {
            let choice = json!({ "index": index, "delta": { "role": "assistant", "content": "a" },
                "logprobs": null, "finish_reason": null });
            let event = json!({ "id": "1", "object": "chat.completion.chunk", "created": 1,
                "model": "m", "choices": [choice], "usage": null });
            event.to_string().into()
        })
        .into();
    let candidate = |index: u64| json!({ "content": { "parts": [{ "text": "no" }] }, "finishReason": "STOP", "index": index });
    let counts = json!({ "promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3 });
    for (events, candidates) in [
        (&events[..], json!([candidate(0)])),
        (&[], json!([candidate(0), candidate(1)])),
    ] {
        let mut writer = ChatChunkWriter::default();
        let mut reader = ChatChunkReader::default();
        for event in events {
            if let Some((form, wire)) = reader.read_event(event.clone()).unwrap() {
                let form = Document::from_checked(form.to_string().into()).unwrap();
                let (before, after) = (&form, &form);
                let edit = ChunkEdit { before, after };
                writer.write_chunk(&wire, edit).unwrap();
            }
        }
        let reply = json!({ "candidates": candidates, "usageMetadata": counts });
        let reply = Document::from_checked(reply.to_string().into()).unwrap();
        writer.write_synthetic(&reply, &[]).unwrap();
        writer.write_end().unwrap();
        let sent = sent(&mut writer);
        let ends = sent
            .iter()
            .filter_map(|event| serde_json::from_str(event).ok());
        let ends = ends.filter(|event: &Value| !event["choices"][0]["finish_reason"].is_null());
        let totals: Vec<Value> = ends
            .map(|end| end["usage"]["total_tokens"].clone())
            .collect();
        assert_eq!(totals, [Value::Null, json!(3)]);
    }
}

/// The events of a refusal.
fn refusal(pieces: &[&str]) -> Vec<Bytes> {
    let pieces = pieces.iter().map(|piece| {
        json!({ "index": 0, "delta": { "refusal": piece }, "logprobs": null, "finish_reason": null })
    });
    let tail: Vec<Value> = pieces.chain([finish("stop")]).collect();
    events(&[], &tail)
}

/// Returns the refusal, the content and the ends that an agent receives.
#[track_caller]
fn received_refusal(sent: &[String]) -> (String, String, Vec<String>) {
    let (_, events) = sent.split_last().unwrap();
    let events = events
        .iter()
        .map(|event| serde_json::from_str::<Value>(event).unwrap());
    let pieces = events.map(|event| {
        let refusal = event["choices"][0]["delta"]["refusal"].as_str();
        refusal.unwrap_or_default().to_owned()
    });
    let refusal = pieces.collect();
    let received = received(sent);
    (refusal, received.text, received.ends)
}

#[test]
fn a_refusal_whose_end_is_held_back_stays_a_refusal() {
    let sent = rewritten(&refusal(&["I cannot"]), &mut |form| {
        if let Some(candidate) = form.pointer_mut("/candidates/0") {
            if candidate.get("finishReason").is_some() {
                candidate["content"]["parts"] = json!([{ "text": "cannot" }]);
            } else {
                candidate["content"]["parts"][0]["text"] = "I ".into();
            }
        }
        true
    });
    let expected = (
        "I cannot".to_owned(),
        String::new(),
        vec!["stop".to_owned()],
    );
    assert_eq!(received_refusal(&sent), expected);
}

#[test]
fn a_refusal_that_is_written_anew_stays_a_refusal() {
    let mut reader = ChatChunkReader::default();
    let mut chunks = Vec::new();
    for event in refusal(&["I can", "not"]) {
        chunks.extend(reader.read(event).unwrap());
    }
    chunks.extend(reader.finish().unwrap());
    let merged = ResponseDocument::merge(chunks).unwrap();
    let mut writer = ChatChunkWriter::default();
    writer.write(&merged).unwrap();
    writer.write_end().unwrap();
    let expected = (
        "I cannot".to_owned(),
        String::new(),
        vec!["stop".to_owned()],
    );
    assert_eq!(received_refusal(&sent(&mut writer)), expected);

    let chat = crate::dialect::of(crate::dialect::Api::OpenAiChat);
    let whole: Value = serde_json::from_slice(&chat.close_response(&merged).unwrap()).unwrap();
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["refusal"], "I cannot");
    assert_eq!(choice["message"]["content"], Value::Null);
    assert_eq!(choice["finish_reason"], "stop");
}

/// Passes two answers, of which the first has no end, as the agent receives them.
fn two_answers(first: &[Bytes], second: &[Bytes], edit: Edit<'_>) -> (String, String, Vec<String>) {
    let mut writer = ChatChunkWriter::default();
    writer.begin_answer();
    pass(&mut writer, first, &mut |form| {
        form.pointer("/candidates/0/finishReason").is_none()
    });
    writer.begin_answer();
    pass(&mut writer, &of_second_answer(second), edit);
    writer.write_end().unwrap();
    received_refusal(&sent(&mut writer))
}

#[test]
fn a_text_behind_a_refused_answer_is_content() {
    let second = events(
        &[],
        &[
            json!({ "index": 0, "delta": { "role": "assistant", "content": "Sure." },
            "finish_reason": "stop" }),
        ],
    );
    let received = two_answers(&refusal(&["I cannot"]), &second, &mut |form| {
        if let Some(part) = form.pointer_mut("/candidates/0/content/parts/0") {
            part["text"] = "\n\nSure.".into();
        }
        true
    });
    let expected = ("I cannot", "\n\nSure.");
    assert_eq!((received.0.as_str(), received.1.as_str()), expected);
}

#[test]
fn the_refusals_of_two_answers_are_separated_once() {
    let first = refusal(&["I can", "not"]);
    let second = refusal(&["Still", " no"]);
    let received = two_answers(&first, &second, &mut |_| true);
    assert_eq!(received.0, "I cannot\n\nStill no");
    assert_eq!(received.1, "");

    // A piece that is held back needs no separator, the one that follows does.
    let received = two_answers(&first, &second, &mut |form| {
        if let Some(part) = form.pointer_mut("/candidates/0/content/parts/0")
            && part["text"] == "Still"
        {
            part["text"] = "".into();
        }
        true
    });
    assert_eq!(received.0, "I cannot\n\n no");

    let last = json!({ "index": 0, "delta": { "refusal": "No" }, "finish_reason": "stop" });
    let received = two_answers(&first, &events(&[], &[last]), &mut |_| true);
    assert_eq!(received.0, "I cannot\n\nNo");
}

#[test]
fn the_end_of_a_refusal_that_an_error_releases_is_of_the_refusal() {
    let mut events = refusal(&["I can"]);
    events.pop();
    events.push(
        json!({ "error": { "message": "overloaded" } })
            .to_string()
            .into(),
    );
    let mut writer = ChatChunkWriter::default();
    pass(&mut writer, &events, &mut |form| {
        if form.get("error").is_some() {
            let content = json!({ "role": "model", "parts": [{ "text": "can" }] });
            form["candidates"] = json!([{ "index": 0, "content": content }]);
        } else if let Some(part) = form.pointer_mut("/candidates/0/content/parts/0") {
            part["text"] = "I ".into();
        }
        true
    });
    let sent = sent(&mut writer);
    let released: Vec<&String> = sent.iter().filter(|event| event.contains("can")).collect();
    let [released] = released.as_slice() else {
        panic!("{sent:#?}");
    };
    assert!(
        released.contains(r#""delta":{"refusal":"can"}"#),
        "{released}"
    );
}

#[test]
fn a_text_in_the_place_of_a_refusal_and_a_thought_is_a_refusal() {
    for reason in [Value::Null, "stop".into()] {
        let both = json!({ "index": 0, "finish_reason": reason,
            "delta": { "reasoning_content": "Hm", "refusal": "I cannot" } });
        let sent = rewritten(&events(&[], &[both, finish("stop")]), &mut |form| {
            let parts = form.pointer_mut("/candidates/0/content/parts");
            if let Some(parts) = parts.filter(|parts| parts[0]["thought"] == true) {
                *parts = json!([{ "text": "Sorry.", "hookgateRefusal": true }]);
            }
            true
        });
        let (refusal, content, _) = received_refusal(&sent);
        assert_eq!((refusal.as_str(), content.as_str()), ("Sorry.", ""));
    }
}
