//! Recorded requests of real agents and recorded answers of the real model API, sent through the
//! gateway: only edits by hooks change them.

mod events;
mod llxprt;

use std::{fs, io::Read, path::Path};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::harness::{Agent, Answer, TestGateway, Upstream, event_data, prompt};

const NO_HOOKS: &str = "";

/// A hook that prints an empty output.
const EMPTY_OUTPUT: &str = "hooks: { AfterModel: [{ hooks: [{ command: \"echo '{}'\" }] }] }";

/// A hook that replaces every text of an answer, including thoughts. It runs on every chunk, so it
/// uses sed, which starts ten times faster than Python.
const MASK: &str = "hooks: { AfterModel: [{ hooks: [{ command: sed -Ef mask.sed }] }] }";
const MASK_SED: &str = r#"
s/^.*"parts":(\[("([^"\\]|\\.)*",?)*\]).*$/\1/
s/"([^"\\]|\\.)*"/"[masked]"/g
s/.*/{"hookSpecificOutput":{"llm_response":{"candidates":[{"content":{"parts":&}}]}}}/
"#;

/// Hooks that return every request as they received it.
const ECHO: &str = "
hooks:
  BeforeModel: [{ hooks: [{ name: model, command: bash echo.sh }] }]
  BeforeToolSelection: [{ hooks: [{ name: tools, command: bash echo.sh }] }]
";
const ECHO_SH: &str = r#"
sed 's/^.*"llm_request":/{"hookSpecificOutput":{"llm_request":/; s/$/}/'
"#;

#[tokio::test]
async fn recorded_answers_pass_without_hooks_byte_for_byte() {
    for script in scripts() {
        let received = replay(&script, NO_HOOKS, &[Form::Events, Form::Array]).await;

        for ((recorded, form), answer) in received {
            assert_eq!(answer.text(), wire_body(&recorded, form), "{form:?}");
        }
    }
}

#[tokio::test]
async fn recorded_answers_pass_a_hook_with_empty_output() {
    for script in scripts() {
        let received = replay(&script, EMPTY_OUTPUT, &[Form::Events, Form::Array]).await;

        for ((recorded, form), answer) in received {
            assert_eq!(chunks(&answer, form), chunks_of(&recorded), "{form:?}");
        }
    }
}

#[tokio::test]
async fn a_masking_hook_replaces_only_the_texts_of_recorded_answers() {
    for script in scripts() {
        let received = replay(&script, MASK, &[Form::Events, Form::Array]).await;

        for ((recorded, form), answer) in received {
            let mut expected = chunks_of(&recorded);
            expected.iter_mut().for_each(mask);
            assert_eq!(chunks(&answer, form), expected, "{form:?}");
        }
    }
}

#[tokio::test]
async fn recorded_requests_pass_without_hooks_byte_for_byte() {
    let upstream = Upstream::answering(&json!({})).await;
    let gate = TestGateway::start(&upstream, NO_HOOKS).await;

    for recorded in requests() {
        let answer = gate
            .agent()
            .post(&recorded.path, recorded.body.clone())
            .await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        let asked = upstream.requests().pop().unwrap();
        assert_eq!(asked.body, recorded.body);
        // LiteLLM omits the API version.
        let path = recorded.path.split('?').next().unwrap();
        assert!(asked.path.ends_with(path), "{}", asked.path);
    }
}

#[tokio::test]
async fn recorded_requests_pass_hooks_that_return_them_unchanged() {
    let upstream = Upstream::answering(&json!({})).await;
    let gate = TestGateway::with_files(&upstream, ECHO, &[("echo.sh", ECHO_SH)]).await;

    for recorded in sample(requests()) {
        let answer = gate
            .agent()
            .post(&recorded.path, recorded.body.clone())
            .await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        let hooks = answer.header("x-hookgate-hooks");
        assert!(hooks.contains("model;"), "{hooks:?}");
        let is_generation = recorded.path.contains("enerateContent");
        assert_eq!(hooks.contains("tools;"), is_generation, "{hooks:?}");
        let asked = upstream.requests().pop().unwrap();
        assert_eq!(asked.body, recorded.body);
    }
}

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Unary,
    Events,
    Array,
}

/// The scripts of `cases/responses`.
fn scripts() -> Vec<String> {
    let files = files("responses", "responses");
    assert_eq!(files.len(), 12);
    let read = |path: &std::path::PathBuf| fs::read_to_string(path).unwrap();
    files.iter().map(read).collect()
}

/// Sends a request for every answer of a script, with streams in these forms, and returns the
/// recorded answers with the received ones.
async fn replay(script: &str, config: &str, streams: &[Form]) -> Vec<((String, Form), Answer)> {
    let mut received = Vec::new();
    for stream in streams {
        let upstream = Upstream::scripted(script).await;
        let gate = TestGateway::with_files(&upstream, config, &[("mask.sed", MASK_SED)]).await;
        for line in script.lines() {
            let (form, recorded) = recorded_answer(line, *stream);
            let answer = ask(&gate.agent(), form).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            received.push(((recorded, form), answer));
        }
    }
    received
}

