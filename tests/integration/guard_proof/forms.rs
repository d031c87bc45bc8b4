//! Forms of proof cases, and the outcomes that count as denied, allowed and masked.

use std::{fs, path::Path};

use tempfile::TempDir;

use crate::harness::run;

/// Runs `check --prove` on a config with these files. Returns the exit code and the problems.
fn prove(config: &str, files: &[(&str, &str)]) -> (i32, Vec<String>) {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let config = format!("upstreams: {{ gemini: {{ url: \"https://example.org\" }} }}\n{config}");
    fs::write(folder.path().join("c.yaml"), config).unwrap();
    let (code, stdout, stderr) = run(&["check", "--prove", "c.yaml"], folder.path());
    let is_problem = |line: &&str| {
        !line.starts_with("warning: ") && !line.starts_with("note: ") && !line.is_empty()
    };
    let problems = stderr.lines().filter(is_problem).map(str::to_owned);
    let problems: Vec<String> = problems.collect();
    assert_eq!(code == 0, problems.is_empty(), "{stdout}\n{stderr}");
    (code, problems)
}

/// Checks that every guard of a config is proven.
#[track_caller]
pub fn assert_proven(config: &str, files: &[(&str, &str)]) {
    assert_eq!(prove(config, files), (0, Vec::new()), "{config}");
}

/// Checks that the only problem of a config contains a text.
#[track_caller]
pub fn assert_problem(config: &str, problem: &str) {
    let (code, problems) = prove(config, &[]);
    assert_eq!(code, 78, "{config}");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains(problem), "{problems:?}");
}

#[test]
fn policies_can_be_proven_by_every_form_of_case() {
    assert_proven(
        "\
policies:
  - { policy: model_allow, models: [gemini-2.5-*], must_deny: [{ model: other }], must_allow: [{ model: gemini-2.5-pro }] }
  - policy: tool_guard
    deny: [run_*]
    rules: [{ tool: write_file, argument: /file_path, within: [/repo] }]
    must_deny:
      - { tool_call: { name: run_x } }
      - { tool_call: { name: write_file, args: { file_path: /etc/passwd } } }
      - { event: { hook_event_name: BeforeTool, tool_name: run_x, tool_input: {} } }
      - { answer: { candidates: [{ content: { role: model, parts: [{ functionCall: { name: run_x, args: {} } }] } }] } }
    must_allow:
      - { tool_call: { name: write_file, args: { file_path: /repo/a } } }
  - policy: prompt_guard
    deny: [(?i)aurora]
    must_deny:
      - { prompt: About Aurora }
      - { name: in the history, request: { contents: [{ role: user, parts: [{ text: aurora }] }] } }
      - { path: /v1beta/models/gemini-2.5-pro:countTokens, request: { contents: [{ role: user, parts: [{ text: aurora }] }] } }
    must_allow: [{ prompt: hello }]
  - policy: redact
    detect: [email]
    must_mask:
      - { prompt: 'To ann@example.com', secret: ann@example.com }
      - { answer: 'Ask ann@example.com', secret: ann@example.com }
      - { tool_call: { name: mail, args: { to: ann@example.com } }, secret: ann@example.com }
      - { tool_result: { name: read_file, result: ann@example.com }, secret: ann@example.com }
      - { tool_result: { name: read_file, args: { a: 1 }, result: { text: [ann@example.com] } } }
      - { event: { hook_event_name: AfterTool, tool_name: x, tool_input: {}, tool_response: { llmContent: ann@example.com } }, secret: ann@example.com }
      - path: /v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse
        request: { contents: [] }
        answer:
          - { candidates: [{ content: { role: model, parts: [{ text: 'Ask ann@exam' }] }, index: 0 }] }
          - { candidates: [{ content: { role: model, parts: [{ text: 'ple.com' }] }, index: 0, finishReason: STOP }] }
        secret: ann@example.com
    must_allow: [{ prompt: 'To ann@example.com' }]
  - policy: redact
    name: deny-keys
    detect: [aws_key]
    action: deny
    must_deny: [{ prompt: AKIAIOSFODNN7EXAMPLE }, { tool_result: { name: x, result: AKIAIOSFODNN7EXAMPLE } }]
",
        &[],
    );
}

