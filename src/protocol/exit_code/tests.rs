//! The table of hook protocol, section 3, row by row.

use serde_json::json;

use super::*;

const NO_REASON: &str = "Hook exited with code 2 without an error message";

fn exited(exit: ProcessExit, stdout: &str, stderr: &str) -> HookResult {
    let output = ProcessOutput {
        exit,
        stdout: stdout.into(),
        stderr: stderr.into(),
    };
    read(&output, EventName::BeforeTool)
}

#[track_caller]
fn check_ok(stdout: &str, expected: &HookOutput, diagnostics: &[DiagnosticCode]) {
    let result = exited(ProcessExit::Code(0), stdout, r#"{"decision":"deny"}"#);
    let codes: Vec<_> = result
        .diagnostics
        .iter()
        .map(|diagnostic| diagnostic.code)
        .collect();
    assert_eq!(result.status, HookStatus::Ok);
    assert_eq!(&result.output, expected);
    assert_eq!(codes, diagnostics);
}

#[track_caller]
fn check_refusal(stdout: &str, stderr: &str, reason: &str) {
    let result = exited(ProcessExit::Code(2), stdout, stderr);
    assert_eq!(result.status, HookStatus::Block);
    assert_eq!(result.output, HookOutput::denial(reason));
}

#[track_caller]
fn check_failure(exit: ProcessExit, stderr: &str, message: Option<&str>, cause: &str) {
    let result = exited(exit, r#"{"decision":"deny","reason":"R"}"#, stderr);
    assert_eq!(result.status, HookStatus::Failed);
    assert_eq!(
        result.output,
        message.map(HookOutput::message).unwrap_or_default()
    );
    assert_eq!(
        result.diagnostics,
        [DiagnosticCode::Failed.with(cause)],
        "the cause is part of the denial"
    );
}

#[test]
fn empty_stdout_is_no_decision_with_any_stderr() {
    check_ok("", &HookOutput::default(), &[]);
    check_ok(" \r\n\u{feff}", &HookOutput::default(), &[]);
}

#[test]
fn an_object_is_the_output() {
    let denial = HookOutput::denial("R");

    check_ok(r#"{"decision":"deny","reason":"R"}"#, &denial, &[]);
    check_ok(
        "\u{feff}{\"decision\":\"block\",\"reason\":\"R\"}\n",
        &denial,
        &[],
    );
    let twice = json!(r#"{"decision":"deny","reason":"R"}"#).to_string();
    check_ok(&twice, &denial, &[]);
}

#[test]
fn text_is_a_message_without_a_decision() {
    let plain = [DiagnosticCode::PlainText];

    check_ok("hello\n", &HookOutput::message("hello"), &plain);
    check_ok(r#""deny""#, &HookOutput::message(r#""deny""#), &plain);
    let log = "log\n{\"level\":\"info\"}\n{";
    check_ok(log, &HookOutput::message(log), &plain);
}

#[test]
fn an_output_in_a_text_has_a_diagnostic() {
    let both = [DiagnosticCode::PlainText, DiagnosticCode::ObjectInText];

    for text in [
        "log\n{\"decision\":\"deny\"}",
        "log\n{\n  \"continue\": false\n}\ndone",
        "log\n{\n{}\n{\"hookSpecificOutput\":{}} done",
    ] {
        check_ok(text, &HookOutput::message(text), &both);
    }
}

#[test]
fn json_other_than_an_object_is_ignored() {
    for stdout in ["[1,2]", "42", "true", "null", r#""42""#] {
        check_ok(
            stdout,
            &HookOutput::default(),
            &[DiagnosticCode::NonObjectJson],
        );
    }
}

#[test]
fn malformed_json_is_a_failure_without_output() {
    for stdout in ["{", "{}{}", "[1,", "{'decision': 'deny'}"] {
        let result = exited(ProcessExit::Code(0), stdout, "");

        assert_eq!(result.status, HookStatus::Failed);
        assert_eq!(result.output, HookOutput::default());
        let malformed = DiagnosticCode::MalformedOutput.with("output is malformed JSON");
        assert_eq!(result.diagnostics, [malformed]);
    }
}

#[test]
fn an_unknown_decision_counts_only_for_a_hook_that_fails_closed() {
    let mut result = exited(
        ProcessExit::Code(0),
        r#"{"decision":"dney","systemMessage":"S"}"#,
        "",
    );
    assert_eq!(result.status, HookStatus::Ok);
    assert_eq!(result.output, HookOutput::message("S"));
    assert_eq!(result.diagnostics[0].code, DiagnosticCode::UnknownDecision);

    result.fail_closed("guard", EventName::BeforeTool);

    let reason = "Hook guard failed: unknown decision; \
                  expected `allow`, `approve`, `deny`, `block` or `ask`";
    let denial = HookOutput {
        system_message: Some("S".to_owned()),
        ..HookOutput::denial(reason)
    };
    assert_eq!((result.status, result.output), (HookStatus::Failed, denial));
}

#[test]
fn exit_two_keeps_a_stop_in_an_ambiguous_output() {
    let stdout = r#"{"continue":false,"continue":false,"stopReason":"x"}"#;

    let result = exited(ProcessExit::Code(2), stdout, "");

    assert_eq!(result.status, HookStatus::Block);
    assert_eq!(result.output.stop().unwrap().as_str(), "x");
    assert_eq!(result.output.reason.as_deref(), Some(NO_REASON));
}

#[test]
fn exit_two_is_no_failure_whatever_the_output() {
    for stdout in ["[1]", "{", r#"{"decision":"dney"}"#] {
        let mut result = exited(ProcessExit::Code(2), stdout, "E");

        result.fail_closed("guard", EventName::BeforeTool);

        assert_eq!(result.status, HookStatus::Block);
        assert_eq!(result.output, HookOutput::denial("E"));
    }
}

#[test]
fn a_wrongly_typed_field_is_ignored_alone() {
    check_ok(
        r#"{"decision":"deny","reason":7,"continue":"false","systemMessage":"S"}"#,
        &HookOutput {
            decision: Some(Decision::Deny),
            ..HookOutput::message("S")
        },
        &[DiagnosticCode::WrongType, DiagnosticCode::WrongType],
    );
}

#[test]
fn exit_two_takes_its_reason_from_stderr_first() {
    check_refusal("", "no secrets\n", "no secrets");
    check_refusal("", r#"{"decision":"allow","reason":"J"}"#, "J");
    check_refusal("", r#"{"reason":7}"#, r#"{"reason":7}"#);
    check_refusal("{}", "E", "E");
    check_refusal(r#"{"decision":"allow","reason":"R"}"#, "E", "E");
    check_refusal("text", "E", "E");
}

#[test]
fn exit_two_without_stderr_takes_its_reason_from_stdout() {
    check_refusal(r#"{"reason":"R"}"#, " \n", "R");
    check_refusal("text\n", "", "text");
    check_refusal("[1]", "", "[1]");
}

#[test]
fn exit_two_without_output_has_a_default_reason() {
    check_refusal("", "", NO_REASON);
    check_refusal("{}", "", NO_REASON);
    check_refusal(r#"{"reason":" "}"#, "\n", NO_REASON);
    check_refusal("", r#"{"reason":""}"#, NO_REASON);
}

#[test]
fn nothing_on_stdout_revokes_exit_two_but_other_fields_count() {
    let stdout = json!({
        "decision": "allow",
        "continue": false,
        "stopReason": "T",
        "systemMessage": "S",
        "hookSpecificOutput": {"permissionDecision": "allow", "tool_input": {"a": 1}},
    });

    let result = exited(ProcessExit::Code(2), &stdout.to_string(), "E");

    assert_eq!(result.output.decision, Some(Decision::Deny));
    assert_eq!(result.output.reason.as_deref(), Some("E"));
    assert_eq!(result.output.r#continue, Some(false));
    assert_eq!(result.output.stop_reason.as_deref(), Some("T"));
    assert_eq!(result.output.system_message.as_deref(), Some("S"));
    assert_eq!(result.output.specific("tool_input"), Some(&json!({"a": 1})));
}

#[test]
fn every_other_exit_is_a_failure_that_may_warn() {
    let warning = Some("Warning: careful");

    check_failure(ProcessExit::Code(1), "careful\n", warning, "exit code 1");
    check_failure(ProcessExit::Code(3), "", None, "exit code 3");
    check_failure(
        ProcessExit::Code(126),
        "",
        None,
        "exit code 126 (not executable)",
    );
    check_failure(
        ProcessExit::Code(127),
        "careful",
        warning,
        "exit code 127 (not found)",
    );
    check_failure(ProcessExit::Signal(9), "", None, "terminated by signal 9");
    check_failure(
        ProcessExit::Signal(15),
        "careful",
        warning,
        "terminated by signal 15",
    );
}

#[test]
fn output_that_is_not_utf8_is_a_failure_that_keeps_a_refusal() {
    let read_bytes = |stdout: &[u8]| {
        let output = ProcessOutput {
            exit: ProcessExit::Code(0),
            stdout: stdout.to_vec(),
            stderr: vec![],
        };
        read(&output, EventName::BeforeTool)
    };

    let refusal = read_bytes(b"{\"decision\":\"deny\",\"reason\":\"a\xffb\"}");
    let text = read_bytes(b"a\xffb");

    assert_eq!(refusal.status, HookStatus::Failed);
    assert_eq!(refusal.output, HookOutput::denial("a\u{fffd}b"));
    assert_eq!(text.status, HookStatus::Failed);
    assert_eq!(text.output, HookOutput::default());
}
