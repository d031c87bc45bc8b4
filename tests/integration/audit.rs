//! The decision log: what it holds, and that it holds.

mod commands;
mod disk;
mod kills;
mod lines;
mod policies;
mod since;
mod sink;
mod tellings;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// What the tests' configs say of it.
const AUDIT: &str = "audit: { path: audit.jsonl }\n";

/// The kinds of lines; of events, their names.
fn kinds(lines: &[Value]) -> Vec<String> {
    let name = |it: &'_ Value| {
        it["event"]
            .as_str()
            .or(it["kind"].as_str())
            .map(str::to_owned)
    };
    lines.iter().filter_map(name).collect()
}

/// What `sha256sum` says of a text.
fn hash(text: impl AsRef<[u8]>) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}

/// The only line of a kind.
#[track_caller]
fn only<'a>(lines: &'a [Value], kind: &str) -> &'a Value {
    let mut found = lines.iter().filter(|it| it["kind"] == kind);
    let first = found
        .next()
        .unwrap_or_else(|| panic!("no {kind}: {lines:#?}"));
    assert!(found.next().is_none(), "{lines:#?}");
    first
}