#[test]
fn hooks_can_be_proven_by_every_form_of_case() {
    let hook = "\
input=$(cat)
case $input in
  *AfterModel*ann@*) echo '{\"hookSpecificOutput\":{\"llm_response\":{\"text\":\"Ask [EMAIL]\"}}}';;
  *BeforeModel*ann@*) echo '{\"hookSpecificOutput\":{\"llm_request\":{\"messages\":[{\"role\":\"user\",\"content\":\"To [EMAIL]\"}]}}}';;
  *BeforeTool*ann@*) echo '{\"hookSpecificOutput\":{\"tool_input\":{\"to\":\"[EMAIL]\"}}}';;
  *AfterTool*ann@*) echo '{\"decision\":\"deny\",\"reason\":\"[EMAIL]\"}';;
  *aurora*) echo no >&2; exit 2;;
  *stop*) echo '{\"continue\":false}';;
esac
";
    let deny = "must_deny: [{ prompt: aurora }, { prompt: stop }], must_allow: [{ prompt: hello }]";
    let secret = "secret: ann@example.com";
    let config = format!(
        "\
hooks:
  BeforeAgent: [{{ hooks: [{{ command: bash hook.sh, {deny} }}] }}]
  BeforeModel: [{{ hooks: [{{ command: bash hook.sh, {deny}, must_mask: [{{ prompt: 'To ann@example.com', {secret} }}] }}] }}]
  AfterModel: [{{ hooks: [{{ command: bash hook.sh, must_deny: [{{ answer: aurora }}], must_mask: [{{ answer: 'Ask ann@example.com', {secret} }}] }}] }}]
  BeforeTool: [{{ hooks: [{{ command: bash hook.sh, must_deny: [{{ tool_call: {{ name: x, args: {{ a: aurora }} }} }}], must_mask: [{{ tool_call: {{ name: mail, args: {{ to: ann@example.com }} }}, {secret} }}] }}] }}]
  AfterTool: [{{ hooks: [{{ command: bash hook.sh, must_deny: [{{ tool_result: {{ name: x, result: aurora }} }}], must_mask: [{{ tool_result: {{ name: x, result: ann@example.com }}, {secret} }}] }}] }}]
  AfterAgent: [{{ hooks: [{{ command: bash hook.sh, must_deny: [{{ answer: aurora }}] }}] }}]
"
    );

    assert_proven(&config, &[("hook.sh", hook)]);
    let underived = format!("{config}events: {{ derive: [] }}\nafter_model: buffered\n");
    assert_proven(&underived, &[("hook.sh", hook)]);
}

#[test]
fn proofs_use_the_input_settings_and_the_condition_of_a_hook() {
    let hook = |fields: &str, search: &str, case: &str| {
        format!(
            "hooks: {{ BeforeModel: [{{ hooks: [{{ name: x, command: \"if grep -q {search}; then exit 2; fi\", {fields}, must_deny: [{case}] }}] }}] }}\n"
        )
    };
    let system = "{ request: { systemInstruction: { parts: [{ text: aurora }] }, contents: [] } }";

    assert_proven(&hook("document: true", "aurora", system), &[]);
    let problem = "must deny this request, but allowed it";
    assert_problem(&hook("document: false", "aurora", system), problem);
    let caller = "{ prompt: x, caller: team-a }";
    assert_proven(&hook("context: true", "team-a", caller), &[]);
    let when = |case: &str| hook("when: 'caller.name == \"team-a\"'", "x", case);
    assert_proven(&when(caller), &[]);
    assert_problem(&when("{ prompt: x }"), "did not run: its `when` is false");
    let with_key = |case: &str| hook("when: 'caller.key != \"\"'", "x", case);
    assert_proven(&with_key(caller), &[]);
    assert_problem(
        &with_key("{ prompt: x }"),
        "did not run: its `when` is false",
    );
    let agent = "{ prompt: x, headers: { user-agent: ci/1 } }";
    let when = "when: 'caller.agent.startsWith(\"ci\")'";
    assert_proven(&hook(when, "x", agent), &[]);
}

