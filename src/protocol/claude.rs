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
    AddedContext, Context, Decision, Event, EventName, HookResult, HookStatus, InputExtras,
    SettingsFormat,
};

#[derive(Debug)]
pub(super) struct ClaudeProtocol;

const FORMAT: SettingsFormat = SettingsFormat {
    folder: ".claude",
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

    fn settings_format(&self) -> Option<&'static SettingsFormat> {
        Some(&FORMAT)
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
            let texts = [context, output.reason.take()].into_iter().flatten();
            output.interpretation.added = texts.map(|text| AddedContext::tagged(&text)).collect();
        }
    }
}
