//! Runs the policies and hooks of one config.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{
    condition_eval::{ConditionContext, ConditionSubject},
    configured_policy::ConfiguredPolicy,
    event_scope::EventScope,
    plan::{self, Plan},
    response_policies::ResponsePolicies,
    run::{self, HookContext},
    table::{Hook, HookTable},
    trace::HookExecution,
};
use crate::{
    config::BUILTIN,
    dialect::DialectError,
    event::{EventKind, EventName, HookRun},
    observe::recorder::{ExchangeEvent, Recorder},
    policy::{InspectionPass, PolicyContext, PolicyRequest, SessionCounters},
};

/// The policies and hooks of one config, ready to run.
#[derive(Debug)]
pub struct Engine {
    table: HookTable,
    counters: Arc<SessionCounters>,
    execution: HookExecution,
}

impl Engine {
    /// An engine over a built table.
    pub const fn new(
        table: HookTable,
        counters: Arc<SessionCounters>,
        execution: HookExecution,
    ) -> Self {
        Self {
            table,
            counters,
            execution,
        }
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
    pub fn plan(
        &self,
        event: EventName,
        scope: EventScope<'_>,
        subject: ConditionSubject<'_>,
    ) -> Plan {
        let conditions = ConditionContext::new(event, scope.context, subject);
        let plan = plan::plan(&self.table, conditions);
        if !scope.recorder.wants_plans() {
            return plan;
        }
        let policies = plan.policies.iter();
        let policies = policies.map(|policy| (policy.name.clone(), BUILTIN.to_owned()));
        let hooks = plan.hooks.iter();
        let hooks = hooks.map(|hook| (hook.name.clone(), hook.kind.clone()));
        let hooks: Vec<_> = policies.chain(hooks).collect();
        let skipped = self.execution == HookExecution::Skipped;
        scope.recorder.record(&ExchangeEvent::Planned {
            event,
            sequential: plan.sequential,
            hooks: &hooks,
            skipped,
        });
        if skipped { Plan::default() } else { plan }
    }

    /// Selects the policies that inspect what hooks changed. Their conditions are
    /// evaluated anew.
    pub fn plan_second_pass(
        &self,
        event: EventName,
        scope: EventScope<'_>,
        subject: ConditionSubject<'_>,
    ) -> Plan {
        plan::policies(
            &self.table,
            ConditionContext::new(event, scope.context, subject),
        )
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
        scope: EventScope<'_>,
        request: &mut PolicyRequest,
        pass: InspectionPass,
    ) -> Result<Vec<HookRun>, DialectError> {
        let mut runs = Vec::new();
        for policy in &plan.policies {
            let model = request.call.model_name().to_owned();
            let policy_context = PolicyContext {
                policy: &policy.name,
                ..self.policy_context(scope, &model, pass)
            };
            let mut run = policy.request(&policy_context, request)?;
            plan.annotate(&mut run);
            record_run(scope.recorder, EventName::BeforeModel, &run);
            runs.push(run);
        }
        Ok(runs)
    }

    /// The policies of a plan that inspect the response of `model`.
    pub fn response_policies(
        &self,
        plan: &Plan,
        scope: EventScope<'_>,
        model: &str,
        pass: InspectionPass,
    ) -> ResponsePolicies {
        let context = self.policy_context(scope, model, pass);
        ResponsePolicies::new(&plan.policies, context)
    }

    /// Runs the hooks of a plan on one event. `document` is included in the input of
    /// hooks that ask for it.
    pub async fn run_hooks<E: EventKind>(
        &self,
        plan: &Plan,
        scope: EventScope<'_>,
        event: &mut E,
        document: Option<&RawValue>,
    ) -> Vec<HookRun> {
        let hook_context = HookContext { scope, document };
        let mut runs = run::run(plan, &hook_context, event).await;
        for run in &mut runs {
            plan.annotate(run);
        }
        runs
    }

    /// The context of all policies on an event. The name is set for each of them.
    pub(super) fn policy_context<'a>(
        &'a self,
        scope: EventScope<'a>,
        model: &'a str,
        pass: InspectionPass,
    ) -> PolicyContext<'a> {
        PolicyContext {
            policy: "",
            context: scope.context,
            model,
            pass,
            counters: &self.counters,
        }
    }
}

/// Records a run of a policy.
pub(super) fn record_run(recorder: &Recorder, event: EventName, run: &HookRun) {
    recorder.record(&ExchangeEvent::HookFinished { event, run });
}
