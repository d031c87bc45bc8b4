//! Conditions that do not compile, and their messages.

use super::*;

#[test]
fn a_compile_error_is_reported_with_its_position() {
    for (text, expected) in COMPILE_ERRORS {
        assert_eq!(compile_error(text), *expected, "{text}");
    }
}

#[test]
fn a_long_or_deeply_nested_condition_is_rejected() {
    let long = format!("'{}' == event", "x".repeat(1000));
    let deep = format!("{}true", "(".repeat(500));

    assert!(compile_error(&long).contains("at most 1000 bytes"));
    assert!(compile_error(&deep).contains("nested too deeply"));
}

const COMPILE_ERRORS: &[(&str, &str)] = &[
    (
        "request.modle == 'x'",
        "unknown field `modle` of `request`; did you mean `model`? (at character 8)",
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
        "`>` takes two operands of type int, or two of type string, not int and string (at character 15)",
    ),
    (
        "request.stream && request.model > 5",
        "`>` takes two operands of type int, or two of type string, not string and int (at character 33)",
    ),
    (
        "request.model == 5",
        "values of types string and int are never equal (at character 15)",
    ),
    (
        "request.model",
        "a condition must be of type bool, not string (at character 8)",
    ),
    (
        "request.model.startswith('x')",
        "unknown function `startswith`; did you mean `startsWith`? (at character 25)",
    ),
    (
        "request.model.contains(5)",
        "the argument of `contains` must be of type string, not int (at character 24)",
    ),
    (
        "request.model.matches('(')",
        "invalid regular expression: unclosed group (at character 23)",
    ),
    (
        "request.model.matches(session.id)",
        "the pattern of `matches` must be a string literal (at character 30)",
    ),
    (
        "'x' in request.model",
        "`in` requires a list; for a string use `.contains(…)` (at character 5)",
    ),
    (
        "5 in request.tools",
        "a value of type int is never in a list of string (at character 3)",
    ),
    (
        "request == 5",
        "`request` is an object; use one of its fields, such as `request.model` (at character 1)",
    ),
    (
        "request['model'] == 'x'",
        "`request` is an object; use one of its fields, such as `request.model` (at character 1)",
    ),
    (
        "request.model.x == 1",
        "a value of type string has no field `x` (at character 14)",
    ),
    (
        "request.tools.exists(it, it > 5)",
        "`>` takes two operands of type int, or two of type string, not string and int (at character 29)",
    ),
    (
        "request.tools.exists(a, request.tools.exists(b, a == b))",
        "a nested comprehension can only iterate over a list literal (at character 45)",
    ),
    (
        "request.tools.map(it, it + it) == []",
        "`map` is not supported; use `exists`, `all` or `filter` (at character 18)",
    ),
    (
        "request.tools.exists(event, event == 'x')",
        "`event` is already a variable (at character 21)",
    ),
    (
        "request.stream &&",
        "unexpected end of the expression (at character 18)",
    ),
    (
        "request.stream && (request.bytes > 5",
        "missing ')' at '<EOF>' (at character 37)",
    ),
    (
        "request.stream and true",
        "unexpected `and` (at character 16)",
    ),
    (
        "not request.stream",
        "unexpected `request` (at character 5)",
    ),
    (
        "request.stream ? true",
        "unexpected end of the expression (at character 1)",
    ),
    ("request.model = 'x'", "unexpected `=` (at character 15)"),
    (
        "\n  request.model == ''' \n",
        "unexpected `'` (at character 23)",
    ),
    ("", "unexpected end of the expression (at character 1)"),
    (
        "Some{a: 1} == 5",
        "map and message literals are not supported (at character 5)",
    ),
    (
        "{'a': 1}.a == 5",
        "map and message literals are not supported (at character 1)",
    ),
    (
        "b'x' == 'x'",
        "bytes literals are not supported; use a string (at character 1)",
    ),
    (
        "now() == 5",
        "unknown function `now`; expected one of contains, startsWith, endsWith, matches, size, int, double, string, has, exists, exists_one, all, filter (at character 4)",
    ),
    (
        "request.?model == 5",
        "unsupported syntax '.?' (at character 8)",
    ),
    (
        "-request.model == 5",
        "`-` cannot be applied to string (at character 1)",
    ),
    (
        "request.stream ? 'a' : 'b'",
        "a condition must be of type bool, not string (at character 16)",
    ),
    (
        "request.bytes + 2.5 > 3.0",
        "`+` takes two operands of type int, or two of type double, or two of type string, or two of type list, not int and double (at character 15)",
    ),
    (
        "request.tools[1.5] == 'a'",
        "the index of a list must be of type int, not double (at character 15)",
    ),
];
