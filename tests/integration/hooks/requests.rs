//! `BeforeModel` hooks: edits of requests.

use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{TestGateway, Upstream, hook, prompt};

/// Request body with unusual spaces, numbers and escapes, both spellings of fields, unknown
/// fields and signatures.
const UNUSUAL_BODY: &str = concat!(
    r#"{ "contents" : [{"parts":[{"text":"my \u0073ecret"}], "role":"user", "x":1.50 },"#,
    r#"{"role":"model", "parts" :[{"thoughtSignature":"c2ln","text":"hidden","thought":true},{"functionCall":{"name":"f","args":{"n":1E2,"big":12345678901234567890123}},"thought_signature":"c2ln"}]},"#,
    r#"{"role":"user","parts":[{"functionResponse":{"name":"f", "response":{"r":0.10}}}]},{"role":"user","parts":[{"text":"go on"}]}], "#,
    r#""generation_config":{"temperature":1.0, "x":{"b":1,"a":2}}, "unknown":[ ] }"#,
);

/// Sends a body through a hook with this output, and returns the body that upstream received.
async fn upstream_body(output: &Value, body: &str) -> String {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::printing("hook", output))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");

    let answer = gate.agent().post(&path, body.to_owned()).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    upstream.only_request().body
}

#[tokio::test]
async fn a_model_swap_changes_the_path_that_upstream_receives() {
    let upstream = Upstream::mock().await;
    let swap = hook::request(&json!({ "model": "gemini-2.5-flash" }));
    let hooks = hook::config(&[("BeforeModel", hook::printing("swap", &swap))]);
    let gate = TestGateway::start(&upstream, &hooks).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let request = upstream.only_request();
    assert_eq!(
        request.path,
        "/v1beta/models/gemini-2.5-flash:generateContent"
    );
    assert_eq!(request.json(), prompt("hello"));
}

#[tokio::test]
async fn hooks_with_an_empty_output_change_no_byte() {
    assert_eq!(upstream_body(&json!({}), UNUSUAL_BODY).await, UNUSUAL_BODY);
}

#[tokio::test]
async fn an_edited_message_changes_no_other_byte() {
    let edit = hook::request(&json!({ "messages": [
        { "role": "user", "content": "my [x]" },
        { "role": "user", "content": "go on" },
    ] }));

    let sent = upstream_body(&edit, UNUSUAL_BODY).await;

    assert_eq!(sent, UNUSUAL_BODY.replace(r"my \u0073ecret", "my [x]"));
}

#[tokio::test]
async fn an_inserted_message_never_separates_a_call_from_its_result() {
    let edit = hook::request(&json!({ "messages": [
        { "role": "user", "content": "my secret" },
        { "role": "user", "content": "mind the rules" },
        { "role": "user", "content": "go on" },
    ] }));

    let sent = upstream_body(&edit, UNUSUAL_BODY).await;

    let sent: Value = serde_json::from_str(&sent).unwrap();
    let original: Value = serde_json::from_str(UNUSUAL_BODY).unwrap();
    let mut contents = sent["contents"].as_array().unwrap().clone();
    let index = contents
        .iter()
        .position(|content| content["parts"][0]["text"] == "mind the rules");
    let index = index.unwrap();
    assert!([1, 3].contains(&index), "{sent}");
    contents.remove(index);
    assert_eq!(Value::Array(contents), original["contents"]);
}

#[tokio::test]
async fn deleting_messages_keeps_calls_and_results() {
    let edit = hook::request(&json!({ "messages": [{ "role": "user", "content": "go on" }] }));

    let sent = upstream_body(&edit, UNUSUAL_BODY).await;

    assert!(!sent.contains("ecret"), "{sent}");
    for kept in [
        r#""functionCall":{"name":"f""#,
        r#""functionResponse":{"name":"f""#,
        "go on",
    ] {
        assert!(sent.contains(kept), "{kept}: {sent}");
    }
}

#[tokio::test]
async fn a_system_message_is_added_to_the_system_instruction() {
    let edit = hook::request(&json!({ "messages": [
        { "role": "system", "content": "be brief" },
        { "role": "user", "content": "q" },
    ] }));
    let mut body = prompt("q");

    let sent = upstream_body(&edit, &body.to_string()).await;
    body["systemInstruction"] = json!({ "parts": [{ "text": "be kind" }] });
    let added = upstream_body(&edit, &body.to_string()).await;

    let parts = |sent: &str| -> Value {
        let sent: Value = serde_json::from_str(sent).unwrap();
        assert_eq!(sent["contents"], prompt("q")["contents"]);
        sent["systemInstruction"]["parts"].clone()
    };
    assert_eq!(parts(&sent), json!([{ "text": "be brief" }]));
    assert_eq!(
        parts(&added),
        json!([{ "text": "be kind" }, { "text": "be brief" }])
    );
}

