//! Output of a hook (hook protocol, sections 1 and 3).

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    added_context::{AddedContext, render_context},
    arguments_edit::{ArgumentsEdit, ArgumentsMode},
    diagnostic::{Diagnostic, DiagnosticCode},
    output_part::OutputPart,
    reason::Reason,
};
use crate::{
    event::name::EventName,
    model::{Message, RequestMutation, ResponseMutation},
};

/// Output of one hook, or the merged output of all hooks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookOutput {
    /// Decision on the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Reason of the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `Some(false)` ends the agent's loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#continue: Option<bool>,
    /// Reason for the end of the loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Message for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_message: Option<String>,
    /// True if the agent hides the run from the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppress_output: Option<bool>,
    /// Fields of one event.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Option<Object>)]
    pub hook_specific_output: Map<String, Value>,
    /// Fields as the hook's protocol defines them, where protocols differ.
    #[serde(skip)]
    pub interpretation: Interpretation,
}

/// Meaning of output fields that protocols define differently (hook protocol,
/// section 11). The default is the `gemini` protocol's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interpretation {
    /// Effect of `tool_input` on the arguments.
    pub arguments: ArgumentsMode,
    /// `llm_request` in the stable form, without what repeats the shown request.
    pub llm_request: Option<Map<String, Value>>,
    /// `llm_response` on `AfterModel`, without what repeats the shown response.
    pub llm_response: Option<ResponseMutation>,
    /// Changes of the shown arguments by `tool_input`.
    pub tool_input: Option<ArgumentsEdit>,
    /// Texts added to the conversation; if empty, the `additionalContext`.
    pub added: Vec<AddedContext>,
    /// Text in place of a tool's result.
    pub tool_result: Option<String>,
    /// True if agents that support no replacement must get the text as well: a policy has masked
    /// the result.
    pub is_result_masked: bool,
    /// True if `llm_request` is an edit of what earlier outputs left, so that its conversation
    /// replaces theirs with all texts for the system instruction.
    pub follows_edits: bool,
    /// True if `toolConfig` is that of a locked bundle, so that it allows nothing more than other
    /// outputs.
    pub narrows_selection: bool,
    /// Conversation of earlier outputs that the messages of `llm_request` leave without text.
    pub earlier_messages: Vec<Message>,
    /// Texts for the system instruction that the messages of `llm_request` leave out.
    pub removed_system: Vec<Message>,
}

/// Decision of a hook; `Ord` is the precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Proceed with the event.
    #[serde(alias = "approve")]
    Allow,
    /// Ask the human for permission.
    Ask,
    /// Refuse the event with a reason.
    #[serde(alias = "block")]
    Deny,
}

impl HookOutput {
    /// Fields of outputs on all events.
    pub const FIELDS: [&str; 7] = [
        "decision",
        "reason",
        "continue",
        "stopReason",
        "systemMessage",
        "suppressOutput",
        "hookSpecificOutput",
    ];

    /// Reads a hook's output on `event`. Wrongly typed fields are ignored one by
    /// one, with a diagnostic each.
    pub fn read(mut fields: Map<String, Value>, event: EventName) -> (Self, Vec<Diagnostic>) {
        let mut reader = FieldReader::default();
        reader.report_unknown(&fields, event);
        let specific = fields.shift_remove("hookSpecificOutput");
        let mut output = Self {
            decision: reader.decision(fields.get("decision")),
            reason: reader.field(&fields, "reason"),
            r#continue: reader.field(&fields, "continue"),
            stop_reason: reader.field(&fields, "stopReason"),
            system_message: reader.field(&fields, "systemMessage"),
            suppress_output: reader.field(&fields, "suppressOutput"),
            hook_specific_output: match specific {
                Some(Value::Object(specific)) => specific,
                None | Some(Value::Null) => Map::new(),
                Some(_) => reader.wrong_type("hookSpecificOutput"),
            },
            interpretation: Interpretation::default(),
        };
        if let Some(clear) = fields.get("clearContext") {
            let specific = &mut output.hook_specific_output;
            specific.entry("clearContext").or_insert(clear.clone());
        }
        if event == EventName::BeforeTool {
            output.read_permission(&mut reader);
        }
        (output, reader.diagnostics)
    }

    /// Returns a denial with this reason.
    pub fn denial(reason: impl Into<String>) -> Self {
        Self {
            decision: Some(Decision::Deny),
            reason: Some(reason.into()),
            ..Self::default()
        }
    }

    /// Returns the replacement of a tool's result.
    pub fn result_replacement(text: String) -> Self {
        let mut output = Self::default();
        output.interpretation.tool_result = Some(text.clone());
        output.interpretation.is_result_masked = true;
        output.set_specific("updatedToolOutput", Value::String(text));
        output
    }

