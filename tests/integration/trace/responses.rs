//! Tokens and chunks of responses that policies and hooks do not change.

use serde_json::json;

use super::{MODEL, calls, event, record, rule, text_answer};
use crate::harness::{TestGateway, Upstream, hook, prompt, respond};

#[tokio::test]
async fn tokens_of_uninspected_responses_are_recorded() {
    let upstream = Upstream::with(|asked| {
        let answer = text_answer("Hello.").to_string();
        if asked.query.contains("alt=sse") {
            let chunk = text_answer("Hel")
                .to_string()
                .replace("\"totalTokenCount\":9", "\"totalTokenCount\":8");
            let events = format!("data: {chunk}\r\n\r\ndata: {answer}\r\n\r\n");
            respond(200, "text/event-stream", events)
        } else {
            respond(200, "application/json", answer)
        }
    })
    .await;
    let requests_only = hook::config(&[("BeforeModel", hook::command("look", "true"))]);
    for config in ["", &requests_only] {
        let gateway = TestGateway::start(&upstream, config).await;
        let agent = gateway.agent();

        agent.generate(MODEL, &prompt("hello")).await;
        agent.stream(MODEL, &prompt("hello")).await;

        let list = calls(&gateway, "", 2).await;
        for call in list["calls"].as_array().unwrap() {
            assert_eq!(call["tokens"], 9, "{call:#}");
        }
        let id = list["calls"][0]["id"].as_str().unwrap();
        let record = record(&gateway, id).await;
        assert_eq!(
            record["tokens"],
            json!({ "prompt": 7, "cached": 0, "candidates": 2, "total": 9 })
        );
    }
}

#[tokio::test]
async fn a_response_without_token_counts_is_recorded_without_tokens() {
    let upstream = Upstream::answering(&json!({ "candidates": [] })).await;
    let gateway = TestGateway::start(&upstream, "").await;

    gateway.agent().generate(MODEL, &prompt("hello")).await;

    let list = calls(&gateway, "", 1).await;
    assert_eq!(list["calls"][0]["tokens"], json!(null));
}

#[tokio::test]
async fn a_policy_that_inspects_no_responses_did_not_run_on_one() {
    let upstream = Upstream::answering(&text_answer("Hello.")).await;
    let config = "policies: [{ policy: request_limits, name: lim, max_input: 1MiB }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let agent = gateway.agent();

    let whole = agent.generate(MODEL, &prompt("hello")).await;
    let stream = agent.stream(MODEL, &prompt("hello")).await;

    for answer in [whole, stream] {
        let record = record(&gateway, answer.header("x-hookgate-request-id")).await;
        let lim = rule(event(&record, "AfterModel"), "lim");
        assert_eq!(lim["asked"], false, "{lim:#}");
        assert_eq!(lim["because"], "no_responses", "{lim:#}");
        let asked = &rule(event(&record, "BeforeModel"), "lim")["asked"];
        assert_eq!(asked, true, "{record:#}");
    }
}

#[tokio::test]
async fn policy_durations_include_every_chunk_of_a_stream() {
    const CHUNKS: u64 = 100;
    let upstream = Upstream::with(|_| {
        // The first chunk takes too little time to measure; a former bug measured only that one.
        let texts = (0..CHUNKS).map(|number| match number {
            0 => "a".to_owned(),
            _ => "some ordinary words, ".repeat(1000),
        });
        let events = texts.map(|text| format!("data: {}\r\n\r\n", text_answer(&text)));
        let events = events.collect::<Vec<_>>().concat();
        respond(200, "text/event-stream", events)
    })
    .await;
    let config = "policies: [{ policy: redact, name: mask, detect: [email, aws_key] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;

    let answer = gateway.agent().stream(MODEL, &prompt("hello")).await;

    let record = record(&gateway, answer.header("x-hookgate-request-id")).await;
    let mask = rule(event(&record, "AfterModel"), "mask");
    assert!(mask["runs"].as_u64() >= Some(CHUNKS), "{mask:#}");
    let duration = mask["duration_us"].as_u64().unwrap();
    assert!(duration > 1000, "{mask:#}");
    let times = &record["detail"]["times"];
    assert!(times["hooks_us"].as_u64() >= Some(duration), "{times}");
    let rules = gateway.operator().get("/rules").await.json();
    assert!(rules[0]["p50_us"].as_u64() > Some(0), "{rules:#}");
}

