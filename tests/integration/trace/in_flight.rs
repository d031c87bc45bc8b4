//! Calls in flight in the live trace, with the hooks that they wait for.

use std::fs;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::{MODEL, calls, until};
use crate::harness::{
    Browser, TestGateway, Upstream, chunked_head, hook, next_chunk, prompt, wait_until_closed,
    write_chunk,
};

const CHUNK: &str = "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"a\"}]}}]}\r\n\r\n";

/// Starts a model API whose stream never ends.
async fn endless_upstream() -> Upstream {
    Upstream::raw(move |_, mut socket| async move {
        let head = chunked_head("text/event-stream");
        socket.write_all(head.as_bytes()).await.unwrap();
        write_chunk(&mut socket, CHUNK.as_bytes()).await.unwrap();
        wait_until_closed(&mut socket).await;
    })
    .await
}

fn has_calls(count: usize) -> impl Fn(&Value) -> bool {
    move |found| found["calls"].as_array().map(Vec::len) == Some(count)
}

#[tokio::test]
async fn a_call_is_in_the_in_flight_list_until_it_ends() {
    for config in [
        "",
        "policies: [{ policy: prompt_guard, deny: [forbidden] }]\n",
    ] {
        let upstream = endless_upstream().await;
        let gateway = TestGateway::start(&upstream, config).await;
        let path = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");

        let mut stream = gateway
            .agent()
            .open(&path, prompt("hello").to_string())
            .await;
        next_chunk(&mut stream).await;

        let operator = gateway.operator();
        let found = until(&operator, "/calls/in_flight", has_calls(1)).await;
        let call = &found["calls"][0];
        assert_eq!(found["total"], 1);
        assert_eq!(
            call["id"],
            stream.headers()["x-hookgate-request-id"].to_str().unwrap()
        );
        assert_eq!(
            [
                &call["model"],
                &call["method"],
                &call["status"],
                &call["action"]
            ],
            [
                &json!(MODEL),
                &json!("streamGenerateContent"),
                &json!(200),
                &json!("pass")
            ],
            "{found:#}"
        );
        assert!(call["elapsed_us"].as_u64() > Some(0));
        let page = Browser::at(&gateway).get("/console/calls").await.html;
        assert!(page.contains("1 of 1 calls in flight match"), "{page}");
        assert!(page.contains("200, streams"), "{page}");
        assert_eq!(operator.get("/calls").await.json()["calls"], json!([]));
        let path = format!("/console/calls/{}", call["id"].as_str().unwrap());
        let page = Browser::at(&gateway).get(&path).await.html;
        assert!(page.contains("the call is in flight"), "{page}");

        drop(stream);
        let ended = until(&operator, "/calls/in_flight", has_calls(0)).await;
        assert_eq!(ended["total"], 0);
        calls(&gateway, "", 1).await;
    }
}

#[tokio::test]
async fn calls_in_flight_can_be_filtered_and_unknown_filters_are_rejected() {
    let upstream = endless_upstream().await;
    let gateway = TestGateway::start(&upstream, "").await;
    let path = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");
    let mut stream = gateway
        .agent()
        .open(&path, prompt("hello").to_string())
        .await;
    next_chunk(&mut stream).await;
    let operator = gateway.operator();
    until(&operator, "/calls/in_flight", has_calls(1)).await;

    for (query, count) in [
        (format!("model={MODEL}"), 1),
        ("since=1h&verdict=pass".to_owned(), 1),
        ("model=other".to_owned(), 0),
        ("rule=guard".to_owned(), 0),
    ] {
        let found = operator
            .get(&format!("/calls/in_flight?{query}"))
            .await
            .json();
        assert!(has_calls(count)(&found), "{query}: {found:#}");
        assert_eq!(found["total"], 1);
    }
    let wrong = operator.get("/calls/in_flight?colour=red").await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test]
async fn a_call_in_flight_has_the_key_of_a_caller_without_a_name() {
    let upstream = endless_upstream().await;
    let gateway = TestGateway::start(
        &upstream,
        "policies: [{ policy: prompt_guard, deny: [forbidden] }]\n",
    )
    .await;
    let agent = gateway.agent().sending("x-goog-api-key", "k1");
    let path = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");
    let mut stream = agent.open(&path, prompt("hello").to_string()).await;
    next_chunk(&mut stream).await;

    let found = until(&gateway.operator(), "/calls/in_flight", has_calls(1)).await;
    let page = Browser::at(&gateway).get("/console/calls").await.html;
    drop(stream);
    let ended = calls(&gateway, "", 1).await;

    let key = found["calls"][0]["caller_key"].as_str().unwrap();
    assert_eq!(key.len(), 16, "{found:#}");
    assert_eq!(ended["calls"][0]["caller_key"], key, "{ended:#}");
    assert!(page.contains(&format!("<td>{key}</td>")), "{page}");
}

#[tokio::test]
async fn a_call_in_flight_has_the_hooks_that_it_waits_for() {
    let waits = "until test -e go; do sleep 0.02; done";
    for (event, path) in [
        ("BeforeModel", "generateContent"),
        ("AfterModel", "streamGenerateContent?alt=sse"),
    ] {
        let upstream = Upstream::mock().await;
        let hooks = hook::config(&[
            (event, hook::command("fast", "exit 0")),
            (event, hook::command("slow", waits)),
        ]);
        let gateway = TestGateway::start(&upstream, &hooks).await;
        let (agent, operator) = (gateway.agent(), gateway.operator());
        let path = format!("/v1beta/models/{MODEL}:{path}");
        let call = tokio::spawn(async move { agent.post(&path, prompt("hi").to_string()).await });

        let waits_for_slow = |found: &Value| {
            let waits_for = &found["calls"][0]["waits_for"];
            waits_for["event"] == event && waits_for["hooks"] == json!(["slow"])
        };
        let found = until(&operator, "/calls/in_flight", waits_for_slow).await;
        let page = Browser::at(&gateway).get("/console/calls").await.html;
        fs::write(gateway.path("go"), "").unwrap();

        assert!(found["calls"][0]["waits_for"]["elapsed_us"].as_u64() > Some(0));
        assert!(page.contains(&format!("waits for {event} hooks")), "{page}");
        assert_eq!(call.await.unwrap().status, 200);
    }
}