    /// Turns a masked result into a denial, whose reason agents use in place of the result (hook
    /// protocol, section 1). Not all support `updatedToolOutput`.
    pub fn deny_masked_result(&mut self) {
        if self.interpretation.is_result_masked
            && let Some(text) = self.interpretation.tool_result.take()
        {
            let texts = std::iter::once(text).chain(self.rendered_context());
            let texts: Vec<String> = texts.collect();
            self.decision = Some(Decision::Deny);
            self.reason = Some(texts.join("\n\n"));
        }
    }

    /// Returns a message for the user, without a decision.
    pub fn message(text: impl Into<String>) -> Self {
        Self {
            system_message: Some(text.into()),
            ..Self::default()
        }
    }

    /// Returns the reason for the end of the agent's loop, if it ends:
    /// `stopReason`, else `reason`.
    pub fn stop(&self) -> Option<Reason> {
        let stop_reason = self.stop_reason.as_deref();
        let stop_reason = stop_reason.filter(|reason| !is_blank(reason));
        let reason = stop_reason.or(self.reason.as_deref());
        (self.r#continue == Some(false)).then(|| Reason::new(reason))
    }

    /// Returns the reason of a denial, if it is one.
    pub fn deny(&self) -> Option<Reason> {
        let denied = self.decision == Some(Decision::Deny);
        denied.then(|| Reason::new(self.reason.as_deref()))
    }

    /// Returns a field of `hookSpecificOutput`.
    pub fn specific(&self, key: &str) -> Option<&Value> {
        self.hook_specific_output.get(key)
    }

    /// Lets `tool_input`, if it has any, replace the arguments of the call.
    pub fn replace_arguments(&mut self) {
        if self.specific("tool_input").is_some() {
            self.interpretation.arguments = ArgumentsMode::Replace;
        }
    }

    /// Returns `additionalContext` as the hook wrote it.
    pub fn additional_context(&self) -> Option<&str> {
        self.specific("additionalContext")?.as_str()
    }

    /// Returns the texts that it adds to the conversation, none of them empty.
    pub fn added(&self) -> Vec<AddedContext> {
        let mut added = self.interpretation.added.clone();
        if added.is_empty() {
            added.extend(self.additional_context().map(AddedContext::tagged));
        }
        added.retain(|added| !added.text().is_empty());
        added
    }

    /// Returns the added texts in the form that the model reads.
    pub fn rendered_context(&self) -> Option<String> {
        let added = self.added();
        (!added.is_empty()).then(|| render_context(&added))
    }

    /// Returns the added texts as hooks wrote them, one per line.
    pub fn plain_context(&self) -> Option<String> {
        let added = self.added();
        let texts: Vec<&str> = added.iter().map(AddedContext::text).collect();
        (!added.is_empty()).then(|| texts.join("\n"))
    }

    /// Returns `llm_request` in the stable form.
    pub fn request_edit(&self) -> RequestMutation {
        let written = || self.specific("llm_request").and_then(Value::as_object);
        let fields = self.interpretation.llm_request.as_ref().or_else(written);
        RequestMutation {
            fields: fields.cloned().unwrap_or_default(),
            earlier_messages: self.interpretation.earlier_messages.clone(),
            appended_text: None,
        }
    }

    /// Returns the edit of a response.
    pub fn response_edit(&self) -> Option<ResponseMutation> {
        let interpreted = self.interpretation.llm_response.clone();
        interpreted.or_else(|| ResponseMutation::read(self.specific("llm_response")?))
    }

    /// Sets a field of one event.
    pub fn set_specific(&mut self, key: &str, value: Value) {
        self.hook_specific_output.insert(key.to_owned(), value);
    }

    /// Marks the output of a hook or policy that saw the edits before its own.
    pub fn mark_following(&mut self) {
        self.interpretation.follows_edits = self.specific("llm_request").is_some();
    }

    /// Marks the output of a hook of a locked bundle.
    pub fn mark_locked(&mut self) {
        self.interpretation.narrows_selection = self.specific("toolConfig").is_some();
    }

    /// Edits the texts that it adds to the conversation. Returns whether any is changed.
    pub fn edit_added(&mut self, edit: impl Fn(&str) -> Option<String>) -> bool {
        let context = self.additional_context().and_then(&edit);
        let mut is_edited = context.is_some();
        if let Some(context) = context {
            self.set_specific("additionalContext", Value::String(context));
        }
        for added in &mut self.interpretation.added {
            if let Some(text) = edit(added.text()) {
                added.set_text(text);
                is_edited = true;
            }
        }
        is_edited
    }

    /// Reads `permissionDecision` and its reason, an older spelling of the
    /// decision on `BeforeTool` (hook protocol, section 11). The stricter of both
    /// counts, with its own reason if it has one.
    fn read_permission(&mut self, reader: &mut FieldReader) {
        let specific = &mut self.hook_specific_output;
        let decision = specific.shift_remove("permissionDecision");
        let reason = specific.shift_remove("permissionDecisionReason");
        let decision = reader.decision(decision.as_ref());
        let reason = match reason {
            Some(Value::String(reason)) => Some(reason),
            _ => None,
        };
        let general = self.reason.take();
        let (own, other) = if decision > self.decision {
            (reason, general)
        } else {
            (general, reason)
        };
        self.decision = self.decision.max(decision);
        self.reason = own.filter(|reason| !is_blank(reason)).or(other);
    }
}

/// Returns whether a field of outputs on all events would change what happens, but not on `event`.
fn is_lost(key: &str, value: &Value, event: EventName) -> bool {
    let part = match (key, value) {
        ("continue", Value::Bool(false)) => OutputPart::Flow,
        ("systemMessage", Value::String(_)) => OutputPart::SystemMessage,
        ("decision", value) => match Decision::deserialize(value) {
            Ok(Decision::Deny) => OutputPart::Flow,
            Ok(Decision::Ask) => OutputPart::Ask,
            Ok(Decision::Allow) | Err(_) => return false,
        },
        _ => return false,
    };
    !event.honours(part)
}

fn is_blank(reason: &str) -> bool {
    reason.trim().is_empty()
}

/// Reads typed fields and collects diagnostics.
#[derive(Debug, Default)]
struct FieldReader {
    diagnostics: Vec<Diagnostic>,
}

impl FieldReader {
    fn decision(&mut self, value: Option<&Value>) -> Option<Decision> {
        let value = value.filter(|value| !value.is_null())?;
        let word = Some(value).filter(|value| value.is_string());
        let decision = word.and_then(|word| Decision::deserialize(word).ok());
        if decision.is_none() {
            let expected =
                "unknown decision; expected `allow`, `approve`, `deny`, `block` or `ask`";
            let unknown = DiagnosticCode::UnknownDecision.with(expected);
            self.diagnostics.push(unknown);
        }
        decision
    }

