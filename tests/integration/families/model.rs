//! Answers of the model, in the form of each API.

use std::fmt::Write;

use serde_json::{Value, json};

use super::family::{Family, Part};

impl Family {
    /// Returns an answer that is no stream.
    pub fn whole(self, parts: &[Part]) -> Value {
        let calls = parts.iter().any(Part::is_call);
        match self {
            Self::Gemini => {
                let parts: Vec<Value> = parts.iter().map(gemini_part).collect();
                let content = json!({ "role": "model", "parts": parts });
                json!({ "candidates": [{ "content": content, "finishReason": "STOP" }], "modelVersion": "m" })
            }
            Self::Anthropic => {
                let blocks: Vec<Value> = parts.iter().enumerate().map(anthropic_block).collect();
                json!({
                    "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                    "content": blocks, "stop_reason": if calls { "tool_use" } else { "end_turn" },
                    "stop_sequence": null, "usage": { "input_tokens": 3, "output_tokens": 4 },
                })
            }
            Self::Responses => {
                let items: Vec<Value> = parts.iter().enumerate().map(responses_item).collect();
                response(&json!(items), "completed")
            }
            Self::Chat => {
                let message = chat_message(parts);
                let reason = if calls { "tool_calls" } else { "stop" };
                let choice = json!({ "index": 0, "message": message, "finish_reason": reason, "logprobs": null });
                json!({
                    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
                    "choices": [choice],
                    "usage": { "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7 },
                })
            }
        }
    }

    /// The answer as a stream.
    pub fn events(self, parts: &[Part]) -> String {
        match self {
            Self::Gemini => gemini_events(parts),
            Self::Anthropic => anthropic_events(parts),
            Self::Responses => responses_events(parts),
            Self::Chat => chat_events(parts),
        }
    }
}

fn joined(pieces: &[String]) -> String {
    pieces.concat()
}

/// Arguments of a call with text input, for an API that has only JSON input.
fn input(text: &str) -> Value {
    json!({ "input": text })
}

fn objects(key: &str, pieces: &[String]) -> Vec<Value> {
    pieces.iter().map(|piece| json!({ key: piece })).collect()
}

fn arguments(pieces: &[String]) -> Value {
    serde_json::from_str(&joined(pieces)).unwrap()
}

fn gemini_part(part: &Part) -> Value {
    match part {
        Part::Text(pieces) => json!({ "text": joined(pieces) }),
        Part::Thought(pieces) => json!({ "text": joined(pieces), "thought": true }),
        Part::Call(name, args) => {
            json!({ "functionCall": { "id": "c1", "name": name, "args": arguments(args) } })
        }
        Part::FreeText(name, text) => {
            json!({ "functionCall": { "id": "c1", "name": name, "args": input(text) } })
        }
    }
}

fn gemini_events(parts: &[Part]) -> String {
    let mut json_parts = Vec::new();
    for part in parts {
        match part {
            Part::Text(pieces) => json_parts.extend(objects("text", pieces)),
            Part::Thought(pieces) => {
                for piece in pieces {
                    json_parts.push(json!({ "text": piece, "thought": true }));
                }
            }
            Part::Call(..) | Part::FreeText(..) => json_parts.push(gemini_part(part)),
        }
    }
    let last = json_parts.len().saturating_sub(1);
    let mut stream = String::new();
    for (index, part) in json_parts.iter().enumerate() {
        let mut candidate = json!({ "content": { "role": "model", "parts": [part] } });
        if index == last {
            candidate["finishReason"] = "STOP".into();
        }
        let chunk = json!({ "candidates": [candidate], "modelVersion": "m" });
        write!(stream, "data: {chunk}\r\n\r\n").unwrap();
    }
    stream
}

fn anthropic_block((index, part): (usize, &Part)) -> Value {
    match part {
        Part::Text(pieces) => json!({ "type": "text", "text": joined(pieces) }),
        Part::Thought(pieces) => {
            json!({ "type": "thinking", "thinking": joined(pieces), "signature": "c2ln" })
        }
        Part::Call(name, args) => json!({
            "type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": arguments(args),
        }),
        Part::FreeText(name, text) => json!({
            "type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": input(text),
        }),
    }
}

/// The block at its start, and its deltas.
fn anthropic_deltas(index: usize, part: &Part) -> (Value, Vec<Value>) {
    match part {
        Part::Text(pieces) => {
            let texts = pieces.iter();
            let deltas = texts.map(|piece| json!({ "type": "text_delta", "text": piece }));
            (json!({ "type": "text", "text": "" }), deltas.collect())
        }
        Part::Thought(pieces) => {
            let thinking = pieces.iter();
            let thinking =
                thinking.map(|piece| json!({ "type": "thinking_delta", "thinking": piece }));
            let signature = json!({ "type": "signature_delta", "signature": "c2ln" });
            (
                json!({ "type": "thinking", "thinking": "", "signature": "" }),
                thinking.chain([signature]).collect(),
            )
        }
        Part::Call(name, args) => {
            let pieces = args.iter();
            let deltas =
                pieces.map(|piece| json!({ "type": "input_json_delta", "partial_json": piece }));
            (
                json!({ "type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": {} }),
                deltas.collect(),
            )
        }
        Part::FreeText(name, text) => {
            let call = Part::call_with(name, &input(text));
            anthropic_deltas(index, &call)
        }
    }
}

fn anthropic_events(parts: &[Part]) -> String {
    let mut stream = String::new();
    let mut event = |name: &str, mut data: Value| {
        data["type"] = name.into();
        write!(stream, "event: {name}\ndata: {data}\n\n").unwrap();
    };
    event(
        "message_start",
        json!({ "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": { "input_tokens": 3, "output_tokens": 1 },
    } }),
    );
    event("ping", json!({}));
    for (index, part) in parts.iter().enumerate() {
        let (block, deltas) = anthropic_deltas(index, part);
        event(
            "content_block_start",
            json!({ "index": index, "content_block": block }),
        );
        for delta in deltas {
            event(
                "content_block_delta",
                json!({ "index": index, "delta": delta }),
            );
        }
        event("content_block_stop", json!({ "index": index }));
    }
    let calls = parts.iter().any(Part::is_call);
    let reason = if calls { "tool_use" } else { "end_turn" };
    event(
        "message_delta",
        json!({
            "delta": { "stop_reason": reason, "stop_sequence": null }, "usage": { "output_tokens": 4 },
        }),
    );
    event("message_stop", json!({}));
    stream
}

