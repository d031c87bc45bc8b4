//! An answer in the shape that all dialects here carry: its stable form, what
//! hooks changed of it, and answers of our own (hook protocol, section 8). Pure.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{DialectError, Document, contents::Content, part::Part};
use crate::{
    event::{Diagnostic, DiagnosticCode},
    model::{
        Candidate, CandidateContent, CandidateMutation, LlmResponse, ResponseMutation, Role, Usage,
    },
};

const CANDIDATES: &[&str] = &["candidates"];
pub(super) const CONTENT: &[&str] = &["content"];
pub(super) const FINISH_REASON: &[&str] = &["finishReason", "finish_reason"];
pub(super) const INDEX: &[&str] = &["index"];
pub(super) const SAFETY_RATINGS: &[&str] = &["safetyRatings", "safety_ratings"];
const MODEL_VERSION: &[&str] = &["modelVersion", "model_version"];
const USAGE: &[&str] = &["usageMetadata", "usage_metadata"];

/// An answer, or one chunk of it, as it is on the wire.
#[derive(Debug, Clone)]
pub struct ResponseDocument {
    document: Document,
    pub(super) candidates: Vec<CandidateDocument>,
}

/// A call of a function in an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall {
    /// The function; empty if the call names none.
    pub name: String,
    /// Its arguments; `null` if there are none.
    pub arguments: Value,
}

#[derive(Debug, Clone)]
pub(super) struct CandidateDocument {
    pub(super) document: Document,
    pub(super) content: Option<Content>,
}

impl ResponseDocument {
    /// Reads an answer; one that hooks could not see through is an error.
    pub fn parse(bytes: Bytes) -> Result<Self, DialectError> {
        let document = Document::parse(bytes)?;
        let listed = document.children(CANDIDATES)?.unwrap_or_default();
        let candidates = listed.into_iter().map(CandidateDocument::read);
        Ok(Self {
            candidates: candidates.collect::<Result<_, _>>()?,
            document,
        })
    }

    /// Many chunks as the one answer they come to: parts in order, neighbouring
    /// texts joined, every other field as the last chunk has it.
    pub fn merge(chunks: &[Bytes]) -> Result<Bytes, DialectError> {
        let mut whole = Self::parse(Bytes::from_static(b"{}"))?;
        for chunk in chunks {
            let chunk = Self::parse(chunk.clone())?;
            for (position, candidate) in chunk.candidates.into_iter().enumerate() {
                match whole.candidates.get_mut(position) {
                    Some(known) => known.append(candidate)?,
                    None => whole.candidates.push(candidate),
                }
            }
            let others = chunk
                .document
                .fields()
                .filter(|it| !CANDIDATES.contains(&it.0));
            for (key, value) in others {
                whole.document.set_bytes(&[key], value)?;
            }
        }
        let list = whole.candidates.iter().map(|it| it.document.clone());
        whole
            .document
            .set_children(CANDIDATES, &list.collect::<Vec<_>>())?;
        Ok(whole.document.to_bytes())
    }

    /// Whether it says anything.
    pub fn carries_content(&self) -> bool {
        let says = |it: &Content| !it.parts.is_empty();
        let mut contents = self.candidates.iter().filter_map(|it| it.content.as_ref());
        contents.any(says)
    }

    /// As it goes out: the bytes it came as, but for edits.
    pub fn to_bytes(&self) -> Bytes {
        self.document.to_bytes()
    }

    /// The whole of it, for hooks that want to see it.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The stable form.
    pub fn read(&self) -> Result<LlmResponse, DialectError> {
        let first = self.candidates.first().and_then(|it| it.content.as_ref());
        let parts = first.map_or(&[][..], |it| it.parts.as_slice());
        let candidates = self.candidates.iter().map(CandidateDocument::view);
        let usage = self.document.child(USAGE)?;
        Ok(LlmResponse {
            text: parts.iter().filter_map(Part::plain_text).collect(),
            candidates: candidates.collect::<Result<_, _>>()?,
            usage_metadata: usage.as_ref().map(read_usage).transpose()?,
        })
    }

    /// Writes what hooks changed; candidates are paired by position.
    pub fn write(&mut self, mutation: &ResponseMutation) -> Result<Vec<Diagnostic>, DialectError> {
        let mut diagnostics = Vec::new();
        if mutation.candidates.len() > self.candidates.len() {
            let dropped = "llm_response: more candidates than there are";
            diagnostics.push(DiagnosticCode::EditDropped.with(dropped));
        }
        for (candidate, change) in self.candidates.iter_mut().zip(&mutation.candidates) {
            candidate.write(change)?;
        }
        self.put_candidates()?;
        if let Some(Value::Object(given)) = &mutation.usage_metadata {
            let usage = self.document.child(USAGE)?;
            let mut usage = usage.map_or_else(Document::empty, Ok)?;
            for (key, value) in given {
                usage.set(&[key], value)?;
            }
            self.document.set_child(USAGE, &usage)?;
        }
        Ok(diagnostics)
    }

