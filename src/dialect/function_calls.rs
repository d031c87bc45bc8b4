//! The calls of functions that an answer makes: one step of an agent. Which of
//! them go to the agent, and what the model is told of those that do not. Pure.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    DialectError, Document, FunctionCall, ResponseDocument,
    contents::Content,
    document::array,
    part::{FUNCTION_CALL, PARTIAL, Part, WILL_CONTINUE},
    request::CONTENTS,
    response::{CandidateDocument, FINISH_REASON},
};

const ARGUMENTS: &[&str] = &["args"];

/// A call that does not go to the agent.
#[derive(Debug, Clone)]
pub(super) struct Withheld {
    /// How many calls of its candidate that go to the agent stand before it.
    before: usize,
    part: Part,
    reason: String,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallDecision {
    /// It goes to the agent as it is.
    Keep,
    /// It goes to the agent with these arguments.
    Rewrite(Map<String, Value>),
    /// It does not go to the agent, for this reason.
    Refuse(String),
    /// It is a piece of a call that does not go to the agent.
    Drop,
}

/// One call of a step, as the model made it.
#[derive(Debug, Clone)]
pub struct StepCall {
    /// The function; empty if the call names none.
    pub name: String,
    /// Its arguments; `null` if there are none.
    pub arguments: Value,
    /// Why it does not go to the agent; none if it does.
    pub refusal: Option<String>,
    part: Part,
}

impl ResponseDocument {
    /// The calls that go to the agent, each with the number of its candidate.
    pub fn calls(&self) -> Result<Vec<(u64, FunctionCall)>, DialectError> {
        let mut calls = Vec::new();
        for candidate in &self.candidates {
            for part in candidate.content.iter().flat_map(|it| &it.parts) {
                calls.extend(part.call()?.map(|it| (candidate.number, it)));
            }
        }
        Ok(calls)
    }

    /// Decides what becomes of each of [`ResponseDocument::calls`], in order.
    pub fn decide(&mut self, fates: Vec<CallDecision>) -> Result<(), DialectError> {
        let mut fates = fates.into_iter();
        for candidate in &mut self.candidates {
            candidate.sift(&mut |_| fates.next().unwrap_or(CallDecision::Keep))?;
        }
        self.put_candidates()
    }

    /// Whether any call does not go to the agent.
    pub fn withholds(&self) -> bool {
        self.candidates.iter().any(|it| !it.withheld.is_empty())
    }

    /// Says in a text of each call that does not go to the agent that it was
    /// blocked: the way to tell where the model cannot be told.
    pub fn say_withheld(&mut self) -> Result<(), DialectError> {
        for candidate in &mut self.candidates {
            let Some(content) = candidate.content.clone() else {
                continue;
            };
            let mut parts = content.parts.clone();
            for withheld in std::mem::take(&mut candidate.withheld) {
                parts.push(Part::new(&blocked(&withheld.reason))?);
            }
            if parts.len() > content.parts.len() {
                candidate.put_content(content.with_parts(parts)?)?;
            }
        }
        self.put_candidates()
    }

    /// Every call of the first candidate, in the model's order.
    pub fn step(&self) -> Result<Vec<StepCall>, DialectError> {
        let mut step = Vec::new();
        let Some(first) = self.candidates.iter().find(|it| it.number == 0) else {
            return Ok(step);
        };
        let mut withheld = first.withheld.iter().peekable();
        let mut kept = 0;
        for part in first.content.iter().flat_map(|it| &it.parts) {
            let Some(call) = part.call()? else {
                continue;
            };
            while let Some(next) = withheld.next_if(|it| it.before == kept) {
                step.push(next.step_call()?);
            }
            step.push(StepCall {
                name: call.name,
                arguments: call.arguments,
                refusal: None,
                part: part.clone(),
            });
            kept += 1;
        }
        for next in withheld {
            step.push(next.step_call()?);
        }
        Ok(step)
    }

    /// Whether it says why the answer ends.
    pub fn finishes(&self) -> bool {
        self.candidates
            .iter()
            .any(|it| it.document.has(FINISH_REASON))
    }

