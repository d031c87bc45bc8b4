//! Transcripts of sessions for hooks, in gemini-cli's format.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use serde_json::{Value, json};

use crate::{
    families::family::Family,
    harness::{TEST_TIMEOUT, TestGateway, Upstream, eventually, hook},
};

const MODEL: &str = "gemini-2.5-pro";

/// Writes transcripts into the gateway's own folder.
const CONFIG: &str = "sessions: { transcripts: ., idle: 30m }\n";

/// Command that appends the transcript, as a JSON string, to the file in its first argument.
const COPY_COMMAND: &str = r#"python3 -c 'import json,sys; print(json.dumps(open(json.load(sys.stdin)["transcript_path"]).read()))' >> "$0""#;

/// Hook on this event that copies the transcript into the file `event`.
fn copying_hook(event: &'static str, output: &str) -> (&'static str, Value) {
    let command = format!(
        "bash -c '{}' {event}; {output}",
        COPY_COMMAND.replace('\'', r"'\''")
    );
    (event, hook::command(event, &command))
}

/// Messages of the transcript at each run of a [`copying_hook`].
fn copies(gate: &TestGateway, event: &str) -> Vec<Vec<Value>> {
    let text = gate.file(event);
    let transcripts = text
        .lines()
        .map(|line| serde_json::from_str::<String>(line).unwrap());
    transcripts.map(|text| messages(&text)).collect()
}

/// Paths of all transcripts.
fn transcript_paths(gate: &TestGateway) -> Vec<PathBuf> {
    let entries = fs::read_dir(gate.path(".")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "jsonl"))
        .collect()
}

/// Text of the only transcript.
fn only_transcript(gate: &TestGateway) -> String {
    let paths = transcript_paths(gate);
    assert_eq!(paths.len(), 1, "{paths:?}");
    fs::read_to_string(&paths[0]).unwrap()
}

/// Messages of a transcript, as gemini-cli reads them.
fn messages(text: &str) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let position = |id: &Value| messages.iter().position(|message| message["id"] == *id);
        if record["$rewindTo"].is_string() {
            let index = position(&record["$rewindTo"]);
            messages.truncate(index.expect("an unknown message"));
        } else if record["id"].is_string() {
            match position(&record["id"]) {
                Some(index) => messages[index] = record,
                None => messages.push(record),
            }
        }
    }
    messages
}

/// Each message as `type: content`.
fn summaries(messages: &[Value]) -> Vec<String> {
    let summary = |message: &Value| {
        let content = match &message["content"] {
            Value::String(text) => text.clone(),
            parts => parts.as_array().unwrap().iter().map(part_text).collect(),
        };
        format!("{}: {content}", message["type"].as_str().unwrap())
    };
    messages.iter().map(summary).collect()
}

fn part_text(part: &Value) -> String {
    match part["text"].as_str() {
        Some(text) => text.to_owned(),
        None => part["functionResponse"]["response"].to_string(),
    }
}

fn content(role: &str, part: &Value) -> Value {
    json!({ "role": role, "parts": [part] })
}

fn user(text: &str) -> Value {
    content("user", &json!({ "text": text }))
}

/// Line of an upstream script: an answer with these parts.
fn script_line(parts: &Value) -> String {
    let response = json!({
        "candidates": [{
            "content": { "role": "model", "parts": parts }, "finishReason": "STOP", "index": 0,
        }],
        "usageMetadata": { "promptTokenCount": 7, "candidatesTokenCount": 2, "totalTokenCount": 9 },
    });
    json!({ "method": "generateContent", "response": response }).to_string()
}

