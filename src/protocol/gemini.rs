//! The `gemini` protocol of gemini-cli: the defaults of [`Protocol`].

use super::hook_protocol::Protocol;

#[derive(Debug)]
pub(super) struct GeminiProtocol;

impl Protocol for GeminiProtocol {
    fn name(&self) -> &'static str {
        "gemini"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, from_slice, json, value::RawValue};

    use super::*;
    use crate::event::{BeforeTool, Context, Event, InputExtras};

    fn context() -> Context {
        Context {
            session_id: "s1".into(),
            transcript_path: String::new(),
            cwd: "/repo".into(),
            timestamp: "2026-01-13T19:15:43.029Z".into(),
            ..Context::default()
        }
    }

    fn call() -> BeforeTool {
        BeforeTool {
            tool_name: "write_file".into(),
            tool_input: Map::from_iter([("size".into(), json!(1))]),
            toolset_name: None,
            mcp_context: None,
            original_request_name: None,
        }
    }

    #[test]
    fn the_base_fields_are_always_present() {
        let written = GeminiProtocol.write(
            &context(),
            Event::BeforeTool(&call()),
            InputExtras::default(),
        );

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

        let extras = InputExtras {
            document: Some(&document),
            ..InputExtras::default()
        };
        let written = GeminiProtocol.write(&context(), Event::BeforeTool(&call), extras);

        let text = String::from_utf8(written.into()).unwrap();
        assert!(
            text.contains(r#""large":12345678901234567890.0e+1"#),
            "{text}"
        );
        assert!(text.ends_with(r#""document":{ "b":1,"a":1.0 }}"#), "{text}");
    }
}
