//! Arguments of function calls: JSON in a string.

use serde_json::Value;

use crate::dialect::document;

/// Parses arguments; `None` if there are none. Text that is no unambiguous JSON object stays a
/// string, which guards refuse.
pub fn read_arguments(text: &str) -> Option<Value> {
    if text.trim_ascii().is_empty() {
        return None;
    }
    let object = document::parse(text).ok().filter(Value::is_object);
    Some(object.unwrap_or_else(|| text.into()))
}
