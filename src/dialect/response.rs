//! An answer in the shape that all dialects here carry: its stable form, what
//! hooks changed of it, and answers of our own (hook protocol, section 8). Pure.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{
    DialectError, Document, contents::Content, document::text_of, function_calls::Withheld, json,
    part::Part, partial_function_calls::PartialCalls,
};
use crate::{
    event::{Diagnostic, DiagnosticCode},
    model::{
        Candidate, CandidateContent, CandidateMutation, LlmResponse, ResponseMutation, Role,
        UsageMetadata,
    },
};

pub(super) const CANDIDATES: &[&str] = &["candidates"];
const CONTENT: &[&str] = &["content"];
pub(super) const FINISH_REASON: &[&str] = &["finishReason", "finish_reason"];
const INDEX: &[&str] = &["index"];
const SAFETY_RATINGS: &[&str] = &["safetyRatings", "safety_ratings"];
const MODEL_VERSION: &[&str] = &["modelVersion", "model_version"];
const USAGE: &[&str] = &["usageMetadata", "usage_metadata"];

/// An answer, or one chunk of it, as it is on the wire.
#[derive(Debug, Clone)]
pub struct ResponseDocument {
    pub(super) document: Document,
    pub(super) candidates: Vec<CandidateDocument>,
    /// What stands around it on the wire, if anything does.
    pub(super) around: Option<Document>,
}

/// What upstream counted of an answer. Many answers carry it, and few are asked for it.
#[derive(Debug, Clone, Default)]
pub struct Counted(pub(super) Bytes);

impl Counted {
    /// As it is on the wire; `null` if nothing was counted.
    pub fn read(&self) -> Value {
        // It is part of a document that was read.
        let text = text_of(&self.0).unwrap_or_default();
        json::read(text).unwrap_or_default()
    }
}

/// A call of a function in an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall {
    /// The function; empty if the call names none.
    pub name: String,
    /// Its arguments; `null` if there are none.
    pub arguments: Value,
    /// Whether arguments come in pieces, so that not all of them are here.
    pub in_pieces: bool,
}

#[derive(Debug, Clone)]
pub(super) struct CandidateDocument {
    /// Which candidate it is, in every chunk.
    pub(super) number: u64,
    pub(super) document: Document,
    pub(super) content: Option<Content>,
    /// Its calls that do not go to the agent.
    pub(super) withheld: Vec<Withheld>,
}

impl ResponseDocument {
    /// Reads an answer; one that hooks could not see through is an error.
    pub fn parse(bytes: Bytes) -> Result<Self, DialectError> {
        let document = Document::parse(bytes)?;
        let listed = document.children(CANDIDATES)?.unwrap_or_default();
        let indexes = listed.iter().map(|it| it.get(INDEX));
        let indexes: Vec<Option<Value>> = indexes.collect::<Result<_, _>>()?;
        let indexes: Vec<Option<u64>> = indexes.into_iter().map(|it| it?.as_u64()).collect();
        // An API that gives indexes may leave a zero out.
        let counts = indexes.iter().all(Option::is_none);
        let candidates = (0..).zip(indexes).zip(listed);
        let candidates = candidates.map(|((position, index), candidate)| {
            let number = index.unwrap_or(if counts { position } else { 0 });
            CandidateDocument::read(number, candidate)
        });
        Ok(Self {
            candidates: candidates.collect::<Result<_, _>>()?,
            document,
            around: None,
        })
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

    /// The same answer, with around it what stands around another one.
    #[must_use]
    pub fn wrapped_like(mut self, other: Option<&Self>) -> Self {
        self.around = other.and_then(|it| it.around.clone());
        self
    }

    /// The whole of it, for hooks that want to see it.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// What was counted of it.
    pub fn usage(&self) -> Result<Option<Counted>, DialectError> {
        Ok(self.document.bytes_of(USAGE)?.map(Counted))
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

    /// Takes function calls out where `refuse` gives a reason. They are remembered
    /// beside the document. `pieces` are the calls under way in this answer.
    pub fn withhold_calls(
        &mut self,
        pieces: &mut PartialCalls,
        refuse: &mut dyn FnMut(&FunctionCall) -> Option<String>,
    ) -> Result<(), DialectError> {
        for candidate in &mut self.candidates {
            let number = candidate.number;
            candidate.sift(&mut |call| pieces.judge(number, call, refuse))?;
        }
        self.put_candidates()
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
        if !self.candidates.iter().any(|it| it.document.is_edited()) {
            return Ok(());
        }
        let list = self.candidates.iter().map(|it| it.document.clone());
        let list: Vec<Document> = list.collect();
        self.document.set_children(CANDIDATES, &list)
    }
}

impl CandidateDocument {
    fn read(number: u64, document: Document) -> Result<Self, DialectError> {
        let content = document.child(CONTENT)?.map(Content::read).transpose()?;
        Ok(Self {
            number,
            document,
            content,
            withheld: Vec::new(),
        })
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
                None => Content::read(Document::split(Bytes::from_static(
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

fn read_usage(usage: &Document) -> Result<UsageMetadata, DialectError> {
    Ok(UsageMetadata {
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
    fn a_call_that_is_not_allowed_is_withheld_and_can_be_told_of() {
        let mut document =
            parse(r#"[{"functionCall":{"name":"rm"}},{"functionCall":{"name":"ls"}}]"#);
        let refuse = |it: &FunctionCall| (it.name != "ls").then(|| "no".to_owned());
        let mut pieces = PartialCalls::default();
        document
            .withhold_calls(&mut pieces, &mut { refuse })
            .unwrap();
        let names = |it: &ResponseDocument| -> Vec<String> {
            it.step().unwrap().into_iter().map(|it| it.name).collect()
        };
        assert_eq!(names(&document), ["rm", "ls"]);
        document.say_withheld().unwrap();
        let text = String::from_utf8(document.to_bytes().to_vec()).unwrap();
        assert!(!text.contains(r#""name":"rm""#) && text.contains(r#""name":"ls""#));
    }
}
