//! Every text of an answer, and edits of it: texts that come in pieces by the
//! channel that they come in, all others one by one. Pure.

use serde_json::{Value, json};

use super::{
    DialectError, Document, ResponseDocument, TextKind,
    contents::Content,
    part::{FUNCTION_CALL, PARTIAL, Part, WILL_CONTINUE},
    request_text,
    response::{CANDIDATES, CandidateDocument},
};

/// Where the pieces of one text come.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel {
    /// Which candidate says it.
    pub candidate: u64,
    /// Which of its texts.
    pub stream: TextStream,
}

/// Texts of a candidate that come in pieces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextStream {
    /// What it says.
    Speech,
    /// What it thinks.
    Thought,
    /// One argument of a call that comes in pieces, by its path.
    Argument(String),
}

/// Whether more of a text may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// More may come: the end may be held back.
    MayCome,
    /// This was the last piece.
    None,
}

/// Who edits the texts of an answer.
pub trait AnswerEditor {
    /// The next piece of a text: what to say instead, if anything.
    fn piece(&mut self, channel: &Channel, text: &str, rest: Rest) -> Option<String>;

    /// A text that stands alone: what to put in its place, if anything.
    fn alone(&mut self, kind: TextKind, text: &str) -> Option<String>;

    /// The channels of a candidate, or of all, that hold something back.
    fn holding(&self, candidate: Option<u64>) -> Vec<Channel>;
}

/// Tokens with their likelihoods: every text once more, cut in small pieces.
const LOGPROBS: &[&str] = &["logprobsResult", "logprobs_result"];
const JSON_PATH: &[&str] = &["jsonPath", "json_path"];
const STRING_VALUE: &[&str] = &["stringValue", "string_value"];
const NUMBER_VALUE: &[&str] = &["numberValue", "number_value"];

/// Fields of a candidate that are no text of it, or edited otherwise.
pub(super) const CANDIDATE: &[&str] = &[
    "content",
    "finishReason",
    "finish_reason",
    "index",
    "safetyRatings",
    "safety_ratings",
    "avgLogprobs",
    "avg_logprobs",
    "tokenCount",
    "token_count",
];

/// The same of an answer. What is left is errors, feedback and news of the API.
pub(super) const ANSWER: &[&str] = &[
    "candidates",
    "usageMetadata",
    "usage_metadata",
    "modelVersion",
    "model_version",
    "responseId",
    "response_id",
    "createTime",
    "create_time",
];

impl ResponseDocument {
    /// Lets `editor` edit every text. Of a whole answer, or its last chunk,
    /// nothing is held back.
    pub fn edit_texts(
        &mut self,
        editor: &mut dyn AnswerEditor,
        rest: Rest,
    ) -> Result<(), DialectError> {
        for candidate in &mut self.candidates {
            candidate.edit_texts(editor, rest)?;
        }
        self.put_candidates()?;
        if rest == Rest::None {
            self.say_held(editor)?;
        }
        request_text::edit_others(&mut self.document, ANSWER, &mut |text| {
            editor.alone(TextKind::Speech, text)
        })
    }

    /// What is held back of candidates that are not in this chunk.
    fn say_held(&mut self, editor: &mut dyn AnswerEditor) -> Result<(), DialectError> {
        let Some(held) = Self::of_held(editor)? else {
            return Ok(());
        };
        self.candidates.extend(held.candidates);
        let all = self.candidates.iter().map(|it| it.document.clone());
        let all: Vec<Document> = all.collect();
        self.document.set_children(CANDIDATES, &all)
    }

    /// A chunk that says what is still held back; none if nothing is.
    pub fn of_held(editor: &mut dyn AnswerEditor) -> Result<Option<Self>, DialectError> {
        let channels = editor.holding(None);
        let candidates = channels.iter().filter_map(|channel| {
            let text = editor.piece(channel, "", Rest::None)?;
            let part = part_saying(&channel.stream, &text)?;
            let content = json!({ "role": "model", "parts": [part] });
            Some(json!({ "content": content, "index": channel.candidate }))
        });
        let candidates: Vec<Value> = candidates.collect();
        if candidates.is_empty() {
            return Ok(None);
        }
        let chunk = json!({ "candidates": candidates });
        Self::parse(chunk.to_string().into()).map(Some)
    }
}

/// What an argument's rest belongs to is gone with its call.
fn part_saying(stream: &TextStream, text: &str) -> Option<Value> {
    match stream {
        TextStream::Speech => Some(json!({ "text": text })),
        TextStream::Thought => Some(json!({ "text": text, "thought": true })),
        TextStream::Argument(_) => None,
    }
}

