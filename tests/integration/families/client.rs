//! Answers parsed as clients of each API parse them, with checks of the wire rules they rely on.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::family::ParsedAnswer;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn parse_json(data: &str) -> Value {
    serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))
}

pub fn gemini(chunks: &[Value]) -> ParsedAnswer {
    let mut parsed = ParsedAnswer::default();
    for part in chunks
        .iter()
        .flat_map(|chunk| list(&chunk["candidates"][0]["content"]["parts"]))
    {
        if part["thought"] == true {
            parsed.thoughts.push_str(text(&part["text"]));
        } else {
            parsed.text.push_str(text(&part["text"]));
        }
        if let Some(name) = part["functionCall"]["name"].as_str() {
            let args = part["functionCall"]["args"].to_string();
            parsed.calls.push((name.to_owned(), args));
        }
    }
    assert_eq!(
        chunks.last().unwrap()["candidates"][0]["finishReason"],
        "STOP"
    );
    parsed.wants_tools = !parsed.calls.is_empty();
    parsed
}

#[track_caller]
pub fn anthropic(message: &Value) -> ParsedAnswer {
    let mut parsed = ParsedAnswer::default();
    assert_eq!(message["type"], "message", "{message}");
    assert_eq!(message["role"], "assistant");
    for block in list(&message["content"]) {
        match text(&block["type"]) {
            "text" => parsed.text.push_str(text(&block["text"])),
            "thinking" => parsed.thoughts.push_str(text(&block["thinking"])),
            "tool_use" => parsed
                .calls
                .push((text(&block["name"]).to_owned(), block["input"].to_string())),
            other => panic!("block {other}"),
        }
    }
    parsed.wants_tools = message["stop_reason"] == "tool_use";
    assert!(
        parsed.wants_tools || message["stop_reason"] == "end_turn",
        "{message}"
    );
    parsed
}

/// A content block of a stream, as far as it has been read.
struct StreamedBlock {
    block: Value,
    arguments: String,
    is_closed: bool,
}

impl StreamedBlock {
    #[track_caller]
    fn add(&mut self, delta: &Value) {
        assert!(!self.is_closed, "a delta of a closed block: {delta}");
        let (field, new) = match text(&delta["type"]) {
            "text_delta" => ("text", text(&delta["text"])),
            "thinking_delta" => ("thinking", text(&delta["thinking"])),
            "signature_delta" => ("signature", text(&delta["signature"])),
            "input_json_delta" => {
                self.arguments.push_str(text(&delta["partial_json"]));
                return;
            }
            other => panic!("delta {other}"),
        };
        let block = &mut self.block;
        assert!(block.get(field).is_some(), "{delta} in {block}");
        block[field] = format!("{}{new}", text(&block[field])).into();
    }

    #[track_caller]
    fn close(&mut self) {
        assert!(!self.is_closed, "closed twice");
        self.is_closed = true;
        if self.block["type"] == "tool_use" && !self.arguments.is_empty() {
            self.block["input"] = parse_json(&self.arguments);
        }
    }
}

/// Builds the message as the SDKs do: events by name, blocks by index without gaps.
#[track_caller]
pub fn anthropic_stream(events: &[(String, String)]) -> ParsedAnswer {
    let mut message = json!(null);
    let mut blocks: Vec<StreamedBlock> = Vec::new();
    let mut is_stopped = false;
    for (name, data) in events {
        let event = parse_json(data);
        assert_eq!(event["type"], **name, "event name of {data}");
        assert!(!is_stopped, "event after the end: {data}");
        match &**name {
            "ping" => (),
            "message_start" => {
                assert!(message.is_null(), "a second start");
                message = event["message"].clone();
                assert_eq!(message["role"], "assistant");
            }
            "content_block_start" => {
                assert_eq!(event["index"], blocks.len(), "{data}");
                assert!(
                    blocks.last().is_none_or(|block| block.is_closed),
                    "two open blocks"
                );
                blocks.push(StreamedBlock {
                    block: event["content_block"].clone(),
                    arguments: String::new(),
                    is_closed: false,
                });
            }
            "content_block_delta" => {
                let index = usize::try_from(event["index"].as_u64().unwrap()).unwrap();
                assert_eq!(index + 1, blocks.len(), "{data}");
                blocks[index].add(&event["delta"]);
            }
            "content_block_stop" => {
                assert_eq!(
                    event["index"].as_u64().map(|index| index + 1),
                    Some(blocks.len() as u64)
                );
                blocks.last_mut().unwrap().close();
            }
            "message_delta" => {
                message["stop_reason"] = event["delta"]["stop_reason"].clone();
                assert!(event["usage"]["output_tokens"].is_u64(), "{data}");
            }
            "message_stop" => is_stopped = true,
            other => panic!("event {other}: {data}"),
        }
    }
    assert!(is_stopped, "no message_stop");
    assert!(blocks.iter().all(|block| block.is_closed), "an open block");
    message["content"] = blocks.into_iter().map(|block| block.block).collect();
    anthropic(&message)
}