#[tokio::test]
async fn an_edit_that_cannot_be_applied_changes_no_byte() {
    for edit in [
        json!({ "model": "../secrets" }),
        json!({ "model": "a?key=b" }),
        json!({ "messages": [] }),
        json!({ "config": { "temperature": "hot" } }),
        json!({ "unknown": 1 }),
        json!(5),
    ] {
        let sent = upstream_body(&hook::request(&edit), UNUSUAL_BODY).await;

        assert_eq!(sent, UNUSUAL_BODY, "{edit}");
    }
}

#[tokio::test]
async fn a_hook_receives_texts_without_thoughts_calls_and_results() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::printing("hook", &json!({})))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");

    gate.agent().post(&path, UNUSUAL_BODY).await;

    let seen = gate.json("hook.json");
    assert_eq!(seen["hook_event_name"], "BeforeModel");
    assert_eq!(
        seen["llm_request"],
        json!({
            "model": MODEL,
            "messages": [
                { "role": "user", "content": "my secret" },
                { "role": "user", "content": "go on" },
            ],
            "config": { "temperature": serde_json::from_str::<Value>("1.0").unwrap() },
        })
    );
}

#[tokio::test]
async fn a_text_of_the_user_is_shown_and_edited_although_it_is_marked_as_a_thought() {
    let upstream = Upstream::mock().await;
    let edit = hook::request(&json!({ "messages": [{ "role": "user", "content": "[x]" }] }));
    let hooks = hook::config(&[("BeforeModel", hook::printing("hook", &edit))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let parts = json!([{ "text": "sec" }, { "text": "ret", "thought": true }]);

    let body = json!({ "contents": [{ "role": "user", "parts": parts }] });
    gate.agent().generate(MODEL, &body).await;

    let messages = json!([{ "role": "user", "content": "secret" }]);
    assert_eq!(gate.json("hook.json")["llm_request"]["messages"], messages);
    assert_eq!(upstream.only_request().json(), prompt("[x]"));
}

#[tokio::test]
async fn generation_parameters_are_set_and_deleted_individually() {
    let body = r#"{"contents":[{"parts":[{"text":"q"}]}],"generationConfig":{"temperature":0.70,"topK":40,"x":1.0}}"#;
    let edit = hook::request(&json!({ "config": {
        "temperature": 0, "topK": null, "maxOutputTokens": 5, "unknown": 1,
    } }));

    let sent = upstream_body(&edit, body).await;

    let expected = r#""generationConfig":{"temperature":0,"x":1.0,"maxOutputTokens":5}"#;
    assert!(sent.contains(expected), "{sent}");
}

#[tokio::test]
async fn generation_parameters_are_added_to_a_request_without_any() {
    let edit = hook::request(&json!({ "config": { "temperature": 0 } }));

    let sent = upstream_body(&edit, &prompt("q").to_string()).await;

    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!(sent["generationConfig"], json!({ "temperature": 0 }));
}

#[tokio::test]
async fn generation_parameters_that_change_nothing_add_no_field() {
    for config in [
        json!({ "temperature": null }),
        json!({ "temperature": "hot", "unknown": 1 }),
    ] {
        let upstream = Upstream::mock().await;
        let edit = hook::request(&json!({ "config": config }));
        let hooks = hook::config(&[("BeforeModel", hook::printing("hook", &edit))]);
        let gate = TestGateway::start(&upstream, &hooks).await;

        let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

        assert_eq!(answer.header("x-hookgate-action"), "pass", "{config}");
        let sent = upstream.only_request().body;
        assert_eq!(sent, prompt("hello").to_string());
    }
}

/// Token counts and embeddings: the method, the body, and the edited body.
const OTHER_CALLS: [(&str, &str, &str); 4] = [
    (
        "countTokens",
        r#"{"contents":[{"parts":[{"text":"secret"}]}]}"#,
        r#"{"contents":[{"parts":[{"text":"[x]"}]}]}"#,
    ),
    (
        "countTokens",
        r#"{"generateContentRequest":{"model":"models/gemini-2.5-pro","contents":[{"parts":[{"text":"secret"}]}]}}"#,
        r#"{"generateContentRequest":{"model":"models/gemini-2.5-pro","contents":[{"parts":[{"text":"[x]"}]}]}}"#,
    ),
    (
        "embedContent",
        r#"{"content":{"parts":[{"text":"secret"}]},"taskType":"T"}"#,
        r#"{"content":{"parts":[{"text":"[x]"}]},"taskType":"T"}"#,
    ),
    (
        "batchEmbedContents",
        r#"{"requests":[{"model":"models/gemini-2.5-pro","content":{"parts":[{"text":"secret"}]}}]}"#,
        r#"{"requests":[{"model":"models/gemini-2.5-pro","content":{"parts":[{"text":"[x]"}]}}]}"#,
    ),
];

#[tokio::test]
async fn token_counts_and_embeddings_are_edited() {
    let edit = hook::request(&json!({ "messages": [{ "role": "user", "content": "[x]" }] }));
    let hooks = hook::config(&[
        ("BeforeModel", hook::printing("hook", &edit)),
        ("BeforeToolSelection", hook::printing("tools", &json!({}))),
        ("AfterModel", hook::printing("after", &json!({}))),
    ]);
    for (method, body, edited) in OTHER_CALLS {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &hooks).await;

        let path = format!("/v1beta/models/{MODEL}:{method}");
        let answer = gate.agent().post(&path, body).await;

        assert_eq!(answer.status, 200, "{method}: {}", answer.text());
        let seen = gate.json("hook.json");
        let messages = json!([{ "role": "user", "content": "secret" }]);
        assert_eq!(seen["llm_request"]["messages"], messages, "{method}");
        assert_eq!(upstream.only_request().body, edited, "{method}");
        assert_eq!(gate.file("tools.json") + &gate.file("after.json"), "");
    }
}

#[tokio::test]
async fn token_counts_and_embeddings_receive_no_fields_that_they_do_not_have() {
    let edit = hook::request(&json!({
        "config": { "temperature": 0 },
        "messages": [{ "role": "system", "content": "be brief" }, { "role": "user", "content": "[x]" }],
    }));
    let hooks = hook::config(&[("BeforeModel", hook::printing("hook", &edit))]);
    for (method, body, edited) in OTHER_CALLS {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &hooks).await;

        let path = format!("/v1beta/models/{MODEL}:{method}");
        gate.agent().post(&path, body).await;

        let sent = upstream.only_request();
        if body.contains("generateContentRequest") {
            let inner = &sent.json()["generateContentRequest"];
            assert_eq!(inner["generationConfig"]["temperature"], 0, "{inner}");
            assert_eq!(inner["systemInstruction"]["parts"][0]["text"], "be brief");
        } else {
            assert_eq!(sent.body, edited, "{method}");
        }
    }
}

