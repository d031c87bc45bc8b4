//! Hosted calls in a response that have no result yet.

use std::collections::BTreeSet;

use serde_json::json;

use crate::dialect::{
    content_form::HostedPart,
    document::{Document, to_document},
    error::Result,
    google::{
        content::Content,
        fields::{CANDIDATES, CONTENT},
        part::Part,
        response::{
            candidate::{ProposedCall, ProposedPart},
            document::ResponseDocument,
        },
    },
};

impl ProposedCall {
    /// Returns whether a hosted call has made it, whose own result comes after this one's.
    pub fn is_of_hosted_call(&self) -> Result<bool> {
        let hosted = HostedPart::of(&self.part.document)?;
        Ok(matches!(hosted, Some(HostedPart::AgentCall(_))))
    }
}

impl ResponseDocument {
    /// Returns the parts of hosted calls in the first candidate, withheld ones included.
    pub fn hosted_parts(&self) -> Result<Vec<HostedPart>> {
        let parts = self.proposed_parts();
        let parts = parts.iter().map(ProposedPart::part);
        let parts = parts.filter_map(|part| HostedPart::of(&part.document).transpose());
        parts.collect()
    }

    /// Removes the hosted calls with these ids, and returns them as a response of their own.
    pub fn split_hosted_calls(&mut self, ids: &BTreeSet<String>) -> Result<Option<Self>> {
        let mut split = self.clone();
        let mut candidates = self.candidates.iter_mut();
        let Some(candidate) = candidates.find(|candidate| candidate.index == 0) else {
            return Ok(None);
        };
        let (mut calls, mut rest) = (Vec::new(), Vec::new());
        for part in candidate.parts() {
            match HostedPart::of(&part.document)? {
                Some(HostedPart::Call(id)) if ids.contains(&id) => calls.push(part.clone()),
                Some(_) | None => rest.push(part.clone()),
            }
        }
        if calls.is_empty() {
            return Ok(None);
        }
        if rest.is_empty() && candidate.withheld.is_empty() {
            split.remove_end()?;
        } else {
            split = Self::of_parts(calls)?;
        }
        candidate.set_parts(rest)?;
        self.update_candidates()?;
        Ok(Some(split))
    }

    fn of_parts(parts: Vec<Part>) -> Result<Self> {
        let content = Content::new("model", parts)?;
        let mut candidate = to_document(&json!({ "index": 0 }))?;
        candidate.set_child(CONTENT, &content.document)?;
        let mut response = Document::empty();
        response.set_children(CANDIDATES, [&candidate])?;
        Self::parse(response.to_bytes())
    }
}