#[test]
fn a_denial_by_another_guard_does_not_prove_a_guard() {
    let config = "\
policies:
  - { policy: prompt_guard, deny: [aurora] }
hooks:
  BeforeModel:
    - hooks:
        - { name: other, command: exit 2 }
        - { name: guard, command: 'true', must_deny: [{ prompt: aurora }] }
";
    let problem = "hook `guard` on BeforeModel: must deny this prompt, but allowed it";
    assert_problem(config, problem);
}

#[test]
fn a_guard_in_observe_mode_can_be_proven() {
    assert_proven(
        "\
policies:
  - { policy: prompt_guard, deny: [aurora], mode: observe, must_deny: [{ prompt: aurora }] }
  - { policy: redact, detect: [email], mode: observe, must_mask: [{ prompt: ann@example.com }] }
hooks:
  BeforeModel: [{ hooks: [{ command: exit 2, mode: observe, must_deny: [{ prompt: x }] }] }]
",
        &[],
    );
}

#[test]
fn a_mask_that_leaves_the_secret_or_denies_is_not_proven() {
    let hook = |output: &str| {
        format!(
            "hooks: {{ AfterModel: [{{ hooks: [{{ name: x, command: \"echo '{output}'\", \
             must_mask: [{{ answer: my s3cret, secret: s3cret }}] }}] }}] }}\n"
        )
    };
    let edit = |text: &str| {
        hook(&format!(
            "{{\\\"hookSpecificOutput\\\":{{\\\"llm_response\\\":{{\\\"text\\\":\\\"{text}\\\"}}}}}}"
        ))
    };

    assert_proven(&edit("my [MASKED]"), &[]);
    assert_problem(&edit("the s3cret"), "but left the secret in it");
    assert_problem(&hook("{\\\"decision\\\":\\\"deny\\\"}"), "but denied it");
    assert_problem(
        &hook("{\\\"decision\\\":\\\"dney\\\"}"),
        "left it unchanged (unknown decision",
    );
}

#[test]
fn a_mask_that_leaves_the_secret_in_a_number_or_a_key_is_not_proven() {
    let policy = |detect: &str, case: &str| {
        format!(
            "policies: [{{ policy: redact, detect: [{detect}], must_mask: [{{ {case}, secret: '4111111111111111' }}] }}]\n"
        )
    };
    for case in [
        "tool_result: { name: x, result: { mail: ann@example.com, card: 4111111111111111 } }",
        "tool_result: { name: x, result: { mail: ann@example.com, '4111111111111111': 1 } }",
        "tool_call: { name: x, args: { mail: ann@example.com, card: 4111111111111111 } }",
    ] {
        assert_problem(&policy("email", case), "but left the secret in it");
        assert_proven(&policy("email, card", case), &[]);
    }
}

