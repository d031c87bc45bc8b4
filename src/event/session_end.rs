//! `SessionEnd`: the end of a session.

use serde::{Deserialize, Serialize};

use super::{
    definition::{EventDefinition, MatcherSubject, SubjectKind},
    output::{HookOutput, OutputPart},
};

/// Cause of the end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionEnd {
    /// `exit`, `clear`, `logout`, `prompt_input_exit` or `other`; Claude Code has more.
    pub reason: String,
}

impl EventDefinition for SessionEnd {
    const HONOURS: &'static [OutputPart] = &[OutputPart::SystemMessage, OutputPart::SuppressOutput];
    const SUBJECTS: SubjectKind = SubjectKind::Keywords {
        field: "reason",
        words: &[
            "exit",
            "clear",
            "logout",
            "prompt_input_exit",
            "other",
            "resume",
            "bypass_permissions_disabled",
        ],
    };
    /// Advisory event without effect.
    type Verdict = ();

    fn subject(&self) -> MatcherSubject<'_> {
        MatcherSubject::Keyword(&self.reason)
    }

    fn evaluate(_merged: &HookOutput) {}
}
