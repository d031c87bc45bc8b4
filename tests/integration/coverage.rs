//! The coverage table, line by line against the running gateway, and what is
//! kept by model APIs.

mod caches;

use std::collections::BTreeSet;

use hookgate::dialect::{self, Access, Api, HookCoverage, MethodSpec};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::harness::{Answer, Asked, TestGateway, Upstream, assert_refused, exchange, run};

/// Says nothing, and shows by that in the headers that it ran.
const HOOKS: &str = "upstreams:
  gemini: { url: '{upstream}' }
  vertex: { url: '{upstream}' }
  code_assist: { url: '{upstream}' }
  anthropic: { url: '{upstream}' }
  openai: { url: '{upstream}' }
hooks:
  BeforeModel: [{ hooks: [{ name: before, command: cat > /dev/null }] }]
  AfterModel: [{ hooks: [{ name: after, command: cat > /dev/null }] }]
";

/// A path of this row.
fn path_of(row: &MethodSpec) -> String {
    let version = match row.api {
        Api::CodeAssist => "v1internal",
        _ => "v1",
    };
    let mut path = row.path.replace("{version}", version);
    while let Some((head, rest)) = path.split_once('{') {
        let (_, tail) = rest.split_once('}').unwrap();
        path = format!("{head}x1{tail}");
    }
    path
}

/// A body that suits every method that is read.
fn body(row: &MethodSpec) -> String {
    if ["GET", "HEAD"].contains(&row.method) {
        return String::new();
    }
    let turns = json!([{ "role": "user", "content": "hi" }]);
    match row.api {
        Api::Gemini | Api::Vertex | Api::CodeAssist => (),
        Api::OpenAiChat if row.name == "chat.completions.create" => {
            return json!({ "model": "x1", "messages": turns }).to_string();
        }
        Api::Anthropic => {
            return json!({ "model": "x1", "max_tokens": 9, "messages": turns }).to_string();
        }
        Api::OpenAiResponses | Api::OpenAiChat => {
            return json!({ "model": "x1", "input": "hi" }).to_string();
        }
    }
    let content = json!({ "role": "user", "parts": [{ "text": "hi" }] });
    match (row.api, row.name.rsplit('.').next().unwrap()) {
        (Api::CodeAssist, "generateContent" | "streamGenerateContent" | "countTokens") => {
            json!({ "model": "x1", "request": { "contents": [content] } })
        }
        (_, "embedContent") => json!({ "content": content }),
        (_, "batchEmbedContents") => json!({ "requests": [{ "content": content }] }),
        (Api::Gemini, "create") if row.name == "cachedContents.create" => {
            json!({ "model": "models/x1", "contents": [content] })
        }
        (Api::Vertex, "create") if row.name == "cachedContents.create" => {
            let model = "projects/x1/locations/x1/publishers/google/models/x1";
            json!({ "model": model, "contents": [content] })
        }
        (_, "patch") => json!({ "ttl": "60s" }),
        _ => json!({ "contents": [content] }),
    }
    .to_string()
}

/// A model API that says a word, and gives every cache the name `x1`.
async fn upstream() -> Upstream {
    Upstream::with(|asked: Asked| {
        let said = json!({ "content": { "role": "model", "parts": [{ "text": "a" }] }, "finishReason": "STOP" });
        let mut answer = match asked.path.rsplit('/').next().unwrap() {
            "messages" => json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "x1",
                "content": [{ "type": "text", "text": "a" }], "stop_reason": "end_turn",
                "usage": { "input_tokens": 1, "output_tokens": 1 },
            }),
            "responses" => json!({
                "id": "resp_1", "object": "response", "status": "completed", "model": "x1",
                "output": [{
                    "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
                    "content": [{ "type": "output_text", "text": "a", "annotations": [] }],
                }],
            }),
            "completions" => json!({
                "id": "c1", "object": "chat.completion", "model": "x1", "choices": [{
                    "index": 0, "message": { "role": "assistant", "content": "a" },
                    "finish_reason": "stop",
                }],
            }),
            _ => json!({ "candidates": [said] }),
        };
        if asked.path.starts_with("/v1internal:") {
            answer = json!({ "response": answer });
        } else if let Some((_, name)) = asked.path.split_once("/v1/")
            && name.contains("cachedContents")
        {
            let name = name.strip_suffix("/x1").unwrap_or(name);
            answer = json!({ "name": format!("{name}/x1") });
        }
        if asked.query.contains("alt=sse") {
            let event = format!("data: {answer}\r\n\r\n");
            return crate::harness::respond(200, "text/event-stream", event);
        }
        crate::harness::respond(200, "application/json", answer.to_string())
    })
    .await
}

