//! Conditions: what holds, what is refused, and what can be foreseen.

use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::{
    CallerFacts, Condition, Facts, RequestFacts, SessionFacts, StaticResult, ToolFacts, Unclear,
};
use crate::event::EventName;

fn compile(text: &str) -> Condition {
    Condition::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[track_caller]
fn refused(text: &str) -> String {
    Condition::compile(text).unwrap_err().to_string()
}

fn tools() -> Vec<String> {
    vec!["read_file".to_owned(), "run_shell_command".to_owned()]
}

fn on_request(text: &str, max_output_tokens: Option<i64>) -> Result<bool, Unclear> {
    compile(text).holds(&Facts {
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

fn on_tool(text: &str, input: &Json) -> Result<bool, Unclear> {
    compile(text).holds(&Facts {
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
fn facts_of_a_model_call_can_be_asked_for() {
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
fn facts_of_a_tool_call_can_be_asked_for() {
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
fn what_cannot_be_said_is_no_no() {
    let input = json!({ "n": 3 });

    assert_eq!(on_tool("tool.input.x == 1", &input), Err(Unclear::Absent));
    assert_eq!(on_tool("tool.input.n[0] == 1", &input), Err(Unclear::Kind));
    assert_eq!(
        on_tool("tool.input.n.contains('x')", &input),
        Err(Unclear::Kind)
    );
    assert_eq!(
        on_tool("1 / (tool.input.n - 3) == 1", &input),
        Err(Unclear::Range)
    );
    assert_eq!(
        on_request("request.max_output_tokens > 5", None),
        Err(Unclear::Absent)
    );
    // Nobody needs to know what is absent if the rest decides.
    assert_eq!(
        on_tool("tool.name == 'x' && tool.input.x == 1", &input),
        Ok(false)
    );
}

#[test]
fn more_than_can_be_looked_through_is_too_large() {
    let long = json!({ "text": "x".repeat((1 << 20) + 1) });
    let many = json!({ "list": vec![1; 1001] });

    for input in [&long, &many] {
        let asked = on_tool("tool.input.size() == 1", input);
        let about_the_name = on_tool("tool.name.startsWith('run')", input);

        assert_eq!(asked, Err(Unclear::TooLarge));
        assert_eq!(about_the_name, Ok(true));
    }
}

#[test]
fn what_would_take_too_long_is_too_large() {
    let input = json!({ "text": "a".repeat(1_000_000), "list": vec![1; 900] });
    let lists = ["tool.input.list"; 50].join(" + ");

    for text in [
        "tool.input.text.matches('a{1,9000}x')".to_owned(),
        "tool.input.list.exists(it, tool.input.text.contains('b'))".to_owned(),
        "tool.input.list.exists(it, tool.input.text.matches('b'))".to_owned(),
        format!("tool.input.list.exists(it, size({lists}) == it)"),
    ] {
        assert_eq!(on_tool(&text, &input), Err(Unclear::TooLarge), "{text}");
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
fn a_question_that_breaks_off_is_no_no() {
    let mut condition = compile("false");
    condition.expression = std::sync::Arc::new(cel::IdedExpr::default());
    let facts = Facts {
        event: EventName::SessionEnd,
        request: None,
        tool: None,
        prompt: None,
        session: SessionFacts::default(),
        caller: CallerFacts::default(),
    };

    assert_eq!(condition.holds(&facts), Err(Unclear::Broken));
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, expected) in MISTAKES {
        assert_eq!(refused(text), *expected, "{text}");
    }
}

#[test]
fn what_takes_too_long_to_read_is_no_condition() {
    let long = format!("'{}' == event", "x".repeat(1000));
    let deep = format!("{}true", "(".repeat(500));

    assert!(refused(&long).contains("at most 1000 bytes"));
    assert!(refused(&deep).contains("nests too deep"));
}

const MISTAKES: &[(&str, &str)] = &[
    (
        "request.modle == 'x'",
        "unknown field of `request` `modle`; did you mean `model`? (at character 8)",
    ),
    (
        "requst.model == 'x'",
        "unknown variable `requst`; did you mean `request`? (at character 1)",
    ),
    (
        "request.stream && tol.name == 'x'",
        "unknown variable `tol`; did you mean `tool`? (at character 19)",
    ),
    (
        "request.bytes > 'x'",
        "`>` takes a number and a number, or text and text; here are a number and text (at character 15)",
    ),
    (
        "request.stream && request.model > 5",
        "`>` takes a number and a number, or text and text; here are text and a number (at character 33)",
    ),
    (
        "request.model == 5",
        "text is never equal to a number (at character 15)",
    ),
    (
        "request.model",
        "a condition must be true or false, not text (at character 8)",
    ),
    (
        "request.model.startswith('x')",
        "unknown function `startswith`; did you mean `startsWith`? (at character 25)",
    ),
    (
        "request.model.contains(5)",
        "what `contains` is given must be text, not a number (at character 24)",
    ),
    (
        "request.model.matches('(')",
        "no regular expression: unclosed group (at character 23)",
    ),
    (
        "request.model.matches(session.id)",
        "the pattern of `matches` must be written out (at character 30)",
    ),
    (
        "'x' in request.model",
        "`in` looks into lists; of text ask `.contains(…)` (at character 5)",
    ),
    (
        "5 in request.tools",
        "a number is never in a list whose elements are text (at character 3)",
    ),
    (
        "request == 5",
        "`request` is several facts; name one, such as `request.model` (at character 1)",
    ),
    (
        "request['model'] == 'x'",
        "`request` is several facts; name one, such as `request.model` (at character 1)",
    ),
    (
        "request.model.x == 1",
        "`.x` asks for a field of text (at character 14)",
    ),
    (
        "request.tools.exists(it, it > 5)",
        "`>` takes a number and a number, or text and text; here are text and a number (at character 29)",
    ),
    (
        "request.tools.exists(a, request.tools.exists(b, a == b))",
        "a loop inside a loop can only go over a list that is written out (at character 45)",
    ),
    (
        "request.tools.map(it, it + it) == []",
        "there is no `map` here; `exists`, `all` and `filter` do (at character 18)",
    ),
    (
        "request.tools.exists(event, event == 'x')",
        "`event` is a variable already (at character 21)",
    ),
    (
        "request.stream &&",
        "it ends where more is expected (at character 18)",
    ),
    (
        "request.stream && (request.bytes > 5",
        "missing ')' at '<EOF>' (at character 37)",
    ),
    (
        "request.stream and true",
        "`and` is not expected here (at character 16)",
    ),
    (
        "not request.stream",
        "`request` is not expected here (at character 5)",
    ),
    (
        "request.stream ? true",
        "it ends where more is expected (at character 1)",
    ),
    (
        "request.model = 'x'",
        "`=` is not expected here (at character 15)",
    ),
    (
        "\n  request.model == ''' \n",
        "`'` is not expected here (at character 23)",
    ),
    ("", "it ends where more is expected (at character 1)"),
    (
        "Some{a: 1} == 5",
        "a condition cannot write out a mapping (at character 5)",
    ),
    (
        "{'a': 1}.a == 5",
        "a condition cannot write out a mapping (at character 1)",
    ),
    (
        "b'x' == 'x'",
        "nothing here is bytes; write text (at character 1)",
    ),
    (
        "now() == 5",
        "unknown function `now`; there are contains, startsWith, endsWith, matches, size, int, double, string, has, exists, exists_one, all, filter (at character 4)",
    ),
    (
        "request.?model == 5",
        "unsupported syntax '.?' (at character 8)",
    ),
    (
        "-request.model == 5",
        "there is no `-` of text (at character 1)",
    ),
    (
        "request.stream ? 'a' : 'b'",
        "a condition must be true or false, not text (at character 16)",
    ),
    (
        "request.bytes + 2.5 > 3.0",
        "`+` takes a number and a number, or a decimal number and a decimal number, or text and text, or a list and a list; here are a number and a decimal number (at character 15)",
    ),
    (
        "request.tools[1.5] == 'a'",
        "the place in a list must be a number, not a decimal number (at character 15)",
    ),
];

#[track_caller]
fn foresee(text: &str, event: EventName, expected: &StaticResult) {
    let foreseen = compile(text).prospect(event);
    assert_eq!(&foreseen, expected, "{text} on {event}");
}

#[test]
fn what_an_event_has_not_is_foreseen() {
    use EventName::{AfterModel, BeforeModel, BeforeTool};
    let absent = |it: &str| StaticResult::Absent(it.to_owned());
    let model = absent("request.model");
    let guarded = "has(request.model) && request.model == 'x'";
    let inside = "(has(request.model) ? request.model : 'y') == 'x'";

    foresee("request.model == 'x'", BeforeModel, &StaticResult::Depends);
    foresee("request.model == 'x'", AfterModel, &StaticResult::Depends);
    foresee("request.model == 'x'", BeforeTool, &model);
    foresee("!(request.model == 'x')", BeforeTool, &model);
    foresee(
        "session.named && prompt == 'x'",
        BeforeTool,
        &absent("prompt"),
    );
    foresee(
        "session.named || prompt == 'x'",
        BeforeTool,
        &absent("prompt"),
    );
    foresee(guarded, BeforeTool, &StaticResult::Never);
    foresee(guarded, BeforeModel, &StaticResult::Depends);
    foresee(inside, BeforeTool, &StaticResult::Depends);
    let optional = "has(request.max_output_tokens)";
    foresee(optional, BeforeModel, &StaticResult::Depends);
    foresee("has(tool.input.x)", BeforeTool, &StaticResult::Depends);
}

#[test]
fn what_depends_on_nothing_but_the_event_is_foreseen() {
    use EventName::{AfterModel, BeforeModel, BeforeTool};
    let (always, never) = (StaticResult::Always, StaticResult::Never);
    let scoped = "event == 'BeforeTool' && tool.name == 'x'";
    let either = "event in ['BeforeModel', 'AfterModel']";

    foresee(scoped, BeforeTool, &StaticResult::Depends);
    foresee(scoped, BeforeModel, &never);
    foresee(either, AfterModel, &always);
    foresee(either, BeforeTool, &never);
    foresee("event.startsWith('Before')", AfterModel, &never);
    foresee("event != 'x' || tool.name == 'x'", AfterModel, &always);
    foresee("false", BeforeModel, &never);
    foresee("['a'].exists(it, it == 'b')", BeforeModel, &never);
}

/// Words that expressions are made of, and some that they are not.
fn words() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "request",
        ".",
        "model",
        "bytes",
        "tools",
        "tool",
        "input",
        "event",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "&&",
        "||",
        "!",
        "==",
        ">",
        "+",
        "-",
        "*",
        "/",
        "%",
        "?",
        ":",
        ",",
        "in",
        "has",
        "exists",
        "filter",
        "map",
        "matches",
        "contains",
        "size",
        "int",
        "it",
        "1",
        "0",
        "2.5",
        "\"a\"",
        "'(",
        "true",
        "null",
        "9223372036854775807",
        "\u{e9}",
        "\n",
        "`",
        "b'x'",
        "@",
    ];
    let word = prop::sample::select(WORDS).prop_map(str::to_owned);
    let any = "\\PC{0,3}".prop_map(String::from);
    prop::collection::vec(prop_oneof![9 => word, 1 => any], 0..24).prop_map(|it| it.join(" "))
}

/// Expressions that mostly make sense.
fn expressions() -> impl Strategy<Value = String> {
    const NUMBERS: &[&str] = &[
        "request.bytes",
        "request.contents",
        "5",
        "2.5",
        "size(request.tools)",
    ];
    const TEXTS: &[&str] = &[
        "request.model",
        "event",
        "session.id",
        "'x'",
        "string(request.bytes)",
    ];
    let number = prop::sample::select(NUMBERS).prop_map(str::to_owned);
    let text = prop::sample::select(TEXTS).prop_map(str::to_owned);
    let part = prop_oneof![
        number.clone(),
        text.clone(),
        Just("request.stream".to_owned()),
        Just("request.tools".to_owned()),
    ];
    let atom = prop_oneof![
        (
            part.clone(),
            prop::sample::select(vec!["==", "!=", "<", ">=", "in"]),
            part.clone()
        )
            .prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        (
            number.clone(),
            prop::sample::select(vec!["+", "-", "*", "/"]),
            number
        )
            .prop_map(|(a, op, b)| format!("{a} {op} {b} > 3")),
        (part.clone(), text).prop_map(|(a, b)| format!("{a}.contains({b})")),
        part.prop_map(|it| format!("request.tools.exists(x, x == {it})")),
        Just("has(request.max_output_tokens)".to_owned()),
    ];
    atom.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} && {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
            inner.prop_map(|it| format!("!({it})")),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in words()) {
        if let Ok(condition) = Condition::compile(&text) {
            let _said = on_tool(&condition.to_string(), &json!({ "it": [1, "a"] }));
            for event in EventName::ALL {
                condition.prospect(*event);
            }
        }
    }

    #[test]
    fn what_compiles_never_mistakes_a_kind(text in expressions()) {
        if Condition::compile(&text).is_ok() {
            prop_assert_ne!(on_request(&text, Some(5)), Err(Unclear::Kind), "{}", text);
        }
    }
}
