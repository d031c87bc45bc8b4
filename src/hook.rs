//! Policies and hooks: from an event to a verdict.
//!
//! On each event policies run first, one after the other, then hooks, then policies
//! again on what hooks changed. The outputs of all of them are merged into one
//! verdict. `engine` has the steps, `plan` selects what runs, `run` calls hooks,
//! `table` builds policies and hooks from the config.

mod condition_eval;
mod config_lints;
mod configured_policy;
mod engine;
mod fire;
mod guard;
mod outcome;
mod plan;
mod recorded_hook;
mod response_policies;
mod rule_identity;
mod run;
mod table;
#[cfg(test)]
mod tests;
mod tool_coverage;
mod tool_matcher;
mod trace;

pub use self::{
    condition_eval::ConditionSubject,
    config_lints::warnings,
    configured_policy::ConfiguredPolicy,
    engine::Engine,
    guard::Guard,
    outcome::{EventOutcome, conclude, conclude_passes, evaluate, merge_runs},
    plan::Plan,
    response_policies::ResponsePolicies,
    run::{EventScope, run_hooks, run_response_hooks},
    table::{Hook, HookTable, tool_names},
    trace::{EventTrace, HookExecution, HookTrace, RunTrace, Tracer},
};
use crate::{
    config::{BUILTIN, Registry},
    mutex::Mutex,
    policy, transport,
};

/// The names that a config may refer to.
pub fn registry() -> Registry {
    let transports = transport::ALL.iter().map(|(name, _)| *name);
    Registry {
        transports: transports.chain([BUILTIN]).collect(),
        policies: policy::shapes(),
        formats: [policy::FORMATS, &[condition_eval::FORMAT]].concat(),
        schemas: Mutex::default(),
    }
}
