//! Merges the chunks of a stream into one response.

use std::collections::{BTreeMap, btree_map::Entry};

use bytes::Bytes;

use crate::dialect::{
    document::{Document, first_byte, write_array},
    error::Result,
    google::{
        fields::{CANDIDATES, LABELS},
        part::Part,
        response::{
            candidate::CandidateDocument,
            document::ResponseDocument,
            envelope::ENVELOPE_FIELDS,
            text::{CANDIDATE_FIELDS, CONTENT_FIELDS, RESPONSE_FIELDS},
        },
    },
};

/// The chunks of a stream as one response: parts and labels in order, neighbouring texts joined,
/// every other field as in the last chunk.
#[derive(Debug)]
pub struct MergedChunks {
    /// The merged response as JSON.
    pub response: Bytes,
    /// The merged envelopes without their responses as JSON, if the chunks have envelopes.
    pub envelope: Option<Bytes>,
    /// Original body or events of the last chunk, if the API does not use the content form.
    pub end: Vec<Bytes>,
    /// True if a later chunk replaced a value of an earlier one.
    pub is_lossy: bool,
}

impl MergedChunks {
    /// Parses and merges chunks without envelopes.
    ///
    /// # Errors
    ///
    /// Fails if hooks could not see all of a chunk.
    pub fn parse(chunks: &[Bytes]) -> Result<Self> {
        let parsed = chunks.iter().cloned().map(ResponseDocument::parse);
        Self::new(parsed.collect::<Result<_, _>>()?)
    }

    /// Merges chunks that were parsed before.
    pub fn new(chunks: Vec<ResponseDocument>) -> Result<Self> {
        let mut response = Document::empty();
        let mut envelope: Option<Document> = None;
        let mut candidates: BTreeMap<u64, ChunkMerger> = BTreeMap::new();
        let mut is_lossy = false;
        let mut labels = Vec::new();
        let mut end = Vec::new();
        for mut chunk in chunks {
            let chunk = chunk.make_parsed()?;
            let chunk_end = chunk.wire.take().or_else(|| chunk.merged_end.take());
            end = chunk_end.unwrap_or_default();
            labels.append(&mut take_labels(&mut chunk.document)?);
            for candidate in std::mem::take(&mut chunk.candidates) {
                match candidates.entry(candidate.index) {
                    Entry::Vacant(entry) => drop(entry.insert(ChunkMerger::new(candidate))),
                    Entry::Occupied(mut known) => is_lossy |= known.get_mut().append(candidate)?,
                }
            }
            is_lossy |= overlay(
                &mut response,
                &chunk.document,
                "candidates",
                RESPONSE_FIELDS,
            )?;
            if let Some(next) = &chunk.envelope {
                let merged = envelope.get_or_insert_default();
                is_lossy |= overlay(merged, next, "response", ENVELOPE_FIELDS)?;
            }
        }
        let candidates = candidates.into_values().map(ChunkMerger::finish);
        let candidates: Vec<Document> = candidates.collect::<Result<_, _>>()?;
        response.set_children(CANDIDATES, &candidates)?;
        if !labels.is_empty() {
            response.set_bytes(LABELS, write_array(labels))?;
        }
        Ok(Self {
            response: response.to_bytes(),
            envelope: envelope.as_ref().map(Document::to_bytes),
            end,
            is_lossy,
        })
    }
}

/// Merges the chunks of one candidate.
struct ChunkMerger {
    candidate: CandidateDocument,
    parts: Vec<Part>,
}

impl ChunkMerger {
    fn new(mut candidate: CandidateDocument) -> Self {
        let content = candidate.content.as_mut();
        let parts = content.map(|content| std::mem::take(&mut content.parts));
        Self {
            parts: parts.unwrap_or_default(),
            candidate,
        }
    }

    /// Appends the next chunk. Returns whether it replaced a value.
    fn append(&mut self, next: CandidateDocument) -> Result<bool> {
        let mut is_lossy = overlay(
            &mut self.candidate.document,
            &next.document,
            "content",
            CANDIDATE_FIELDS,
        )?;
        if let Some(mut content) = next.content {
            self.parts.append(&mut content.parts);
            match &mut self.candidate.content {
                Some(known) => {
                    let (known, next) = (&mut known.document, &content.document);
                    is_lossy |= overlay(known, next, "parts", CONTENT_FIELDS)?;
                }
                None => self.candidate.content = Some(content),
            }
        }
        Ok(is_lossy)
    }

    fn finish(mut self) -> Result<Document> {
        if self.candidate.content.is_some() {
            let runs = self.parts.chunk_by(Part::can_join);
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

/// Removes the labels of a chunk, which are a list with the labels of each event, and returns them.
fn take_labels(chunk: &mut Document) -> Result<Vec<Bytes>> {
    if first_byte(chunk, LABELS)? != Some(b'[') {
        return Ok(Vec::new());
    }
    let labels = chunk.list(LABELS)?;
    chunk.remove(LABELS)?;
    Ok(labels.unwrap_or_default())
}

/// Copies the fields of a later chunk, but for `except`, whose values are merged. Returns whether
/// a value was replaced that is not among `repeated`, the fields that every chunk repeats.
fn overlay(
    merged: &mut Document,
    next: &Document,
    except: &str,
    repeated: &[&str],
) -> Result<bool> {
    let mut is_lossy = false;
    for (key, value) in next.fields() {
        if key == except {
            continue;
        }
        let known = merged.bytes_of(&[&*key])?;
        is_lossy |= !repeated.contains(&&*key) && known.is_some_and(|known| known != value);
        merged.set_bytes(&[&*key], value)?;
    }
    Ok(is_lossy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(chunks: &[&str], expected: &str, is_lossy: bool) {
        let chunks: Vec<Bytes> = chunks
            .iter()
            .map(|chunk| (*chunk).to_owned().into())
            .collect();
        let merged = MergedChunks::parse(&chunks).unwrap();
        assert_eq!(merged.response, expected);
        assert_eq!(merged.is_lossy, is_lossy);
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
            false,
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
            false,
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
            false,
        );
    }

    #[test]
    fn fields_that_later_chunks_overwrite_count_as_lost() {
        let with =
            |metadata: &str| format!(r#"{{"candidates":[{{"groundingMetadata":{metadata}}}]}}"#);
        let (one, two) = (with(r#"{"q":1}"#), with(r#"{"q":2}"#));
        check(&[&one, &two], &two, true);
        check(&[&two, &two], &two, false);
    }
}
