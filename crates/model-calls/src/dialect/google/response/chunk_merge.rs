//! Merges the chunks of a stream into one response.

use std::collections::{BTreeMap, HashMap, btree_map::Entry};

use bytes::Bytes;
use strict_json::same_field;

use crate::dialect::{
    document::{Document, first_byte, write_array},
    error::Result,
    google::{
        fields::{CANDIDATES, LABELS, LOGPROBS_RESULT},
        part::Part,
        response::{
            candidate::CandidateDocument,
            document::ResponseDocument,
            envelope::ENVELOPE_FIELDS,
            text::{CANDIDATE_FIELDS, CONTENT_FIELDS, RESPONSE_FIELDS},
        },
    },
    text_edit::TextEnd,
};

impl ResponseDocument {
    /// Merges the chunks of a stream into one response: parts and labels in order, the pieces of a
    /// text joined, every other field as in the last chunk. Values that a later chunk replaces are
    /// labels, so that hooks and policies see them.
    ///
    /// # Errors
    ///
    /// Fails if hooks could not see all of a chunk.
    pub fn merge(chunks: Vec<Self>) -> Result<Self> {
        let mut response = MergedFields::new("candidates", RESPONSE_FIELDS);
        let mut envelope: Option<MergedFields> = None;
        let mut candidates: BTreeMap<u64, ChunkMerger> = BTreeMap::new();
        let mut labels = Vec::new();
        let mut end = Vec::new();
        for mut chunk in chunks {
            let chunk = chunk.make_parsed()?;
            let chunk_end = chunk.wire.take().or_else(|| chunk.merged_end.take());
            end = chunk_end.unwrap_or_default();
            labels.append(&mut take_labels(&mut chunk.document)?);
            let ends_text = chunk.text_end() != TextEnd::None;
            let mut replaced = Vec::new();
            for candidate in std::mem::take(&mut chunk.candidates) {
                match candidates.entry(candidate.index) {
                    Entry::Vacant(entry) => drop(entry.insert(ChunkMerger::new(candidate))),
                    Entry::Occupied(mut known) => {
                        replaced.append(&mut known.get_mut().append(candidate));
                    }
                }
            }
            if ends_text && let Some(first) = candidates.get_mut(&0) {
                first.texts.push(Vec::new());
            }
            replaced.append(&mut response.append(&chunk.document));
            if let Some(next) = &chunk.envelope {
                let new = || MergedFields::new("response", ENVELOPE_FIELDS);
                replaced.append(&mut envelope.get_or_insert_with(new).append(next));
            }
            // The labels of another API are in the order of its events.
            if end.is_empty() {
                labels.append(&mut replaced);
            }
        }
        let candidates = candidates.into_values().map(ChunkMerger::finish);
        let candidates: Vec<Document> = candidates.collect::<Result<_, _>>()?;
        let mut response = response.into_document();
        response.set_children(CANDIDATES, &candidates)?;
        if !labels.is_empty() {
            response.set_bytes(LABELS, write_array(labels))?;
        }
        let mut merged = Self::parse(response.to_bytes())?;
        let envelope = envelope.map(|fields| fields.into_document().to_bytes());
        let envelope = envelope.map(Document::from_checked).transpose()?;
        merged.envelope = envelope.map(Box::new);
        merged.merged_end = Some(end);
        Ok(merged)
    }

    /// Returns the response for an agent, without envelope. That of merged chunks loses the values
    /// that later chunks replaced.
    pub(super) fn without_replaced(&self) -> Bytes {
        if self.merged_end.is_none() {
            return self.document.to_bytes();
        }
        let mut response = self.document.clone();
        response.write_fields(LABELS.iter().map(|name| (name, None)));
        response.to_bytes()
    }
}

/// Merges the chunks of one candidate.
struct ChunkMerger {
    candidate: CandidateDocument,
    /// Parts up to the end of each text, with what is in front of it.
    texts: Vec<Vec<Part>>,
    fields: MergedFields,
    content_fields: MergedFields,
}