    /// Takes function calls out and puts a text in the place of each, where
    /// `refuse` gives a reason. The names of the calls taken out.
    pub fn withhold_calls(
        &mut self,
        refuse: &mut dyn FnMut(&FunctionCall) -> Option<String>,
    ) -> Result<Vec<String>, DialectError> {
        let mut withheld = Vec::new();
        for candidate in &mut self.candidates {
            let Some(content) = &candidate.content else {
                continue;
            };
            let before = withheld.len();
            let mut parts = Vec::with_capacity(content.parts.len());
            for part in &content.parts {
                parts.push(withhold(part, refuse, &mut withheld)?);
            }
            if withheld.len() > before {
                candidate.put_content(content.with_parts(parts)?)?;
            }
        }
        if !withheld.is_empty() {
            self.put_candidates()?;
        }
        Ok(withheld)
    }

    /// The model that answered, as upstream names it.
    pub fn model(&self) -> Result<Option<String>, DialectError> {
        self.document.string(MODEL_VERSION)
    }

    /// Tokens of request and answer together, so far.
    pub fn total_tokens(&self) -> Result<Option<u64>, DialectError> {
        let usage = self.document.child(USAGE)?;
        let usage = usage.as_ref().map(read_usage).transpose()?;
        Ok(usage.and_then(|it| it.total_token_count?.as_u64()))
    }

    pub(super) fn put_candidates(&mut self) -> Result<(), DialectError> {
        let list = self.candidates.iter().map(|it| it.document.clone());
        let list: Vec<Document> = list.collect();
        if list.iter().any(Document::is_edited) {
            self.document.set_children(CANDIDATES, &list)?;
        }
        Ok(())
    }
}

impl CandidateDocument {
    fn read(document: Document) -> Result<Self, DialectError> {
        let content = document.child(CONTENT)?.map(Content::read).transpose()?;
        Ok(Self { document, content })
    }

    fn view(&self) -> Result<Candidate, DialectError> {
        let parts = self.content.iter().flat_map(|it| &it.parts);
        let ratings = self.document.children(SAFETY_RATINGS)?;
        Ok(Candidate {
            content: CandidateContent {
                role: Role::Model,
                parts: parts.filter_map(|it| it.text.clone()).collect(),
            },
            finish_reason: self.document.string(FINISH_REASON)?,
            index: self.document.get(INDEX)?,
            safety_ratings: ratings.as_deref().map(read_ratings).transpose()?,
        })
    }

    fn write(&mut self, change: &CandidateMutation) -> Result<(), DialectError> {
        if let Some(texts) = &change.parts {
            let content = match &self.content {
                Some(content) => content.clone(),
                None => Content::read(Document::parse(Bytes::from_static(
                    br#"{"role":"model","parts":[]}"#,
                ))?)?,
            };
            let parts = with_texts(&content.parts, texts)?;
            self.put_content(content.with_parts(parts)?)?;
        }
        let given = [
            (
                FINISH_REASON,
                change.finish_reason.clone().map(Value::String),
            ),
            (INDEX, change.index.clone()),
            (SAFETY_RATINGS, change.safety_ratings.clone()),
        ];
        for (key, value) in given {
            if let Some(value) = value {
                self.document.set(key, &value)?;
            }
        }
        Ok(())
    }

    fn append(&mut self, next: Self) -> Result<(), DialectError> {
        let others = next.document.fields().filter(|it| !CONTENT.contains(&it.0));
        for (key, value) in others {
            self.document.set_bytes(&[key], value)?;
        }
        let content = match (&self.content, next.content) {
            (Some(content), Some(next)) => {
                content.with_parts(joined(&content.parts, next.parts)?)?
            }
            (None, Some(next)) => next,
            (_, None) => return Ok(()),
        };
        self.put_content(content)
    }

    pub(super) fn put_content(&mut self, content: Content) -> Result<(), DialectError> {
        self.document.set_child(CONTENT, content.document())?;
        self.content = Some(content);
        Ok(())
    }
}

/// As many texts as there are text parts: each takes its place, flags and
/// signatures stay. Otherwise the new ones stand where the first one stood, and
/// nothing of the old ones is left.
fn with_texts(parts: &[Part], texts: &[String]) -> Result<Vec<Part>, DialectError> {
    let is_text = |it: &&Part| it.text.is_some();
    let mut texts_left = texts.iter();
    if parts.iter().filter(is_text).count() == texts.len() {
        let new = parts
            .iter()
            .map(|part| match (&part.text, texts_left.as_slice()) {
                (Some(_), [_, ..]) => part.saying(texts_left.next().map_or("", String::as_str)),
                _ => Ok(part.clone()),
            });
        return new.collect();
    }
    let first = parts.iter().position(|it| it.text.is_some()).unwrap_or(0);
    let (head, tail) = parts.split_at_checked(first).unwrap_or_default();
    let mut new = head.to_vec();
    for text in texts {
        new.push(Part::new(text)?);
    }
    new.extend(tail.iter().filter(|it| it.text.is_none()).cloned());
    Ok(new)
}