impl CandidateDocument {
    fn edit_texts(
        &mut self,
        editor: &mut dyn AnswerEditor,
        rest: Rest,
    ) -> Result<(), DialectError> {
        let mut speaker = Speaker {
            candidate: self.number,
            editor,
            rest,
            edited: false,
        };
        let mut parts = match &mut self.content {
            Some(content) => std::mem::take(&mut content.parts),
            None => Vec::new(),
        };
        let done = speaker.parts(&mut parts);
        let edited = speaker.edited;
        match &mut self.content {
            Some(content) => content.parts = parts,
            None if edited => self.content = Some(empty_content()?.with_parts(parts)?),
            None => (),
        }
        done?;
        if edited && let Some(mut content) = self.content.take() {
            let parts = std::mem::take(&mut content.parts);
            self.put_content(content.with_parts(parts)?)?;
        }
        self.edit_others(editor)
    }

    /// Whatever else a candidate brings, such as where it has something from.
    fn edit_others(&mut self, editor: &mut dyn AnswerEditor) -> Result<(), DialectError> {
        self.document.remove(LOGPROBS)?;
        request_text::edit_others(&mut self.document, CANDIDATE, &mut |text| {
            editor.alone(TextKind::Speech, text)
        })
    }
}

fn empty_content() -> Result<Content, DialectError> {
    let empty = json!({ "role": "model", "parts": [] });
    Content::read(Document::split(empty.to_string().into())?)
}

/// One candidate while it speaks.
struct Speaker<'a> {
    candidate: u64,
    editor: &'a mut dyn AnswerEditor,
    rest: Rest,
    edited: bool,
}

impl Speaker<'_> {
    fn parts(&mut self, parts: &mut Vec<Part>) -> Result<(), DialectError> {
        for part in parts.iter_mut() {
            self.text(part)?;
            self.fields(&mut part.document)?;
        }
        if self.rest == Rest::None {
            self.finish(parts)?;
        }
        Ok(())
    }

    fn text(&mut self, part: &mut Part) -> Result<(), DialectError> {
        let Some(text) = &part.text else {
            return Ok(());
        };
        let channel = self.channel(stream_of(part));
        if let Some(new) = self.editor.piece(&channel, text, Rest::MayCome) {
            *part = part.saying(&new)?;
            self.edited = true;
        }
        Ok(())
    }

    /// What was held back is said where its text ended, or before all that came
    /// after it.
    fn finish(&mut self, parts: &mut Vec<Part>) -> Result<(), DialectError> {
        let mut before = Vec::new();
        for channel in self.editor.holding(Some(self.candidate)) {
            let Some(rest) = self.editor.piece(&channel, "", Rest::None) else {
                continue;
            };
            let same = |it: &&mut Part| it.text.is_some() && stream_of(it) == channel.stream;
            if let Some(part) = parts.iter_mut().rev().find(same) {
                let said = part.text.as_deref().unwrap_or_default();
                *part = part.saying(&format!("{said}{rest}"))?;
            } else if let Some(part) = part_saying(&channel.stream, &rest) {
                let part = Document::split(part.to_string().into())?;
                before.push(Part::read(part)?);
            }
            self.edited = true;
        }
        parts.splice(..0, before);
        Ok(())
    }

    fn fields(&mut self, part: &mut Document) -> Result<(), DialectError> {
        // Most parts are a text, and nothing else.
        if part.fields().all(|it| it.0 == "text") {
            return Ok(());
        }
        let editor = &mut *self.editor;
        let but = [request_text::NAMES, PARTIAL].concat();
        request_text::edit_fields(part, &but, &mut |kind, text| editor.alone(kind, text))?;
        if let Some(mut call) = part.child(FUNCTION_CALL)? {
            self.partial_arguments(&mut call)?;
            if call.is_edited() {
                part.set_child(FUNCTION_CALL, &call)?;
            }
        }
        self.edited |= part.is_edited();
        Ok(())
    }

    /// Arguments that come in pieces.
    fn partial_arguments(&mut self, call: &mut Document) -> Result<(), DialectError> {
        let Some(mut pieces) = call.children(PARTIAL)? else {
            return Ok(());
        };
        for piece in &mut pieces {
            self.partial_argument(piece)?;
        }
        if pieces.iter().any(Document::is_edited) {
            call.set_children(PARTIAL, &pieces)?;
        }
        Ok(())
    }

    fn partial_argument(&mut self, piece: &mut Document) -> Result<(), DialectError> {
        if let Some(number @ Value::Number(_)) = piece.get(NUMBER_VALUE)? {
            let label = self.editor.alone(TextKind::ToolCall, &number.to_string());
            if let Some(label) = label {
                piece.remove(NUMBER_VALUE)?;
                return piece.set(STRING_VALUE, &json!(label));
            }
        }
        let Some(text) = piece.string(STRING_VALUE)? else {
            return Ok(());
        };
        let path = piece.string(JSON_PATH)?.unwrap_or_default();
        let channel = self.channel(TextStream::Argument(path));
        let more = piece.get(WILL_CONTINUE)? == Some(Value::Bool(true));
        let rest = if more { Rest::MayCome } else { Rest::None };
        if let Some(new) = self.editor.piece(&channel, &text, rest) {
            piece.set(STRING_VALUE, &json!(new))?;
        }
        Ok(())
    }

    fn channel(&self, stream: TextStream) -> Channel {
        Channel {
            candidate: self.candidate,
            stream,
        }
    }
}

