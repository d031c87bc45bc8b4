//! Runs the policies and hooks of one config.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{
    audit_record,
    condition_eval::{ConditionContext, ConditionSubject},
    configured_policy::ConfiguredPolicy,
    outcome::{EventOutcome, HookRun, merge_runs},
    plan::{self, Plan},
    response_policies::ResponsePolicies,
    run::{self, HookContext},
    table::{Hook, HookTable},
    trace::Tracer,
};
use crate::{
    audit_log::{Audit, Record},
    dialect::DialectError,
    event::{Action, AfterModel, BeforeModel, Context, EventKind, EventName, FlowVerdict, Verdict},
    model::ResponseMutation,
    observe::{HookFinished, Metrics, PolicySilent},
    policy::{InspectionPass, PolicyContext, PolicyRequest, SessionCounters},
};

/// The policies and hooks of one config, ready to run.
#[derive(Debug)]
pub struct Engine {
    table: HookTable,
    metrics: Arc<Metrics>,
    counters: Arc<SessionCounters>,
    tracer: Option<Arc<Tracer>>,
    pub(super) audit: Option<Arc<Audit>>,
}

impl Engine {
    /// An engine over a built table.
    pub const fn new(
        table: HookTable,
        metrics: Arc<Metrics>,
        counters: Arc<SessionCounters>,
    ) -> Self {
        Self {
            table,
            metrics,
            counters,
            tracer: None,
            audit: None,
        }
    }

    /// Adds a tracer, which receives every event.
    #[must_use]
    pub fn with_tracer(mut self, tracer: Option<Arc<Tracer>>) -> Self {
        self.tracer = tracer;
        self
    }

    /// Adds an audit log, which receives the outcome of every event.
    #[must_use]
    pub fn with_audit(mut self, audit: Option<Arc<Audit>>) -> Self {
        self.audit = audit;
        self
    }

    /// Starts the processes that hooks keep ahead of their first event.
    pub fn start(&self) {
        for (_, hook) in self.hooks() {
            hook.transport.start();
        }
    }

    /// The table of policies and hooks.
    pub const fn table(&self) -> &HookTable {
        &self.table
    }

    /// Policies with each of their events, in order.
    pub fn policies(&self) -> impl Iterator<Item = (EventName, &Arc<ConfiguredPolicy>)> {
        self.table.all_policies()
    }

    /// Hooks with their event, in plan order.
    pub fn hooks(&self) -> impl Iterator<Item = (EventName, &Arc<Hook>)> {
        self.table.hooks()
    }

    /// Returns whether any policy or hook is configured for an event.
    pub fn handles(&self, event: EventName) -> bool {
        !self.table.groups(event).is_empty() || !self.table.policies(event).is_empty()
    }

    /// Returns whether any policy or hook runs on an event that is derived from
    /// model calls.
    pub fn handles_derived(&self, event: EventName) -> bool {
        let mut policies = self.table.policies(event).iter();
        !self.table.groups(event).is_empty() || policies.any(|policy| !policy.inspects_calls)
    }

    /// Selects the policies and hooks that run on an event. For events without a
    /// subject the plan is always the same, so a stream needs one.
    pub fn plan(&self, event: EventName, context: &Context, subject: ConditionSubject<'_>) -> Plan {
        let conditions = ConditionContext::new(event, context, subject);
        let plan = plan::plan(&self.table, conditions);
        match &self.tracer {
            Some(tracer) => tracer.planned(event, plan),
            None => plan,
        }
    }

    /// Selects the policies that inspect what hooks changed. Their conditions are
    /// evaluated anew.
    pub fn plan_second_pass(
        &self,
        event: EventName,
        context: &Context,
        subject: ConditionSubject<'_>,
    ) -> Plan {
        plan::policies(&self.table, ConditionContext::new(event, context, subject))
    }

    /// Runs the policies of a plan on a request, in order. Each sees the edits of
    /// those before it.
    ///
    /// # Errors
    ///
    /// Fails if an enforcing policy cannot read the request.
    pub fn inspect_request(
        &self,
        plan: &Plan,
        context: &Context,
        request: &mut PolicyRequest,
        pass: InspectionPass,
    ) -> Result<Vec<HookRun>, DialectError> {
        let mut runs = Vec::new();
        for policy in &plan.policies {
            let model = request.call.model_name().to_owned();
            let policy_context = PolicyContext {
                policy: &policy.name,
                ..self.policy_context(context, &model, pass)
            };
            let mut run = policy.request::<BeforeModel>(&policy_context, request)?;
            plan.annotate(&mut run);
            self.record_run(context, &run, EventName::BeforeModel);
            runs.push(run);
        }
        Ok(runs)
    }

