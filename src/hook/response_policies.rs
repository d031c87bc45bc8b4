//! Policies on one response, in order.

use std::{sync::Arc, time::Duration};

use stream_redact::NextText;
use tokio::time::Instant;

use super::configured_policy::ConfiguredPolicy;
use crate::{
    config::HookMode,
    dialect::{DialectError, ResponseDocument},
    event::{AfterModel, HookOutput, HookRun},
    policy::{ChunkPosition, PolicyContext, PolicyEffects, ResponsePolicy},
};

/// Policies on one response, in order. Created and dropped with it.
#[derive(Debug, Default)]
pub struct ResponsePolicies {
    policies: Vec<ActiveResponsePolicy>,
}

/// Text that policies held back until after the last chunk.
#[derive(Debug, Default)]
pub struct HeldBack {
    /// Chunks of held-back text, one for each policy that has some, with the runs on it.
    pub chunks: Vec<(ResponseDocument, Vec<HookRun>)>,
    /// Runs of policies in `mode: observe`, whose text was not held back.
    pub observed: Vec<HookRun>,
}

impl ResponsePolicies {
    /// Starts those of the policies that inspect responses.
    pub(super) fn new<'a>(
        policies: &'a [Arc<ConfiguredPolicy>],
        context: impl Fn(&'a ConfiguredPolicy) -> PolicyContext<'a>,
    ) -> Self {
        let active = policies.iter().filter_map(|configured| {
            Some(ActiveResponsePolicy {
                policy: configured.policy.response(&context(configured))?,
                configured: Arc::clone(configured),
                is_reported: false,
                unreported: 0,
                unreported_time: Duration::ZERO,
            })
        });
        Self {
            policies: active.collect(),
        }
    }

    /// Returns whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// Returns the number of bytes that policies hold back.
    pub fn held_bytes(&self) -> usize {
        let held_bytes = |policy: &ActiveResponsePolicy| policy.policy.held_bytes();
        self.enforcing().map(held_bytes).sum()
    }

    /// Returns whether any policy finds a secret that the text so far, with `rest` behind it, and
    /// the text behind that have together; `None` if text to come decides it.
    pub fn join_text(&self, rest: &str, next: NextText<'_>) -> Option<bool> {
        let enforcing = self.enforcing();
        let mut joins = enforcing.map(|policy| policy.policy.joins_text(rest, next));
        joins.try_fold(false, |any, joins| Some(any || joins?))
    }

    /// Returns whether any policy may withhold calls.
    pub fn withhold_calls(&self) -> bool {
        let mut enforcing = self.enforcing();
        enforcing.any(|policy| policy.policy.withholds_calls())
    }

    fn enforcing(&self) -> impl Iterator<Item = &ActiveResponsePolicy> {
        let policies = self.policies.iter();
        policies.filter(|policy| policy.configured.mode == HookMode::Enforce)
    }

    /// Passes a chunk through all policies; each one gets the edits of those before it. Returns
    /// the runs to report: the first one of each policy, and those with an output or effect.
    ///
    /// # Errors
    ///
    /// Fails if an enforcing policy cannot read the chunk.
    pub fn inspect(
        &mut self,
        chunk: &mut ResponseDocument,
        position: ChunkPosition,
    ) -> Result<Vec<HookRun>, DialectError> {
        inspect(&mut self.policies, chunk, position)
    }

    /// Returns the unreported runs of each policy as one run with the sum of their durations, and
    /// their number. Resets both.
    pub fn take_unreported(&mut self) -> Vec<(HookRun, u64)> {
        let mut unreported = Vec::new();
        for policy in self
            .policies
            .iter_mut()
            .filter(|policy| policy.unreported > 0)
        {
            let output = HookOutput::default();
            let elapsed = std::mem::take(&mut policy.unreported_time);
            let run = policy.configured.run::<AfterModel>(output, elapsed);
            unreported.push((run, std::mem::take(&mut policy.unreported)));
        }
        unreported
    }

    /// Releases held-back text after the last chunk. The text of one policy passes through
    /// those after it as a chunk.
    ///
    /// # Errors
    ///
    /// Fails if an enforcing policy cannot read the text.
    pub fn finish(&mut self) -> Result<HeldBack, DialectError> {
        let mut held_back = HeldBack::default();
        let mut rest = self.policies.as_mut_slice();
        while let Some((policy, after)) = rest.split_first_mut() {
            match policy.finish()? {
                Some((mut chunk, run)) if policy.configured.mode == HookMode::Enforce => {
                    let mut runs = vec![run];
                    runs.extend(inspect(after, &mut chunk, ChunkPosition::Chunk)?);
                    held_back.chunks.push((chunk, runs));
                }
                Some((_, run)) => held_back.observed.push(run),
                None => (),
            }
            rest = after;
        }
        Ok(held_back)
    }
}

fn inspect(
    policies: &mut [ActiveResponsePolicy],
    chunk: &mut ResponseDocument,
    position: ChunkPosition,
) -> Result<Vec<HookRun>, DialectError> {
    let mut runs = Vec::new();
    for policy in policies {
        runs.extend(policy.inspect(chunk, position)?);
    }
    Ok(runs)
}

/// A policy on one response.
#[derive(Debug)]
struct ActiveResponsePolicy {
    configured: Arc<ConfiguredPolicy>,
    policy: Box<dyn ResponsePolicy>,
    /// True if a run was reported.
    is_reported: bool,
    /// Number of runs without output and effect since the last report. A stream has thousands
    /// of them, so they are reported together.
    unreported: u64,
    unreported_time: Duration,
}

impl ActiveResponsePolicy {
    /// Inspects a chunk. Returns the run, if it is to be reported.
    fn inspect(
        &mut self,
        chunk: &mut ResponseDocument,
        position: ChunkPosition,
    ) -> Result<Option<HookRun>, DialectError> {
        let started = Instant::now();
        let output = match self.configured.mode {
            HookMode::Enforce => self.policy.chunk(chunk, position)?,
            HookMode::Observe => {
                let output = self.policy.chunk(&mut chunk.clone(), position);
                output.unwrap_or_default()
            }
        };
        let effects = self.policy.take_effects();
        let has_effect = effects.edited || !effects.refused.is_empty();
        if self.is_reported && !has_effect && output == HookOutput::default() {
            self.unreported += 1;
            self.unreported_time += started.elapsed();
            return Ok(None);
        }
        self.is_reported = true;
        Ok(Some(self.run(output, effects, started)))
    }

    /// Releases held-back text, with the run on it.
    fn finish(&mut self) -> Result<Option<(ResponseDocument, HookRun)>, DialectError> {
        let started = Instant::now();
        let Some((chunk, output)) = self.policy.end()? else {
            return Ok(None);
        };
        let effects = self.policy.take_effects();
        Ok(Some((chunk, self.run(output, effects, started))))
    }

    fn run(&self, output: HookOutput, effects: PolicyEffects, started: Instant) -> HookRun {
        let PolicyEffects { edited, refused } = effects;
        HookRun {
            edited,
            refused,
            ..self.configured.run::<AfterModel>(output, started.elapsed())
        }
    }
}