/// What was seen to run on a call.
fn seen(answer: &Answer, upstream: &Upstream, before: usize) -> HookCoverage {
    let hooks = answer.header("x-hookgate-hooks");
    let asked = upstream.seen().len() > before;
    match (hooks.contains("before;"), hooks.contains("after;")) {
        (true, true) => HookCoverage::Hooked,
        (true, false) => HookCoverage::RequestOnly,
        _ if asked => HookCoverage::Passed,
        _ => HookCoverage::Refused,
    }
}

/// Calls every method, and checks what runs on it.
async fn check(config: &str, allowed: bool) {
    let upstream = upstream().await;
    let gate = TestGateway::start(&upstream, &format!("{HOOKS}{config}")).await;
    for row in dialect::methods() {
        let (path, before) = (path_of(row), upstream.seen().len());
        let agent = match row.api {
            Api::Gemini | Api::Vertex | Api::CodeAssist => gate.agent(),
            Api::Anthropic => gate.agent().sending("anthropic-version", "2023-06-01"),
            Api::OpenAiResponses | Api::OpenAiChat => {
                gate.agent().sending("authorization", "Bearer k")
            }
        };
        let method = row.method.replace("ANY", "PUT");
        let answer = agent.ask(&method, &path, &body(row)).await;

        let expected = row.coverage(allowed);
        let what = format!("{} {path}: {}", row.method, answer.text());
        assert_eq!(seen(&answer, &upstream, before), expected, "{what}");
        if expected == HookCoverage::Refused {
            if row.access == Access::Socket {
                assert_eq!(answer.status, 426, "{what}");
            } else if row.api.is_google() {
                assert_refused(&answer, 403, "METHOD_REFUSED");
            } else {
                assert_eq!(answer.status, 403, "{what}");
                assert!(answer.text().contains("METHOD_REFUSED"), "{what}");
            }
            assert!(answer.text().contains(&format!("`{}`", row.name)), "{what}");
            continue;
        }
        assert_eq!(answer.status, 200, "{what}");
        let asked = upstream.seen().pop().unwrap();
        assert_eq!((asked.method.as_str(), asked.path), (row.method, path));
    }
    let metrics = gate.operator().get("/metrics").await;
    let refused = r#"hookgate_requests_total{operation="live.BidiGenerateContent",status="403",action="error"} 2"#;
    assert!(metrics.text().contains(refused), "{}", metrics.text());
}

#[tokio::test]
async fn every_method_is_treated_as_the_table_says() {
    check("", false).await;
}

#[tokio::test]
async fn every_method_that_is_allowed_by_name_passes() {
    let by_name = dialect::methods().filter(|it| it.access == Access::ByName);
    let names: BTreeSet<&str> = by_name.map(|it| it.name).collect();
    check(&format!("coverage: {}\n", json!({ "allow": names })), true).await;
}