/// Sends these contents, and returns the content of the answer.
async fn send(gate: &TestGateway, contents: &[Value]) -> Value {
    let functions = json!([{ "functionDeclarations": [{ "name": "read_file" }] }]);
    let body = json!({ "contents": contents, "tools": functions });
    let answer = gate.agent().generate(MODEL, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["candidates"][0]["content"].clone()
}

fn call() -> Value {
    json!({ "functionCall": { "id": "call-12345", "name": "read_file", "args": { "path": "a" } } })
}

fn result(response: &Value) -> Value {
    content(
        "user",
        &json!({
            "functionResponse": { "id": "call-12345", "name": "read_file", "response": response },
        }),
    )
}

#[tokio::test]
async fn a_transcript_of_a_turn_with_a_tool_has_the_format_of_gemini_cli() {
    let script = [
        script_line(&json!([{ "text": "let me see " }, call()])),
        script_line(&json!([{ "text": "it says A" }])),
    ];
    let upstream = Upstream::scripted(&script.join("\n")).await;
    let events = ["BeforeAgent", "BeforeModel", "AfterAgent"];
    let hooks = events.map(|event| copying_hook(event, "true"));
    let gate = TestGateway::start(&upstream, &format!("{CONFIG}{}", hook::config(&hooks))).await;

    let mut contents = vec![user("read a")];
    contents.push(send(&gate, &contents).await);
    contents.push(result(&json!({ "output": "A" })));
    contents.push(send(&gate, &contents).await);

    let text = only_transcript(&gate);
    let messages = messages(&text);
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["kind"], "main");
    assert!(first["sessionId"].is_string() && first["projectHash"].is_string());
    assert_eq!(
        summaries(&messages),
        [
            "user: read a",
            "gemini: let me see",
            "user: {\"output\":\"A\"}",
            "gemini: it says A"
        ]
    );
    let calls = &messages[1]["toolCalls"];
    assert_eq!(calls[0]["id"], "call-12345");
    assert_eq!(calls[0]["args"], json!({ "path": "a" }));
    assert_eq!(calls[0]["status"], "success");
    assert_eq!(calls[0]["result"][0], contents[2]["parts"][0]);
    assert_eq!(messages[1]["model"], MODEL);
    let tokens =
        json!({ "input": 7, "output": 2, "cached": 0, "thoughts": 0, "tool": 0, "total": 9 });
    assert_eq!(
        [&messages[1]["tokens"], &messages[3]["tokens"]],
        [&tokens; 2]
    );
    assert!(!text.contains("$rewindTo"), "{text}");
    let counts = |event| {
        copies(&gate, event)
            .iter()
            .map(Vec::len)
            .collect::<Vec<_>>()
    };
    assert_eq!(counts("BeforeAgent"), [0]);
    assert_eq!(counts("BeforeModel"), [1, 3]);
    assert_eq!(counts("AfterAgent"), [4]);
    let mode = fs::metadata(&transcript_paths(&gate)[0])
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_denied_result_is_hidden_in_the_transcript() {
    let upstream = Upstream::mock().await;
    let output = json!({ "decision": "deny", "reason": "not for you" });
    let deny = ("AfterTool", hook::printing("hides", &output));
    let hooks = [deny, copying_hook("BeforeModel", "true")];
    let gate = TestGateway::start(&upstream, &format!("{CONFIG}{}", hook::config(&hooks))).await;
    let mut contents = vec![user("read a"), content("model", &call())];
    contents.push(result(&json!({ "output": "s3cr3t" })));

    contents.push(send(&gate, &contents).await);
    contents.push(user("and now?"));
    send(&gate, &contents).await;

    let text = only_transcript(&gate);
    assert!(!text.contains("s3cr3t"), "{text}");
    let messages = messages(&text);
    assert_eq!(messages[1]["toolCalls"][0]["status"], "error");
    assert_eq!(summaries(&messages)[2], "user: {\"error\":\"not for you\"}");
    assert_eq!(summaries(&messages)[4], "user: and now?");
}

#[tokio::test]
async fn the_transcript_of_a_call_of_another_api_has_the_fields_of_gemini_cli_only() {
    let upstream = Upstream::mock().await;
    let hooks = [copying_hook("BeforeModel", "true")];
    let config = format!("{CONFIG}{}", hook::config(&hooks));
    let gate = Family::Anthropic.gateway(&upstream, &config).await;
    let messages = json!([
        { "role": "user", "content": "read a" },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "call-12345", "name": "read_file", "input": {} }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "call-12345", "content": "A" }] },
    ]);
    let body = json!({ "model": "claude", "max_tokens": 9, "messages": messages });

    let answer = gate.agent().post("/v1/messages", body.to_string()).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = only_transcript(&gate);
    assert!(!text.contains("hookgate"), "{text}");
}

#[tokio::test]
async fn a_withdrawn_prompt_is_removed_from_the_transcript() {
    let upstream = Upstream::mock().await;
    let hooks = [copying_hook("BeforeModel", "true")];
    let gate = TestGateway::start(&upstream, &format!("{CONFIG}{}", hook::config(&hooks))).await;
    let model = |text| content("model", &json!({ "text": text }));

    send(&gate, &[user("one")]).await;
    send(&gate, &[user("one"), model("A"), user("two")]).await;
    send(&gate, &[user("one"), model("A"), user("three")]).await;

    let copies = copies(&gate, "BeforeModel");
    assert_eq!(
        summaries(&copies[1]),
        ["user: one", "gemini: A", "user: two"]
    );
    assert_eq!(
        summaries(&copies[2]),
        ["user: one", "gemini: A", "user: three"]
    );
}

#[tokio::test]
async fn transcripts_are_deleted_at_session_end_and_at_startup() {
    let upstream = Upstream::mock().await;
    let config = CONFIG.replace("30m", "300ms");
    let command = "cat > end.json; cp \"$(python3 -c 'import json; print(json.load(open(\"end.json\"))[\"transcript_path\"])')\" end.txt";
    let hooks = [
        copying_hook("BeforeModel", "true"),
        ("SessionEnd", hook::command("end", command)),
    ];
    let files = [("session-old.jsonl", "{}"), ("other.jsonl", "{}")];
    let config = format!("{config}{}", hook::config(&hooks));
    let gate = TestGateway::with_files(&upstream, &config, &files).await;

    send(&gate, &[user("one")]).await;
    eventually("the session ends", TEST_TIMEOUT, || {
        transcript_paths(&gate).len() == 1
    })
    .await;

    assert_eq!(
        transcript_paths(&gate),
        [gate.path("other.jsonl")].map(|path| gate.path(".").join(path.file_name().unwrap()))
    );
    assert_eq!(summaries(&messages(&gate.file("end.txt")))[0], "user: one");
}

#[tokio::test]
async fn no_transcript_is_written_unless_configured() {
    let upstream = Upstream::mock().await;
    let hooks = [("BeforeModel", hook::command("look", "cat > look.json"))];
    let gate = TestGateway::start(&upstream, &hook::config(&hooks)).await;

    send(&gate, &[user("one")]).await;

    assert_eq!(gate.json("look.json")["transcript_path"], "");
    assert!(transcript_paths(&gate).is_empty());
}
