//! The coverage table, row by row against the running gateway, and cached content.

mod caches;

use std::collections::BTreeSet;

use hookgate::dialect::{self, Access, Api, HookCoverage, MethodSpec};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::harness::{
    Answer, ReceivedRequest, TestGateway, Upstream, assert_refused, run, send_and_read,
};

/// Hooks without output. The response headers show which of them ran.
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

/// A path that matches this row.
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

/// A valid body for this row.
fn body_of(row: &MethodSpec) -> String {
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

/// A model API that answers every method with `a`, and names every cache `x1`.
async fn model_api() -> Upstream {
    Upstream::with(|request: ReceivedRequest| {
        let candidate = json!({
            "content": { "role": "model", "parts": [{ "text": "a" }] }, "finishReason": "STOP",
        });
        let last = request.path.rsplit('/').next().unwrap();
        let is_response = request.path.contains("/responses");
        let kind = if is_response { "responses" } else { last };
        let mut response = match kind {
            "messages" => json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "x1",
                "content": [{ "type": "text", "text": "a" }], "stop_reason": "end_turn",
                "usage": { "input_tokens": 1, "output_tokens": 1 },
            }),
            "responses" => json!({
                "id": "x1", "object": "response", "status": "completed", "model": "x1",
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
            _ => json!({ "candidates": [candidate] }),
        };
        if request.path.starts_with("/v1internal:") {
            response = json!({ "response": response });
        } else if let Some((_, name)) = request.path.split_once("/v1/")
            && name.contains("cachedContents")
        {
            let name = name.strip_suffix("/x1").unwrap_or(name);
            response = json!({ "name": format!("{name}/x1") });
        }
        if request.query.contains("alt=sse") {
            let event = format!("data: {response}\r\n\r\n");
            return crate::harness::respond(200, "text/event-stream", event);
        }
        crate::harness::respond(200, "application/json", response.to_string())
    })
    .await
}

/// The coverage of a call, derived from the hooks that ran and the requests to upstream.
fn observed_coverage(answer: &Answer, upstream: &Upstream, before: usize) -> HookCoverage {
    let hooks = answer.header("x-hookgate-hooks");
    let is_forwarded = upstream.requests().len() > before;
    match (hooks.contains("before;"), hooks.contains("after;")) {
        // No request asks a model for a stored response, so only its answer is hooked.
        (_, true) => HookCoverage::Hooked,
        (true, false) => HookCoverage::RequestOnly,
        _ if is_forwarded => HookCoverage::Passed,
        _ => HookCoverage::Refused,
    }
}

/// Calls every method, and checks its coverage.
async fn check_every_method(config: &str, allowed: bool) {
    let upstream = model_api().await;
    let gateway = TestGateway::start(&upstream, &format!("{HOOKS}{config}")).await;
    for row in dialect::methods() {
        let (path, before) = (path_of(row), upstream.requests().len());
        let agent = match row.api {
            Api::Gemini | Api::Vertex | Api::CodeAssist => gateway.agent(),
            Api::Anthropic => gateway.agent().sending("anthropic-version", "2023-06-01"),
            Api::OpenAiResponses | Api::OpenAiChat => {
                gateway.agent().sending("authorization", "Bearer k")
            }
        };
        let method = row.method.replace("ANY", "PUT");
        let answer = agent.ask(&method, &path, &body_of(row)).await;

        let expected = row.coverage(allowed);
        let case = format!("{} {path}: {}", row.method, answer.text());
        assert_eq!(
            observed_coverage(&answer, &upstream, before),
            expected,
            "{case}"
        );
        if expected == HookCoverage::Refused {
            if row.access == Access::Socket {
                assert_eq!(answer.status, 426, "{case}");
                assert!(answer.text().contains("WEBSOCKET_REFUSED"), "{case}");
            } else if row.api.is_google() {
                assert_refused(&answer, 403, "METHOD_REFUSED");
            } else {
                assert_eq!(answer.status, 403, "{case}");
                assert!(answer.text().contains("METHOD_REFUSED"), "{case}");
            }
            assert!(answer.text().contains(&format!("`{}`", row.name)), "{case}");
            continue;
        }
        assert_eq!(answer.status, 200, "{case}");
        let request = upstream.requests().pop().unwrap();
        assert_eq!((request.method.as_str(), request.path), (row.method, path));
    }
    let metrics = gateway.operator().get("/metrics").await;
    let refused = r#"hookgate_requests_total{operation="live.BidiGenerateContent",status="426",action="error"} 2"#;
    assert!(metrics.text().contains(refused), "{}", metrics.text());
}

#[tokio::test]
async fn every_method_has_the_coverage_of_its_table_row() {
    check_every_method("", false).await;
}

#[tokio::test]
async fn every_method_that_is_allowed_by_name_passes() {
    let by_name = dialect::methods().filter(|method| method.access == Access::ByName);
    let names: BTreeSet<&str> = by_name.map(|method| method.name).collect();
    check_every_method(&format!("coverage: {}\n", json!({ "allow": names })), true).await;
}

#[tokio::test]
async fn variants_of_the_paths_in_the_table_are_refused() {
    let upstream = model_api().await;
    let gateway = TestGateway::start(&upstream, "").await;
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
            // An HTTP client would normalize the path.
            let head = format!("{} {other} HTTP/1.1\r\nhost: localhost\r\n", row.method);
            let bytes = format!("{head}connection: close\r\ncontent-length: 0\r\n\r\n");
            let answer = send_and_read(gateway.agents, bytes.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{other}: {answer}");
            assert!(answer.contains("\"UNKNOWN_PATH\""), "{other}: {answer}");
            checked += 1;
        }
    }
    assert!(checked > 200, "{checked}");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn upload_headers_are_forwarded_only_for_uploads() {
    let upstream = model_api().await;
    let gateway = TestGateway::start(&upstream, "coverage: { allow: [files.create] }\n").await;
    let agent = gateway
        .agent()
        .sending("x-goog-upload-protocol", "resumable");
    let generate = "/v1/models/m:generateContent";
    for (path, protocol) in [
        ("/upload/v1beta/files?uploadType=resumable", "resumable"),
        (generate, ""),
    ] {
        assert_eq!(agent.post(path, "{\"contents\":[]}").await.status, 200);
        let request = upstream.requests().pop().unwrap();
        assert_eq!(request.header("x-goog-upload-protocol"), protocol);
        let query = path.split_once('?').map_or("", |(_, query)| query);
        assert_eq!(request.query, query);
    }
}

#[tokio::test]
async fn a_downloaded_file_may_be_an_html_page() {
    let page = "<html>report</html>";
    let upstream = Upstream::with(move |request| {
        let is_missing = request.path.contains("missing");
        let status = if is_missing { 404 } else { 200 };
        crate::harness::respond(status, "text/html", page)
    })
    .await;
    let config = "coverage: { allow: [\"files.*\", \"openai_api.files.*\", \
                  containers.files.content] }\n";
    let gateway = TestGateway::start(&upstream, &format!("{HOOKS}{config}")).await;
    let agent = gateway.agent().sending("authorization", "Bearer k");
    for (path, status) in [
        ("/v1/files/f1/content", 200),
        ("/v1/containers/c/files/f/content", 200),
        ("/v1beta/files/f:download?alt=media", 200),
        ("/v1/files/missing/content", 404),
        ("/v1beta/files/f", 502),
    ] {
        let answer = agent.get(path).await;

        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert_eq!(answer.text() == page, status == 200, "{path}");
    }
}

#[tokio::test]
async fn the_coverage_endpoint_returns_the_table_under_the_config() {
    let upstream = model_api().await;
    let config = "upstreams: { gemini: { url: \"{upstream}\" } }\ncoverage: { allow: [\"batches.*\", files.get] }\n";
    let gateway = TestGateway::start(&upstream, config).await;

    let response = gateway.operator().get("/coverage").await.json();

    let rows = response.as_array().unwrap();
    let count = dialect::methods().count();
    assert_eq!(rows.len(), count + dialect::FIELDS.len());
    let (methods, fields) = rows.split_at(count);
    assert!(fields.iter().all(|field| field["field"].is_string()));
    for method in methods {
        let (api, name) = (
            method["api"].as_str().unwrap(),
            method["name"].as_str().unwrap(),
        );
        let allowed = name.starts_with("batches.") || name == "files.get";
        let row = dialect::methods()
            .find(|row| row.path == method["path"] && row.method == method["method"]);
        let runs = if api == "gemini" {
            row.unwrap().coverage(allowed)
        } else {
            HookCoverage::Refused
        };
        assert_eq!(method["runs"], json!(runs), "{method}");
    }
    let vertex = rows.iter().find(|row| row["api"] == "vertex").unwrap();
    assert_eq!(vertex["why"], "`upstreams.vertex` is not configured");
}

#[test]
fn check_warns_about_an_allowed_method_whose_answers_hold_uninspected_text() {
    let folder = tempfile::tempdir().unwrap();
    let config = "upstreams: { openai: { url: https://example.org } }\n\
        coverage: { allow: [\"completions.*\"] }\n";
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 0, "{stderr}");
    let expected = "no hook and no policy inspects the answers of `completions.create`, and `request_limits` applies only its `max_input`";
    assert!(stderr.contains(expected), "{stderr}");
}

#[test]
fn the_coverage_command_prints_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let config = "upstreams: { code_assist: { url: https://example.org, bearer: { env: NO_SUCH_TOKEN } } }\n";
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let (code, stdout, stderr) = run(&["coverage", "--config", "hookgate.yaml"], folder.path());
    assert_eq!((code, stderr.as_str()), (0, ""));
    let served: Vec<&str> = stdout
        .lines()
        .filter(|line| !line.starts_with("refused"))
        .collect();
    assert_snapshot!(served.join("\n"));
    assert!(stdout.ends_with("refused      anything else\n"), "{stdout}");

    let (code, stdout, _) = run(&["coverage", "--json"], folder.path());
    let all: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, 0);
    let rows = dialect::methods().count() + dialect::FIELDS.len();
    assert_eq!(all.as_array().unwrap().len(), rows);
}

#[test]
fn methods_that_cannot_be_allowed_are_config_errors() {
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

    let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 78);
    assert_snapshot!(stderr);
}
