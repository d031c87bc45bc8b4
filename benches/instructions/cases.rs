//! Cases: each prepares its input, and does the counted work in [`measured`].

use std::{hint::black_box, time::Duration};

use bytes::Bytes;
use hookgate::{
    dialect::{self, AllowedFunctions, Call, Detail, Document, History, RequestLine},
    event::{BeforeModel, Context, Event, InputExtras},
    model::RequestMutation,
    protocol,
    session::{CallRole, MatchKind, MemoryStore, SessionRequest, SessionStore, Sessions},
    upstream::sse::SseReader,
};
use http::Method;
use serde_json::{Map, Value, json};
use stream_redact::{DETECTORS, Mask, Style};

use super::Outcome;

/// A name, and a function that prepares and does the work.
pub type Case = (&'static str, fn() -> Outcome);

/// All cases whose instructions are counted.
pub const CASES: &[Case] = &[
    ("parse_100k", parse),
    ("open_100k", open),
    ("stable_form_100k", stable_form),
    ("splice_100k", splice),
    ("write_event_100k", write_event),
    ("session_1m", session),
    ("recognise_path", recognise_path),
    ("sse_200_chunks", sse),
    ("mask_ascii_100k", mask_ascii),
    ("mask_foreign_100k", mask_foreign),
    ("mask_ascii_chunks", mask_ascii_chunks),
    ("mask_foreign_chunks", mask_foreign_chunks),
];

const LARGE_BYTES: usize = 100 << 10;
const CHUNK_BYTES: usize = 300;
const GENERATE: &str = "/v1beta/models/gemini-2.5-pro:generateContent";
const ASCII: &str = "    pub fn insert(&mut self, key: K, value: V) -> Option<V> {\n\
    \tlet hash = self.hasher.hash_one(&key); // see https://docs.rs/hashbrown/0.15.2\n\
    \tif self.len >= 0x1000 { self.grow(64); } // 3.5 ms on 2024-05-06\n    }\n";
const FOREIGN: &str =
    "Der Wärter prüft größere Blöcke; 解析器一次读取一行，无法读取的内容会原样传递。\n";

/// Runs the work whose instructions are counted.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

/// Fails unless the counted work had the expected result.
fn ensure(condition: bool) -> Outcome {
    condition
        .then_some(())
        .ok_or_else(|| "unexpected result".into())
}

fn parse() -> Outcome {
    let body = body(LARGE_BYTES)?;
    measured(|| dialect::parse_document(body).map(drop))?;
    Ok(())
}

fn open() -> Outcome {
    let mut call = call(GENERATE)?;
    let document = dialect::parse_document(body(LARGE_BYTES)?)?;
    let dialect = dialect::of(call.method.api);
    measured(|| dialect.open_request(&mut call, document).map(drop))?;
    Ok(())
}

fn stable_form() -> Outcome {
    let (call, document) = (
        call(GENERATE)?,
        dialect::parse_document(body(LARGE_BYTES)?)?,
    );
    ensure(measured(|| {
        let request = dialect::read_stable_form(&call, &document, Detail::Texts);
        request.map(|request| request.messages.len() > 10)
    })?)
}

fn splice() -> Outcome {
    let (call, document) = (
        call(GENERATE)?,
        dialect::parse_document(body(LARGE_BYTES)?)?,
    );
    let config = json!({ "temperature": 0.5 });
    let mutation = RequestMutation {
        fields: Map::from_iter([("config".to_owned(), config)]),
        ..RequestMutation::default()
    };
    let allowed = AllowedFunctions::default();
    ensure(measured(|| {
        let edited = dialect::write_request(&call, document, &mutation, &allowed);
        edited.map(|edited| edited.document.to_bytes().len() > LARGE_BYTES)
    })?)
}

fn write_event() -> Outcome {
    let (call, document) = (
        call(GENERATE)?,
        dialect::parse_document(body(LARGE_BYTES)?)?,
    );
    let llm_request = dialect::read_stable_form(&call, &document, Detail::Texts)?;
    let event = BeforeModel { llm_request };
    let context = Context {
        session_id: "b5bf8fc4-2c86-4b4c-9a5d-4c1c0a3c1b5e".to_owned(),
        timestamp: "2026-01-13T19:15:43.029Z".to_owned(),
        ..Context::default()
    };
    let protocol = protocol::find("gemini").ok_or("no such protocol")?;
    ensure(measured(|| {
        let written = protocol.write(&context, Event::BeforeModel(&event), InputExtras::default());
        written.len() > LARGE_BYTES / 4
    }))
}

/// A known history with one new item.
fn session() -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let store = MemoryStore::new(100, Duration::from_mins(30));
    let sessions = Sessions::new(SessionStore::Memory(Box::new(store)));
    let mut contents = contents(1 << 20);
    let seen = dialect::parse_document(body_of(&contents))?;
    runtime.block_on(process_request(&sessions, &seen))?;
    contents.push(json!({ "role": "user", "parts": [{ "text": "and what now?" }] }));
    let next = dialect::parse_document(body_of(&contents))?;
    let match_kind = measured(|| runtime.block_on(process_request(&sessions, &next)))?;
    ensure(match_kind != MatchKind::New)
}

