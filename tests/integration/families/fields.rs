//! Fields that refer to what hooks cannot see: refused where hooks or policies run, allowed by
//! name, and responses that a caller received.

use serde_json::{Value, json};

use super::{
    QUIET_TOOL_HOOK,
    family::{ALL, Family, Said, Turn},
};
use crate::harness::{Agent, Answer, TestGateway, Upstream, hook, respond, run};

const NEW: [Family; 3] = [Family::Anthropic, Family::Responses, Family::Chat];

const QUIET: &str = "hooks: { BeforeModel: [{ hooks: [{ command: cat > /dev/null }] }] }\n";

async fn model(family: Family) -> Upstream {
    family.upstream(vec![vec![Said::text(&["ok"])]]).await
}

/// A request with further fields.
fn with(family: Family, fields: &Value) -> String {
    let mut request = family.request(false, &[Turn::User("hi")]);
    for (key, value) in fields.as_object().unwrap() {
        request[key] = value.clone();
    }
    request.to_string()
}

/// A request with one more block in its message.
fn with_block(family: Family, block: &Value) -> String {
    let mut request = family.request(false, &[Turn::User("hi")]);
    let list = if family == Family::Responses {
        "input"
    } else {
        "messages"
    };
    request[list][0]["content"] = json!([block]);
    request.to_string()
}

/// Each field with its name in the config, and a word of its reason.
fn refused() -> Vec<(Family, &'static str, String, &'static str)> {
    let file = json!({ "type": "file", "file_id": "file_1" });
    let image = json!({ "type": "image", "source": file });
    vec![
        (
            Family::Anthropic,
            "messages.container",
            with(Family::Anthropic, &json!({ "container": "c_1" })),
            "container",
        ),
        (
            Family::Anthropic,
            "messages.container",
            with_block(
                Family::Anthropic,
                &json!({ "type": "container_upload", "file_id": "file_1" }),
            ),
            "container",
        ),
        (
            Family::Anthropic,
            "messages.files",
            with_block(Family::Anthropic, &image),
            "file_id",
        ),
        (
            Family::Responses,
            "responses.background",
            with(Family::Responses, &json!({ "background": true })),
            "background",
        ),
        (
            Family::Responses,
            "responses.prompt",
            with(Family::Responses, &json!({ "prompt": { "id": "pmpt_1" } })),
            "prompt",
        ),
        (
            Family::Responses,
            "responses.files",
            with_block(
                Family::Responses,
                &json!({ "type": "input_file", "file_id": "file_1" }),
            ),
            "file_id",
        ),
        (
            Family::Chat,
            "chat.completions.files",
            with_block(
                Family::Chat,
                &json!({ "type": "file", "file": { "file_id": "file_1" } }),
            ),
            "file_id",
        ),
    ]
}

#[tokio::test]
async fn a_field_is_refused_where_hooks_run_unless_its_name_is_allowed() {
    for (family, name, body, word) in refused() {
        let upstream = model(family).await;
        let gateway = family.gateway(&upstream, QUIET).await;
        let answer = family.post(&gateway, false, body.clone()).await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.text());
        assert!(answer.text().contains(word), "{}", answer.text());
        assert!(answer.text().contains(name), "{}", answer.text());
        assert!(upstream.seen().is_empty());

        let config = format!("{QUIET}coverage: {{ allow: [{name}] }}\n");
        let gateway = family.gateway(&upstream, &config).await;
        let answer = family.post(&gateway, false, body.clone()).await;
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        assert_eq!(upstream.only().body, body, "{name}");

        // Without hooks nothing is parsed.
        let gateway = family.gateway(&upstream, "").await;
        let answer = family.post(&gateway, false, body.clone()).await;
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
    }
}

