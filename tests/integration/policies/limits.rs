//! `request_limits`: limits on parameters, request size, calls and tokens.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{Agent, TestGateway, Upstream, hook, prompt, respond};

fn prompt_with_config(config: &Value) -> Value {
    let mut body = prompt("hi");
    body["generationConfig"] = config.clone();
    body
}

#[tokio::test]
async fn parameters_are_clamped_to_their_limits_or_set_if_missing() {
    let upstream = Upstream::mock().await;
    let config =
        "policies: [{ policy: request_limits, max_output_tokens: 100, max_temperature: 0.5 }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let agent = gateway.agent();

    for parameters in [
        json!({ "maxOutputTokens": 5000, "temperature": 1, "topK": 3 }),
        json!({ "max_output_tokens": 50, "temperature": 0.25 }),
        json!({}),
    ] {
        agent
            .generate(MODEL, &prompt_with_config(&parameters))
            .await;
    }

    let sent: Vec<Value> = upstream
        .requests()
        .iter()
        .map(|request| request.json()["generationConfig"].clone())
        .collect();
    assert_eq!(
        sent[0],
        json!({ "maxOutputTokens": 100, "temperature": 0.5, "topK": 3 })
    );
    assert_eq!(
        sent[1],
        json!({ "max_output_tokens": 50, "temperature": 0.25 })
    );
    assert_eq!(
        sent[2],
        json!({ "maxOutputTokens": 100, "temperature": 0.5 })
    );
}

#[tokio::test]
async fn a_limit_sets_no_parameter_that_the_api_refuses() {
    let messages = |field: &str, value: Value| {
        let mut body = json!({ "model": "m", "max_tokens": 9,
            "messages": [{ "role": "user", "content": "hi" }] });
        body[field] = value;
        ("/v1/messages", body)
    };
    let gemini = |config: &Value| {
        (
            "/v1beta/models/m:generateContent",
            prompt_with_config(config),
        )
    };
    let tokens = |text: &str| gemini(&json!({ "maxOutputTokens": text }));
    let thinking = json!({ "type": "adaptive" });
    let (low, high) = ("max_temperature: 0.5", "max_temperature: 1.5");
    for (limit, (path, body), expected) in [
        (high, messages("max_tokens", json!(9)), Value::Null),
        (low, messages("max_tokens", json!(9)), json!(0.5)),
        (low, messages("thinking", thinking), Value::Null),
        (high, gemini(&json!({})), Value::Null),
        ("max_output_tokens: 100", tokens("50"), json!("50")),
        ("max_output_tokens: 100", tokens("500"), json!(100)),
    ] {
        let upstream = Upstream::mock().await;
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"{{upstream}}\" }}, \
             anthropic: {{ url: \"{{upstream}}\" }} }}\n\
             policies: [{{ policy: request_limits, {limit} }}]\n"
        );
        let gateway = TestGateway::start(&upstream, &config).await;

        gateway.agent().post(path, body.to_string()).await;

        let sent = upstream.only_request().json();
        let config = &sent["generationConfig"];
        let limited = [
            &sent["temperature"],
            &config["temperature"],
            &config["maxOutputTokens"],
        ];
        let limited = limited.into_iter().find(|value| !value.is_null());
        let limited = limited.cloned().unwrap_or_default();
        assert_eq!(limited, expected, "{limit}: {body}");
    }
}

#[tokio::test]
async fn a_parameter_is_limited_in_every_number_form_and_spelling() {
    let upstream = Upstream::mock().await;
    let config =
        "policies: [{ policy: request_limits, max_output_tokens: 100, max_temperature: 0.5 }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let numbers = [
        "99999",
        "1e9",
        "1E400",
        "100.5",
        "-1",
        "0",
        "null",
        "\"99999\"",
        "[7]",
        "true",
    ];

    for number in numbers {
        let body = format!(
            r#"{{"contents":[],"generation_config":{{"max_output_tokens":{number},"temperature":{number}}}}}"#
        );
        gateway.agent().post(&path, body).await;
    }
    for config in [
        r#"{"maxOutputTokens":1,"max_output_tokens":99999}"#,
        r#"{"maxOutputTokens":1,"maxOutputTokens":99999}"#,
        r#""maxOutputTokens""#,
    ] {
        let body = format!(r#"{{"contents":[],"generationConfig":{config}}}"#);
        assert_eq!(
            gateway.agent().post(&path, body).await.status,
            400,
            "{config}"
        );
    }

    let seen = upstream.requests();
    assert_eq!(seen.len(), numbers.len());
    for (request, number) in seen.iter().zip(numbers) {
        let config = &request.json()["generation_config"];
        assert_eq!(config["max_output_tokens"], 100, "{number}");
        let temperature = config["temperature"].as_f64().unwrap();
        assert!((0.0..=0.5).contains(&temperature), "{number}");
    }
}

