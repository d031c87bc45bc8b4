//! Tests of the facts of events; `cel-condition` has those of the language.

use serde_json::json;

use super::*;
use crate::event::{BeforeAgent, BeforeTool, Caller};

fn context() -> Context {
    Context {
        session_id: "laptop-7".to_owned(),
        session_named: true,
        caller: Caller {
            key: "ab12".to_owned(),
            name: "team-a".to_owned(),
            agent: "GeminiCLI/0.61".to_owned(),
            ..Caller::default()
        },
        ..Context::default()
    }
}

fn evaluate(text: &str, facts: &Facts<'_>) -> Result<bool, EvalError> {
    compile(text).unwrap().evaluate(facts)
}

#[test]
fn every_fact_of_a_model_call_has_its_value() {
    let request = RequestFacts {
        model: "gemini-2.5-pro".to_owned(),
        operation: "streamGenerateContent",
        stream: true,
        bytes: 2000,
        contents: 3,
        tools: vec!["read_file".to_owned(), "glob".to_owned()],
        max_output_tokens: Some(100),
    };
    let facts = Facts {
        event: EventName::BeforeModel,
        context: &context(),
        request: Some(request),
        source: None,
    };
    for text in [
        r#"event == "BeforeModel""#,
        r#"request.model == "gemini-2.5-pro""#,
        r#"request.operation == "streamGenerateContent""#,
        "request.stream",
        "request.bytes == 2000",
        "request.contents == 3",
        r#"request.tools == ["read_file", "glob"]"#,
        "request.max_output_tokens == 100",
        r#"session.id == "laptop-7" && session.named"#,
        r#"caller.key == "ab12" && caller.name == "team-a""#,
        r#"caller.agent == "GeminiCLI/0.61""#,
        "!has(tool.name)",
    ] {
        assert_eq!(evaluate(text, &facts), Ok(true), "{text}");
    }
}

#[test]
fn every_fact_of_a_tool_call_and_of_a_prompt_has_its_value() {
    let context = context();
    let facts = |event, source| Facts {
        event,
        context: &context,
        request: None,
        source: Some(source),
    };
    let input =
        json!({ "tool_name": "run_shell_command", "tool_input": { "command": "rm -rf /" } });
    let call: BeforeTool = serde_json::from_value(input).unwrap();
    let tool = facts(EventName::BeforeTool, Event::BeforeTool(&call));
    let prompt = BeforeAgent {
        prompt: "Hello".to_owned(),
    };
    let prompt = facts(EventName::BeforeAgent, Event::BeforeAgent(&prompt));

    let about_tool = r#"tool.name == "run_shell_command" && tool.input.command == "rm -rf /""#;
    assert_eq!(evaluate(about_tool, &tool), Ok(true));
    assert_eq!(evaluate("!has(request.model)", &tool), Ok(true));
    assert_eq!(evaluate(r#"prompt == "Hello""#, &prompt), Ok(true));
}

#[test]
fn each_event_has_the_variables_that_it_is_about() {
    for event in EventName::ALL.iter().copied() {
        let facts = [
            ("request.model", event.is_model_call()),
            (
                "tool.name",
                matches!(event, EventName::BeforeTool | EventName::AfterTool),
            ),
            (
                "prompt",
                matches!(event, EventName::BeforeAgent | EventName::AfterAgent),
            ),
            ("session.id", true),
        ];
        for (fact, is_present) in facts {
            let condition = compile(&format!("{fact} == 'x'")).unwrap();
            let expected = if is_present {
                StaticResult::Dynamic
            } else {
                StaticResult::Absent(fact.to_owned())
            };
            assert_eq!(analyze(&condition, event), expected, "{fact} on {event}");
        }
        let on_event = compile(&format!("event == '{event}'")).unwrap();
        assert_eq!(analyze(&on_event, event), StaticResult::True, "{event}");
    }
}
