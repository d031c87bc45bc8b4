//! Recordings of exchanges: content, selection, redaction, segments and commands.

mod content;
mod files;
mod redaction;
mod selection;

use std::{fs, path::Path};

use hookgate::recording::{self, RecordedExchange};
use serde_json::Value;

pub use self::files::{IDENTITY, OTHER_IDENTITY, RECIPIENT};
use crate::harness::TestGateway;

/// The section of a config that records into the folder `recordings`.
const RECORD: &str = "record: { path: recordings }\n";

/// Stops the gateway and returns the recorded exchanges.
async fn recorded(gateway: TestGateway) -> Vec<RecordedExchange> {
    let folder = gateway.stop_and_keep_files().await;
    exchanges(&folder.path().join("recordings"))
}

/// Returns the exchanges of a recording, which must be undamaged.
#[track_caller]
fn exchanges(path: &Path) -> Vec<RecordedExchange> {
    let read = recording::read(path, None).unwrap();
    read.map(|read| read.unwrap_or_else(|error| panic!("{error}")))
        .collect()
}

/// Returns the only exchange.
#[track_caller]
fn only_exchange(mut exchanges: Vec<RecordedExchange>) -> RecordedExchange {
    assert_eq!(exchanges.len(), 1, "{exchanges:#?}");
    exchanges.remove(0)
}

/// Returns the decompressed lines of a recording.
fn plain_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let file = fs::File::open(entry.unwrap().path()).unwrap();
        text += &String::from_utf8(zstd::decode_all(file).unwrap()).unwrap();
    }
    text
}

/// Checks an exchange against the JSON Schema of `hookgate schema --recording`.
#[track_caller]
fn assert_valid(exchange: &RecordedExchange) {
    let schema: Value = schemars::schema_for!(RecordedExchange).into();
    let line = serde_json::to_value(exchange).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&line)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}
