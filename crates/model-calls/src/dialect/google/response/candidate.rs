//! One candidate of a response.

use serde_json::{Map, Value};

use crate::{
    dialect::{
        document::{Document, add_field},
        error::Result,
        google::{
            content::Content,
            fields::{CONTENT, FINISH_REASON},
            part::{FunctionCall, Part},
            response::partial_function_calls::CallDecision,
        },
    },
    model::{Candidate, CandidateContent, CandidateMutation, Role},
};

pub const INDEX: &[&str] = &["index"];
pub const SAFETY_RATINGS: &[&str] = &["safetyRatings", "safety_ratings"];

#[derive(Debug, Clone)]
pub struct CandidateDocument {
    /// Index of the candidate, equal in every chunk.
    pub index: u64,
    pub document: Document,
    pub content: Option<Content>,
    pub withheld: Vec<WithheldCall>,
    /// True if no later chunk continues its texts.
    pub is_ended: bool,
}

/// A call that is not sent to the agent.
#[derive(Debug, Clone)]
pub struct WithheldCall {
    /// Number of parts in front of it that are sent to the agent.
    pub preceding: usize,
    pub call: ProposedCall,
}

/// A part of an answer as the model made it.
#[derive(Debug, Clone, Copy)]
pub enum ProposedPart<'a> {
    /// The agent receives it.
    Sent(&'a Part),
    /// A call that is not sent to the agent.
    Withheld(&'a ProposedCall),
}

impl ProposedPart<'_> {
    /// Returns the part, sent or not.
    pub const fn part(&self) -> &Part {
        match self {
            Self::Sent(part) => part,
            Self::Withheld(call) => &call.part,
        }
    }
}

/// A function call as the model made it.
#[derive(Debug, Clone)]
pub struct ProposedCall {
    /// Function name; empty if the call names none.
    pub name: String,
    /// Set of tools to which the function belongs, if it is not declared by itself.
    pub toolset: Option<String>,
    /// Arguments; `null` if there are none.
    pub arguments: Value,
    /// Reason to withhold it from the agent.
    pub refusal: Option<String>,
    pub(crate) part: Part,
}

impl ProposedCall {
    pub(super) fn new(part: &Part, call: FunctionCall, refusal: Option<String>) -> Self {
        Self {
            name: call.name,
            toolset: call.toolset,
            arguments: call.arguments,
            refusal,
            part: part.clone(),
        }
    }
}

impl CandidateDocument {
    pub fn read(index: u64, document: Document) -> Result<Self> {
        let content = document.child(CONTENT)?.map(Content::read).transpose()?;
        Ok(Self {
            index,
            document,
            content,
            withheld: Vec::new(),
            is_ended: false,
        })
    }

    pub fn parts(&self) -> &[Part] {
        self.content.as_ref().map_or(&[], |content| &content.parts)
    }

    /// Returns whether it holds a part other than an empty text.
    pub fn has_filled_part(&self) -> bool {
        let is_filled = |part: &Part| part.text.as_ref().is_none_or(|text| !text.is_empty());
        self.parts().iter().any(is_filled)
    }

    /// Returns the stable form.
    pub fn to_model(&self) -> Result<Candidate> {
        let texts = self.parts().iter();
        let texts = texts.filter_map(|part| Some((part.text.clone()?, part.is_thought)));
        let (parts, thoughts) = texts.unzip();
        Ok(Candidate {
            content: CandidateContent {
                role: Role::Model,
                parts,
                thoughts,
            },
            finish_reason: self.document.string(FINISH_REASON)?,
            index: self.document.get(INDEX)?,
            safety_ratings: self.shown_ratings()?,
        })
    }

    /// Returns the safety ratings as hooks see them: without fields that only Vertex AI has.
    fn shown_ratings(&self) -> Result<Option<Value>> {
        let ratings = self.document.children(SAFETY_RATINGS)?;
        ratings.as_deref().map(read_ratings).transpose()
    }

    /// Applies the edits of hooks. A field that they return as it was shown is left as it is.
    pub fn write(&mut self, mutation: &CandidateMutation) -> Result<()> {
        // Hooks see an empty text where there is no part.
        let has_text = self.parts().iter().any(|part| part.text.is_some());
        if let Some(texts) = &mutation.parts
            && (has_text || mutation.has_filled_text())
        {
            let parts = replace_texts(self.parts(), texts)?;
            self.set_parts(parts)?;
        }
        let shown = self.shown_ratings()?;
        let ratings = mutation.safety_ratings.clone();
        let fields = [
            (
                FINISH_REASON,
                mutation.finish_reason.clone().map(Value::String),
            ),
            (INDEX, mutation.index.clone()),
            (
                SAFETY_RATINGS,
                ratings.filter(|ratings| shown.as_ref() != Some(ratings)),
            ),
        ];
        for (field, value) in fields {
            if let Some(value) = value
                && self.document.get(field)?.as_ref() != Some(&value)
            {
                self.document.set(field, &value)?;
            }
        }
        Ok(())
    }

