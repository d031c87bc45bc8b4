//! Content blocks of messages.

use serde_json::{Value, json};

use crate::content::string;

/// Returns the blocks of a message; a string is one text block.
pub(super) fn blocks(message: &Value) -> Vec<Value> {
    match message.get("content") {
        Some(Value::String(text)) => vec![json!({ "type": "text", "text": text })],
        Some(Value::Array(blocks)) => blocks.clone(),
        _ => Vec::new(),
    }
}

/// Returns the type of a block, which is empty if there is none.
pub(super) fn kind(block: &Value) -> &str {
    string(block, "type")
}
