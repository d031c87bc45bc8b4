//! Merges the outputs of several hooks into one (hook protocol, section 4). Pure.

use serde_json::{Map, Value};

use super::{
    arguments_edit::ArgumentsMode,
    diagnostic::{Diagnostic, DiagnosticCode},
    hook_output::{Decision, HookOutput},
    output_part::OutputPart,
};
use crate::model::{ResponseMutation, ToolConfig};

/// Merges outputs, given in plan order. Parts that the event does not honour are
/// dropped.
pub fn merge_outputs<'a>(
    outputs: impl IntoIterator<Item = &'a HookOutput>,
    honours: &[OutputPart],
) -> (HookOutput, Vec<Diagnostic>) {
    let mut merger = OutputMerger::default();
    for output in outputs {
        for part in honours {
            merger.merge(*part, output);
        }
    }
    if honours.contains(&OutputPart::SyntheticResponse) {
        merger.drop_foreign_response();
    }
    if honours.contains(&OutputPart::ToolResult) {
        merger.drop_denied_result();
    }
    (merger.merged, merger.diagnostics)
}

#[derive(Debug, Default)]
struct OutputMerger {
    merged: HookOutput,
    diagnostics: Vec<Diagnostic>,
    /// Selection of tools by outputs that narrow no other one.
    selection: Option<ToolConfig>,
    /// Selection of tools that narrows the other one.
    locked_selection: Option<ToolConfig>,
    /// True if the synthetic response is that of an output that denies.
    response_denies: bool,
}

impl OutputMerger {
    fn merge(&mut self, part: OutputPart, output: &HookOutput) {
        let merged = &mut self.merged;
        match part {
            OutputPart::Flow => merge_flow(merged, output),
            OutputPart::Ask => {
                let ask = output
                    .decision
                    .filter(|decision| *decision == Decision::Ask);
                merged.decision = merged.decision.max(ask);
            }
            OutputPart::SystemMessage => {
                join(&mut merged.system_message, output.system_message.as_deref());
            }
            OutputPart::SuppressOutput => {
                let suppress = output.suppress_output.filter(|suppress| *suppress);
                merged.suppress_output = merged.suppress_output.or(suppress);
            }
            OutputPart::AdditionalContext => self.merge_context(output),
            OutputPart::AppendedText => {
                let added = output.interpretation.added.iter();
                let added = added.filter(|added| !added.text().is_empty());
                merged.interpretation.added.extend(added.cloned());
            }
            OutputPart::ClearContext => {
                if output.specific("clearContext") == Some(&Value::Bool(true)) {
                    self.merged.set_specific("clearContext", Value::Bool(true));
                }
            }
            OutputPart::LlmRequest => self.merge_request(output),
            OutputPart::SyntheticResponse => self.merge_synthetic_response(output),
            OutputPart::ResponseEdit => self.merge_response_edit(output),
            OutputPart::ToolInput => self.merge_tool_input(output),
            OutputPart::ToolSelection => self.merge_selection(output),
            OutputPart::ToolResult => {
                if let Some(text) = &output.interpretation.tool_result {
                    merged.interpretation.tool_result = Some(text.clone());
                    merged.interpretation.is_result_masked |=
                        output.interpretation.is_result_masked;
                    self.merged
                        .set_specific("updatedToolOutput", Value::String(text.clone()));
                }
            }
            OutputPart::TailToolCall => {
                if output.specific("tailToolCallRequest").is_some() {
                    let refused = DiagnosticCode::TailToolCall
                        .with("a gateway cannot run tools; the request was dropped");
                    self.diagnostics.push(refused);
                }
            }
        }
    }

    fn merge_context(&mut self, output: &HookOutput) {
        let value = output.specific("additionalContext");
        if value.is_some_and(|value| !value.is_string()) {
            self.wrong_type("additionalContext");
        }
        self.merged.interpretation.added.extend(output.added());
        if let Some(context) = self.merged.plain_context() {
            self.merged
                .set_specific("additionalContext", Value::String(context));
        }
    }

    fn merge_request(&mut self, output: &HookOutput) {
        let Some(value) = output.specific("llm_request") else {
            return;
        };
        if !value.is_object() {
            return self.wrong_type("llm_request");
        }
        let later = output.request_edit();
        let removed = &mut self.merged.interpretation.removed_system;
        removed.extend(output.interpretation.removed_system.iter().cloned());
        if self.merged.specific("llm_request").is_none() {
            // The edit of a single hook is reported as the hook wrote it.
            self.merged.set_specific("llm_request", value.clone());
            self.merged.interpretation.llm_request = Some(later.fields);
            return;
        }
        let mut edit = self.merged.request_edit();
        let removed = &self.merged.interpretation.removed_system;
        let follows_edits = output.interpretation.follows_edits;
        for key in edit.merge(&later.fields, follows_edits, removed) {
            let kept = format!("{key}: unusable; the edit of an earlier hook or policy is kept");
            self.diagnostics
                .push(DiagnosticCode::EditDropped.with(kept));
        }
        self.merged
            .set_specific("llm_request", Value::Object(edit.fields));
        self.merged.interpretation.earlier_messages = edit.earlier_messages;
        self.merged.interpretation.llm_request = None;
    }

    /// A hook that denies may give the response that the agent gets for it.
    fn merge_synthetic_response(&mut self, output: &HookOutput) {
        let denies = output.decision == Some(Decision::Deny);
        if denies || !self.response_denies {
            let set = self.set_response(output, ResponseMutation::is_response);
            self.response_denies |= denies && set;
        }
    }