#[tokio::test]
async fn durations_of_policies_on_an_answer_are_summed() {
    let text = "some ordinary words, ".repeat(200_000);
    let upstream = Upstream::answering(&text_answer(&text)).await;
    let config = "policies:\n\
        \x20 - { policy: redact, name: one, on: [answer], detect: [email, aws_key] }\n\
        \x20 - { policy: redact, name: two, on: [answer], detect: [email, aws_key] }\n";
    let gateway = TestGateway::start(&upstream, config).await;

    let answer = gateway.agent().generate(MODEL, &prompt("hello")).await;

    let record = record(&gateway, answer.header("x-hookgate-request-id")).await;
    let inspected = event(&record, "AfterModel");
    let durations = ["one", "two"].map(|name| rule(inspected, name)["duration_us"].as_u64());
    let [Some(one), Some(two)] = durations else {
        panic!("{inspected:#}");
    };
    assert!(one > 1000 && two > 1000, "{inspected:#}");
    let times = &record["detail"]["times"];
    assert!(times["hooks_us"].as_u64() >= Some(one + two), "{times}");
}

#[tokio::test]
async fn text_that_is_only_held_back_is_no_edit_of_the_answer() {
    let upstream = Upstream::with(|_| {
        let texts = ["hello th", "ere, wri", "te to bob@", "example.com"];
        let events = texts.map(|text| format!("data: {}\r\n\r\n", text_answer(text)));
        respond(200, "text/event-stream", events.concat())
    })
    .await;
    for (detector, is_edited) in [("aws_key", false), ("email", true)] {
        let config = format!("policies: [{{ policy: redact, detect: [{detector}] }}]\n");
        let gateway = TestGateway::start(&upstream, &config).await;

        let answer = gateway.agent().stream(MODEL, &prompt("hello")).await;

        let id = answer.header("x-hookgate-request-id");
        record(&gateway, id).await;
        let operator = gateway.operator();
        let calls = operator.get("/calls").await.json();
        assert_eq!(calls["calls"][0]["edited_answer"], is_edited, "{calls:#}");
        let found = operator.get("/calls?edited=answer").await.json();
        let found = found["calls"].as_array().unwrap();
        assert_eq!(!found.is_empty(), is_edited, "{detector}");
    }
}

#[tokio::test]
async fn events_of_an_answer_are_recorded_behind_the_request_and_only_if_there_is_one() {
    let html = "<html>bad</html>";
    let good = text_answer("hello").to_string();
    let answers = [
        (502, "text/html", html.to_owned()),
        (200, "text/html", html.to_owned()),
        (200, "application/json", good),
    ];
    let config = format!(
        "policies: [{{ policy: redact, name: mask, detect: [email] }}]\n{}",
        hook::config(&[("AfterModel", hook::command("look", "cat > /dev/null"))])
    );
    for (status, media_type, body) in answers {
        let is_good = media_type == "application/json";
        let upstream = Upstream::with(move |_| respond(status, media_type, body.clone())).await;
        let gateway = TestGateway::start(&upstream, &config).await;

        let answer = gateway.agent().generate(MODEL, &prompt("hello")).await;

        let record = record(&gateway, answer.header("x-hookgate-request-id")).await;
        let events = record["detail"]["events"].as_array().unwrap();
        let has_event = events.iter().any(|event| event["event"] == "AfterModel");
        assert_eq!(has_event, is_good, "{record:#}");
        assert_eq!(record["rounds"], 1, "{record:#}");
        if is_good {
            let round = &record["detail"]["upstream_rounds"][0];
            let after = event(&record, "AfterModel");
            assert!(
                after["at_us"].as_u64() >= round["answered_us"].as_u64(),
                "{record:#}"
            );
            // Policies run before the hooks and behind them.
            assert_eq!(rule(after, "mask")["runs"], 2, "{record:#}");
        }
    }
}
