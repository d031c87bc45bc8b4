//! `PreCompress`: the history of an agent, before it is compressed.

use serde::{Deserialize, Serialize};

use super::{
    definition::{EventDefinition, MatcherSubject, SubjectKind},
    output::{HookOutput, OutputPart},
};

/// Cause of the compression.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PreCompress {
    /// Trigger: `manual` or `auto`.
    pub trigger: String,
}

impl EventDefinition for PreCompress {
    const HONOURS: &'static [OutputPart] = &[OutputPart::SystemMessage, OutputPart::SuppressOutput];
    const SUBJECTS: SubjectKind = SubjectKind::Keywords {
        field: "trigger",
        words: &["manual", "auto"],
    };
    /// Advisory event without effect.
    type Verdict = ();

    fn subject(&self) -> MatcherSubject<'_> {
        MatcherSubject::Keyword(&self.trigger)
    }

    fn evaluate(_merged: &HookOutput) {}
}
