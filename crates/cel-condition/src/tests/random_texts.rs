//! Random conditions: none causes a panic.

use super::*;

/// Random sequences of tokens, valid and invalid.
fn token_sequences() -> impl Strategy<Value = String> {
    const TOKENS: &[&str] = &[
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
    let token = prop::sample::select(TOKENS).prop_map(str::to_owned);
    let any = "\\PC{0,3}".prop_map(String::from);
    prop::collection::vec(prop_oneof![9 => token, 1 => any], 0..24)
        .prop_map(|tokens| tokens.join(" "))
}

/// Expressions most of which compile.
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
        part.prop_map(|part| format!("request.tools.exists(x, x == {part})")),
        Just("has(request.max_output_tokens)".to_owned()),
    ];
    atom.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} && {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
            inner.prop_map(|inner| format!("!({inner})")),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in token_sequences()) {
        if let Ok(condition) = Condition::compile(&text, VARIABLES) {
            let _result = on_tool(&condition.to_string(), &json!({ "it": [1, "a"] }));
            for event in [TestEvent::BeforeModel, TestEvent::BeforeTool] {
                analyze(&condition, event);
            }
        }
    }

    #[test]
    fn a_compiled_condition_has_no_type_error(text in expressions()) {
        if Condition::compile(&text, VARIABLES).is_ok() {
            prop_assert_ne!(on_request(&text, Some(5)), Err(EvalError::Type), "{}", text);
        }
    }
}
