//! `redact` on one response: a stream of masks for each text that arrives in pieces.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use stream_redact::{Masker, NextText};

use super::{
    json_position::JsonPosition,
    redactor::{FoundDetectors, Redact, RedactionScope},
};
use crate::{
    dialect::{
        DialectError, EditedCandidates, ResponseDocument, ResponseFormat, ResponseTextEditor,
        TextChannel, TextKind, TextRest, TextStream,
    },
    event::HookOutput,
    policy::definition::{ChunkPosition, PolicyEffects, PolicyResult, ResponsePolicy},
};

/// Maximum number of unfinished texts of one response.
const MAX_CHANNELS: usize = 256;

/// Replacement of texts beyond [`MAX_CHANNELS`].
const OVERFLOW_LABEL: &str = "[REDACTED]";

/// Masks secrets in one response.
#[derive(Debug)]
pub(super) struct ResponseRedactor {
    redact: Redact,
    /// Format that the request expects of the text.
    format: ResponseFormat,
    channels: HashMap<TextChannel, MaskedChannel>,
    /// Candidates with a secret in their text or thoughts.
    masked_candidates: EditedCandidates,
    found: FoundDetectors,
    /// Number of detectors in `found` that were reported as effects.
    reported: usize,
}

/// A text that arrives in pieces.
#[derive(Debug)]
struct MaskedChannel {
    masker: Masker,
    /// Position in a text that is JSON.
    json: Option<JsonPosition>,
}

impl MaskedChannel {
    fn new(redact: &Redact, format: ResponseFormat, stream: &TextStream) -> Self {
        let is_json = format == ResponseFormat::Json && *stream == TextStream::Speech;
        Self {
            masker: redact.mask.stream(),
            json: is_json.then(JsonPosition::default),
        }
    }

    fn mask(&mut self, piece: &str, rest: TextRest) -> String {
        let mut masked = self.masker.push(piece);
        if rest == TextRest::None {
            masked.push_str(&self.masker.finish());
        }
        self.quote_labels(masked, rest)
    }

    /// Ends a text that the next one may continue. Returns what is held back.
    fn release(&mut self) -> String {
        let masked = self.masker.release();
        self.quote_labels(masked, TextRest::None)
    }

    fn quote_labels(&mut self, masked: String, rest: TextRest) -> String {
        let Some(position) = &mut self.json else {
            return masked;
        };
        let mut quoted = position.quote_labels(&masked);
        if rest == TextRest::None {
            quoted.push_str(&position.finish());
        }
        quoted
    }

    fn held(&self) -> usize {
        self.masker.held() + self.json.as_ref().map_or(0, JsonPosition::held)
    }
}

impl ResponseRedactor {
    pub(super) fn new(redact: Redact, format: ResponseFormat) -> Self {
        Self {
            redact,
            format,
            channels: HashMap::new(),
            masked_candidates: EditedCandidates::default(),
            found: FoundDetectors::new(),
            reported: 0,
        }
    }

    /// Returns whether the texts of a stream are searched.
    fn searches(&self, stream: &TextStream) -> bool {
        let scope = match stream {
            TextStream::Speech | TextStream::Thought => RedactionScope::Answer,
            TextStream::Argument(_) => RedactionScope::ToolCalls,
        };
        self.redact.on.contains(&scope)
    }

    fn note_found(&mut self, channel: &TextChannel, found: Vec<Arc<str>>) {
        let is_argument = matches!(channel.stream, TextStream::Argument(_));
        if !is_argument && !found.is_empty() {
            self.masked_candidates.insert(channel.candidate);
        }
        self.found.extend(found);
    }
}

impl ResponsePolicy for ResponseRedactor {
    fn chunk(&mut self, chunk: &mut ResponseDocument, position: ChunkPosition) -> PolicyResult {
        let rest = match position {
            ChunkPosition::Last => TextRest::None,
            ChunkPosition::Chunk => TextRest::MayFollow,
        };
        chunk.edit_texts(self, rest)?;
        self.masked_candidates.remove_copies(chunk)?;
        Ok(self.redact.output(&self.found))
    }

    /// Reports each detector once per response.
    fn take_effects(&mut self) -> PolicyEffects {
        let found = self.found.len();
        let reported = std::mem::replace(&mut self.reported, found);
        PolicyEffects {
            edited: found > reported,
            refused: Vec::new(),
        }
    }

    fn held_bytes(&self) -> usize {
        self.channels.values().map(MaskedChannel::held).sum()
    }

    fn joins_text(&self, rest: &str, next: NextText<'_>) -> Option<bool> {
        let channel = TextChannel {
            candidate: 0,
            stream: TextStream::Speech,
        };
        if !self.searches(&channel.stream) {
            return Some(false);
        }
        match self.channels.get(&channel) {
            Some(text) => text.masker.joins(rest, next),
            None => self.redact.mask.stream().joins(rest, next),
        }
    }

    fn end(&mut self) -> Result<Option<(ResponseDocument, HookOutput)>, DialectError> {
        let held_back = ResponseDocument::from_held_back(self)?;
        Ok(held_back.map(|chunk| (chunk, self.redact.output(&self.found))))
    }
}

impl ResponseTextEditor for ResponseRedactor {
    fn edit_piece(&mut self, channel: &TextChannel, text: &str, rest: TextRest) -> Option<String> {
        if !self.searches(&channel.stream) {
            return None;
        }
        let is_full = self.channels.len() >= MAX_CHANNELS;
        let masked = match self.channels.entry(channel.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if is_full => return Some(OVERFLOW_LABEL.to_owned()),
            Entry::Vacant(entry) => {
                let masked = MaskedChannel::new(&self.redact, self.format, &channel.stream);
                entry.insert(masked)
            }
        };
        let edited = masked.mask(text, rest);
        let found = masked.masker.found();
        self.note_found(channel, found);
        if rest == TextRest::None {
            self.channels.remove(channel);
        }
        (edited != text).then_some(edited)
    }