#[tokio::test]
async fn concurrent_calls_do_not_exceed_the_call_limit() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: request_limits, max_calls: 3 }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let agent = gateway.agent().sending("x-hookgate-session", "one");

    let denials = join_all((0..12).map(|_| is_denied(&agent))).await;

    assert_eq!(denials.into_iter().filter(|denied| !denied).count(), 3);
    assert_eq!(upstream.requests().len(), 3);
}

#[tokio::test]
async fn policies_without_a_name_count_apart() {
    let policies = "policies:\n\
        - { policy: request_limits, max_calls: 2 }\n\
        - { policy: request_limits, max_calls: 3 }\n";
    let hooks = "policies: [{ policy: request_limits, max_calls: 3 }]\n\
        hooks: { BeforeModel: [{ hooks: [\
          { type: builtin, policy: request_limits, max_calls: 2 },\
          { type: builtin, policy: request_limits, max_calls: 3 }] }] }\n";
    for config in [policies, hooks] {
        let upstream = Upstream::mock().await;
        let gateway = TestGateway::start(&upstream, config).await;
        let agent = gateway.agent().sending("x-hookgate-session", "one");

        let denials = [
            is_denied(&agent).await,
            is_denied(&agent).await,
            is_denied(&agent).await,
        ];

        assert_eq!(denials, [false, false, true], "{config}");
    }
}

#[tokio::test]
async fn a_hook_cannot_raise_a_limit() {
    let upstream = Upstream::mock().await;
    let raise = hook::request(&json!({ "config": { "maxOutputTokens": 9000 } }));
    let hooks = hook::config(&[("BeforeModel", hook::printing("raise", &raise))]);
    let config =
        format!("policies: [{{ policy: request_limits, max_output_tokens: 100 }}]\n{hooks}");
    let gateway = TestGateway::start(&upstream, &config).await;

    gateway.agent().generate(MODEL, &prompt("hi")).await;

    let sent = &upstream.only_request().json()["generationConfig"];
    assert_eq!(*sent, json!({ "maxOutputTokens": 100 }));
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(
        &upstream,
        "policies: [{ policy: request_limits, max_input: 1kB }]\n",
    )
    .await;

    let answer = gateway
        .agent()
        .generate(MODEL, &prompt(&"x".repeat(1000)))
        .await;

    assert!(
        answer.text().contains("larger than 1000 bytes"),
        "{}",
        answer.text()
    );
    assert!(upstream.requests().is_empty());
}

async fn is_denied(agent: &Agent) -> bool {
    let answer = agent.generate(MODEL, &prompt("hi")).await;
    answer.header("x-hookgate-action") == "deny"
}

#[tokio::test]
async fn calls_are_counted_by_session_and_caller() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(
        &upstream,
        "policies: [{ policy: request_limits, max_calls: 2 }]\n",
    )
    .await;
    let (one, two) = (
        gateway.agent().sending("x-hookgate-session", "one"),
        gateway.agent().sending("x-hookgate-session", "two"),
    );

    let denials = [
        is_denied(&one).await,
        is_denied(&one).await,
        is_denied(&one).await,
    ];

    assert_eq!(denials, [false, false, true]);
    assert!(!is_denied(&two).await);
    assert!(!is_denied(&one.sending("x-goog-api-key", "k")).await);
    assert_eq!(upstream.requests().len(), 4);
}

