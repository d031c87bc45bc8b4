//! `when`: conditions that select the events on which a hook or policy runs.

mod evasion;

use serde_json::{Value, json};

use crate::harness::{Agent, Answer, TestGateway, Upstream, assert_refused, hook, prompt, run};

/// The SHA-256 of `team-a`.
const TEAM_A: &str = "96c2886c51d1dfb4901d9feccff66213ce3e27406282ff6f602a4258a33dacec";

/// A hook that denies if this condition is true.
fn denying_hook(when: &str) -> Value {
    let mut hook = hook::command("guard", "echo 'not today' >&2; exit 2");
    hook["when"] = when.into();
    hook
}

async fn gateway_with_condition(event: &str, when: &str) -> (Upstream, TestGateway) {
    let upstream = Upstream::mock().await;
    let gateway =
        TestGateway::start(&upstream, &hook::config(&[(event, denying_hook(when))])).await;
    (upstream, gateway)
}

#[track_caller]
fn assert_ran(answer: &Answer) {
    assert!(
        answer.header("x-hookgate-hooks").starts_with("guard;"),
        "{answer:?}"
    );
    assert_eq!(answer.header("x-hookgate-action"), "deny");
}

#[track_caller]
fn assert_skipped(answer: &Answer) {
    assert_eq!(answer.header("x-hookgate-hooks"), "");
    assert_eq!(
        (answer.status, answer.header("x-hookgate-action")),
        (200, "pass")
    );
}

#[tokio::test]
async fn a_hook_runs_for_some_models() {
    let when = "request.model.startsWith('gemini-2.5') && !request.stream";
    let (_upstream, gateway) = gateway_with_condition("BeforeModel", when).await;
    let agent = gateway.agent();

    assert_ran(&agent.generate("gemini-2.5-pro", &prompt("hi")).await);
    assert_skipped(&agent.generate("gemini-3-pro", &prompt("hi")).await);
    assert_skipped(&agent.stream("gemini-2.5-pro", &prompt("hi")).await);
}

#[tokio::test]
async fn a_hook_runs_for_requests_with_some_tools() {
    let when = "request.tools.exists(it, it.matches('^(write|replace)'))";
    let (_upstream, gateway) = gateway_with_condition("BeforeModel", when).await;
    let request_with_tool = |name: &str| {
        let mut body = prompt("hi");
        body["tools"] =
            json!([{ "functionDeclarations": [{ "name": "read_file" }, { "name": name }] }]);
        body
    };

    let agent = gateway.agent();
    assert_ran(&agent.generate("m", &request_with_tool("write_file")).await);
    assert_skipped(&agent.generate("m", &request_with_tool("glob")).await);
    assert_skipped(&agent.generate("m", &prompt("hi")).await);
}

#[tokio::test]
async fn a_hook_runs_for_large_requests() {
    let when = "request.bytes > 1000 || request.contents > 2 \
        || (has(request.max_output_tokens) && request.max_output_tokens > 500)";
    let (_upstream, gateway) = gateway_with_condition("BeforeModel", when).await;
    let agent = gateway.agent();
    let mut long = prompt("hi");
    let more = json!({ "role": "model", "parts": [{ "text": "hm" }] });
    long["contents"]
        .as_array_mut()
        .unwrap()
        .extend([more, json!({ "role": "user", "parts": [{ "text": "?" }] })]);
    let mut many_output_tokens = prompt("hi");
    many_output_tokens["generationConfig"] = json!({ "maxOutputTokens": 501 });

    assert_ran(&agent.generate("m", &prompt(&"x".repeat(1000))).await);
    assert_ran(&agent.generate("m", &long).await);
    assert_ran(&agent.generate("m", &many_output_tokens).await);
    assert_skipped(&agent.generate("m", &prompt("hi")).await);
    let count = "/v1beta/models/m:countTokens";
    let wrapped = json!({ "generateContentRequest": long });
    assert_refused(
        &agent.post(count, wrapped.to_string()).await,
        403,
        "POLICY_DENIED",
    );
}

#[tokio::test]
async fn a_hook_runs_for_some_callers() {
    let when = format!("caller.key != '{TEAM_A}' && !caller.agent.startsWith('Trusted')");
    let (_upstream, gateway) = gateway_with_condition("BeforeModel", &when).await;
    let call = async |agent: Agent| agent.generate("m", &prompt("hi")).await;

    assert_skipped(&call(gateway.agent().sending("x-goog-api-key", "team-a")).await);
    assert_skipped(&call(gateway.agent().sending("authorization", "Bearer team-a")).await);
    assert_skipped(&call(gateway.agent().sending("user-agent", "Trusted/1")).await);
    assert_ran(&call(gateway.agent().sending("x-goog-api-key", "team-b")).await);
    assert_ran(&call(gateway.agent()).await);
}

