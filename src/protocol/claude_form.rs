//! Hook inputs and outputs in the form of Claude Code, which Codex shares.
//!
//! Sources: <https://code.claude.com/docs/en/hooks> and
//! <https://developers.openai.com/codex/hooks>; `docs/claude-codex-hooks.md` has each rule.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    exit_code::{self, OutputReader},
    process_output::{ProcessExit, ProcessOutput},
    tool_result,
};
use crate::event::{
    AgentScope, Context, DiagnosticCode, Event, EventAlias, EventName, GatewayContext, HookOutput,
    HookResult, InputExtras,
};

/// Events of Claude Code that a gateway sees.
pub(super) const EVENTS: &[EventAlias] = &[
    EventAlias::new("PreToolUse", EventName::BeforeTool, AgentScope::All),
    EventAlias::new("PostToolUse", EventName::AfterTool, AgentScope::All),
    EventAlias::new("UserPromptSubmit", EventName::BeforeAgent, AgentScope::All),
    EventAlias::new("SessionStart", EventName::SessionStart, AgentScope::All),
    EventAlias::new("SessionEnd", EventName::SessionEnd, AgentScope::All),
    EventAlias::new("Stop", EventName::AfterAgent, AgentScope::Main),
    EventAlias::new("SubagentStop", EventName::AfterAgent, AgentScope::SubAgents),
    EventAlias::new("PreCompact", EventName::PreCompress, AgentScope::All),
    EventAlias::new("Notification", EventName::Notification, AgentScope::All),
];

/// Fields that replace a tool's result; the first one counts.
const RESULT_KEYS: [&str; 2] = ["updatedToolOutput", "updatedMCPToolOutput"];

/// A hook input with the fields that its config adds.
#[derive(Serialize)]
struct ClaudeInput<'a> {
    #[serde(flatten)]
    fields: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hookgate: Option<GatewayContext<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<&'a RawValue>,
}

/// Encodes the fields of a hook input.
pub(super) fn encode(fields: Map<String, Value>, extras: InputExtras<'_>) -> Bytes {
    let input = ClaudeInput {
        fields,
        hookgate: extras.hookgate,
        document: extras.document,
    };
    // Serialization of strings, numbers and JSON values cannot fail.
    Bytes::from(serde_json::to_vec(&input).unwrap_or_default())
}

/// Returns the fields of an event that both families have, under their own names.
pub(super) fn fields(
    context: &Context,
    event: Event<'_>,
    aliases: &[EventAlias],
) -> Map<String, Value> {
    let is_sub_agent = context.sub_agent.is_some();
    let name = name_of(event.name(), is_sub_agent, aliases);
    let mut fields = object(json!({
        "session_id": context.hook_session_id(),
        "transcript_path": context.transcript_path,
        "cwd": context.cwd,
        "hook_event_name": name,
    }));
    if let Some(agent) = &context.sub_agent {
        fields.insert("agent_id".to_owned(), json!(agent));
    }
    fields.extend(object(match event {
        Event::AfterAgent(event) => json!({
            "stop_hook_active": event.stop_hook_active,
            "last_assistant_message": event.prompt_response,
        }),
        Event::BeforeTool(event) => json!({
            "tool_name": event.tool_name,
            "tool_input": event.tool_input,
        }),
        Event::AfterTool(event) => json!({
            "tool_name": event.tool_name,
            "tool_input": event.tool_input,
            "tool_response": event.tool_response.get("llmContent"),
        }),
        // The other events have the same fields in all families.
        other => json!(other),
    }));
    fields
}

/// Returns a family's name of an event.
fn name_of(event: EventName, is_sub_agent: bool, aliases: &[EventAlias]) -> &'static str {
    let mut aliases = aliases.iter();
    let alias = aliases.find(|alias| alias.event == event && alias.agents.includes(is_sub_agent));
    alias.map_or(event.as_str(), |alias| alias.name)
}

/// Reads the output of an exited hook.
///
/// Plain text on standard output is context on the events of prompts and sessions, and
/// for debug logs only on others.
pub(super) fn read(output: &ProcessOutput, event: EventName) -> HookResult {
    let reader = OutputReader {
        event,
        translate,
        scalars_are_text: true,
    };
    let mut result = exit_code::read_translated(output, reader);
    drop_unusable_results(&mut result);
    let mut diagnostics = result.diagnostics.iter();
    let is_text = diagnostics.any(|diagnostic| diagnostic.code == DiagnosticCode::PlainText);
    if is_text && output.exit == ProcessExit::Code(0) {
        let text = result.output.system_message.take().unwrap_or_default();
        result.output = HookOutput::default();
        if matches!(event, EventName::BeforeAgent | EventName::SessionStart) {
            result.output.set_specific("additionalContext", json!(text));
        }
    }
    result
}