#[tokio::test]
async fn tokens_are_counted_once_per_streamed_response() {
    let chunk = |tokens: u64| json!({ "candidates": [{ "content": { "parts": [{ "text": "x" }] } }], "usageMetadata": { "totalTokenCount": tokens } });
    let lines = format!(
        "{}\n",
        json!({ "method": "generateContentStream", "response": [chunk(10), chunk(20), chunk(30)] })
    );
    let upstream = Upstream::scripted(&lines.repeat(4)).await;
    let gateway = TestGateway::start(
        &upstream,
        "policies: [{ policy: request_limits, max_tokens: 60 }]\n",
    )
    .await;
    let agent = gateway.agent().sending("x-hookgate-session", "one");

    let mut actions = Vec::new();
    for _ in 0..3 {
        let answer = agent.stream(MODEL, &prompt("hi")).await;
        actions.push(answer.header("x-hookgate-action").to_owned());
    }

    assert_eq!(actions, ["pass", "pass", "deny"]);
}

#[tokio::test]
async fn tokens_of_a_response_that_is_reported_in_chunks_are_counted_once() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: request_limits, max_tokens: 80 }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let agent = gateway.agent();
    let llm_request = json!({ "model": MODEL, "messages": [{ "role": "user", "content": "hi" }] });
    let is_denied = async || {
        let event = json!({ "hook_event_name": "BeforeModel", "session_id": "s", "llm_request": llm_request });
        agent.report(&event, "").await.json()["decision"] == "deny"
    };
    let report_chunks = async |totals: &[u64]| {
        for total in totals {
            let candidate = json!({ "content": { "role": "model", "parts": ["x"] } });
            let llm_response =
                json!({ "candidates": [candidate], "usageMetadata": { "totalTokenCount": total } });
            let event = json!({ "hook_event_name": "AfterModel", "session_id": "s", "llm_request": llm_request, "llm_response": llm_response });
            assert_eq!(agent.report(&event, "").await.json(), json!({}));
        }
    };

    assert!(!is_denied().await);
    report_chunks(&[10, 20, 30]).await;
    assert!(!is_denied().await);
    // A total may be larger than those of the response before.
    report_chunks(&[40]).await;
    assert!(!is_denied().await);
    report_chunks(&[5, 10]).await;
    assert!(is_denied().await);
}

/// Streams of Chat Completions have a count only if the request asks for one.
#[tokio::test]
async fn a_response_without_a_token_count_is_charged_by_an_estimate() {
    let event = |delta: &Value, reason: &Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        format!(
            "data: {}\n\n",
            json!({ "id": "c", "model": "m", "choices": [choice] })
        )
    };
    let stream = [
        event(
            &json!({ "role": "assistant", "content": "a" }),
            &Value::Null,
        ),
        event(&json!({ "content": " b" }), &json!("stop")),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    let message = json!({ "role": "assistant", "content": "a b" });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
    let whole = json!({ "id": "c", "model": "m", "choices": [choice] }).to_string();
    let upstream = Upstream::with(move |request| {
        if request.json()["stream"] == true {
            respond(200, "text/event-stream", stream.clone())
        } else {
            respond(200, "application/json", whole.clone())
        }
    })
    .await;
    let prompt = "x".repeat(400);
    for (buffered, stream) in [("", true), ("", false), ("after_model: buffered\n", true)] {
        let config = format!(
            "upstreams: {{ openai: {{ url: \"{{upstream}}\" }} }}\n{buffered}\
             policies: [{{ policy: request_limits, max_tokens: 240 }}]\n"
        );
        let gateway = TestGateway::start(&upstream, &config).await;
        let agent = gateway.agent().sending("x-hookgate-session", "one");
        let body = json!({ "model": "m", "stream": stream,
            "messages": [{ "role": "user", "content": prompt }] });

        let mut actions = Vec::new();
        for _ in 0..4 {
            let answer = agent.post("/v1/chat/completions", body.to_string()).await;
            actions.push(answer.header("x-hookgate-action").to_owned());
        }

        let passed = actions.iter().filter(|action| *action == "pass").count();
        assert!((2..4).contains(&passed), "{buffered}{stream}: {actions:?}");
        assert_eq!(actions[3], "deny");
    }
}

