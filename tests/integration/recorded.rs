//! What real agents sent and what the real model API answered, through the
//! gateway: nothing changes but what hooks change.

mod events;
mod llxprt;

use std::{fs, io::Read, path::Path};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::harness::{Agent, Answer, TestGateway, Upstream, event_data, prompt};

const HOOKLESS: &str = "";

/// Says nothing about an answer.
const IDENTITY: &str = "hooks: { AfterModel: [{ hooks: [{ command: \"echo '{}'\" }] }] }";

/// Replaces every text of an answer, thoughts included. By sed, which starts ten
/// times faster than Python and sees every chunk.
const MASK: &str = "hooks: { AfterModel: [{ hooks: [{ command: sed -Ef mask.sed }] }] }";
const MASK_SED: &str = r#"
s/^.*"parts":(\[("([^"\\]|\\.)*",?)*\]).*$/\1/
s/"([^"\\]|\\.)*"/"[masked]"/g
s/.*/{"hookSpecificOutput":{"llm_response":{"candidates":[{"content":{"parts":&}}]}}}/
"#;

/// Gives every request back as it was shown.
const ECHO: &str = "
hooks:
  BeforeModel: [{ hooks: [{ name: model, command: bash echo.sh }] }]
  BeforeToolSelection: [{ hooks: [{ name: tools, command: bash echo.sh }] }]
";
const ECHO_SH: &str = r#"
sed 's/^.*"llm_request":/{"hookSpecificOutput":{"llm_request":/; s/$/}/'
"#;

#[tokio::test]
async fn recorded_answers_pass_unhooked_byte_for_byte() {
    for script in scripts() {
        let received = replay(&script, HOOKLESS, &[Form::Events, Form::Array]).await;

        for ((recorded, form), answer) in received {
            assert_eq!(answer.text(), written(&recorded, form), "{form:?}");
        }
    }
}

#[tokio::test]
async fn recorded_answers_pass_a_hook_that_says_nothing() {
    for script in scripts() {
        let received = replay(&script, IDENTITY, &[Form::Events, Form::Array]).await;

        for ((recorded, form), answer) in received {
            assert_eq!(chunks(&answer, form), chunks_of(&recorded), "{form:?}");
        }
    }
}

#[tokio::test]
async fn only_the_texts_of_recorded_answers_are_replaced() {
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
async fn recorded_requests_pass_unhooked_byte_for_byte() {
    let upstream = Upstream::answering(&json!({})).await;
    let gate = TestGateway::start(&upstream, HOOKLESS).await;

    for recorded in requests() {
        let answer = gate
            .agent()
            .post(&recorded.path, recorded.body.clone())
            .await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        let asked = upstream.seen().pop().unwrap();
        assert_eq!(asked.body, recorded.body);
        // LiteLLM leaves the version out.
        let path = recorded.path.split('?').next().unwrap();
        assert!(asked.path.ends_with(path), "{}", asked.path);
    }
}

#[tokio::test]
async fn recorded_requests_pass_hooks_that_give_them_back() {
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
        let generates = recorded.path.contains("enerateContent");
        assert_eq!(hooks.contains("tools;"), generates, "{hooks:?}");
        let asked = upstream.seen().pop().unwrap();
        assert_eq!(asked.body, recorded.body);
    }
}

/// How an answer is asked for.
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
    let read = |it: &std::path::PathBuf| fs::read_to_string(it).unwrap();
    files.iter().map(read).collect()
}

/// Every answer of a script, with its streams in these forms, and what the agent
/// got.
async fn replay(script: &str, config: &str, streams: &[Form]) -> Vec<((String, Form), Answer)> {
    let mut received = Vec::new();
    for stream in streams {
        let upstream = Upstream::scripted(script).await;
        let gate = TestGateway::with_files(&upstream, config, &[("mask.sed", MASK_SED)]).await;
        for line in script.lines() {
            let (form, recorded) = recorded(line, *stream);
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

/// The exact text of a line's answer.
fn recorded(line: &str, stream: Form) -> (Form, String) {
    let (head, tail) = line.split_once(r#","response":"#).unwrap();
    let text = tail.strip_suffix('}').unwrap();
    let streamed = head.contains("generateContentStream");
    let form = if streamed { stream } else { Form::Unary };
    (form, text.to_owned())
}

/// A recorded answer as the model API writes it.
fn written(recorded: &str, form: Form) -> String {
    if form == Form::Unary {
        return recorded.to_owned();
    }
    let chunks: Vec<&serde_json::value::RawValue> = serde_json::from_str(recorded).unwrap();
    let chunks: Vec<&str> = chunks.iter().map(|it| it.get()).collect();
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
            .map(|it| serde_json::from_str(it).unwrap())
            .collect(),
    }
}

/// What `mask.sed` makes of a chunk.
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

/// One recorded request, under its path of the Gemini API.
struct Recorded {
    file: String,
    path: String,
    body: String,
    /// The agent, as it calls itself.
    agent: String,
}

/// The requests of `cases/traffic` that call a model.
fn requests() -> Vec<Recorded> {
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
            let is_agent = |it: &&Value| it[0].as_str().unwrap().eq_ignore_ascii_case("user-agent");
            let agent = headers.find(is_agent).map(|it| &it[1]);
            Some(Recorded {
                file: name.replace(".jsonl.gz", ""),
                path,
                body,
                agent: agent.and_then(Value::as_str).unwrap_or_default().to_owned(),
            })
        }));
        assert!(requests.len() > before, "nothing in {}", file.display());
    }
    requests
}

/// Code Assist is asked for more than models.
fn model_call(line: &Value) -> Option<(String, String)> {
    let path = line["path"].as_str().filter(|_| line["method"] == "POST")?;
    let query = line["query"].as_str().unwrap();
    let body = &line["body"];
    if path.starts_with("/v1internal:") && body.get("request").is_none() {
        return None;
    }
    Some((format!("{path}{query}"), body.to_string()))
}

/// A request as the Gemini API has it.
fn inner(recorded: &Recorded) -> Value {
    let mut body: Value = serde_json::from_str(&recorded.body).unwrap();
    match body.get_mut("request") {
        Some(request) => request.take(),
        None => body,
    }
}

/// The largest request and every fifth of each file, so that it takes seconds.
fn sample(requests: Vec<Recorded>) -> Vec<Recorded> {
    let largest = |file: &str| {
        let of_file = requests.iter().filter(|it| it.file == file);
        of_file.map(|it| it.body.len()).max()
    };
    let kept: Vec<bool> = requests
        .iter()
        .enumerate()
        .map(|(index, it)| index % 5 == 0 || largest(&it.file) == Some(it.body.len()))
        .collect();
    let pairs = requests.into_iter().zip(kept);
    pairs.filter_map(|(it, kept)| kept.then_some(it)).collect()
}

/// The files of a folder of `cases`, by their extension.
fn files(folder: &str, extension: &str) -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cases")
        .join(folder);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == extension))
        .collect();
    files.sort();
    files
}
