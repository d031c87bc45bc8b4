//! Tests of conditions: evaluation, compile errors and static analysis.

mod compile_errors;
mod random_texts;

use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::{
    Condition, EvalError, FactSource, FactValue, StaticResult, ValueType, Variable, VariableField,
};

const fn variable(name: &'static str, fields: &'static [VariableField]) -> Variable {
    Variable { name, fields }
}

const VARIABLES: &[Variable] = &[
    variable("event", &[]),
    variable("request", REQUEST),
    variable("tool", TOOL),
    variable("prompt", &[]),
    variable("session", SESSION),
    variable("caller", CALLER),
];

const REQUEST: &[VariableField] = &[
    VariableField::new("model", ValueType::String),
    VariableField::new("operation", ValueType::String),
    VariableField::new("stream", ValueType::Bool),
    VariableField::new("bytes", ValueType::Int),
    VariableField::new("contents", ValueType::Int),
    VariableField::new("tools", ValueType::List(&ValueType::String)),
    VariableField::optional("max_output_tokens", ValueType::Int),
];

const TOOL: &[VariableField] = &[
    VariableField::new("name", ValueType::String),
    VariableField::new("input", ValueType::Dyn),
];

const SESSION: &[VariableField] = &[
    VariableField::new("id", ValueType::String),
    VariableField::new("named", ValueType::Bool),
];

const CALLER: &[VariableField] = &[
    VariableField::new("key", ValueType::String),
    VariableField::new("name", ValueType::String),
    VariableField::new("agent", ValueType::String),
];

/// Events whose facts conditions are tested on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TestEvent {
    BeforeModel,
    AfterModel,
    BeforeTool,
}

/// Facts of a model call, or of a tool call with this input.
struct TestFacts {
    tools: Vec<String>,
    max_output_tokens: Option<i64>,
    input: Option<Map<String, Json>>,
}

impl FactSource for TestFacts {
    fn fact(&self, variable: &str, field: &str) -> Option<FactValue<'_>> {
        let is_tool = self.input.is_some();
        Some(match (variable, field) {
            ("event", _) if is_tool => FactValue::String("BeforeTool"),
            ("event", _) => FactValue::String("BeforeModel"),
            ("request", _) if is_tool => return None,
            ("request", "model") => FactValue::String("gemini-2.5-pro"),
            ("request", "operation") => FactValue::String("streamGenerateContent"),
            ("request", "stream") | ("session", "named") => FactValue::Bool(true),
            ("request", "bytes") => FactValue::Int(2000),
            ("request", "contents") => FactValue::Int(3),
            ("request", "tools") => FactValue::Strings(&self.tools),
            ("request", "max_output_tokens") => FactValue::Int(self.max_output_tokens?),
            ("tool", "name") if is_tool => FactValue::String("run_shell_command"),
            ("tool", "input") => FactValue::Object(self.input.as_ref()?),
            ("session", "id") => FactValue::String("laptop-7"),
            ("caller", "key") => FactValue::String("ab12"),
            ("caller", "name") => FactValue::String("team-a"),
            ("caller", "agent") => FactValue::String("GeminiCLI/0.61"),
            _ => return None,
        })
    }
}

fn compile(text: &str) -> Condition {
    Condition::compile(text, VARIABLES).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[track_caller]
fn compile_error(text: &str) -> String {
    Condition::compile(text, VARIABLES).unwrap_err().to_string()
}

fn analyze(condition: &Condition, event: TestEvent) -> StaticResult {
    let name = format!("{event:?}");
    condition.analyze(&[("event", &name)], &|variable| match variable {
        "request" => event != TestEvent::BeforeTool,
        "tool" => event == TestEvent::BeforeTool,
        "prompt" => false,
        _ => true,
    })
}

fn on_request(text: &str, max_output_tokens: Option<i64>) -> Result<bool, EvalError> {
    compile(text).evaluate(&TestFacts {
        tools: vec!["read_file".to_owned(), "run_shell_command".to_owned()],
        max_output_tokens,
        input: None,
    })
}

fn on_tool(text: &str, input: &Json) -> Result<bool, EvalError> {
    compile(text).evaluate(&TestFacts {
        tools: Vec::new(),
        max_output_tokens: None,
        input: Some(input.as_object().cloned().unwrap_or_default()),
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

#[test]
fn an_absent_or_mistyped_value_is_an_error_and_not_false() {
    let input = json!({ "n": 3 });

    assert_eq!(on_tool("tool.input.x == 1", &input), Err(EvalError::Absent));
    assert_eq!(
        on_tool("tool.input.n[0] == 1", &input),
        Err(EvalError::Type)
    );
    assert_eq!(
        on_tool("tool.input.n.contains('x')", &input),
        Err(EvalError::Type)
    );
    assert_eq!(
        on_tool("1 / (tool.input.n - 3) == 1", &input),
        Err(EvalError::Range)
    );
    assert_eq!(
        on_request("request.max_output_tokens > 5", None),
        Err(EvalError::Absent)
    );
    // An absent value does not matter if the other operand decides.
    assert_eq!(
        on_tool("tool.name == 'x' && tool.input.x == 1", &input),
        Ok(false)
    );
}

#[test]
fn facts_beyond_the_size_bound_are_too_expensive() {
    let long = json!({ "text": "x".repeat((1 << 20) + 1) });
    let many = json!({ "list": vec![1; 1001] });

    for input in [&long, &many] {
        let about_input = on_tool("tool.input.size() == 1", input);
        let about_the_name = on_tool("tool.name.startsWith('run')", input);

        assert_eq!(about_input, Err(EvalError::TooExpensive));
        assert_eq!(about_the_name, Ok(true));
    }
}

#[test]
fn an_evaluation_beyond_the_cost_budget_is_too_expensive() {
    let input = json!({ "text": "a".repeat(1_000_000), "list": vec![1; 900] });
    let lists = ["tool.input.list"; 50].join(" + ");

    for text in [
        "tool.input.text.matches('a{1,9000}x')".to_owned(),
        "tool.input.list.exists(it, tool.input.text.contains('b'))".to_owned(),
        "tool.input.list.exists(it, tool.input.text.matches('b'))".to_owned(),
        format!("tool.input.list.exists(it, size({lists}) == it)"),
    ] {
        assert_eq!(
            on_tool(&text, &input),
            Err(EvalError::TooExpensive),
            "{text}"
        );
    }
    for text in [
        "tool.input.text.matches('(?i)a{9}b|project aurora')",
        "tool.input.text.contains('b') || tool.input.text.startsWith('b')",
        "tool.input.list.exists(it, it in [2, 3] || string(it).matches('[2-9]'))",
    ] {
        assert_eq!(on_tool(text, &input), Ok(false), "{text}");
    }
}

#[test]
fn a_panic_in_the_evaluator_is_an_error_and_not_false() {
    let mut condition = compile("false");
    condition.expression = std::sync::Arc::new(cel::IdedExpr::default());
    let facts = TestFacts {
        tools: Vec::new(),
        max_output_tokens: None,
        input: None,
    };

    assert_eq!(condition.evaluate(&facts), Err(EvalError::Aborted));
}

#[track_caller]
fn check_static(text: &str, event: TestEvent, expected: &StaticResult) {
    let result = analyze(&compile(text), event);
    assert_eq!(&result, expected, "{text} on {event:?}");
}

#[test]
fn an_absent_variable_is_found_statically() {
    use TestEvent::{AfterModel, BeforeModel, BeforeTool};
    let absent = |path: &str| StaticResult::Absent(path.to_owned());
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
    use TestEvent::{AfterModel, BeforeModel, BeforeTool};
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
