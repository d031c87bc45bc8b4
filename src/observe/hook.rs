//! A hook has answered, or failed to; or has failed after that.

use std::time::Duration;

use super::metrics::Metrics;
use crate::event::{EventName, HookResult, HookStatus};

/// A hook has answered, or failed to.
#[derive(Debug)]
pub struct HookFinished<'a> {
    /// The id of the request that the event belongs to; empty if to none.
    pub request_id: &'a str,
    /// Its name, or its command if it has none.
    pub hook: &'a str,
    /// The event it ran on.
    pub event: EventName,
    /// How long it took.
    pub elapsed: Duration,
    /// How it ended and what was left out.
    pub answer: &'a HookResult,
}

/// A policy looked at chunks of an answer, and had nothing to say of them.
#[derive(Debug)]
pub struct PolicySilent<'a> {
    /// What the config calls it.
    pub policy: &'a str,
    /// The event it ran on.
    pub event: EventName,
    /// How many chunks these were.
    pub times: u64,
}

impl PolicySilent<'_> {
    /// Counts it.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.count_hook_runs(self.event, self.policy, HookStatus::Ok, self.times);
    }
}

impl HookFinished<'_> {
    /// Logs and counts it.
    pub fn emit(&self, metrics: &Metrics) {
        let status = self.answer.status;
        metrics.record_hook_run(self.event, self.hook, status, self.elapsed);
        let duration_ms = u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX);
        let said = &self.answer.diagnostics;
        let error = said.last().map_or("", |it| it.detail.as_str());
        let diagnostics: Vec<&str> = self
            .answer
            .diagnostics
            .iter()
            .map(|it| it.code.as_str())
            .collect();
        let diagnostics = diagnostics.join(",");
        let (hook, event, status) = (self.hook, self.event.as_str(), status.as_str());
        if self.answer.status == HookStatus::Failed {
            tracing::warn!(
                request.id = self.request_id,
                hook.name = hook,
                event,
                status,
                diagnostics,
                error,
                duration_ms,
                "hook failed"
            );
        } else {
            tracing::debug!(
                request.id = self.request_id,
                hook.name = hook,
                event,
                status,
                diagnostics,
                duration_ms,
                "hook finished"
            );
        }
    }
}