#[tokio::test]
async fn token_counts_and_embeddings_are_denied_with_an_error() {
    let hooks = hook::config(&[("BeforeModel", hook::denying("guard", "not today"))]);
    let synthetic = hook::response(&json!({ "text": "an answer" }));
    let synthetic_config = hook::config(&[("BeforeModel", hook::printing("hook", &synthetic))]);
    for (method, body, _) in OTHER_CALLS {
        for config in [&hooks, &synthetic_config] {
            let upstream = Upstream::mock().await;
            let gate = TestGateway::start(&upstream, config).await;

            let path = format!("/v1beta/models/{MODEL}:{method}");
            let answer = gate.agent().post(&path, body).await;

            assert_eq!(answer.status, 403, "{method}: {}", answer.text());
            let error = &answer.json()["error"];
            assert_eq!(error["status"], "PERMISSION_DENIED");
            assert_eq!(error["details"][0]["reason"], "POLICY_DENIED");
            assert!(upstream.requests().is_empty());
        }
    }
}

#[tokio::test]
async fn model_metadata_requests_run_no_hooks() {
    let hooks = hook::config(&[("BeforeModel", hook::denying("guard", "not today"))]);
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &hooks).await;

    let list = gate.agent().get("/v1beta/models?pageSize=2").await;
    let one = gate.agent().get("/v1/models/gemini-2.5-pro").await;

    assert_eq!((list.status, one.status), (200, 200));
    assert!(list.json()["models"].is_array());
    assert_eq!(one.json()["name"], "models/gemini-2.5-pro");
    let requests = upstream.requests();
    let lines = requests
        .iter()
        .map(|request| format!("{} {}?{}", request.method, request.path, request.query));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            "GET /v1beta/models?pageSize=2",
            "GET /v1/models/gemini-2.5-pro?",
        ]
    );
    assert_eq!(gate.file("guard.json"), "");
}