    fn edit_joined(&mut self, channel: &TextChannel, texts: &mut [String]) -> bool {
        if self.channels.contains_key(channel) {
            return false;
        }
        let (redact, found) = (&self.redact, &mut self.found);
        if !redact.redact_joined(RedactionScope::Answer, texts, found) {
            return true;
        }
        self.masked_candidates.insert(channel.candidate);
        if let Some(position) = &mut MaskedChannel::new(redact, self.format, &channel.stream).json {
            for text in texts.iter_mut() {
                *text = position.quote_labels(text);
            }
            if let Some(last) = texts.last_mut() {
                last.push_str(&position.finish());
            }
        }
        true
    }

    fn end_text(&mut self, channel: &TextChannel) {
        if let Some(text) = self.channels.get_mut(channel) {
            text.masker.end_text();
        }
    }

    fn release_text(&mut self, channel: &TextChannel) -> Option<String> {
        let text = self.channels.get_mut(channel)?;
        let released = text.release();
        let found = text.masker.found();
        self.note_found(channel, found);
        (!released.is_empty()).then_some(released)
    }

    fn edit(&mut self, kind: TextKind, text: &str) -> Option<String> {
        let speech = RedactionScope::Answer;
        self.redact.redact_kind(kind, speech, text, &mut self.found)
    }

    fn open_channels(&self, candidate: Option<u64>) -> Vec<TextChannel> {
        let channels = self.channels.keys();
        let channels =
            channels.filter(|channel| candidate.is_none_or(|index| channel.candidate == index));
        let mut channels: Vec<TextChannel> = channels.cloned().collect();
        channels.sort();
        channels
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::{self, Api};

    const KEY: &str = "AKIAIOSFODNN7EXAMPLE";

    /// Returns a whole answer as an agent receives it.
    fn masked(api: Api, on: &str, answer: &Value) -> String {
        let settings = json!({ "detect": ["aws_key"], "on": [on] });
        let redact = serde_json::from_value(settings).unwrap();
        let mut redactor = ResponseRedactor::new(redact, ResponseFormat::Text);
        let dialect = dialect::of(api);
        let mut document = dialect.open_response(answer.to_string().into()).unwrap();
        document.edit_texts(&mut redactor, TextRest::None).unwrap();
        let closed = dialect.close_response(&document).unwrap();
        String::from_utf8(closed.to_vec()).unwrap()
    }

    #[test]
    fn calls_and_results_of_tools_that_the_api_runs_are_searched() {
        let result = json!({ "type": "mcp_tool_result", "tool_use_id": "m", "is_error": false,
            "content": [{ "type": "text", "text": KEY }] });
        let call = json!({ "type": "mcp_call", "id": "m", "name": "read", "server_label": "s",
            "arguments": "{}", "output": KEY });
        let parts = json!([{ "toolResponse": { "id": "t", "response": { "text": KEY } } }]);
        let answers = [
            (
                Api::Anthropic,
                json!({ "id": "m", "type": "message", "role": "assistant", "model": "m",
                    "content": [result], "stop_reason": "end_turn", "usage": {} }),
            ),
            (
                Api::OpenAiResponses,
                json!({ "id": "r", "status": "completed", "model": "m", "output": [call] }),
            ),
            (
                Api::Gemini,
                json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] }),
            ),
        ];
        for (api, answer) in answers {
            let sent = masked(api, "tool_results", &answer);
            assert!(!sent.contains(KEY), "{sent}");
            let sent = masked(api, "request", &answer);
            assert!(sent.contains(KEY), "{sent}");
        }
    }

    #[test]
    fn the_text_of_an_answer_is_no_result() {
        let content = json!({ "role": "model", "parts": [{ "text": KEY }] });
        let answer = json!({ "candidates": [{ "content": content }] });
        assert!(masked(Api::Gemini, "tool_results", &answer).contains(KEY));
    }

    #[test]
    fn a_masked_number_of_a_json_answer_is_a_string() {
        let settings = json!({ "detect": ["card", "email"] });
        let redact: Redact = serde_json::from_value(settings).unwrap();
        let text = r#"{"who": "a@b.com", "card": 4111111111111111, "n": 5}"#;
        for size in [1, 6, text.len()] {
            let masked = |format: ResponseFormat| -> String {
                let mut redactor = ResponseRedactor::new(redact.clone(), format);
                let channel = TextChannel {
                    candidate: 0,
                    stream: TextStream::Speech,
                };
                let pieces = text.as_bytes().chunks(size);
                let pieces = pieces.map(|piece| std::str::from_utf8(piece).unwrap());
                let mut edit = |piece: &str, rest: TextRest| {
                    let edited = redactor.edit_piece(&channel, piece, rest);
                    edited.unwrap_or_else(|| piece.to_owned())
                };
                let pieces: String = pieces
                    .map(|piece| edit(piece, TextRest::MayFollow))
                    .collect();
                pieces + &edit("", TextRest::None)
            };
            let json: Value = serde_json::from_str(&masked(ResponseFormat::Json)).unwrap();
            let expected = json!({ "who": "[REDACTED:email]", "card": "[REDACTED:card]", "n": 5 });
            assert_eq!(json, expected, "{size}");
            assert!(masked(ResponseFormat::Text).contains(": [REDACTED:card],"));
        }
    }
}