#[test]
fn an_answer_that_does_not_end_the_turn_fires_no_after_agent() {
    let hook = |case: &str| {
        format!(
            "hooks: {{ AfterAgent: [{{ hooks: [{{ name: x, command: exit 2, must_deny: [{case}] }}] }}] }}\n"
        )
    };
    let answer = |parts: &str| {
        format!(
            "{{ answer: {{ candidates: [{{ content: {{ role: model, parts: [{parts}] }}, finishReason: STOP }}] }} }}"
        )
    };
    let text = "{ text: Aurora is great }";
    let with_call = format!("{text}, {{ functionCall: {{ name: ls, args: {{}} }} }}");
    let paused = "{ path: /v1/messages, \
        request: { model: m, max_tokens: 9, messages: [{ role: user, content: hi }] }, \
        answer: { id: msg_1, type: message, role: assistant, model: m, \
        content: [{ type: text, text: Aurora is great }], stop_reason: pause_turn, \
        stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } } }";

    assert_proven(&hook(&answer(text)), &[]);
    let problem = "did not run: it is on AfterAgent";
    assert_problem(&hook(&answer(&with_call)), problem);
    assert_problem(&hook(paused), problem);
}

#[test]
fn an_ask_is_a_denial_of_derived_tool_calls_only() {
    let hook = |case: &str| {
        format!(
            "hooks: {{ BeforeTool: [{{ hooks: [{{ name: x, command: \"echo '{{\\\"decision\\\":\\\"ask\\\"}}'\", must_deny: [{case}] }}] }}] }}\n"
        )
    };
    let derived = hook("{ tool_call: { name: ls } }");
    let event = "{ event: { hook_event_name: BeforeTool, tool_name: ls, tool_input: {} } }";

    assert_proven(&derived, &[]);
    assert_problem(&format!("ask: allow\n{derived}"), "but allowed it");
    assert_problem(&hook(event), "but allowed it");
}

#[test]
fn must_allow_detects_a_hook_that_denies_because_its_script_is_missing() {
    let hook = |cases: &str| {
        format!(
            "hooks: {{ BeforeModel: [{{ hooks: [{{ name: x, command: python3 missing.py, {cases} }}] }}] }}\n"
        )
    };

    assert_proven(&hook("must_deny: [{ prompt: x }]"), &[]);
    let allow = "must_deny: [{ prompt: x }], must_allow: [{ prompt: x }]";
    assert_problem(&hook(allow), "must allow this prompt, but denied it");
}

#[test]
fn a_guard_that_runs_on_none_of_its_cases_is_not_proven() {
    let config = "hooks: { AfterTool: [{ hooks: [{ name: x, command: 'true', must_allow: [{ prompt: x }] }] }] }\n";
    assert_problem(
        config,
        "must allow this prompt, but runs on none of its cases",
    );
}

#[test]
fn test_case_files_can_be_used_as_proof_cases() {
    let cases = "\
config: c.yaml
cases:
  - name: aurora is denied
    request: { contents: [{ role: user, parts: [{ text: aurora }] }] }
    expect: { verdict: deny }
  - name: hello is allowed
    request: { contents: [{ role: user, parts: [{ text: hello }] }] }
    expect: { verdict: proceed }
";
    let config = |pattern: &str, lists: &str| {
        format!("policies: [{{ policy: prompt_guard, deny: [{pattern}], {lists} }}]\n")
    };
    let both = "must_deny: [cases.yaml], must_allow: [cases.yaml]";
    let files = [("cases.yaml", cases)];

    assert_proven(&config("aurora", both), &files);

    let (_, problems) = prove(&config("hello", both), &files);
    assert_eq!(
        problems,
        [
            "cases.yaml:3:5: policy `prompt_guard`: must deny case `aurora is denied`, but allowed it",
            "cases.yaml:6:5: policy `prompt_guard`: must allow case `hello is allowed`, but denied it",
        ]
    );
    let (_, problems) = prove(&config("hello", "must_mask: [cases.yaml]"), &files);
    assert_eq!(
        problems,
        [
            "c.yaml:2:63: policy `prompt_guard`: `cases.yaml` has no case that expects a `text`, `answer`, `output` or `upstream`"
        ]
    );
    let (_, problems) = prove(&config("hello", "must_deny: [none.yaml]"), &files);
    assert!(
        problems[0].starts_with("c.yaml:2:63: policy `prompt_guard`: `none.yaml` cannot be read"),
        "{problems:?}"
    );
    let broken = [("cases.yaml", "cases: [{ name: x, request: {}, expct: {} }]")];
    let (_, problems) = prove(&config("hello", both), &broken);
    assert!(
        problems
            .iter()
            .any(|problem| problem.contains("unknown key")),
        "{problems:?}"
    );
}

