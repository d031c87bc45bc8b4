//! Plan, run, fold, judge: from an event to a verdict.

mod plan;
mod run;
mod table;

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;

pub use self::{
    plan::Plan,
    table::{Hook, HookTable},
};
use crate::{
    event::{
        Action, Answer, Context, Diagnostic, EventKind, EventName, HookOutput, HookStatus, Subject,
        Verdict, fold,
    },
    telemetry::Metrics,
};

/// The hooks of one config, ready to fire.
#[derive(Debug)]
pub struct Engine {
    table: HookTable,
    metrics: Arc<Metrics>,
}

/// What came of an event.
#[derive(Debug)]
pub struct Fired<V> {
    /// What it means.
    pub verdict: V,
    /// What all hooks together said.
    pub folded: HookOutput,
    /// Every hook's run, in plan order.
    pub runs: Vec<Run>,
    /// What was left out while folding.
    pub diagnostics: Vec<Diagnostic>,
}

/// One hook's run.
#[derive(Debug)]
pub struct Run {
    /// Its name, or its command if it has none.
    pub name: String,
    /// How it ended and what it said.
    pub answer: Answer,
    /// How long it took.
    pub elapsed: Duration,
    /// What it would have done, if it only observes.
    pub would: Option<Action>,
}

impl Run {
    /// How it ended.
    pub const fn status(&self) -> HookStatus {
        self.answer.status
    }
}

impl Engine {
    /// An engine over a built table.
    pub const fn new(table: HookTable, metrics: Arc<Metrics>) -> Self {
        Self { table, metrics }
    }

    /// The hooks that would run. For events without a subject the plan is the
    /// same every time, so a stream asks once.
    pub fn plan(&self, event: EventName, subject: Subject<'_>) -> Plan {
        plan::plan(&self.table, event, subject)
    }

    /// Whether any hook listens to an event at all.
    pub fn listens(&self, event: EventName) -> bool {
        !self.table.groups(event).is_empty()
    }

    /// Plans and fires one event.
    pub async fn fire<E: EventKind>(
        &self,
        context: &Context,
        event: E,
        document: Option<&RawValue>,
    ) -> Fired<E::Verdict> {
        let plan = self.plan(E::NAME, event.subject());
        self.fire_plan(&plan, context, event, document).await
    }

    /// Fires one event at the hooks of a plan. `document` is shown to hooks
    /// that ask for it.
    pub async fn fire_plan<E: EventKind>(
        &self,
        plan: &Plan,
        context: &Context,
        event: E,
        document: Option<&RawValue>,
    ) -> Fired<E::Verdict> {
        let occasion = run::Occasion {
            context,
            document,
            metrics: &self.metrics,
        };
        let runs = run::run(plan, &occasion, event).await;
        let enforced = runs.iter().filter(|it| it.would.is_none());
        let outputs: Vec<HookOutput> = enforced.map(|it| it.answer.output.clone()).collect();
        let (folded, diagnostics) = fold(&outputs, E::HONOURS);
        let verdict = E::judge(&folded);
        if verdict.action() >= Action::Deny {
            self.metrics.denied(E::NAME);
        }
        Fired {
            verdict,
            folded,
            runs,
            diagnostics,
        }
    }

    /// Every hook with its event, in plan order.
    pub fn hooks(&self) -> impl Iterator<Item = (EventName, &Arc<Hook>)> {
        self.table.hooks()
    }
}
