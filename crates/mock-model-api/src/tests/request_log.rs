//! Requests that the mock recorded.

use axum::{Router, body::Body, http::Request};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::{EVENTS, mock, prompt, send, text};

async fn seen(mock: &Router) -> Vec<Value> {
    let list = text(send(mock, "GET", "/__requests", String::new()).await).await;
    serde_json::from_str(&list).unwrap()
}

#[tokio::test]
async fn requests_are_recorded_unchanged_until_they_are_deleted() {
    let mock = mock();
    let request = Request::post(EVENTS)
        .header("X-Twice", "a")
        .header("X-Twice", "b");
    let request = request.body(Body::from("{ \"contents\" : 1.0 }")).unwrap();

    text(mock.clone().oneshot(request).await.unwrap()).await;
    text(send(&mock, "PUT", "/else", "no json".to_owned()).await).await;
    let requests = seen(&mock).await;
    send(&mock, "DELETE", "/__requests", String::new()).await;

    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0]["method"], "POST");
    assert_eq!(
        requests[0]["path"],
        "/v1beta/models/m:streamGenerateContent"
    );
    assert_eq!(requests[0]["query"], "alt=sse");
    assert_eq!(requests[0]["headers"]["x-twice"], "a, b");
    assert_eq!(requests[0]["body_text"], "{ \"contents\" : 1.0 }");
    assert_eq!(requests[0]["body"].to_string(), r#"{"contents":1.0}"#);
    assert_eq!(requests[1]["body"], "no json");
    assert_eq!(requests[1]["finished"], true);
    assert!(seen(&mock).await.is_empty());
}

#[tokio::test]
async fn old_requests_are_dropped_when_bodies_are_large() {
    let mock = mock();
    let large = "x".repeat(40 * 1024 * 1024);

    send(&mock, "POST", "/first", large.clone()).await;
    send(&mock, "POST", "/second", large).await;

    let paths: Vec<_> = seen(&mock)
        .await
        .iter()
        .map(|request| request["path"].clone())
        .collect();
    assert_eq!(paths, ["/second"]);
}

#[tokio::test]
async fn a_stream_of_a_disconnected_agent_is_recorded_as_unfinished() {
    let mock = mock();

    let mut body = send(&mock, "POST", EVENTS, prompt("hi").to_string())
        .await
        .into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    text(send(&mock, "POST", EVENTS, prompt("hi").to_string()).await).await;

    let finished: Vec<_> = seen(&mock)
        .await
        .iter()
        .map(|request| request["finished"].clone())
        .collect();
    assert_eq!(finished, [false, true]);
}
