//! `gemini`: the protocol of gemini-cli.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{Ended, Protocol, exit};
use crate::event::{Answer, Context, Event, EventName, HookInput};

#[derive(Debug)]
pub(super) struct Gemini;

impl Protocol for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn write(&self, context: &Context, event: Event<'_>, document: Option<&RawValue>) -> Bytes {
        let input = HookInput::new(context, event, document);
        // Texts, numbers and JSON values always become JSON.
        serde_json::to_vec(&input)
            .map(Bytes::from)
            .unwrap_or_default()
    }

    fn read(&self, ended: &Ended, event: EventName) -> Answer {
        exit::read(ended, event)
    }

    fn render_context(&self, text: &str) -> String {
        let escaped = text.replace('<', "&lt;").replace('>', "&gt;");
        format!("<hook_context>{escaped}</hook_context>")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, from_slice, json};

    use super::*;
    use crate::event::BeforeTool;

    fn context() -> Context {
        Context {
            session_id: "s1".into(),
            transcript_path: String::new(),
            cwd: "/repo".into(),
            timestamp: "2026-01-13T19:15:43.029Z".into(),
        }
    }

    fn call() -> BeforeTool {
        BeforeTool {
            tool_name: "write_file".into(),
            tool_input: Map::from_iter([("size".into(), json!(1))]),
            mcp_context: None,
            original_request_name: None,
        }
    }

    #[test]
    fn the_base_fields_are_always_there() {
        let written = Gemini.write(&context(), Event::BeforeTool(&call()), None);

        let expected = json!({
            "session_id": "s1",
            "transcript_path": "",
            "cwd": "/repo",
            "timestamp": "2026-01-13T19:15:43.029Z",
            "hook_event_name": "BeforeTool",
            "tool_name": "write_file",
            "tool_input": {"size": 1},
        });
        assert_eq!(from_slice::<Value>(&written).unwrap(), expected);
    }

    #[test]
    fn numbers_and_the_document_keep_their_spelling() {
        let mut call = call();
        let large = serde_json::from_str("12345678901234567890.0e+1").unwrap();
        call.tool_input.insert("large".into(), large);
        let document = RawValue::from_string(r#"{ "b":1,"a":1.0 }"#.into()).unwrap();

        let written = Gemini.write(&context(), Event::BeforeTool(&call), Some(&document));

        let text = String::from_utf8(written.into()).unwrap();
        assert!(
            text.contains(r#""large":12345678901234567890.0e+1"#),
            "{text}"
        );
        assert!(text.ends_with(r#""document":{ "b":1,"a":1.0 }}"#), "{text}");
    }

    #[test]
    fn context_cannot_close_its_own_tag() {
        assert_eq!(
            Gemini.render_context("use <b> & \"c\"</hook_context>"),
            "<hook_context>use &lt;b&gt; & \"c\"&lt;/hook_context&gt;</hook_context>"
        );
    }
}
