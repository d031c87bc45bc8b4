//! Transcripts: what hooks can read of a session, in gemini-cli's format.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use serde_json::{Value, json};

use crate::harness::{PATIENCE, TestGateway, Upstream, eventually, hook};

const MODEL: &str = "gemini-2.5-pro";

/// The gate's own folder holds the transcripts.
const CONFIG: &str = "sessions: { transcripts: ., idle: 30m }\n";

/// What a hook finds in the transcript when it runs.
const COPIES: &str = r#"python3 -c 'import json,sys; print(json.dumps(open(json.load(sys.stdin)["transcript_path"]).read()))' >> "$0""#;

fn copying(event: &'static str, output: &str) -> (&'static str, Value) {
    let command = format!(
        "bash -c '{}' {event}; {output}",
        COPIES.replace('\'', r"'\''")
    );
    (event, hook::running(event, &command))
}

fn found(gate: &TestGateway, event: &str) -> Vec<Vec<Value>> {
    let text = gate.file(event);
    let whole = text
        .lines()
        .map(|it| serde_json::from_str::<String>(it).unwrap());
    whole.map(|it| messages(&it)).collect()
}

/// The transcripts in a folder.
fn transcripts(gate: &TestGateway) -> Vec<PathBuf> {
    let entries = fs::read_dir(gate.path(".")).unwrap();
    let paths = entries.map(|it| it.unwrap().path());
    paths
        .filter(|it| it.extension().is_some_and(|it| it == "jsonl"))
        .collect()
}

fn only(gate: &TestGateway) -> String {
    let all = transcripts(gate);
    assert_eq!(all.len(), 1, "{all:?}");
    fs::read_to_string(&all[0]).unwrap()
}

/// The messages of a transcript, as gemini-cli reads them.
fn messages(text: &str) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let place = |id: &Value| messages.iter().position(|it| it["id"] == *id);
        if record["$rewindTo"].is_string() {
            let at = place(&record["$rewindTo"]);
            messages.truncate(at.expect("a message that is not there"));
        } else if record["id"].is_string() {
            match place(&record["id"]) {
                Some(at) => messages[at] = record,
                None => messages.push(record),
            }
        }
    }
    messages
}

/// `type: content`, in a row.
fn shown(messages: &[Value]) -> Vec<String> {
    let show = |it: &Value| {
        let content = match &it["content"] {
            Value::String(text) => text.clone(),
            parts => parts.as_array().unwrap().iter().map(part).collect(),
        };
        format!("{}: {content}", it["type"].as_str().unwrap())
    };
    messages.iter().map(show).collect()
}

fn part(part: &Value) -> String {
    match part["text"].as_str() {
        Some(text) => text.to_owned(),
        None => part["functionResponse"]["response"].to_string(),
    }
}

fn says(role: &str, part: &Value) -> Value {
    json!({ "role": role, "parts": [part] })
}

fn user(text: &str) -> Value {
    says("user", &json!({ "text": text }))
}

/// An answer with these parts, as the only one of a script.
fn line(parts: &Value) -> String {
    let response = json!({
        "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 7, "candidatesTokenCount": 2, "totalTokenCount": 9 },
    });
    json!({ "method": "generateContent", "response": response }).to_string()
}

async fn ask(gate: &TestGateway, contents: &[Value]) -> Value {
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
    says(
        "user",
        &json!({
            "functionResponse": { "id": "call-12345", "name": "read_file", "response": response },
        }),
    )
}