    fn field<T: DeserializeOwned>(&mut self, fields: &Map<String, Value>, key: &str) -> Option<T> {
        let value = fields.get(key).filter(|value| !value.is_null())?;
        match T::deserialize(value) {
            Ok(field) => Some(field),
            Err(_) => self.wrong_type(key),
        }
    }

    /// Reports fields that have no effect on `event`, such as misspelled ones.
    fn report_unknown(&mut self, fields: &Map<String, Value>, event: EventName) {
        let parts = event.honoured_parts().iter();
        let honoured: Vec<&str> = parts
            .flat_map(|part| part.specific_fields())
            .copied()
            .collect();
        let is_known = |key: &str, value: &Value| {
            HookOutput::FIELDS.contains(&key) && !is_lost(key, value, event)
                || key == "clearContext" && honoured.contains(&key)
        };
        let is_set = |(_, value): &(&String, &Value)| !value.is_null();
        let general = fields.iter().filter(is_set);
        let general = general.filter(|(key, value)| !is_known(key, value));
        let general = general.map(|(key, _)| key.clone());
        let specific = fields.get("hookSpecificOutput").and_then(Value::as_object);
        let specific = specific.into_iter().flatten().filter(is_set);
        let specific = specific
            .filter(|(key, _)| *key != "hookEventName" && !honoured.contains(&key.as_str()))
            .map(|(key, _)| format!("hookSpecificOutput.{key}"));
        let unknown: Vec<String> = general.chain(specific).collect();
        if !unknown.is_empty() {
            let unknown = format!("no effect on {event}: `{}`", unknown.join("`, `"));
            self.diagnostics
                .push(DiagnosticCode::UnknownKey.with(unknown));
        }
    }

    fn wrong_type<T: Default>(&mut self, key: &str) -> T {
        self.diagnostics.push(DiagnosticCode::WrongType.with(key));
        T::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Reads an output on `BeforeTool`.
    fn read(output: Value) -> HookOutput {
        let Value::Object(fields) = output else {
            panic!("{output} is no object");
        };
        HookOutput::read(fields, EventName::BeforeTool).0
    }

    #[test]
    fn the_reason_is_that_of_the_stricter_decision() {
        for (decision, reason, permission, permission_reason, expected) in [
            ("allow", "fine", "deny", "secret", "secret"),
            ("ask", "fine", "deny", " ", "fine"),
            ("deny", "no", "allow", "fine", "no"),
            ("deny", "", "allow", "fine", "fine"),
            ("deny", "no", "deny", "secret", "no"),
        ] {
            let output = read(json!({
                "decision": decision,
                "reason": reason,
                "hookSpecificOutput": {
                    "permissionDecision": permission,
                    "permissionDecisionReason": permission_reason,
                },
            }));

            let denial = output.deny().unwrap();
            assert_eq!(denial.as_str(), expected, "{decision} {permission}");
        }
    }

    #[test]
    fn the_reason_of_a_stop_is_the_first_that_is_not_blank() {
        let stop = |stop_reason, reason| {
            let fields = json!({ "continue": false, "stopReason": stop_reason, "reason": reason });
            read(fields).stop().unwrap().as_str().to_owned()
        };
        assert_eq!(stop("enough", "rr"), "enough");
        assert_eq!(stop("", "rr"), "rr");
        assert_eq!(stop(" ", ""), "No reason provided");
    }
}
