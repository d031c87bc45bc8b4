//! Configuration of policies: single events, observe mode, order, the list of hooks and errors.

use serde_json::json;

use super::MODEL;
use crate::harness::{TestGateway, Upstream, hook, prompt, run};

#[tokio::test]
async fn a_builtin_hook_runs_only_on_its_event() {
    let upstream = Upstream::mock().await;
    let config = "
hooks:
  BeforeTool:
    - matcher: ^run_
      hooks: [{ type: builtin, name: guard, policy: tool_guard, allow: [] }]
";
    let gateway = TestGateway::start(&upstream, config).await;
    let report = async |tool: &str| {
        let input = json!({ "hook_event_name": "BeforeTool", "tool_name": tool, "tool_input": {} });
        gateway.agent().report(&input, "").await.json()["decision"].clone()
    };
    let declaring =
        json!({ "contents": [], "tools": [{ "functionDeclarations": [{ "name": "run_x" }] }] });

    gateway.agent().generate(MODEL, &declaring).await;

    assert_eq!(upstream.only_request().json(), declaring);
    assert_eq!(report("run_x").await, "deny");
    assert!(report("read").await.is_null());
}

#[tokio::test]
async fn observing_policies_change_no_byte_and_are_reported() {
    let upstream = Upstream::mock().await;
    let config = "
policies:
  - { policy: model_allow, models: [other], mode: observe, name: trial }
  - { policy: model_swap, swap: { gemini-2.5-pro: other }, mode: observe }
  - { policy: tool_guard, allow: [], mode: observe }
  - { policy: request_limits, max_output_tokens: 1, mode: observe }
  - { policy: respond, match: '', text: pong, mode: observe }
";
    let gateway = TestGateway::start(&upstream, config).await;
    let body = r#"{"contents": [{"parts":[{"text":"hi"}]}], "tools":[{"functionDeclarations":[{"name":"a"}]}]}"#;

    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let answer = gateway.agent().post(&path, body).await;

    let request = upstream.only_request();
    assert_eq!(
        (request.path.as_str(), request.body.as_str()),
        (path.as_str(), body)
    );
    assert_eq!(answer.header("x-hookgate-action"), "pass");
    assert!(answer.header("x-hookgate-hooks").starts_with("trial;"));
    let input = json!({ "hook_event_name": "BeforeTool", "tool_name": "a", "tool_input": {} });
    let output = gateway.agent().report(&input, "explain=1").await.json();
    assert_eq!(output["hookgate"]["verdict"], "proceed");
    assert_eq!(output["hookgate"]["hooks"][0]["would"], "deny");
}

#[tokio::test]
async fn an_observing_policy_passes_a_request_it_cannot_parse() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: prompt_guard, deny: [x], mode: observe }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let body = r#"{"contents":[{"parts":{"text":"x"}}]}"#;

    let path = format!("/v1beta/models/{MODEL}:generateContent");
    gateway.agent().post(&path, body).await;

    assert_eq!(upstream.only_request().body, body);
}

#[tokio::test]
async fn hooks_see_edits_of_policies_and_their_denial_outranks_a_fixed_response() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::denying("no", "not today"))]);
    let config = format!(
        "policies:\n  - {{ policy: model_swap, swap: {{ {MODEL}: other }} }}\n  - {{ policy: respond, match: '', text: pong }}\n{hooks}"
    );
    let gateway = TestGateway::start(&upstream, &config).await;

    let answer = gateway.agent().generate(MODEL, &prompt("hi")).await;

    assert_eq!(gateway.json("no.json")["llm_request"]["model"], "other");
    assert!(answer.text().contains("not today"), "{}", answer.text());
}

#[tokio::test]
async fn policies_apply_to_the_stable_form_of_a_reported_model_call() {
    let upstream = Upstream::mock().await;
    let config = "
policies:
  - { policy: model_swap, swap: { a: b } }
  - { policy: request_limits, max_output_tokens: 7 }
  - { policy: prompt_guard, deny: [secret] }
  - { policy: model_allow, models: [b] }
";
    let gateway = TestGateway::start(&upstream, config).await;
    let report = async |model: &str, text: &str| {
        let input = json!({ "hook_event_name": "BeforeModel", "llm_request": { "model": model, "messages": [{ "role": "user", "content": text }] } });
        gateway.agent().report(&input, "").await.json()
    };

    let edited = report("a", "hi").await;

    let specific = &edited["hookSpecificOutput"];
    assert_eq!(
        specific["llm_request"],
        json!({ "model": "b", "config": { "maxOutputTokens": 7 } })
    );
    assert_eq!(report("a", "a secret").await["decision"], "deny");
    assert_eq!(report("c", "hi").await["decision"], "deny");
}

