//! Function calls in a response: which of them are sent to the agent, and the contents that inform
//! the model of refused ones.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::json;

use crate::dialect::{
    document::{insert, try_any},
    error::Result,
    google::{
        content::Content,
        fields::FINISH_REASON,
        part::{FunctionCall, Part},
        response::{
            builder::PARAGRAPH,
            candidate::{CandidateDocument, ProposedCall, ProposedPart},
            document::ResponseDocument,
            model_step::ModelStep,
            partial_function_calls::{CallDecision, PartialCalls},
        },
    },
};

/// Result of a call that was not refused, but belongs to a step with a refused one.
const NOT_RUN: &str =
    "Not run, because another call of this step was blocked. Ask for it again if it is needed.";

impl ResponseDocument {
    /// Returns the calls that are sent to the agent, with the indexes of their candidates.
    pub fn calls(&self) -> Result<Vec<(u64, FunctionCall)>> {
        let mut calls = Vec::new();
        for candidate in &self.candidates {
            for part in candidate.parts() {
                calls.extend(part.call()?.map(|call| (candidate.index, call)));
            }
        }
        Ok(calls)
    }

    /// Applies one decision to each of [`ResponseDocument::calls`], in order.
    pub fn decide_calls(&mut self, decisions: Vec<CallDecision>) -> Result<()> {
        let mut decisions = decisions.into_iter();
        for candidate in &mut self.candidates {
            candidate.decide_calls(&mut |_| decisions.next().unwrap_or(CallDecision::Keep))?;
        }
        self.update_candidates()
    }

    /// Withholds the calls for which `refuse` returns a reason. They are kept beside the
    /// document. `partial` holds the open calls of the response.
    pub fn withhold_calls(
        &mut self,
        partial: &mut PartialCalls,
        refuse: &mut dyn FnMut(&FunctionCall) -> Option<String>,
    ) -> Result<()> {
        for candidate in &mut self.candidates {
            let index = candidate.index;
            candidate.decide_calls(&mut |call| partial.decide(index, call, refuse))?;
        }
        self.update_candidates()
    }

    /// Returns the indexes of the candidates that have text.
    pub fn candidates_with_text(&self) -> impl Iterator<Item = u64> {
        let has_text = |part: &Part| part.plain_text().is_some_and(|text| !text.is_empty());
        let with_text = self.candidates.iter();
        let with_text = with_text.filter(move |candidate| candidate.parts().iter().any(has_text));
        let text = self.is_text() && self.plain_texts().any(|text| !text.is_empty());
        with_text
            .map(|candidate| candidate.index)
            .chain(text.then_some(0))
    }

    /// Returns the indexes of the candidates that have calls, withheld ones included.
    pub fn candidates_with_calls(&self) -> Result<BTreeSet<u64>> {
        let mut with_calls = BTreeSet::new();
        for candidate in &self.candidates {
            let has_call = try_any(candidate.parts(), |part| Ok(part.call()?.is_some()))?;
            if has_call || !candidate.withheld.is_empty() {
                with_calls.insert(candidate.index);
            }
        }
        Ok(with_calls)
    }

    /// Returns whether any call is withheld.
    pub fn has_withheld_calls(&self) -> bool {
        let mut candidates = self.candidates.iter();
        candidates.any(|candidate| !candidate.withheld.is_empty())
    }

    /// Appends a text for each withheld call, as a paragraph of its own behind other texts:
    /// `with_text` are the indexes of the candidates that have any. Returns those of the candidates
    /// with such calls. Used if the model cannot be asked again.
    pub fn explain_withheld_calls(&mut self, with_text: &BTreeSet<u64>) -> Result<BTreeSet<u64>> {
        let mut explained = BTreeSet::new();
        for candidate in &mut self.candidates {
            let withheld = std::mem::take(&mut candidate.withheld);
            if candidate.content.is_none() || withheld.is_empty() {
                continue;
            }
            let mut parts = candidate.parts().to_vec();
            let mut follows_text = with_text.contains(&candidate.index);
            for reason in withheld.iter().filter_map(|one| one.call.refusal.as_ref()) {
                let separator = if follows_text { PARAGRAPH } else { "" };
                let text = format!("{separator}{}", refusal_text(reason));
                parts.push(Part::from_text(&text)?);
                follows_text = true;
            }
            explained.insert(candidate.index);
            candidate.set_parts(parts)?;
        }
        self.update_candidates()?;
        Ok(explained)
    }

