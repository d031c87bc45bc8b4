//! Runs the policies and hooks of one config.

use std::sync::Arc;

use super::{
    condition_eval::{ConditionContext, ConditionSubject},
    configured_policy::ConfiguredPolicy,
    guard::Guard,
    plan::{Plan, plan},
    response_policies::ResponsePolicies,
    run::{EventScope, finish_run},
    table::HookTable,
    trace::HookExecution,
};
use crate::{
    config::{BUILTIN, HookMode},
    dialect::{Call, DialectError, Document},
    event::{EventName, HookRun, SkipReason},
    observe::recorder::{ExchangeEvent, PlannedRule, SinkNeed},
    policy::{InspectionPass, PolicyContext, PolicyRequest, SessionCounters},
};

/// The policies and hooks of one config, ready to run.
#[derive(Debug)]
pub struct Engine {
    table: Arc<HookTable>,
    counters: Arc<SessionCounters>,
    execution: HookExecution,
    /// The only policy or hook that runs, during a proof.
    only: Option<Guard>,
}

impl Engine {
    /// An engine over a built table.
    pub fn new(table: HookTable, counters: Arc<SessionCounters>, execution: HookExecution) -> Self {
        Self {
            table: Arc::new(table),
            counters,
            execution,
            only: None,
        }
    }

    /// The same engine for the proof of a guard: it selects as ever, but nothing else
    /// runs, the guard runs although its last proof failed, and nothing is counted.
    #[must_use]
    pub fn for_proof(&self, guard: Guard) -> Self {
        Self {
            table: Arc::clone(&self.table),
            counters: Arc::default(),
            execution: HookExecution::Executed,
            only: Some(guard),
        }
    }

    /// Returns the counters of policies.
    pub fn counters(&self) -> &SessionCounters {
        &self.counters
    }

    /// Starts the processes that hooks keep ahead of their first event.
    pub fn start(&self) {
        for hook in self.table.hooks() {
            hook.transport.start();
        }
    }

