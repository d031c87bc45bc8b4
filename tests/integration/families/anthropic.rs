//! Behaviour that is specific to the Messages API.

use serde_json::{Value, json};

use super::{
    REDACT, SECRET,
    family::{Family, Part, Turn},
};
use crate::harness::{Answer, TestGateway, Upstream, hook};

const FAMILY: Family = Family::Anthropic;

async fn model() -> Upstream {
    FAMILY.upstream(vec![vec![Part::text(&["ok"])]]).await
}

/// A request with one prompt.
fn prompt() -> Value {
    FAMILY.request(false, &[Turn::User("hi")])
}

/// A prompt with one more field.
fn with(field: &str, value: Value) -> Value {
    let mut request = prompt();
    request[field] = value;
    request
}

async fn post(gateway: &TestGateway, path: &str, body: &Value) -> Answer {
    let agent = gateway.agent().sending("anthropic-version", "2023-06-01");
    agent.post(path, body.to_string()).await
}

#[track_caller]
fn assert_error(answer: &Answer, status: u16, kind: &str, expected: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let error = answer.json();
    assert_eq!(error["type"], "error");
    assert_eq!(error["error"]["type"], kind);
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains(expected), "{message}");
    assert_eq!(
        error["request_id"],
        answer.header("x-hookgate-request-id"),
        "{error}"
    );
}

#[tokio::test]
async fn the_query_beta_true_is_forwarded_and_beta_false_is_refused() {
    let upstream = model().await;
    let gateway = FAMILY.gateway(&upstream, REDACT).await;
    let agent = gateway.agent().sending("anthropic-version", "2023-06-01");
    let answer = agent
        .post("/v1/messages?beta=true", prompt().to_string())
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = upstream.only_request();
    assert_eq!((&*asked.path, &*asked.query), ("/v1/messages", "beta=true"));
    let answer = agent
        .post("/v1/messages?beta=false", prompt().to_string())
        .await;
    assert_eq!(answer.status, 400, "{}", answer.text());
}

#[tokio::test]
async fn system_reminders_are_not_part_of_the_prompt() {
    let upstream = model().await;
    let hooks = hook::config(&[("BeforeAgent", hook::printing("seen", &json!({})))]);
    let gateway = FAMILY.gateway(&upstream, &hooks).await;
    let mut request = prompt();
    request["messages"][0]["content"] = json!([
        { "type": "text", "text": "<system-reminder>\nthe date\n</system-reminder>\n" },
        { "type": "text", "text": "read alpha" },
    ]);
    post(&gateway, "/v1/messages", &request).await;
    assert_eq!(gateway.json("seen.json")["prompt"], "read alpha");
}

#[tokio::test]
async fn a_first_prompt_in_the_form_of_system_reminders_is_checked() {
    let upstream = model().await;
    let config = "policies: [{ policy: prompt_guard, deny: [project aurora] }]\n";
    let gateway = FAMILY.gateway(&upstream, config).await;
    let reminder = |inner: &str| format!("<system-reminder>{inner}</system-reminder>");
    let [date, aurora] = [reminder("the date"), reminder("project aurora")];
    for (texts, is_denied) in [
        (vec![&*aurora], true),
        (
            vec![
                "<system-reminder></system-reminder>project aurora</system-reminder>",
                "hi",
            ],
            true,
        ),
        (vec![&*format!("{date}\n{aurora}"), "hi"], false),
    ] {
        let mut request = prompt();
        let blocks = texts
            .iter()
            .map(|text| json!({ "type": "text", "text": text }));
        request["messages"][0]["content"] = blocks.collect();
        let count = upstream.requests().len();
        post(&gateway, "/v1/messages", &request).await;
        let is_sent = upstream.requests().len() > count;
        assert_eq!(is_sent, !is_denied, "{texts:?}");
    }
}

