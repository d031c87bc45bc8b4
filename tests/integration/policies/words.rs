//! Chunks that say texts and nothing else, of which no document is made, and what
//! hides among them.

use super::MODEL;
use crate::harness::{TestGateway, Upstream, prompt, respond};

const GUARDS: &str = "policies:\n\
    - { policy: model_allow, models: [gemini-*] }\n\
    - { policy: tool_guard, name: tools, deny: [rm] }\n";

fn words(text: &str) -> String {
    format!(
        r#"{{"candidates": [{{"content":{{"parts":[{{"text":"{text}"}}],"role":"model"}},"index":0}}],"modelVersion":"gemini-2.5-pro-001"}}"#
    )
}

/// A model whose answer is these events, in one piece.
async fn saying(events: &[String]) -> Upstream {
    let events: Vec<String> = events.iter().map(|it| format!("data: {it}\n\n")).collect();
    let events = events.concat();
    Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await
}

/// What the agent is given, and whether that came to a clean end.
async fn heard(gate: &TestGateway) -> (String, bool) {
    let path = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");
    let agent = gate.agent();
    let answer = agent.try_to_open(&path, prompt("go").to_string());
    let mut heard = Vec::new();
    // What is on its way when a connection breaks may be lost, the head, too.
    let Ok(mut answer) = answer.await else {
        return (String::new(), false);
    };
    loop {
        match answer.chunk().await {
            Ok(Some(piece)) => heard.extend(piece),
            end => return (String::from_utf8(heard).unwrap(), end.is_ok()),
        }
    }
}

#[tokio::test]
async fn words_go_on_as_they_came_and_each_chunk_is_counted() {
    let mut said: Vec<String> = ["one ", "t\\u0077o\\n ", "", " drei\u{e9}"]
        .map(words)
        .into();
    said.push(words(" end").replace("\"index\"", "\"finishReason\":\"STOP\",\"index\""));
    let upstream = saying(&said).await;
    let gate = TestGateway::start(&upstream, GUARDS).await;

    let (heard, is_clean) = heard(&gate).await;

    let sent: Vec<String> = said
        .iter()
        .map(|it| format!("data: {it}\r\n\r\n"))
        .collect();
    assert_eq!((heard, is_clean), (sent.concat(), true));
    let counted = gate.operator().get("/metrics").await;
    let line = r#"hookgate_hook_runs_total{event="AfterModel",hook="tools",status="ok"} 5"#;
    assert!(counted.text().contains(line), "{}", counted.text());
}

#[tokio::test]
async fn what_hides_among_words_is_judged() {
    let part = |part: &str| words("x").replace(r#"{"text":"x"}"#, part);
    let call = |key: &str| part(&format!(r#"{{"text":"x","{key}":{{"name":"rm"}}}}"#));
    let other = words("rm ").replace("gemini-2.5-pro-001", "other-model");
    let taken_out = [
        call("functionCall"),
        call("function_call"),
        call("function\\u0043all"),
        other,
    ];
    let unreadable = [
        call("FunctionCall"),
        part(r#"{"text":"x","te\u0078t":"rm"}"#),
        words("rm").replacen('{', "{\"candidates\":[],", 1),
        words("rm").replace("\"parts\"", "\"Parts\""),
        format!("\u{feff}{}", words("rm")),
        format!("{}{}", words("rm"), words("rm")),
        words("rm").replace("\"index\":0}", "\"index\":0"),
    ];
    let odd = taken_out.into_iter().map(|it| (it, true));
    for (odd, ends_well) in odd.chain(unreadable.into_iter().map(|it| (it, false))) {
        let said = [words("one "), words("two "), odd.clone(), words("three ")];
        let upstream = saying(&said).await;
        let gate = TestGateway::start(&upstream, GUARDS).await;

        let (heard, is_clean) = heard(&gate).await;

        assert!(
            (heard.contains("two ") || !ends_well) && !heard.contains("\"rm"),
            "{odd}: {heard}"
        );
        assert_eq!(is_clean, ends_well, "{odd}: {heard}");
    }
}

#[tokio::test]
async fn a_secret_in_the_middle_of_words_is_masked_and_words_after_it_go_on() {
    let said = ["to ", "ann", "@exam", "ple.org or ", "to bob ", "at home."].map(words);
    for action in ["mask", "deny"] {
        let config = format!(
            "policies: [{{ policy: redact, detect: [email], action: {action} }}, {{ policy: tool_guard, deny: [rm] }}]\n"
        );
        let upstream = saying(&said).await;
        let gate = TestGateway::start(&upstream, &config).await;

        let answer = gate.agent().stream(MODEL, &prompt("go")).await;

        let events = answer.events();
        let texts = events
            .iter()
            .map(|it| &it["candidates"][0]["content"]["parts"][0]["text"]);
        let text: String = texts.filter_map(|it| it.as_str()).collect();
        let told = match action {
            "mask" => "to [REDACTED:email] or to bob at home.",
            _ => "to Not allowed here: email.",
        };
        assert_eq!(text.replace("\n\n", ""), told);
    }
}

#[tokio::test]
async fn who_only_observes_changes_no_words() {
    let said = ["to ann", "@example.org ", "or bob"].map(words);
    let config = "policies: [{ policy: redact, detect: [email], mode: observe }]\n";
    let upstream = saying(&said).await;
    let gate = TestGateway::start(&upstream, config).await;

    let answer = gate.agent().stream(MODEL, &prompt("go")).await;

    let sent: Vec<String> = said
        .iter()
        .map(|it| format!("data: {it}\r\n\r\n"))
        .collect();
    assert_eq!(answer.text(), sent.concat());
}
