//! Plan, run, fold, judge: from an event to a verdict.
//!
//! Policies look first, one after the other; then hooks run; then policies look
//! again at what hooks changed. All that is said is folded as one.

mod audit_record;
mod condition_eval;
mod config_lints;
mod configured_policy;
mod fire;
mod plan;
#[cfg(test)]
mod properties;
mod response_policies;
mod run;
mod table;
mod trace;
mod transport_reuse;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::value::RawValue;

use self::condition_eval::Weighing;
pub use self::{
    audit_record::Tally,
    condition_eval::About,
    config_lints::remarks,
    configured_policy::PlacedPolicy,
    plan::Plan,
    response_policies::{Held, Progress, ResponsePolicies, Seen},
    table::{Hook, HookTable},
    trace::{HookExecution, HookRecord, Ran, Record, Tracer},
};
use crate::{
    audit_log::{Audit, Record as AuditRecord},
    config::{BUILTIN, HookMode, Known, KnownMethod},
    dialect::{
        DialectError, Row,
        method_table::{self, Access},
    },
    event::{
        Action, AfterModel, Answer, BeforeModel, Context, Diagnostic, EventKind, EventName, Flow,
        HookOutput, HookStatus, Verdict, fold,
    },
    model::ResponseMutation,
    observe::{HookFinished, Metrics},
    policy::{self, Look, PolicyRequest, RefusedCall, SessionCounters},
    protocol, transport,
};

/// The policies and hooks of one config, ready to fire.
#[derive(Debug)]
pub struct Engine {
    table: HookTable,
    metrics: Arc<Metrics>,
    ledger: Arc<SessionCounters>,
    /// Who sees all that is fired, if anybody does.
    witness: Option<Arc<Tracer>>,
    /// Who takes down what is decided, if anybody does.
    audit: Option<Arc<Audit>>,
}

/// What came of an event.
#[derive(Debug)]
pub struct EventOutcome<V> {
    /// What it means.
    pub verdict: V,
    /// What all hooks together said.
    pub folded: HookOutput,
    /// Every policy's and hook's run, in order.
    pub runs: Vec<Run>,
    /// What was left out while folding.
    pub diagnostics: Vec<Diagnostic>,
}

/// Who tells of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The agent.
    Reported,
    /// A model call that it was read off. Policies that look at model calls have
    /// seen it there.
    Derived,
}

impl Origin {
    fn asks(self, policy: &PlacedPolicy) -> bool {
        match self {
            Self::Reported => true,
            Self::Derived => !policy.sees_calls,
        }
    }
}

/// One run of a policy or hook.
#[derive(Debug)]
pub struct Run {
    /// Its name, or its command if it has none.
    pub name: String,
    /// How it ended and what it said.
    pub answer: Answer,
    /// How long it took.
    pub elapsed: Duration,
    /// When it ended.
    pub ended: SystemTime,
    /// What it would have done, if it only observes.
    pub would: Option<Action>,
    /// Whether it is a policy that edited the document itself, or would have.
    pub edited: bool,
    /// The calls that a policy took out of an answer, or would have.
    pub refused: Vec<RefusedCall>,
}

impl Run {
    /// How it ended.
    pub const fn status(&self) -> HookStatus {
        self.answer.status
    }
}

impl Engine {
    /// An engine over a built table.
    pub const fn new(
        table: HookTable,
        metrics: Arc<Metrics>,
        ledger: Arc<SessionCounters>,
    ) -> Self {
        Self {
            table,
            metrics,
            ledger,
            witness: None,
            audit: None,
        }
    }

    /// Starts what hooks should have before their first event.
    pub fn begin(&self) {
        for (_, hook) in self.hooks() {
            hook.transport.begin();
        }
    }

    /// The hooks it is over.
    pub const fn table(&self) -> &HookTable {
        &self.table
    }

    /// The same engine, seen by a witness.
    #[must_use]
    pub fn seen_by(mut self, witness: Option<Arc<Tracer>>) -> Self {
        self.witness = witness;
        self
    }

    /// The same engine, whose events go into the decision log.
    #[must_use]
    pub fn recorded_by(mut self, audit: Option<Arc<Audit>>) -> Self {
        self.audit = audit;
        self
    }

    /// The policies and hooks that would run. For events without a subject the
    /// plan is the same every time, so a stream asks once.
    pub fn plan(&self, event: EventName, context: &Context, about: About<'_>) -> Plan {
        let weighing = Weighing::new(event, context, about);
        let plan = plan::plan(&self.table, weighing);
        match &self.witness {
            Some(witness) => witness.planned(event, plan),
            None => plan,
        }
    }

    /// The policies that look again: conditions are asked anew, of what hooks
    /// made of it.
    pub fn plan_again(&self, event: EventName, context: &Context, about: About<'_>) -> Plan {
        plan::policies(&self.table, Weighing::new(event, context, about))
    }

    /// Whether any policy or hook listens to an event at all.
    pub fn listens(&self, event: EventName) -> bool {
        !self.table.groups(event).is_empty() || !self.table.policies(event).is_empty()
    }

    /// Whether anybody listens to an event that is read off model calls.
    pub fn listens_beside_calls(&self, event: EventName) -> bool {
        let mut policies = self.table.policies(event).iter();
        !self.table.groups(event).is_empty() || policies.any(|it| Origin::Derived.asks(it))
    }

    /// Fires an event of a tool, an agent or a session: policies, hooks, and
    /// policies again if hooks changed anything.
    pub async fn fire<E: EventKind>(
        &self,
        context: &Context,
        event: E,
        origin: Origin,
    ) -> EventOutcome<E::Verdict> {
        fire::fire(self, context, event, origin).await
    }

