//! Responses of Chat Completions, whole and as chunks.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::{
    blocks::{Block, BlockAnswer, CREATED, Ending, ToolCall},
    content::list,
    sse::EventFrames,
};

/// Returns a whole completion.
pub(crate) fn completion(answer: &BlockAnswer, request: &Value) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    message.insert(
        "content".to_owned(),
        text(answer).map_or(Value::Null, Value::String),
    );
    message.insert("refusal".to_owned(), Value::Null);
    if let Some(thought) = thought(answer) {
        message.insert("reasoning_content".to_owned(), thought.into());
    }
    let calls: Vec<Value> = answer
        .calls()
        .map(|call| match kind(request, call) {
            CallKind::Custom => custom_call(call, &custom_input(call)),
            CallKind::Function | CallKind::Deprecated => {
                function_call(call, &call.args.to_string())
            }
        })
        .collect();
    match (calls.first(), uses_functions(request)) {
        (None, _) => {}
        (Some(first), true) => {
            message.insert("function_call".to_owned(), first["function"].clone());
        }
        (Some(_), false) => {
            message.insert("tool_calls".to_owned(), calls.into());
        }
    }
    let choice = json!({
        "index": 0,
        "message": message,
        "logprobs": null,
        "finish_reason": finish_reason(answer, request),
    });
    envelope(
        answer,
        "chat.completion",
        &json!([choice]),
        Some(usage(answer)),
    )
}

/// Returns a completion as chunks, one frame for each piece of a text.
pub(crate) fn chunks(answer: &BlockAnswer, request: &Value) -> Vec<Bytes> {
    let counted = request.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
    let mut stream = ChunkStream {
        frames: EventFrames::default(),
        answer,
        // Every chunk but the last has a `usage` of null, if it is asked for.
        usage: counted.then_some(Value::Null),
    };
    stream.delta(&json!({ "role": "assistant", "content": "", "refusal": null }));
    let mut calls = 0;
    for (number, block) in answer.blocks.iter().enumerate() {
        if number > 0 {
            stream.frames.end_frame();
        }
        match block {
            Block::Thought(pieces) => stream.pieces("reasoning_content", pieces),
            Block::Text(pieces) => stream.pieces("content", pieces),
            Block::Call(call) => {
                stream.call(call, kind(request, call), calls);
                calls += 1;
            }
        }
    }
    stream.choice(&json!({}), Some(finish_reason(answer, request)));
    if counted {
        let last = envelope(
            answer,
            "chat.completion.chunk",
            &json!([]),
            Some(usage(answer)),
        );
        stream.frames.data(&last.to_string());
    }
    stream.frames.data("[DONE]");
    stream.frames.finish()
}

/// Chunks of a completion.
struct ChunkStream<'a> {
    frames: EventFrames,
    answer: &'a BlockAnswer,
    usage: Option<Value>,
}

impl ChunkStream<'_> {
    fn pieces(&mut self, field: &str, pieces: &[String]) {
        for (number, piece) in pieces.iter().enumerate() {
            if number > 0 {
                self.frames.end_frame();
            }
            self.delta(&json!({ field: piece }));
        }
    }

    fn call(&mut self, call: &ToolCall, kind: CallKind, index: usize) {
        match kind {
            CallKind::Function => {
                self.tool_call(index, function_call(call, ""));
                for piece in call.argument_pieces() {
                    self.tool_call(index, json!({ "function": { "arguments": piece } }));
                }
            }
            CallKind::Custom => {
                self.tool_call(index, custom_call(call, ""));
                let input = custom_input(call);
                self.tool_call(index, json!({ "custom": { "input": input } }));
            }
            CallKind::Deprecated => {
                self.delta(&json!({ "function_call": { "name": call.name, "arguments": "" } }));
                for piece in call.argument_pieces() {
                    self.delta(&json!({ "function_call": { "arguments": piece } }));
                }
            }
        }
    }

    fn tool_call(&mut self, index: usize, mut call: Value) {
        if let Some(fields) = call.as_object_mut() {
            fields.insert("index".to_owned(), index.into());
        }
        self.delta(&json!({ "tool_calls": [call] }));
    }

    fn delta(&mut self, delta: &Value) {
        self.choice(delta, None);
    }

    fn choice(&mut self, delta: &Value, finish_reason: Option<&str>) {
        let choices = json!([{
            "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason
        }]);
        let usage = self.usage.clone();
        let chunk = envelope(self.answer, "chat.completion.chunk", &choices, usage);
        self.frames.data(&chunk.to_string());
    }
}

/// Kind of declaration of a function in a request, which decides the format of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Function,
    Custom,
    /// One of `functions`, from before there were tools.
    Deprecated,
}

fn kind(request: &Value, call: &ToolCall) -> CallKind {
    let named = |tool: &Value| {
        tool.pointer("/custom/name")
            .is_some_and(|name| *name == call.name)
    };
    if uses_functions(request) {
        CallKind::Deprecated
    } else if list(request, "tools").any(named) {
        CallKind::Custom
    } else {
        CallKind::Function
    }
}

fn uses_functions(request: &Value) -> bool {
    request.get("tools").is_none() && request.get("functions").is_some()
}

fn function_call(call: &ToolCall, arguments: &str) -> Value {
    json!({
        "id": format!("call_{}", call.id),
        "type": "function",
        "function": { "name": call.name, "arguments": arguments },
    })
}

fn custom_call(call: &ToolCall, input: &str) -> Value {
    json!({
        "id": format!("call_{}", call.id),
        "type": "custom",
        "custom": { "name": call.name, "input": input },
    })
}

fn custom_input(call: &ToolCall) -> String {
    let input = call.args.get("input").and_then(Value::as_str);
    input.unwrap_or_default().to_owned()
}

fn envelope(answer: &BlockAnswer, object: &str, choices: &Value, usage: Option<Value>) -> Value {
    let mut envelope = json!({
        "id": format!("chatcmpl-{}", answer.id),
        "object": object,
        "created": CREATED,
        "model": answer.model,
        "service_tier": "default",
        "system_fingerprint": "fp_mock",
        "choices": choices,
    });
    if let (Some(fields), Some(usage)) = (envelope.as_object_mut(), usage) {
        fields.insert("usage".to_owned(), usage);
    }
    envelope
}

fn text(answer: &BlockAnswer) -> Option<String> {
    let texts = answer.blocks.iter().filter_map(|block| match block {
        Block::Text(pieces) => Some(pieces.concat()),
        Block::Thought(_) | Block::Call(_) => None,
    });
    texts.reduce(|before, text| before + &text)
}

fn thought(answer: &BlockAnswer) -> Option<String> {
    answer.blocks.iter().find_map(|block| match block {
        Block::Thought(pieces) => Some(pieces.concat()),
        Block::Text(_) | Block::Call(_) => None,
    })
}

fn finish_reason(answer: &BlockAnswer, request: &Value) -> &'static str {
    match answer.ending {
        Ending::MaxTokens => "length",
        Ending::Refusal => "content_filter",
        Ending::Stop if answer.calls().next().is_none() => "stop",
        Ending::Stop if uses_functions(request) => "function_call",
        Ending::Stop => "tool_calls",
    }
}

fn usage(answer: &BlockAnswer) -> Value {
    json!({
        "prompt_tokens": answer.usage.input,
        "completion_tokens": answer.usage.output,
        "total_tokens": answer.usage.total(),
        "prompt_tokens_details": { "cached_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": answer.usage.thoughts },
    })
}