    /// Whether the first candidate comes to its end, and nothing cut it off.
    pub fn stops(&self) -> Result<bool, DialectError> {
        let first = self.candidates.iter().find(|it| it.number == 0);
        let reason = first.map(|it| it.document.string(FINISH_REASON));
        Ok(reason.transpose()?.flatten().as_deref() == Some("STOP"))
    }

    /// Whether it speaks of any other candidate than the first.
    pub fn has_alternatives(&self) -> bool {
        self.candidates.iter().any(|it| it.number != 0)
    }

    /// The text of the first candidate, thoughts left out.
    pub fn plain_text(&self) -> String {
        let first = self.candidates.iter().filter(|it| it.number == 0);
        let parts = first.filter_map(|it| it.content.as_ref());
        let parts = parts.flat_map(|it| &it.parts);
        parts.filter_map(Part::plain_text).collect()
    }

    /// Takes out what ends a step: calls, and why the answer ends. False if
    /// nothing is left that anybody needs.
    pub fn open_end(&mut self) -> Result<bool, DialectError> {
        for candidate in &mut self.candidates {
            candidate.sift(&mut |_| CallDecision::Drop)?;
            candidate.withheld.clear();
            candidate.document.remove(FINISH_REASON)?;
        }
        self.put_candidates()?;
        Ok(self.carries_content())
    }

    /// Puts white space in front of its first text: what came before was another
    /// answer. False if it has no text.
    pub fn start_paragraph(&mut self) -> Result<bool, DialectError> {
        for candidate in &mut self.candidates {
            let Some(content) = candidate.content.clone() else {
                continue;
            };
            let mut parts = content.parts.clone();
            let speaks = |it: &&mut Part| it.plain_text().is_some_and(|it| !it.is_empty());
            let Some(first) = parts.iter_mut().find(speaks) else {
                continue;
            };
            let text = format!("\n\n{}", first.plain_text().unwrap_or_default());
            *first = first.saying(&text)?;
            candidate.put_content(content.with_parts(parts)?)?;
            self.put_candidates()?;
            return Ok(true);
        }
        Ok(false)
    }
}

impl CandidateDocument {
    /// Decides what becomes of each call that goes to the agent so far.
    pub(super) fn sift(
        &mut self,
        decide: &mut dyn FnMut(&FunctionCall) -> CallDecision,
    ) -> Result<(), DialectError> {
        let Some(content) = &self.content else {
            return Ok(());
        };
        let mut old = std::mem::take(&mut self.withheld).into_iter().peekable();
        let mut withheld = Vec::new();
        let mut parts = Vec::with_capacity(content.parts.len());
        let (mut seen, mut kept, mut edited) = (0, 0, false);
        for part in &content.parts {
            let Some(call) = part.call()? else {
                parts.push(part.clone());
                continue;
            };
            while let Some(next) = old.next_if(|it| it.before == seen) {
                withheld.push(next.behind(kept));
            }
            seen += 1;
            let fate = decide(&call);
            edited |= fate != CallDecision::Keep;
            match fate {
                CallDecision::Keep => {
                    parts.push(part.clone());
                    kept += 1;
                }
                CallDecision::Rewrite(arguments) => {
                    parts.push(part.calling_with(&arguments)?);
                    kept += 1;
                }
                CallDecision::Refuse(reason) => withheld.push(Withheld {
                    before: kept,
                    part: part.clone(),
                    reason,
                }),
                CallDecision::Drop => (),
            }
        }
        withheld.extend(old.map(|it| it.behind(kept)));
        self.withheld = withheld;
        if edited {
            let content = content.with_parts(parts)?;
            self.put_content(content)?;
        }
        Ok(())
    }
}

impl Withheld {
    fn behind(self, kept: usize) -> Self {
        let before = kept;
        Self { before, ..self }
    }