    /// The policies of a plan that inspect the response of `model`.
    pub fn response_policies(
        &self,
        plan: &Plan,
        context: &Context,
        model: &str,
        pass: InspectionPass,
    ) -> ResponsePolicies {
        let context = self.policy_context(context, model, pass);
        ResponsePolicies::new(&plan.policies, context)
    }

    /// Runs the hooks of a plan on one event. `document` is included in the input of
    /// hooks that ask for it.
    pub async fn run_hooks<E: EventKind>(
        &self,
        plan: &Plan,
        context: &Context,
        event: &mut E,
        document: Option<&RawValue>,
    ) -> Vec<HookRun> {
        let hook_context = HookContext {
            context,
            document,
            metrics: &self.metrics,
        };
        let mut runs = run::run(plan, &hook_context, event).await;
        for run in &mut runs {
            plan.annotate(run);
        }
        runs
    }

    /// Merges all runs on one event of a model call, and writes the outcome to the
    /// audit log.
    pub fn conclude<E: EventKind>(
        &self,
        context: &Context,
        runs: Vec<HookRun>,
    ) -> EventOutcome<E::Verdict> {
        let outcome = self.merge::<E>(runs);
        if let Some(audit) = self.audit.as_ref().filter(|_| !outcome.runs.is_empty()) {
            let event = (context, E::NAME);
            let record = audit_record::event(audit, event, audit_record::CALL, &outcome);
            audit.tell(&Record::Event(Box::new(record)));
        }
        outcome
    }

    /// Merges all runs on one chunk of a response. A stream has thousands of chunks,
    /// so the audit log gets their sum; see [`super::RunStats`].
    pub fn conclude_chunk(
        &self,
        runs: Vec<HookRun>,
    ) -> EventOutcome<FlowVerdict<Option<ResponseMutation>>> {
        self.merge::<AfterModel>(runs)
    }

    pub(super) fn merge<E: EventKind>(&self, runs: Vec<HookRun>) -> EventOutcome<E::Verdict> {
        let (output, diagnostics) = merge_runs::<E>(&runs);
        let outcome = EventOutcome {
            verdict: E::evaluate(&output),
            output,
            runs,
            diagnostics,
        };
        if outcome.verdict.action() >= Action::Deny {
            self.metrics.record_denial(E::NAME);
        }
        if let Some(tracer) = &self.tracer {
            tracer.fired(E::NAME, &outcome);
        }
        outcome
    }

    /// Counts the runs of policies on one chunk of a response. The audit log gets
    /// every call that they refused as a `BeforeTool` event.
    pub fn record_policy_runs(&self, context: &Context, runs: &[HookRun]) {
        for run in runs {
            self.record_run(context, run, EventName::AfterModel);
            if run.would.is_none() {
                let refused = run.refused.iter();
                refused.for_each(|_| self.metrics.record_denial(EventName::BeforeTool));
            }
            let Some(audit) = &self.audit else {
                continue;
            };
            for call in &run.refused {
                let record = audit_record::refused_call(audit, context, run, call);
                audit.tell(&Record::Event(Box::new(record)));
            }
        }
    }

    /// Counts runs of policies without output, each as many times as given.
    pub fn count_silent_runs(&self, runs: &[(HookRun, u64)]) {
        for (run, times) in runs {
            PolicySilent {
                policy: &run.name,
                event: EventName::AfterModel,
                times: *times,
            }
            .emit(&self.metrics);
        }
    }

    /// The context of all policies on an event. The name is set for each of them.
    pub(super) fn policy_context<'a>(
        &'a self,
        context: &'a Context,
        model: &'a str,
        pass: InspectionPass,
    ) -> PolicyContext<'a> {
        PolicyContext {
            policy: "",
            context,
            model,
            pass,
            counters: &self.counters,
        }
    }

    /// Logs and counts a run of a policy.
    pub(super) fn record_run(&self, context: &Context, run: &HookRun, event: EventName) {
        HookFinished {
            request_id: &context.request_id,
            hook: &run.name,
            event,
            elapsed: run.elapsed,
            answer: &run.answer,
        }
        .emit(&self.metrics);
    }
}