#[tokio::test]
async fn a_hook_runs_for_some_sessions() {
    let when = "session.named && session.id.startsWith('ci-')";
    let (_upstream, gateway) = gateway_with_condition("BeforeModel", when).await;
    let agent = gateway.agent();
    let path = |session: &str| format!("/s/{session}/v1beta/models/m:generateContent");
    let call = async |session| agent.post(&path(session), prompt("hi").to_string()).await;

    assert_ran(&call("ci-1").await);
    assert_skipped(&call("laptop").await);
    assert_skipped(&agent.generate("m", &prompt("hi")).await);
}

#[tokio::test]
async fn a_hook_runs_for_some_tool_calls() {
    let when = "tool.name == 'run_shell_command' && tool.input.command.matches('\\\\brm\\\\b')";
    let (_upstream, gateway) = gateway_with_condition("BeforeTool", when).await;
    let report = async |name: &str, input: Value| {
        let event =
            json!({ "hook_event_name": "BeforeTool", "tool_name": name, "tool_input": input });
        gateway.agent().report(&event, "explain=1").await.json()
    };

    let removing = report("run_shell_command", json!({ "command": "rm x" })).await;
    let listing = report("run_shell_command", json!({ "command": "ls" })).await;
    let reading = report("read_file", json!({ "path": "rm" })).await;
    let without_command = report("run_shell_command", json!({ "cmd": "ls" })).await;

    assert_eq!(removing["hookgate"]["verdict"], "deny");
    assert_eq!(removing["hookgate"]["hooks"][0]["diagnostics"], Value::Null);
    assert_eq!(listing["hookgate"]["hooks"], json!([]));
    assert_eq!(reading["hookgate"]["hooks"], json!([]));
    // The condition cannot be evaluated, so the hook runs and a diagnostic is reported.
    assert_eq!(without_command["hookgate"]["verdict"], "deny");
    assert_eq!(
        without_command["hookgate"]["hooks"][0]["diagnostics"][0],
        json!({ "code": "condition", "detail": "a referenced value is absent" })
    );
}

#[tokio::test]
async fn a_hook_runs_if_the_input_of_its_condition_is_too_large() {
    let (_upstream, gateway) =
        gateway_with_condition("BeforeTool", "tool.input.text.contains('secret')").await;
    let report = async |text: &str| {
        let event = json!({
            "hook_event_name": "BeforeTool", "tool_name": "a", "tool_input": { "text": text },
        });
        gateway.agent().report(&event, "").await.json()
    };

    assert_eq!(report("nothing").await, json!({}));
    assert_eq!(report("a secret").await["decision"], "deny");
    assert_eq!(report(&"x".repeat(2 << 20)).await["decision"], "deny");
}

#[tokio::test]
async fn a_hook_runs_for_some_prompts() {
    let (_upstream, gateway) =
        gateway_with_condition("BeforeAgent", "prompt.contains('aurora')").await;
    let report = async |prompt: &str| {
        let event = json!({ "hook_event_name": "BeforeAgent", "prompt": prompt });
        gateway.agent().report(&event, "").await.json()
    };

    assert_eq!(report("about aurora").await["decision"], "deny");
    assert_eq!(report("about anything").await, json!({}));
}

#[tokio::test]
async fn a_reported_model_call_has_the_facts_of_its_stable_form() {
    let when = "request.model == 'm' && request.contents == 1 && request.tools == []";
    let (_upstream, gateway) = gateway_with_condition("BeforeModel", when).await;
    let report = async |model: &str| {
        let llm_request = json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }], "config": {} });
        let event = json!({ "hook_event_name": "BeforeModel", "llm_request": llm_request });
        gateway.agent().report(&event, "").await.json()
    };

    assert_eq!(report("m").await["decision"], "deny");
    assert_eq!(report("n").await, json!({}));
}

