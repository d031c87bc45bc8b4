//! The `explain` and `test` commands of the real binary, which run on a gateway of their own.

mod answer_forms;
mod explain;

use std::{fs, path::Path};

use insta::assert_snapshot;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::run;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

const HELLO: &str = "{ contents: [{ role: user, parts: [{ text: Hello }] }] }";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The exit code, stdout and stderr of `test` on a file with these cases.
fn test(cases: &str) -> (i32, String, String) {
    let folder = folder(&[("cases.yaml", cases)]);
    run(&["test", "cases.yaml"], folder.path())
}

#[test]
fn every_example_passes_its_cases() {
    let folder = Path::new(ROOT).join("config/examples/tests");
    let folders = [folder.clone(), folder.join("policies")];
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap());
    let files = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file());
    let mut files: Vec<String> = files.map(|path| path.display().to_string()).collect();
    files.sort();
    let arguments: Vec<&str> = ["test"]
        .into_iter()
        .chain(files.iter().map(String::as_str))
        .collect();

    let (code, stdout, stderr) = run(&arguments, &folder);

    assert_eq!(code, 0, "{stdout}\n{stderr}");
    assert!(files.len() >= 14, "{files:?}");
    assert!(
        stdout.lines().skip(1).all(|line| line.starts_with("ok ")),
        "{stdout}"
    );
}

#[test]
fn numbers_of_cases_are_as_they_are_written() {
    let cases = "\
policies: [{ policy: tool_guard, rules: [{ tool: pay, argument: /n, matches: '^[0-9]+$' }] }]
limits: { body: 1e6 }
cases:
  - name: a number with a decimal point
    event: { hook_event_name: BeforeTool, tool_name: pay, tool_input: { n: 1.0 } }
    expect: { verdict: deny }
  - name: an integer
    event: { hook_event_name: BeforeTool, tool_name: pay, tool_input: { n: 0x10 } }
    expect: { verdict: proceed }
";

    let (code, out, errors) = test(cases);

    assert_eq!(code, 0, "{out}\n{errors}");
}

