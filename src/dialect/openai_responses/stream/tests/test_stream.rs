//! Streams as the API sends them, and what their copies hold.

use super::*;

/// An item of a model's response.
#[derive(Debug, Clone)]
pub(super) enum Item {
    Text(Vec<String>),
    Reasoning(String),
    Call(&'static str, String),
    Custom(String),
    Search(String),
}

pub(super) fn text(pieces: &[&str]) -> Item {
    Item::Text(pieces.iter().map(|piece| (*piece).to_owned()).collect())
}

pub(super) fn call(name: &'static str) -> Item {
    Item::Call(name, format!(r#"{{"path": "{name}.txt"}}"#))
}

/// The data of a stream as the API sends it.
pub(super) fn stream_of(id: &str, items: &[Item]) -> Vec<Bytes> {
    let mut events = vec![
        json!({ "type": "response.created", "response": response(id, "in_progress", &[]) }),
        json!({ "type": "response.in_progress", "response": response(id, "in_progress", &[]) }),
    ];
    let mut output = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let item_id = format!("item_{id}_{index}");
        let (start, details, done) = events_of(item, &item_id, index);
        let added = json!({ "output_index": index, "item": start });
        events.push(named("response.output_item.added", added));
        events.extend(details);
        let end = json!({ "output_index": index, "item": done });
        events.push(named("response.output_item.done", end));
        output.push(done);
    }
    let end = json!({ "response": response(id, "completed", &output) });
    events.push(named("response.completed", end));
    let numbered = events.into_iter().enumerate().map(|(number, mut event)| {
        event["sequence_number"] = number.into();
        event.to_string().into()
    });
    numbered.collect()
}

pub(super) fn named(name: &str, mut fields: Value) -> Value {
    fields["type"] = name.into();
    fields
}

pub(super) fn response(id: &str, status: &str, output: &[Value]) -> Value {
    let usage = json!({ "input_tokens": 3, "output_tokens": 2, "total_tokens": 5 });
    json!({
        "id": id,
        "object": "response",
        "status": status,
        "incomplete_details": null,
        "model": "gpt-x",
        "output": output,
        "usage": if status == "completed" { usage } else { Value::Null },
    })
}

/// The item at its start, the events in between, and the item at its end.
pub(super) type ItemEvents = (Value, Vec<Value>, Value);

/// Events of one item.
pub(super) struct Place<'a> {
    id: &'a str,
    index: usize,
}

impl Place<'_> {
    fn event(&self, name: &str, fields: &Value) -> Value {
        let mut event = json!({ "type": name, "item_id": self.id, "output_index": self.index });
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        event
    }