impl ChunkMerger {
    fn new(mut candidate: CandidateDocument) -> Self {
        let mut fields = MergedFields::new("content", CANDIDATE_FIELDS);
        fields.append(&candidate.document);
        let mut content_fields = MergedFields::new("parts", CONTENT_FIELDS);
        let mut parts = Vec::new();
        if let Some(content) = &mut candidate.content {
            content_fields.append(&content.document);
            parts.append(&mut content.parts);
        }
        Self {
            candidate,
            texts: vec![parts],
            fields,
            content_fields,
        }
    }

    /// Appends the next chunk. Returns labels of the values that it replaces.
    fn append(&mut self, next: CandidateDocument) -> Vec<Bytes> {
        let mut replaced = self.fields.append(&next.document);
        if let Some(mut content) = next.content {
            replaced.append(&mut self.content_fields.append(&content.document));
            match self.texts.last_mut() {
                Some(parts) => parts.append(&mut content.parts),
                None => self.texts.push(std::mem::take(&mut content.parts)),
            }
            if self.candidate.content.is_none() {
                self.candidate.content = Some(content);
            }
        }
        replaced
    }

    fn finish(mut self) -> Result<Document> {
        self.fields.write(&mut self.candidate.document);
        if let Some(content) = &mut self.candidate.content {
            self.content_fields.write(&mut content.document);
            let runs = self.texts.iter();
            let runs = runs.flat_map(|parts| parts.chunk_by(Part::can_join));
            let parts = runs.map(|run| match run {
                [first, _, ..] => {
                    let texts = run.iter().filter_map(|part| part.text.as_deref());
                    first.with_text(&texts.collect::<String>())
                }
                [one] => Ok(one.clone()),
                [] => Part::from_text(""),
            });
            let parts: Vec<Part> = parts.collect::<Result<_, _>>()?;
            self.candidate.set_parts(parts)?;
        }
        Ok(self.candidate.document)
    }
}

/// The fields of an object in all chunks, each with its last value.
#[derive(Debug)]
struct MergedFields {
    /// Field whose values are merged otherwise.
    except: &'static str,
    /// Fields that every chunk repeats.
    repeated: &'static [&'static str],
    fields: Vec<(String, Bytes)>,
    /// Indexes in `fields` by name.
    positions: HashMap<String, usize>,
}

impl MergedFields {
    fn new(except: &'static str, repeated: &'static [&'static str]) -> Self {
        Self {
            except,
            repeated,
            fields: Vec::new(),
            positions: HashMap::new(),
        }
    }

    /// Adds the fields of the next chunk. Returns labels of the values that it replaces, but for
    /// tokens: they repeat texts.
    fn append(&mut self, next: &Document) -> Vec<Bytes> {
        let mut replaced = Vec::new();
        for (name, value) in next.fields() {
            if name == self.except {
                continue;
            }
            let Some(position) = self.positions.get(&*name).copied() else {
                self.positions.insert(name.to_string(), self.fields.len());
                self.fields.push((name.into_owned(), value));
                continue;
            };
            let Some((_, known)) = self.fields.get_mut(position) else {
                continue;
            };
            let old = std::mem::replace(known, value);
            let is_repeated = self.repeated.contains(&&*name)
                || same_field(name.as_bytes(), LOGPROBS_RESULT.as_bytes());
            if old != *known && !is_repeated {
                replaced.push(label(&name, old));
            }
        }
        replaced
    }

    fn write(self, object: &mut Document) {
        let fields = self.fields.into_iter();
        object.write_fields(fields.map(|(name, value)| (name, Some(value))));
    }

    fn into_document(self) -> Document {
        let mut document = Document::empty();
        self.write(&mut document);
        document
    }
}

/// Returns a value as the labels of an event.
fn label(name: &str, value: Bytes) -> Bytes {
    let mut labels = Document::empty();
    labels.write_fields([(name, Some(value))]);
    write_array([labels.to_bytes()])
}

/// Removes the labels of a chunk, which are a list with the labels of each event, and returns them.
fn take_labels(chunk: &mut Document) -> Result<Vec<Bytes>> {
    let labels = match first_byte(chunk, LABELS)? {
        Some(b'[') => chunk.list(LABELS)?.unwrap_or_default(),
        // An unknown field of Google's APIs.
        Some(_) => chunk.bytes_of(LABELS)?.into_iter().collect(),
        None => Vec::new(),
    };
    chunk.remove(LABELS)?;
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::google::response::envelope::ResponseEnvelope;

    fn merged(chunks: &[&str]) -> ResponseDocument {
        let chunks = chunks.iter().map(|chunk| (*chunk).to_owned().into());
        let chunks = chunks.map(|chunk| ResponseDocument::parse(chunk).unwrap());
        ResponseDocument::merge(chunks.collect()).unwrap()
    }

    #[track_caller]
    fn check(chunks: &[&str], expected: &str) {
        assert_eq!(merged(chunks).to_bytes(), expected);
    }

    #[test]
    fn candidates_are_matched_by_index() {
        check(
            &[
                r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}},{"index":1,"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"n":1}}"#,
                r#"{"candidates":[{"index":1,"content":{"parts":[{"text":"y"},{"text":"t","thought":true}]},"finishReason":"STOP"}],"usageMetadata":{"n":2}}"#,
                r#"{"candidates":[{"index":0,"finishReason":"STOP"}]}"#,
            ],
            r#"{"usageMetadata":{"n":2},"candidates":[{"content":{"parts":[{"text":"a"}]},"index":0,"finishReason":"STOP"},{"index":1,"content":{"parts":[{"text":"xy"},{"text":"t","thought":true}]},"finishReason":"STOP"}]}"#,
        );
    }

