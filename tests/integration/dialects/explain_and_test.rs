//! `explain` and `test` on the paths of every API.

use std::fs;

use tempfile::TempDir;

use crate::harness::run;

const CASES: &str = "
policies:
  - { policy: model_swap, swap: { m: other } }
  - { policy: prompt_guard, deny: [aurora], reason: not here }
cases:
  - name: the Gemini API
    path: /v1beta/models/m:generateContent
    request: { contents: [{ role: user, parts: [{ text: hi }] }] }
    expect: { verdict: proceed, model: other, text: 'You said: hi' }
  - name: Vertex AI
    path: /v1/projects/p/locations/l/publishers/google/models/m:generateContent
    request: { contents: [{ role: user, parts: [{ text: hi }] }] }
    expect: { verdict: proceed, model: other, text: 'You said: hi' }
  - name: Vertex AI, express
    path: /v1beta1/publishers/google/models/m:streamGenerateContent?alt=sse
    request: { contents: [{ role: user, parts: [{ text: aurora }] }] }
    expect: { verdict: deny, text: not here, upstream: null }
  - name: Code Assist
    path: /v1internal:generateContent
    request: { model: m, request: { contents: [{ role: user, parts: [{ text: hi }] }] } }
    answer: { candidates: [{ content: { role: model, parts: [{ text: scripted }] } }] }
    expect: { verdict: proceed, model: other, text: scripted }
  - name: Code Assist, streamed
    path: /v1internal:streamGenerateContent?alt=sse
    request: { model: m, request: { contents: [{ role: user, parts: [{ text: aurora }] }] } }
    expect: { verdict: deny, text: not here }
";

#[test]
fn cases_pass_on_every_api() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("cases.yaml"), CASES).unwrap();
    let (code, stdout, stderr) = run(&["test", "cases.yaml"], folder.path());
    assert_eq!(code, 0, "{stdout}{stderr}");
}

#[test]
fn explain_reports_an_api_that_is_not_configured() {
    let folder = TempDir::new().unwrap();
    let config = "upstreams: { vertex: { url: https://example.org } }";
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let call =
        r#"{ "path": "/v1internal:generateContent", "body": { "model": "m", "request": {} } }"#;
    fs::write(folder.path().join("act.json"), call).unwrap();
    let explain = ["explain", "--config", "hookgate.yaml", "act.json"];

    let (code, stdout, _) = run(&explain, folder.path());

    assert_eq!(code, 1);
    assert!(
        stdout.contains("error: upstream `code_assist` is not configured"),
        "{stdout}"
    );
}
