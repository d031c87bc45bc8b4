//! Tests of conditions on the facts of events; `cel-condition` has those of the language.

use serde_json::json;

use super::*;

fn tools() -> Vec<String> {
    vec!["read_file".to_owned(), "run_shell_command".to_owned()]
}

fn on_request(text: &str, max_output_tokens: Option<i64>) -> Result<bool, EvalError> {
    compile(text).unwrap().evaluate(&Facts {
        event: EventName::BeforeModel,
        request: Some(RequestFacts {
            model: "gemini-2.5-pro".to_owned(),
            operation: "streamGenerateContent",
            stream: true,
            bytes: 2000,
            contents: 3,
            tools: tools(),
            max_output_tokens,
        }),
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
    })
}

fn on_tool(text: &str, input: &Json) -> Result<bool, EvalError> {
    compile(text).unwrap().evaluate(&Facts {
        event: EventName::BeforeTool,
        request: None,
        tool: Some(ToolFacts {
            name: "run_shell_command",
            input: input.as_object().unwrap_or(&Map::new()),
        }),
        prompt: None,
        session: SessionFacts::default(),
        caller: CallerFacts::default(),
    })
}

#[test]
fn a_condition_reads_the_facts_of_a_model_call() {
    for text in [
        r#"event == "BeforeModel""#,
        r#"request.model == "gemini-2.5-pro""#,
        r#"request.model.startsWith("gemini-2.5") && request.model.endsWith("pro")"#,
        r#"request.model.matches("(?i)^GEMINI-2\\.5-(pro|flash)$")"#,
        r#"request.operation == "streamGenerateContent" && request.stream"#,
        "request.bytes > 1000 && request.bytes < 2e4",
        "request.contents == 3 && request.contents % 2 == 1",
        r#""run_shell_command" in request.tools"#,
        r#"request.tools.exists(it, it.startsWith("run_"))"#,
        r#"request.tools.exists(it, ["run_", "write_"].exists(start, it.startsWith(start)))"#,
        r#"request.tools.filter(it, it.contains("file")) == ["read_file"]"#,
        "request.tools.exists_one(it, it == 'read_file') && size(request.tools) == 2",
        r#"request.tools[0] == "read_file""#,
        "has(request.max_output_tokens) && request.max_output_tokens >= 100",
        r#"session.named && session.id in ["laptop-7", "laptop-8"]"#,
        r#"caller.name == "team-a" && caller.name.startsWith("team")"#,
        r#"caller.key == "ab12" && caller.agent.contains("CLI")"#,
        "!(request.stream ? false : true)",
    ] {
        assert_eq!(on_request(text, Some(100)), Ok(true), "{text}");
        let not = format!("!({text})");
        assert_eq!(on_request(&not, Some(100)), Ok(false), "{not}");
    }
}

#[test]
fn a_condition_reads_the_facts_of_a_tool_call() {
    let input = json!({
        "command": "rm -rf /", "n": 3, "f": 1.5, "nothing": null,
        "list": ["a", { "b": true }], "deep": { "er": "x" },
    });
    for text in [
        r#"tool.name == "run_shell_command""#,
        r#"tool.input.command.matches("rm\\s+-rf")"#,
        r#"tool.input["command"].startsWith("rm")"#,
        "tool.input.n == 3 && tool.input.n < 3.5 && tool.input.f > 1",
        "tool.input.nothing == null",
        "tool.input.list[1].b",
        r#""command" in tool.input && !("file_path" in tool.input)"#,
        "has(tool.input.deep.er) && !has(tool.input.other)",
        r#"tool.input.exists(name, name == "deep")"#,
        "!has(request.model)",
    ] {
        assert_eq!(on_tool(text, &input), Ok(true), "{text}");
    }
}

#[track_caller]
fn check_static(text: &str, event: EventName, expected: &StaticResult) {
    let result = analyze(&compile(text).unwrap(), event);
    assert_eq!(&result, expected, "{text} on {event}");
}

#[test]
fn an_absent_variable_is_found_statically() {
    use EventName::{AfterModel, BeforeModel, BeforeTool};
    let absent = |it: &str| StaticResult::Absent(it.to_owned());
    let model = absent("request.model");
    let guarded = "has(request.model) && request.model == 'x'";
    let inside = "(has(request.model) ? request.model : 'y') == 'x'";

    check_static("request.model == 'x'", BeforeModel, &StaticResult::Dynamic);
    check_static("request.model == 'x'", AfterModel, &StaticResult::Dynamic);
    check_static("request.model == 'x'", BeforeTool, &model);
    check_static("!(request.model == 'x')", BeforeTool, &model);
    check_static(
        "session.named && prompt == 'x'",
        BeforeTool,
        &absent("prompt"),
    );
    check_static(
        "session.named || prompt == 'x'",
        BeforeTool,
        &absent("prompt"),
    );
    check_static(guarded, BeforeTool, &StaticResult::False);
    check_static(guarded, BeforeModel, &StaticResult::Dynamic);
    check_static(inside, BeforeTool, &StaticResult::Dynamic);
    let optional = "has(request.max_output_tokens)";
    check_static(optional, BeforeModel, &StaticResult::Dynamic);
    check_static("has(tool.input.x)", BeforeTool, &StaticResult::Dynamic);
}

#[test]
fn a_condition_on_the_event_alone_is_evaluated_statically() {
    use EventName::{AfterModel, BeforeModel, BeforeTool};
    let (always, never) = (StaticResult::True, StaticResult::False);
    let scoped = "event == 'BeforeTool' && tool.name == 'x'";
    let either = "event in ['BeforeModel', 'AfterModel']";

    check_static(scoped, BeforeTool, &StaticResult::Dynamic);
    check_static(scoped, BeforeModel, &never);
    check_static(either, AfterModel, &always);
    check_static(either, BeforeTool, &never);
    check_static("event.startsWith('Before')", AfterModel, &never);
    check_static("event != 'x' || tool.name == 'x'", AfterModel, &always);
    check_static("false", BeforeModel, &never);
    check_static("['a'].exists(it, it == 'b')", BeforeModel, &never);
}
