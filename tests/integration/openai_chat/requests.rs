//! Requests: the stable form that hooks receive, edits by hooks, masks and refusals.

use serde_json::{Value, json};

use super::{FORMS, Form, PATH, ask, chat, gateway, text};
use crate::harness::{Upstream, hook};

/// A conversation as an agent sends it, with spaces that no serializer would write.
const SPACED: &str = r#"{ "model": "m" , "messages": [ {"role":"system","content":"be brief"}, {"role":"user","content":"hello", "name":"u"} ], "temperature": 1.0 , "tools": [ {"type":"function","function":{"name":"read","parameters":{"type":"object"}}} ] , "x": 1e5 }"#;

#[tokio::test]
async fn hooks_see_the_stable_form() {
    let upstream = Upstream::mock().await;
    let see = hook::printing("see", &json!({}));
    let gate = gateway(&upstream, &hook::config(&[("BeforeModel", see)])).await;
    let body = json!({
        "model": "qwen/qwen3-coder",
        "messages": [
            { "role": "system", "content": "be brief" },
            { "role": "user", "content": [{ "type": "text", "text": "look " }, { "type": "text", "text": "here" }] },
            { "role": "assistant", "content": "I read", "tool_calls": [
                { "id": "c", "type": "function", "function": { "name": "read", "arguments": "{}" } },
            ]},
            { "role": "tool", "tool_call_id": "c", "content": "alpha" },
            { "role": "user", "content": "and now" },
        ],
        "max_completion_tokens": 9, "top_p": 0.5,
        "tool_choice": "required", "tools": [{ "type": "function", "function": { "name": "read" } }],
    });

    ask(&gate, Form::Stream, &body).await;

    let seen = &gate.json("see.json")["llm_request"];
    assert_eq!(seen["model"], "qwen/qwen3-coder");
    assert_eq!(
        seen["messages"],
        json!([
            { "role": "user", "content": "look here" },
            { "role": "model", "content": "I read" },
            { "role": "user", "content": "and now" },
        ])
    );
    assert_eq!(seen["config"], json!({ "topP": 0.5, "maxOutputTokens": 9 }));
    assert_eq!(seen["toolConfig"]["mode"], "ANY");
}

/// A history with a refusal in each of the two forms.
fn refusals(refusal: &str, block: &str) -> Value {
    json!({ "model": "m", "messages": [
        { "role": "user", "content": "u" },
        { "role": "assistant", "content": null, "refusal": refusal },
        { "role": "user", "content": "v" },
        { "role": "assistant", "content": [
            { "type": "refusal", "refusal": block },
        ] },
        { "role": "user", "content": "w" },
    ]})
}

#[tokio::test]
async fn hooks_see_refusals_in_the_history_and_edit_them_in_place() {
    let message = |role: &str, content: &str| json!({ "role": role, "content": content });
    for (one, other, sent) in [
        ("ONE", "OTHER", Some(refusals("ONE", "OTHER"))),
        ("one", "other", Some(refusals("one", "other"))),
        ("", "", None),
    ] {
        let upstream = Upstream::mock().await;
        let edit = hook::request(&json!({ "messages": [
            message("user", "u"), message("model", one), message("user", "v"),
            message("model", other), message("user", "w"),
        ]}));
        let edit = hook::printing("edit", &edit);
        let gate = gateway(&upstream, &hook::config(&[("BeforeModel", edit)])).await;

        ask(&gate, Form::Whole, &refusals("one", "other")).await;

        let seen = &gate.json("edit.json")["llm_request"]["messages"];
        assert_eq!(seen[1], message("model", "one"));
        assert_eq!(seen[3], message("model", "other"));
        let asked = upstream.only_request().json();
        let users = json!(["u", "v", "w"].map(|text| message("user", text)));
        let expected = sent.map_or(users, |sent| sent["messages"].clone());
        assert_eq!(asked["messages"], expected);
    }
}

#[tokio::test]
async fn hooks_edit_messages_and_parameters() {
    let upstream = Upstream::mock().await;
    let edit = hook::request(&json!({
        "messages": [{ "role": "user", "content": "changed" }],
        "config": { "temperature": 0.25, "maxOutputTokens": 4 },
    }));
    let gate = gateway(
        &upstream,
        &hook::config(&[("BeforeModel", hook::printing("edit", &edit))]),
    )
    .await;

    gate.agent().post(PATH, SPACED).await;

    let expected = SPACED
        .replace("hello", "changed")
        .replace("1.0", "0.25")
        .replace(" }", " ,\"max_completion_tokens\":4}")
        .replace("}} ,\"max_completion_tokens\":4}", "}} }");
    let sent: Value = serde_json::from_str(&expected).unwrap();
    assert_eq!(upstream.only_request().json(), sent);
}

