//! Counts a call for the rollout under whose configs it runs.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::{
    config_source::ConfigSource,
    rollout_progress::{CallOutcome, RolloutArm, RolloutChange, RolloutProgress},
};
use crate::{
    audit_log::{AuditLog, AuditRecord, RolloutKind, RolloutRecord},
    event::{Action, EventOrigin, HookStatus},
    observe::{
        Metrics,
        recorder::{ExchangeAction, ExchangeEvent, ExchangeSummary, Sink},
    },
};

/// One of the two configs of a rollout, and where its changes are reported.
#[derive(Debug, Clone)]
pub(super) struct RolloutReporter {
    pub(super) progress: Arc<RolloutProgress>,
    pub(super) arm: RolloutArm,
    pub(super) metrics: Arc<Metrics>,
    pub(super) audit: Option<Arc<AuditLog>>,
    pub(super) source: ConfigSource,
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
}

/// Counts one call for its config, unless it is none, its caller does not take part, or it is
/// rejected before policies decide.
#[derive(Debug)]
pub(super) struct RolloutSink {
    reporter: RolloutReporter,
    call: CallOutcome,
    /// True for model calls with content, and for reported events.
    is_call: bool,
    /// True once policies or hooks ran, or the call went to the model API.
    is_decided: bool,
}

impl RolloutReporter {
    /// Creates the sink of a call under one of the configs.
    pub(super) fn sink(&self) -> RolloutSink {
        RolloutSink {
            reporter: self.clone(),
            call: CallOutcome::default(),
            is_call: false,
            is_decided: false,
        }
    }

    /// Reports a change in the log, the metrics and the decision log.
    pub(super) fn report(&self, change: RolloutChange) {
        let RolloutProgress { from, to, .. } = &*self.progress;
        let (action, difference) = match change {
            RolloutChange::Step(_) => (RolloutKind::Step, None),
            RolloutChange::Abort(difference) => (RolloutKind::Abort, Some(difference)),
        };
        let share = self.progress.share();
        self.metrics.rollout_share.set(share.into());
        if let Some(difference) = difference {
            self.metrics.rollout_aborts.inc();
            self.store_abort();
            tracing::warn!(
                config.from = from,
                config.to = to,
                rollout.measure = difference.measure,
                rollout.current = %difference.current,
                rollout.candidate = %difference.candidate,
                "rollout aborted"
            );
        } else {
            tracing::info!(
                config.from = from,
                config.to = to,
                rollout.percent = share,
                "rollout continues"
            );
        }
        if let Some(audit) = &self.audit {
            audit.append(&AuditRecord::Rollout(RolloutRecord {
                action,
                from: from.clone(),
                to: to.clone(),
                percent: share,
                measure: difference.map(|difference| difference.measure),
                current: difference.map(|difference| difference.current.to_string()),
                candidate: difference.map(|difference| difference.candidate.to_string()),
            }));
        }
    }

    /// Stores the end of the rollout on a thread for blocking tasks.
    fn store_abort(&self) {
        let (source, version) = (self.source.clone(), self.progress.to.clone());
        let store = move || {
            if let Err(error) = source.store_abort(&version) {
                tracing::error!(%error, "failed to store the end of a rollout");
            }
        };
        self.tasks.spawn_blocking_on(store, &self.runtime);
    }
}

impl RolloutSink {
    fn is_counted(&self, exchange: &ExchangeSummary) -> bool {
        let progress = &self.reporter.progress;
        self.is_call && self.is_decided && progress.has_caller(&exchange.caller.name)
    }
}

impl Sink for RolloutSink {
    fn record(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        match event {
            ExchangeEvent::MethodResolved(method) => {
                self.is_call = method.operation.sends_content();
            }
            ExchangeEvent::Sending { .. } => self.is_decided = true,
            ExchangeEvent::HookFinished { run, .. } => {
                self.is_decided = true;
                self.call.hook_failed |= run.status() == HookStatus::Failed;
                self.call.denied |= run.is_enforced() && !run.refused.is_empty();
                self.call.hook_time += run.elapsed;
            }
            ExchangeEvent::EventDecided(decision) | ExchangeEvent::ChunkDecided(decision) => {
                self.is_call |= decision.origin == EventOrigin::Reported;
                self.is_decided = true;
                self.call.denied |= decision.verdict >= Action::Deny;
            }
            // Also a call for which a hook asked, if `ask` is `deny`.
            ExchangeEvent::ToolCallDenied { .. } => self.call.denied = true,
            ExchangeEvent::Finished | ExchangeEvent::Closed if self.is_counted(exchange) => {
                let action = exchange.action;
                self.call.denied |= matches!(action, ExchangeAction::Deny | ExchangeAction::Stop);
                let reporter = &self.reporter;
                let arm = reporter.arm;
                let calls = reporter.metrics.rollout_calls.with([arm.as_str().into()]);
                calls.inc();
                if let Some(change) = reporter.progress.record(arm, self.call) {
                    reporter.report(change);
                }
            }
            _ => (),
        }
    }
}
