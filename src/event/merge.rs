//! Several hooks' outputs become one (hook protocol, section 4). Pure.

use serde_json::{Map, Value};

use super::{ArgumentsMean, Decision, Diagnostic, DiagnosticCode, HookOutput};
use crate::model::{ResponseMutation, ToolConfig};

/// A part of a hook's output, and the rule by which many become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `decision`, `reason`, `continue`, `stopReason`.
    Flow,
    /// `decision: ask`.
    Ask,
    /// `systemMessage`, joined.
    SystemMessage,
    /// `suppressOutput`, any.
    SuppressOutput,
    /// `additionalContext` and what else is added to the conversation, joined.
    AdditionalContext,
    /// What some families add to the conversation where others cannot.
    Remark,
    /// `clearContext`, any.
    ClearContext,
    /// `llm_request`, key by key.
    LlmRequest,
    /// `llm_response` as an answer of its own; the last one.
    SyntheticAnswer,
    /// `llm_response` as a change; the last one.
    ResponseEdit,
    /// `tool_input`, key by key.
    ToolInput,
    /// `toolConfig`: the stricter mode, `AUTO` if none is given; all names.
    ToolSelection,
    /// `tailToolCallRequest`, which a gateway refuses.
    TailToolCall,
}

/// Folds outputs, given in plan order, into one. Parts that the event does not
/// honour are left out.
pub fn fold<'a>(
    outputs: impl IntoIterator<Item = &'a HookOutput>,
    honours: &[Part],
) -> (HookOutput, Vec<Diagnostic>) {
    let mut folding = Folding::default();
    for output in outputs {
        for part in honours {
            folding.take(*part, output);
        }
    }
    folding.drop_foreign_answer(honours);
    (folding.folded, folding.diagnostics)
}

#[derive(Debug, Default)]
struct Folding {
    folded: HookOutput,
    diagnostics: Vec<Diagnostic>,
    /// Whether the answer is that of an output that denies.
    answer_denies: bool,
}

impl Folding {
    fn take(&mut self, part: Part, output: &HookOutput) {
        let folded = &mut self.folded;
        match part {
            Part::Flow => take_flow(folded, output),
            Part::Ask => {
                let ask = output.decision.filter(|it| *it == Decision::Ask);
                folded.decision = folded.decision.max(ask);
            }
            Part::SystemMessage => {
                join(&mut folded.system_message, output.system_message.as_deref());
            }
            Part::SuppressOutput => {
                let suppress = output.suppress_output.filter(|it| *it);
                folded.suppress_output = folded.suppress_output.or(suppress);
            }
            Part::AdditionalContext => self.take_context(output),
            Part::Remark => {
                let added = &output.meaning.added;
                folded.meaning.added.extend(added.iter().cloned());
            }
            Part::ClearContext => {
                if output.specific("clearContext") == Some(&Value::Bool(true)) {
                    self.set("clearContext", Value::Bool(true));
                }
            }
            Part::LlmRequest => self.take_request(output),
            Part::SyntheticAnswer => self.take_answer(output),
            Part::ResponseEdit => {
                self.take_response(output, |_| true);
            }
            Part::ToolInput => self.take_tool_input(output),
            Part::ToolSelection => self.take_selection(output),
            Part::TailToolCall => {
                if output.specific("tailToolCallRequest").is_some() {
                    let refused = DiagnosticCode::TailToolCall
                        .with("a gateway cannot run tools; the request was left out");
                    self.diagnostics.push(refused);
                }
            }
        }
    }

    fn take_context(&mut self, output: &HookOutput) {
        let value = output.specific("additionalContext");
        if value.is_some_and(|it| !it.is_string()) {
            self.wrong("additionalContext");
        }
        self.folded.meaning.added.extend(output.added());
        if let Some(context) = self.folded.plain_context() {
            self.set("additionalContext", Value::String(context));
        }
    }

