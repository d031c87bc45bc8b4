//! HTTP API of the mock: the Gemini API and scripts.

mod anthropic;
mod chat;
mod request_log;
mod responses;

use std::time::{Duration, Instant};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode, header::CONTENT_TYPE},
    response::Response,
};
use serde_json::{Map, Value, json};
use tower::ServiceExt;

use super::{MockConfig, ResponseForm, Script, router};

const UNARY: &str = "/v1beta/models/m:generateContent";
const EVENTS: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const ARRAY: &str = "/models/m:streamGenerateContent";

async fn send(mock: &Router, method: &str, path: &str, body: String) -> Response {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Body::from(body)).unwrap();
    mock.clone().oneshot(request).await.unwrap()
}

async fn text(response: Response) -> String {
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

async fn post(mock: &Router, path: &str, body: &Value) -> Value {
    let response = send(mock, "POST", path, body.to_string()).await;
    serde_json::from_str(&text(response).await).unwrap()
}

async fn stream(mock: &Router, body: &Value) -> Vec<Value> {
    let text = text(send(mock, "POST", EVENTS, body.to_string()).await).await;
    let events = text.strip_suffix("\r\n\r\n").unwrap().split("\r\n\r\n");
    events
        .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
        .collect()
}

/// Returns the documents of a stream whose events end with a line feed.
async fn events(mock: &Router, path: &str, body: &Value) -> Vec<Value> {
    let text = text(send(mock, "POST", path, body.to_string()).await).await;
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn mock() -> Router {
    router(MockConfig::default())
}

fn scripted(script: &str) -> Router {
    router(MockConfig {
        script: Some(Script::parse(script).unwrap()),
        ..MockConfig::default()
    })
}

fn prompt(text: &str) -> Value {
    json!({ "contents": [{ "role": "user", "parts": [{ "text": "context" }, { "text": text }] }] })
}

fn with_tools(text: &str, tool_config: &Value) -> Value {
    let schema = json!({
        "type": "OBJECT",
        "properties": { "path": { "type": "STRING" }, "lines": { "type": "INTEGER", "minimum": 5 }, "all": { "type": "BOOLEAN" } },
        "required": ["path", "lines"],
    });
    let mut request = prompt(text);
    request["tools"] = json!([
        { "functionDeclarations": [{ "name": "read_file", "parametersJsonSchema": schema }] },
        { "function_declarations": [{ "name": "" }, { "name": "glob", "parameters": schema }] },
    ]);
    request["toolConfig"] = tool_config.clone();
    request
}

fn parts(chunk: &Value) -> &Vec<Value> {
    chunk["candidates"][0]["content"]["parts"]
        .as_array()
        .unwrap()
}

#[tokio::test]
async fn a_prompt_is_echoed_under_every_prefix() {
    let prefixes = [
        "/v1beta",
        "/v1",
        "/v1alpha",
        "",
        "/v1beta1/publishers/google",
        "/v1/projects/p/locations/l/publishers/google",
    ];
    for prefix in prefixes {
        let path = format!("{prefix}/models/gemini-x:generateContent");

        let answer = post(&mock(), &path, &prompt("hello")).await;

        assert_eq!(
            answer["candidates"][0]["content"],
            json!({ "parts": [{ "text": "You said: hello" }], "role": "model" })
        );
        assert_eq!(answer["candidates"][0]["finishReason"], "STOP");
        assert_eq!(answer["modelVersion"], "gemini-x");
        let usage = &answer["usageMetadata"];
        let count = |name: &str| usage[name].as_u64().unwrap();
        assert!(count("promptTokenCount") > 0);
        assert_eq!(
            count("totalTokenCount"),
            count("promptTokenCount") + count("candidatesTokenCount")
        );
    }
}

#[tokio::test]
async fn code_assist_requests_and_responses_have_an_envelope() {
    let body = json!({ "model": "gemini-x", "request": prompt("hello") });

    let answer = post(&mock(), "/v1internal:generateContent", &body).await;

    assert_eq!(parts(&answer["response"])[0]["text"], "You said: hello");
    assert_eq!(answer["response"]["modelVersion"], "gemini-x");
}

#[tokio::test]
async fn a_stream_is_cut_between_characters_and_finishes_once() {
    let chunks = stream(&mock(), &prompt("äöü€😀")).await;

    let texts: Vec<&str> = chunks
        .iter()
        .map(|chunk| parts(chunk)[0]["text"].as_str().unwrap())
        .collect();
    let finishes: Vec<_> = chunks
        .iter()
        .map(|chunk| chunk["candidates"][0].get("finishReason"))
        .collect();
    assert_eq!(texts, ["You s", "aid: ", "äöü€😀"]);
    assert_eq!(finishes, [None, None, Some(&json!("STOP"))]);
    assert_eq!(chunks[0]["responseId"], chunks[2]["responseId"]);
}

#[tokio::test]
async fn a_stream_without_sse_is_one_array() {
    let response = send(&mock(), "POST", ARRAY, prompt("hi").to_string()).await;

    assert_eq!(
        response.headers()[CONTENT_TYPE],
        "application/json; charset=UTF-8"
    );
    let chunks: Vec<Value> = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!(chunks.len(), 3);
}

#[tokio::test]
async fn chunks_have_the_configured_size() {
    let mock = router(MockConfig {
        chunks: 2,
        chunk_bytes: Some(1000),
        ..MockConfig::default()
    });

    let chunks = stream(&mock, &prompt("hi")).await;

    let sizes: Vec<_> = chunks
        .iter()
        .map(|chunk| parts(chunk)[0]["text"].as_str().unwrap().len())
        .collect();
    assert_eq!(sizes, [1000, 1000]);
}

#[tokio::test]
async fn thoughts_come_first_in_both_spellings() {
    for config in [
        json!({ "thinkingConfig": { "includeThoughts": true } }),
        json!({ "thinking_config": { "include_thoughts": true } }),
    ] {
        let mut request = prompt("hello");
        request["generationConfig"] = config;

        let chunks = stream(&mock(), &request).await;

        let thought = &parts(&chunks[0])[0];
        assert_eq!(thought["thought"], true);
        assert!(thought["thoughtSignature"].is_string());
        assert!(
            chunks[3]["usageMetadata"]["thoughtsTokenCount"]
                .as_u64()
                .unwrap()
                > 0
        );
        assert_eq!(chunks.len(), 4);
    }
}

#[tokio::test]
async fn named_functions_are_called_in_order_of_mention() {
    let text = r#"glob, then read_file {"path":"glob.txt"}; not read_files"#;

    let answer = post(&mock(), UNARY, &with_tools(text, &Value::Null)).await;

    let calls: Vec<_> = parts(&answer)
        .iter()
        .map(|part| (&part["functionCall"]["name"], &part["functionCall"]["args"]))
        .collect();
    let generated = json!({ "path": "example", "lines": 5 });
    assert_eq!(
        calls,
        [
            (&json!("glob"), &generated),
            (&json!("read_file"), &json!({ "path": "glob.txt" }))
        ]
    );
    assert!(parts(&answer)[0]["thoughtSignature"].is_string());
    assert_ne!(
        parts(&answer)[0]["functionCall"]["id"],
        parts(&answer)[1]["functionCall"]["id"]
    );
}

#[tokio::test]
async fn the_tool_config_restricts_calls() {
    let none = json!({ "functionCallingConfig": { "mode": "NONE" } });
    let only =
        json!({ "function_calling_config": { "mode": "ANY", "allowed_function_names": ["glob"] } });

    let refused = post(&mock(), UNARY, &with_tools("read_file", &none)).await;
    let restricted = post(&mock(), UNARY, &with_tools("read_file glob", &only)).await;

    assert_eq!(parts(&refused), &[json!({ "text": "You said: read_file" })]);
    assert_eq!(parts(&restricted).len(), 1);
    assert_eq!(parts(&restricted)[0]["functionCall"]["name"], "glob");
}

#[tokio::test]
async fn a_tool_result_ends_the_agent_loop() {
    let mut request = with_tools("read_file", &Value::Null);
    let result = json!({ "role": "user", "parts": [{ "functionResponse": { "name": "read_file", "response": { "output": "x" } } }] });
    request["contents"].as_array_mut().unwrap().push(result);

    let answer = post(&mock(), UNARY, &request).await;

    assert_eq!(
        parts(&answer)[0]["text"],
        r#"The tool returned: {"output":"x"}"#
    );
}

#[tokio::test]
async fn structured_output_conforms_to_its_schema() {
    let schema = json!({
        "type": "object",
        "$defs": { "kind": { "enum": ["a", "b"] } },
        "properties": {
            "score": { "type": "INTEGER", "maximum": 0 },
            "kind": { "$ref": "#/$defs/kind" },
            "tags": { "type": "ARRAY", "items": { "type": ["string", "null"] }, "minItems": "2" },
            "maybe": { "anyOf": [{ "type": "number" }, { "type": "null" }] },
            "optional": { "type": "boolean" },
        },
        "required": ["score", "kind", "tags", "maybe"],
    });
    let mut request = prompt("hello");
    request["generationConfig"] =
        json!({ "responseMimeType": "application/json", "responseJsonSchema": schema });

    let answer = post(&mock(), UNARY, &request).await;

    let document: Value =
        serde_json::from_str(parts(&answer)[0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        document,
        json!({ "score": 0, "kind": "a", "tags": ["example", "example"], "maybe": 1 })
    );
}

#[tokio::test]
async fn structured_output_of_any_schema_is_small() {
    let array = |items: Value| json!({ "type": "array", "items": items, "minItems": 100 });
    let arrays = (0..3).fold(json!({}), |items, _| array(items));
    let copies = array(json!({ "const": "x".repeat(1_000_000) }));
    let objects = |target: &str| {
        let property = |number| (format!("p{number}"), json!({ "$ref": target }));
        let properties: Map<String, Value> = (0..100).map(property).collect();
        json!({ "type": "object", "properties": properties })
    };
    let references = json!({
        "$ref": "#/$defs/a",
        "$defs": { "a": objects("#/$defs/b"), "b": objects("#/$defs/c"), "c": objects("#/$defs/d"), "d": {} },
    });
    for schema in [arrays, copies, references] {
        let mut request = prompt("hello");
        request["generationConfig"] = json!({ "responseJsonSchema": schema });

        let answer = post(&mock(), UNARY, &request).await;

        let bytes = answer.to_string().len();
        assert!(bytes < 2_000_000, "{bytes} bytes");
    }
}

#[tokio::test]
async fn arguments_of_many_calls_are_small() {
    let lines = json!({ "type": "array", "items": { "type": "string" }, "minItems": 100 });
    let pages = json!({ "type": "array", "items": lines, "minItems": 100 });
    let parameters =
        json!({ "type": "object", "properties": { "pages": pages }, "required": ["pages"] });
    let mut request = prompt(&"glob ".repeat(100));
    request["tools"] =
        json!([{ "functionDeclarations": [{ "name": "glob", "parameters": parameters }] }]);

    let answer = post(&mock(), UNARY, &request).await;

    assert_eq!(parts(&answer).len(), 100);
    let bytes = answer.to_string().len();
    assert!(bytes < 1_000_000, "{bytes} bytes");
}

#[tokio::test]
async fn long_fields_of_a_schema_are_not_read_for_each_value() {
    let long = 1_000_000;
    let number: Value = serde_json::from_str(&"1".repeat(long)).unwrap();
    let array = |items: Value| json!({ "type": "array", "items": items, "minItems": 100 });
    for items in [
        json!({ "type": "x".repeat(long) }),
        json!({ "type": "string", "minLength": "0".repeat(long) }),
        json!({ "type": "integer", "maximum": number }),
    ] {
        let mut request = prompt("hello");
        let schema = (0..3).fold(items, |items, _| array(items));
        request["generationConfig"] = json!({ "responseJsonSchema": schema });
        let started = Instant::now();

        post(&mock(), UNARY, &request).await;

        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn a_prompt_that_repeats_a_name_has_at_most_100_calls() {
    let answer = post(
        &mock(),
        UNARY,
        &with_tools(&"glob ".repeat(5000), &Value::Null),
    )
    .await;

    assert_eq!(parts(&answer).len(), 100);
}

#[tokio::test]
async fn many_declared_names_do_not_take_quadratic_time() {
    let names: Vec<String> = (10_000..40_000)
        .map(|number| format!("f{number}"))
        .collect();
    let declarations = names.iter().map(|name| json!({ "name": name }));
    let declarations: Vec<Value> = declarations.collect();
    let config = json!({ "functionCallingConfig": { "allowedFunctionNames": names } });
    let mut request = prompt(&"word ".repeat(150_000));
    request["tools"] = json!([{ "functionDeclarations": declarations }]);
    request["toolConfig"] = config;
    let started = Instant::now();

    let answer = post(&mock(), UNARY, &request).await;

    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(parts(&answer)[0]["text"].is_string());
}

#[tokio::test]
async fn tokens_embeddings_and_models_are_served() {
    let mock = mock();
    let content = json!({ "content": { "parts": [{ "text": "hello" }] } });

    let count = post(&mock, "/v1/models/m:countTokens", &prompt("hello")).await;
    let single = post(&mock, "/v1/models/m:embedContent", &content).await;
    let batch = post(
        &mock,
        "/v1/models/m:batchEmbedContents",
        &json!({ "requests": [content, content] }),
    )
    .await;
    let list = text(send(&mock, "GET", "/v1/models?pageSize=5", String::new()).await).await;
    let one = text(send(&mock, "GET", "/v1/models/gemini-x", String::new()).await).await;

    assert!(count["totalTokens"].as_u64().unwrap() > 0);
    assert_eq!(
        batch["embeddings"],
        json!([single["embedding"], single["embedding"]])
    );
    assert_eq!(single["embedding"]["values"].as_array().unwrap().len(), 8);
    assert!(list.contains(r#""name":"models/gemini-2.5-pro""#));
    assert!(one.contains(r#""name":"models/gemini-x""#));
}

#[tokio::test]
async fn errors_have_the_form_of_google() {
    let cases = [
        ("POST", UNARY, "{", 400, "INVALID_ARGUMENT"),
        ("POST", UNARY, r#"{"contents":[]}"#, 400, "INVALID_ARGUMENT"),
        ("POST", "/v1/models/m:sing", "{}", 404, "NOT_FOUND"),
        ("GET", UNARY, "", 404, "NOT_FOUND"),
        ("POST", "/other", "{}", 404, "NOT_FOUND"),
        ("GET", "/v1beta/v1beta/models", "", 404, "NOT_FOUND"),
    ];
    for (method, path, body, code, status) in cases {
        let response = send(&mock(), method, path, body.to_owned()).await;

        assert_eq!(response.status().as_u16(), code, "{method} {path} {body}");
        let error: Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!(error["error"]["code"], code);
        assert_eq!(error["error"]["status"], status);
        assert!(error["error"]["message"].is_string());
    }
}

#[tokio::test]
async fn a_script_is_replayed_byte_for_byte_until_it_ends() {
    let mock = scripted(concat!(
        r#"{"method":"generateContentStream","response":[{"a":1.50},{"b":2}]}"#,
        "\n\n",
        r#"{"method":"generateContent","response":{"c":3}}"#,
        "\n",
        r#"{"method":"generateContentStream","response":[]}"#,
    ));
    let ask = |path| {
        let mock = mock.clone();
        async move { text(send(&mock, "POST", path, "{}".to_owned()).await).await }
    };

    assert_eq!(ask(UNARY).await, r#"{"c":3}"#);
    assert_eq!(
        ask(EVENTS).await,
        "data: {\"a\":1.50}\r\n\r\ndata: {\"b\":2}\r\n\r\n"
    );
    assert_eq!(ask(ARRAY).await, "[]");
    let exhausted = send(&mock, "POST", EVENTS, "{}".to_owned()).await;
    assert_eq!(exhausted.status(), StatusCode::BAD_REQUEST);
    assert!(text(exhausted).await.contains("no response left"));
}

#[test]
fn an_invalid_script_is_reported_with_its_line() {
    let valid = r#"{"method":"generateContent","response":{}}"#;
    for invalid in [
        "{",
        r#"{"method":"sing","response":{}}"#,
        r#"{"method":"generateContent","response":[]}"#,
        r#"{"method":"generateContentStream","response":{}}"#,
    ] {
        let error = Script::parse(&format!("{valid}\n\n{invalid}\n")).unwrap_err();

        assert!(error.to_string().starts_with("line 3 "), "{error}");
    }
}

#[tokio::test]
async fn native_responses_are_sent_as_they_are() {
    let message = json!({ "type": "message", "id": "msg_1", "content": [] });
    let chunk = json!({ "id": "c", "choices": [] });
    let mut script = Script::default();
    script.push_answer(message.to_string(), ResponseForm::Native);
    script.push_stream(vec![message.to_string()], ResponseForm::Native);
    script.push_stream(vec![chunk.to_string()], ResponseForm::Native);
    let mock = router(MockConfig {
        script: Some(script),
        ..MockConfig::default()
    });
    let mut request = json!({
        "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": "hello" }],
    });

    assert_eq!(post(&mock, "/v1/messages", &request).await, message);
    request["stream"] = json!(true);
    let streamed = text(send(&mock, "POST", "/v1/messages", request.to_string()).await).await;
    assert_eq!(streamed, format!("event: message\ndata: {message}\n\n"));
    let streamed = send(&mock, "POST", "/v1/chat/completions", request.to_string()).await;
    let streamed = text(streamed).await;
    assert_eq!(streamed, format!("data: {chunk}\n\ndata: [DONE]\n\n"));
}