async fn ask(agent: &Agent, form: Form) -> Answer {
    let (model, body) = ("gemini-2.5-pro", prompt("hello"));
    match form {
        Form::Unary => agent.generate(model, &body).await,
        Form::Events => agent.stream(model, &body).await,
        Form::Array => agent.array(model, &body).await,
    }
}

/// Form and exact text of the answer in a line of a script.
fn recorded_answer(line: &str, stream: Form) -> (Form, String) {
    let (head, tail) = line.split_once(r#","response":"#).unwrap();
    let text = tail.strip_suffix('}').unwrap();
    let streamed = head.contains("generateContentStream");
    let form = if streamed { stream } else { Form::Unary };
    (form, text.to_owned())
}

/// The body in which the model API sends a recorded answer.
fn wire_body(recorded: &str, form: Form) -> String {
    if form == Form::Unary {
        return recorded.to_owned();
    }
    let chunks: Vec<&serde_json::value::RawValue> = serde_json::from_str(recorded).unwrap();
    let chunks: Vec<&str> = chunks.iter().map(|chunk| chunk.get()).collect();
    if form == Form::Array {
        return format!("[{}]", chunks.join(",\r\n"));
    }
    format!("data: {}\r\n\r\n", chunks.join("\r\n\r\ndata: "))
}

fn chunks_of(recorded: &str) -> Vec<Value> {
    match serde_json::from_str(recorded).unwrap() {
        Value::Array(chunks) => chunks,
        whole => vec![whole],
    }
}

fn chunks(answer: &Answer, form: Form) -> Vec<Value> {
    match form {
        Form::Unary => vec![answer.json()],
        Form::Array => chunks_of(answer.text()),
        Form::Events => event_data(answer.text())
            .iter()
            .map(|event| serde_json::from_str(event).unwrap())
            .collect(),
    }
}

/// Applies the edit of `mask.sed` to a chunk.
fn mask(chunk: &mut Value) {
    let candidates = chunk["candidates"].as_array_mut();
    for candidate in candidates.into_iter().flatten() {
        let Some(parts) = candidate.pointer_mut("/content/parts") else {
            continue;
        };
        for part in parts.as_array_mut().unwrap() {
            if let Some(text) = part.get_mut("text") {
                *text = json!("[masked]");
            }
        }
    }
}

/// A recorded request to a model.
struct RecordedRequest {
    file: String,
    path: String,
    body: String,
    user_agent: String,
}

/// The requests of `cases/traffic` that call a model.
fn requests() -> Vec<RecordedRequest> {
    let mut requests = Vec::new();
    for file in files("traffic", "gz") {
        let mut text = String::new();
        let packed = fs::File::open(&file).unwrap();
        GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        let before = requests.len();
        requests.extend(text.lines().filter_map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let (path, body) = model_call(&line)?;
            let name = file.file_name().unwrap().to_string_lossy();
            let mut headers = line["headers"].as_array().unwrap().iter();
            let is_user_agent = |header: &&Value| {
                header[0]
                    .as_str()
                    .unwrap()
                    .eq_ignore_ascii_case("user-agent")
            };
            let user_agent = headers.find(is_user_agent).map(|header| &header[1]);
            Some(RecordedRequest {
                file: name.replace(".jsonl.gz", ""),
                path,
                body,
                user_agent: user_agent
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
            })
        }));
        assert!(requests.len() > before, "no requests in {}", file.display());
    }
    requests
}

/// Path and body of a request to a model. Agents send other requests to Code Assist, too.
fn model_call(line: &Value) -> Option<(String, String)> {
    let path = line["path"].as_str().filter(|_| line["method"] == "POST")?;
    let query = line["query"].as_str().unwrap();
    let body = &line["body"];
    if path.starts_with("/v1internal:") && body.get("request").is_none() {
        return None;
    }
    Some((format!("{path}{query}"), body.to_string()))
}

/// The body of a request without the envelope of Code Assist.
fn without_envelope(recorded: &RecordedRequest) -> Value {
    let mut body: Value = serde_json::from_str(&recorded.body).unwrap();
    match body.get_mut("request") {
        Some(request) => request.take(),
        None => body,
    }
}

/// The largest request of each file and every fifth request, so that a test takes seconds.
fn sample(requests: Vec<RecordedRequest>) -> Vec<RecordedRequest> {
    let largest = |file: &str| {
        let of_file = requests.iter().filter(|request| request.file == file);
        of_file.map(|request| request.body.len()).max()
    };
    let kept: Vec<bool> = requests
        .iter()
        .enumerate()
        .map(|(index, request)| {
            index % 5 == 0 || largest(&request.file) == Some(request.body.len())
        })
        .collect();
    let pairs = requests.into_iter().zip(kept);
    pairs
        .filter_map(|(request, kept)| kept.then_some(request))
        .collect()
}

/// The files of a folder of `cases`, by their extension.
fn files(folder: &str, extension: &str) -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cases")
        .join(folder);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}