    fn take_request(&mut self, output: &HookOutput) {
        let Some(value) = output.specific("llm_request") else {
            return;
        };
        if !value.is_object() {
            return self.wrong("llm_request");
        }
        let later = output.request_edit();
        if self.folded.specific("llm_request").is_none() {
            // What only one hook said stays in its words.
            self.set("llm_request", value.clone());
            self.folded.meaning.llm_request = Some(later.fields);
            return;
        }
        let mut edit = self.folded.request_edit();
        edit.merge(&later.fields);
        self.set("llm_request", Value::Object(edit.fields));
        self.folded.meaning.llm_request = None;
    }

    /// Who denies may say by an answer of its own what the agent is told.
    fn take_answer(&mut self, output: &HookOutput) {
        let denies = output.decision == Some(Decision::Deny);
        if denies || !self.answer_denies {
            let taken = self.take_response(output, ResponseMutation::is_answer);
            self.answer_denies |= denies && taken;
        }
    }

    /// A denial is told by its reason, not by what somebody else would answer.
    fn drop_foreign_answer(&mut self, honours: &[Part]) {
        let denied = self.folded.decision == Some(Decision::Deny);
        if denied && !self.answer_denies && honours.contains(&Part::SyntheticAnswer) {
            self.folded
                .hook_specific_output
                .shift_remove("llm_response");
        }
    }

    /// Whether there was a usable one.
    fn take_response(
        &mut self,
        output: &HookOutput,
        usable: fn(&ResponseMutation) -> bool,
    ) -> bool {
        let Some(value) = output.specific("llm_response") else {
            return false;
        };
        let taken = ResponseMutation::read(value).is_some_and(|it| usable(&it));
        if taken {
            self.set("llm_response", value.clone());
        } else {
            let malformed = DiagnosticCode::MalformedResponse.with("llm_response");
            self.diagnostics.push(malformed);
        }
        taken
    }

    fn take_tool_input(&mut self, output: &HookOutput) {
        let Some(value) = output.specific("tool_input") else {
            return;
        };
        let Some(later) = value.as_object() else {
            return self.wrong("tool_input");
        };
        let mut arguments = self.take_object("tool_input");
        if output.meaning.arguments == ArgumentsMean::Instead {
            // Whatever is laid over a replacement, it stays one.
            self.folded.meaning.arguments = ArgumentsMean::Instead;
            arguments.clear();
        }
        arguments.extend(later.clone());
        self.set("tool_input", Value::Object(arguments));
    }

    fn take_selection(&mut self, output: &HookOutput) {
        let Some(value) = output.specific("toolConfig") else {
            return;
        };
        let Some(later) = ToolConfig::read(value) else {
            return self.wrong("toolConfig");
        };
        let old = self
            .folded
            .specific("toolConfig")
            .and_then(ToolConfig::read);
        let mut merged = old.map_or_else(|| later.clone(), |it| it.merge(&later));
        merged.mode.get_or_insert_default();
        // A struct of names and words always becomes JSON.
        self.set(
            "toolConfig",
            serde_json::to_value(merged).unwrap_or_default(),
        );
    }

    fn take_object(&mut self, key: &str) -> Map<String, Value> {
        match self.folded.hook_specific_output.shift_remove(key) {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        }
    }

    fn set(&mut self, key: &str, value: Value) {
        let specific = &mut self.folded.hook_specific_output;
        specific.insert(key.to_owned(), value);
    }

    fn wrong(&mut self, key: &str) {
        self.diagnostics.push(DiagnosticCode::WrongType.with(key));
    }
}

/// A stop or a deny, once said, stays said.
fn take_flow(folded: &mut HookOutput, output: &HookOutput) {
    let decision = output.decision.filter(|it| *it != Decision::Ask);
    folded.decision = folded.decision.max(decision);
    join(&mut folded.reason, output.reason.as_deref());
    if let Some(reason) = output.stop() {
        folded.r#continue = Some(false);
        join(&mut folded.stop_reason, Some(reason.as_str()));
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
