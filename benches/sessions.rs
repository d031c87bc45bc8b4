//! Memory of sessions and speed of session lookup: `just bench-sessions`.
//!
//! Prints the memory of 100,000 sessions of 20 items each, with their indexes and
//! caches. Times a request whose history of 1 MiB was seen before except for its
//! last item, among 100,000 other sessions: from the body's bytes to the saved
//! session. One thread without waiting, so that the time is CPU time.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::{
    error::Error,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hookgate::{
    dialect::{self, History},
    session::{CallRole, Item, MatchKind, MemoryStore, SessionRequest, SessionStore, Sessions},
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const SESSIONS: usize = 100_000;
const ITEMS: usize = 20;
const HISTORY_BYTES: usize = 1 << 20;
const ROUNDS: usize = 100;
const MAX_TIME: Duration = Duration::from_micros(1500);

/// 5 KiB for each session, and 64 MiB for known contents.
const MAX_MEMORY_KIB: usize = 5 * SESSIONS + (64 << 10);

const SOURCE: &str = "    pub fn insert(&mut self, key: K, value: V) -> Option<V> {\n\
    \tlet hash = self.hasher.hash_one(&key); // größer als \"nötig\"\n\
    \tif self.len >= 0x1000 { self.grow(64); }\n    }\n";

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let store = MemoryStore::new(SESSIONS + 1, Duration::from_mins(30));
    let sessions = Sessions::new(SessionStore::Memory(Box::new(store)));
    let before = resident_kib()?;
    let started = Instant::now();
    for number in 0..SESSIONS {
        let body = body(&short_conversation(number));
        runtime.block_on(process_request(&sessions, &body))?;
    }
    let used = resident_kib()?.saturating_sub(before);
    println!(
        "{SESSIONS} sessions of {ITEMS} items in {:.1?}: {} MiB, at most {} MiB",
        started.elapsed(),
        used >> 10,
        MAX_MEMORY_KIB >> 10,
    );
    if used > MAX_MEMORY_KIB {
        return Err("memory limit exceeded".into());
    }

    let mut contents = long_conversation();
    let first = body(&contents);
    runtime.block_on(process_request(&sessions, &first))?;
    println!(
        "a history of {} bytes, {} contents",
        first.len(),
        contents.len()
    );
    let bodies = (0..ROUNDS).map(|round| {
        contents.pop();
        contents.push(user(&json!({ "text": format!("and what of {round}?") })));
        body(&contents)
    });
    let bodies: Vec<Bytes> = bodies.collect();
    let mut rounds = Vec::new();
    for body in &bodies {
        let cost = runtime.block_on(process_request(&sessions, body))?;
        if cost.match_kind == MatchKind::New {
            return Err("the history was not known".into());
        }
        rounds.push(cost);
    }
    let median = |of: fn(&Cost) -> Duration| {
        let mut times: Vec<Duration> = rounds.iter().map(of).collect();
        times.sort();
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    let print =
        |name: &str, time: Duration| println!("{name:<9}{:.3} ms", 1e3 * time.as_secs_f64());
    print("document", median(|cost| cost.document));
    print("history", median(|cost| cost.history));
    print("session", median(|cost| cost.session));
    print("save", median(|cost| cost.save));
    let all = median(|cost| cost.document + cost.history + cost.session + cost.save);
    print("all", all);
    print("at most", MAX_TIME);
    if all > MAX_TIME {
        return Err("time limit exceeded".into());
    }
    Ok(())
}

/// Resident memory of this process in KiB.
fn resident_kib() -> Result<usize, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("VmRSS is missing")?.parse()?)
}

struct Cost {
    document: Duration,
    history: Duration,
    session: Duration,
    save: Duration,
    match_kind: MatchKind,
}

/// Processes a request as the gateway does, without hooks.
async fn process_request(sessions: &Sessions, body: &Bytes) -> Result<Cost, Box<dyn Error>> {
    let request = SessionRequest {
        caller: "caller",
        agent: "agent",
        named: None,
        continued: None,
        role: CallRole::Main,
        recorded: None,
    };
    let started = Instant::now();
    let document = dialect::parse_document(body.clone())?;
    let parsed = started.elapsed();
    let history = History::read(&document)?;
    let split = started.elapsed();
    let mut session = sessions.open(request, history.as_ref()).await?;
    let new: Vec<Item> = match session.match_kind {
        MatchKind::New => session.conversation.items.clone(),
        _ => session
            .conversation
            .items
            .last()
            .cloned()
            .into_iter()
            .collect(),
    };
    for item in &new {
        session.mark_evaluated(item);
    }
    let opened = started.elapsed();
    session.save().await;
    let saved = started.elapsed();
    Ok(Cost {
        document: parsed,
        history: split.saturating_sub(parsed),
        session: opened.saturating_sub(split),
        save: saved.saturating_sub(opened),
        match_kind: session.match_kind,
    })
}

fn body(contents: &[Value]) -> Bytes {
    let instruction = json!({ "parts": [{ "text": SOURCE.repeat(100) }] });
    let body = json!({ "contents": contents, "systemInstruction": instruction });
    body.to_string().into()
}

/// A short conversation that differs from all others.
fn short_conversation(number: usize) -> Vec<Value> {
    let prompt = |at: usize| user(&json!({ "text": format!("{number}, {at}") }));
    let answer = |at: usize| model(&json!({ "text": format!("so it is: {number}, {at}") }));
    let pairs = (0..ITEMS / 2).flat_map(|at| [prompt(at), answer(at)]);
    let mut contents: Vec<Value> = pairs.collect();
    contents.push(prompt(ITEMS));
    contents
}

/// A long conversation of a coding agent.
fn long_conversation() -> Vec<Value> {
    let mut contents = vec![user(&json!({ "text": "look at everything" }))];
    let mut bytes = 0;
    while bytes < HISTORY_BYTES {
        let number = contents.len();
        let id = format!("read_file_{number}");
        let output = format!("// {number}\n{}", SOURCE.repeat(1 + number % 60));
        let call = json!({"id": id, "name": "read_file", "args": {"file_path": format!("src/{number}.rs")}});
        let result = json!({"id": id, "name": "read_file", "response": {"output": output}});
        let step = [
            model(&json!({ "functionCall": call, "thoughtSignature": "c2ln".repeat(40) })),
            user(&json!({ "functionResponse": result })),
            model(&json!({ "text": format!("File {number} inserts. ").repeat(20) })),
            user(&json!({ "text": format!("go on with {number}, größer") })),
        ];
        bytes += step
            .iter()
            .map(|content| content.to_string().len())
            .sum::<usize>();
        contents.extend(step);
    }
    contents
}

fn user(part: &Value) -> Value {
    json!({"role": "user", "parts": [part]})
}

fn model(part: &Value) -> Value {
    json!({"role": "model", "parts": [part]})
}