    /// The table of policies and hooks.
    pub fn table(&self) -> &HookTable {
        &self.table
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

    /// Returns whether a locked bundle inspects answers.
    pub fn has_locked_answer_rules(&self) -> bool {
        let event = EventName::AfterModel;
        let mut policies = self.table.policies(event).iter();
        let groups = self.table.groups(event).iter();
        let mut hooks = groups.flat_map(|group| &group.hooks);
        policies.any(|policy| policy.is_locked) || hooks.any(|hook| hook.is_locked)
    }

    /// Returns whether any hook that may deny runs on calls or results of tools. Policies that
    /// inspect model calls see tools there.
    pub fn guards_tools(&self) -> bool {
        let events = [EventName::BeforeTool, EventName::AfterTool];
        events.iter().any(|event| {
            let groups = self.table.groups(*event).iter();
            let mut hooks = groups.flat_map(|group| &group.hooks);
            let mut policies = self.table.policies(*event).iter();
            hooks.any(|hook| hook.spec.mode == HookMode::Enforce)
                || policies.any(|policy| !policy.inspects_calls && policy.mode == HookMode::Enforce)
        })
    }

    /// Returns whether an enforcing policy that runs on a request allows a tool by its name.
    /// INVARIANT: a policy of the bundle below a locked one allows nothing that is refused without
    /// it.
    pub fn allows_tool(
        &self,
        scope: EventScope<'_>,
        subject: ConditionSubject<'_>,
        tool: &str,
    ) -> bool {
        let plan = self.select(EventName::BeforeModel, scope, subject);
        let mut policies = plan.policies.iter();
        policies.any(|policy| {
            policy.mode == HookMode::Enforce
                && !policy.is_below_locked
                && policy.policy.allows_tool(tool)
        })
    }

    /// Selects the policies and hooks that run on an event. For events without a
    /// subject the plan is always the same, so a stream needs one.
    pub fn plan(
        &self,
        event: EventName,
        scope: EventScope<'_>,
        subject: ConditionSubject<'_>,
    ) -> Plan {
        let plan = self.select(event, scope, subject);
        self.record_plan(event, scope, plan)
    }

    /// Selects as [`Self::plan`] does, and records nothing.
    pub(super) fn select(
        &self,
        event: EventName,
        scope: EventScope<'_>,
        subject: ConditionSubject<'_>,
    ) -> Plan {
        let conditions = ConditionContext::new(event, scope.context, subject);
        let (policies, groups) = (self.table.policies(event), self.table.groups(event));
        let mut plan = plan(policies, groups, self.only.as_ref(), conditions);
        let disabled = self.table.disabled(event).iter();
        let disabled = disabled.map(|rule| (*rule, SkipReason::Disabled));
        plan.skipped.extend(disabled);
        plan
    }

    /// Records a plan. Returns what runs of it: nothing in a dry run.
    pub(super) fn record_plan(&self, event: EventName, scope: EventScope<'_>, plan: Plan) -> Plan {
        self.record_planned(event, scope, &plan);
        if self.execution == HookExecution::Skipped {
            Plan::default()
        } else {
            plan
        }
    }

    fn record_planned(&self, event: EventName, scope: EventScope<'_>, plan: &Plan) {
        if !scope.recorder.needs(SinkNeed::Plans) {
            return;
        }
        let policies = plan.policies.iter().map(|policy| PlannedRule {
            rule: policy.rule,
            name: &policy.name,
            kind: BUILTIN,
        });
        let hooks = plan.all_hooks().map(|hook| PlannedRule {
            rule: hook.rule,
            name: &hook.name,
            kind: &hook.spec.kind,
        });
        let asked: Vec<PlannedRule<'_>> = policies.chain(hooks).collect();
        scope.recorder.record(&ExchangeEvent::Planned {
            event,
            plan: plan.summary(),
            asked: &asked,
            is_skipped: self.execution == HookExecution::Skipped,
        });
    }

    /// Selects the hooks of a locked bundle that inspect what other hooks of the `plan` changed.
    /// Their conditions are evaluated anew. Returns `None` if there are no such hooks.
    pub fn plan_locked_hooks(
        &self,
        plan: &mut Plan,
        event: EventName,
        scope: EventScope<'_>,
        subject: ConditionSubject<'_>,
    ) -> Option<Plan> {
        if !plan.has_locked_hooks() {
            return None;
        }
        let mut locked = self.select(event, scope, subject);
        locked.keep_locked();
        plan.reselect_locked(&locked.hooks);
        Some(locked)
    }

    /// Selects the policies that inspect what hooks changed after the `first` pass. Their
    /// conditions are evaluated anew.
    pub fn plan_second_pass(
        &self,
        first: &Plan,
        event: EventName,
        scope: EventScope<'_>,
        subject: ConditionSubject<'_>,
    ) -> Plan {
        let conditions = ConditionContext::new(event, scope.context, subject);
        let policies = self.table.policies(event);
        let mut plan = plan(policies, &[], self.only.as_ref(), conditions);
        plan.policies = plan.policies_of_second_pass();
        plan.set_origin(first.origin);
        plan.set_second_pass(&first.policies);
        plan
    }

    /// Selects anew after a policy of the plan has edited the event.
    pub(super) fn follow_edit(
        &self,
        plan: &mut Plan,
        event: EventName,
        scope: EventScope<'_>,
        subject: ConditionSubject<'_>,
    ) {
        if plan.follows_edits(event) {
            plan.reselect(self.select(event, scope, subject));
            self.record_planned(event, scope, plan);
        }
    }

    /// Runs the policies of a plan on a request, in order. Each sees the edits of
    /// those before it. After an edit, the plan has the policies and hooks that see it.
    ///
    /// # Errors
    ///
    /// Fails if an enforcing policy cannot read the request.
    pub fn inspect_request(
        &self,
        plan: &mut Plan,
        scope: EventScope<'_>,
        request: &mut PolicyRequest,
    ) -> Result<Vec<HookRun>, DialectError> {
        let mut runs = Vec::new();
        while let Some(policy) = plan.policies.get(runs.len()).cloned() {
            let model = request.call.model_name().to_owned();
            let context = self.policy_context(&policy, scope, &model, plan.pass_of(&policy));
            let mut run = policy.request(&context, request)?;
            finish_run(plan, scope, EventName::BeforeModel, &mut run);
            if run.has_edited() {
                let (call, document) = (&request.call, &request.document);
                let subject = ConditionSubject::Call { call, document };
                self.follow_edit(plan, EventName::BeforeModel, scope, subject);
            }
            runs.push(run);
        }
        Ok(runs)
    }

    /// The policies of a plan that inspect the response to a request.
    pub fn response_policies(
        &self,
        plan: &Plan,
        scope: EventScope<'_>,
        call: &Call,
        document: &Document,
    ) -> ResponsePolicies {
        let context = |policy| PolicyContext {
            request: Some((call, document)),
            ..self.policy_context(policy, scope, call.model_name(), InspectionPass::First)
        };
        ResponsePolicies::new(&plan.policies, context)
    }

    /// The policies of a plan that inspect what was changed in the response of `model`.
    pub fn second_pass_policies(
        &self,
        plan: &Plan,
        scope: EventScope<'_>,
        model: &str,
    ) -> ResponsePolicies {
        let context = |policy| self.policy_context(policy, scope, model, InspectionPass::Second);
        ResponsePolicies::new(&plan.policies_of_second_pass(), context)
    }

    /// The context of a policy on an event.
    pub(super) fn policy_context<'a>(
        &'a self,
        policy: &'a ConfiguredPolicy,
        scope: EventScope<'a>,
        model: &'a str,
        pass: InspectionPass,
    ) -> PolicyContext<'a> {
        PolicyContext {
            counter: &policy.counter,
            context: scope.context,
            model,
            pass,
            request: None,
            counters: &self.counters,
        }
    }
}
