//! The `claude` protocol of Claude Code: events and fields have its names, arguments and
//! results are replaced, and a refusal on `PostToolUse` is a remark beside the result.
//!
//! Source: <https://code.claude.com/docs/en/hooks>; `docs/claude-codex-hooks.md` has each
//! rule.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    claude_form, hook_protocol::Protocol, process_output::ProcessOutput, tool_names::ToolFamily,
};
use crate::event::{
    Context, Decision, Event, EventName, HookResult, HookStatus, InputExtras, Reason,
    SettingsFormat,
};

#[derive(Debug)]
pub(super) struct ClaudeProtocol;

const FORMAT: SettingsFormat = SettingsFormat {
    events: claude_form::EVENTS,
    unsupported: &[
        "ConfigChange",
        "CwdChanged",
        "DirectoryAdded",
        "Elicitation",
        "ElicitationResult",
        "FileChanged",
        "InstructionsLoaded",
        "MessageDisplay",
        "PermissionDenied",
        "PermissionRequest",
        "PostCompact",
        "PostModelSwitch",
        "PostToolBatch",
        "PostToolUseFailure",
        "PreModelSwitch",
        "Setup",
        "StopFailure",
        "SubagentStart",
        "TaskCompleted",
        "TaskCreated",
        "TeammateIdle",
        "UserPromptExpansion",
        "WorktreeCreate",
        "WorktreeRemove",
    ],
    name_separators: &['|', ','],
    name_symbols: &['_', '-', ' '],
};

impl Protocol for ClaudeProtocol {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn tools(&self) -> ToolFamily {
        ToolFamily::Claude
    }

    fn settings_folder(&self) -> Option<&'static str> {
        Some(".claude")
    }

    fn settings_format(&self) -> Option<&'static SettingsFormat> {
        Some(&FORMAT)
    }

    fn accepts_text_over_http(&self) -> bool {
        true
    }

    fn write(&self, context: &Context, event: Event<'_>, extras: InputExtras<'_>) -> Bytes {
        let mut fields = claude_form::fields(context, event, claude_form::EVENTS);
        match event {
            Event::AfterTool(event) if event.tool_name == "Bash" => {
                if let Some(Value::String(text)) = fields.get("tool_response") {
                    let shape = json!({
                        "stdout": text,
                        "stderr": "",
                        "interrupted": false,
                        "isImage": false,
                    });
                    fields.insert("tool_response".to_owned(), shape);
                }
            }
            Event::PreCompress(_) => {
                fields.insert("custom_instructions".to_owned(), json!(""));
            }
            _ => (),
        }
        claude_form::encode(fields, extras)
    }

    fn read(&self, output: &ProcessOutput, event: EventName) -> HookResult {
        claude_form::read(output, event)
    }

    fn interpret(&self, result: &mut HookResult, event: Event<'_>) {
        let output = &mut result.output;
        output.replace_arguments();
        if event.name() != EventName::AfterTool {
            return;
        }
        output.interpretation.tool_result = claude_form::result_text(output);
        // The tool has run: the reason is for the model, beside the result. A failed guard
        // that fails closed still hides it.
        let is_refused = output.decision == Some(Decision::Deny);
        if is_refused && result.status != HookStatus::Failed {
            output.decision = None;
            let context = output.additional_context().map(str::to_owned);
            let reason = match output.r#continue {
                // Without a `stopReason`, the reason is the text of the stop.
                Some(false) => output.reason.clone(),
                None | Some(true) => output.reason.take(),
            };
            let texts = [context, reason].into_iter().flatten();
            let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
            let texts = texts.join("\n");
            let added = Reason::new(Some(texts.as_str()));
            // A recording has no interpretation of the output.
            output.set_specific("additionalContext", json!(added.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, value::RawValue};

    use super::*;
    use crate::event::{AfterTool, SessionStart};

    /// Returns what a hook's output on a tool result means.
    fn interpreted(output: &Value) -> HookResult {
        let event = AfterTool {
            tool_name: "Bash".to_owned(),
            tool_input: Map::new(),
            tool_response: Map::new(),
            toolset_name: None,
            mcp_context: None,
            original_request_name: None,
        };
        let output = ProcessOutput::success(output.to_string().into_bytes());
        let mut result = ClaudeProtocol.read(&output, EventName::AfterTool);
        ClaudeProtocol.interpret(&mut result, Event::AfterTool(&event));
        result
    }

    #[test]
    fn an_input_has_the_document_as_it_is() {
        let document = RawValue::from_string(r#"{ "n" : 1.50 }"#.to_owned()).unwrap();
        let extras = InputExtras {
            document: Some(&document),
            hookgate: None,
        };
        let event = Event::SessionStart(&SessionStart {
            source: "startup".to_owned(),
        });

        let input = ClaudeProtocol.write(&Context::default(), event, extras);

        let input = String::from_utf8(input.into()).unwrap();
        assert!(input.ends_with(r#","document":{ "n" : 1.50 }}"#), "{input}");
    }

    #[test]
    fn a_refused_result_without_a_reason_is_a_remark_beside_it() {
        for reason in [json!(null), json!(""), json!(" ")] {
            let output = json!({ "decision": "block", "reason": reason });

            let refused = interpreted(&output).output;

            let context = refused.plain_context();
            assert_eq!(context.as_deref(), Some("No reason provided"), "{reason}");
        }
    }

    #[test]
    fn the_reason_of_a_refused_result_is_also_the_text_of_a_stop() {
        let mut output = json!({ "decision": "block", "reason": "rr", "continue": false });
        let stopped = interpreted(&output).output;
        output["continue"] = json!(true);
        let refused = interpreted(&output).output;

        let stop = stopped.stop().unwrap();
        assert_eq!(stop.as_str(), "rr");
        assert_eq!(refused.reason, None);
        for output in [stopped, refused] {
            assert_eq!(output.plain_context().as_deref(), Some("rr"));
        }
    }
}