    #[test]
    fn texts_that_end_are_not_joined() {
        let chunk = |text: &str, end: TextEnd| {
            let chunk = format!(r#"{{"candidates":[{{"content":{{"parts":[{text}]}}}}]}}"#);
            let chunk = ResponseDocument::parse(chunk.into()).unwrap();
            chunk.with_text_end(end)
        };
        let chunks = vec![
            chunk(r#"{"text":"a"}"#, TextEnd::None),
            chunk(r#"{"text":"b"}"#, TextEnd::Possible),
            chunk("", TextEnd::Possible),
            chunk(r#"{"text":"c"}"#, TextEnd::Certain),
            chunk(r#"{"text":"d"}"#, TextEnd::None),
        ];
        let merged = ResponseDocument::merge(chunks).unwrap();
        assert_eq!(
            merged.to_bytes(),
            r#"{"candidates":[{"content":{"parts":[{"text":"ab"},{"text":"c"},{"text":"d"}]}}]}"#
        );
    }

    #[test]
    fn labels_of_all_events_are_kept() {
        check(
            &[
                r#"{"labels":[[{"a":"b"}],[]]}"#,
                "{}",
                r#"{"labels":[[{"a":"c"}]]}"#,
            ],
            r#"{"candidates":[],"labels":[[{"a":"b"}],[],[{"a":"c"}]]}"#,
        );
    }

    #[test]
    fn unknown_fields_of_every_object_are_kept() {
        check(
            &[
                r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#,
                r#"{"candidates":[{"content":{"parts":[{"text":"b"}],"new":1},"candidates":2}],"content":3}"#,
            ],
            r#"{"content":3,"candidates":[{"content":{"parts":[{"text":"ab"}],"new":1},"candidates":2}]}"#,
        );
    }

    #[test]
    fn values_that_later_chunks_replace_are_labels() {
        let candidate = |field: &str, labels: &str| {
            let finished = r#""finishReason":"STOP""#;
            format!(r#"{{"candidates":[{{{field},{finished}}}]{labels}}}"#)
        };
        let grounded = |queries: u8, labels: &str| {
            candidate(&format!(r#""groundingMetadata":{{"q":{queries}}}"#), labels)
        };
        let (one, two) = (grounded(1, ""), grounded(2, ""));
        let labels = r#","labels":[[{"groundingMetadata":{"q":1}}]]"#;
        check(&[&one, &two], &grounded(2, labels));
        check(&[&two, &two], &two);
        let tokens = |name: &str| candidate(&format!(r#""logprobsResult":"{name}""#), "");
        check(&[&tokens("a"), &tokens("b")], &tokens("b"));
    }

    #[test]
    fn a_response_is_sent_without_the_replaced_values() {
        let response = merged(&[r#"{"new":1}"#, r#"{"new":2}"#]);

        let sent = response.to_wire(ResponseEnvelope::None);

        assert_eq!(
            response.to_bytes(),
            r#"{"new":2,"candidates":[],"labels":[[{"new":1}]]}"#
        );
        assert_eq!(sent, r#"{"new":2,"candidates":[]}"#);
    }
}