/// Drops replacements of a tool's result that no tool has: `null` counts as absent.
fn drop_unusable_results(result: &mut HookResult) {
    for key in RESULT_KEYS {
        let specific = &mut result.output.hook_specific_output;
        match specific.get(key) {
            Some(Value::Null) => (),
            Some(Value::Bool(_) | Value::Number(_)) => {
                result.diagnostics.push(DiagnosticCode::WrongType.with(key));
            }
            Some(Value::String(_) | Value::Array(_) | Value::Object(_)) | None => continue,
        }
        specific.shift_remove(key);
    }
}

/// Writes the family's fields as those of `gemini`.
fn translate(fields: &mut Map<String, Value>, event: EventName) {
    if event != EventName::BeforeTool {
        return;
    }
    // Claude Code ignores these at the top level; a denial must not be lost for that.
    for (name, own) in [
        ("permissionDecision", "decision"),
        ("permissionDecisionReason", "reason"),
    ] {
        if let Some(value) = fields.shift_remove(name) {
            let denies = value == "deny" || value == "block";
            if denies || !fields.contains_key(own) {
                fields.insert(own.to_owned(), value);
            }
        }
    }
    if let Some(Value::Object(specific)) = fields.get_mut("hookSpecificOutput") {
        if let Some(edit) = specific.shift_remove("updatedInput") {
            specific.insert("tool_input".to_owned(), edit);
        }
        // A gateway cannot suspend an agent: the setting `ask` decides instead.
        if let Some(decision) = specific.get_mut("permissionDecision")
            && decision == "defer"
        {
            *decision = json!("ask");
        }
    }
}

/// Returns the text of a replaced tool result.
///
/// Built-in tools of Claude Code have results in shapes of their own; what the model
/// reads of them is their text.
pub(super) fn result_text(output: &HookOutput) -> Option<String> {
    let mut replacements = RESULT_KEYS.iter().filter_map(|key| output.specific(key));
    replacements.next().map(tool_result::text)
}

/// Returns the fields of a JSON object.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Decision, HookStatus};

    fn read_text(stdout: &str, event: EventName) -> HookResult {
        read(&ProcessOutput::success(stdout.as_bytes().to_vec()), event)
    }

    #[test]
    fn text_is_context_on_prompts_and_sessions_alone() {
        for event in [EventName::BeforeAgent, EventName::SessionStart] {
            let output = read_text("careful\n", event).output;
            assert_eq!(output.additional_context(), Some("careful"));
        }
        let output = read_text("careful", EventName::BeforeTool).output;
        assert_eq!(output, HookOutput::default());
    }

    #[test]
    fn a_permission_at_the_top_level_counts_if_it_denies() {
        let denied = read_text(
            r#"{"decision":"approve","permissionDecision":"deny","permissionDecisionReason":"no"}"#,
            EventName::BeforeTool,
        );
        assert_eq!(denied.output.decision, Some(Decision::Deny));
        assert_eq!(denied.output.reason.as_deref(), Some("no"));
        assert_eq!(denied.status, HookStatus::Ok);
    }

    #[test]
    fn a_result_is_replaced_by_text_or_json_alone() {
        let replaced = |fields: &str| {
            let output = format!(r#"{{"hookSpecificOutput":{fields}}}"#);
            let result = read_text(&output, EventName::AfterTool);
            (result_text(&result.output), result.diagnostics)
        };
        let mcp = Some("mcp".to_owned());

        let absent = replaced(r#"{"updatedToolOutput":null,"updatedMCPToolOutput":"mcp"}"#);
        assert_eq!(absent, (mcp.clone(), vec![]));
        let (text, diagnostics) =
            replaced(r#"{"updatedToolOutput":true,"updatedMCPToolOutput":"mcp"}"#);
        assert_eq!(text, mcp);
        let wrong_type = DiagnosticCode::WrongType.with("updatedToolOutput");
        assert_eq!(diagnostics, [wrong_type]);
        assert_eq!(replaced(r#"{"updatedToolOutput":null}"#).0, None);
        assert_eq!(
            replaced(r#"{"updatedToolOutput":""}"#).0.as_deref(),
            Some("")
        );
    }

    #[test]
    fn a_deferred_decision_is_read_as_ask() {
        let deferred = read_text(
            r#"{"hookSpecificOutput":{"permissionDecision":"defer","updatedInput":{"a":1}}}"#,
            EventName::BeforeTool,
        );
        assert_eq!(deferred.output.decision, Some(Decision::Ask));
        assert_eq!(
            deferred.output.specific("tool_input"),
            Some(&json!({ "a": 1 }))
        );
    }
}