#[test]
fn cases_that_a_test_passes_have_their_caller_and_session_in_proofs() {
    let call = |name: &str, place: &str| {
        format!(
            "  - {{ name: {name}, {place}, request: {{ contents: [{{ role: user, parts: [{{ text: aurora }}] }}] }}, expect: {{ verdict: deny }} }}\n"
        )
    };
    let path = "/v1beta/models/m:generateContent";
    let callers = [
        call("own header", "headers: { x-hookgate-key: ci }"),
        call(
            "both headers",
            "headers: { x-hookgate-key: ci, x-goog-api-key: other }",
        ),
        call("lower case", "headers: { authorization: bearer ci }"),
        call("query", &format!("path: \"{path}?key=ci\"")),
    ]
    .concat();
    let session = call("session", &format!("path: \"/s/mine{path}\""));
    // The SHA-256 of `team-a-key`.
    let config = "auth: { keys: [{ name: ci, sha256: 554a0d05033791f46fede07b724fa246c95235f60a9fb74caad37d1408b4df58 }] }
policies:
  - { policy: prompt_guard, name: caller, deny: [aurora], when: 'caller.name == \"ci\"', must_deny: [callers.yaml] }
  - { policy: prompt_guard, name: session, deny: [aurora], when: 'session.named && session.id == \"mine\"', must_deny: [session.yaml] }
";
    let file = |cases: &str| format!("config: c.yaml\ncases:\n{cases}");
    let (callers, session) = (file(&callers), file(&session));
    let files = [("callers.yaml", &*callers), ("session.yaml", &*session)];

    assert_proven(config, &files);

    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("c.yaml"), config).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
        let (code, out, _) = run(&["test", name], folder.path());
        assert_eq!(code, 0, "{out}");
    }
}

#[test]
fn hooks_of_a_settings_file_are_proven() {
    let settings = r#"{ "hooks": { "BeforeTool": [{ "hooks": [
        // A comment.
        { "type": "command", "name": "x", "command": "exit 2",
          "must_deny": [{ "tool_call": { "name": "rm" } }, "denied.yaml"] }
    ] }] } }"#;
    let cases = "cases: [{ name: x, event: { hook_event_name: BeforeTool, tool_name: rm, tool_input: {} }, expect: { verdict: deny } }]\n";
    let config = "hook_files: [{ path: settings.json }]\n";

    assert_proven(
        config,
        &[("settings.json", settings), ("denied.yaml", cases)],
    );
    let broken = settings.replace("exit 2", "true");
    let (_, problems) = prove(
        config,
        &[("settings.json", &broken), ("denied.yaml", cases)],
    );
    assert_eq!(
        problems,
        [
            "denied.yaml:1:9: hook `x` on BeforeTool: must deny case `x`, but allowed it",
            "settings.json:4:25: hook `x` on BeforeTool: must deny a call of `rm`, but allowed it",
        ]
    );
}