fn response(items: &Value, status: &str) -> Value {
    json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m",
        "output": items, "error": null, "incomplete_details": null, "instructions": null,
        "metadata": {}, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
        "usage": { "input_tokens": 3, "output_tokens": 4, "total_tokens": 7 },
    })
}

fn responses_item((index, part): (usize, &Part)) -> Value {
    match part {
        Part::Text(pieces) => json!({
            "type": "message", "id": format!("msg_{index}"), "status": "completed", "role": "assistant",
            "content": [{ "type": "output_text", "text": joined(pieces), "annotations": [] }],
        }),
        Part::Thought(pieces) => json!({
            "type": "reasoning", "id": format!("rs_{index}"),
            "summary": [{ "type": "summary_text", "text": joined(pieces) }], "encrypted_content": "ZW5j",
        }),
        Part::Call(name, args) => json!({
            "type": "function_call", "id": format!("fc_{index}"), "call_id": format!("call_{index}"),
            "name": name, "arguments": joined(args), "status": "completed",
        }),
        Part::FreeText(name, text) => json!({
            "type": "custom_tool_call", "id": format!("ctc_{index}"), "call_id": format!("call_{index}"),
            "name": name, "input": text, "status": "completed",
        }),
    }
}

/// The item at its start, and the events in between.
fn responses_details(part: &Part, item: &Value) -> (Value, Vec<(&'static str, Value)>) {
    let mut open = item.clone();
    let mut events = Vec::new();
    match part {
        Part::Text(pieces) => {
            open["content"] = json!([]);
            open["status"] = "in_progress".into();
            let part = json!({ "type": "output_text", "text": "", "annotations": [] });
            let fields = json!({ "content_index": 0, "part": part });
            events.push(("content_part.added", fields));
            for piece in pieces {
                let fields = json!({ "content_index": 0, "delta": piece, "logprobs": [] });
                events.push(("output_text.delta", fields));
            }
            let fields = json!({ "content_index": 0, "text": joined(pieces), "logprobs": [] });
            events.push(("output_text.done", fields));
            let fields = json!({ "content_index": 0, "part": item["content"][0] });
            events.push(("content_part.done", fields));
        }
        Part::Thought(pieces) => {
            open["summary"] = json!([]);
            let part = json!({ "type": "summary_text", "text": "" });
            let fields = json!({ "summary_index": 0, "part": part });
            events.push(("reasoning_summary_part.added", fields));
            for piece in pieces {
                let fields = json!({ "summary_index": 0, "delta": piece });
                events.push(("reasoning_summary_text.delta", fields));
            }
            let fields = json!({ "summary_index": 0, "text": joined(pieces) });
            events.push(("reasoning_summary_text.done", fields));
            let fields = json!({ "summary_index": 0, "part": item["summary"][0] });
            events.push(("reasoning_summary_part.done", fields));
        }
        Part::Call(_, args) => {
            open["arguments"] = "".into();
            open["status"] = "in_progress".into();
            for piece in args {
                events.push(("function_call_arguments.delta", json!({ "delta": piece })));
            }
            let fields = json!({ "arguments": joined(args) });
            events.push(("function_call_arguments.done", fields));
        }
        Part::FreeText(_, text) => {
            open["input"] = "".into();
            open["status"] = "in_progress".into();
            events.push(("custom_tool_call_input.delta", json!({ "delta": text })));
            events.push(("custom_tool_call_input.done", input(text)));
        }
    }
    (open, events)
}

fn responses_events(parts: &[Part]) -> String {
    let mut stream = String::new();
    let mut number = 0;
    let mut event = |name: &str, mut data: Value| {
        data["type"] = name.into();
        data["sequence_number"] = number.into();
        number += 1;
        write!(stream, "event: {name}\ndata: {data}\n\n").unwrap();
    };
    event(
        "response.created",
        json!({ "response": response(&json!([]), "in_progress") }),
    );
    event(
        "response.in_progress",
        json!({ "response": response(&json!([]), "in_progress") }),
    );
    let items: Vec<Value> = parts.iter().enumerate().map(responses_item).collect();
    for (index, (part, item)) in parts.iter().zip(&items).enumerate() {
        let position = json!({ "item_id": item["id"], "output_index": index });
        let with_position = |more: Value| {
            let mut all = position.as_object().unwrap().clone();
            all.extend(more.as_object().unwrap().clone());
            Value::Object(all)
        };
        let (open, details) = responses_details(part, item);
        event(
            "response.output_item.added",
            json!({ "output_index": index, "item": open }),
        );
        for (name, fields) in details {
            event(&format!("response.{name}"), with_position(fields));
        }
        event(
            "response.output_item.done",
            json!({ "output_index": index, "item": item }),
        );
    }
    event(
        "response.completed",
        json!({ "response": response(&json!(items), "completed") }),
    );
    stream
}

fn chat_message(parts: &[Part]) -> Value {
    let mut message = json!({ "role": "assistant", "content": null });
    let mut calls = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Text(pieces) => message["content"] = joined(pieces).into(),
            Part::Thought(pieces) => message["reasoning_content"] = joined(pieces).into(),
            Part::Call(name, args) => calls.push(json!({
                "id": format!("call_{index}"), "type": "function",
                "function": { "name": name, "arguments": joined(args) },
            })),
            Part::FreeText(name, text) => calls.push(json!({
                "id": format!("call_{index}"), "type": "custom",
                "custom": { "name": name, "input": text },
            })),
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn chat_events(parts: &[Part]) -> String {
    let mut deltas = vec![json!({ "role": "assistant", "content": "" })];
    let mut call_index = 0;
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Text(pieces) => deltas.extend(objects("content", pieces)),
            Part::Thought(pieces) => deltas.extend(objects("reasoning_content", pieces)),
            Part::Call(name, args) => {
                let start = json!({
                    "index": call_index, "id": format!("call_{index}"), "type": "function",
                    "function": { "name": name, "arguments": "" },
                });
                deltas.push(json!({ "tool_calls": [start] }));
                for function in objects("arguments", args) {
                    let call = json!({ "index": call_index, "function": function });
                    deltas.push(json!({ "tool_calls": [call] }));
                }
                call_index += 1;
            }
            Part::FreeText(name, text) => {
                let start = json!({
                    "index": call_index, "id": format!("call_{index}"), "type": "custom",
                    "custom": { "name": name, "input": text },
                });
                deltas.push(json!({ "tool_calls": [start] }));
                call_index += 1;
            }
        }
    }
    let mut stream = String::new();
    let mut event = |delta: &Value, reason: Option<&str>| {
        let choice =
            json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": reason });
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [choice],
        });
        write!(stream, "data: {chunk}\n\n").unwrap();
    };
    for delta in &deltas {
        event(delta, None);
    }
    event(
        &json!({}),
        Some(if call_index > 0 { "tool_calls" } else { "stop" }),
    );
    stream.push_str("data: [DONE]\n\n");
    stream
}
