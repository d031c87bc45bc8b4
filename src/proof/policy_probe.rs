//! One event on one policy, to learn what it decides.

use serde_json::{Map, Value};

use super::{
    case::{CaseInput, Sender},
    case_run::CaseRunner,
};
use crate::{
    config::Config,
    event::EventName,
    hook::{Engine, Guard},
};

/// Returns whether a policy of this name denies an event with these fields; `None` if the
/// config has none. Hooks do not run, and nothing is counted.
pub async fn policy_denies(
    engine: &Engine,
    config: &Config,
    name: &str,
    event: EventName,
    fields: Map<String, Value>,
) -> Option<bool> {
    let input = CaseInput::Event(event, fields);
    let policies = engine.table().all_policies();
    let mut denies = None;
    for (_, policy) in policies.filter(|(_, policy)| policy.name == name) {
        let guard = Guard::Policy(policy.clone());
        let runner = CaseRunner {
            engine: engine.for_proof(guard.clone()),
            guard: &guard,
            config,
            timestamp: "",
        };
        let stages = runner.run(&Sender::default(), &input).await;
        let is_denied = stages.is_ok_and(|stages| stages.iter().any(|stage| stage.is_denied));
        denies = Some(is_denied || denies == Some(true));
    }
    denies
}
