//! Diagnostics of hook runs.

use crate::model::IgnoredEdit;

/// Problem with a hook's run, for the hook's author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Machine-readable kind of problem.
    pub code: DiagnosticCode,
    /// Explanation; empty if the code suffices.
    pub detail: String,
}

impl From<IgnoredEdit> for Diagnostic {
    fn from(ignored: IgnoredEdit) -> Self {
        match ignored {
            IgnoredEdit::UnknownKey(key) => DiagnosticCode::UnknownKey.with(key),
            IgnoredEdit::Inapplicable(reason) => DiagnosticCode::EditDropped.with(reason),
        }
    }
}

named_enum! {
    /// Machine-readable kind of a [`Diagnostic`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum DiagnosticCode {
        /// Standard output was text, not JSON; it became a `systemMessage`.
        PlainText = "plain_text",
        /// Text on standard output has a line with a JSON object that looks like an output.
        ObjectInText = "object_in_text",
        /// Standard output was JSON, but not an object.
        NonObjectJson = "non_object_json",
        /// Output that begins as JSON and is not one valid, unambiguous document, or
        /// is not UTF-8.
        MalformedOutput = "malformed_output",
        /// A `decision` or `permissionDecision` that is not one of the known values.
        UnknownDecision = "unknown_decision",
        /// A field of the wrong type was ignored.
        WrongType = "wrong_type",
        /// An unusable `llm_response` was ignored.
        MalformedResponse = "malformed_response",
        /// An edit that cannot be applied was dropped.
        EditDropped = "edit_dropped",
        /// A key that is unknown, or has no effect on the event, was ignored.
        UnknownKey = "unknown_key",
        /// A tail tool call, which a gateway cannot run.
        TailToolCall = "tail_tool_call",
        /// No output within the timeout.
        Timeout = "timeout",
        /// The hook failed to start or ended in failure.
        Failed = "failed",
        /// The last proof of the hook failed, so it was not called.
        Unproven = "unproven",
        /// The hook's condition could not be evaluated, so the hook ran.
        Condition = "condition",
    }
}

impl DiagnosticCode {
    /// Returns a diagnostic of this kind.
    pub fn with(self, detail: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code: self,
            detail: detail.into(),
        }
    }

    /// Returns whether a decision may be lost in the output, so that a hook that fails
    /// closed must refuse.
    pub(super) const fn is_unreliable_output(self) -> bool {
        matches!(self, Self::NonObjectJson | Self::UnknownDecision)
    }
}
