//! The policies that look at one answer, in order.

use super::{Run, placed::Looking};
use crate::{
    dialect::{DialectError, ResponseDocument},
    policy::Extent,
};

/// The policies that look at one answer, in order. They live as long as it does.
#[derive(Debug, Default)]
pub struct AnswerLook {
    pub(super) policies: Vec<Looking>,
}

/// A chunk that policies have seen.
#[derive(Debug)]
pub struct Seen {
    /// What is left of it.
    pub chunk: ResponseDocument,
    /// One run for each policy that has.
    pub runs: Vec<Run>,
}

/// What policies still held back after the last chunk.
#[derive(Debug, Default)]
pub struct Held {
    /// What must still be said.
    pub seen: Vec<Seen>,
    /// What those found who only observe, and so hold nothing back.
    pub observed: Vec<Run>,
}

impl AnswerLook {
    /// Whether nobody looks.
    pub const fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// Shows all of them a chunk; each sees what those before left.
    pub fn chunk(
        &mut self,
        chunk: &mut ResponseDocument,
        extent: Extent,
    ) -> Result<Vec<Run>, DialectError> {
        show(&mut self.policies, chunk, extent)
    }

    /// What they still hold back, after the last chunk. What one held back, those
    /// after it see as a chunk.
    pub fn end(&mut self) -> Result<Held, DialectError> {
        let mut held = Held::default();
        let mut rest = self.policies.as_mut_slice();
        while let Some((policy, after)) = rest.split_first_mut() {
            match policy.end()? {
                Some((mut chunk, run)) if policy.enforces() => {
                    let mut runs = vec![run];
                    runs.extend(show(after, &mut chunk, Extent::Chunk)?);
                    held.seen.push(Seen { chunk, runs });
                }
                Some((_, run)) => held.observed.push(run),
                None => (),
            }
            rest = after;
        }
        Ok(held)
    }
}

fn show(
    policies: &mut [Looking],
    chunk: &mut ResponseDocument,
    extent: Extent,
) -> Result<Vec<Run>, DialectError> {
    let mut runs = Vec::new();
    for policy in policies {
        runs.push(policy.chunk(chunk, extent)?);
    }
    Ok(runs)
}
