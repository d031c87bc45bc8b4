//! Recordings: what they contain, what they never contain, and that no call waits for them.

mod content;
mod files;
mod redaction;
mod selection;

use std::{fs, path::Path};

use hookgate::recording::{self, RecordedExchange};
use serde_json::Value;

pub use self::files::{IDENTITY, OTHER_IDENTITY, RECIPIENT};
use crate::harness::TestGateway;

/// What the tests' configs say of it.
const RECORD: &str = "record: { path: recordings }\n";

/// Stops the gateway and returns what it recorded.
async fn recorded(gateway: TestGateway) -> Vec<RecordedExchange> {
    let folder = gateway.stop_keeping().await;
    exchanges(&folder.path().join("recordings"))
}

/// Everything in a recording, which must be whole.
#[track_caller]
fn exchanges(path: &Path) -> Vec<RecordedExchange> {
    let read = recording::read(path, None).unwrap();
    read.map(|read| read.unwrap_or_else(|damage| panic!("{damage}")))
        .collect()
}

/// The only exchange.
#[track_caller]
fn only(mut exchanges: Vec<RecordedExchange>) -> RecordedExchange {
    assert_eq!(exchanges.len(), 1, "{exchanges:#?}");
    exchanges.remove(0)
}

/// The lines of a recording as `zstd` gives them.
fn plain_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let file = fs::File::open(entry.unwrap().path()).unwrap();
        text += &String::from_utf8(zstd::decode_all(file).unwrap()).unwrap();
    }
    text
}

/// A line must be what `hookgate schema --recording` says.
#[track_caller]
fn assert_valid(exchange: &RecordedExchange) {
    let schema: Value = schemars::schema_for!(RecordedExchange).into();
    let line = serde_json::to_value(exchange).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&line)
        .map(|it| it.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}
