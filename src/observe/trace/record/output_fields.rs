//! Names of the fields of a hook's output, as a set of bits.

use serde::{Serialize, Serializer};

use crate::event::HookOutput;

/// Fields whose names are kept. Others count as the last one.
const NAMES: [&str; 14] = [
    "decision",
    "reason",
    "continue",
    "stopReason",
    "systemMessage",
    "suppressOutput",
    "additionalContext",
    "clearContext",
    "llm_request",
    "llm_response",
    "tool_input",
    "toolConfig",
    "updatedToolOutput",
    "other",
];

/// Names of the fields of a hook's output, without those that repeat what the hook was shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputFields(u16);

impl OutputFields {
    pub(crate) fn of(output: &HookOutput) -> Self {
        let own = [
            output.decision.is_some(),
            output.reason.is_some(),
            output.r#continue.is_some(),
            output.stop_reason.is_some(),
            output.system_message.is_some(),
            output.suppress_output.is_some(),
        ];
        let bits = own.into_iter().enumerate();
        let mut fields = Self(bits.fold(0, |sum, (bit, is_set)| sum | u16::from(is_set) << bit));
        for (name, value) in &output.hook_specific_output {
            let adds_nothing = name == "additionalContext" && value == "";
            if name != "hookEventName" && !adds_nothing && !output.repeats(name) {
                fields.insert(name);
            }
        }
        fields
    }

    /// Returns the names in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let names = NAMES.iter().enumerate();
        names
            .filter(move |(bit, _)| self.0 & (1 << bit) != 0)
            .map(|(_, name)| *name)
    }

    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether a field edits what the event is about, or adds to it. Other fields have no
    /// effect.
    pub(crate) const fn has_edit(self) -> bool {
        const FIRST_EDIT: u16 = 6;
        const OTHER: u16 = 1 << (NAMES.len() - 1);
        (self.0 & !OTHER) >> FIRST_EDIT != 0
    }

    fn insert(&mut self, name: &str) {
        let known = NAMES.iter().position(|known| *known == name);
        self.0 |= 1 << known.unwrap_or(NAMES.len() - 1);
    }
}

impl Serialize for OutputFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::Decision;

    #[test]
    fn names_are_kept_and_values_are_not() {
        let mut output = HookOutput {
            decision: Some(Decision::Allow),
            ..HookOutput::default()
        };
        let specific = &mut output.hook_specific_output;
        specific.insert("tool_input".to_owned(), json!({ "secret": 1 }));
        specific.insert("updatedToolOutput".to_owned(), json!("secret"));
        specific.insert("CANARY".to_owned(), json!(1));

        let fields = OutputFields::of(&output);

        let names = json!(["decision", "tool_input", "updatedToolOutput", "other"]);
        assert_eq!(json!(fields), names);
        assert!(fields.has_edit());
        assert!(!OutputFields::of(&HookOutput::denial("no")).has_edit());
    }
}
