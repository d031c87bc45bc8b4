//! Policies in their places: asked like hooks, without a process.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

use super::{Run, would};
use crate::{
    condition::Condition,
    config::{HookMode, Matcher},
    dialect::{DialectError, ResponseDocument, Words},
    event::{AfterModel, Answer, EventKind, HookOutput, HookStatus},
    policy::{
        ChunkPosition, Occasion, Policy, PolicyEffects, PolicyRequest, ResponsePolicy, TextVerdict,
    },
};

/// A policy on the events that it is placed on.
#[derive(Debug)]
pub struct PlacedPolicy {
    /// What the config calls it.
    pub name: String,
    /// Which policy it is.
    pub kind: &'static str,
    /// Whether it may change anything.
    pub mode: HookMode,
    /// Which subjects it is asked about.
    pub(super) matcher: Matcher,
    /// When it is asked; always, if there is no condition.
    pub when: Option<Condition>,
    /// Whether it looks at model calls, too, and so sees there what events that
    /// are read off them would tell it.
    pub(super) sees_calls: bool,
    pub(super) policy: Arc<dyn Policy>,
}

impl PlacedPolicy {
    /// Asks it about a request. One that only observes leaves the request as it
    /// is.
    pub(super) fn request<E: EventKind>(
        &self,
        occasion: &Occasion<'_>,
        call: &mut PolicyRequest,
    ) -> Result<Run, DialectError> {
        let started = Instant::now();
        let edited_before = std::mem::take(&mut call.edited);
        let (output, edited) = match self.mode {
            HookMode::Enforce => (self.policy.request(occasion, call)?, call.edited),
            // What it cannot read, it says nothing of.
            HookMode::Observe => {
                let mut seen = call.clone();
                let output = self.policy.request(occasion, &mut seen);
                (output.unwrap_or_default(), seen.edited)
            }
        };
        call.edited |= edited_before;
        let run = self.run::<E>(output, started.elapsed());
        Ok(Run { edited, ..run })
    }

    /// Asks it about an event that an agent reported. What it cannot read is
    /// refused.
    pub(super) fn reported<E: EventKind>(
        &self,
        ask: impl FnOnce(&dyn Policy) -> Result<HookOutput, DialectError>,
    ) -> Run {
        let started = Instant::now();
        let output = ask(&*self.policy).unwrap_or_else(|error| {
            HookOutput::denial(format!("The event cannot be read: {error}."))
        });
        self.run::<E>(output, started.elapsed())
    }

    /// What looks at the answer that is about to come.
    pub(super) fn answer(self: &Arc<Self>, occasion: &Occasion<'_>) -> Option<Looking> {
        Some(Looking {
            policy: self.policy.answer(occasion)?,
            placed: Arc::clone(self),
            silent: 0,
        })
    }

    fn run<E: EventKind>(&self, output: HookOutput, elapsed: Duration) -> Run {
        Run {
            name: self.name.clone(),
            would: would::<E>(self.mode, &output),
            answer: Answer {
                status: HookStatus::Ok,
                output,
                diagnostics: Vec::new(),
            },
            elapsed,
            ended: SystemTime::now(),
            edited: false,
            refused: Vec::new(),
        }
    }
}

/// A policy that looks at one answer.
#[derive(Debug)]
pub(super) struct Looking {
    placed: Arc<PlacedPolicy>,
    policy: Box<dyn ResponsePolicy>,
    /// Of how many chunks it had nothing to say, and nobody was told.
    silent: u64,
}

/// What a policy comes to that is shown words.
pub(super) enum Shown {
    /// It has nothing to say.
    Silent,
    /// Its run.
    Ran(Box<Run>),
    /// It must see the document.
    WantsDocument,
}

impl Looking {
    /// Shows it a chunk. What it did, and what it has to say.
    pub(super) fn chunk(
        &mut self,
        chunk: &mut ResponseDocument,
        extent: ChunkPosition,
    ) -> Result<Run, DialectError> {
        let started = Instant::now();
        let output = match self.placed.mode {
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
    pub(super) fn words(&mut self, words: &mut Words) -> Shown {
        let said = match self.placed.mode {
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
    pub(super) fn silent(&mut self) -> Option<(Run, u64)> {
        let silent = std::mem::take(&mut self.silent);
        let run = || {
            let said = HookOutput::default();
            self.placed.run::<AfterModel>(said, Duration::ZERO)
        };
        (silent > 0).then(|| (run(), silent))
    }

    /// Whether it may change anything.
    pub(super) fn enforces(&self) -> bool {
        self.placed.mode == HookMode::Enforce
    }

    /// What it still holds back, and its run on that.
    pub(super) fn end(&mut self) -> Result<Option<(ResponseDocument, Run)>, DialectError> {
        let started = Instant::now();
        let Some((chunk, output)) = self.policy.end()? else {
            return Ok(None);
        };
        Ok(Some((chunk, self.ran(output, started))))
    }

    fn ran(&mut self, output: HookOutput, started: Instant) -> Run {
        let PolicyEffects { edited, refused } = self.policy.deeds();
        Run {
            edited,
            refused,
            ..self.placed.run::<AfterModel>(output, started.elapsed())
        }
    }
}