fn stream_of(part: &Part) -> TextStream {
    if part.thought {
        TextStream::Thought
    } else {
        TextStream::Speech
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Holds every text back by one character, and puts `*` for `s` elsewhere.
    #[derive(Default)]
    struct Late(BTreeMap<String, (Channel, String)>);

    impl AnswerEditor for Late {
        fn piece(&mut self, channel: &Channel, text: &str, rest: Rest) -> Option<String> {
            let name = format!("{channel:?}");
            let held = self.0.remove(&name).map_or_else(String::new, |it| it.1);
            let mut said = held + text;
            if rest == Rest::MayCome
                && let Some(last) = said.pop()
            {
                let held = (channel.clone(), last.to_string());
                self.0.insert(name, held);
            }
            Some(said)
        }

        fn alone(&mut self, _kind: TextKind, text: &str) -> Option<String> {
            text.contains('s').then(|| text.replace('s', "*"))
        }

        fn holding(&self, candidate: Option<u64>) -> Vec<Channel> {
            let all = self.0.values().map(|it| it.0.clone());
            all.filter(|it| candidate.is_none_or(|one| it.candidate == one))
                .collect()
        }
    }

    #[track_caller]
    fn check(editor: &mut Late, chunk: &str, expected: &str) {
        check_with(editor, Rest::MayCome, chunk, expected);
    }

    #[track_caller]
    fn check_with(editor: &mut Late, rest: Rest, chunk: &str, expected: &str) {
        let mut document = ResponseDocument::parse(chunk.to_owned().into()).unwrap();
        document.edit_texts(editor, rest).unwrap();
        assert_eq!(document.to_bytes(), expected);
    }

    #[test]
    fn each_channel_holds_its_own_and_says_it_at_the_end() {
        let mut editor = Late::default();
        check(
            &mut editor,
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"ab"},{"text":"th","thought":true,"thoughtSignature":"ss"}]}}],"usageMetadata":{"n":1.0}}"#,
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"a"},{"text":"t","thought":true,"thoughtSignature":"ss"}]}}],"usageMetadata":{"n":1.0}}"#,
        );
        check(
            &mut editor,
            r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"ss","args":{"a":"ss"}}}]},"logprobsResult":{}}]}"#,
            r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"ss","args":{"a":"**"}}}]}}]}"#,
        );
        check_with(
            &mut editor,
            Rest::None,
            r#"{"candidates":[{"content":{"parts":[{"text":"cd"}]},"finishReason":"STOP","groundingMetadata":{"q":["s"]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"h","thought":true},{"text":"bcd"}]},"finishReason":"STOP","groundingMetadata":{"q":["*"]}}]}"#,
        );
        assert!(ResponseDocument::of_held(&mut editor).unwrap().is_none());
    }

    #[test]
    fn a_candidate_that_ends_without_content_says_what_was_held() {
        let mut editor = Late::default();
        check(
            &mut editor,
            r#"{"candidates":[{"index":1,"content":{"parts":[{"text":"x"}]}}]}"#,
            r#"{"candidates":[{"index":1,"content":{"parts":[{"text":""}]}}]}"#,
        );
        check_with(
            &mut editor,
            Rest::None,
            r#"{"candidates":[{"index":1,"finishReason":"STOP"}]}"#,
            r#"{"candidates":[{"index":1,"finishReason":"STOP","content":{"role":"model","parts":[{"text":"x"}]}}]}"#,
        );
    }

    #[test]
    fn a_stream_that_breaks_off_says_what_was_held() {
        let mut editor = Late::default();
        check(
            &mut editor,
            r#"{"candidates":[{"content":{"parts":[{"text":"xy"}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}"#,
        );

        let held = ResponseDocument::of_held(&mut editor).unwrap().unwrap();

        assert_eq!(
            held.to_bytes(),
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"y"}]},"index":0}]}"#
        );
    }

    #[test]
    fn an_argument_in_pieces_is_a_channel() {
        let mut editor = Late::default();
        check(
            &mut editor,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","partialArgs":[{"jsonPath":"$.a","stringValue":"xy","willContinue":true}]}}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","partialArgs":[{"jsonPath":"$.a","stringValue":"x","willContinue":true}]}}]}}]}"#,
        );
        check(
            &mut editor,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"z"}]}}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"yz"}]}}]}}]}"#,
        );
    }
}