#[tokio::test]
async fn token_counts_without_a_total_are_added_up() {
    let message = json!({ "role": "assistant", "content": "a" });
    let answer = json!({
        "id": "c", "model": "m",
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 600, "completion_tokens": 600 },
    });
    let answer = answer.to_string();
    let upstream = Upstream::with(move |_| respond(200, "application/json", answer.clone())).await;
    let config = "upstreams: { openai: { url: \"{upstream}\" } }\n\
                  policies: [{ policy: request_limits, max_tokens: 900 }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let agent = gateway.agent().sending("x-hookgate-session", "one");
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });

    let mut actions = Vec::new();
    for _ in 0..2 {
        let answer = agent.post("/v1/chat/completions", body.to_string()).await;
        actions.push(answer.header("x-hookgate-action").to_owned());
    }

    assert_eq!(actions, ["pass", "deny"]);
}

#[tokio::test]
async fn a_call_is_counted_if_a_hook_makes_the_condition_true() {
    let upstream = Upstream::mock().await;
    let swap = hook::request(&json!({ "model": "other" }));
    let hooks = hook::config(&[("BeforeModel", hook::printing("swap", &swap))]);
    let limit = "{ policy: request_limits, max_calls: 1, when: request.model == \"other\" }";
    let gateway = TestGateway::start(&upstream, &format!("policies: [{limit}]\n{hooks}")).await;
    let agent = gateway.agent().sending("x-hookgate-session", "one");
    let mut event = hook::reported_request(&json!([{ "role": "user", "content": "hi" }]));
    event["session_id"] = "two".into();

    let denials = [is_denied(&agent).await, is_denied(&agent).await];
    let reported = [
        agent.report(&event, "").await.json(),
        agent.report(&event, "").await.json(),
    ];

    assert_eq!(denials, [false, true]);
    assert_ne!(reported[0]["decision"], "deny");
    assert_eq!(reported[1]["decision"], "deny", "{reported:?}");
}

/// The content form of a request has neither its thinking nor its schemas, and has the places of
/// its messages.
#[tokio::test]
async fn the_size_of_a_request_is_that_of_its_body() {
    let long = "x".repeat(30_000);
    let thinking = json!({ "type": "thinking", "thinking": long, "signature": "s" });
    let reasoning =
        json!({ "type": "reasoning", "id": "rs", "summary": [], "encrypted_content": long });
    let turn = json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }]);
    let turns = turn.as_array().unwrap().iter().cycle().take(350);
    let short: Vec<&Value> = turns.collect();
    let bodies = [
        (
            "/v1/messages",
            json!({ "model": "m", "max_tokens": 9, "messages": [
                { "role": "user", "content": "a" },
                { "role": "assistant", "content": [thinking, { "type": "text", "text": "b" }] },
                { "role": "user", "content": "c" },
            ] }),
            true,
        ),
        (
            "/v1/responses",
            json!({ "model": "m", "store": false, "input": [
                { "role": "user", "content": "a" },
                reasoning,
                { "role": "assistant", "content": "b" },
                { "role": "user", "content": "c" },
            ] }),
            true,
        ),
        (
            "/v1/chat/completions",
            json!({ "model": "m", "messages": short }),
            false,
        ),
    ];
    for policy in [
        "{ policy: request_limits, max_input: 20KiB }",
        "{ policy: request_limits, max_input: 1B, when: request.bytes > 20480 }",
    ] {
        let upstream = Upstream::mock().await;
        let config = format!(
            "upstreams: {{ anthropic: {{ url: \"{{upstream}}\" }}, openai: {{ url: \"{{upstream}}\" }} }}\n\
             policies: [{policy}]\n"
        );
        let gateway = TestGateway::start(&upstream, &config).await;

        for (path, body, is_large) in &bodies {
            let answer = gateway.agent().post(path, body.to_string()).await;

            let is_denied = answer.header("x-hookgate-action") == "deny";
            let length = body.to_string().len();
            assert_eq!(
                is_denied,
                *is_large,
                "{path}, {length} B, {policy}: {}",
                answer.text()
            );
        }
    }
}
