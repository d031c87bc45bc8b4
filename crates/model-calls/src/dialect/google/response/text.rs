//! Edits of every text in a response. Texts that arrive in pieces are edited by channel,
//! others one by one.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::dialect::{
    document::Document,
    error::Result,
    google::{
        fields::{CONTENT, FUNCTION_CALL, LOGPROBS, PARTIAL_ARGS, WILL_CONTINUE},
        part::Part,
        part_text::{NAME_FIELDS, edit_fields, edit_other_fields},
        response::{
            candidate::{CandidateDocument, SAFETY_RATINGS},
            document::ResponseDocument,
            envelope::ENVELOPE_FIELDS,
        },
    },
    json_strings::EditText,
    text_edit::{ResponseTextEditor, TextChannel, TextEnd, TextKind, TextRest, TextStream},
};

const JSON_PATH: &[&str] = &["jsonPath", "json_path"];
const STRING_VALUE: &[&str] = &["stringValue", "string_value"];
const NUMBER_VALUE: &[&str] = &["numberValue", "number_value"];

/// Fields of a candidate that hold no text, or are edited otherwise.
pub const CANDIDATE_FIELDS: &[&str] = &[
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

/// Fields of a response that hold no text, or are edited otherwise. Others are errors,
/// feedback and fields that hookgate does not interpret.
pub const RESPONSE_FIELDS: &[&str] = &[
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

/// Fields of a content that hold no text, or are edited otherwise.
pub const CONTENT_FIELDS: &[&str] = &["parts", "role"];

/// Fields of the rating of a candidate that hold no text.
pub const RATING_FIELDS: &[&str] = &[
    "blocked",
    "category",
    "probability",
    "probabilityScore",
    "probability_score",
    "severity",
    "severityScore",
    "severity_score",
];

impl ResponseDocument {
    /// Edits every text. With [`TextRest::None`], for a whole response or its last chunk, the
    /// editor holds nothing back.
    pub fn edit_texts(
        &mut self,
        editor: &mut dyn ResponseTextEditor,
        rest: TextRest,
    ) -> Result<()> {
        if let (Some(text), TextRest::MayFollow) = (&mut self.text, rest) {
            text.edit_text(editor);
            return Ok(());
        }
        self.make_parsed()?;
        let ended_stream = match self.text_end() {
            TextEnd::None | TextEnd::Joined => None,
            TextEnd::Possible => Some(TextStream::Speech),
            TextEnd::Certain => Some(TextStream::Thought),
        };
        let is_ordered = self.wire.is_none();
        for candidate in &mut self.candidates {
            let is_ended = candidate.is_ended || rest == TextRest::None;
            let candidate_editor = CandidateEditor {
                index: candidate.index,
                editor: &mut *editor,
                is_ended,
                ended_stream: ended_stream.clone().filter(|_| candidate.index == 0),
                is_ordered,
                is_edited: false,
            };
            candidate.edit_texts(candidate_editor)?;
        }
        if self.text_end() == TextEnd::Joined {
            editor.end_text(&TextChannel {
                candidate: 0,
                stream: TextStream::Speech,
            });
        }
        self.update_candidates()?;
        if rest == TextRest::None
            && let Some(held_back) = Self::from_held_back(editor)?
        {
            // Text of candidates that are not in this chunk.
            self.append_candidates(held_back.candidates)?;
        }
        self.document.remove(LOGPROBS)?;
        let mut edit = |text: &str| editor.edit(TextKind::Speech, text);
        edit_other_fields(&mut self.document, RESPONSE_FIELDS, &mut edit)?;
        match &mut self.envelope {
            Some(envelope) => edit_other_fields(envelope, ENVELOPE_FIELDS, &mut edit),
            None => Ok(()),
        }
    }

    /// Replaces the one text of a chunk. It is an edit, so that it is spliced into what the chunk
    /// was read from.
    pub(super) fn replace_text(&mut self, text: &str) -> Result<()> {
        for candidate in &mut self.candidates {
            let parts = candidate.parts().iter();
            let parts = parts.map(|part| match part.text {
                Some(_) => part.with_text(text),
                None => Ok(part.clone()),
            });
            let parts = parts.collect::<Result<_, _>>()?;
            candidate.set_parts(parts)?;
        }
        self.update_candidates()
    }

    /// Creates a chunk of all held-back text; `None` if there is none.
    pub fn from_held_back(editor: &mut dyn ResponseTextEditor) -> Result<Option<Self>> {
        let channels = editor.open_channels(None);
        let candidates = channels.iter().filter_map(|channel| {
            let text = editor.edit_piece(channel, "", TextRest::None)?;
            let part = text_part(&channel.stream, &text)?;
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

/// Returns a part with held-back text. The rest of an argument is lost with its call.
fn text_part(stream: &TextStream, text: &str) -> Option<Value> {
    match stream {
        TextStream::Speech => Some(json!({ "text": text })),
        TextStream::Thought => Some(json!({ "text": text, "thought": true })),
        TextStream::Argument(_) => None,
    }
}

impl CandidateDocument {
    fn edit_texts(&mut self, mut candidate: CandidateEditor<'_>) -> Result<()> {
        let mut parts = match &mut self.content {
            Some(content) => std::mem::take(&mut content.parts),
            None => Vec::new(),
        };
        candidate.edit_parts(&mut parts)?;
        if candidate.is_edited {
            self.set_parts(parts)?;
        } else if let Some(content) = &mut self.content {
            content.parts = parts;
        }
        self.document.remove(LOGPROBS)?;
        let editor = candidate.editor;
        let mut edit = |text: &str| editor.edit(TextKind::Speech, text);
        self.edit_content_fields(&mut edit)?;
        self.document.edit_children(SAFETY_RATINGS, |rating| {
            edit_other_fields(rating, RATING_FIELDS, &mut edit)
        })?;
        edit_other_fields(&mut self.document, CANDIDATE_FIELDS, &mut edit)
    }

    /// Edits the fields of the content that hookgate does not interpret.
    fn edit_content_fields(&mut self, edit: EditText<'_>) -> Result<()> {
        let Some(content) = &mut self.content else {
            return Ok(());
        };
        let document = &mut content.document;
        if document.has_only(CONTENT_FIELDS) {
            return Ok(());
        }
        edit_other_fields(document, CONTENT_FIELDS, edit)?;
        self.document.set_child(CONTENT, document)
    }
}

/// Edits the texts of one candidate.
///
/// A part that does not continue the text of a stream ends it: what is held back of it is written
/// in front of the part, and the next text is searched by itself and as its rest. Readers mark
/// these parts, or the chunk with which a text ends. Chunks of Google's APIs have no marks: there,
/// every part of another kind ends a text.
struct CandidateEditor<'a> {
    index: u64,
    editor: &'a mut dyn ResponseTextEditor,
    /// True if all texts end with the chunk.
    is_ended: bool,
    /// The stream whose text ends with the chunk.
    ended_stream: Option<TextStream>,
    /// True if the parts have no marks, since they are as the API sent them.
    is_ordered: bool,
    is_edited: bool,
}

impl CandidateEditor<'_> {
    fn edit_parts(&mut self, parts: &mut Vec<Part>) -> Result<()> {
        for part in parts.iter_mut() {
            self.edit_fields(&mut part.document)?;
        }
        let mut in_pieces = Vec::new();
        for stream in [TextStream::Speech, TextStream::Thought] {
            if !self.ends(&stream) || !self.edit_joined(parts, &stream)? {
                in_pieces.push(stream);
            }
        }
        self.edit_pieces(parts, &in_pieces)?;
        self.end_texts(parts)?;
        self.is_edited |= parts.iter().any(|part| part.document.is_edited());
        Ok(())
    }

    /// Edits the only texts of a stream. Returns false if pieces came before.
    fn edit_joined(&mut self, parts: &mut [Part], stream: &TextStream) -> Result<bool> {
        let of_stream = |part: &&mut Part| part.text.is_some() && stream_of(part) == *stream;
        let mut parts: Vec<&mut Part> = parts.iter_mut().filter(of_stream).collect();
        let texts = parts.iter().filter_map(|part| part.text.clone());
        let mut texts: Vec<String> = texts.collect();
        let channel = self.channel(stream.clone());
        if texts.is_empty() || !self.editor.edit_joined(&channel, &mut texts) {
            return Ok(false);
        }
        for (part, text) in parts.iter_mut().zip(texts) {
            if part.text.as_ref() != Some(&text) {
                **part = part.with_text(&text)?;
            }
        }
        Ok(true)
    }

    /// Edits the texts of streams as the next pieces of these.
    fn edit_pieces(&mut self, parts: &mut Vec<Part>, streams: &[TextStream]) -> Result<()> {
        let mut edited = Vec::with_capacity(parts.len());
        let mut begun = BTreeSet::new();
        for part in parts.drain(..) {
            for stream in streams {
                if self.is_ended_by(&part, stream)
                    && let Some(rest) = self.editor.release_text(&self.channel(stream.clone()))
                {
                    let end = edited.len();
                    self.write_rest(&mut edited, end, stream, &rest)?;
                }
            }
            let stream = stream_of(&part);
            let text = part.text.as_deref().filter(|_| streams.contains(&stream));
            let Some(text) = text else {
                edited.push(part);
                continue;
            };
            let channel = self.channel(stream);
            if self.ends(&channel.stream) && !begun.insert(channel.clone()) {
                self.editor.end_text(&channel);
            }
            let new = self.editor.edit_piece(&channel, text, TextRest::MayFollow);
            edited.push(match new {
                Some(new) => part.with_text(&new)?,
                None => part,
            });
        }
        *parts = edited;
        Ok(())
    }

    /// Returns whether the text of a stream ends in front of a part.
    fn is_ended_by(&self, part: &Part, stream: &TextStream) -> bool {
        if self.is_ordered {
            return !part.is_blank() && (part.text.is_none() || stream_of(part) != *stream);
        }
        part.starts_text() && *stream == TextStream::Speech
    }

    /// Returns whether the text of a stream ends with the chunk.
    fn ends(&self, stream: &TextStream) -> bool {
        self.is_ended || self.ended_stream.as_ref() == Some(stream)
    }

    /// Ends the texts that end with the chunk.
    fn end_texts(&mut self, parts: &mut Vec<Part>) -> Result<()> {
        if !self.is_ended && self.ended_stream.is_none() {
            return Ok(());
        }
        for channel in self.editor.open_channels(Some(self.index)).iter().rev() {
            if self.ends(&channel.stream)
                && let Some(rest) = self.editor.edit_piece(channel, "", TextRest::None)
            {
                self.write_rest(parts, 0, &channel.stream, &rest)?;
            }
        }
        Ok(())
    }

    /// Appends held-back text to the last part of its stream, or inserts it.
    fn write_rest(
        &mut self,
        parts: &mut Vec<Part>,
        at: usize,
        stream: &TextStream,
        rest: &str,
    ) -> Result<()> {
        let is_of_stream = |part: &&mut Part| part.text.is_some() && stream_of(part) == *stream;
        if let Some(part) = parts.iter_mut().rev().find(is_of_stream) {
            let text = part.text.as_deref().unwrap_or_default();
            *part = part.with_text(&format!("{text}{rest}"))?;
        } else if let Some(part) = text_part(stream, rest) {
            parts.insert(at, Part::from_json(&part)?);
            self.is_edited = true;
        }
        Ok(())
    }

    fn edit_fields(&mut self, part: &mut Document) -> Result<()> {
        // Most parts hold a text only.
        if part.has_only(&["text"]) {
            return Ok(());
        }
        let except = [NAME_FIELDS, PARTIAL_ARGS].concat();
        let editor = &mut *self.editor;
        edit_fields(part, &except, &mut |kind, text| editor.edit(kind, text))?;
        part.edit_child(FUNCTION_CALL, |call| {
            call.edit_children(PARTIAL_ARGS, |piece| self.edit_partial_argument(piece))
        })
    }

    fn edit_partial_argument(&mut self, piece: &mut Document) -> Result<()> {
        if let Some(number @ Value::Number(_)) = piece.get(NUMBER_VALUE)?
            && let Some(text) = self.editor.edit(TextKind::ToolCall, &number.to_string())
        {
            piece.remove(NUMBER_VALUE)?;
            piece.set(STRING_VALUE, &json!(text))?;
        } else if let Some(text) = piece.string(STRING_VALUE)? {
            let path = piece.string(JSON_PATH)?.unwrap_or_default();
            let channel = self.channel(TextStream::Argument(path));
            let rest = match piece.get(WILL_CONTINUE)? {
                Some(Value::Bool(true)) => TextRest::MayFollow,
                _ => TextRest::None,
            };
            if let Some(new) = self.editor.edit_piece(&channel, &text, rest) {
                piece.set(STRING_VALUE, &json!(new))?;
            }
        }
        let mut edit = |text: &str| self.editor.edit(TextKind::ToolCall, text);
        edit_other_fields(piece, STRING_VALUE, &mut edit)
    }

    fn channel(&self, stream: TextStream) -> TextChannel {
        TextChannel {
            candidate: self.index,
            stream,
        }
    }
}

/// Returns the stream that a part's text belongs to.
pub fn stream_of(part: &Part) -> TextStream {
    if part.is_thought {
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
    struct Late(BTreeMap<String, (TextChannel, String)>);

    impl ResponseTextEditor for Late {
        fn edit_piece(
            &mut self,
            channel: &TextChannel,
            text: &str,
            rest: TextRest,
        ) -> Option<String> {
            let name = format!("{channel:?}");
            let held = self.0.remove(&name).map_or_else(String::new, |held| held.1);
            let mut all_text = held + text;
            if rest == TextRest::MayFollow
                && let Some(last) = all_text.pop()
            {
                let held = (channel.clone(), last.to_string());
                self.0.insert(name, held);
            }
            Some(all_text)
        }

        fn edit(&mut self, _kind: TextKind, text: &str) -> Option<String> {
            text.contains('s').then(|| text.replace('s', "*"))
        }

        fn open_channels(&self, candidate: Option<u64>) -> Vec<TextChannel> {
            let all = self.0.values().map(|held| held.0.clone());
            all.filter(|channel| candidate.is_none_or(|one| channel.candidate == one))
                .collect()
        }
    }

    #[track_caller]
    fn check(editor: &mut Late, chunk: &str, expected: &str) {
        check_with(editor, TextRest::MayFollow, chunk, expected);
    }

    #[track_caller]
    fn check_with(editor: &mut Late, rest: TextRest, chunk: &str, expected: &str) {
        let mut document = ResponseDocument::parse(chunk.to_owned().into()).unwrap();
        document.edit_texts(editor, rest).unwrap();
        assert_eq!(document.to_bytes(), expected);
    }

    #[test]
    fn each_text_is_released_in_front_of_the_part_that_ends_it() {
        let mut editor = Late::default();
        check(
            &mut editor,
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"ab"},{"text":"th","thought":true,"thoughtSignature":"ss"}]}}],"usageMetadata":{"n":1.0}}"#,
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"ab"},{"text":"t","thought":true,"thoughtSignature":"ss"}]}}],"usageMetadata":{"n":1.0}}"#,
        );
        check(
            &mut editor,
            r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"ss","args":{"a":"ss"}}}]},"logprobsResult":{}}]}"#,
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"h","thought":true},{"functionCall":{"name":"ss","args":{"a":"**"}}}]}}]}"#,
        );
        check_with(
            &mut editor,
            TextRest::None,
            r#"{"candidates":[{"content":{"parts":[{"text":"cd"}]},"finishReason":"STOP","groundingMetadata":{"q":["s"]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"cd"}]},"finishReason":"STOP","groundingMetadata":{"q":["*"]}}]}"#,
        );
        assert!(
            ResponseDocument::from_held_back(&mut editor)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn unknown_fields_of_every_object_are_edited() {
        check_with(
            &mut Late::default(),
            TextRest::None,
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}],"new":"s"},"safetyRatings":[{"category":"s","new":"s"}],"new":"s"}],"new":"s"}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}],"new":"*"},"safetyRatings":[{"category":"s","new":"*"}],"new":"*"}],"new":"*"}"#,
        );
    }

    #[test]
    fn fields_with_a_matching_name_are_removed() {
        check_with(
            &mut Late::default(),
            TextRest::None,
            r#"{"candidates":[{"content":{"parts":[{"s":1,"functionCall":{"name":"f","args":{},"s":1}}],"s":1},"s":"a"}],"s":[1],"new":1}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]}}],"new":1}"#,
        );
    }

    #[test]
    fn unknown_fields_of_media_are_edited() {
        check(
            &mut Late::default(),
            r#"{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"s","data":"s","new":{"k":["s"]}}}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"s","data":"s","new":{"k":["*"]}}}]}}]}"#,
        );
    }

    #[test]
    fn a_candidate_that_ends_without_content_releases_held_text() {
        let mut editor = Late::default();
        check(
            &mut editor,
            r#"{"candidates":[{"index":1,"content":{"parts":[{"text":"x"}]}}]}"#,
            r#"{"candidates":[{"index":1,"content":{"parts":[{"text":""}]}}]}"#,
        );
        check_with(
            &mut editor,
            TextRest::None,
            r#"{"candidates":[{"index":1,"finishReason":"STOP"}]}"#,
            r#"{"candidates":[{"index":1,"finishReason":"STOP","content":{"role":"model","parts":[{"text":"x"}]}}]}"#,
        );
    }

    #[test]
    fn a_stream_that_breaks_off_releases_held_text() {
        let mut editor = Late::default();
        check(
            &mut editor,
            r#"{"candidates":[{"content":{"parts":[{"text":"xy"}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}"#,
        );

        let held = ResponseDocument::from_held_back(&mut editor)
            .unwrap()
            .unwrap();

        assert_eq!(
            held.to_bytes(),
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"y"}]},"index":0}]}"#
        );
    }

    #[test]
    fn a_partial_argument_is_a_channel() {
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