/// The part, or a text instead of a call that is refused.
fn withhold(
    part: &Part,
    refuse: &mut dyn FnMut(&FunctionCall) -> Option<String>,
    withheld: &mut Vec<String>,
) -> Result<Part, DialectError> {
    let Some(call) = part.call()? else {
        return Ok(part.clone());
    };
    let Some(reason) = refuse(&call) else {
        return Ok(part.clone());
    };
    withheld.push(call.name);
    Part::new(&format!("Tool execution blocked: {reason}"))
}

/// Parts one after the other; where two plain texts meet they become one.
fn joined(parts: &[Part], next: Vec<Part>) -> Result<Vec<Part>, DialectError> {
    let mut all = parts.to_vec();
    for part in next {
        let both = all.last().and_then(|last| last.joined(&part));
        match (both, all.last_mut()) {
            (Some(text), Some(last)) => *last = last.saying(&text)?,
            _ => all.push(part),
        }
    }
    Ok(all)
}

fn read_ratings(ratings: &[Document]) -> Result<Value, DialectError> {
    let read = |rating: &Document| -> Result<Value, DialectError> {
        let mut known = Map::new();
        for key in ["category", "probability", "blocked"] {
            if let Some(value) = rating.get(&[key])? {
                known.insert(key.to_owned(), value);
            }
        }
        Ok(Value::Object(known))
    };
    let list: Vec<Value> = ratings.iter().map(read).collect::<Result<_, _>>()?;
    Ok(Value::Array(list))
}

fn read_usage(usage: &Document) -> Result<Usage, DialectError> {
    Ok(Usage {
        prompt_token_count: usage.get(&["promptTokenCount", "prompt_token_count"])?,
        candidates_token_count: usage.get(&["candidatesTokenCount", "candidates_token_count"])?,
        total_token_count: usage.get(&["totalTokenCount", "total_token_count"])?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(parts: &str) -> ResponseDocument {
        let text = format!(
            r#"{{"candidates":[{{"content":{{"role":"model","parts":{parts}}},"n":1E5}}]}}"#
        );
        ResponseDocument::parse(text.into()).unwrap()
    }

    #[track_caller]
    fn check(old: &str, llm_response: &Value, new: &str) {
        let mut document = parse(old);
        let mutation = ResponseMutation::read(llm_response).unwrap();
        document.write(&mutation).unwrap();
        assert_eq!(document.to_bytes(), parse(new).to_bytes());
    }

    #[test]
    fn nothing_of_the_old_text_is_left_beside_the_new() {
        check(
            r#"[{"inlineData":{}},{"text":"secret","thought":true},{"functionCall":{"args":{"n":1.0e1}}},{"text":"secret"}]"#,
            &json!({"text": "[x]"}),
            r#"[{"inlineData":{}},{"text":"[x]"},{"functionCall":{"args":{"n":1.0e1}}}]"#,
        );
    }

    #[test]
    fn as_many_texts_take_their_places() {
        check(
            r#"[{"text":"a","thought":true,"thoughtSignature":"s"},{"functionCall":{}},{"text":"b"}]"#,
            &json!({"candidates": [{"content": {"parts": ["A", {"text": "B"}]}}]}),
            r#"[{"text":"A","thought":true,"thoughtSignature":"s"},{"functionCall":{}},{"text":"B"}]"#,
        );
    }

    #[test]
    fn an_empty_list_blanks_the_text_and_keeps_the_call() {
        check(
            r#"[{"text":"secret"},{"functionCall":{"name":"f"}}]"#,
            &json!({"candidates": [{"content": {"parts": []}}]}),
            r#"[{"functionCall":{"name":"f"}}]"#,
        );
    }

    #[test]
    fn a_call_that_is_not_allowed_becomes_a_text() {
        let mut document =
            parse(r#"[{"functionCall":{"name":"rm"}},{"functionCall":{"name":"ls"}}]"#);
        let refuse = |it: &FunctionCall| (it.name != "ls").then(|| "no".to_owned());
        assert_eq!(document.withhold_calls(&mut { refuse }).unwrap(), ["rm"]);
        let text = String::from_utf8(document.to_bytes().to_vec()).unwrap();
        assert!(!text.contains(r#""name":"rm""#) && text.contains(r#""name":"ls""#));
    }
}
