//! What it may cost to ask a condition once: a loop can read a long text again
//! and again, and a large pattern takes long over each character of it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use cel::{
    Value,
    common::value::{CowVal, Val},
    context::VariableResolver,
};

/// How much there is for one question. The slowest condition takes a few seconds
/// for it, one that means something a few milliseconds.
const MOST: usize = 64 << 20;

/// What is left of it.
#[derive(Debug)]
pub(super) struct Effort(AtomicUsize);

impl Effort {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(MOST)))
    }

    /// Takes some; says whether there was enough. If not, there is none any more.
    pub(super) fn spend(&self, cost: usize) -> bool {
        let less = |it: usize| Some(it.saturating_sub(cost));
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.is_ok_and(|it| it > cost)
    }

    pub(super) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// A variable's value, and what it costs to read it once.
#[derive(Debug)]
pub(super) struct Fact {
    pub(super) name: &'static str,
    pub(super) value: Value,
    pub(super) cost: usize,
}

/// The variables of one question. Each reading is paid for, and what cannot be
/// paid for is not there.
pub(super) struct Known {
    effort: Arc<Effort>,
    /// By name; each with what it costs.
    values: BTreeMap<&'static str, (usize, Box<dyn Val>)>,
}

impl Known {
    pub(super) fn new(facts: Vec<Fact>, effort: Arc<Effort>) -> Self {
        let values = facts.into_iter().filter_map(|it| {
            // Whatever JSON holds is a value.
            let value = Box::<dyn Val>::try_from(it.value).ok()?;
            Some((it.name, (it.cost, value)))
        });
        Self {
            effort,
            values: values.collect(),
        }
    }
}

impl VariableResolver for Known {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let (cost, value) = self.values.get(variable)?;
        let paid = self.effort.spend(*cost);
        paid.then(|| CowVal::Borrowed(value.as_ref()))
    }
}
