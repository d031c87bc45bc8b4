//! Calls of functions whose arguments come in pieces: only the first piece names
//! the function, and what becomes of it becomes of the others. Pure.

use std::collections::HashMap;

use super::{CallDecision, FunctionCall};

/// How many candidates may have a call under way. A model has few.
const MOST: usize = 256;

/// The calls under way in one answer, by candidate.
#[derive(Debug, Default)]
pub struct PartialCalls(HashMap<u64, Fate>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Refused,
}

impl PartialCalls {
    /// What becomes of a call of a candidate, if `refuse` gives reasons against
    /// calls. One that neither names a function nor goes on is refused: nobody
    /// could say what it calls.
    pub fn judge(
        &mut self,
        candidate: u64,
        call: &FunctionCall,
        refuse: &mut dyn FnMut(&FunctionCall) -> Option<String>,
    ) -> CallDecision {
        if call.name.is_empty() {
            return match self.0.get(&candidate) {
                Some(Fate::Kept) => CallDecision::Keep,
                Some(Fate::Refused) => CallDecision::Drop,
                None => CallDecision::Refuse("the call names no tool".to_owned()),
            };
        }
        let reason = refuse(call);
        let fate = if reason.is_some() {
            Fate::Refused
        } else {
            Fate::Kept
        };
        self.0.remove(&candidate);
        if call.in_pieces && self.0.len() < MOST {
            self.0.insert(candidate, fate);
        }
        reason.map_or(CallDecision::Keep, CallDecision::Refuse)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn call(name: &str, in_pieces: bool) -> FunctionCall {
        FunctionCall {
            name: name.to_owned(),
            arguments: Value::Null,
            in_pieces,
        }
    }

    #[test]
    fn pieces_go_the_way_of_their_call() {
        let mut pieces = PartialCalls::default();
        let mut judge = |candidate: u64, name: &str, in_pieces: bool| {
            let refuse = |it: &FunctionCall| (it.name == "rm").then(|| "no".to_owned());
            pieces.judge(candidate, &call(name, in_pieces), &mut { refuse })
        };

        assert_eq!(judge(0, "rm", true), CallDecision::Refuse("no".to_owned()));
        assert_eq!(judge(1, "ls", true), CallDecision::Keep);
        assert_eq!(judge(0, "", true), CallDecision::Drop);
        assert_eq!(judge(1, "", false), CallDecision::Keep);
        assert_eq!(judge(0, "ls", false), CallDecision::Keep);
        assert!(matches!(judge(0, "", true), CallDecision::Refuse(_)));
    }
}