#[track_caller]
pub fn responses(response: &Value) -> ParsedAnswer {
    let mut parsed = ParsedAnswer::default();
    assert_eq!(response["object"], "response", "{response}");
    assert_eq!(response["status"], "completed", "{response}");
    for item in list(&response["output"]) {
        match text(&item["type"]) {
            "message" => {
                for part in list(&item["content"]) {
                    assert_eq!(part["type"], "output_text");
                    parsed.text.push_str(text(&part["text"]));
                }
            }
            "reasoning" => {
                for part in list(&item["summary"]) {
                    parsed.thoughts.push_str(text(&part["text"]));
                }
            }
            "function_call" => {
                let arguments = parse_json(text(&item["arguments"])).to_string();
                parsed
                    .calls
                    .push((text(&item["name"]).to_owned(), arguments));
            }
            "custom_tool_call" => {
                let input = json!({ "input": item["input"] }).to_string();
                parsed.calls.push((text(&item["name"]).to_owned(), input));
            }
            other => panic!("item {other}"),
        }
    }
    parsed.wants_tools = !parsed.calls.is_empty();
    parsed
}

/// Checks that all copies of a text are equal, and that indexes and sequence numbers have no gap.
#[track_caller]
pub fn responses_stream(events: &[(String, String)]) -> ParsedAnswer {
    let mut items: Vec<Option<Value>> = Vec::new();
    let mut streamed: BTreeMap<(String, [u64; 2]), String> = BTreeMap::new();
    let mut response = None;
    for (number, (name, data)) in events.iter().enumerate() {
        let event = parse_json(data);
        assert_eq!(event["type"], **name, "event name of {data}");
        assert_eq!(event["sequence_number"], number, "{data}");
        assert!(response.is_none(), "event after the end: {data}");
        let index = event["output_index"].as_u64();
        let check_open = |items: &[Option<Value>]| {
            let next_index = index.map(|index| index + 1);
            assert_eq!(next_index, Some(items.len() as u64), "{data}");
            assert!(items.last().unwrap().is_none(), "item is done: {data}");
        };
        match &**name {
            "response.created" => assert_eq!(number, 0),
            "response.in_progress" => (),
            "response.output_item.added" => {
                assert_eq!(index, Some(items.len() as u64), "{data}");
                assert!(items.iter().all(Option::is_some), "two open items");
                items.push(None);
            }
            "response.output_item.done" => {
                check_open(&items);
                *items.last_mut().unwrap() = Some(event["item"].clone());
            }
            "response.output_text.delta"
            | "response.reasoning_summary_text.delta"
            | "response.custom_tool_call_input.delta"
            | "response.function_call_arguments.delta" => {
                check_open(&items);
                let kind = name.trim_end_matches(".delta").to_owned();
                let deltas = streamed.entry((kind, place_of(&event))).or_default();
                deltas.push_str(text(&event["delta"]));
            }
            "response.output_text.done"
            | "response.reasoning_summary_text.done"
            | "response.custom_tool_call_input.done"
            | "response.function_call_arguments.done" => {
                check_open(&items);
                let key = (name.trim_end_matches(".done").to_owned(), place_of(&event));
                let deltas = streamed.get(&key).map_or("", String::as_str);
                assert_eq!(text(complete_text(&event)), deltas, "{data}");
            }
            "response.content_part.added"
            | "response.content_part.done"
            | "response.reasoning_summary_part.added"
            | "response.reasoning_summary_part.done" => check_open(&items),
            "response.completed" => response = Some(event["response"].clone()),
            other => panic!("event {other}: {data}"),
        }
    }
    let response = response.expect("no response.completed");
    let done: Vec<Value> = items.into_iter().map(Option::unwrap).collect();
    assert_eq!(json!(done), response["output"], "items differ");
    let parsed = responses(&response);
    assert_eq!(parsed.text, deltas_of(&streamed, "response.output_text"));
    let thoughts = deltas_of(&streamed, "response.reasoning_summary_text");
    assert_eq!(parsed.thoughts, thoughts);
    parsed
}

