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
const BYTES: usize = 1 << 20;
const ROUNDS: usize = 100;
const BOUND: Duration = Duration::from_micros(1500);

/// In KiB: 5 KiB for such a session, and what is known of contents.
const MEMORY_BOUND: usize = 5 * SESSIONS + (64 << 10);

const SOURCE: &str = "    pub fn insert(&mut self, key: K, value: V) -> Option<V> {\n\
    \tlet hash = self.hasher.hash_one(&key); // größer als \"nötig\"\n\
    \tif self.len >= 0x1000 { self.grow(64); }\n    }\n";

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let store = MemoryStore::new(SESSIONS + 1, Duration::from_mins(30));
    let sessions = Sessions::new(SessionStore::Memory(Box::new(store)));
    let before = memory()?;
    let started = Instant::now();
    for number in 0..SESSIONS {
        let body = body(&small_talk(number));
        runtime.block_on(visit(&sessions, &body))?;
    }
    let taken = memory()?.saturating_sub(before);
    println!(
        "{SESSIONS} sessions of {ITEMS} items in {:.1?}: {} MiB, at most {} MiB",
        started.elapsed(),
        taken >> 10,
        MEMORY_BOUND >> 10,
    );
    if taken > MEMORY_BOUND {
        return Err("too large".into());
    }

    let mut talk = long_talk();
    let first = body(&talk);
    runtime.block_on(visit(&sessions, &first))?;
    println!(
        "a history of {} bytes, {} contents",
        first.len(),
        talk.len()
    );
    let bodies = (0..ROUNDS).map(|round| {
        talk.pop();
        talk.push(user(&json!({ "text": format!("and what of {round}?") })));
        body(&talk)
    });
    let bodies: Vec<Bytes> = bodies.collect();
    let mut rounds = Vec::new();
    for body in &bodies {
        let cost = runtime.block_on(visit(&sessions, body))?;
        if cost.arrival == MatchKind::New {
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
        |what: &str, time: Duration| println!("{what:<9}{:.3} ms", 1e3 * time.as_secs_f64());
    print("document", median(|it| it.document));
    print("history", median(|it| it.history));
    print("session", median(|it| it.session));
    print("save", median(|it| it.save));
    let all = median(|it| it.document + it.history + it.session + it.save);
    print("all", all);
    print("at most", BOUND);
    if all > BOUND {
        return Err("too slow".into());
    }
    Ok(())
}

/// What this process takes, in KiB.
fn memory() -> Result<usize, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let number = line.and_then(|it| it.split_whitespace().next());
    Ok(number.ok_or("no size is known")?.parse()?)
}

struct Cost {
    document: Duration,
    history: Duration,
    session: Duration,
    save: Duration,
    arrival: MatchKind,
}

/// What the gateway does with a request, but for hooks.
async fn visit(sessions: &Sessions, body: &Bytes) -> Result<Cost, Box<dyn Error>> {
    let visit = SessionRequest {
        caller: "caller",
        agent: "agent",
        named: None,
        role: CallRole::Main,
        recorded: None,
    };
    let started = Instant::now();
    let document = dialect::parse_document(body.clone())?;
    let parsed = started.elapsed();
    let history = History::read(&document)?;
    let split = started.elapsed();
    let mut session = sessions.open(visit, history.as_ref()).await?;
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
        arrival: session.match_kind,
    })
}

fn body(contents: &[Value]) -> Bytes {
    let instruction = json!({ "parts": [{ "text": SOURCE.repeat(100) }] });
    let body = json!({ "contents": contents, "systemInstruction": instruction });
    body.to_string().into()
}

/// A short conversation, unlike any other.
fn small_talk(number: usize) -> Vec<Value> {
    let prompt = |at: usize| user(&json!({ "text": format!("{number}, {at}") }));
    let answer = |at: usize| model(&json!({ "text": format!("so it is: {number}, {at}") }));
    let pairs = (0..ITEMS / 2).flat_map(|at| [prompt(at), answer(at)]);
    let mut talk: Vec<Value> = pairs.collect();
    talk.push(prompt(ITEMS));
    talk
}

/// A long conversation of a coding agent.
fn long_talk() -> Vec<Value> {
    let mut talk = vec![user(&json!({ "text": "look at everything" }))];
    let mut bytes = 0;
    while bytes < BYTES {
        let number = talk.len();
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
        bytes += step.iter().map(|it| it.to_string().len()).sum::<usize>();
        talk.extend(step);
    }
    talk
}

fn user(part: &Value) -> Value {
    json!({"role": "user", "parts": [part]})
}

fn model(part: &Value) -> Value {
    json!({"role": "model", "parts": [part]})
}