#[tokio::test]
async fn a_hook_or_a_policy_replaces_the_model() {
    let swap = hook::printing(
        "swap",
        &hook::request(&json!({ "model": "qwen/qwen3:free" })),
    );
    for config in [
        hook::config(&[("BeforeModel", swap)]),
        "policies: [{ policy: model_swap, swap: { m: qwen/qwen3:free } }]\n".to_owned(),
    ] {
        let upstream = Upstream::mock().await;
        let gate = gateway(&upstream, &config).await;
        for form in FORMS {
            let answer = ask(&gate, form, &chat("hello")).await;
            assert_eq!(text(form, &answer), "You said: hello");
            let asked = upstream.requests().pop().unwrap();
            assert_eq!(asked.json()["model"], "qwen/qwen3:free");
        }
    }
}

#[tokio::test]
async fn the_model_allow_list_applies_to_fallback_models() {
    let upstream = Upstream::mock().await;
    let gate = gateway(
        &upstream,
        "policies: [{ policy: model_allow, models: [m, 'qwen/*'] }]\n",
    )
    .await;
    let mut body = chat("hello");
    for (models, is_allowed) in [(json!(["qwen/qwen3"]), true), (json!(["other"]), false)] {
        body["models"] = models;
        let answer = ask(&gate, Form::Whole, &body).await;
        let is_answered = text(Form::Whole, &answer) == "You said: hello";
        assert_eq!(is_answered, is_allowed, "{}", answer.text());
    }
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn models_of_hosted_tools_and_plugins_must_be_allowed() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: model_allow, models: [m] }]\n";
    let gate = gateway(&upstream, config).await;
    for model in ["m", "other"] {
        let tool = json!({ "type": "openrouter:advisor", "parameters": { "model": model } });
        let tool_with_list = json!({ "type": "openrouter:advisor",
            "parameters": { "models": [{ "id": model }] } });
        for (field, value) in [
            ("tools", json!([tool])),
            ("tools", json!([tool_with_list])),
            (
                "plugins",
                json!([{ "id": "fusion", "analysis_models": ["m", model] }]),
            ),
            (
                "plugins",
                json!([{ "id": "fusion", "models": { "primary": model } }]),
            ),
        ] {
            let mut body = chat("hello");
            body[field] = value;
            let answer = ask(&gate, Form::Whole, &body).await;
            let is_answered = text(Form::Whole, &answer) == "You said: hello";
            assert_eq!(is_answered, model == "m", "{field}: {}", answer.text());
        }
    }
    assert_eq!(upstream.requests().len(), 4);
}

#[tokio::test]
async fn secrets_are_masked_in_every_text_of_a_request() {
    let upstream = Upstream::mock().await;
    let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;
    let secret = "AKIAIOSFODNN7EXAMPLE";
    let body = json!({
        "model": "m", "user": secret, "metadata": { "k": secret },
        "messages": [
            { "role": "developer", "content": secret },
            { "role": "user", "content": [{ "type": "text", "text": secret }, { "type": "new", "x": secret }] },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "c", "type": "function", "function": { "name": "f", "arguments": json!({ "k": secret }).to_string() } },
            ]},
            { "role": "tool", "tool_call_id": "c", "content": secret },
        ],
        "prediction": { "type": "content", "content": secret },
    });

    ask(&gate, Form::Whole, &body).await;

    let asked = upstream.only_request();
    assert!(!asked.body.contains("AKIA"), "{}", asked.body);
    let sent = asked.json();
    let masked = sent["messages"][0]["content"].clone();
    assert_eq!(sent["messages"][3]["content"], masked);
    let arguments = &sent["messages"][2]["tool_calls"][0]["function"]["arguments"];
    let arguments: Value = serde_json::from_str(arguments.as_str().unwrap()).unwrap();
    assert_eq!(arguments["k"], masked);
}

