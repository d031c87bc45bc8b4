//! Decision log: contents, durability, commands and the HTTP sink.

mod commands;
mod disk;
mod kills;
mod lines;
mod outcomes;
mod policies;
mod since;
mod sink;
mod usage;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Config that enables the decision log.
const AUDIT: &str = "audit: { path: audit.jsonl }\n";

/// Returns the kind of each line, and of events their name.
fn kinds(lines: &[Value]) -> Vec<String> {
    let name = |line: &'_ Value| {
        line["event"]
            .as_str()
            .or(line["kind"].as_str())
            .map(str::to_owned)
    };
    lines.iter().filter_map(name).collect()
}

/// Returns the SHA-256 of a text in hex.
fn hash(text: impl AsRef<[u8]>) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}

/// Returns the only line of a kind.
#[track_caller]
fn only<'a>(lines: &'a [Value], kind: &str) -> &'a Value {
    let mut found = lines.iter().filter(|line| line["kind"] == kind);
    let first = found
        .next()
        .unwrap_or_else(|| panic!("no {kind}: {lines:#?}"));
    assert!(found.next().is_none(), "{lines:#?}");
    first
}
