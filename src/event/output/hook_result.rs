//! The result of one hook's run: status, output and diagnostics.

use serde::Serialize;
use serde_json::json;

use super::{
    diagnostic::{Diagnostic, DiagnosticCode},
    hook_output::HookOutput,
    output_part::OutputPart,
};
use crate::{
    event::name::EventName,
    model::{ResponseMutation, ToolConfig, has_value},
};

/// Result of one hook's run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookResult {
    /// End of the run.
    pub status: HookStatus,
    /// Output of the hook, as far as it counts.
    pub output: HookOutput,
    /// Ignored parts of the output and the causes of failures.
    pub diagnostics: Vec<Diagnostic>,
}

/// End of a hook's run (hook protocol, section 3), worst last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HookStatus {
    /// Success, with or without output.
    #[default]
    Ok,
    /// Refusal by exit code.
    Block,
    /// Failure of the hook itself.
    Failed,
}

impl HookStatus {
    /// Returns the label in metrics and explanations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Block => "block",
            Self::Failed => "failed",
        }
    }
}

impl HookResult {
    /// Returns the result of a hook without usable output.
    pub fn failed(code: DiagnosticCode, cause: impl Into<String>) -> Self {
        Self {
            status: HookStatus::Failed,
            output: HookOutput::default(),
            diagnostics: vec![code.with(cause)],
        }
    }

    /// Returns the cause of a failure, or the unreliable output of a hook that has not failed.
    pub fn failure(&self) -> Option<&Diagnostic> {
        let mut diagnostics = self.diagnostics.iter();
        let unreliable = diagnostics.find(|diagnostic| diagnostic.code.is_unreliable_output());
        match self.status {
            HookStatus::Block => None,
            HookStatus::Failed => unreliable.or(self.diagnostics.last()),
            HookStatus::Ok => unreliable,
        }
    }

    /// Returns the code of a part of the output that has no effect: of unreliable output, or else
    /// of the first other part but text and edits that are dropped, which are logged for each
    /// event. None if the hook failed.
    pub fn ignored_part(&self) -> Option<DiagnosticCode> {
        let codes = self.diagnostics.iter().map(|diagnostic| diagnostic.code);
        let others = [DiagnosticCode::PlainText, DiagnosticCode::EditDropped];
        let ignored = codes.filter(|code| !others.contains(code));
        let first = ignored.min_by_key(|code| !code.is_unreliable_output());
        first.filter(|_| self.status != HookStatus::Failed)
    }

    /// Turns a failure of `hook`, or unreliable output, into a denial
    /// (`on_failure: closed`), and on an event that selects tools into the selection of none. A
    /// stop and a message for the user are kept.
    pub fn fail_closed(&mut self, hook: &str, event: EventName) {
        self.fail_lost_fields(event);
        let Some(failure) = self.failure() else {
            return;
        };
        let reason = failure_reason(hook, failure);
        let output = std::mem::take(&mut self.output);
        self.output = HookOutput {
            r#continue: output.r#continue,
            stop_reason: output.stop_reason,
            system_message: output.system_message,
            ..HookOutput::denial(reason)
        };
        if event.honours(OutputPart::ToolSelection) {
            let none = json!({ "mode": "NONE" });
            self.output.set_specific("toolConfig", none);
        }
        self.status = HookStatus::Failed;
    }

    /// Fails if a decision or an edit is ignored because of its value, unless the hook refuses the
    /// event anyway.
    fn fail_lost_fields(&mut self, event: EventName) {
        let refuses = event.honours(OutputPart::Flow)
            && (self.output.deny().is_some() || self.output.stop().is_some());
        if self.status == HookStatus::Failed || refuses {
            return;
        }
        let is_lost = |diagnostic: &mut Diagnostic| {
            diagnostic.code == DiagnosticCode::WrongType
                && is_decision_or_result(&diagnostic.detail, event)
        };
        let unread = self.diagnostics.extract_if(.., is_lost);
        let mut lost: Vec<String> = unread.map(|diagnostic| diagnostic.detail).collect();
        for part in event.honoured_parts() {
            lost.extend(lost_fields(*part, &self.output));
        }
        if lost.is_empty() {
            return;
        }
        self.status = HookStatus::Failed;
        // The last diagnostic is the cause of a failure.
        for field in lost {
            let cause = format!("unusable value of `{field}`");
            self.diagnostics.push(DiagnosticCode::WrongType.with(cause));
        }
    }

