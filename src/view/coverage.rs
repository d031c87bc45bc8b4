//! Methods of the model APIs with their calls.

use std::iter;

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    dialect,
    state::{App, MethodPolicy},
};

/// One method of a model API, or one field of its requests, which hooks inspect it, and its calls.
#[derive(Debug, Serialize, ToSchema)]
pub struct MethodCoverage {
    /// The method or field under the current config.
    #[serde(flatten)]
    pub policy: MethodPolicy,
    /// Calls of the last 24 hours, counted by the hour, refused ones included. Absent for a field:
    /// calls are counted by method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_last_day: Option<u64>,
}

/// Returns every method and field under the current config.
pub fn methods(app: &App) -> Vec<MethodCoverage> {
    let traffic = &app.resources.traffic;
    let policies = MethodPolicy::all(&app.snapshot().config);
    let rows = dialect::methods().map(Some).chain(iter::repeat(None));
    let methods = policies.into_iter().zip(rows);
    let methods = methods.map(|(policy, method)| MethodCoverage {
        policy,
        calls_last_day: method.map(|method| traffic.of_method(method)),
    });
    methods.collect()
}