    fn step_call(&self) -> Result<StepCall, DialectError> {
        let call = self.part.call()?;
        Ok(StepCall {
            name: call.as_ref().map(|it| it.name.clone()).unwrap_or_default(),
            arguments: call.map(|it| it.arguments).unwrap_or_default(),
            refusal: Some(self.reason.clone()),
            part: self.part.clone(),
        })
    }
}

/// A step that does not go to the agent, as two contents: what the model said and
/// called, and what became of each call. Calls that nobody refused are answered,
/// too, as the API wants it; the model may ask for them again.
pub fn refused_step(text: &str, calls: &[StepCall]) -> Result<[Bytes; 2], DialectError> {
    let mut called = Vec::with_capacity(calls.len() + 1);
    if !text.is_empty() {
        called.push(Part::new(text)?.document.to_bytes());
    }
    for call in calls {
        called.push(call.part.whole_call()?);
    }
    let answered: Vec<Bytes> = calls
        .iter()
        .map(StepCall::answer)
        .collect::<Result<_, _>>()?;
    Ok([content("model", &called), content("user", &answered)])
}

/// What a side says, as a content.
pub fn saying(by_model: bool, text: &str) -> Bytes {
    let role = if by_model { "model" } else { "user" };
    json!({ "role": role, "parts": [{ "text": text }] })
        .to_string()
        .into()
}

fn content(role: &str, parts: &[Bytes]) -> Bytes {
    let parts = array(parts.iter().map(AsRef::as_ref));
    let parts = String::from_utf8_lossy(&parts);
    format!(r#"{{"role":"{role}","parts":{parts}}}"#).into()
}

/// What a model reads that made a call which was refused.
fn blocked(reason: &str) -> String {
    format!("Tool execution blocked: {reason}")
}

const NOT_RUN: &str =
    "Not run, because another call of this step was blocked. Ask for it again if it is needed.";

impl StepCall {
    /// The functionResponse that the model reads.
    fn answer(&self) -> Result<Bytes, DialectError> {
        let error = match &self.refusal {
            Some(reason) => blocked(reason),
            None => NOT_RUN.to_owned(),
        };
        let mut response = json!({ "name": self.name, "response": { "error": error } });
        let call = self.part.document.child(FUNCTION_CALL)?;
        let id = call.map(|it| it.string(&["id"])).transpose()?.flatten();
        if let (Some(id), Some(fields)) = (id, response.as_object_mut()) {
            fields.insert("id".to_owned(), Value::String(id));
        }
        Ok(json!({ "functionResponse": response }).to_string().into())
    }
}

impl Part {
    /// The same call with other arguments.
    fn calling_with(&self, arguments: &Map<String, Value>) -> Result<Self, DialectError> {
        self.with_call(|call| call.set(ARGUMENTS, &Value::Object(arguments.clone())))
    }

    /// The call as a part of a request, which knows no pieces.
    fn whole_call(&self) -> Result<Bytes, DialectError> {
        let whole = self.with_call(|call| {
            call.remove(PARTIAL)?;
            call.remove(WILL_CONTINUE)
        })?;
        Ok(whole.document.to_bytes())
    }

    fn with_call(
        &self,
        edit: impl FnOnce(&mut Document) -> Result<(), DialectError>,
    ) -> Result<Self, DialectError> {
        let mut part = self.document.clone();
        if let Some(mut call) = part.child(FUNCTION_CALL)? {
            edit(&mut call)?;
            if call.is_edited() {
                part.set_child(FUNCTION_CALL, &call)?;
            }
        }
        Self::read(part)
    }
}

/// These texts of the user in the place of all contents of a request; what
/// gemini-cli tells of itself stays.
pub fn start_over(document: &mut Document, said: &[&str]) -> Result<(), DialectError> {
    let list = document.list(CONTENTS)?.unwrap_or_default();
    let first = list
        .into_iter()
        .next()
        .map(|it| Content::read(Document::split(it)?));
    let parts = first.transpose()?.map(|it| it.parts).unwrap_or_default();
    let kept = parts.into_iter().filter(Part::is_introduction).map(Ok);
    let said = said.iter().map(|it| Part::new(it));
    let parts: Vec<Part> = kept.chain(said).collect::<Result<_, _>>()?;
    let parts: Vec<Bytes> = parts.iter().map(|it| it.document.to_bytes()).collect();
    let all = [content("user", &parts)];
    document.set_bytes(CONTENTS, array(all.iter().map(AsRef::as_ref)))
}

/// Contents behind those that a request has.
pub fn append(document: &mut Document, contents: &[Bytes]) -> Result<(), DialectError> {
    let mut all = document.list(CONTENTS)?.unwrap_or_default();
    all.extend(contents.iter().cloned());
    document.set_bytes(CONTENTS, array(all.iter().map(AsRef::as_ref)))
}