/// Updates the session of a request.
async fn process_request(sessions: &Sessions, document: &Document) -> Outcome<MatchKind> {
    let request = SessionRequest {
        caller: "caller",
        agent: "agent",
        named: None,
        continued: None,
        role: CallRole::Main,
        recorded: None,
    };
    let history = History::read(document)?;
    let mut session = sessions.open(request, history.as_ref()).await?;
    let items = session.conversation.items.clone();
    let last = if session.match_kind == MatchKind::New {
        0
    } else {
        items.len() - 1
    };
    for item in items.iter().skip(last) {
        session.mark_evaluated(item);
    }
    session.save().await;
    Ok(session.match_kind)
}

fn recognise_path() -> Outcome {
    ensure(measured(|| call(GENERATE).is_ok()))
}

fn sse() -> Outcome {
    let part = json!({ "text": "x".repeat(223) });
    let answer = json!({ "candidates": [{ "content": { "role": "model", "parts": [part] } }] });
    let chunk = format!("data: {answer}\r\n\r\n");
    ensure(chunk.len() == CHUNK_BYTES)?;
    ensure(
        measured(|| {
            let mut reader = SseReader::new(1 << 20);
            let mut read = || reader.push(chunk.as_bytes()).map(|events| events.len());
            (0..200).map(|_| read()).sum::<Result<usize, _>>()
        })? == 200,
    )
}

fn mask_ascii() -> Outcome {
    mask_text(ASCII)
}

fn mask_foreign() -> Outcome {
    mask_text(FOREIGN)
}

fn mask_text(line: &str) -> Outcome {
    let (mask, text) = (mask()?, text_of(line));
    ensure(measured(|| mask.mask(&text)).is_none())
}

fn mask_ascii_chunks() -> Outcome {
    mask_chunks(ASCII)
}

fn mask_foreign_chunks() -> Outcome {
    mask_chunks(FOREIGN)
}

fn mask_chunks(line: &str) -> Outcome {
    let (mask, text) = (mask()?, text_of(line));
    let mut stream = mask.stream();
    let passed = measured(|| {
        let (mut passed, mut rest) = (0, &*text);
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(rest.floor_char_boundary(CHUNK_BYTES));
            passed += stream.push(chunk).len();
            rest = after;
        }
        passed + stream.finish().len()
    });
    ensure(passed == text.len())
}

fn mask() -> Outcome<Mask> {
    let names: Vec<&str> = DETECTORS.iter().map(|detector| detector.name).collect();
    Ok(Mask::new(&names, &[], &Style::Label)?)
}

fn text_of(line: &str) -> String {
    line.repeat(LARGE_BYTES / line.len())
}

fn call(path: &str) -> Outcome<Call> {
    let line = RequestLine {
        method: &Method::POST,
        path,
        query: "",
        api: None,
    };
    Ok(dialect::recognize_call(line)
        .ok_or("an unknown path")??
        .call?)
}

/// The request of a coding agent.
fn body(bytes: usize) -> Outcome<Bytes> {
    let body = body_of(&contents(bytes));
    ensure(body.len() > bytes)?;
    Ok(body)
}

fn body_of(contents: &[Value]) -> Bytes {
    let path = json!({ "type": "STRING", "description": "The file's absolute path." });
    let parameters = json!({ "type": "OBJECT", "properties": { "file_path": path } });
    let declare = |number| json!({ "name": format!("tool_{number}"), "parameters": parameters });
    let declarations: Vec<Value> = (0..30).map(declare).collect();
    let body = json!({
        "contents": contents,
        "systemInstruction": { "parts": [{ "text": FOREIGN.repeat(20) }] },
        "tools": [{ "functionDeclarations": declarations }],
        "generationConfig": { "temperature": 1, "topP": 0.95 },
    });
    body.to_string().into()
}

/// A conversation of about this number of bytes.
fn contents(bytes: usize) -> Vec<Value> {
    let content = |role: &str, part: Value| json!({ "role": role, "parts": [part] });
    let step = |number: usize| {
        let args = json!({ "file_path": format!("src/{number}.rs") });
        let output = format!("// {number}\n{}", ASCII.repeat(5));
        [
            content(
                "user",
                json!({ "text": format!("go on with {number}: {FOREIGN}") }),
            ),
            content(
                "model",
                json!({ "functionCall": { "name": "read_file", "args": args } }),
            ),
            content(
                "user",
                json!({ "functionResponse": {
                    "name": "read_file",
                    "response": { "output": output },
                }}),
            ),
            content(
                "model",
                json!({ "text": format!("File {number}:\n{}", ASCII.repeat(5)) }),
            ),
        ]
    };
    let length = |contents: &[Value]| {
        contents
            .iter()
            .map(|content| content.to_string().len())
            .sum::<usize>()
    };
    let steps = bytes / length(&step(0)) + 1;
    (0..steps).flat_map(step).collect()
}
