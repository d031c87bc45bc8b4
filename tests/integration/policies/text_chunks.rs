//! Text-only stream chunks, for which no document is built, and content hidden among them.

use super::MODEL;
use crate::harness::{TestGateway, Upstream, prompt, respond};

const GUARDS: &str = "policies:\n\
    - { policy: model_allow, models: [gemini-*] }\n\
    - { policy: tool_guard, name: tools, deny: [rm] }\n";

fn text_chunk(text: &str) -> String {
    format!(
        r#"{{"candidates": [{{"content":{{"parts":[{{"text":"{text}"}}],"role":"model"}},"index":0}}],"modelVersion":"gemini-2.5-pro-001"}}"#
    )
}

/// An upstream that streams these events in one write.
async fn upstream_streaming(events: &[String]) -> Upstream {
    let events: Vec<String> = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let events = events.concat();
    Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await
}

/// The body that the agent receives, and whether it ended cleanly.
async fn receive(gateway: &TestGateway) -> (String, bool) {
    let path = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");
    let agent = gateway.agent();
    let answer = agent.try_open(&path, prompt("go").to_string());
    let mut received = Vec::new();
    // A broken connection may lose data in flight, even the response headers.
    let Ok(mut answer) = answer.await else {
        return (String::new(), false);
    };
    loop {
        match answer.chunk().await {
            Ok(Some(piece)) => received.extend(piece),
            end => return (String::from_utf8(received).unwrap(), end.is_ok()),
        }
    }
}

#[tokio::test]
async fn text_chunks_are_forwarded_unchanged_and_counted() {
    let mut events: Vec<String> = ["one ", "t\\u0077o\\n ", "", " drei\u{e9}"]
        .map(text_chunk)
        .into();
    events.push(text_chunk(" end").replace("\"index\"", "\"finishReason\":\"STOP\",\"index\""));
    let upstream = upstream_streaming(&events).await;
    let gateway = TestGateway::start(&upstream, GUARDS).await;

    let (received, is_clean) = receive(&gateway).await;

    let expected: Vec<String> = events
        .iter()
        .map(|event| format!("data: {event}\r\n\r\n"))
        .collect();
    assert_eq!((received, is_clean), (expected.concat(), true));
    let metrics = gateway.operator().get("/metrics").await;
    let line = r#"hookgate_hook_runs_total{event="AfterModel",hook="tools",status="ok"} 5"#;
    assert!(metrics.text().contains(line), "{}", metrics.text());
}

#[tokio::test]
async fn denied_content_among_text_chunks_is_blocked() {
    let part = |part: &str| text_chunk("x").replace(r#"{"text":"x"}"#, part);
    let call = |key: &str| part(&format!(r#"{{"text":"x","{key}":{{"name":"rm"}}}}"#));
    let other = text_chunk("rm ").replace("gemini-2.5-pro-001", "other-model");
    let removed = [
        call("functionCall"),
        call("function_call"),
        call("function\\u0043all"),
        other,
    ];
    let unreadable = [
        call("FunctionCall"),
        part(r#"{"text":"x","te\u0078t":"rm"}"#),
        text_chunk("rm").replacen('{', "{\"candidates\":[],", 1),
        text_chunk("rm").replace("\"parts\"", "\"Parts\""),
        format!("\u{feff}{}", text_chunk("rm")),
        format!("{}{}", text_chunk("rm"), text_chunk("rm")),
        text_chunk("rm").replace("\"index\":0}", "\"index\":0"),
    ];
    let cases = removed.into_iter().map(|chunk| (chunk, true));
    for (chunk, ends_well) in cases.chain(unreadable.into_iter().map(|chunk| (chunk, false))) {
        let events = [
            text_chunk("one "),
            text_chunk("two "),
            chunk.clone(),
            text_chunk("three "),
        ];
        let upstream = upstream_streaming(&events).await;
        let gateway = TestGateway::start(&upstream, GUARDS).await;

        let (received, is_clean) = receive(&gateway).await;

        assert!(
            (received.contains("two ") || !ends_well) && !received.contains("\"rm"),
            "{chunk}: {received}"
        );
        assert_eq!(is_clean, ends_well, "{chunk}: {received}");
    }
}

#[tokio::test]
async fn a_secret_split_over_text_chunks_is_masked_or_denied() {
    let chunks = ["to ", "ann", "@exam", "ple.org or ", "to bob ", "at home."].map(text_chunk);
    for action in ["mask", "deny"] {
        let config = format!(
            "policies: [{{ policy: redact, detect: [email], action: {action} }}, {{ policy: tool_guard, deny: [rm] }}]\n"
        );
        let upstream = upstream_streaming(&chunks).await;
        let gateway = TestGateway::start(&upstream, &config).await;

        let answer = gateway.agent().stream(MODEL, &prompt("go")).await;

        let events = answer.events();
        let texts = events
            .iter()
            .map(|event| &event["candidates"][0]["content"]["parts"][0]["text"]);
        let text: String = texts.filter_map(|text| text.as_str()).collect();
        let expected = match action {
            "mask" => "to [REDACTED:email] or to bob at home.",
            _ => "to Not allowed here: email.",
        };
        assert_eq!(text.replace("\n\n", ""), expected);
    }
}

#[tokio::test]
async fn an_observing_policy_does_not_change_text_chunks() {
    let chunks = ["to ann", "@example.org ", "or bob"].map(text_chunk);
    let config = "policies: [{ policy: redact, detect: [email], mode: observe }]\n";
    let upstream = upstream_streaming(&chunks).await;
    let gateway = TestGateway::start(&upstream, config).await;

    let answer = gateway.agent().stream(MODEL, &prompt("go")).await;

    let expected: Vec<String> = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\r\n\r\n"))
        .collect();
    assert_eq!(answer.text(), expected.concat());
}
