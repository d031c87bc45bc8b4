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
    for chunk in chunks {
        writer.write(chunk).unwrap();
    }
    writer.write_end().unwrap();
    String::from_utf8(writer.output().to_vec()).unwrap()
}

/// The text of the messages of a stream, and the items of its last event. Checks that the
/// stream is a sequence of events that the API could send: every item, part and text begins
/// and ends once and in order, all copies agree, and numbers have no gap.
#[track_caller]
pub(super) fn checked(stream: &str) -> (String, Vec<Value>) {
    let mut events = parsed(stream);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    let last = events.pop().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["status"], "completed");
    let mut items: Vec<CheckedItem> = Vec::new();
    for event in &events {
        let name = event["type"].as_str().unwrap();
        let Some(index) = event["output_index"].as_u64() else {
            assert!(["response.created", "response.in_progress"].contains(&name));
            continue;
        };
        let index = usize::try_from(index).unwrap();
        if name == "response.output_item.added" {
            assert_eq!(index, items.len(), "{event}");
            items.push(CheckedItem::default());
        }
        items[index].take(name, event);
    }
    let done: Vec<Value> = items.iter().map(|item| item.done.clone()).collect();
    assert_eq!(last["response"]["output"], json!(done));
    let messages = items.iter().filter(|item| item.done["type"] == "message");
    let texts = messages.flat_map(|item| item.texts.values().map(|text| text.sent.as_str()));
    (texts.collect(), done)
}

/// An item as a client builds it.
#[derive(Default)]
struct CheckedItem {
    texts: BTreeMap<(bool, u64), CheckedText>,
    done: Value,
}

#[derive(Default)]
struct CheckedText {
    sent: String,
    is_done: bool,
    is_part_done: bool,
}

impl CheckedItem {
    #[track_caller]
    fn take(&mut self, name: &str, event: &Value) {
        assert!(self.done.is_null(), "after its end: {event}");
        let summary = event["summary_index"].as_u64();
        let place = summary.or(event["content_index"].as_u64());
        let Some(place) = place.map(|index| (summary.is_some(), index)) else {
            if name == "response.output_item.done" {
                self.end(&event["item"]);
            }
            return;
        };
        if name.ends_with("_part.added") {
            let known = self.texts.insert(place, CheckedText::default());
            assert!(known.is_none(), "begins twice: {event}");
        }
        let text = self.texts.get_mut(&place).expect("the part has begun");
        assert!(!text.is_part_done, "after its end: {event}");
        if let Some(delta) = event["delta"].as_str() {
            assert!(!text.is_done, "after its end: {event}");
            text.sent += delta;
        } else if name.ends_with("_part.done") {
            assert!(text.is_done, "the part ends before its text: {event}");
            text.is_part_done = true;
            assert_eq!(event["part"]["text"], text.sent);
        } else if name.ends_with("_text.done") {
            text.is_done = true;
            assert_eq!(event["text"], text.sent);
        }
    }

    #[track_caller]
    fn end(&mut self, item: &Value) {
        assert!(self.texts.values().all(|text| text.is_part_done), "{item}");
        for (key, is_summary) in [("summary", true), ("content", false)] {
            let blocks = item[key].as_array().into_iter().flatten();
            let blocks: Vec<&Value> = blocks.map(|block| &block["text"]).collect();
            let texts = self.texts.iter().filter(|(place, _)| place.0 == is_summary);
            let texts: Vec<&str> = texts.map(|(_, text)| text.sent.as_str()).collect();
            assert_eq!(json!(blocks), json!(texts), "{item}");
        }
        self.done = item.clone();
    }
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

    fn open_channels(&self, candidate: Option<u64>) -> Vec<TextChannel> {
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
