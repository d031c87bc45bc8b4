//! The policies that look at one answer, in order.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::configured_policy::ConfiguredPolicy;
use crate::{
    config::HookMode,
    dialect::{DialectError, ResponseDocument, Words},
    event::{AfterModel, HookOutput, HookRun},
    policy::{ChunkPosition, PolicyContext, PolicyEffects, ResponsePolicy, TextVerdict},
};

/// The policies that look at one answer, in order. They live as long as it does.
#[derive(Debug, Default)]
pub struct ResponsePolicies {
    policies: Vec<ActiveResponsePolicy>,
}

/// A chunk that policies have seen.
#[derive(Debug)]
pub struct Seen {
    /// What is left of it.
    pub chunk: ResponseDocument,
    /// One run for each policy that has.
    pub runs: Vec<HookRun>,
}

/// How far policies have come with a chunk.
#[derive(Debug, Default)]
pub struct Progress {
    /// How many of them have seen it.
    seen: usize,
    /// The runs of those that had something to say.
    runs: Vec<HookRun>,
}

/// What policies still held back after the last chunk.
#[derive(Debug, Default)]
pub struct Held {
    /// What must still be said.
    pub seen: Vec<Seen>,
    /// What those found who only observe, and so hold nothing back.
    pub observed: Vec<HookRun>,
}

impl ResponsePolicies {
    /// Starts those of the policies that inspect responses.
    pub(super) fn new(policies: &[Arc<ConfiguredPolicy>], context: PolicyContext<'_>) -> Self {
        let active = policies.iter().filter_map(|policy| {
            ActiveResponsePolicy::new(
                policy,
                &PolicyContext {
                    policy: &policy.name,
                    ..context
                },
            )
        });
        Self {
            policies: active.collect(),
        }
    }

    /// Whether nobody looks.
    pub const fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// Shows all of them a chunk; each sees what those before left.
    pub fn chunk(
        &mut self,
        chunk: &mut ResponseDocument,
        extent: ChunkPosition,
    ) -> Result<Vec<HookRun>, DialectError> {
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
    ) -> Result<Vec<HookRun>, DialectError> {
        let Progress { seen, mut runs } = progress;
        let rest = self.policies.get_mut(seen..).unwrap_or_default();
        runs.extend(show(rest, chunk, extent)?);
        Ok(runs)
    }

    /// The runs of each policy that had nothing to say of words, as one, and how
    /// many they are. They are told once.
    pub fn silent(&mut self) -> Vec<(HookRun, u64)> {
        let silent = self
            .policies
            .iter_mut()
            .filter_map(ActiveResponsePolicy::silent);
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

fn show(
    policies: &mut [ActiveResponsePolicy],
    chunk: &mut ResponseDocument,
    extent: ChunkPosition,
) -> Result<Vec<HookRun>, DialectError> {
    let mut runs = Vec::new();
    for policy in policies {
        runs.push(policy.chunk(chunk, extent)?);
    }
    Ok(runs)
}

/// A policy that looks at one answer.
#[derive(Debug)]
struct ActiveResponsePolicy {
    configured: Arc<ConfiguredPolicy>,
    policy: Box<dyn ResponsePolicy>,
    /// Of how many chunks it had nothing to say, and nobody was told.
    silent: u64,
}

/// What a policy comes to that is shown words.
enum Shown {
    /// It has nothing to say.
    Silent,
    /// Its run.
    Ran(Box<HookRun>),
    /// It must see the document.
    WantsDocument,
}

impl ActiveResponsePolicy {
    /// The policy's inspector of a response; `None` if it does not inspect responses.
    fn new(configured: &Arc<ConfiguredPolicy>, context: &PolicyContext<'_>) -> Option<Self> {
        Some(Self {
            policy: configured.policy.response(context)?,
            configured: Arc::clone(configured),
            silent: 0,
        })
    }

    /// Shows it a chunk. What it did, and what it has to say.
    fn chunk(
        &mut self,
        chunk: &mut ResponseDocument,
        extent: ChunkPosition,
    ) -> Result<HookRun, DialectError> {
        let started = Instant::now();
        let output = match self.configured.mode {
            HookMode::Enforce => self.policy.chunk(chunk, extent)?,
            HookMode::Observe => {
                let seen = self.policy.chunk(&mut chunk.clone(), extent);
                seen.unwrap_or_default()
            }
        };
        Ok(self.ran(output, started))
    }

    /// Shows it a chunk that is nothing but words. No clock is asked: a stream has
    /// thousands of them, and looking takes less than asking.
    fn words(&mut self, words: &mut Words) -> Shown {
        let said = match self.configured.mode {
            HookMode::Enforce => self.policy.words(words),
            HookMode::Observe => self.policy.words(&mut words.clone()),
        };
        match said {
            TextVerdict::Silent => {
                self.silent += 1;
                Shown::Silent
            }
            TextVerdict::Said(output) => Shown::Ran(Box::new(self.ran(*output, Instant::now()))),
            TextVerdict::WantsDocument => Shown::WantsDocument,
        }
    }

    /// Its runs of which nobody was told, as one, and how many they are.
    fn silent(&mut self) -> Option<(HookRun, u64)> {
        let silent = std::mem::take(&mut self.silent);
        let run = || {
            let said = HookOutput::default();
            self.configured.run::<AfterModel>(said, Duration::ZERO)
        };
        (silent > 0).then(|| (run(), silent))
    }

    /// Whether it may change anything.
    fn enforces(&self) -> bool {
        self.configured.mode == HookMode::Enforce
    }

    /// What it still holds back, and its run on that.
    fn end(&mut self) -> Result<Option<(ResponseDocument, HookRun)>, DialectError> {
        let started = Instant::now();
        let Some((chunk, output)) = self.policy.end()? else {
            return Ok(None);
        };
        Ok(Some((chunk, self.ran(output, started))))
    }

    fn ran(&mut self, output: HookOutput, started: Instant) -> HookRun {
        let PolicyEffects { edited, refused } = self.policy.take_effects();
        HookRun {
            edited,
            refused,
            ..self.configured.run::<AfterModel>(output, started.elapsed())
        }
    }
}
