//! Function calls whose arguments arrive in several parts. Only the first part names the
//! function; the decision on it holds for the others.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::dialect::google::part::FunctionCall;

/// Maximum number of candidates with an open call.
const MAX_OPEN_CALLS: usize = 256;

/// Decision on a function call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallDecision {
    /// Send it to the agent unchanged.
    Keep,
    /// Send it to the agent with these arguments.
    Rewrite(Map<String, Value>),
    /// Withhold it from the agent, for this reason.
    Refuse(String),
    /// Drop it: it is a later part of a refused call.
    Drop,
}

/// Decisions on the later parts of the open calls of one response, by candidate.
#[derive(Debug, Default)]
pub struct PartialCalls(HashMap<u64, CallDecision>);

impl PartialCalls {
    /// Decides on a call of a candidate. `refuse` returns the reason to refuse a named call.
    /// A part without a name is refused unless it continues an open call, since its function
    /// is unknown.
    pub fn decide(
        &mut self,
        candidate: u64,
        call: &FunctionCall,
        refuse: &mut dyn FnMut(&FunctionCall) -> Option<String>,
    ) -> CallDecision {
        if call.name.is_empty() {
            let open = if call.is_partial {
                self.0.get(&candidate).cloned()
            } else {
                self.0.remove(&candidate)
            };
            let unknown = || CallDecision::Refuse("the call names no tool".to_owned());
            return open.unwrap_or_else(unknown);
        }
        let reason = refuse(call);
        self.0.remove(&candidate);
        if call.is_partial && self.0.len() < MAX_OPEN_CALLS {
            let of_later_parts = match reason {
                Some(_) => CallDecision::Drop,
                None => CallDecision::Keep,
            };
            self.0.insert(candidate, of_later_parts);
        }
        reason.map_or(CallDecision::Keep, CallDecision::Refuse)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn call(name: &str, is_partial: bool) -> FunctionCall {
        FunctionCall {
            name: name.to_owned(),
            toolset: None,
            arguments: Value::Null,
            is_partial,
        }
    }

    #[test]
    fn later_parts_share_the_decision_on_their_call() {
        let mut calls = PartialCalls::default();
        let mut decide = |candidate: u64, name: &str, is_partial: bool| {
            let refuse = |call: &FunctionCall| (call.name == "rm").then(|| "no".to_owned());
            calls.decide(candidate, &call(name, is_partial), &mut { refuse })
        };

        assert_eq!(decide(0, "rm", true), CallDecision::Refuse("no".to_owned()));
        assert_eq!(decide(1, "ls", true), CallDecision::Keep);
        assert_eq!(decide(0, "", true), CallDecision::Drop);
        assert_eq!(decide(1, "", true), CallDecision::Keep);
        assert_eq!(decide(1, "", false), CallDecision::Keep);
        assert!(matches!(decide(1, "", false), CallDecision::Refuse(_)));
        assert_eq!(decide(0, "ls", false), CallDecision::Keep);
        assert!(matches!(decide(0, "", true), CallDecision::Refuse(_)));
    }
}