    fn text(&self, pieces: &[String]) -> ItemEvents {
        let block = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] });
        let whole = pieces.concat();
        let event = |name: &str, mut fields: Value| {
            fields["content_index"] = 0.into();
            self.event(name, &fields)
        };
        let mut events = vec![event(
            "response.content_part.added",
            json!({ "part": block("") }),
        )];
        events.extend(pieces.iter().map(|piece| {
            let fields = json!({ "delta": piece, "logprobs": [], "obfuscation": "x".repeat(9 - piece.len().min(9)) });
            event("response.output_text.delta", fields)
        }));
        let done = json!({ "text": whole, "logprobs": [] });
        events.push(event("response.output_text.done", done));
        let done = json!({ "part": block(&whole) });
        events.push(event("response.content_part.done", done));
        let item = |content: Value, status: &str| json!({ "id": self.id, "type": "message", "status": status, "content": content, "role": "assistant" });
        let done = item(json!([block(&whole)]), "completed");
        (item(json!([]), "in_progress"), events, done)
    }

    fn reasoning(&self, thought: &str) -> ItemEvents {
        let part = |text: &str| json!({ "type": "summary_text", "text": text });
        let events = [
            ("part.added", json!({ "part": part("") })),
            ("text.delta", json!({ "delta": thought })),
            ("text.done", json!({ "text": thought })),
            ("part.done", json!({ "part": part(thought) })),
        ];
        let events = events.map(|(name, mut fields)| {
            fields["summary_index"] = 0.into();
            self.event(&format!("response.reasoning_summary_{name}"), &fields)
        });
        let item = |summary: Value| json!({ "id": self.id, "type": "reasoning", "summary": summary, "encrypted_content": "gAAA" });
        (item(json!([])), events.into(), item(json!([part(thought)])))
    }

    fn call(&self, name: &str, arguments: &str) -> ItemEvents {
        let id = format!("call_{}", self.index);
        let item = |arguments: &str, status: &str| json!({ "id": self.id, "type": "function_call", "status": status, "arguments": arguments, "call_id": id, "name": name });
        let (first, second) = arguments.split_at(arguments.len() / 2);
        let events = [
            ("delta", json!({ "delta": first })),
            ("delta", json!({ "delta": second })),
            ("done", json!({ "arguments": arguments })),
        ];
        let events = events.map(|(name, fields)| {
            self.event(&format!("response.function_call_arguments.{name}"), &fields)
        });
        let done = item(arguments, "completed");
        (item("", "in_progress"), events.into(), done)
    }

    fn custom(&self, input: &str) -> ItemEvents {
        let id = format!("call_{}", self.index);
        let item = |input: &str| json!({ "id": self.id, "type": "custom_tool_call", "call_id": id, "name": "patch", "input": input });
        let events = [
            ("delta", json!({ "delta": input })),
            ("done", json!({ "input": input })),
        ];
        let events = events.map(|(name, fields)| {
            self.event(&format!("response.custom_tool_call_input.{name}"), &fields)
        });
        (item(""), events.into(), item(input))
    }

    fn search(&self, query: &str) -> ItemEvents {
        let item = |status: &str| json!({ "id": self.id, "type": "web_search_call", "status": status, "action": { "type": "search", "query": query } });
        let events = vec![self.event("response.web_search_call.searching", &json!({}))];
        (item("in_progress"), events, item("completed"))
    }
}

pub(super) fn events_of(item: &Item, id: &str, index: usize) -> ItemEvents {
    let place = Place { id, index };
    match item {
        Item::Text(pieces) => place.text(pieces),
        Item::Reasoning(thought) => place.reasoning(thought),
        Item::Call(name, arguments) => place.call(name, arguments),
        Item::Custom(input) => place.custom(input),
        Item::Search(query) => place.search(query),
    }
}

/// The bytes of unedited events.
pub(super) fn sse(data: &[Bytes]) -> String {
    let mut out = BytesMut::new();
    for data in data {
        let value: Value = serde_json::from_slice(data).unwrap();
        let name = value["type"].as_str().unwrap();
        crate::dialect::write_named_event(&mut out, name, data);
    }
    String::from_utf8(out.to_vec()).unwrap()
}

/// Events as an agent receives them.
pub(super) fn parsed(stream: &str) -> Vec<Value> {
    let events = stream.split("\n\n").filter(|event| !event.is_empty());
    let events = events.map(|event| {
        let (name, data) = event.split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(name, format!("event: {}", data["type"].as_str().unwrap()));
        data
    });
    events.collect()
}

/// Reads all chunks of a stream.
pub(super) fn chunks_of(data: &[Bytes]) -> Vec<ResponseDocument> {
    let mut reader = EventReader::default();
    let mut chunks = Vec::new();
    for data in data {
        chunks.extend(reader.read(data.clone()).unwrap());
    }
    chunks.extend(reader.finish().unwrap());
    chunks
}

pub(super) fn written(chunks: &[ResponseDocument]) -> String {
    let mut writer = EventWriter::default();
    let mut out = BytesMut::new();
    for chunk in chunks {
        writer.write(&mut out, chunk).unwrap();
    }
    writer.write_end(&mut out).unwrap();
    String::from_utf8(out.to_vec()).unwrap()
}

