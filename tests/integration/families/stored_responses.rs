//! Stored responses and compaction items of the Responses API: limited to the caller that received
//! them.

use serde_json::{Value, json};

use super::{
    NO_OP_COMMAND, NO_OP_HOOK, REDACT, SECRET,
    family::{Family, Part, Turn},
    model_api, request_with,
};
use crate::harness::{Agent, Answer, TestGateway, Upstream, hook, respond, run};

/// A Responses API that stores responses, with ids counted from 1.
async fn upstream_with_stored_responses() -> Upstream {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    Upstream::with(move |asked| {
        let number = 1 + count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let parts = [Part::text(&["ok"])];
        let id = format!("resp_{number}");
        if asked.json()["stream"] == true {
            let mut events = Family::Responses.events(&parts);
            let mut whole = Family::Responses.whole(&parts);
            let old = whole["id"].take();
            events = events.replace(old.as_str().unwrap(), &id);
            return respond(200, "text/event-stream", events);
        }
        let mut whole = Family::Responses.whole(&parts);
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

/// Agents of the callers `a` and `b`.
fn callers(gateway: &TestGateway) -> [Agent; 2] {
    ["test", "test2"].map(|key| gateway.agent().sending("x-hookgate-key", key))
}

async fn continue_from(agent: &Agent, id: &str, fields: Value) -> Answer {
    let mut fields = fields;
    fields["previous_response_id"] = id.into();
    let body = request_with(Family::Responses, &fields);
    agent.post(Family::Responses.path(false), body).await
}

#[tokio::test]
async fn only_the_caller_that_received_a_stored_response_continues_it() {
    for is_stream in [false, true] {
        let upstream = upstream_with_stored_responses().await;
        let config = format!("{TWO_CALLERS}{NO_OP_HOOK}coverage: {{ allow: [responses.state] }}\n");
        let gateway = Family::Responses.gateway(&upstream, &config).await;
        let [a, b] = callers(&gateway);
        let stored = json!({ "store": true, "stream": is_stream });
        let first = a.post(
            Family::Responses.path(is_stream),
            request_with(Family::Responses, &stored),
        );
        assert_eq!(first.await.status, 200);

        let answer = continue_from(&b, "resp_1", json!({})).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains("not received"), "{}", answer.text());
        let answer = continue_from(&a, "resp_9", json!({})).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(upstream.requests().len(), 1);

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
async fn a_retry_with_cleared_context_continues_no_stored_response() {
    for is_cleared in [false, true] {
        let upstream = upstream_with_stored_responses().await;
        let deny = json!({ "decision": "deny", "reason": "Anew.", "clearContext": is_cleared });
        let hooks = hook::config(&[("AfterAgent", hook::printing("again", &deny))]);
        let settings =
            "events: { max_answer_retries: 1 }\ncoverage: { allow: [responses.state] }\n";
        let config = format!("{hooks}{settings}");
        let gateway = Family::Responses.gateway(&upstream, &config).await;
        let agent = gateway.agent();
        let body = request_with(Family::Responses, &json!({ "store": true }));
        let answer = agent.post(Family::Responses.path(false), body).await;
        let id = answer.json()["id"].as_str().unwrap().to_owned();

        let answer = continue_from(&agent, &id, json!({})).await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        let asked = upstream.requests();
        assert_eq!(asked.len(), 4);
        let asked = [2, 3].map(|number| asked[number].json());
        assert_eq!(asked[0]["previous_response_id"], json!(id));
        let is_continued = asked[1]["previous_response_id"] == json!(id);
        assert_eq!(is_continued, !is_cleared, "{}", asked[1]);
    }
}

#[tokio::test]
async fn an_equal_prompt_behind_another_stored_response_is_inspected() {
    let upstream = upstream_with_stored_responses().await;
    let log = hook::command("log", "cat > /dev/null; echo 1 >> log");
    let hooks = hook::config(&[("BeforeAgent", log)]);
    let config = format!("{hooks}coverage: {{ allow: [responses.state] }}\n");
    let gateway = Family::Responses.gateway(&upstream, &config).await;
    let agent = gateway.agent().sending("x-hookgate-session", "mine");
    let stored = json!({ "store": true });
    let first = request_with(Family::Responses, &stored);
    agent.post(Family::Responses.path(false), first).await;

    // The second request is repeated.
    for id in ["resp_1", "resp_1", "resp_2"] {
        let answer = continue_from(&agent, id, stored.clone()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    assert_eq!(gateway.file("log").lines().count(), 3);
}

#[tokio::test]
async fn results_without_their_call_are_refused_where_hooks_inspect_results() {
    let hooks = hook::config(&[("AfterTool", hook::command("guard", NO_OP_COMMAND))]);
    let upstream = upstream_with_stored_responses().await;
    let config = format!("{hooks}coverage: {{ allow: [responses.state] }}\n");
    let gateway = Family::Responses.gateway(&upstream, &config).await;
    let agent = gateway.agent();
    let body = request_with(Family::Responses, &json!({ "store": true }));
    agent.post(Family::Responses.path(false), body).await;
    let result = json!([{ "type": "function_call_output", "call_id": "c1", "output": "x" }]);
    let answer = continue_from(&agent, "resp_1", json!({ "input": result })).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.text().contains("AfterTool"), "{}", answer.text());
    let answer = continue_from(&agent, "resp_1", json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn every_request_has_store_false_if_the_config_disables_storage() {
    for family in [Family::Responses, Family::Chat] {
        for hooks in ["", NO_OP_HOOK] {
            let upstream = model_api(family).await;
            let config = format!("{hooks}coverage: {{ store: never }}\n");
            let gateway = family.gateway(&upstream, &config).await;
            for (sent, expected) in [
                (json!({ "store": true }), true),
                (json!({ "store": null }), true),
                (json!({ "store": false }), false),
            ] {
                let body = request_with(family, &sent);
                let answer = family.post(&gateway, false, body.clone()).await;
                assert_eq!(answer.status, 200, "{}", answer.text());
                let asked = upstream.requests().pop().unwrap();
                assert_eq!(asked.json()["store"], false, "{family:?}");
                assert_eq!(asked.body != body, expected, "{family:?}");
            }
            let mut absent = family.request(false, &[Turn::User("hi")]);
            absent.as_object_mut().unwrap().remove("store");
            family.post(&gateway, false, absent.to_string()).await;
            assert_eq!(upstream.requests().pop().unwrap().json()["store"], false);
        }
        let upstream = model_api(family).await;
        let gateway = family.gateway(&upstream, NO_OP_HOOK).await;
        let body = request_with(family, &json!({ "store": true }));
        family.post(&gateway, false, body.clone()).await;
        assert_eq!(upstream.only_request().body, body);
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
            Family::Responses.whole(&[Part::text(&["ok"])])
        };
        respond(200, "application/json", body.to_string())
    })
    .await;
    let config = format!("{TWO_CALLERS}{NO_OP_HOOK}coverage: {{ compaction: known }}\n");
    let gateway = Family::Responses.gateway(&upstream, &config).await;
    let [a, b] = callers(&gateway);
    let user = json!({ "role": "user", "content": "go on" });
    let body = request_with(Family::Responses, &json!({ "input": [summary, user] }));
    let path = Family::Responses.path(false);

    let answer = a.post(path, body.clone()).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.text().contains("compaction"), "{}", answer.text());
    for named in ["compaction_summary", "context_compaction", "digest"] {
        let body = body.replace(r#""compaction""#, &format!("{named:?}"));
        let answer = a.post(path, body).await;
        assert_eq!(answer.status, 400, "{named}: {}", answer.text());
    }

    let compact = json!({ "model": "m", "input": "hi" }).to_string();
    let answer = a.post("/v1/responses/compact", compact).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["output"][0], summary);

    let answer = a.post(path, body.clone()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = b.post(path, body.clone()).await;
    assert_eq!(answer.status, 400, "{}", answer.text());

    let gateway = Family::Responses.gateway(&upstream, NO_OP_HOOK).await;
    let answer = Family::Responses.post(&gateway, false, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

const STORED_METHODS: &str = "coverage: { allow: [responses.background, responses.retrieve, \
    responses.delete, responses.cancel, responses.input_items.list] }\n";

/// A Responses API on which each response is first `queued`, and holds these parts when it is
/// retrieved or cancelled.
async fn upstream_in_background(parts: Vec<Part>) -> Upstream {
    Upstream::with(move |asked| {
        let mut whole = Family::Responses.whole(&parts);
        whole["background"] = true.into();
        let id = whole["id"].as_str().unwrap().to_owned();
        whole["object"] = "response".into();
        whole["id"] = "resp_1".into();
        match (asked.method.as_str(), asked.path.rsplit('/').next()) {
            ("POST", Some("responses")) => {
                whole["status"] = "queued".into();
                whole["output"] = json!([]);
            }
            ("DELETE", _) => whole = json!({ "id": "resp_1", "deleted": true }),
            (_, Some("input_items")) => whole = json!({ "object": "list", "data": [] }),
            _ if asked.query.contains("stream=true") => {
                let events = Family::Responses.events(&parts).replace(&id, "resp_1");
                return respond(200, "text/event-stream", events);
            }
            _ => (),
        }
        respond(200, "application/json", whole.to_string())
    })
    .await
}

/// Creates the response `resp_1`.
async fn create(agent: &Agent) {
    let background = json!({ "store": true, "background": true });
    let body = request_with(Family::Responses, &background);
    let answer = agent.post(Family::Responses.path(false), body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn only_the_caller_that_created_a_response_uses_it() {
    for config in ["", NO_OP_HOOK, REDACT] {
        let upstream = upstream_in_background(vec![Part::text(&["ok"])]).await;
        let config = format!("{TWO_CALLERS}{config}{STORED_METHODS}");
        let gateway = Family::Responses.gateway(&upstream, &config).await;
        let [a, b] = callers(&gateway);
        create(&a).await;
        let methods = [
            ("GET", ""),
            ("GET", "?stream=true"),
            ("GET", "/input_items"),
            ("POST", "/cancel"),
            ("DELETE", ""),
        ];
        for (method, end) in methods {
            for (agent, id) in [(&b, "resp_1"), (&a, "resp_2")] {
                let path = format!("/v1/responses/{id}{end}");
                let answer = agent.ask(method, &path, "").await;
                assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text());
                let error = &answer.json()["error"];
                assert!(error["message"].is_string(), "{}", answer.text());
                assert_eq!(error["code"], "UNKNOWN_RESPONSE", "{}", answer.text());
                assert_eq!(upstream.requests().len(), 1);
            }
        }
        for (number, (method, end)) in (2..).zip(methods) {
            let path = format!("/v1/responses/resp_1{end}");
            let answer = a.ask(method, &path, "").await;
            assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
            let requests = upstream.requests();
            assert_eq!(requests.len(), number);
            let asked = requests.last().unwrap();
            assert_eq!((asked.method.as_str(), asked.body.as_str()), (method, ""));
        }
        // It is deleted.
        let answer = a.get("/v1/responses/resp_1").await;
        assert_eq!(answer.status, 404, "{}", answer.text());
    }
}

#[tokio::test]
async fn a_retrieved_or_cancelled_response_is_inspected_like_a_created_one() {
    let hooks = hook::config(&[("AfterModel", hook::command("see", NO_OP_COMMAND))]);
    let config = format!("{hooks}{REDACT}{STORED_METHODS}");
    let upstream = upstream_in_background(vec![Part::text(&["key ", SECRET])]).await;
    let gateway = Family::Responses.gateway(&upstream, &config).await;
    let agent = gateway.agent();
    create(&agent).await;
    for (method, end) in [("GET", ""), ("GET", "?stream=true"), ("POST", "/cancel")] {
        let path = format!("/v1/responses/resp_1{end}");

        let answer = agent.ask(method, &path, "").await;

        let parsed = Family::Responses.parse(end.contains("stream"), &answer);
        assert!(parsed.text.starts_with("key "), "{path}: {parsed:?}");
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
        let hooks = answer.header("x-hookgate-hooks");
        assert!(end.contains("stream") || hooks.contains("see;"), "{hooks}");
    }
    // A part of a stream cannot be inspected.
    let path = "/v1/responses/resp_1?stream=true&starting_after=3";
    let answer = agent.get(path).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(
        answer.text().contains("starting_after"),
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn a_denied_call_of_a_retrieved_response_ends_it_with_the_reason() {
    let hooks = hook::config(&[(
        "BeforeTool",
        hook::command("guard", "echo no rm >&2; exit 2"),
    )]);
    let guard = "policies: [{ policy: tool_guard, deny: [rm], reason: no rm }]\n".to_owned();
    for config in [hooks, guard] {
        let parts = vec![Part::text(&["I remove"]), Part::call("rm", "/")];
        let upstream = upstream_in_background(parts).await;
        let config = format!("{config}{STORED_METHODS}");
        let gateway = Family::Responses.gateway(&upstream, &config).await;
        let agent = gateway.agent();
        create(&agent).await;
        for (method, end) in [("GET", ""), ("GET", "?stream=true"), ("POST", "/cancel")] {
            let is_stream = end.contains("stream");
            let before = upstream.requests().len();

            let path = format!("/v1/responses/resp_1{end}");
            let answer = agent.ask(method, &path, "").await;

            let parsed = Family::Responses.parse(is_stream, &answer);
            assert!(parsed.calls.is_empty(), "{parsed:?}");
            assert!(parsed.text.contains("I remove"), "{parsed:?}");
            assert!(parsed.text.contains("no rm"), "{parsed:?}");
            assert_eq!(upstream.requests().len(), before + 1);
            if !is_stream {
                let response = answer.json();
                let fields = ["id", "model", "created_at", "background", "status"];
                let fields = fields.map(|field| response[field].clone());
                assert_eq!(json!(fields), json!(["resp_1", "m", 1, true, "completed"]));
            }
        }
    }
}

#[tokio::test]
async fn a_response_is_continued_once_its_caller_has_retrieved_its_end() {
    let upstream = upstream_in_background(vec![Part::text(&["ok"])]).await;
    let config = format!("{NO_OP_HOOK}coverage: {{ allow: [\"responses.*\"] }}\n");
    let gateway = Family::Responses.gateway(&upstream, &config).await;
    let agent = gateway.agent();
    create(&agent).await;
    assert_eq!(continue_from(&agent, "resp_1", json!({})).await.status, 400);
    assert_eq!(agent.get("/v1/responses/resp_1").await.status, 200);
    assert_eq!(continue_from(&agent, "resp_1", json!({})).await.status, 200);
}

#[test]
fn check_warns_about_names_that_need_stored_responses_if_none_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let config = "upstreams: { openai: { url: https://example.org } }\n\
        coverage: { store: never, allow: [responses.background, openai_api.files.create] }\n";
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());
    assert_eq!(code, 0, "{stderr}");
    let expected = "`responses.background` needs stored responses, but `coverage.store` is `never`";
    assert!(stderr.contains(expected), "{stderr}");
    assert_eq!(stderr.matches("warning").count(), 1, "{stderr}");
}

#[tokio::test]
async fn a_list_of_texts_to_embed_or_moderate_is_no_reference() {
    for setting in [
        "allow: [responses.state]",
        "allow: [responses.retrieve]",
        "compaction: known",
    ] {
        let upstream = Upstream::answering(&json!({ "data": [] })).await;
        let config = format!("{TWO_CALLERS}{REDACT}coverage: {{ {setting} }}\n");
        let gateway = Family::Responses.gateway(&upstream, &config).await;
        let [agent, _] = callers(&gateway);
        let body = json!({ "model": "m", "input": ["a", "b"] }).to_string();

        for path in ["/v1/embeddings", "/v1/moderations"] {
            let answer = agent.post(path, body.clone()).await;

            assert_eq!(answer.status, 200, "{setting}, {path}: {}", answer.text());
        }
        let asked = upstream.requests();
        assert!(asked.iter().all(|asked| asked.body == body));
    }
}
