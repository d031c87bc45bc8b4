//! Calls that have not ended.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::{MODEL, calls, until};
use crate::harness::{
    Browser, TestGateway, Upstream, chunked_head, closed, piece, prompt, write_chunk,
};

const CHUNK: &str = "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"a\"}]}}]}\r\n\r\n";

/// A model API whose stream never ends.
async fn endless() -> Upstream {
    Upstream::raw(move |_, mut socket| async move {
        let head = chunked_head("text/event-stream");
        socket.write_all(head.as_bytes()).await.unwrap();
        write_chunk(&mut socket, CHUNK.as_bytes()).await.unwrap();
        closed(&mut socket).await;
    })
    .await
}

fn has_calls(count: usize) -> impl Fn(&Value) -> bool {
    move |found| found["calls"].as_array().map(Vec::len) == Some(count)
}

#[tokio::test]
async fn a_call_is_listed_from_its_head_to_its_end() {
    for config in [
        "",
        "policies: [{ policy: prompt_guard, deny: [forbidden] }]\n",
    ] {
        let upstream = endless().await;
        let gate = TestGateway::start(&upstream, config).await;
        let path = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");

        let mut stream = gate.agent().open(&path, prompt("hello").to_string()).await;
        piece(&mut stream).await;

        let operator = gate.operator();
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
        let page = Browser::at(&gate).get("/console/calls").await.html;
        assert!(page.contains("1 of 1 calls in flight match"), "{page}");
        assert!(page.contains("200, streams"), "{page}");
        assert_eq!(operator.get("/calls").await.json()["calls"], json!([]));

        drop(stream);
        let ended = until(&operator, "/calls/in_flight", has_calls(0)).await;
        assert_eq!(ended["total"], 0);
        calls(&gate, "", 1).await;
    }
}

#[tokio::test]
async fn calls_in_flight_are_filtered_by_what_is_known_of_them() {
    let upstream = endless().await;
    let gate = TestGateway::start(&upstream, "").await;
    let path = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");
    let mut stream = gate.agent().open(&path, prompt("hello").to_string()).await;
    piece(&mut stream).await;
    let operator = gate.operator();
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