#[test]
fn another_integer_fails_a_case_and_another_notation_does_not() {
    let cases = "\
hooks:
  BeforeTool:
    - hooks: [{ name: account, command: \"echo '{\\\"hookSpecificOutput\\\":{\\\"tool_input\\\":{\\\"to\\\":5555555555554445,\\\"amount\\\":1.50}}}'\" }]
cases:
  - name: the account
    event: { hook_event_name: BeforeTool, tool_name: pay, tool_input: {} }
    expect: { output: { hookSpecificOutput: { tool_input: { to: 5555555555554444, amount: 1.5 } } } }
";

    let (code, out, _) = test(cases);

    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("expected 5555555555554444, found 5555555555554445"),
        "{out}"
    );
    assert!(!out.contains("1.5"), "{out}");
}

#[test]
fn callers_with_tokens_authenticate_by_name() {
    let config = "upstreams: { gemini: { url: \"https://example.org\" } }
auth: { jwt: { issuer: i, audience: a, jwks: { file: missing.json }, models: [gemini-2.5-flash] } }
policies: [{ policy: prompt_guard, deny: [aurora], when: 'caller.name == \"jwt:alice\"' }]
";
    let request = "request: { contents: [{ role: user, parts: [{ text: aurora }] }] }";
    let cases = format!(
        "config: c.yaml
cases:
  - {{ name: condition, headers: {{ x-hookgate-key: \"jwt:alice\" }}, {request}, expect: {{ verdict: deny }} }}
  - {{ name: other caller, headers: {{ x-goog-api-key: \"jwt:bob\" }}, {request}, expect: {{ verdict: proceed }} }}
  - {{ name: model, path: \"/v1beta/models/m:generateContent\", headers: {{ x-hookgate-key: \"jwt:bob\" }}, {request}, expect: {{ verdict: deny }} }}
  - {{ name: event, headers: {{ x-hookgate-key: \"jwt:alice\" }}, event: {{ hook_event_name: BeforeAgent, prompt: aurora }}, expect: {{ verdict: deny }} }}
  - {{ name: event of another caller, headers: {{ x-hookgate-key: \"jwt:bob\" }}, event: {{ hook_event_name: BeforeAgent, prompt: aurora }}, expect: {{ verdict: proceed }} }}
  - {{ name: no caller, path: \"/v1beta/models/m:generateContent\", {request}, expect: {{ verdict: proceed }} }}
"
    );
    let action = json!({
        "path": "/v1beta/models/gemini-2.5-flash:generateContent?key=jwt:alice",
        "headers": {},
        "body": { "contents": [{ "role": "user", "parts": [{ "text": "aurora" }] }] },
    })
    .to_string();
    let files = [
        ("c.yaml", config),
        ("cases.yaml", &*cases),
        ("action.json", &*action),
    ];
    let folder = folder(&files);

    let (code, out, err) = run(&["test", "cases.yaml"], folder.path());
    let explain = ["explain", "--config", "c.yaml", "action.json"];
    let (_, explained, _) = run(&explain, folder.path());

    assert_eq!(code, 0, "{out}{err}");
    assert!(explained.contains("verdict: deny"), "{explained}");
}

#[test]
fn a_difference_from_the_expected_outcome_is_printed_and_fails() {
    let (code, stdout, stderr) = test(&format!(
        "\
hooks:
  BeforeModel:
    - hooks: [{{ name: no, command: \"echo no >&2; exit 2\" }}]
cases:
  - name: it is refused
    request: {HELLO}
    expect: {{ verdict: deny, reason: ^no$, upstream: null, hooks: [no], status: 200, text: no }}
  - name: it is not
    request: {HELLO}
    expect: {{ verdict: proceed, reason: why, model: gemini-2.5-flash, hooks: [yes], text: 'yes' }}
"
    ));

    assert_eq!(
        (code, stderr.as_str()),
        (1, "hookgate: 1 of 2 cases failed\n")
    );
    assert_snapshot!(stdout, @r#"
    1..2
    ok 1 - it is refused
    not ok 2 - it is not
      ---
      at: "cases.yaml:8:5"
      differs:
        - "verdict: expected proceed, found deny: no"
        - "reason: expected \"why\", found \"no\""
        - "hooks[0]: expected \"yes\", found \"no\""
        - "model: expected \"gemini-2.5-flash\", found no call"
        - "text: expected \"yes\", found \"no\""
      ...
    "#);
}

/// A streamed call of an API whose stream has these events, and whose expected verdict is an error.
fn stream_with_error(path: &str, request: &Value, events: &Value) -> Value {
    let expected = json!({ "verdict": "error", "reason": "overloaded" });
    json!({ "name": path, "path": path, "request": request, "answer": events, "expect": expected })
}

#[test]
fn an_error_in_a_stream_is_the_verdict() {
    let error = json!({ "message": "overloaded" });
    let content = json!({ "role": "model", "parts": [{ "text": "Hi." }] });
    let gemini = json!([{ "candidates": [{ "content": content }] }, { "error": error }]);
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [], "stop_reason": null, "usage": { "input_tokens": 1, "output_tokens": 1 } });
    let anthropic = json!([
        { "type": "message_start", "message": message },
        { "type": "error", "error": error },
    ]);
    let delta = json!({ "role": "assistant", "content": "Hi." });
    let chat = json!([
        { "id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{ "index": 0, "delta": delta }] },
        { "error": error },
    ]);
    let response = json!({ "id": "resp_1", "object": "response", "status": "in_progress", "model": "m", "output": [] });
    let created = json!({ "type": "response.created", "sequence_number": 0, "response": response });
    let mut failed =
        json!({ "type": "response.failed", "sequence_number": 1, "response": response });
    failed["response"]["status"] = json!("failed");
    failed["response"]["error"] = error;
    let event = json!({ "type": "error", "sequence_number": 1, "message": "overloaded" });
    let contents = json!({ "contents": [{ "role": "user", "parts": [{ "text": "Hello" }] }] });
    let mut messages = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "Hello" }] });
    let input = json!({ "model": "m", "stream": true, "input": "Hello" });
    let mut cases = vec![
        stream_with_error(
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            &contents,
            &gemini,
        ),
        stream_with_error("/v1/chat/completions", &messages, &chat),
        stream_with_error("/v1/responses", &input, &json!([created, failed])),
        stream_with_error("/v1/responses", &input, &json!([created, event])),
    ];
    messages["max_tokens"] = json!(9);
    cases.push(stream_with_error("/v1/messages", &messages, &anthropic));
    let url = json!({ "url": "https://example.org" });
    let upstreams = json!({ "gemini": url, "anthropic": url, "openai": url });

    let (code, stdout, stderr) =
        test(&json!({ "upstreams": upstreams, "cases": cases }).to_string());

    assert_eq!(code, 0, "{stdout}{stderr}");
}

#[test]
fn an_error_passes_a_case_only_if_it_is_expected() {
    let (code, stdout, _) = test(
        "\
cases:
  - name: a mistake in a case
    event: { hook_event_name: BeforeTol }
    expect: { output: {} }
  - name: an error that is expected
    path: /v1beta/models/gemini-2.5-flash:fly
    request: {}
    expect: { verdict: error, reason: unknown path, status: 403 }
",
    );

    assert_eq!(code, 1);
    assert!(stdout.contains("not ok 1"), "{stdout}");
    assert!(
        stdout.contains("expected no error, found error: `hook_event_name`"),
        "{stdout}"
    );
    assert!(stdout.contains("\nok 2"), "{stdout}");
}

#[test]
fn cases_do_not_share_session_state() {
    let (code, stdout, stderr) = test(
        "\
hooks:
  BeforeModel:
    - hooks: [{ name: once, command: \"grep -q halt && echo '{\\\"continue\\\":false}'; exit 0\" }]
cases:
  - name: the session is stopped
    headers: { x-hookgate-session: s1 }
    request: { contents: [{ role: user, parts: [{ text: halt }] }] }
    expect: { verdict: stop }
  - name: it is not stopped
    headers: { x-hookgate-session: s1 }
    request: { contents: [{ role: user, parts: [{ functionResponse: { name: a, response: {} } }] }] }
    expect: { verdict: proceed, text: The tool said so. }
    answer: { candidates: [{ content: { role: model, parts: [{ text: The tool said so. }] } }] }
",
    );

    assert_eq!(code, 0, "{stdout}{stderr}");
}

#[test]
fn errors_in_case_files_are_listed_with_positions() {
    let folder = folder(&[
        (
            "a.yaml",
            "\
config: missing.yaml
hooks: {}
cases:
  - name: both
    event: {}
    request: {}
    expect: { verdict: maybe, upstreem: null }
  - nam: nothing
  - { name: no act, expect: { verdict: deny } }
",
        ),
        (
            "b.yaml",
            "\
hooks:
  BeforeModle: []
cases:
  - { name: both, event: {}, request: {}, expect: { verdict: deny } }
  - { name: neither, expect: { verdict: deny } }
  - { name: empty, request: {}, expect: {} }
  - { name: mixed, event: {}, expect: { verdict: deny, upstream: null } }
  - { name: list, request: {}, answer: [], expect: { verdict: deny } }
  - { name: header, request: {}, headers: { x-a: b, x c: d }, expect: { verdict: deny } }
  - { name: space, request: {}, path: /v1beta/models/gemini pro:generateContent, expect: { verdict: deny } }
  - { name: count, request: {}, path: '/v1beta/models/m:countTokens', answer: { totalTokens: 3 }, expect: { verdict: deny } }
",
        ),
    ]);

    let (code, stdout, stderr) = run(&["test", "a.yaml", "b.yaml", "c.yaml"], folder.path());

    assert_eq!((code, stdout.as_str()), (78, ""));
    assert_snapshot!(stderr, @r"
    a.yaml:2:1: `hooks` must be in the config that `config` names
    a.yaml:7:24: `cases[0].expect.verdict` must be `proceed` or `ask` or `respond` or `deny` or `stop` or `error`, not `maybe`
    a.yaml:7:31: unknown key `cases[0].expect.upstreem`; did you mean `upstream`?
    a.yaml:8:5: `cases[1].name` is missing
    a.yaml:8:5: `cases[1].expect` is missing
    a.yaml:8:5: unknown key `cases[1].nam`; did you mean `name`?
    b.yaml:2:3: unknown event `BeforeModle`; did you mean `BeforeModel`?
    b.yaml:4:30: a case has an event or a request, not both
    b.yaml:5:5: a case needs an `event` or a `request`
    b.yaml:6:33: a case must expect something, such as a `verdict`
    b.yaml:7:56: only for model calls; this case has an event
    b.yaml:8:32: a list of chunks needs a `path` of `:streamGenerateContent`, or `stream: true` in the request of another API
    b.yaml:9:53: `x c` is not a valid header
    b.yaml:10:33: `path` must begin with `/`, and its special characters must be percent-encoded
    b.yaml:11:71: `answer`: no model answers on this path
    `c.yaml` cannot be read: No such file or directory (os error 2)
    ");
}

#[test]
fn a_missing_config_is_reported_with_the_position_of_its_name() {
    let (code, _, stderr) = test(&format!(
        "config: missing.yaml\ncases: [{{ name: a, request: {HELLO}, expect: {{ verdict: deny }} }}]\n"
    ));

    assert_eq!(code, 78, "{stderr}");
    let problem = "cases.yaml:1:9: `missing.yaml` cannot be read: ";
    assert!(stderr.starts_with(problem), "{stderr}");
}

#[test]
fn empty_lists_and_out_of_range_values_are_errors() {
    let folder = folder(&[
        (
            "a.yaml",
            "\
policies: [{ policy: model_allow, models: [] }]
cases:
  - { name: far, request: {}, expect: { status: 99999 } }
",
        ),
        ("b.yaml", "cases: []"),
    ]);

    let (code, _, stderr) = run(&["test", "a.yaml", "b.yaml"], folder.path());

    assert_eq!(code, 78);
    assert_snapshot!(stderr, @r"
    a.yaml:1:43: policy `model_allow`: `models` must be a list, but it is empty
    a.yaml:3:49: `cases[0].expect.status` must be an HTTP status, from 100 to 599, not `99999`
    b.yaml:1:8: `cases` must be a list of at least one case, but it is empty
    ");
}

#[test]
fn no_secret_is_needed_to_test_a_config() {
    let (code, stdout, stderr) = test(&format!(
        "\
upstreams: {{ gemini: {{ url: https://example.org, api_key: {{ env: HOOKGATE_NO_SUCH_KEY }} }} }}
hooks:
  BeforeModel:
    - hooks: [{{ type: http, name: far, url: 'http://127.0.0.1:9/x', bearer: {{ file: none }}, on_failure: closed }}]
cases:
  - {{ name: a guard that cannot be asked says no, request: {HELLO}, expect: {{ verdict: deny, reason: Hook far failed }} }}
"
    ));

    assert_eq!(code, 0, "{stdout}{stderr}");
}

#[test]
fn policies_on_answers_are_named_if_they_acted() {
    let answer = |part: &str| {
        format!(
            "{{ candidates: [{{ content: {{ role: model, parts: [{part}] }}, finishReason: STOP }}] }}"
        )
    };
    let (mail, plain) = (
        answer("{ text: Ask ann@example.com. }"),
        answer("{ text: Hi. }"),
    );
    let (call, then) = (
        answer("{ functionCall: { name: web_fetch, args: {} } }"),
        answer("{ text: Then not. }"),
    );

    let (code, stdout, stderr) = test(&format!(
        "\
hooks:
  AfterModel:
    - hooks:
        - {{ type: builtin, policy: redact, detect: [email], name: mask }}
        - {{ type: builtin, policy: tool_guard, deny: [web_fetch], name: tools }}
cases:
  - name: a policy that edited
    request: {HELLO}
    answer: {mail}
    expect: {{ verdict: proceed, hooks: [mask], text: 'Ask [REDACTED:email].' }}
  - name: a policy that denied a tool call
    request: {HELLO}
    answer: {call}
    then: {then}
    expect: {{ verdict: deny, reason: not allowed here, hooks: [tools], text: Then not. }}
  - name: policies without effect
    request: {HELLO}
    answer: {plain}
    expect: {{ verdict: proceed, hooks: [] }}
"
    ));

    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
}

#[test]
fn the_text_of_a_case_has_all_candidates() {
    let choice = |index: u8, text: &str| {
        format!(
            "{{ index: {index}, message: {{ role: assistant, content: {text} }}, finish_reason: stop }}"
        )
    };
    let candidate = |index: u8, text: &str| {
        format!(
            "{{ index: {index}, content: {{ role: model, parts: [{{ text: {text} }}] }}, finishReason: STOP }}"
        )
    };
    let [chat, gemini] = [&choice as &dyn Fn(u8, &str) -> String, &candidate]
        .map(|one| format!("[{}, {}]", one(0, "fine"), one(1, "ann@example.com")));

    let (code, stdout, stderr) = test(&format!(
        "\
cases:
  - name: chat
    api: openai_chat
    request: {{ model: m, n: 2, messages: [{{ role: user, content: a }}] }}
    answer: {{ id: c, object: chat.completion, model: m, created: 1, choices: {chat} }}
    expect: {{ text: \"fine\\n\\nann@example.com\" }}
  - name: gemini
    request: {HELLO}
    answer: {{ candidates: {gemini} }}
    expect: {{ text: \"fine\\n\\nann@example.com\" }}
"
    ));

    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
}

#[test]
fn a_config_is_tried_without_the_folders_that_only_the_gateway_writes() {
    let config = "upstreams: { gemini: { url: \"https://example.org\" } }
audit: { path: none/audit.jsonl }
revisions: { path: none/revisions }
record: { path: none/recordings }
sessions: { transcripts: none/transcripts }
policies: [{ policy: prompt_guard, deny: [aurora] }]
";
    let cases = "config: c.yaml
cases:
  - { name: denied, request: { contents: [{ role: user, parts: [{ text: aurora }] }] }, expect: { verdict: deny } }
";
    let event = r#"{ "hook_event_name": "BeforeAgent", "prompt": "aurora" }"#;
    let folder = folder(&[
        ("c.yaml", config),
        ("cases.yaml", cases),
        ("event.json", event),
    ]);

    let (tested, _, test_problems) = run(&["test", "cases.yaml"], folder.path());
    let explain = ["explain", "--config", "c.yaml", "event.json"];
    let (explained, _, explain_problems) = run(&explain, folder.path());
    let (checked, _, _) = run(&["check", "c.yaml"], folder.path());

    assert_eq!(tested, 0, "{test_problems}");
    assert_eq!(explained, 0, "{explain_problems}");
    assert_eq!(checked, 78);
}
