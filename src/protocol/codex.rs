//! The `codex` protocol of Codex: as `claude`, but a refusal on `PostToolUse` replaces the
//! result, and inputs have the fields of Codex.
//!
//! Source: <https://developers.openai.com/codex/hooks>; `docs/claude-codex-hooks.md` has
//! each rule.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    claude_form, hook_protocol::Protocol, process_output::ProcessOutput, tool_names::ToolFamily,
};
use crate::event::{
    Context, Event, EventAlias, EventName, HookResult, InputExtras, SettingsFormat,
};

#[derive(Debug)]
pub(super) struct CodexProtocol;

/// Codex has the events of Claude Code but its last one, `Notification`.
pub(super) const EVENTS: &[EventAlias] = match claude_form::EVENTS.split_last() {
    Some((_notification, events)) => events,
    None => &[],
};

const FORMAT: SettingsFormat = SettingsFormat {
    events: EVENTS,
    unsupported: &[
        "Interrupt",
        "PermissionRequest",
        "PostCompact",
        "StopFailure",
        "SubagentStart",
    ],
    name_separators: &['|'],
    name_symbols: &['_'],
};

impl Protocol for CodexProtocol {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn tools(&self) -> ToolFamily {
        ToolFamily::Codex
    }

    fn settings_folder(&self) -> Option<&'static str> {
        Some(".codex")
    }

    fn settings_format(&self) -> Option<&'static SettingsFormat> {
        Some(&FORMAT)
    }

    fn write(&self, context: &Context, event: Event<'_>, extras: InputExtras<'_>) -> Bytes {
        let mut fields = claude_form::fields(context, event, EVENTS);
        if context.transcript_path.is_empty() {
            fields.insert("transcript_path".to_owned(), Value::Null);
        }
        // Codex always has these; a gateway does not see them in a tool call.
        let unknown = [
            ("turn_id", ""),
            ("model", ""),
            ("permission_mode", "default"),
        ];
        let tool = matches!(event, Event::BeforeTool(_) | Event::AfterTool(_));
        let id = tool.then_some(("tool_use_id", ""));
        for (name, value) in unknown.into_iter().chain(id) {
            fields.insert(name.to_owned(), json!(value));
        }
        claude_form::encode(fields, extras)
    }

    fn read(&self, output: &ProcessOutput, event: EventName) -> HookResult {
        claude_form::read(output, event)
    }

    fn interpret(&self, result: &mut HookResult, event: Event<'_>) {
        let output = &mut result.output;
        output.replace_arguments();
        if event.name() == EventName::AfterTool {
            output.interpretation.tool_result = claude_form::result_text(output);
        }
    }
}
