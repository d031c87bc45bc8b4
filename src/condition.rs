//! Conditions: CEL expressions over an event's facts that decide whether a hook
//! or policy runs, such as
//! `request.bytes > 100000 || "run_shell_command" in request.tools`.
//!
//! Most mistakes are found when a condition is compiled: `type_check` rejects
//! unknown names and mismatched types, `static_analysis` reports variables that
//! an event does not have. At run time a value can only be absent, out of range or
//! too expensive (`cost_budget`). Callers treat such an error as true, so that a
//! guard is never skipped. To add a fact: one row in `schema.rs` and a field in
//! `facts.rs`. Pure.

mod cost_budget;
mod error;
mod facts;
mod map_macro;
mod patterns;
mod program;
mod schema;
mod static_analysis;
mod type_check;
mod type_rules;
mod variables;

pub use self::{
    error::{ConditionError, EvalError},
    facts::{CallerFacts, Facts, RequestFacts, SessionFacts, ToolFacts},
    program::Condition,
    static_analysis::StaticResult,
};

#[cfg(test)]
mod tests;