#[tokio::test]
async fn the_texts_of_an_allowed_request_are_masked_all_the_same() {
    let secret = "AKIAIOSFODNN7EXAMPLQ";
    let upstream = model(Family::Responses).await;
    let config = "policies: [{ policy: redact, detect: [aws_key] }]\ncoverage: { allow: [\"responses.*\"] }\n";
    let gateway = Family::Responses.gateway(&upstream, config).await;
    let prompt = json!({ "id": "pmpt_1", "variables": { "name": secret } });
    let body = with(
        Family::Responses,
        &json!({ "prompt": prompt, "input": secret }),
    );
    let answer = Family::Responses.post(&gateway, false, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = upstream.only();
    assert!(!asked.body.contains(secret), "{}", asked.body);
    assert_eq!(asked.json()["prompt"]["id"], "pmpt_1");
}

#[tokio::test]
async fn fields_that_can_never_be_allowed_are_refused_and_a_config_that_allows_them_is_invalid() {
    let item = json!([{ "type": "item_reference", "id": "msg_1" }]);
    for (family, name, body) in [
        (
            Family::Anthropic,
            "messages.thread",
            with(
                Family::Anthropic,
                &json!({ "thread": { "type": "create" } }),
            ),
        ),
        (
            Family::Responses,
            "responses.conversation",
            with(Family::Responses, &json!({ "conversation": "conv_1" })),
        ),
        (
            Family::Responses,
            "responses.item_reference",
            with(Family::Responses, &json!({ "input": item })),
        ),
    ] {
        let upstream = model(family).await;
        let config = format!("{QUIET}coverage: {{ allow: [\"responses.*\", \"messages.*\"] }}\n");
        let gateway = family.gateway(&upstream, &config).await;
        let answer = family.post(&gateway, false, body).await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.text());
        assert!(upstream.seen().is_empty());

        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "upstreams: {{ openai: {{ url: https://example.org }} }}\ncoverage: {{ allow: [{name}] }}\n"
        );
        std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let (code, _, wrong) = run(&["check", "hookgate.yaml"], folder.path());
        assert_eq!(code, 78, "{wrong}");
        assert!(wrong.contains(name), "{wrong}");
    }
}

#[tokio::test]
async fn callers_with_limits_cannot_use_what_is_not_inspected() {
    let key = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"; // of `test`
    let config = format!(
        "{QUIET}coverage: {{ allow: [\"responses.*\"] }}\nauth: {{ keys: [{{ name: a, sha256: {key}, models: [m] }}] }}\n"
    );
    let upstream = model(Family::Responses).await;
    let gateway = Family::Responses.gateway(&upstream, &config).await;
    let agent = gateway.agent().sending("x-hookgate-key", "test");
    let body = with(Family::Responses, &json!({ "prompt": { "id": "pmpt_1" } }));
    let answer = agent.post(Family::Responses.path(false), body).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    let body = with(Family::Responses, &json!({}));
    let answer = agent.post(Family::Responses.path(false), body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// A request with the hosted MCP server `docs`.
fn with_server(family: Family) -> String {
    let server = match family {
        Family::Anthropic => {
            return with(
                family,
                &json!({ "mcp_servers": [{ "type": "url", "name": "docs", "url": "https://example.org" }] }),
            );
        }
        Family::Gemini => {
            let transport = json!({ "url": "https://example.org" });
            json!({ "mcpServers": [{ "name": "docs", "streamableHttpTransport": transport }] })
        }
        _ => json!({ "type": "mcp", "server_label": "docs", "server_url": "https://example.org" }),
    };
    let mut request = family.request(false, &[Turn::User("hi")]);
    request["tools"].as_array_mut().unwrap().push(server);
    request.to_string()
}

fn allowed_server(family: Family) -> &'static str {
    match family {
        Family::Gemini => "models.mcp",
        Family::Anthropic => "messages.mcp",
        Family::Responses => "responses.mcp",
        Family::Chat => "chat.completions.mcp",
    }
}

#[tokio::test]
async fn a_hosted_mcp_server_is_refused_where_hooks_on_tools_run() {
    for &family in ALL {
        let body = with_server(family);
        for event in ["BeforeTool", "AfterTool"] {
            let upstream = model(family).await;
            let hooks = hook::config(&[(event, hook::running("guard", QUIET_TOOL_HOOK))]);
            let gateway = family.gateway(&upstream, &hooks).await;
            let answer = family.post(&gateway, false, body.clone()).await;
            assert_eq!(answer.status, 400, "{family:?}: {}", answer.text());
            let reason = "do not see calls of MCP servers";
            assert!(answer.text().contains(reason), "{}", answer.text());
            assert!(upstream.seen().is_empty());

            let name = allowed_server(family);
            let config = format!("{hooks}coverage: {{ allow: [{name}] }}\n");
            let gateway = family.gateway(&upstream, &config).await;
            let answer = family.post(&gateway, false, body.clone()).await;
            assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());
            assert_eq!(upstream.only().body, body);
        }
    }
}

#[tokio::test]
async fn a_hosted_mcp_server_passes_hooks_that_do_not_guard_tools_and_is_withheld_by_a_policy() {
    let observe =
        "hooks: { BeforeTool: [{ hooks: [{ command: cat > /dev/null, mode: observe }] }] }\n";
    let guard = "policies: [{ policy: tool_guard, deny: [other] }]\n";
    for &family in ALL {
        let body = with_server(family);
        for (config, passes) in [
            (QUIET.to_owned(), true),
            (observe.to_owned(), true),
            (guard.to_owned(), false),
            // What a policy withholds need not be refused.
            (
                format!(
                    "{guard}{}",
                    hook::config(&[("BeforeTool", hook::running("guard", QUIET_TOOL_HOOK))])
                ),
                false,
            ),
        ] {
            let upstream = model(family).await;
            let gateway = family.gateway(&upstream, &config).await;
            let answer = family.post(&gateway, false, body.clone()).await;
            assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());
            let asked = upstream.only().body;
            assert_eq!(asked.contains("docs"), passes, "{family:?}: {asked}");
        }
    }
}