#[tokio::test]
async fn count_tokens_is_inspected_but_starts_no_session_or_turn() {
    let upstream = Upstream::with(|_| {
        crate::harness::respond(200, "application/json", r#"{"input_tokens":5}"#)
    })
    .await;
    let start = hook::config(&[
        ("SessionStart", hook::printing("start", &json!({}))),
        ("BeforeAgent", hook::printing("prompt", &json!({}))),
    ]);
    let gateway = FAMILY.gateway(&upstream, &format!("{start}{REDACT}")).await;
    let request = json!({ "model": "m", "messages": [{ "role": "user", "content": SECRET }] });
    let answer = post(&gateway, "/v1/messages/count_tokens", &request).await;
    assert_eq!(answer.json(), json!({ "input_tokens": 5 }));
    let asked = upstream.only_request();
    assert_eq!(asked.path, "/v1/messages/count_tokens");
    assert!(!asked.body.contains(SECRET), "{}", asked.body);
    assert!(!gateway.path("start.json").exists() && !gateway.path("prompt.json").exists());
}

#[tokio::test]
async fn methods_that_hooks_cannot_inspect_are_refused_by_name() {
    let upstream = model().await;
    let gateway = FAMILY.gateway(&upstream, "").await;
    for (path, name) in [
        ("/v1/messages/batches", "messages.batches.create"),
        ("/v1/complete", "anthropic.complete"),
        ("/v1/files", "anthropic.files.upload"),
        ("/v1/skills", "anthropic.skills.create"),
        ("/v1/memory_stores", "anthropic.memory_stores.create"),
        ("/v1/agents", "anthropic.agents.create"),
        ("/v1/sessions", "anthropic.sessions.create"),
        ("/v1/environments", "anthropic.environments.create"),
        ("/v1/vaults", "anthropic.vaults.create"),
    ] {
        let answer = post(&gateway, path, &json!({})).await;
        assert_error(&answer, 403, "permission_error", name);
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn listing_models_passes() {
    let upstream =
        Upstream::with(|_| crate::harness::respond(200, "application/json", r#"{"data":[]}"#))
            .await;
    let gateway = FAMILY.gateway(&upstream, REDACT).await;
    let agent = gateway.agent().sending("anthropic-version", "2023-06-01");
    let answer = agent.get("/v1/models?limit=5").await;
    assert_eq!(answer.json(), json!({ "data": [] }), "{}", answer.text());
    assert_eq!(upstream.only_request().query, "limit=5");
}

#[tokio::test]
async fn stored_content_and_invalid_fields_are_refused() {
    let upstream = model().await;
    let gateway = FAMILY.gateway(&upstream, REDACT).await;
    let file = json!({ "type": "image", "source": { "type": "file", "file_id": "f-1" } });
    let files = json!([{ "role": "user", "content": [file] }]);
    for (request, expected) in [
        (with("container", json!("c-1")), "container"),
        (with("thread", json!({ "type": "continue" })), "thread"),
        (with("messages", files), "file_id"),
        (with("maxTokens", json!(5)), "maxTokens"),
        (with("stream", json!("yes")), "stream"),
    ] {
        let answer = post(&gateway, "/v1/messages", &request).await;
        assert_error(&answer, 400, "invalid_request_error", expected);
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn tools_are_withheld_wherever_they_are_declared() {
    let upstream = model().await;
    let config = "policies: [{ policy: tool_guard, allow: [look] }]\n";
    let gateway = FAMILY.gateway(&upstream, config).await;
    let mut request = prompt();
    let addition = json!({ "type": "tool_addition", "tool": {
        "type": "tool_definition", "definition": { "name": "rm", "input_schema": {} },
    } });
    let system =
        json!({ "role": "system", "content": [{ "type": "text", "text": "t" }, addition] });
    request["messages"].as_array_mut().unwrap().push(system);
    let hosted = json!({ "type": "web_search_20250305", "name": "web_search" });
    let toolset = json!({ "type": "mcp_toolset", "mcp_server_name": "files" });
    request["tools"]
        .as_array_mut()
        .unwrap()
        .extend([hosted, toolset]);
    request["mcp_servers"] = json!([{ "type": "url", "name": "files", "url": "https://m.test" }]);
    let answer = post(&gateway, "/v1/messages", &request).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = upstream.only_request();
    assert_eq!(FAMILY.tools(&asked), ["look"]);
    let body = asked.json();
    assert!(body.get("mcp_servers").is_none(), "{body}");
    let expected = json!([{ "type": "text", "text": "t" }]);
    assert_eq!(body["messages"][1]["content"], expected);
}

#[tokio::test]
async fn mcp_servers_are_removed_unless_the_policy_allows_them() {
    let toolset = json!({ "type": "mcp_toolset", "mcp_server_name": "files" });
    let mut request = with("tools", json!([toolset]));
    request["mcp_servers"] = json!([{ "type": "url", "name": "files", "url": "https://m.test" }]);
    for (rules, passes) in [("deny: [rm]", false), ("allow: [\"mcp:*\"]", true)] {
        let upstream = model().await;
        let config = format!("policies: [{{ policy: tool_guard, {rules} }}]\n");
        let gateway = FAMILY.gateway(&upstream, &config).await;
        post(&gateway, "/v1/messages", &request).await;
        let body = upstream.only_request().json();
        assert_eq!(body.get("mcp_servers").is_some(), passes, "{rules}: {body}");
        assert_eq!(body.get("tools").is_some(), passes, "{rules}: {body}");
    }
}

#[tokio::test]
async fn an_allowed_hosted_tool_is_forwarded_unchanged() {
    let upstream = model().await;
    let config = "policies: [{ policy: tool_guard, allow: [web_search] }]\n";
    let gateway = FAMILY.gateway(&upstream, config).await;
    let hosted = json!({ "type": "web_search_20250305", "name": "web_search" });
    let request = with("tools", json!([hosted]));
    post(&gateway, "/v1/messages", &request).await;
    assert_eq!(upstream.only_request().body, request.to_string());
}

#[tokio::test]
async fn fallback_models_must_be_allowed() {
    let upstream = model().await;
    let config = "policies: [{ policy: model_allow, models: [\"m\", \"n*\"] }]\n";
    let gateway = FAMILY.gateway(&upstream, config).await;
    let allowed = with("fallbacks", json!([{ "model": "n-2" }]));
    let answer = post(&gateway, "/v1/messages", &allowed).await;
    assert_eq!(FAMILY.parse(false, &answer).text, "ok");
    assert_eq!(upstream.only_request().body, allowed.to_string());
    let denied = with("fallbacks", json!([{ "model": "n-2" }, { "model": "big" }]));
    let answer = post(&gateway, "/v1/messages", &denied).await;
    let text = FAMILY.parse(false, &answer).text;
    assert!(text.contains("`big` is not allowed"), "{text}");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_fallback_has_no_prompt_and_no_tools_of_its_own() {
    let upstream = model().await;
    let gateway = FAMILY.gateway(&upstream, REDACT).await;
    let messages = json!([{ "role": "user", "content": SECRET }]);
    for (field, value) in [
        ("messages", messages),
        ("system", json!(SECRET)),
        ("tools", json!([{ "name": "rm", "input_schema": {} }])),
    ] {
        let fallback = json!({ "model": "n", field: value });
        let request = with("fallbacks", json!([fallback]));
        let answer = post(&gateway, "/v1/messages", &request).await;
        assert_error(&answer, 400, "invalid_request_error", "fallbacks");
    }
    assert!(upstream.requests().is_empty());

    let fallback = json!({
        "model": "n", "max_tokens": 5, "speed": "fast", "thinking": { "type": "disabled" },
        "output_config": { "effort": "low" },
    });
    let request = with("fallbacks", json!([fallback]));
    post(&gateway, "/v1/messages", &request).await;
    assert_eq!(upstream.only_request().body, request.to_string());
}

#[tokio::test]
async fn a_limit_of_output_tokens_covers_fallbacks() {
    let config = "policies: [{ policy: request_limits, max_output_tokens: 4096 }]\n";
    for (own, expected) in [(64000, 4096), (100, 100)] {
        let upstream = model().await;
        let gateway = FAMILY.gateway(&upstream, config).await;
        let thinking = |tokens: u64| json!({ "type": "enabled", "budget_tokens": tokens });
        let mut request = with(
            "fallbacks",
            json!([
                { "model": "n", "max_tokens": 64000, "thinking": thinking(60000) },
                { "model": "o", "max_tokens": 50 },
                { "model": "p" },
            ]),
        );
        request["max_tokens"] = own.into();

        post(&gateway, "/v1/messages", &request).await;

        request["max_tokens"] = expected.into();
        request["fallbacks"][0]["max_tokens"] = 4096.into();
        request["fallbacks"][0]["thinking"] = thinking(4095);
        assert_eq!(upstream.only_request().json(), request);
    }
}

#[tokio::test]
async fn fallback_models_that_the_api_chooses_are_denied_unless_they_are_allowed() {
    let request = with("fallbacks", json!("default"));
    for (config, is_sent) in [
        (REDACT, true),
        ("policies: [{ policy: model_allow, models: [m] }]\n", false),
        (
            "policies: [{ policy: model_allow, models: [m, default] }]\n",
            true,
        ),
    ] {
        let upstream = model().await;
        let gateway = FAMILY.gateway(&upstream, config).await;
        let answer = post(&gateway, "/v1/messages", &request).await;
        let text = FAMILY.parse(false, &answer).text;
        if is_sent {
            assert_eq!(upstream.only_request().body, request.to_string());
        } else {
            assert!(text.contains("`default` is not allowed"), "{text}");
            assert!(upstream.requests().is_empty());
        }
    }
}

#[tokio::test]
async fn a_system_message_without_content_is_forwarded() {
    let upstream = model().await;
    let gateway = FAMILY.gateway(&upstream, REDACT).await;
    let mut request = FAMILY.request(false, &[Turn::User(SECRET), Turn::User("go")]);
    let system = json!({ "role": "system", "output_config": { "effort": "low" } });
    request["messages"]
        .as_array_mut()
        .unwrap()
        .insert(1, system);
    post(&gateway, "/v1/messages", &request).await;
    let masked = request.to_string().replace(SECRET, "[REDACTED:aws_key]");
    assert_eq!(upstream.only_request().body, masked);
}

#[tokio::test]
async fn the_model_of_a_hosted_tool_must_be_allowed() {
    let upstream = model().await;
    let config = "policies: [{ policy: model_allow, models: [\"m\", \"n*\"] }]\n";
    let gateway = FAMILY.gateway(&upstream, config).await;
    let advisor = |model: &str| {
        let tool = json!({ "type": "advisor_20260301", "name": "advisor", "model": model });
        with("tools", json!([tool]))
    };
    post(&gateway, "/v1/messages", &advisor("n-2")).await;
    assert_eq!(upstream.only_request().body, advisor("n-2").to_string());
    let answer = post(&gateway, "/v1/messages", &advisor("big")).await;
    let text = FAMILY.parse(false, &answer).text;
    assert!(text.contains("`big` is not allowed"), "{text}");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn the_model_of_a_withheld_tool_is_not_checked() {
    let upstream = model().await;
    let config = "policies:
  - { policy: tool_guard, deny: [advisor] }
  - { policy: model_allow, models: [m] }\n";
    let gateway = FAMILY.gateway(&upstream, config).await;
    let tool = json!({ "type": "advisor_20260301", "name": "advisor", "model": "big" });
    post(&gateway, "/v1/messages", &with("tools", json!([tool]))).await;
    assert!(!upstream.only_request().body.contains("big"));
}

#[tokio::test]
async fn a_hosted_tool_is_withheld_by_its_type_under_any_name() {
    let config = "policies: [{ policy: tool_guard, deny: [web_search, rm] }]\n";
    for hosted in [
        json!({ "type": "web_search_20250305", "name": "web_search" }),
        json!({ "type": "web_search_20250305", "name": "ws" }),
        json!({ "type": "web_search_20250305", "name": null }),
        // Types of compatible servers.
        json!({ "type": "web_search" }),
        json!({ "type": "function", "name": "rm" }),
    ] {
        let upstream = model().await;
        let gateway = FAMILY.gateway(&upstream, config).await;
        let own = json!({ "name": "read", "input_schema": { "type": "object" } });
        post(
            &gateway,
            "/v1/messages",
            &with("tools", json!([hosted, own])),
        )
        .await;
        let sent = upstream.only_request().json();
        assert_eq!(sent["tools"], json!([own]), "{hosted}");
    }
}

#[tokio::test]
async fn a_denial_can_be_configured_as_an_error() {
    let upstream = model().await;
    let deny = hook::config(&[("BeforeModel", hook::denying("guard", "not today"))]);
    let gateway = FAMILY
        .gateway(&upstream, &format!("{deny}denials: error\n"))
        .await;
    let answer = post(&gateway, "/v1/messages", &prompt()).await;
    assert_error(&answer, 403, "permission_error", "not today");
}

#[tokio::test]
async fn a_denied_call_is_returned_to_the_model_after_its_thinking_block() {
    let thought = Part::Thought(vec!["h".to_owned(), "m".to_owned()]);
    let first = vec![thought, Part::call("rm", "/")];
    for is_stream in [false, true] {
        let answers = vec![first.clone(), vec![Part::text(&["ok"])]];
        let upstream = FAMILY.upstream(answers).await;
        let config = "policies: [{ policy: tool_guard, deny: [rm], reason: not here }]\n";
        let gateway = FAMILY.gateway(&upstream, config).await;
        let answer = FAMILY.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert_eq!(FAMILY.parse(is_stream, &answer).text, "ok");
        let second_request = upstream.requests().pop().unwrap().json();
        let messages = second_request["messages"].as_array().unwrap();
        let step = messages[messages.len() - 2]["content"].as_array().unwrap();
        assert_eq!(step[0]["type"], "thinking", "{second_request}");
        assert_eq!(step[0]["thinking"], "hm");
        assert!(step[0]["signature"].is_string());
        assert_eq!(step[1]["type"], "tool_use");
        let result = &messages[messages.len() - 1]["content"][0];
        assert_eq!(result["type"], "tool_result");
        assert_eq!(result["is_error"], true);
    }
}

#[tokio::test]
async fn conversations_with_one_session_id_share_a_session() {
    let upstream = model().await;
    let record = "cat >> starts.jsonl; echo >> starts.jsonl";
    let hooks = hook::config(&[("SessionStart", hook::command("start", record))]);
    let gateway = FAMILY.gateway(&upstream, &hooks).await;
    for (session, text) in [("s-1", "one"), ("s-1", "two"), ("s-2", "three")] {
        let mut request = FAMILY.request(false, &[Turn::User(text)]);
        let user = json!({ "device_id": "d", "account_uuid": "", "session_id": session });
        request["metadata"] = json!({ "user_id": user.to_string() });
        post(&gateway, "/v1/messages", &request).await;
    }
    let starts = gateway.file("starts.jsonl");
    let count = starts.lines().filter(|line| !line.is_empty()).count();
    assert_eq!(count, 2, "{starts}");
}

#[tokio::test]
async fn an_edited_system_prompt_follows_the_billing_header() {
    let upstream = model().await;
    let edit = hook::request(&json!({ "systemInstruction": "New." }));
    let hooks = hook::config(&[("BeforeModel", hook::printing("edit", &edit))]);
    let gateway = FAMILY.gateway(&upstream, &hooks).await;
    let header = json!({
        "type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli;",
    });
    let old = json!({ "type": "text", "text": "Old." });
    let request = with("system", json!([header, old]));
    let answer = post(&gateway, "/v1/messages", &request).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = upstream.only_request().json();
    assert_eq!(body["system"][0], header, "{body}");
    assert!(body["system"].to_string().contains("New."), "{body}");
}

#[tokio::test]
async fn a_billing_header_with_anything_else_is_inspected() {
    let header = "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli;";
    for block in [
        json!({ "type": "text", "text": header, "citations": [{ "cited_text": SECRET }] }),
        json!({ "type": "text", "text": header, "note": SECRET }),
        json!({ "type": "note", "text": header, "note": SECRET }),
    ] {
        let upstream = model().await;
        let gateway = FAMILY.gateway(&upstream, REDACT).await;
        let answer = post(&gateway, "/v1/messages", &with("system", json!([block]))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let asked = upstream.only_request().body;
        assert!(asked.contains(header), "{asked}");
        assert!(!asked.contains(SECRET), "{asked}");
    }
}

/// An answer whose search continues when the agent has sent it back.
fn paused_answer() -> Value {
    let search = json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": { "query": "q" } });
    json!({
        "id": "m", "type": "message", "role": "assistant", "model": "claude-x",
        "content": [{ "type": "text", "text": "I search" }, search],
        "stop_reason": "pause_turn", "stop_sequence": null,
        "usage": { "input_tokens": 1, "output_tokens": 1 },
    })
}

#[tokio::test]
async fn an_answer_that_pauses_does_not_end_the_turn() {
    let deny = json!({ "decision": "deny", "reason": "no" });
    let hooks = hook::config(&[("AfterAgent", hook::printing("seen", &deny))]);
    let upstream = Upstream::answering(&paused_answer()).await;
    let gateway = FAMILY.gateway(&upstream, &hooks).await;
    let answer = post(&gateway, "/v1/messages", &prompt()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json(), paused_answer());
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn an_answer_without_content_passes() {
    let hooks = hook::config(&[("AfterModel", hook::printing("seen", &json!({})))]);
    let mut body = paused_answer();
    body["content"] = Value::Null;
    body["stop_reason"] = "end_turn".into();
    let upstream = Upstream::answering(&body).await;
    let gateway = FAMILY.gateway(&upstream, &hooks).await;

    let answer = post(&gateway, "/v1/messages", &prompt()).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json(), body);
}