    /// Returns whether a reason is the one with which a failure of `hook` is turned into a
    /// denial, so that no hook wrote it.
    pub fn is_failure_reason(&self, hook: &str, reason: &str) -> bool {
        let mut failures = self.diagnostics.iter();
        self.status == HookStatus::Failed
            && failures.any(|failure| failure_reason(hook, failure) == reason)
    }
}

/// Returns whether a field that was ignored because of its type may have had a decision or the
/// replacement of a result.
fn is_decision_or_result(field: &str, event: EventName) -> bool {
    match field {
        "hookSpecificOutput" => event.can_fail_closed(),
        "continue" => event.honours(OutputPart::Flow),
        "llm_response.text" => event.honours(OutputPart::ResponseEdit),
        "updatedToolOutput" | "updatedMCPToolOutput" => event.honours(OutputPart::ToolResult),
        _ => false,
    }
}

/// Returns the fields of an edit or a selection that are ignored because of their value, but for
/// empty ones.
fn lost_fields(part: OutputPart, output: &HookOutput) -> Vec<String> {
    let [field] = part.specific_fields() else {
        return vec![];
    };
    let Some(value) = output.specific(field).filter(|value| has_value(value)) else {
        return vec![];
    };
    let is_unusable = match part {
        OutputPart::ToolSelection => return ToolConfig::unusable_fields(value),
        OutputPart::LlmRequest if value.is_object() => return output.request_edit().lost_fields(),
        OutputPart::LlmRequest | OutputPart::ToolInput => !value.is_object(),
        OutputPart::SyntheticResponse => {
            ResponseMutation::read(value).is_none_or(|response| !response.is_response())
        }
        OutputPart::ResponseEdit => ResponseMutation::is_unusable(value),
        OutputPart::Flow
        | OutputPart::Ask
        | OutputPart::SystemMessage
        | OutputPart::SuppressOutput
        | OutputPart::AdditionalContext
        | OutputPart::AppendedText
        | OutputPart::ClearContext
        | OutputPart::ToolResult
        | OutputPart::TailToolCall => false,
    };
    let lost = is_unusable.then(|| (*field).to_owned());
    lost.into_iter().collect()
}

fn failure_reason(hook: &str, failure: &Diagnostic) -> String {
    format!("Hook {hook} failed: {}", failure.detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_denial_remains_the_cause_of_the_failure() {
        let mut result = HookResult {
            status: HookStatus::Ok,
            output: HookOutput::default(),
            diagnostics: vec![
                DiagnosticCode::WrongType.with("reason"),
                DiagnosticCode::UnknownDecision.with("unknown decision"),
                DiagnosticCode::WrongType.with("continue"),
            ],
        };

        result.fail_closed("h", EventName::BeforeTool);

        let cause = "unknown decision";
        let failure = result.failure().map(|failure| failure.detail.as_str());
        assert_eq!(failure, Some(cause));
        let reason = format!("Hook h failed: {cause}");
        assert_eq!(result.output.reason, Some(reason));
    }

    #[test]
    fn an_empty_selection_is_no_failure() {
        for selection in [json!(null), json!({})] {
            let mut result = HookResult::default();
            result.output.set_specific("toolConfig", selection);
            let expected = result.clone();

            result.fail_closed("h", EventName::BeforeToolSelection);

            assert_eq!(result, expected);
        }
    }
}
