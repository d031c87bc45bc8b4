//! Responses of the Responses API, whole and as events.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    blocks::{Block, BlockAnswer, CREATED, Ending, ToolCall},
    content::{list, string},
    sse::EventFrames,
    tools::SIGNATURE,
};

use super::items::{self, Progress, item};

/// Returns a whole response.
pub(crate) fn response(answer: &BlockAnswer, request: &Value) -> Value {
    let (status, reason) = match answer.ending {
        Ending::Stop => ("completed", None),
        Ending::MaxTokens => ("incomplete", Some("max_output_tokens")),
        Ending::Refusal => ("incomplete", Some("content_filter")),
    };
    let mut response = envelope(answer, request);
    if let Some(fields) = response.as_object_mut() {
        fields.insert("status".to_owned(), status.into());
        if let Some(reason) = reason {
            let details = json!({ "reason": reason });
            fields.insert("incomplete_details".to_owned(), details);
        }
        fields.insert("output".to_owned(), output(answer, request));
        fields.insert("usage".to_owned(), usage(answer));
    }
    response
}

/// Returns a response as events, one frame for each piece of a text.
pub(crate) fn events(answer: &BlockAnswer, request: &Value) -> Vec<Bytes> {
    let mut stream = EventStream {
        frames: EventFrames::default(),
        answer,
        request,
        sequence: 0,
        index: 0,
    };
    let begun = envelope(answer, request);
    stream.event("response.created", &json!({ "response": begun }));
    stream.event("response.in_progress", &json!({ "response": begun }));
    for (index, block) in answer.blocks.iter().enumerate() {
        if index > 0 {
            stream.frames.end_frame();
        }
        stream.index = index;
        stream.block(block);
    }
    let whole = response(answer, request);
    let name = format!("response.{}", string(&whole, "status"));
    stream.event(&name, &json!({ "response": whole }));
    stream.frames.finish()
}

/// Returns the compacted form of a conversation: its prompts, and an encrypted summary.
pub(crate) fn compaction(request: &Value, number: u64) -> Value {
    let is_prompt = |item: &&Value| string(item, "role") == "user";
    let prompts = list(request, "input").filter(is_prompt).cloned();
    let summary = json!({
        "id": format!("cmp_mock-{number}"),
        "type": "compaction",
        "encrypted_content": SIGNATURE,
    });
    json!({
        "id": format!("resp_mock-{number}"),
        "object": "response.compaction",
        "created_at": CREATED,
        "output": prompts.chain([summary]).collect::<Value>(),
        "usage": usage(&BlockAnswer::default()),
    })
}

/// Events of a response, numbered.
struct EventStream<'a> {
    frames: EventFrames,
    answer: &'a BlockAnswer,
    request: &'a Value,
    sequence: u64,
    /// Index of the output item that is being sent.
    index: usize,
}