#[tokio::test]
async fn later_hooks_win_in_both_spellings_of_parameters() {
    for (first, second) in [
        ("config", "generationConfig"),
        ("generationConfig", "config"),
    ] {
        let upstream = Upstream::mock().await;
        let edit = |key: &str, value: Value| hook::request(&json!({ key: value }));
        let hooks = hook::config(&[
            (
                "BeforeModel",
                hook::printing("a", &edit(first, json!({ "temperature": 1, "topK": 3 }))),
            ),
            (
                "BeforeModel",
                hook::printing("b", &edit(second, json!({ "temperature": 0 }))),
            ),
        ]);
        let gate = TestGateway::start(&upstream, &hooks).await;

        gate.agent().generate(MODEL, &prompt("hello")).await;

        let sent = upstream.only_request().json();
        assert_eq!(
            sent["generationConfig"],
            json!({ "temperature": 0, "topK": 3 }),
            "{first}"
        );
    }
}

#[tokio::test]
async fn a_later_edit_without_messages_keeps_the_mask_of_an_earlier_one() {
    let mask = json!({ "messages": [{ "role": "user", "content": "***" }] });
    let system = json!([{ "role": "system", "content": "be kind" }]);
    for (later, sequential) in [
        (&system, false),
        (&system, true),
        (&json!([]), false),
        (&Value::Null, true),
    ] {
        let upstream = Upstream::mock().await;
        let later_edit = hook::request(&json!({ "messages": later }));
        let hooks = [
            hook::printing("mask", &hook::request(&mask)),
            hook::printing("later", &later_edit),
        ];
        let group = json!({ "sequential": sequential, "hooks": hooks });
        let config = format!("hooks: {}", json!({ "BeforeModel": [group] }));
        let gate = TestGateway::start(&upstream, &config).await;

        gate.agent().generate(MODEL, &prompt("a secret")).await;

        let sent = upstream.only_request().json();
        assert_eq!(sent["contents"], prompt("***")["contents"], "{later}");
        let instruction = &sent["systemInstruction"]["parts"][0]["text"];
        assert_eq!(*instruction == "be kind", *later == system, "{later}");
    }
}

#[tokio::test]
async fn a_later_hook_removes_all_text_that_earlier_ones_masked() {
    let media = json!({ "inlineData": { "mimeType": "image/png", "data": "aGk=" } });
    let with_media = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "a secret" }, media] },
    ] });
    let without_text = json!([{ "role": "user", "parts": [media] }]);
    let masked = prompt("***")["contents"].clone();
    for sequential in [false, true] {
        // A request keeps the mask if it would have no content without its text.
        for (body, left) in [(&with_media, &without_text), (&prompt("a secret"), &masked)] {
            let upstream = Upstream::mock().await;
            let edit = |text: &str| {
                let messages = json!([{ "role": "user", "content": text }]);
                hook::request(&json!({ "messages": messages }))
            };
            let hooks = [
                hook::printing("mask", &edit("***")),
                hook::printing("blank", &edit("")),
                hook::printing("seen", &json!({})),
            ];
            let group = json!({ "sequential": sequential, "hooks": hooks });
            let config = format!("hooks: {}", json!({ "BeforeModel": [group] }));
            let gate = TestGateway::start(&upstream, &config).await;

            gate.agent().generate(MODEL, body).await;

            assert_eq!(upstream.only_request().json()["contents"], *left);
            if sequential {
                let seen = &gate.json("seen.json")["llm_request"]["messages"];
                let texts = seen.as_array().unwrap().len();
                assert_eq!(texts, usize::from(*left == masked), "{seen}");
            }
        }
    }
}

#[tokio::test]
async fn a_hook_on_a_reported_request_keeps_the_masks_of_policies() {
    let upstream = Upstream::mock().await;
    let policy = "policies: [{ policy: redact, detect: [email] }]\n";
    let edit = hook::request(&json!({ "messages": null, "config": { "temperature": 0 } }));
    let hooks = hook::config(&[("BeforeModel", hook::printing("hook", &edit))]);
    let gate = TestGateway::start(&upstream, &format!("{policy}{hooks}")).await;
    let messages = json!([{ "role": "user", "content": "mail a@example.com" }]);
    let event = hook::reported_request(&messages);

    let answer = gate.agent().report(&event, "").await.json();

    let edited = &answer["hookSpecificOutput"]["llm_request"];
    let text = edited["messages"][0]["content"]
        .as_str()
        .unwrap_or_default();
    assert!(
        !text.is_empty() && !text.contains("a@example.com"),
        "{answer}"
    );
    assert_eq!(edited["config"], json!({ "temperature": 0 }));
}