#[tokio::test]
async fn a_turn_with_a_tool_is_written_down_as_gemini_cli_does() {
    let script = [
        line(&json!([{ "text": "let me see " }, call()])),
        line(&json!([{ "text": "it says A" }])),
    ];
    let upstream = Upstream::scripted(&script.join("\n")).await;
    let events = ["BeforeAgent", "BeforeModel", "AfterAgent"];
    let hooks = events.map(|it| copying(it, "true"));
    let gate = TestGateway::start(&upstream, &format!("{CONFIG}{}", hook::config(&hooks))).await;

    let mut contents = vec![user("read a")];
    contents.push(ask(&gate, &contents).await);
    contents.push(result(&json!({ "output": "A" })));
    contents.push(ask(&gate, &contents).await);

    let text = only(&gate);
    let told = messages(&text);
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["kind"], "main");
    assert!(first["sessionId"].is_string() && first["projectHash"].is_string());
    assert_eq!(
        shown(&told),
        [
            "user: read a",
            "gemini: let me see",
            "user: {\"output\":\"A\"}",
            "gemini: it says A"
        ]
    );
    let calls = &told[1]["toolCalls"];
    assert_eq!(calls[0]["id"], "call-12345");
    assert_eq!(calls[0]["args"], json!({ "path": "a" }));
    assert_eq!(calls[0]["status"], "success");
    assert_eq!(calls[0]["result"][0], contents[2]["parts"][0]);
    assert_eq!(told[1]["model"], MODEL);
    let tokens =
        json!({ "input": 7, "output": 2, "cached": 0, "thoughts": 0, "tool": 0, "total": 9 });
    assert_eq!([&told[1]["tokens"], &told[3]["tokens"]], [&tokens; 2]);
    assert!(!text.contains("$rewindTo"), "{text}");
    let counts = |event| found(&gate, event).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(counts("BeforeAgent"), [0]);
    assert_eq!(counts("BeforeModel"), [1, 3]);
    assert_eq!(counts("AfterAgent"), [4]);
    let mode = fs::metadata(&transcripts(&gate)[0])
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn what_hooks_hide_from_the_model_is_hidden_there_too() {
    let upstream = Upstream::mock().await;
    let output = json!({ "decision": "deny", "reason": "not for you" });
    let hides = ("AfterTool", hook::saying("hides", &output));
    let hooks = [hides, copying("BeforeModel", "true")];
    let gate = TestGateway::start(&upstream, &format!("{CONFIG}{}", hook::config(&hooks))).await;
    let mut contents = vec![user("read a"), says("model", &call())];
    contents.push(result(&json!({ "output": "s3cr3t" })));

    contents.push(ask(&gate, &contents).await);
    contents.push(user("and now?"));
    ask(&gate, &contents).await;

    let text = only(&gate);
    assert!(!text.contains("s3cr3t"), "{text}");
    let told = messages(&text);
    assert_eq!(told[1]["toolCalls"][0]["status"], "error");
    assert_eq!(shown(&told)[2], "user: {\"error\":\"not for you\"}");
    assert_eq!(shown(&told)[4], "user: and now?");
}

#[tokio::test]
async fn what_is_taken_back_is_taken_back_there_too() {
    let upstream = Upstream::mock().await;
    let hooks = [copying("BeforeModel", "true")];
    let gate = TestGateway::start(&upstream, &format!("{CONFIG}{}", hook::config(&hooks))).await;
    let model = |text| says("model", &json!({ "text": text }));

    ask(&gate, &[user("one")]).await;
    ask(&gate, &[user("one"), model("A"), user("two")]).await;
    ask(&gate, &[user("one"), model("A"), user("three")]).await;

    let found = found(&gate, "BeforeModel");
    assert_eq!(shown(&found[1]), ["user: one", "gemini: A", "user: two"]);
    assert_eq!(shown(&found[2]), ["user: one", "gemini: A", "user: three"]);
}

#[tokio::test]
async fn it_goes_with_its_session_and_leftovers_go_at_the_start() {
    let upstream = Upstream::mock().await;
    let config = CONFIG.replace("30m", "300ms");
    let command = "cat > end.json; cp \"$(python3 -c 'import json; print(json.load(open(\"end.json\"))[\"transcript_path\"])')\" end.txt";
    let hooks = [
        copying("BeforeModel", "true"),
        ("SessionEnd", hook::running("end", command)),
    ];
    let files = [("session-old.jsonl", "{}"), ("other.jsonl", "{}")];
    let config = format!("{config}{}", hook::config(&hooks));
    let gate = TestGateway::with_files(&upstream, &config, &files).await;

    ask(&gate, &[user("one")]).await;
    eventually("it ends", PATIENCE, || transcripts(&gate).len() == 1).await;

    assert_eq!(
        transcripts(&gate),
        [gate.path("other.jsonl")].map(|it| gate.path(".").join(it.file_name().unwrap()))
    );
    assert_eq!(shown(&messages(&gate.file("end.txt")))[0], "user: one");
}

#[tokio::test]
async fn none_is_written_unless_it_is_wanted() {
    let upstream = Upstream::mock().await;
    let hooks = [("BeforeModel", hook::running("look", "cat > look.json"))];
    let gate = TestGateway::start(&upstream, &hook::config(&hooks)).await;

    ask(&gate, &[user("one")]).await;

    assert_eq!(gate.json("look.json")["transcript_path"], "");
    assert!(transcripts(&gate).is_empty());
}
