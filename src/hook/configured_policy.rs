//! A policy with its place in the config.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{outcome::hook_run, tool_matcher::ToolMatcher};
use crate::{
    condition::Condition,
    config::{CallerPattern, HookMode, ProofCases, SourceSpan},
    dialect::DialectError,
    event::{BeforeModel, EventKind, HookOutput, HookResult, HookRun, RuleId},
    policy::{Policy, PolicyContext, PolicyRequest},
};

/// A policy with its name, mode and condition.
#[derive(Debug)]
pub struct ConfiguredPolicy {
    /// Number of the policy in the config.
    pub rule: RuleId,
    /// Name in the config.
    pub name: String,
    /// Position in the config.
    pub(super) span: SourceSpan,
    /// Name of its counters.
    pub(super) counter: String,
    /// Name of the kind of policy, such as `redact`.
    pub kind: &'static str,
    /// Enforcement of its decisions and edits.
    pub mode: HookMode,
    /// True if it belongs to a locked bundle, and so also runs last.
    pub(super) is_locked: bool,
    /// True if it belongs to the bundle below a locked one.
    pub(super) is_below_locked: bool,
    /// Cases that prove it.
    pub(super) proof: ProofCases,
    pub(super) matcher: ToolMatcher,
    /// Condition under which it runs; always if `None`.
    pub when: Option<Condition>,
    /// Callers for which it runs; all if `None`.
    pub(super) callers: Option<CallerPattern>,
    /// True if it runs on model calls as well, and so need not run on events that
    /// are derived from them.
    pub(super) inspects_calls: bool,
    pub(super) policy: Arc<dyn Policy>,
}

impl ConfiguredPolicy {
    /// Returns whether it runs for a caller with this name.
    pub(super) fn is_for(&self, caller: &str) -> bool {
        let callers = self.callers.as_ref();
        callers.is_none_or(|callers| callers.matches(caller))
    }

    /// Returns the condition for running, as an expression.
    pub fn condition(&self) -> Option<String> {
        let when = self.when.as_ref().map(ToString::to_string);
        when.or_else(|| self.callers.as_ref().map(ToString::to_string))
    }

    /// Runs on a request. In `mode: observe` the request stays unchanged.
    ///
    /// # Errors
    ///
    /// Fails if an enforcing policy cannot read the request.
    pub(super) fn request(
        &self,
        context: &PolicyContext<'_>,
        request: &mut PolicyRequest,
    ) -> Result<HookRun, DialectError> {
        let started = Instant::now();
        let edited_before = std::mem::take(&mut request.edited);
        let (output, edited) = match self.mode {
            HookMode::Enforce => (self.policy.request(context, request)?, request.edited),
            // A request that an observer cannot read has no output.
            HookMode::Observe => {
                let mut copy = request.clone();
                let output = self.policy.request(context, &mut copy);
                (output.unwrap_or_default(), copy.edited)
            }
        };
        request.edited |= edited_before;
        let run = self.run::<BeforeModel>(output, started.elapsed());
        Ok(HookRun { edited, ..run })
    }

    /// A run with this output that ends now.
    pub(super) fn run<E: EventKind>(&self, output: HookOutput, elapsed: Duration) -> HookRun {
        let result = HookResult {
            output,
            ..HookResult::default()
        };
        hook_run::<E>(self.rule, &self.name, self.mode, result, elapsed)
    }
}