/// The response API with stored responses: each request gets the next id.
async fn storing() -> Upstream {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    Upstream::with(move |asked| {
        let number = 1 + count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let said = [Said::text(&["ok"])];
        let id = format!("resp_{number}");
        if asked.json()["stream"] == true {
            let mut events = Family::Responses.events(&said);
            let mut whole = Family::Responses.whole(&said);
            let old = whole["id"].take();
            events = events.replace(old.as_str().unwrap(), &id);
            return respond(200, "text/event-stream", events);
        }
        let mut whole = Family::Responses.whole(&said);
        whole["id"] = id.into();
        whole["object"] = "response".into();
        whole["store"] = asked.json()["store"].clone();
        respond(200, "application/json", whole.to_string())
    })
    .await
}

const TWO_CALLERS: &str = "auth: { keys: [
  { name: a, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 },
  { name: b, sha256: 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752 }] }\n";

/// The callers `a` and `b`.
fn callers(gateway: &TestGateway) -> [Agent; 2] {
    ["test", "test2"].map(|key| gateway.agent().sending("x-hookgate-key", key))
}

async fn continue_from(agent: &Agent, id: &str, fields: Value) -> Answer {
    let mut fields = fields;
    fields["previous_response_id"] = id.into();
    let body = with(Family::Responses, &fields);
    agent.post(Family::Responses.path(false), body).await
}

#[tokio::test]
async fn only_the_caller_that_received_a_stored_response_continues_it() {
    for is_stream in [false, true] {
        let upstream = storing().await;
        let config = format!("{TWO_CALLERS}{QUIET}coverage: {{ allow: [responses.state] }}\n");
        let gateway = Family::Responses.gateway(&upstream, &config).await;
        let [a, b] = callers(&gateway);
        let stored = json!({ "store": true, "stream": is_stream });
        let first = a.post(
            Family::Responses.path(is_stream),
            with(Family::Responses, &stored),
        );
        assert_eq!(first.await.status, 200);

        let answer = continue_from(&b, "resp_1", json!({})).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains("not received"), "{}", answer.text());
        let answer = continue_from(&a, "resp_9", json!({})).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(upstream.seen().len(), 1);

        let answer = continue_from(&a, "resp_1", json!({ "store": true })).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        // The second response can be continued, too.
        let answer = continue_from(&a, "resp_2", json!({ "store": false })).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        // The third one is not stored.
        let answer = continue_from(&a, "resp_3", json!({})).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
}