impl EventStream<'_> {
    fn block(&mut self, block: &Block) {
        let at = |progress| item(self.answer, self.index, block, self.request, progress);
        let (begun, complete) = (at(Progress::Begun), at(Progress::Complete));
        self.event(
            "response.output_item.added",
            &json!({ "output_index": self.index, "item": begun }),
        );
        let id = string(&complete, "id");
        match block {
            Block::Thought(pieces) if items::has_summary(self.answer, self.request) => {
                self.summary(id, pieces);
            }
            Block::Thought(_) => {}
            Block::Text(pieces) => self.text(id, pieces),
            Block::Call(call) => self.call(id, call),
        }
        self.event(
            "response.output_item.done",
            &json!({ "output_index": self.index, "item": complete }),
        );
    }

    fn text(&mut self, id: &str, pieces: &[String]) {
        let text = pieces.concat();
        let place = json!({ "item_id": id, "output_index": self.index, "content_index": 0 });
        let with = |fields: Value| merged(&place, fields);
        self.event(
            "response.content_part.added",
            &with(json!({ "part": items::text_part("") })),
        );
        for (number, piece) in pieces.iter().enumerate() {
            if number > 0 {
                self.frames.end_frame();
            }
            let delta = with(json!({ "delta": piece, "logprobs": [], "obfuscation": "mock" }));
            self.event("response.output_text.delta", &delta);
        }
        self.event(
            "response.output_text.done",
            &with(json!({ "text": text, "logprobs": [] })),
        );
        self.event(
            "response.content_part.done",
            &with(json!({ "part": items::text_part(&text) })),
        );
    }

    fn summary(&mut self, id: &str, pieces: &[String]) {
        let text = pieces.concat();
        let place = json!({ "item_id": id, "output_index": self.index, "summary_index": 0 });
        let with = |fields: Value| merged(&place, fields);
        let part = items::summary_part;
        self.event(
            "response.reasoning_summary_part.added",
            &with(json!({ "part": part("") })),
        );
        for piece in pieces {
            let delta = with(json!({ "delta": piece, "obfuscation": "mock" }));
            self.event("response.reasoning_summary_text.delta", &delta);
        }
        self.event(
            "response.reasoning_summary_text.done",
            &with(json!({ "text": text })),
        );
        self.event(
            "response.reasoning_summary_part.done",
            &with(json!({ "part": part(&text) })),
        );
    }

    fn call(&mut self, id: &str, call: &ToolCall) {
        let place = json!({ "item_id": id, "output_index": self.index });
        let with = |fields: Value| merged(&place, fields);
        if items::is_custom(self.request, call) {
            let input = items::custom_input(call);
            self.event(
                "response.custom_tool_call_input.delta",
                &with(json!({ "delta": input })),
            );
            self.event(
                "response.custom_tool_call_input.done",
                &with(json!({ "input": input })),
            );
            return;
        }
        for piece in call.argument_pieces() {
            let delta = with(json!({ "delta": piece, "obfuscation": "mock" }));
            self.event("response.function_call_arguments.delta", &delta);
        }
        let arguments = call.args.to_string();
        let done = with(json!({ "name": call.name, "arguments": arguments }));
        self.event("response.function_call_arguments.done", &done);
    }

    fn event(&mut self, kind: &str, fields: &Value) {
        let head = json!({ "type": kind, "sequence_number": self.sequence });
        self.sequence += 1;
        self.frames.named(&merged(&head, fields.clone()));
    }
}

/// Returns the fields of both objects.
fn merged(first: &Value, second: Value) -> Value {
    let mut fields = first.as_object().cloned().unwrap_or_default();
    if let Value::Object(more) = second {
        fields.extend(more);
    }
    fields.into()
}

fn output(answer: &BlockAnswer, request: &Value) -> Value {
    let blocks = answer.blocks.iter().enumerate();
    blocks
        .map(|(index, block)| item(answer, index, block, request, Progress::Complete))
        .collect()
}

/// Returns a response that has begun, with the settings of its request.
fn envelope(answer: &BlockAnswer, request: &Value) -> Value {
    let setting = |name: &str, default: Value| match request.get(name) {
        Some(Value::Null) | None => default,
        Some(value) => value.clone(),
    };
    json!({
        "id": format!("resp_{}", answer.id),
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": setting("instructions", Value::Null),
        "max_output_tokens": setting("max_output_tokens", Value::Null),
        "max_tool_calls": null,
        "model": answer.model,
        "output": [],
        "parallel_tool_calls": setting("parallel_tool_calls", true.into()),
        "previous_response_id": null,
        "prompt_cache_key": setting("prompt_cache_key", Value::Null),
        "reasoning": setting("reasoning", json!({ "effort": null, "summary": null })),
        "safety_identifier": null,
        "service_tier": "default",
        "store": setting("store", true.into()),
        "temperature": setting("temperature", 1.0.into()),
        "text": setting("text", json!({ "format": { "type": "text" } })),
        "tool_choice": setting("tool_choice", "auto".into()),
        "tools": setting("tools", json!([])),
        "top_logprobs": 0,
        "top_p": setting("top_p", 1.0.into()),
        "truncation": "disabled",
        "usage": null,
        "user": null,
        "metadata": setting("metadata", json!({})),
    })
}

fn usage(answer: &BlockAnswer) -> Value {
    json!({
        "input_tokens": answer.usage.input,
        "input_tokens_details": { "cached_tokens": 0, "cache_write_tokens": 0 },
        "output_tokens": answer.usage.output,
        "output_tokens_details": { "reasoning_tokens": answer.usage.thoughts },
        "total_tokens": answer.usage.total(),
    })
}