#[tokio::test]
async fn policies_limit_parameters_that_hooks_report_in_any_spelling() {
    for key in ["config", "generationConfig"] {
        let upstream = Upstream::mock().await;
        let policy = "policies: [{ policy: request_limits, max_output_tokens: 100 }]\n";
        let edit = hook::request(&json!({ key: { "maxOutputTokens": 99999 } }));
        let hooks = hook::config(&[("BeforeModel", hook::printing("hook", &edit))]);
        let gate = TestGateway::start(&upstream, &format!("{policy}{hooks}")).await;
        let messages = json!([{ "role": "user", "content": "hi" }]);
        let event = hook::reported_request(&messages);

        let answer = gate.agent().report(&event, "").await.json();

        let edited = &answer["hookSpecificOutput"]["llm_request"];
        assert_eq!(edited["config"], json!({ "maxOutputTokens": 100 }), "{key}");
        assert_eq!(edited.get("generationConfig"), None, "{key}");
    }
}

/// Reports a request with a system text to two parallel hooks that return these lists of
/// messages. Returns the messages of the merged output.
async fn merged_messages(first: &Value, second: &Value, shown: bool) -> Value {
    let upstream = Upstream::mock().await;
    let settings = |name: &str, list: &Value| {
        let edit = hook::request(&json!({ "messages": list }));
        let group = json!({ "hooks": [hook::printing(name, &edit)] });
        json!({ "hooks": { "BeforeModel": [group] } }).to_string()
    };
    let config = format!(
        "hook_files: [{{ path: first.json, system_messages: {shown} }}, {{ path: second.json }}]"
    );
    let files = [
        ("first.json", settings("first", first)),
        ("second.json", settings("second", second)),
    ];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let gate = TestGateway::with_files(&upstream, &config, &files).await;
    let event = hook::reported_request(&messages("TOKEN=s3cret", "hi"));

    let answer = gate.agent().report(&event, "").await.json();

    let request = &answer["hookSpecificOutput"]["llm_request"];
    assert_eq!(request.get("systemInstruction"), None, "{answer}");
    request["messages"].clone()
}

fn messages(system: &str, prompt: &str) -> Value {
    json!([
        { "role": "system", "content": system },
        { "role": "user", "content": prompt },
    ])
}

#[tokio::test]
async fn parallel_hooks_that_return_a_system_text_leave_one_copy_of_it() {
    let (secret, masked) = ("TOKEN=s3cret", "TOKEN=***");
    for (first, second, merged) in [
        (secret, secret, secret),
        (masked, secret, masked),
        (secret, masked, masked),
        (masked, masked, masked),
    ] {
        for shown in [false, true] {
            let (first, second) = (messages(first, "hi"), messages(second, "hello"));

            let merged_list = merged_messages(&first, &second, shown).await;

            assert_eq!(
                merged_list,
                messages(merged, "hello"),
                "{first} {second} {shown}"
            );
        }
    }
}

#[tokio::test]
async fn parallel_hooks_that_add_system_texts_keep_those_of_the_request() {
    let added = json!([{ "role": "system", "content": "be kind" }]);
    let masked = messages("TOKEN=***", "hi");

    let merged = merged_messages(&added, &masked, false).await;

    let expected = json!([
        { "role": "system", "content": "be kind" },
        { "role": "system", "content": "TOKEN=***" },
        { "role": "user", "content": "hi" },
    ]);
    assert_eq!(merged, expected);
}

#[tokio::test]
async fn a_system_message_replaces_the_shown_instruction_at_any_place() {
    let upstream = Upstream::mock().await;
    let list = json!([
        { "role": "user", "content": "hi" },
        { "role": "system", "content": "TOKEN=***" },
    ]);
    let mask = hook::printing("mask", &hook::request(&json!({ "messages": list })));
    let settings = json!({ "hooks": { "BeforeModel": [{ "hooks": [mask] }] } }).to_string();
    let config = "hook_files: [{ path: s.json, system_messages: true }]";
    let gate = TestGateway::with_files(&upstream, config, &[("s.json", &settings)]).await;
    let with_instruction = |text: &str| {
        let mut body = prompt("hi");
        body["systemInstruction"] = json!({ "parts": [{ "text": text }] });
        body
    };

    let body = with_instruction("TOKEN=s3cret");
    gate.agent().generate(MODEL, &body).await;

    let sent = upstream.only_request().json();
    assert_eq!(sent, with_instruction("TOKEN=***"));
}
