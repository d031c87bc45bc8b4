//! Stored responses and compaction items of the Responses API: limited to the caller that received
//! them.

use serde_json::{Value, json};

use super::{
    NO_OP_COMMAND, NO_OP_HOOK,
    family::{Family, Part, Turn},
    model_api, request_with,
};
use crate::harness::{Agent, Answer, TestGateway, Upstream, hook, respond};

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