/// The complete text in a `done` event.
fn complete_text(event: &Value) -> &Value {
    let mut fields = ["text", "arguments", "input"].iter();
    fields.find_map(|field| event.get(field)).unwrap()
}

/// Index of the item, and of the text within it.
fn place_of(event: &Value) -> [u64; 2] {
    let part = event["content_index"]
        .as_u64()
        .or(event["summary_index"].as_u64());
    [event["output_index"].as_u64().unwrap(), part.unwrap_or(0)]
}

fn deltas_of(streamed: &BTreeMap<(String, [u64; 2]), String>, kind: &str) -> String {
    let of_kind = streamed.iter().filter(|((other, _), _)| other == kind);
    of_kind.map(|(_, text)| text.as_str()).collect()
}

#[track_caller]
pub fn chat(completion: &Value) -> ParsedAnswer {
    let choice = &completion["choices"][0];
    let message = &choice["message"];
    let calls = list(&message["tool_calls"]).iter().map(|call| {
        if call["type"] == "custom" {
            let input = json!({ "input": call["custom"]["input"] }).to_string();
            return (text(&call["custom"]["name"]).to_owned(), input);
        }
        let arguments = parse_json(text(&call["function"]["arguments"])).to_string();
        (text(&call["function"]["name"]).to_owned(), arguments)
    });
    let parsed = ParsedAnswer {
        text: text(&message["content"]).to_owned(),
        thoughts: text(&message["reasoning_content"]).to_owned(),
        calls: calls.collect(),
        wants_tools: choice["finish_reason"] == "tool_calls",
    };
    assert_eq!(message["role"], "assistant", "{completion}");
    assert!(
        parsed.wants_tools || choice["finish_reason"] == "stop",
        "{completion}"
    );
    parsed
}

/// Builds the completion as the SDKs do: calls by their index without gaps.
#[track_caller]
pub fn chat_stream(events: &[(String, String)]) -> ParsedAnswer {
    let ((_, last), chunks) = events.split_last().unwrap();
    assert_eq!(last, "[DONE]");
    let mut message = json!({ "role": null, "content": "", "reasoning_content": "" });
    let mut calls: Vec<Value> = Vec::new();
    let mut reason = json!(null);
    for (_, data) in chunks {
        let chunk = parse_json(data);
        assert_eq!(chunk["object"], "chat.completion.chunk", "{data}");
        for choice in list(&chunk["choices"]) {
            assert!(reason.is_null(), "choice after the end: {data}");
            let delta = &choice["delta"];
            if let Some(role) = delta["role"].as_str() {
                message["role"] = role.into();
            }
            for field in ["content", "reasoning_content"] {
                message[field] = format!("{}{}", text(&message[field]), text(&delta[field])).into();
            }
            for call in list(&delta["tool_calls"]) {
                let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
                if index == calls.len() {
                    assert!(call["id"].is_string(), "{data}");
                    calls.push(call.clone());
                } else {
                    assert_eq!(index + 1, calls.len(), "{data}");
                    let before = text(&calls[index]["function"]["arguments"]).to_owned();
                    let all = before + text(&call["function"]["arguments"]);
                    calls[index]["function"]["arguments"] = all.into();
                }
            }
            reason = choice["finish_reason"].clone();
        }
    }
    message["tool_calls"] = calls.into();
    chat(&json!({ "choices": [{ "message": message, "finish_reason": reason }] }))
}