#[tokio::test]
async fn results_without_their_call_are_refused_where_hooks_inspect_results() {
    let hooks = hook::config(&[("AfterTool", hook::running("guard", QUIET_TOOL_HOOK))]);
    let upstream = storing().await;
    let config = format!("{hooks}coverage: {{ allow: [responses.state] }}\n");
    let gateway = Family::Responses.gateway(&upstream, &config).await;
    let agent = gateway.agent();
    let body = with(Family::Responses, &json!({ "store": true }));
    agent.post(Family::Responses.path(false), body).await;
    let result = json!([{ "type": "function_call_output", "call_id": "c1", "output": "x" }]);
    let answer = continue_from(&agent, "resp_1", json!({ "input": result })).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.text().contains("AfterTool"), "{}", answer.text());
    let answer = continue_from(&agent, "resp_1", json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn nothing_is_stored_if_the_config_says_so() {
    for family in [Family::Responses, Family::Chat] {
        for hooks in ["", QUIET] {
            let upstream = model(family).await;
            let config = format!("{hooks}coverage: {{ store: never }}\n");
            let gateway = family.gateway(&upstream, &config).await;
            for (sent, expected) in [
                (json!({ "store": true }), true),
                (json!({ "store": null }), true),
                (json!({ "store": false }), false),
            ] {
                let body = with(family, &sent);
                let answer = family.post(&gateway, false, body.clone()).await;
                assert_eq!(answer.status, 200, "{}", answer.text());
                let asked = upstream.seen().pop().unwrap();
                assert_eq!(asked.json()["store"], false, "{family:?}");
                assert_eq!(asked.body != body, expected, "{family:?}");
            }
            let mut absent = family.request(false, &[Turn::User("hi")]);
            absent.as_object_mut().unwrap().remove("store");
            family.post(&gateway, false, absent.to_string()).await;
            assert_eq!(upstream.seen().pop().unwrap().json()["store"], false);
        }
        let upstream = model(family).await;
        let gateway = family.gateway(&upstream, QUIET).await;
        let body = with(family, &json!({ "store": true }));
        family.post(&gateway, false, body.clone()).await;
        assert_eq!(upstream.only().body, body);
    }
}

#[tokio::test]
async fn an_encrypted_summary_passes_only_for_the_caller_that_received_it() {
    let summary = json!({ "type": "compaction", "id": "cmp_1", "encrypted_content": "c2VjcmV0" });
    let output = summary.clone();
    let upstream = Upstream::with(move |asked| {
        let body = if asked.path.ends_with("/compact") {
            json!({ "id": "resp_1", "object": "response.compaction", "output": [output] })
        } else {
            Family::Responses.whole(&[Said::text(&["ok"])])
        };
        respond(200, "application/json", body.to_string())
    })
    .await;
    let config = format!("{TWO_CALLERS}{QUIET}coverage: {{ compaction: known }}\n");
    let gateway = Family::Responses.gateway(&upstream, &config).await;
    let [a, b] = callers(&gateway);
    let user = json!({ "role": "user", "content": "go on" });
    let body = with(Family::Responses, &json!({ "input": [summary, user] }));
    let path = Family::Responses.path(false);

    let answer = a.post(path, body.clone()).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.text().contains("compaction"), "{}", answer.text());

    let compact = json!({ "model": "m", "input": "hi" }).to_string();
    let answer = a.post("/v1/responses/compact", compact).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["output"][0], summary);

    let answer = a.post(path, body.clone()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = b.post(path, body.clone()).await;
    assert_eq!(answer.status, 400, "{}", answer.text());

    let gateway = Family::Responses.gateway(&upstream, QUIET).await;
    let answer = Family::Responses.post(&gateway, false, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn labels_of_every_api_are_masked() {
    let secret = "AKIAIOSFODNN7EXAMPLQ";
    for family in NEW {
        let upstream = model(family).await;
        let config = "policies: [{ policy: redact, detect: [aws_key] }]\n";
        let gateway = family.gateway(&upstream, config).await;
        let body = with(
            family,
            &json!({ "metadata": { "user_id": secret, "b": "c" } }),
        );
        let answer = family.post(&gateway, false, body).await;
        assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());
        let asked = upstream.only();
        assert!(!asked.body.contains(secret), "{family:?}: {}", asked.body);
        assert_eq!(asked.json()["metadata"]["b"], "c");
    }
}

#[tokio::test]
async fn hooks_that_see_the_document_see_no_field_of_the_gateway() {
    let see = |name: &str| {
        let mut see = hook::saying(name, &json!({}));
        see["document"] = true.into();
        see
    };
    let hooks = hook::config(&[("BeforeModel", see("before")), ("AfterModel", see("after"))]);
    let said = vec![Said::Thought(vec!["h".into()]), Said::call("look", "a")];
    for family in NEW {
        let upstream = family.upstream(vec![said.clone()]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let turns = [
            Turn::User("one"),
            Turn::Call("look", "a"),
            Turn::Result("look", "found"),
        ];
        let answer = family.ask(&gateway, false, &turns).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        for (file, word) in [("before.json", "found"), ("after.json", "look")] {
            let seen = gateway.json(file)["document"].to_string();
            assert!(seen.contains(word), "{family:?}: {seen}");
            assert!(!seen.contains("hookgateS"), "{family:?}: {seen}");
            assert!(!seen.contains("hookgateP"), "{family:?}: {seen}");
        }
    }
}

#[test]
fn check_and_coverage_say_what_hosted_tools_mean_for_hooks() {
    let folder = tempfile::tempdir().unwrap();
    let hooks = hook::config(&[("BeforeTool", hook::running("guard", QUIET_TOOL_HOOK))]);
    let config = format!("upstreams: {{ anthropic: {{ url: https://example.org }} }}\n{hooks}");
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let (code, _, notes) = run(&["check", "hookgate.yaml"], folder.path());
    assert_eq!(code, 0, "{notes}");
    let expected = "note: `messages.hosted_tools` run at the model API";
    assert!(notes.contains(expected), "{notes}");
    assert!(!notes.contains("responses.hosted_tools"), "{notes}");

    let (_, table, _) = run(&["coverage", "--config", "hookgate.yaml"], folder.path());
    let row = |name: &str| {
        let mut lines = table.lines();
        let line = lines.find(|line| line.contains(name)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(row("messages.hosted_tools"), "hooked");
    assert_eq!(row("messages.mcp"), "refused");
    assert_eq!(row("messages.thread"), "refused");
}
