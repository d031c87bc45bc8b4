//! `model_allow` and `model_swap`: an allow list of models, and replacement of models.

use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{TestGateway, Upstream, assert_refused, hook, prompt};

const ALLOW: &str = "policies: [{ policy: model_allow, models: [gemini-2.5-pro, '*-flash'] }]\n";

#[tokio::test]
async fn a_model_that_is_not_listed_never_reaches_upstream() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, ALLOW).await;

    let answer = gateway
        .agent()
        .generate("gemini-3-pro", &prompt("hi"))
        .await;

    let text = &answer.json()["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(text, "The model `gemini-3-pro` is not allowed here.");
    assert_eq!(answer.header("x-hookgate-action"), "deny");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_request_for_a_listed_model_is_forwarded_byte_for_byte() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, ALLOW).await;
    let body = r#" {"contents":[{"role":"user","parts":[{"text":"hi \u00e9"}]}],"n": 1.0e1}"#;

    let path = "/v1beta/models/gemini-2.5-flash:generateContent";
    let answer = gateway.agent().post(path, body).await;

    assert_eq!(answer.status, 200);
    assert_eq!(upstream.only_request().body, body);
}

#[tokio::test]
async fn token_counts_and_embeddings_of_unlisted_models_are_denied() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, ALLOW).await;

    for operation in ["countTokens", "embedContent"] {
        let path = format!("/v1beta/models/other:{operation}");
        let answer = gateway.agent().post(&path, "{}").await;
        assert_eq!(answer.status, 403, "{operation}");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_moderation_without_a_model_passes_unless_models_are_listed() {
    let upstream = Upstream::mock().await;
    let any = "policies: [{ policy: model_allow, models: ['*'] }]\n";
    let redact = "policies: [{ policy: redact }]\n";
    let moderation = "policies: [{ policy: model_allow, models: [omni-moderation-latest] }]\n";
    for (config, passes) in [(any, true), (redact, true), (moderation, false)] {
        let config = format!("upstreams: {{ openai: {{ url: '{{upstream}}' }} }}\n{config}");
        let gateway = TestGateway::start(&upstream, &config).await;
        let body = r#"{"input":"hi"}"#;

        let answer = gateway.agent().post("/v1/moderations", body).await;

        let mut forwarded = upstream.requests();
        if passes {
            // The mock does not serve this method.
            assert_eq!(answer.status, 404, "{config}: {}", answer.text());
            assert_eq!(forwarded.pop().unwrap().body, body);
        } else {
            assert_eq!(answer.status, 400, "{config}: {}", answer.text());
            let message = &answer.json()["error"]["message"];
            assert_eq!(message, "A request without a model is not allowed here.");
            assert_eq!(forwarded.len(), 2);
        }
    }
}

#[tokio::test]
async fn models_in_the_body_and_spelling_variants_do_not_bypass_the_list() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, ALLOW).await;
    let content = json!({ "parts": [{ "text": "a" }] });

    for (operation, body) in [
        (
            "generateContent",
            json!({ "model": "models/other", "contents": [content] }),
        ),
        (
            "batchEmbedContents",
            json!({ "requests": [{ "model": "models/other", "content": content }] }),
        ),
        (
            "countTokens",
            json!({ "generateContentRequest": { "model": "tunedModels/x", "contents": [] } }),
        ),
    ] {
        let path = format!("/v1beta/models/{MODEL}:{operation}");
        let answer = gateway.agent().post(&path, body.to_string()).await;
        assert_refused(&answer, 400, "AMBIGUOUS");
    }
    for name in ["GEMINI-2.5-pro", "gemini-2.5-pro@001", "tunedModels%2Fx"] {
        gateway.agent().generate(name, &prompt("hi")).await;
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_preset_in_the_name_of_a_model_must_be_listed() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: model_allow, models: ['gpt-*', '@preset/mine'] }]
upstreams: { openai: { url: \"{upstream}\" }, anthropic: { url: \"{upstream}\" } }\n";
    let gateway = TestGateway::start(&upstream, config).await;

    for (preset, is_sent) in [("other", false), ("mine", true)] {
        let messages = json!([{ "role": "user", "content": "hi" }]);
        let body = json!({ "model": format!("gpt-5@preset/{preset}"), "max_tokens": 9,
            "messages": messages });
        for path in ["/v1/chat/completions", "/v1/messages"] {
            let answer = gateway.agent().post(path, body.to_string()).await;
            let is_denied = answer.text().contains("`@preset/other` is not allowed");
            assert_eq!(is_denied, !is_sent, "{path}: {}", answer.text());
        }
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn the_model_of_a_moderation_must_be_listed() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: model_allow, models: ['gpt-*', 'omni-*'] }]
upstreams: { openai: { url: \"{upstream}\" } }\n";
    let gateway = TestGateway::start(&upstream, config).await;

    for (model, is_sent) in [("other", false), ("omni-moderation-latest", true)] {
        for (path, field, content) in [
            (
                "/v1/chat/completions",
                "messages",
                json!([{ "role": "user", "content": "hi" }]),
            ),
            ("/v1/responses", "input", json!("hi")),
        ] {
            let body =
                json!({ "model": "gpt-5", field: content, "moderation": { "model": model } });
            let answer = gateway.agent().post(path, body.to_string()).await;
            let is_denied = answer.text().contains("`other` is not allowed");
            assert_eq!(is_denied, !is_sent, "{path}: {}", answer.text());
        }
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn models_that_vertex_or_a_tool_chooses_must_be_listed() {
    let upstream = Upstream::mock().await;
    let config = format!("{ALLOW}upstreams: {{ vertex: {{ url: \"{{upstream}}\" }} }}\n");
    let gateway = TestGateway::start(&upstream, &config).await;
    let path = "/v1/publishers/google/models/gemini-2.5-pro:generateContent";
    let routed = |mode: Value| json!({ "generationConfig": { "routingConfig": mode } });
    let ranked = |model: &str| {
        let ranking = json!({ "ranking": { "llmRanker": { "modelName": model } } });
        let retrieval = json!({ "vertexRagStore": { "ragRetrievalConfig": ranking } });
        json!({ "tools": [{ "retrieval": retrieval }] })
    };
    for (fields, is_allowed) in [
        (
            routed(json!({ "manualMode": { "modelName": "a-flash" } })),
            true,
        ),
        (
            routed(json!({ "manualMode": { "modelName": "gemini-3-pro" } })),
            false,
        ),
        (
            json!({ "generation_config": { "routing_config": { "manual_mode": { "model_name": "gemini-3-pro" } } } }),
            false,
        ),
        (routed(json!({ "autoMode": {} })), false),
        (
            json!({ "generationConfig": { "modelConfig": { "featureSelectionPreference": "PRIORITIZE_QUALITY" } } }),
            false,
        ),
        (
            json!({ "generation_config": { "model_selection_config": { "feature_selection_preference": "BALANCED" } } }),
            false,
        ),
        (json!({ "generationConfig": { "modelConfig": null } }), true),
        (ranked("gemini-2.5-pro"), true),
        (ranked("gemini-3-pro"), false),
    ] {
        let mut body = prompt("hi");
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let count = upstream.requests().len();
        let answer = gateway.agent().post(path, body.to_string()).await;
        assert_eq!(upstream.requests().len() > count, is_allowed, "{fields}");
        let is_denied = answer.text().contains("is not allowed here");
        assert_eq!(is_denied, !is_allowed, "{fields}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_hook_cannot_select_a_model_that_is_not_listed() {
    let upstream = Upstream::mock().await;
    let swap = hook::printing("swap", &hook::request(&json!({ "model": "gemini-3-pro" })));
    let config = format!("{ALLOW}{}", hook::config(&[("BeforeModel", swap)]));
    let gateway = TestGateway::start(&upstream, &config).await;

    let answer = gateway.agent().generate(MODEL, &prompt("hi")).await;

    assert_eq!(answer.header("x-hookgate-action"), "deny");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_response_from_an_unlisted_model_is_withheld() {
    let response_from = |model: &str| json!({ "candidates": [{ "content": { "parts": [{ "text": "heard" }] } }], "modelVersion": model });
    for (model, is_delivered) in [
        ("gemini-2.5-pro", true),
        ("models/gemini-2.5-pro-preview-05-06", true),
        ("gemini-2.5-prototype", false),
        ("some-flash", true),
        ("gemini-3-pro", false),
    ] {
        let upstream = Upstream::answering(&response_from(model)).await;
        let gateway = TestGateway::start(&upstream, ALLOW).await;

        for answer in [
            gateway.agent().generate(MODEL, &prompt("hi")).await,
            gateway.agent().stream(MODEL, &prompt("hi")).await,
        ] {
            assert_eq!(answer.text().contains("heard"), is_delivered, "{model}");
        }
    }
}

#[tokio::test]
async fn a_model_is_swapped_by_name_caller_session_and_size() {
    let upstream = Upstream::mock().await;
    let fingerprint_of_k = "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a";
    let config = format!(
        "policies:
  - policy: model_swap
    swap: {{ gemini-2.5-pro: gemini-2.5-flash }}
    rules:
      - {{ larger_than: 10kB, to: for-large }}
      - {{ model: 'gemini-3*', smaller_than: 10kB, to: for-three }}
      - {{ caller: {fingerprint_of_k}, to: for-k }}
      - {{ session: 'ci-*', to: for-ci }}
"
    );
    let gateway = TestGateway::start(&upstream, &config).await;
    let (agent, k) = (
        gateway.agent(),
        gateway.agent().sending("x-goog-api-key", "k"),
    );
    let ci = gateway.agent().sending("x-hookgate-session", "ci-7");
    let long = prompt(&"x".repeat(10_000));

    agent.generate(MODEL, &prompt("hi")).await;
    agent.generate(MODEL, &long).await;
    agent.generate("gemini-3-pro", &prompt("hi")).await;
    k.generate(MODEL, &prompt("hi")).await;
    ci.stream(MODEL, &prompt("hi")).await;
    agent.generate("other", &prompt("hi")).await;

    let requests = upstream.requests();
    let models = requests.iter().map(|request| request.path.as_str());
    let models: Vec<&str> = models
        .map(|path| path.rsplit_once('/').unwrap().1.split(':').next().unwrap())
        .collect();
    let expected = [
        "gemini-2.5-flash",
        "for-large",
        "for-three",
        "for-k",
        "for-ci",
        "other",
    ];
    assert_eq!(models, expected);
}
