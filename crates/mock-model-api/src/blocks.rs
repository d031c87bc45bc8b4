//! Responses as blocks of text, thought and calls, which every API but Gemini's writes.

use serde_json::{Value, json};

use super::{call::field, content::string};

/// Creation time of all answers, in seconds since 1970.
pub(super) const CREATED: u64 = 1_767_225_600;

/// A response with its blocks in order.
#[derive(Debug, Default)]
pub(super) struct BlockAnswer {
    /// Identifier without the prefix of an API.
    pub(super) id: String,
    pub(super) model: String,
    pub(super) blocks: Vec<Block>,
    pub(super) ending: Ending,
    pub(super) usage: Usage,
    /// True if it is an answer of the script.
    pub(super) is_scripted: bool,
}

/// Part of a response.
#[derive(Debug)]
pub(super) enum Block {
    /// Thought with the pieces in which it is streamed.
    Thought(Vec<String>),
    /// Text with the pieces in which it is streamed.
    Text(Vec<String>),
    Call(ToolCall),
}

/// A call of a tool.
#[derive(Debug)]
pub(super) struct ToolCall {
    /// Identifier without the prefix of an API.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) args: Value,
}

/// Reason for the end of a response.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    #[default]
    Stop,
    MaxTokens,
    Refusal,
}

/// Token counts; `output` includes `thoughts`.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Usage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) thoughts: u64,
}

impl BlockAnswer {
    /// Reads the chunks of a response of the Gemini API.
    pub(super) fn new(chunks: &[String], model: &str, number: u64) -> Self {
        let mut answer = Self {
            id: format!("mock-{number}"),
            model: model.to_owned(),
            ..Self::default()
        };
        for chunk in chunks {
            answer.push(&serde_json::from_str(chunk).unwrap_or_default());
        }
        answer
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Call(call) => Some(call),
            Block::Thought(_) | Block::Text(_) => None,
        })
    }

    fn push(&mut self, chunk: &Value) {
        if let Some(usage) = field(chunk, "usageMetadata") {
            self.usage = Usage::new(usage);
        }
        let Some(candidate) = chunk.pointer("/candidates/0") else {
            return;
        };
        match field(candidate, "finishReason").and_then(Value::as_str) {
            None | Some("STOP") => {}
            Some("MAX_TOKENS") => self.ending = Ending::MaxTokens,
            Some(_) => self.ending = Ending::Refusal,
        }
        let parts = candidate
            .pointer("/content/parts")
            .and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            self.push_part(part);
        }
    }

    fn push_part(&mut self, part: &Value) {
        if let Some(call) = field(part, "functionCall") {
            let id = match string(call, "id") {
                "" => format!("{}-call-{}", self.id, self.calls().count()),
                id => id.to_owned(),
            };
            self.blocks.push(Block::Call(ToolCall {
                id,
                name: string(call, "name").to_owned(),
                args: call.get("args").cloned().unwrap_or_else(|| json!({})),
            }));
            return;
        }
        let text = string(part, "text").to_owned();
        if text.is_empty() {
            return;
        }
        let is_thought = part.get("thought") == Some(&Value::Bool(true));
        match (self.blocks.last_mut(), is_thought) {
            (Some(Block::Thought(pieces)), true) | (Some(Block::Text(pieces)), false) => {
                pieces.push(text);
            }
            (_, true) => self.blocks.push(Block::Thought(vec![text])),
            (_, false) => self.blocks.push(Block::Text(vec![text])),
        }
    }
}

impl ToolCall {
    /// Returns the pieces in which arguments are streamed: two, so that none of them is
    /// a document.
    pub(super) fn argument_pieces(&self) -> [String; 2] {
        let text = self.args.to_string();
        let half = text.chars().count() / 2;
        let mut letters = text.chars();
        [letters.by_ref().take(half).collect(), letters.collect()]
    }
}

impl Usage {
    fn new(metadata: &Value) -> Self {
        let count = |name| {
            field(metadata, name)
                .and_then(Value::as_u64)
                .unwrap_or_default()
        };
        let thoughts = count("thoughtsTokenCount");
        Self {
            input: count("promptTokenCount"),
            output: count("candidatesTokenCount") + thoughts,
            thoughts,
        }
    }

    pub(super) fn total(self) -> u64 {
        self.input + self.output
    }
}
