//! Hosted calls without a result. A denied call beside them may come before it: the next answer
//! then has the result.

use std::collections::BTreeSet;

use crate::dialect::{DialectError, HostedPart, ResponseDocument};

/// Hosted calls without a result in the answers of one turn.
///
/// INVARIANT: an agent never receives a hosted call of an answer that is replaced, unless another
/// answer refers to it. The API refuses such a call when the agent sends it back.
#[derive(Debug, Default)]
pub struct HostedCalls {
    /// Ids of the calls of this answer.
    open: BTreeSet<String>,
    /// Calls of earlier answers.
    earlier: Vec<ResponseDocument>,
    earlier_ids: BTreeSet<String>,
}

impl HostedCalls {
    /// Notes the hosted calls and results of a chunk. Returns the calls of earlier answers if the
    /// chunk refers to any of them: they go to the agent in front of it.
    pub fn note(
        &mut self,
        chunk: &ResponseDocument,
    ) -> Result<Vec<ResponseDocument>, DialectError> {
        let mut released = Vec::new();
        for part in chunk.hosted_parts()? {
            if self.earlier_ids.contains(part.id()) {
                self.open.append(&mut self.earlier_ids);
                released.append(&mut self.earlier);
            }
            match part {
                HostedPart::Call(id) => drop(self.open.insert(id)),
                HostedPart::Result(id) => drop(self.open.remove(&id)),
                HostedPart::AgentCall(_) => (),
            }
        }
        Ok(released)
    }

    /// Returns whether a call of this answer has no result yet.
    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Removes the calls without a result from a chunk of an answer that another one replaces.
    pub fn split(&mut self, chunk: &mut ResponseDocument) -> Result<(), DialectError> {
        if let Some(calls) = chunk.split_hosted_calls(&self.open)? {
            for part in calls.hosted_parts()? {
                self.earlier_ids.insert(part.id().to_owned());
            }
            self.earlier.push(calls);
        }
        Ok(())
    }
}
