//! Tests of the facts of events; `cel-condition` has those of the language.

use serde_json::json;

use super::*;

fn facts(event: EventName) -> Facts<'static> {
    Facts {
        event,
        request: None,
        tool: None,
        prompt: None,
        session: SessionFacts {
            id: "laptop-7",
            named: true,
        },
        caller: CallerFacts {
            key: "ab12",
            name: "team-a",
            agent: "GeminiCLI/0.61",
        },
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
        request: Some(request),
        ..facts(EventName::BeforeModel)
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
    let input = json!({ "command": "rm -rf /" });
    let tool = Facts {
        tool: Some(ToolFacts {
            name: "run_shell_command",
            input: input.as_object().unwrap(),
        }),
        ..facts(EventName::BeforeTool)
    };
    let prompt = Facts {
        prompt: Some("Hello"),
        ..facts(EventName::BeforeAgent)
    };

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