#[tokio::test]
async fn a_condition_on_the_edited_request_applies_to_every_chunk() {
    let upstream = Upstream::mock().await;
    let mut mask = hook::command(
        "mask",
        r#"echo x >> ran; echo '{"hookSpecificOutput":{"llm_response":{"text":"-"}}}'"#,
    );
    mask["when"] = "request.model == 'gemini-2.5-pro'".into();
    // The condition of `mask` is evaluated on the request after this edit.
    let mut swap = hook::printing(
        "swap",
        &hook::request(&json!({ "model": "gemini-2.5-pro" })),
    );
    swap["when"] = "request.model == 'old'".into();
    let config = hook::config(&[("BeforeModel", swap), ("AfterModel", mask)]);
    let gateway = TestGateway::start(&upstream, &config).await;

    let plain = gateway.agent().stream("new", &prompt("hi")).await;
    let before = gateway.file("ran");
    let masked = gateway.agent().stream("old", &prompt("hi")).await;

    assert!(!plain.text().contains(r#""text":"-""#));
    assert_eq!(before, "");
    let chunks = masked.events();
    let texts = chunks
        .iter()
        .filter_map(|chunk| chunk.pointer("/candidates/0/content/parts/0/text"));
    assert!(texts.clone().all(|text| text == "-"), "{chunks:?}");
    assert_eq!(gateway.file("ran").lines().count(), texts.count());
}

#[tokio::test]
async fn a_policy_runs_only_if_its_condition_is_true() {
    let upstream = Upstream::mock().await;
    let config = "\
policies:
  - policy: model_allow
    models: [gemini-2.5-flash]
    when: caller.agent.startsWith('GeminiCLI')
hooks:
  BeforeModel:
    - hooks:
        - { type: builtin, policy: prompt_guard, deny: [aurora], when: \"request.contents > 1\" }
";
    let gateway = TestGateway::start(&upstream, config).await;
    let cli = gateway.agent().sending("user-agent", "GeminiCLI/0.61");

    assert_eq!(
        cli.stream("m", &prompt("hi"))
            .await
            .header("x-hookgate-action"),
        "deny"
    );
    assert_eq!(
        gateway
            .agent()
            .stream("m", &prompt("hi"))
            .await
            .header("x-hookgate-action"),
        "pass"
    );
    assert_eq!(
        gateway
            .agent()
            .stream("m", &prompt("aurora"))
            .await
            .header("x-hookgate-action"),
        "pass"
    );
}

#[tokio::test]
async fn the_hook_list_contains_conditions() {
    let (_upstream, gateway) = gateway_with_condition("BeforeModel", "request.stream").await;

    let hooks = gateway.operator().get("/hooks").await.json();

    assert_eq!(hooks[0]["when"], "request.stream");
}

/// Checks a config with this text behind the first line.
fn check(config: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("upstreams: {{ gemini: {{ url: https://example.org }} }}\n{config}");
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    run(&["check", "hookgate.yaml"], folder.path())
}

#[test]
fn a_condition_that_excludes_all_model_calls_is_an_error() {
    for (policy, when, event) in [
        (
            "tool_guard, deny: [a]",
            "has(tool.name) && tool.name == 'a'",
            "BeforeTool",
        ),
        (
            "tool_guard, deny: [a]",
            "event == 'BeforeTool'",
            "BeforeTool",
        ),
        (
            "prompt_guard, deny: [a]",
            "event == 'BeforeAgent'",
            "BeforeAgent",
        ),
        ("redact", "event == 'AfterTool'", "AfterTool"),
    ] {
        let (code, _, stderr) = check(&format!(
            "policies:\n  - {{ policy: {policy}, when: {when} }}\n"
        ));

        let expected = format!(
            "`when` is always false on model calls, so the policy inspects none; use a hook of `type: builtin` on {event}"
        );
        let mut lines = stderr.lines();
        let is_expected =
            |line: &str| line.starts_with("hookgate.yaml:3:") && line.ends_with(&expected);
        assert!(lines.any(is_expected), "{when}: {stderr}");
        assert_eq!(code, 78, "{when}");
    }

    let (code, _, stderr) = check(
        "\
policies:
  - { policy: redact, when: event == 'BeforeModel' }
  - { policy: redact, when: event != 'AfterModel' }
hooks:
  BeforeTool:
    - hooks: [{ type: builtin, policy: tool_guard, deny: [a], when: tool.name == 'a' }]
",
    );
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn a_condition_that_excludes_answers_from_a_tool_guard_is_reported() {
    let expected = "policy `tool_guard`: `when` is always false on AfterModel, so calls of tools in answers are not inspected";
    for (policy, when, is_reported) in [
        ("tool_guard, deny: [a]", "event != 'AfterModel'", true),
        ("tool_guard, deny: [a]", "event == 'BeforeModel'", true),
        (
            "tool_guard, deny: [a]",
            "event == 'BeforeTool' || event == 'BeforeModel'",
            true,
        ),
        ("tool_guard, deny: [a]", "event != 'BeforeTool'", false),
        ("redact", "event != 'AfterModel'", false),
    ] {
        let (code, _, stderr) = check(&format!(
            "policies:\n  - {{ policy: {policy}, when: {when} }}\n"
        ));

        let mut lines = stderr.lines();
        let is_warning = |line: &str| {
            line.starts_with("warning: hookgate.yaml:3:44: ") && line.ends_with(expected)
        };
        assert_eq!(lines.any(is_warning), is_reported, "{when}: {stderr}");
        assert_eq!(stderr.contains("AfterModel"), is_reported, "{stderr}");
        assert_eq!(code, 0, "{when}");
    }
}

#[test]
fn invalid_and_ineffective_conditions_are_reported_with_a_position() {
    let (code, _, invalid) = check(
        "\
policies:
  - { policy: model_allow, models: [a], when: request.modle == 'a' }
hooks:
  BeforeModel:
    - hooks:
        - { name: a, command: a, when: \"request.bytes > 'x'\" }
        - { name: b, command: b, when: 'request.model ==' }
        - { name: c, command: c, when: 5 }
",
    );
    assert_eq!(code, 78);
    insta::assert_snapshot!(invalid, @r"
    hookgate.yaml:3:47: policy `model_allow`: `when` is not a valid condition: unknown field `modle` of `request`; did you mean `model`? (at character 8)
    hookgate.yaml:7:40: hook `a` on BeforeModel: `when` is not a valid condition: `>` takes two operands of type int, or two of type string, not int and string (at character 15)
    hookgate.yaml:8:40: hook `b` on BeforeModel: `when` is not a valid condition: unexpected end of the expression (at character 17)
    hookgate.yaml:9:40: hook `c` on BeforeModel: `when` must be text, not a number
    ");

    let (code, _, never_true) = check(
        "\
policies:
  - { policy: model_allow, models: [a], when: tool.name == 'a' }
hooks:
  BeforeTool:
    - hooks:
        - { name: a, command: cat, when: request.model == 'a' }
        - { name: b, command: cut, when: event == 'BeforeModel' }
",
    );
    assert_eq!(code, 78);
    insta::assert_snapshot!(never_true, @r"
    hookgate.yaml:3:47: policy `model_allow`: `when` refers to `tool.name`, which BeforeModel or AfterModel does not have
    hookgate.yaml:7:42: hook `a` on BeforeTool: `when` refers to `request.model`, which BeforeTool does not have
    hookgate.yaml:8:42: hook `b` on BeforeTool: `when` is always false on BeforeTool
    ");

    let (code, _, uncertain) = check(
        "\
policies:
  - { policy: tool_guard, deny: [a], when: request.model == 'a' }
  - { policy: tool_guard, name: b, deny: [a], when: has(request.model) && request.model == 'a' }
  - { policy: tool_guard, name: c, deny: [a], when: tool.name == 'a' }
",
    );
    assert_eq!(code, 0);
    insta::assert_snapshot!(uncertain, @r"
    warning: hookgate.yaml:3:44: policy `tool_guard`: BeforeTool has no `request.model`, so the policy runs there unless the rest of the condition is false; test `event` or `has(…)` first
    warning: hookgate.yaml:5:53: policy `c`: BeforeModel and AfterModel have no `tool.name`, so the policy runs there unless the rest of the condition is false; for one event, use a hook of `type: builtin`
    ");
}

#[test]
fn only_events_without_a_fact_are_named_beside_it() {
    let (code, _, absent) = check(
        "\
policies:
  - { policy: redact, when: \"event == 'BeforeModel' && prompt.contains('a')\" }
  - { policy: redact, when: \"size(request.tools) > 0 || prompt == ''\" }
",
    );
    assert_eq!(code, 78);
    insta::assert_snapshot!(absent, @r"
    hookgate.yaml:3:29: policy `redact`: `when` refers to `prompt`, which BeforeModel does not have
    hookgate.yaml:4:29: policy `redact`: `when` refers to `prompt` and `request.tools`, which no event has together
    ");
}

#[test]
fn a_condition_that_no_caller_meets_is_a_warning() {
    let hash = "a".repeat(64);
    let key = format!("auth: {{ keys: [{{ name: team-a, sha256: {hash} }}] }}\n");
    let warnings = |auth: &str, when: &str| {
        let policy = format!("policies:\n  - {{ policy: redact, when: \"{when}\" }}\n");
        let (code, _, stderr) = check(&format!("{auth}{policy}"));
        assert_eq!(code, 0, "{stderr}");
        stderr.matches("`when` is false for every caller").count()
    };

    for never in [
        "caller.name == 'team_a'",
        "caller.name in ['ci', 'tema-a']",
        "caller.name == 'Team-a' && request.bytes > 10",
    ] {
        assert_eq!(warnings(&key, never), 1, "{never}");
        assert_eq!(warnings("", never), 1, "{never}");
    }
    for sometimes in [
        "caller.name == 'team-a'",
        "caller.name.startsWith('team')",
        "caller.name == 'ci' || request.bytes > 10",
        "caller.name == request.model",
        "caller.agent == 'ci'",
        "!(caller.name in ['ci'])",
    ] {
        assert_eq!(warnings(&key, sometimes), 0, "{sometimes}");
    }
}

/// Replaces the model of a request.
const SWAP: &str = "{ policy: model_swap, swap: { m: other } }";

#[tokio::test]
async fn a_policy_runs_if_another_one_makes_its_condition_true() {
    let guard =
        "{ name: guard, policy: prompt_guard, deny: [aurora], when: 'request.model == \"other\"' }";
    for policies in [format!("[{SWAP}, {guard}]"), format!("[{guard}, {SWAP}]")] {
        let upstream = Upstream::mock().await;
        let config = format!("policies: {policies}\n");
        let gateway = TestGateway::start(&upstream, &config).await;
        let agent = gateway.agent();
        let mut event = hook::reported_request(&json!([{ "role": "user", "content": "aurora" }]));
        event["llm_request"]["model"] = "m".into();

        let answer = agent.generate("m", &prompt("aurora")).await;
        let reported = agent.report(&event, "").await.json();

        assert_eq!(answer.header("x-hookgate-action"), "deny", "{policies}");
        assert!(upstream.requests().is_empty(), "{policies}");
        assert_eq!(reported["decision"], "deny", "{policies}: {reported}");
        let answer = agent.generate("m", &prompt("hi")).await;
        assert_eq!(answer.header("x-hookgate-action"), "edit", "{policies}");
    }
}

#[tokio::test]
async fn a_hook_is_selected_by_the_model_that_it_sees() {
    for (model, runs) in [("other", true), ("m", false)] {
        let upstream = Upstream::mock().await;
        let hook = denying_hook(&format!("request.model == '{model}'"));
        let hooks = hook::config(&[("BeforeModel", hook)]);
        let config = format!("policies: [{SWAP}]\n{hooks}");
        let gateway = TestGateway::start(&upstream, &config).await;
        let agent = gateway.agent();
        let mut event = hook::reported_request(&json!([{ "role": "user", "content": "hi" }]));
        event["llm_request"]["model"] = "m".into();

        let answer = agent.generate("m", &prompt("hi")).await;
        let reported = agent.report(&event, "").await.json();

        assert_eq!(
            answer.header("x-hookgate-action") == "deny",
            runs,
            "{model}"
        );
        assert_eq!(reported["decision"] == "deny", runs, "{model}: {reported}");
    }
}

#[tokio::test]
async fn a_policy_whose_condition_becomes_true_swaps_no_model() {
    let upstream = Upstream::mock().await;
    let second = "{ policy: model_swap, name: second, swap: { other: third }, when: 'request.model == \"other\"' }";
    let allow = "{ policy: model_allow, models: [m, other] }";
    let config = format!("policies: [{second}, {SWAP}, {allow}]\n");
    let gateway = TestGateway::start(&upstream, &config).await;

    gateway.agent().generate("m", &prompt("hi")).await;

    let path = upstream.only_request().path;
    assert!(path.contains("/other:"), "{path}");
}

#[tokio::test]
async fn a_condition_counts_as_true_only_if_it_reads_a_request_that_cannot_be_read() {
    let mut request = prompt("hi");
    request["generationConfig"] = json!({ "maxOutputTokens": [1] });
    for (when, status) in [
        ("request.bytes > 1000000", 403),
        ("caller.agent == 'other'", 200),
        ("!session.named && caller.agent == 'other'", 200),
    ] {
        let upstream = Upstream::mock().await;
        let policy = format!("{{ policy: model_allow, models: [other], when: \"{when}\" }}");
        let config = format!("denials: error\npolicies: [{policy}]\n");
        let gateway = TestGateway::start(&upstream, &config).await;

        let answer = gateway.agent().generate("m", &request).await;

        assert_eq!(answer.status, status, "{when}: {}", answer.text());
    }
}