    /// Returns the parts in the model's order, with the calls that are withheld.
    pub fn proposed_parts(&self) -> Vec<ProposedPart<'_>> {
        let mut proposed = Vec::with_capacity(self.parts().len() + self.withheld.len());
        let mut withheld = self.withheld.iter().peekable();
        for (index, part) in self.parts().iter().enumerate() {
            while let Some(withheld) = withheld.next_if(|call| call.preceding <= index) {
                proposed.push(ProposedPart::Withheld(&withheld.call));
            }
            proposed.push(ProposedPart::Sent(part));
        }
        proposed.extend(withheld.map(|withheld| ProposedPart::Withheld(&withheld.call)));
        proposed
    }

    /// Sets the parts of the content, which is created if it is absent.
    pub fn set_parts(&mut self, parts: Vec<Part>) -> Result<()> {
        let content = match self.content.take() {
            Some(content) => content.with_parts(parts)?,
            None => Content::new("model", parts)?,
        };
        self.document.set_child(CONTENT, &content.document)?;
        self.content = Some(content);
        Ok(())
    }

    /// Applies a decision to each call that is still sent to the agent.
    pub fn decide_calls(
        &mut self,
        decide: &mut dyn FnMut(&FunctionCall) -> CallDecision,
    ) -> Result<()> {
        let mut earlier = std::mem::take(&mut self.withheld).into_iter().peekable();
        let mut withheld = Vec::new();
        let mut parts = Vec::with_capacity(self.parts().len());
        let mut is_edited = false;
        let moved_to = |call: WithheldCall, preceding| WithheldCall { preceding, ..call };
        for (index, part) in self.parts().iter().enumerate() {
            while let Some(call) = earlier.next_if(|call| call.preceding <= index) {
                withheld.push(moved_to(call, parts.len()));
            }
            let Some(call) = part.call()? else {
                parts.push(part.clone());
                continue;
            };
            let decision = decide(&call);
            is_edited |= decision != CallDecision::Keep;
            match decision {
                CallDecision::Keep => parts.push(part.clone()),
                CallDecision::Rewrite(arguments) => parts.push(part.with_arguments(&arguments)?),
                CallDecision::Refuse(reason) => withheld.push(WithheldCall {
                    preceding: parts.len(),
                    call: ProposedCall::new(part, call, Some(reason)),
                }),
                CallDecision::Drop => (),
            }
        }
        withheld.extend(earlier.map(|call| moved_to(call, parts.len())));
        self.withheld = withheld;
        if is_edited {
            self.set_parts(parts)?;
        }
        Ok(())
    }
}

/// Replaces the texts of parts. If there are as many as before, each part keeps its flags and
/// signature. Otherwise the new ones take the position of the first old one.
fn replace_texts(parts: &[Part], texts: &[String]) -> Result<Vec<Part>> {
    let has_text = |part: &&Part| part.text.is_some();
    if parts.iter().filter(has_text).count() == texts.len() {
        let mut texts = texts.iter();
        let replaced = parts.iter().map(|part| {
            let text = part.text.as_ref().and_then(|_| texts.next());
            text.map_or_else(|| Ok(part.clone()), |text| part.with_text(text))
        });
        return replaced.collect();
    }
    let first = parts.iter().position(|part| part.text.is_some());
    let (head, tail) = parts.split_at(first.unwrap_or(0));
    let new_part = if parts.iter().any(Part::is_refusal) {
        Part::from_refusal
    } else {
        Part::from_text
    };
    let new = texts.iter().map(|text| new_part(text));
    let tail = tail.iter().filter(|part| part.text.is_none());
    let (head, tail) = (head.iter().cloned().map(Ok), tail.cloned().map(Ok));
    head.chain(new).chain(tail).collect()
}

fn read_ratings(ratings: &[Document]) -> Result<Value> {
    let read = |rating: &Document| -> Result<Value> {
        let mut fields = Map::new();
        for key in ["category", "probability", "blocked"] {
            add_field(&mut fields, key, rating.get(&[key])?);
        }
        Ok(Value::Object(fields))
    };
    let ratings: Vec<Value> = ratings.iter().map(read).collect::<Result<_, _>>()?;
    Ok(Value::Array(ratings))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_in_the_place_of_a_refusal_is_a_refusal() {
        let thought = Part::from_json(&json!({ "text": "Thinking", "thought": true })).unwrap();
        let parts = [thought, Part::from_refusal("I cannot").unwrap()];

        let replaced = replace_texts(&parts, &["Sorry.".to_owned()]).unwrap();

        let [text] = replaced.as_slice() else {
            panic!("{replaced:?}")
        };
        assert!(text.is_refusal());
        assert_eq!(text.plain_text(), Some("Sorry."));
    }
}