/// The text that each copy in a stream holds, and the items of its last event. Checks that
/// all copies agree, and that numbers have no gap.
#[track_caller]
pub(super) fn checked(stream: &str) -> (String, Vec<Value>) {
    let events = parsed(stream);
    let mut texts: BTreeMap<u64, [String; 4]> = BTreeMap::new();
    let mut done = BTreeMap::new();
    let mut added = 0;
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
        let Some(index) = event["output_index"].as_u64() else {
            continue;
        };
        let copies = texts.entry(index).or_default();
        match event["type"].as_str().unwrap() {
            "response.output_item.added" => {
                assert_eq!(index, added);
                added += 1;
            }
            "response.output_text.delta" => copies[0] += event["delta"].as_str().unwrap(),
            "response.output_text.done" => copies[1] += event["text"].as_str().unwrap(),
            "response.content_part.done" => copies[2] += event["part"]["text"].as_str().unwrap(),
            "response.output_item.done" => {
                done.insert(index, event["item"].clone());
                let content = event["item"]["content"].as_array();
                for block in content.into_iter().flatten() {
                    copies[3] += block["text"].as_str().unwrap_or_default();
                }
            }
            _ => (),
        }
    }
    for copies in texts.values() {
        assert!(copies.iter().all(|copy| *copy == copies[0]), "{copies:?}");
    }
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["status"], "completed");
    let output = last["response"]["output"].as_array().unwrap();
    assert_eq!(*output, done.into_values().collect::<Vec<_>>());
    let texts = texts.into_values().map(|[text, ..]| text);
    (texts.collect(), output.clone())
}

/// Texts of a stream in which reasoning may have no end.
pub(super) fn checked_texts(stream: &str) -> String {
    let mut events = parsed(stream);
    let last = events.pop().unwrap();
    assert_eq!(last["type"], "response.completed");
    let mut texts: BTreeMap<u64, String> = BTreeMap::new();
    let mut done = Vec::new();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
        let index = event["output_index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap() {
            "response.output_text.delta" => {
                *texts.entry(index).or_default() += event["delta"].as_str().unwrap();
            }
            "response.output_text.done" => {
                let sent = texts.get(&index).cloned().unwrap_or_default();
                assert_eq!(event["text"], sent);
            }
            "response.output_item.done" => done.push(event["item"].clone()),
            _ => (),
        }
    }
    assert_eq!(last["response"]["output"], json!(done));
    texts.into_values().collect()
}

/// Masks `s`, and holds the end of each text back until the next piece.
#[derive(Default)]
pub(super) struct Masking(BTreeMap<TextChannel, String>);

impl ResponseTextEditor for Masking {
    fn edit_piece(&mut self, channel: &TextChannel, text: &str, rest: TextRest) -> Option<String> {
        let mut text = self.0.remove(channel).unwrap_or_default() + text;
        if rest == TextRest::MayFollow
            && let Some(last) = text.pop()
        {
            self.0.insert(channel.clone(), last.to_string());
        }
        Some(text.replace("secret", "[x]").replace('s', "*"))
    }

    fn edit(&mut self, _kind: TextKind, text: &str) -> Option<String> {
        text.contains('s').then(|| text.replace('s', "*"))
    }

    fn held_back(&self, candidate: Option<u64>) -> Vec<TextChannel> {
        let all = self.0.keys().cloned();
        all.filter(|channel| candidate.is_none_or(|one| channel.candidate == one))
            .collect()
    }
}

pub(super) fn masked(data: &[Bytes]) -> String {
    let mut editor = Masking::default();
    let mut chunks = chunks_of(data);
    for chunk in &mut chunks {
        let rest = if chunk.has_finish_reason() {
            TextRest::None
        } else {
            TextRest::MayFollow
        };
        chunk.edit_texts(&mut editor, rest).unwrap();
    }
    written(&chunks)
}

pub(super) fn withhold(chunks: &mut [ResponseDocument], name: &str) {
    for chunk in chunks {
        let calls = chunk.calls().unwrap();
        let decisions = calls.into_iter().map(|(_, call)| {
            if call.name == name {
                CallDecision::Refuse("no".to_owned())
            } else {
                CallDecision::Keep
            }
        });
        chunk.decide_calls(decisions.collect()).unwrap();
    }
}