    /// Drops the response of a hook that does not deny if another hook denies: the
    /// agent gets the reason of the denial.
    fn drop_foreign_response(&mut self) {
        let denied = self.merged.decision == Some(Decision::Deny);
        if denied && !self.response_denies {
            let specific = &mut self.merged.hook_specific_output;
            specific.shift_remove("llm_response");
        }
    }

    /// Drops the replacement of a result that is denied: the reason takes its place.
    fn drop_denied_result(&mut self) {
        if self.merged.deny().is_some() {
            self.merged.interpretation.tool_result = None;
            let specific = &mut self.merged.hook_specific_output;
            specific.shift_remove("updatedToolOutput");
        }
    }

    /// Merges edits of a response. What only an earlier one changes, such as a text that it masks,
    /// stays changed.
    fn merge_response_edit(&mut self, output: &HookOutput) {
        let (earlier, later) = (self.merged.response_edit(), output.response_edit());
        self.set_response(output, |_| true);
        if let Some(later) = later {
            let mut edit = later.clone();
            if let Some(earlier) = earlier {
                edit.add_earlier(earlier);
            }
            if edit != later {
                // Serialization of JSON values and strings cannot fail.
                let value = serde_json::to_value(&edit).unwrap_or_default();
                self.merged.set_specific("llm_response", value);
            }
            self.merged.interpretation.llm_response = Some(edit);
        }
    }

    /// Returns whether the output has a usable response.
    fn set_response(
        &mut self,
        output: &HookOutput,
        is_usable: fn(&ResponseMutation) -> bool,
    ) -> bool {
        let Some(value) = output.specific("llm_response") else {
            return false;
        };
        let usable = ResponseMutation::read(value).is_some_and(|mutation| is_usable(&mutation));
        if usable {
            self.merged.set_specific("llm_response", value.clone());
        } else {
            let malformed = DiagnosticCode::MalformedResponse.with("llm_response");
            self.diagnostics.push(malformed);
        }
        usable
    }

    fn merge_tool_input(&mut self, output: &HookOutput) {
        let Some(value) = output.specific("tool_input") else {
            return;
        };
        let Some(written) = value.as_object() else {
            return self.wrong_type("tool_input");
        };
        let mode = output.interpretation.arguments;
        let merged = &mut self.merged;
        let earlier = merged.hook_specific_output.shift_remove("tool_input");
        let edit = output.interpretation.tool_input.as_ref();
        let arguments = match earlier {
            Some(Value::Object(earlier)) if edit.is_some() || mode == ArgumentsMode::Merge => {
                // A replacement leaves what it does not change as earlier edits left it.
                let mut arguments = match (merged.interpretation.arguments, mode) {
                    (ArgumentsMode::Merge, ArgumentsMode::Replace) => written.clone(),
                    _ => Map::new(),
                };
                arguments.extend(earlier);
                arguments.retain(|name, _| edit.is_none_or(|edit| !edit.removed.contains(name)));
                arguments.extend(edit.map_or(written, |edit| &edit.changed).clone());
                arguments
            }
            // The edit of a single hook is reported as the hook wrote it.
            _ => written.clone(),
        };
        if mode == ArgumentsMode::Replace {
            // A replacement stays one, whatever is merged over it later.
            merged.interpretation.arguments = ArgumentsMode::Replace;
        }
        merged.set_specific("tool_input", Value::Object(arguments));
    }

    fn merge_selection(&mut self, output: &HookOutput) {
        let Some(value) = output.specific("toolConfig") else {
            return;
        };
        for field in ToolConfig::unusable_fields(value) {
            self.wrong_type(&field);
        }
        let Some(later) = ToolConfig::read(value) else {
            return;
        };
        let selection = if output.interpretation.narrows_selection {
            &mut self.locked_selection
        } else {
            &mut self.selection
        };
        let mut merged = match selection.take() {
            Some(earlier) => earlier.merge(&later),
            None => later,
        };
        merged.mode.get_or_insert_default();
        *selection = Some(merged.clone());
        if let (Some(unlocked), Some(locked)) = (&self.selection, &self.locked_selection) {
            merged = unlocked.intersect(locked);
        }
        // Serialization of strings cannot fail.
        let value = serde_json::to_value(merged).unwrap_or_default();
        self.merged.set_specific("toolConfig", value);
    }

    fn wrong_type(&mut self, key: &str) {
        self.diagnostics.push(DiagnosticCode::WrongType.with(key));
    }
}

/// INVARIANT: a verdict is never loosened by a later hook.
fn merge_flow(merged: &mut HookOutput, output: &HookOutput) {
    let decision = output
        .decision
        .filter(|decision| *decision != Decision::Ask);
    merged.decision = merged.decision.max(decision);
    join(&mut merged.reason, output.reason.as_deref());
    if let Some(reason) = output.stop() {
        merged.r#continue = Some(false);
        join(&mut merged.stop_reason, Some(reason.as_str()));
    }
}

fn join(joined: &mut Option<String>, text: Option<&str>) {
    let Some(text) = text else { return };
    match joined {
        None => *joined = Some(text.to_owned()),
        Some(joined) => {
            joined.push('\n');
            joined.push_str(text);
        }
    }
}

#[cfg(test)]
mod tests;
