//! The policies that look at one answer, in order.

use super::{
    Engine, Run,
    configured_policy::{Looking, Shown},
};
use crate::{
    dialect::{DialectError, ResponseDocument, Words},
    event::EventName,
    observe::PolicySilent,
    policy::ChunkPosition,
};

/// The policies that look at one answer, in order. They live as long as it does.
#[derive(Debug, Default)]
pub struct ResponsePolicies {
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

/// How far policies have come with a chunk.
#[derive(Debug, Default)]
pub struct Progress {
    /// How many of them have seen it.
    seen: usize,
    /// The runs of those that had something to say.
    runs: Vec<Run>,
}

/// What policies still held back after the last chunk.
#[derive(Debug, Default)]
pub struct Held {
    /// What must still be said.
    pub seen: Vec<Seen>,
    /// What those found who only observe, and so hold nothing back.
    pub observed: Vec<Run>,
}

impl ResponsePolicies {
    /// Whether nobody looks.
    pub const fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// Shows all of them a chunk; each sees what those before left.
    pub fn chunk(
        &mut self,
        chunk: &mut ResponseDocument,
        extent: ChunkPosition,
    ) -> Result<Vec<Run>, DialectError> {
        show(&mut self.policies, chunk, extent)
    }

    /// Shows them a chunk that is nothing but words. If one of them has something to
    /// say, or must see the document: how far they have come.
    pub fn words(&mut self, words: &mut Words) -> Option<Progress> {
        for (at, policy) in self.policies.iter_mut().enumerate() {
            match policy.words(words) {
                Shown::Silent => (),
                Shown::Ran(run) => {
                    return Some(Progress {
                        seen: at + 1,
                        runs: vec![*run],
                    });
                }
                Shown::WantsDocument => {
                    return Some(Progress {
                        seen: at,
                        runs: Vec::new(),
                    });
                }
            }
        }
        None
    }

    /// Shows a chunk to those who have not seen it yet. The runs of all who had
    /// something to say, or were shown the document.
    pub fn go_on(
        &mut self,
        progress: Progress,
        chunk: &mut ResponseDocument,
        extent: ChunkPosition,
    ) -> Result<Vec<Run>, DialectError> {
        let Progress { seen, mut runs } = progress;
        let rest = self.policies.get_mut(seen..).unwrap_or_default();
        runs.extend(show(rest, chunk, extent)?);
        Ok(runs)
    }

    /// The runs of each policy that had nothing to say of words, as one, and how
    /// many they are. They are told once.
    pub fn silent(&mut self) -> Vec<(Run, u64)> {
        let silent = self.policies.iter_mut().filter_map(Looking::silent);
        silent.collect()
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
                    runs.extend(show(after, &mut chunk, ChunkPosition::Chunk)?);
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

impl Engine {
    /// Counts runs of policies that had nothing to say, each as often as it is told.
    pub fn silent(&self, runs: &[(Run, u64)]) {
        for (run, times) in runs {
            PolicySilent {
                policy: &run.name,
                event: EventName::AfterModel,
                times: *times,
            }
            .emit(&self.metrics);
        }
    }
}

fn show(
    policies: &mut [Looking],
    chunk: &mut ResponseDocument,
    extent: ChunkPosition,
) -> Result<Vec<Run>, DialectError> {
    let mut runs = Vec::new();
    for policy in policies {
        runs.push(policy.chunk(chunk, extent)?);
    }
    Ok(runs)
}
