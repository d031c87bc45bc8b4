//! `explain` and `test`: the real binary, which rehearses on a gateway of its own.

use std::{fs, path::Path, process::Stdio};

use insta::assert_snapshot;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{hookgate, run};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

const HELLO: &str = "{ contents: [{ role: user, parts: [{ text: Hello }] }] }";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// What `test` says to one file of cases.
fn test(cases: &str) -> (i32, String, String) {
    let folder = folder(&[("cases.yaml", cases)]);
    run(&["test", "cases.yaml"], folder.path())
}

/// What `explain` says, milliseconds aside.
fn explain(folder: &TempDir, arguments: &[&str]) -> String {
    let arguments = [&["explain", "--config", "hookgate.yaml"], arguments].concat();
    let (code, stdout, stderr) = run(&arguments, folder.path());
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let words = stdout.split(' ').collect::<Vec<_>>();
    let word = |(index, word): (usize, &&str)| match words.get(index + 1) {
        Some(unit) if unit.starts_with("ms,") && word.parse::<u64>().is_ok() => "N".to_owned(),
        _ => (*word).to_owned(),
    };
    let words = words.iter().enumerate().map(word).collect::<Vec<_>>();
    words.join(" ")
}

#[test]
fn every_example_does_what_its_cases_say() {
    let folder = Path::new(ROOT).join("config/examples/tests");
    let folders = [folder.clone(), folder.join("policies")];
    let files = folders.iter().flat_map(|it| fs::read_dir(it).unwrap());
    let files = files.map(|it| it.unwrap().path()).filter(|it| it.is_file());
    let mut files: Vec<String> = files.map(|it| it.display().to_string()).collect();
    files.sort();
    let arguments: Vec<&str> = ["test"]
        .into_iter()
        .chain(files.iter().map(String::as_str))
        .collect();

    let (code, stdout, stderr) = run(&arguments, &folder);

    assert_eq!(code, 0, "{stdout}\n{stderr}");
    assert!(files.len() >= 14, "{files:?}");
    assert!(
        stdout.lines().skip(1).all(|it| it.starts_with("ok ")),
        "{stdout}"
    );
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

#[test]
fn an_error_is_no_yes() {
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
fn nothing_is_remembered_from_one_case_to_the_next() {
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
fn mistakes_in_files_of_cases_are_listed_with_their_places() {
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
    `c.yaml` cannot be read: No such file or directory (os error 2)
    ");
}

#[test]
fn what_is_empty_or_out_of_range_is_said_to_be() {
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

fn explained() -> TempDir {
    let config = "\
upstreams: { gemini: { url: https://example.org } }
policies:
  - { policy: model_swap, swap: { gemini-2.5-pro: gemini-2.5-flash } }
hooks:
  BeforeModel:
    - hooks:
        - name: cold
          prewarm: 1
          command: |
            touch ran; echo '{\"hookSpecificOutput\":{\"llm_request\":{\"config\":{\"temperature\":0}}}}'
        - { name: looks, command: \"exit 2\", mode: observe }
  BeforeTool:
    - sequential: true
      hooks:
        - { name: guard, command: \"echo 'not this' >&2; exit 2\" }
        - { name: broken, command: \"exit 5\" }
    - matcher: ^write_file$
      hooks: [{ name: other, command: cat }]
";
    let call = json!({
        "path": "/v1beta/models/gemini-2.5-pro:generateContent",
        "body": { "contents": [{ "role": "user", "parts": [{ "text": "Hello" }] }] },
        "answer": { "candidates": [{ "content": { "role": "model", "parts": [{ "text": "Hi" }] } }] },
    });
    let event = json!({
        "hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": {},
    });
    folder(&[
        ("hookgate.yaml", config),
        ("call.json", &call.to_string()),
        ("event.json", &event.to_string()),
    ])
}

#[test]
fn a_model_call_is_explained() {
    let folder = explained();

    let told = explain(&folder, &["call.json"]);

    assert!(folder.path().join("ran").exists());
    assert_snapshot!(told, @r#"
    BeforeModel, hooks in parallel:
      1. model_swap (builtin, hookgate.yaml:3), ok, N ms, edits the request
      2. cold (command, hookgate.yaml:7), ok, N ms, output {"hookSpecificOutput":{"llm_request":{"config":{"temperature":0}}}}
      3. looks (command, hookgate.yaml:11), block, N ms, only observes, would deny, output {"decision":"deny","reason":"Hook exited with code 2 without an error message"}
      result: proceed
    BeforeModel (2):
      1. model_swap (builtin, hookgate.yaml:3), ok, N ms, no output
      result: proceed
    upstream: /v1beta/models/gemini-2.5-flash:generateContent
      generationConfig: nothing → {"temperature":0}
    agent: 200 Hi
    verdict: proceed
    "#);
}

#[test]
fn an_event_is_explained() {
    let told = explain(&explained(), &["event.json"]);

    assert_snapshot!(told, @r#"
    BeforeTool, hooks one after the other:
      1. guard (command, hookgate.yaml:15), block, N ms, output {"decision":"deny","reason":"not this"}
      2. broken (command, hookgate.yaml:16), failed, N ms, no output
         failed: exit code 5
      not asked: other (hookgate.yaml:18), because its matcher does not match
      result: deny: not this
    answer: 200 {"decision":"deny","reason":"not this"}
    verdict: deny: not this
    "#);
}

#[test]
fn a_dry_run_starts_no_hook() {
    let folder = explained();

    let call = explain(&folder, &["--dry-run", "call.json"]);
    let event = explain(&folder, &["--dry-run", "event.json"]);

    assert!(!folder.path().join("ran").exists());
    assert_snapshot!(format!("{call}{event}"), @r"
    BeforeModel, hooks in parallel:
      1. model_swap (builtin, hookgate.yaml:3)
      2. cold (command, hookgate.yaml:7)
      3. looks (command, hookgate.yaml:11)
    BeforeTool, hooks one after the other:
      1. guard (command, hookgate.yaml:15)
      2. broken (command, hookgate.yaml:16)
      not asked: other (hookgate.yaml:18), because its matcher does not match
    ");
}

#[test]
fn programs_get_the_result_as_json() {
    let folder = explained();
    let mut command = hookgate(&[
        "explain",
        "--config",
        "hookgate.yaml",
        "--json",
        "--model",
        "m-1",
        "-",
    ]);
    let mut child = command
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let request = json!({ "contents": [{ "role": "user", "parts": [{ "text": "Hello" }] }] });
    serde_json::to_writer(child.stdin.take().unwrap(), &request).unwrap();

    let output = child.wait_with_output().unwrap();

    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["verdict"], "proceed");
    assert_eq!(told["events"][0]["event"], "BeforeModel");
    assert_eq!(told["events"][0]["hooks"][1]["name"], "cold");
    assert_eq!(told["events"][0]["hooks"][2]["would"], "deny");
    assert_eq!(
        told["upstream"][0]["path"],
        "/v1beta/models/m-1:generateContent"
    );
    assert_eq!(
        told["upstream"][0]["body"]["generationConfig"]["temperature"],
        0
    );
    assert_eq!(told["status"], 200);
    let asked = &told["record"]["detail"]["events"][0]["rules"][1];
    assert_eq!(
        (&asked["name"], &asked["at"]["line"]),
        (&json!("cold"), &json!(7))
    );
}

#[test]
fn what_is_neither_event_nor_request_is_said() {
    let folder = folder(&[
        (
            "hookgate.yaml",
            "upstreams: { gemini: { url: https://example.org } }\n",
        ),
        ("list.json", "[]"),
        ("wrapped.json", r#"{"body": {}, "hedaers": {}}"#),
        ("path.json", r#"{"body": {}, "path": "v1beta"}"#),
        ("header.json", r#"{"body": {}, "headers": {"a b": ""}}"#),
        ("event.json", r#"{"hook_event_name": "BeforeTol"}"#),
    ]);
    let explain = |file| {
        run(
            &["explain", "--config", "hookgate.yaml", file],
            folder.path(),
        )
    };

    let (code, _, stderr) = explain("list.json");
    assert_eq!(code, 1);
    assert!(stderr.contains("`list.json`: invalid type"), "{stderr}");
    let (code, _, stderr) = explain("wrapped.json");
    assert_eq!(code, 1);
    assert!(stderr.contains("unknown field `hedaers`"), "{stderr}");
    let (code, _, stderr) = explain("path.json");
    assert_eq!(code, 1);
    assert!(stderr.contains("`path` must begin with `/`"), "{stderr}");
    let (code, _, stderr) = explain("header.json");
    assert_eq!(code, 1);
    assert!(stderr.contains("`a b` cannot be sent"), "{stderr}");
    let (code, stdout, _) = explain("event.json");
    assert_eq!(code, 0);
    assert!(stdout.starts_with("answer: 400 "), "{stdout}");
    let (code, _, stderr) = explain("none.json");
    assert_eq!(code, 1);
    assert!(stderr.contains("`none.json`"), "{stderr}");
}
