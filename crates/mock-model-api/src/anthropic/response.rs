//! Responses of the Messages API, whole and as events.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    blocks::{Block, BlockAnswer, Ending, ToolCall},
    sse::EventFrames,
    tools::SIGNATURE,
};

/// Returns a whole message.
pub(crate) fn message(answer: &BlockAnswer, request: &Value) -> Value {
    let blocks = answer.blocks.iter().map(|block| match block {
        Block::Thought(pieces) => {
            let thinking = shown(request, pieces).concat();
            json!({ "type": "thinking", "thinking": thinking, "signature": SIGNATURE })
        }
        Block::Text(pieces) => json!({ "type": "text", "text": pieces.concat() }),
        Block::Call(call) => tool_use(call, &call.args),
    });
    let mut message = start(answer, &blocks.collect::<Vec<_>>());
    if let Some(fields) = message.as_object_mut() {
        fields.insert("stop_reason".to_owned(), stop_reason(answer).into());
        fields.insert("usage".to_owned(), usage(answer, answer.usage.output));
    }
    message
}

/// Returns a message as events, one frame for each piece of a text.
pub(crate) fn events(answer: &BlockAnswer, request: &Value) -> Vec<Bytes> {
    let mut frames = EventFrames::default();
    let mut started = start(answer, &[]);
    if let Some(fields) = started.as_object_mut() {
        fields.insert("usage".to_owned(), usage(answer, 1));
    }
    frames.named(&json!({ "type": "message_start", "message": started }));
    for (index, block) in answer.blocks.iter().enumerate() {
        if index > 0 {
            frames.end_frame();
        }
        let mut stream = BlockEvents {
            frames: &mut frames,
            index,
        };
        match block {
            Block::Thought(pieces) => stream.thinking(&shown(request, pieces)),
            Block::Text(pieces) => stream.text(pieces),
            Block::Call(call) => stream.call(call),
        }
    }
    frames.named(&json!({
        "type": "message_delta",
        "delta": { "stop_reason": stop_reason(answer), "stop_sequence": null },
        "usage": usage(answer, answer.usage.output),
    }));
    frames.named(&json!({ "type": "message_stop" }));
    frames.finish()
}

/// Events of one block.
struct BlockEvents<'a> {
    frames: &'a mut EventFrames,
    index: usize,
}

impl BlockEvents<'_> {
    fn thinking(&mut self, pieces: &[String]) {
        self.start(&json!({ "type": "thinking", "thinking": "", "signature": "" }));
        for piece in pieces {
            self.delta(&json!({ "type": "thinking_delta", "thinking": piece }));
        }
        self.delta(&json!({ "type": "signature_delta", "signature": SIGNATURE }));
        self.stop();
    }

    fn text(&mut self, pieces: &[String]) {
        self.start(&json!({ "type": "text", "text": "" }));
        for (number, piece) in pieces.iter().enumerate() {
            if number > 0 {
                self.frames.end_frame();
            }
            self.delta(&json!({ "type": "text_delta", "text": piece }));
        }
        self.stop();
    }

    fn call(&mut self, call: &ToolCall) {
        self.start(&tool_use(call, &json!({})));
        self.delta(&json!({ "type": "input_json_delta", "partial_json": "" }));
        for piece in call.argument_pieces() {
            self.delta(&json!({ "type": "input_json_delta", "partial_json": piece }));
        }
        self.stop();
    }

    fn start(&mut self, block: &Value) {
        self.frames.named(
            &json!({ "type": "content_block_start", "index": self.index, "content_block": block }),
        );
        if self.index == 0 {
            self.frames.named(&json!({ "type": "ping" }));
        }
    }

    fn delta(&mut self, delta: &Value) {
        self.frames
            .named(&json!({ "type": "content_block_delta", "index": self.index, "delta": delta }));
    }

    fn stop(&mut self) {
        self.frames
            .named(&json!({ "type": "content_block_stop", "index": self.index }));
    }
}

fn start(answer: &BlockAnswer, content: &[Value]) -> Value {
    json!({
        "id": format!("msg_{}", answer.id),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": null,
        "stop_sequence": null,
    })
}

/// Returns a thought as far as the request wants to see it.
fn shown(request: &Value, pieces: &[String]) -> Vec<String> {
    let display = request.pointer("/thinking/display");
    match display.and_then(Value::as_str) {
        Some("omitted") => Vec::new(),
        _ => pieces.to_vec(),
    }
}

fn tool_use(call: &ToolCall, input: &Value) -> Value {
    json!({ "type": "tool_use", "id": format!("toolu_{}", call.id), "name": call.name, "input": input })
}

fn stop_reason(answer: &BlockAnswer) -> &'static str {
    match answer.ending {
        Ending::MaxTokens => "max_tokens",
        Ending::Refusal => "refusal",
        Ending::Stop if answer.calls().next().is_some() => "tool_use",
        Ending::Stop => "end_turn",
    }
}

fn usage(answer: &BlockAnswer, output: u64) -> Value {
    json!({
        "input_tokens": answer.usage.input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output,
    })
}
