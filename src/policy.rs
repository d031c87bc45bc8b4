//! Policies: built-in rules that run without a process.
//!
//! A policy reads and edits documents instead of the stable form, so it also sees
//! what hooks do not: declarations, calls and results. It runs before all hooks, and
//! again on what hooks changed. Pure, but for the counts in [`SessionCounters`]. To
//! add a policy: one file here, one line in [`ALL`], a page in `docs/policies/`, an
//! example in `config/examples/policies/` and its cases in
//! `config/examples/tests/policies/`. A test checks that none is missing.

mod definition;
mod matchers;
mod model_allow;
mod model_swap;
mod prompt_guard;
mod redact;
mod request_limits;
mod respond;
mod session_counters;
mod tool_guard;

use std::sync::Arc;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use thiserror::Error;

pub use self::{
    definition::{
        ChunkPosition, InspectionPass, Policy, PolicyContext, PolicyEffects, PolicyKind,
        PolicyRequest, ResponsePolicy,
    },
    redact::redact_patterns,
    session_counters::SessionCounters,
};
use crate::config::{Format, PolicyShape};

/// Table of all policies.
pub const ALL: &[PolicyKind] = &[
    model_allow::KIND,
    model_swap::KIND,
    tool_guard::KIND,
    prompt_guard::KIND,
    redact::KIND,
    request_limits::KIND,
    respond::KIND,
];

/// Schema formats of the settings of policies.
pub const FORMATS: &[Format] = &[
    matchers::GLOB,
    matchers::PATTERN,
    matchers::FIND,
    redact::FORMAT,
];

/// A policy that cannot be built.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// No policy has this name.
    #[error("unknown policy `{0}`")]
    Unknown(String),
    /// Its settings are invalid.
    #[error("{0}")]
    Settings(#[from] serde_json::Error),
}

/// Returns the policy with this name.
pub fn find(name: &str) -> Option<&'static PolicyKind> {
    ALL.iter().find(|kind| kind.name == name)
}

/// Builds the policy with this name.
///
/// # Errors
///
/// Fails if there is no such policy, or if its settings are invalid.
pub fn build(
    name: &str,
    settings: Map<String, Value>,
) -> Result<(&'static PolicyKind, Arc<dyn Policy>), PolicyError> {
    let kind = find(name).ok_or_else(|| PolicyError::Unknown(name.to_owned()))?;
    Ok((kind, (kind.build)(Value::Object(settings))?))
}

/// The schemas of the settings of all policies.
pub fn shapes() -> Vec<PolicyShape> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut generator = settings.into_generator();
    let shape = |kind: &PolicyKind| PolicyShape {
        name: kind.name,
        schema: (kind.schema)(&mut generator),
    };
    ALL.iter().map(shape).collect()
}
