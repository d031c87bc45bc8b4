//! Reader of decision logs.

use std::path::Path;

use serde_json::Value;

/// Returns the records of a log and asserts that its hash chain is valid.
#[track_caller]
pub fn decision_log(path: &Path) -> Vec<Value> {
    chained_log::verify(path).unwrap_or_else(|error| panic!("{error}"));
    let lines = chained_log::lines(path).unwrap();
    let parse = |line: Result<chained_log::LogLine, _>| {
        serde_json::from_slice(&line.unwrap().bytes).unwrap()
    };
    lines.map(parse).collect()
}