#[test]
fn hooks_of_sub_agents_are_proven_by_events_of_sub_agents() {
    let settings = r#"{ "hooks": { "SubagentStop": [{ "hooks": [
        { "command": "exit 2", "must_deny": [{ "event": {
            "hook_event_name": "AfterAgent", "agent_id": "a", "prompt": "p",
            "prompt_response": "r", "stop_hook_active": false
        } }] }
    ] }] } }"#;
    let config = "hook_files: [{ path: settings.json }]\n";

    assert_proven(config, &[("settings.json", settings)]);
    let of_main_agent = settings.replace(r#""agent_id": "a", "#, "");
    let (_, problems) = prove(config, &[("settings.json", &of_main_agent)]);
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn a_hook_that_only_observes_does_not_prove_an_equal_guard() {
    assert_problem(
        "\
hooks:
  BeforeTool:
    - hooks: [{ name: g, command: exit 2, mode: observe }]
    - { matcher: ^rm$, hooks: [{ name: g, command: exit 2, must_deny: [{ tool_call: { name: ls } }] }] }
",
        "did not run: its matcher does not match",
    );
}

#[test]
fn a_matcher_of_keywords_that_does_not_match_fails_the_proof() {
    assert_problem(
        "\
hooks:
  SessionStart:
    - matcher: startup
      hooks: [{ command: exit 2, must_deny: [{ event: { hook_event_name: SessionStart, source: resume } }] }]
",
        "did not run: its matcher does not match",
    );
}

#[test]
fn wrong_cases_are_reported_with_their_position() {
    let policy = |case: &str| {
        format!("policies: [{{ policy: prompt_guard, deny: [x], must_deny: [{case}] }}]\n")
    };
    for (case, problem) in [
        (
            "{ promt: x }",
            "unknown key `must_deny[0].promt`; did you mean `prompt`?",
        ),
        ("5", "must be a case such as"),
        ("{}", "a case needs one of `prompt`"),
        (
            "{ prompt: x, answer: y }",
            "a case has `prompt` or `answer`, not both",
        ),
        ("{ prompt: x, path: /x }", "`path` needs a `request`"),
        (
            "{ prompt: x, secret: y }",
            "`secret` is for cases of `must_mask`",
        ),
        ("{ request: {}, path: /x }", "unknown path `/x`"),
        ("{ request: {}, model: x }", "`model` is part of the `path`"),
        ("{ event: { a: 1 } }", "the event has no `hook_event_name`"),
        ("{ event: { hook_event_name: X } }", "unknown event `X`"),
        (
            "{ event: { hook_event_name: BeforeTool } }",
            "is no BeforeTool event",
        ),
        (
            "{ tool_call: { args: {} } }",
            "`must_deny[0].tool_call.name` is missing",
        ),
        (
            "{ answer: 5 }",
            "must be a text, a response or a list of chunks",
        ),
        ("{ prompt: x, model: 'a b' }", "`a b` is not a model name"),
    ] {
        let (code, problems) = prove(&policy(case), &[]);
        assert_eq!(code, 78, "{case}");
        assert_eq!(problems.len(), 1, "{case}: {problems:?}");
        assert!(problems[0].starts_with("c.yaml:2:"), "{case}: {problems:?}");
        assert!(problems[0].contains(problem), "{case}: {problems:?}");
    }
}

#[test]
fn dry_runs_do_not_run_proofs() {
    let folder = TempDir::new().unwrap();
    let config = "hooks: { BeforeModel: [{ hooks: [{ name: x, command: 'echo x >> ran', must_deny: [{ prompt: x }] }] }] }\n";
    fs::write(folder.path().join("c.yaml"), config).unwrap();
    let event = r#"{"contents":[{"role":"user","parts":[{"text":"x"}]}]}"#;
    fs::write(folder.path().join("event.json"), event).unwrap();

    let arguments = ["explain", "--dry-run", "--config", "c.yaml", "event.json"];
    let (code, _, stderr) = run(&arguments, folder.path());

    assert_eq!(code, 0, "{stderr}");
    assert!(!folder.path().join("ran").exists());
}

#[test]
fn the_guards_of_the_example_config_are_proven() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let arguments = ["check", "--prove", "config/examples/proof.yaml"];
    let (code, stdout, stderr) = run(&arguments, root);

    assert_eq!(code, 0, "{stderr}");
    let proven = stdout.lines().filter(|line| line.starts_with("proven: "));
    assert!(proven.count() >= 4, "{stdout}");
    assert!(!stderr.contains("no `must_deny`"), "{stderr}");
}
