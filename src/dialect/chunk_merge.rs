//! Many chunks as the one answer that they come to. Pure.

use bytes::Bytes;
use indexmap::{IndexMap, map::Entry};

use super::{
    DialectError, Document, ResponseDocument,
    part::Part,
    response::{CANDIDATES, CandidateDocument},
    response_text::{ANSWER, CANDIDATE},
};

/// Many chunks as one answer: parts in order, neighbouring texts joined, every
/// other field as the last chunk has it.
#[derive(Debug)]
pub struct MergedChunks {
    /// The one answer.
    pub answer: Bytes,
    /// Whether chunks say something that is not in it, because later ones had
    /// something else to say.
    pub omits: bool,
}

impl MergedChunks {
    /// Merges chunks; one that hooks could not see through is an error.
    pub fn of(chunks: &[Bytes]) -> Result<Self, DialectError> {
        let read = chunks.iter().cloned().map(ResponseDocument::parse);
        Self::of_read(read.collect::<Result<_, _>>()?)
    }

    /// Merges chunks that were read.
    pub fn of_read(chunks: Vec<ResponseDocument>) -> Result<Self, DialectError> {
        let mut whole = Document::empty()?;
        let mut candidates: IndexMap<u64, Gathered> = IndexMap::new();
        let mut omits = false;
        for chunk in chunks {
            for candidate in chunk.candidates {
                match candidates.entry(candidate.number) {
                    Entry::Vacant(free) => drop(free.insert(Gathered::new(candidate))),
                    Entry::Occupied(mut known) => omits |= known.get_mut().append(candidate)?,
                }
            }
            omits |= overlay(&mut whole, &chunk.document, ANSWER)?;
        }
        let candidates = candidates.into_values().map(Gathered::finish);
        let candidates: Vec<Document> = candidates.collect::<Result<_, _>>()?;
        whole.set_children(CANDIDATES, &candidates)?;
        Ok(Self {
            answer: whole.to_bytes(),
            omits,
        })
    }
}

/// One candidate, as far as it has come.
struct Gathered {
    candidate: CandidateDocument,
    parts: Vec<Part>,
}

impl Gathered {
    fn new(mut candidate: CandidateDocument) -> Self {
        let content = candidate.content.as_mut();
        let parts = content.map(|it| std::mem::take(&mut it.parts));
        Self {
            parts: parts.unwrap_or_default(),
            candidate,
        }
    }

    fn append(&mut self, next: CandidateDocument) -> Result<bool, DialectError> {
        let omits = overlay(&mut self.candidate.document, &next.document, CANDIDATE)?;
        if let Some(mut content) = next.content {
            self.parts.append(&mut content.parts);
            self.candidate.content.get_or_insert(content);
        }
        Ok(omits)
    }

    fn finish(mut self) -> Result<Document, DialectError> {
        if let Some(content) = self.candidate.content.take() {
            let runs = self.parts.chunk_by(Part::joins);
            let parts = runs.map(|run| match run {
                [first, _, ..] => {
                    let texts = run.iter().filter_map(|it| it.text.as_deref());
                    first.saying(&texts.collect::<String>())
                }
                [one] => Ok(one.clone()),
                [] => Part::new(""),
            });
            let parts: Vec<Part> = parts.collect::<Result<_, _>>()?;
            self.candidate.put_content(content.with_parts(parts)?)?;
        }
        Ok(self.candidate.document)
    }
}

/// Writes the fields of a later chunk over those of earlier ones, but for what is
/// merged. Whether something was lost; `told_anew` is told anew in every chunk.
fn overlay(
    whole: &mut Document,
    next: &Document,
    told_anew: &[&str],
) -> Result<bool, DialectError> {
    let mut lost = false;
    for (key, value) in next.fields() {
        if key == "candidates" || key == "content" {
            continue;
        }
        let known = whole.bytes_of(&[&key])?;
        lost |= !told_anew.contains(&key.as_str()) && known.is_some_and(|it| it != value);
        whole.set_bytes(&[&key], value)?;
    }
    Ok(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(chunks: &[&str], expected: &str, omits: bool) {
        let chunks: Vec<Bytes> = chunks.iter().map(|it| (*it).to_owned().into()).collect();
        let merged = MergedChunks::of(&chunks).unwrap();
        assert_eq!(merged.answer, expected);
        assert_eq!(merged.omits, omits);
    }

    #[test]
    fn candidates_are_known_by_their_index() {
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
    fn what_is_said_once_only_is_known_to_be_lost() {
        let with =
            |metadata: &str| format!(r#"{{"candidates":[{{"groundingMetadata":{metadata}}}]}}"#);
        let (one, two) = (with(r#"{"q":1}"#), with(r#"{"q":2}"#));
        check(&[&one, &two], &two, true);
        check(&[&two, &two], &two, false);
    }
}