    /// Returns every call of the first candidate in the model's order, withheld ones included.
    pub fn proposed_calls(&self) -> Result<Vec<ProposedCall>> {
        let mut calls = Vec::new();
        for proposed in self.proposed_parts() {
            match proposed {
                ProposedPart::Withheld(call) => calls.push(call.clone()),
                ProposedPart::Sent(part) if part.continues_call()? => (),
                ProposedPart::Sent(part) => {
                    let call = part.call()?;
                    calls.extend(call.map(|call| ProposedCall::new(part, call, None)));
                }
            }
        }
        Ok(calls)
    }

    /// Returns every part of the first candidate in the model's order, withheld calls included.
    pub(super) fn proposed_parts(&self) -> Vec<ProposedPart<'_>> {
        let first = self.first_candidate();
        first.map_or_else(Vec::new, CandidateDocument::proposed_parts)
    }

    /// Removes calls and finish reasons, since another response follows. Returns `false` if
    /// no content is left.
    pub fn remove_end(&mut self) -> Result<bool> {
        for candidate in &mut self.candidates {
            candidate.decide_calls(&mut |_| CallDecision::Drop)?;
            candidate.withheld.clear();
            candidate.document.remove(FINISH_REASON)?;
        }
        self.update_candidates()?;
        Ok(self.has_content())
    }
}

/// Returns a step that the agent does not receive as two contents: all that the model has
/// answered, and one result for each call. Calls that were not refused get a result, too,
/// because the API requires it; the model may repeat them.
pub fn denied_step(step: &ModelStep, calls: &[ProposedCall]) -> Result<[Bytes; 2]> {
    Ok([step.to_content()?, denied_results(calls)?])
}

/// Returns the calls of a denied step and their results as two contents.
pub fn denied_calls(calls: &[ProposedCall]) -> Result<[Bytes; 2]> {
    let proposed = calls.iter().map(|call| call.part.complete_call());
    let proposed: Vec<Part> = proposed.collect::<Result<_, _>>()?;
    Ok([content("model", proposed)?, denied_results(calls)?])
}

fn denied_results(calls: &[ProposedCall]) -> Result<Bytes> {
    let results: Vec<Part> = calls.iter().map(denied_result).collect::<Result<_, _>>()?;
    content("user", results)
}

fn content(role: &str, parts: Vec<Part>) -> Result<Bytes> {
    Ok(Content::new(role, parts)?.document.to_bytes())
}

/// Returns the function response with the refusal.
fn denied_result(call: &ProposedCall) -> Result<Part> {
    let error = match &call.refusal {
        Some(reason) => refusal_text(reason),
        None => NOT_RUN.to_owned(),
    };
    let mut response = json!({ "name": call.name, "response": { "error": error } });
    if let Some(id) = call.part.call_id()? {
        insert(&mut response, "id", id);
    }
    if let Some(toolset) = &call.toolset {
        insert(&mut response, "toolsetName", toolset.as_str());
    }
    Part::from_json(&json!({ "functionResponse": response }))
}

/// Returns the text that replaces a refused call.
fn refusal_text(reason: &str) -> String {
    format!("Tool execution blocked: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_is_withheld_and_can_be_explained() {
        let parts = r#"[{"functionCall":{"name":"rm"}},{"functionCall":{"name":"ls"}}]"#;
        let response =
            format!(r#"{{"candidates":[{{"content":{{"role":"model","parts":{parts}}}}}]}}"#);
        let mut document = ResponseDocument::parse(response.into()).unwrap();
        let refuse = |call: &FunctionCall| (call.name != "ls").then(|| "no".to_owned());
        let mut partial = PartialCalls::default();

        document
            .withhold_calls(&mut partial, &mut { refuse })
            .unwrap();

        let calls = document.proposed_calls().unwrap();
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["rm", "ls"]);
        let explained = |with_text: &[u64]| {
            let mut document = document.clone();
            let with_text = with_text.iter().copied().collect();
            document.explain_withheld_calls(&with_text).unwrap();
            String::from_utf8(document.to_bytes().to_vec()).unwrap()
        };
        let text = explained(&[1]);
        assert!(!text.contains(r#""name":"rm""#) && text.contains(r#""name":"ls""#));
        assert!(text.contains(r#""Tool execution blocked: no""#));
        assert!(explained(&[0]).contains(r#""\n\nTool execution blocked: no""#));
    }
}