/// Only the model thinks: in other messages, a compatible server may read these fields as text.
#[tokio::test]
async fn fields_of_thoughts_are_unknown_fields_of_messages_that_the_model_did_not_write() {
    let upstream = Upstream::mock().await;
    let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;
    let secret = "AKIAIOSFODNN7EXAMPLE";
    let details = json!([{ "type": "reasoning.text", "text": secret }]);
    let thoughts = [
        ("reasoning", json!(secret)),
        ("reasoning_content", json!(secret)),
        ("reasoning_text", json!(secret)),
        ("reasoning_opaque", json!(secret)),
        ("reasoning_details", details.clone()),
        ("thinking_blocks", details),
    ];
    let turns = [
        json!({ "role": "system", "content": "s" }),
        json!({ "role": "user", "content": "u" }),
        json!({ "role": "assistant", "content": null, "tool_calls": [
            { "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } },
        ]}),
        json!({ "role": "tool", "tool_call_id": "c", "content": "t" }),
    ];
    for (field, thought) in thoughts {
        let mut messages = turns.to_vec();
        for message in &mut messages {
            message[field] = thought.clone();
        }

        ask(
            &gate,
            Form::Whole,
            &json!({ "model": "m", "messages": messages }),
        )
        .await;

        let sent = upstream.requests().last().unwrap().json();
        for (message, turn) in sent["messages"].as_array().unwrap().iter().zip(&turns) {
            let is_kept = message[field] == thought;
            assert_eq!(is_kept, turn["role"] == "assistant", "{field}: {message}");
            assert_eq!(is_kept, message.to_string().contains(secret), "{message}");
        }
    }
}

#[tokio::test]
async fn fields_of_the_models_messages_are_unknown_fields_of_results() {
    let upstream = Upstream::mock().await;
    let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;
    let secret = "AKIAIOSFODNN7EXAMPLE";
    let function = json!({ "name": "f", "arguments": json!({ "k": secret }).to_string() });
    let call = json!({ "id": "c2", "type": "function", "function": function });
    for (role, field, value) in [
        ("tool", "tool_calls", json!([call])),
        ("tool", "function_call", function.clone()),
        ("function", "function_call", function),
        ("tool", "refusal", json!(secret)),
    ] {
        let mut body = chat("go");
        let mut result = json!({ "role": role, "name": "f", "tool_call_id": "c", "content": "t" });
        result[field] = value;
        body["messages"].as_array_mut().unwrap().push(result);

        ask(&gate, Form::Whole, &body).await;

        let asked = upstream.requests().pop().unwrap();
        assert!(!asked.body.contains("AKIA"), "{field}: {}", asked.body);
        assert!(asked.body.contains("REDACTED"), "{field}: {}", asked.body);
    }
}

#[tokio::test]
async fn embedding_input_is_masked_and_token_input_is_refused() {
    let upstream = Upstream::mock().await;
    let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;
    let body = |input: Value| json!({ "model": "m", "input": input }).to_string();
    for path in ["/v1/embeddings", "/embeddings", "/v1/moderations"] {
        let input = json!(["a", "AKIAIOSFODNN7EXAMPLE"]);
        gate.agent().post(path, body(input)).await;
        let asked = upstream.requests().pop().unwrap();
        assert_eq!(asked.json()["input"][0], "a");
        assert!(!asked.body.contains("AKIA"), "{}", asked.body);

        let refused = gate.agent().post(path, body(json!([[1, 2]]))).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert_eq!(refused.json()["error"]["type"], "invalid_request_error");
    }
}

#[tokio::test]
async fn stored_and_legacy_completions_are_refused() {
    let upstream = Upstream::mock().await;
    let gate = gateway(&upstream, "").await;
    for (method, path) in [
        ("GET", "/v1/chat/completions"),
        ("GET", "/v1/chat/completions/chatcmpl-1/messages"),
        ("DELETE", "/v1/chat/completions/chatcmpl-1"),
        ("POST", "/v1/completions"),
    ] {
        let body = if method == "POST" { "{}" } else { "" };
        let answer = gate.agent().ask(method, path, body).await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        assert_eq!(answer.json()["error"]["code"], "METHOD_REFUSED");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn models_of_fallbacks_must_be_allowed() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: model_allow, models: [m, \"openai/*\"] }]\n";
    let gate = gateway(&upstream, config).await;
    let with = |fallback: Value| {
        let mut body = chat("hello");
        body["fallbacks"] = json!([fallback]);
        body
    };
    let allowed = with(json!({ "model": "openai/gpt-4o" }));
    let answer = ask(&gate, Form::Whole, &allowed).await;
    assert_eq!(text(Form::Whole, &answer), "You said: hello");
    assert_eq!(upstream.only_request().json(), allowed);
    let denied = ask(&gate, Form::Whole, &with(json!({ "model": "big" }))).await;
    assert!(
        denied.text().contains("`big` is not allowed"),
        "{}",
        denied.text()
    );
    let other = json!({ "model": "openai/gpt-4o", "messages": [] });
    let refused = ask(&gate, Form::Whole, &with(other)).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert_eq!(upstream.requests().len(), 1);
}