#[tokio::test]
async fn a_path_that_is_nearly_one_of_the_table_is_refused() {
    let upstream = upstream().await;
    let gate = TestGateway::start(&upstream, "").await;
    let mut checked = 0;
    // An answer to `HEAD` does not name its reason.
    let open = |row: &&MethodSpec| row.access == Access::Open && row.method != "HEAD";
    for row in dialect::methods().filter(open) {
        let path = path_of(row);
        let (head, last) = path.rsplit_once('/').unwrap();
        for other in [
            format!("/{path}"),
            format!("{path}/"),
            format!("{path}%20"),
            format!("{path};a=b"),
            format!("{head}//{last}"),
            format!("{head}/%2e%2e/{last}"),
            format!("/v1%2F{last}"),
            path.replace("/v1", "/V1"),
            format!("/s/a/s/b{path}"),
            format!("/x{path}"),
        ] {
            // A client would tidy the path up.
            let head = format!("{} {other} HTTP/1.1\r\nhost: localhost\r\n", row.method);
            let bytes = format!("{head}connection: close\r\ncontent-length: 0\r\n\r\n");
            let answer = exchange(gate.agents, bytes.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{other}: {answer}");
            assert!(answer.contains("\"UNKNOWN_PATH\""), "{other}: {answer}");
            checked += 1;
        }
    }
    assert!(checked > 200, "{checked}");
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn an_upload_says_what_it_is_and_no_other_call_does() {
    let upstream = upstream().await;
    let gate = TestGateway::start(&upstream, "coverage: { allow: [files.create] }\n").await;
    let agent = gate.agent().sending("x-goog-upload-protocol", "resumable");
    let generate = "/v1/models/m:generateContent";
    for (path, seen) in [
        ("/upload/v1beta/files?uploadType=resumable", "resumable"),
        (generate, ""),
    ] {
        assert_eq!(agent.post(path, "{\"contents\":[]}").await.status, 200);
        let asked = upstream.seen().pop().unwrap();
        assert_eq!(asked.header("x-goog-upload-protocol"), seen);
        let query = path.split_once('?').map_or("", |it| it.1);
        assert_eq!(asked.query, query);
    }
}

#[tokio::test]
async fn the_coverage_command_prints_the_table_under_the_config() {
    let upstream = upstream().await;
    let config = "upstreams: { gemini: { url: \"{upstream}\" } }\ncoverage: { allow: [\"batches.*\", files.get] }\n";
    let gate = TestGateway::start(&upstream, config).await;

    let told = gate.operator().get("/coverage").await.json();

    let told = told.as_array().unwrap();
    let count = dialect::methods().count();
    assert_eq!(told.len(), count + dialect::FIELDS.len());
    let (methods, fields) = told.split_at(count);
    assert!(fields.iter().all(|it| it["field"].is_string()));
    for it in methods {
        let (api, name) = (it["api"].as_str().unwrap(), it["name"].as_str().unwrap());
        let allowed = name.starts_with("batches.") || name == "files.get";
        let row =
            dialect::methods().find(|row| row.path == it["path"] && row.method == it["method"]);
        let runs = if api == "gemini" {
            row.unwrap().coverage(allowed)
        } else {
            HookCoverage::Refused
        };
        assert_eq!(it["runs"], json!(runs), "{it}");
    }
    let vertex = told.iter().find(|it| it["api"] == "vertex").unwrap();
    assert_eq!(vertex["why"], "`upstreams.vertex` is not configured");
}

#[test]
fn the_table_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let config = "upstreams: { code_assist: { url: https://example.org, bearer: { env: NO_SUCH_TOKEN } } }\n";
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let (code, said, wrong) = run(&["coverage", "--config", "hookgate.yaml"], folder.path());
    assert_eq!((code, wrong.as_str()), (0, ""));
    let served: Vec<&str> = said
        .lines()
        .filter(|it| !it.starts_with("refused"))
        .collect();
    assert_snapshot!(served.join("\n"));
    assert!(said.ends_with("refused      anything else\n"), "{said}");

    let (code, said, _) = run(&["coverage", "--json"], folder.path());
    let all: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(code, 0);
    let rows = dialect::methods().count() + dialect::FIELDS.len();
    assert_eq!(all.as_array().unwrap().len(), rows);
}

#[test]
fn what_cannot_be_allowed_is_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let config = "upstreams: { gemini: { url: https://example.org } }
coverage:
  allow:
    - files.creat
    - live.BidiGenerateContent
    - \"live.*\"
    - cachedContents.list
    - \"*\"
    - \"cachedContents.*\"
    - models.list
";
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let (code, _, wrong) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 78);
    assert_snapshot!(wrong);
}