#[tokio::test]
async fn the_hook_list_contains_a_policy_once_per_event() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: tool_guard, name: tools, deny: [a] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;

    let listed = gateway.operator().get("/hooks").await.json();

    let expected = ["BeforeModel", "AfterModel", "BeforeTool"].map(|event| {
        json!({ "event": event, "name": "tools", "type": "builtin", "policy": "tool_guard", "mode": "enforce" })
    });
    assert_eq!(listed, json!(expected));
}

#[test]
fn config_errors_in_policies_have_a_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let config = "\
upstreams: { gemini: { url: http://localhost:1 } }
policies:
  - { policy: model_alow, models: [a] }
  - { policy: model_allow, model: [a] }
  - { policy: model_allow, models: ['a['], mode: watch }
  - { policy: prompt_guard, deny: ['(a'] }
  - { policy: tool_guard, rules: [{ tool: a, argument: path }] }
  - { policy: request_limits, max_output_tokens: many }
  - { policy: model_swap, swap: { a: 'b c' } }
hooks:
  BeforeModel:
    - hooks: [{ type: builtin, name: x, policy: respond, match: a }]
    - hooks: [{ type: builtin, policy: respond, match: a, text: b, url: 'http://a' }]
    - hooks: [{ type: command, command: a, models: [a] }]
";
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 78);
    insta::assert_snapshot!(stderr, @"
    hookgate.yaml:3:15: policy `model_alow`: `policy` must be `model_allow` or `model_swap` or `tool_guard` or `prompt_guard` or `redact` or `request_limits` or `respond`, not `model_alow`
    hookgate.yaml:4:5: policy `model_allow`: `models` is missing
    hookgate.yaml:4:28: policy `model_allow`: unknown key `model`; did you mean `models`?
    hookgate.yaml:5:37: policy `model_allow`: `models[0]` is not a valid glob: unclosed character class; missing ']'
    hookgate.yaml:5:50: policy `model_allow`: `mode` must be `enforce` or `observe`, not `watch`
    hookgate.yaml:6:36: policy `prompt_guard`: `deny[0]` is not a valid regular expression: unclosed group
    hookgate.yaml:7:56: policy `tool_guard`: `rules[0].argument` must be a JSON pointer such as `/file_path`, not `path`
    hookgate.yaml:8:50: policy `request_limits`: `max_output_tokens` must be a whole number from 1, not text
    hookgate.yaml:9:38: policy `model_swap`: `swap.a` must be the name of a model, not `b c`
    hookgate.yaml:12:15: hook `x` on BeforeModel: `text` is missing
    hookgate.yaml:13:68: a hook on BeforeModel: `url` is for hooks of another type
    hookgate.yaml:14:44: hook `a` on BeforeModel: unknown key `models`; did you mean `mode`?
    ");
}

#[test]
fn a_policy_on_an_unsupported_event_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = "\
upstreams: { gemini: { url: http://localhost:1 } }
hooks:
  AfterTool:
    - hooks: [{ type: builtin, policy: respond, match: a, text: b }]
";
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 78);
    assert_eq!(
        stderr.lines().last().unwrap(),
        "hookgate.yaml:4:15: policy `respond` does not run on AfterTool, only on BeforeModel"
    );
}

#[test]
fn check_prints_which_content_policies_do_not_inspect() {
    let folder = tempfile::tempdir().unwrap();
    let config = "\
upstreams: { gemini: { url: http://localhost:1 } }
policies:
  - { policy: redact, name: secrets, detect: [email] }
  - { policy: model_allow, models: [a] }
hooks:
  BeforeModel:
    - hooks: [{ type: builtin, policy: prompt_guard, deny: [x] }]
";
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let (code, stdout, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 0);
    assert_eq!(stdout, "hookgate.yaml: valid, 1 hook, 2 policies\n");
    assert_eq!(
        stderr,
        "note: hookgate.yaml:3:5: policy `secrets`: images, sound and files in requests and responses are not inspected, nor are declarations of tools, thoughts in requests to Anthropic and OpenAI, and content that upstream has cached\n\
         note: hookgate.yaml:7:15: policy `prompt_guard`: images, sound and files in prompts are not inspected\n"
    );
}
