//! `SessionStart`: the start of a session.

use serde::{Deserialize, Serialize};

use super::{
    definition::{EventDefinition, MatcherSubject, SubjectKind},
    output::{HookOutput, OutputPart},
};

/// Cause of the start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionStart {
    /// `startup`, `resume`, `clear`, llxprt's `compress`, or Claude Code's `compact`.
    pub source: String,
}

impl EventDefinition for SessionStart {
    const HONOURS: &'static [OutputPart] = &[
        OutputPart::SystemMessage,
        OutputPart::SuppressOutput,
        OutputPart::AdditionalContext,
    ];
    const SUBJECTS: SubjectKind = SubjectKind::Keywords {
        field: "source",
        words: &["startup", "resume", "clear", "compress", "compact", "fork"],
    };
    /// Rendered context for every model call of the session.
    type Verdict = Option<String>;

    fn subject(&self) -> MatcherSubject<'_> {
        MatcherSubject::Keyword(&self.source)
    }

    fn evaluate(merged: &HookOutput) -> Option<String> {
        merged.rendered_context()
    }
}