    /// Asks the policies of a plan about a request, one after the other. Each
    /// sees what those before left.
    pub fn look(
        &self,
        plan: &Plan,
        context: &Context,
        call: &mut PolicyRequest,
        look: Look,
    ) -> Result<Vec<Run>, DialectError> {
        let mut runs = Vec::new();
        for placed in &plan.policies {
            let model = call.call.model_name().to_owned();
            let occasion = self.occasion(placed, context, &model, look);
            let mut run = placed.request::<BeforeModel>(&occasion, call)?;
            plan.remark(&mut run);
            self.finished(context, &run, EventName::BeforeModel);
            runs.push(run);
        }
        Ok(runs)
    }

    /// The policies of a plan that look at the answer of `model`.
    pub fn answer_look(
        &self,
        plan: &Plan,
        context: &Context,
        model: &str,
        look: Look,
    ) -> ResponsePolicies {
        let policies = plan.policies.iter();
        let looking = policies.filter_map(|it| {
            let occasion = self.occasion(it, context, model, look);
            it.answer(&occasion)
        });
        ResponsePolicies {
            policies: looking.collect(),
        }
    }

    /// Runs the hooks of a plan on one event. `document` is shown to hooks that
    /// ask for it.
    pub async fn run<E: EventKind>(
        &self,
        plan: &Plan,
        context: &Context,
        event: &mut E,
        document: Option<&RawValue>,
    ) -> Vec<Run> {
        let occasion = run::Occasion {
            context,
            document,
            metrics: &self.metrics,
        };
        let mut runs = run::run(plan, &occasion, event).await;
        for run in &mut runs {
            plan.remark(run);
        }
        runs
    }

    /// What all runs on one event of a model call come to.
    pub fn judge<E: EventKind>(
        &self,
        context: &Context,
        runs: Vec<Run>,
    ) -> EventOutcome<E::Verdict> {
        let fired = self.conclude::<E>(runs);
        if let Some(audit) = self.audit.as_ref().filter(|_| !fired.runs.is_empty()) {
            let told = audit_record::event(audit, (context, E::NAME), audit_record::CALL, &fired);
            audit.tell(&AuditRecord::Event(Box::new(told)));
        }
        fired
    }

    /// What all runs on one chunk of an answer come to. The decision log is not
    /// told: a stream has thousands; see [`Tally`].
    pub fn judge_chunk(&self, runs: Vec<Run>) -> EventOutcome<Flow<Option<ResponseMutation>>> {
        self.conclude::<AfterModel>(runs)
    }

    fn conclude<E: EventKind>(&self, runs: Vec<Run>) -> EventOutcome<E::Verdict> {
        let (folded, diagnostics) = folded::<E>(&runs);
        let fired = EventOutcome {
            verdict: E::judge(&folded),
            folded,
            runs,
            diagnostics,
        };
        if fired.verdict.action() >= Action::Deny {
            self.metrics.denied(E::NAME);
        }
        if let Some(witness) = &self.witness {
            witness.fired(E::NAME, &fired);
        }
        fired
    }

    /// Counts what policies did with one chunk of an answer, and tells the
    /// decision log of every call that they refused, as if it had been asked of
    /// them as `BeforeTool`.
    pub fn looked(&self, context: &Context, runs: &[Run]) {
        for run in runs {
            self.finished(context, run, EventName::AfterModel);
        }
        let refused = runs
            .iter()
            .flat_map(|run| run.refused.iter().map(move |it| (run, it)));
        for (run, call) in refused {
            if run.would.is_none() {
                self.metrics.denied(EventName::BeforeTool);
            }
            if let Some(audit) = &self.audit {
                let told = audit_record::refused_call(audit, context, run, call);
                audit.tell(&AuditRecord::Event(Box::new(told)));
            }
        }
    }

    /// Every policy with each event it is placed on, in order.
    pub fn policies(&self) -> impl Iterator<Item = (EventName, &Arc<PlacedPolicy>)> {
        self.table.all_policies()
    }

    /// Every hook with its event, in plan order.
    pub fn hooks(&self) -> impl Iterator<Item = (EventName, &Arc<Hook>)> {
        self.table.hooks()
    }

    fn occasion<'a>(
        &'a self,
        placed: &'a PlacedPolicy,
        context: &'a Context,
        model: &'a str,
        look: Look,
    ) -> policy::Occasion<'a> {
        policy::Occasion {
            policy: &placed.name,
            context,
            model,
            look,
            ledger: &self.ledger,
        }
    }

    /// Logs and counts what a policy said.
    fn finished(&self, context: &Context, run: &Run, event: EventName) {
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

/// What all runs that count said, as one.
fn folded<E: EventKind>(runs: &[Run]) -> (HookOutput, Vec<Diagnostic>) {
    let enforced = runs.iter().filter(|it| it.would.is_none());
    fold(enforced.map(|it| &it.answer.output), E::HONOURS)
}

/// What somebody who only observes would have done; none of who decides.
fn would<E: EventKind>(mode: HookMode, output: &HookOutput) -> Option<Action> {
    match mode {
        HookMode::Enforce => None,
        HookMode::Observe => {
            let (folded, _) = fold([output], E::HONOURS);
            Some(E::judge(&folded).action())
        }
    }
}

/// What a config may name, as the rooms below know it.
pub fn known() -> Known {
    Known {
        transports: transport::names().into_iter().chain([BUILTIN]).collect(),
        protocols: protocol::names(),
        policies: policy::shapes(),
        formats: [policy::FORMATS, &[condition_eval::FORMAT]].concat(),
        methods: method_table::rows().map(known_method).collect(),
    }
}

const fn known_method(row: &Row) -> KnownMethod {
    KnownMethod {
        name: row.name,
        never: match row.access {
            Access::Never(why) => Some(why),
            Access::Open | Access::ByName => None,
        },
    }
}
