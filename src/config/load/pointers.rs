//! Patterns of JSON pointers, such as `/auth/keys/*/upstream_key`.

use serde_json::{Map, Value};

use crate::config::spanned_yaml::escape_key;

/// Returns the pointers of all values in `value` that match `pattern`, in which `*`
/// matches every key and index.
pub(super) fn matching(value: &Value, pattern: &str) -> Vec<String> {
    let mut found = vec![(String::new(), value)];
    for segment in pattern.split('/').skip(1) {
        let children = found.into_iter().flat_map(|(pointer, value)| {
            let children = children(value, segment).into_iter();
            children.map(move |(name, child)| (format!("{pointer}/{name}"), child))
        });
        found = children.collect();
    }
    found.into_iter().map(|(pointer, _)| pointer).collect()
}

/// Adds the `defaults` for absent keys.
pub(super) fn fill_in(fields: &mut Map<String, Value>, defaults: &Map<String, Value>) {
    for (name, default) in defaults {
        fields.entry(name).or_insert_with(|| default.clone());
    }
}

fn children<'a>(value: &'a Value, segment: &str) -> Vec<(String, &'a Value)> {
    match (value, segment) {
        (Value::Object(fields), "*") => {
            let fields = fields.iter();
            fields
                .map(|(name, child)| (escape_key(name), child))
                .collect()
        }
        (Value::Array(items), "*") => {
            let items = items.iter().enumerate();
            items
                .map(|(index, child)| (index.to_string(), child))
                .collect()
        }
        (_, "*") => Vec::new(),
        (_, name) => {
            let child = value.pointer(&format!("/{name}"));
            child
                .map(|child| (name.to_owned(), child))
                .into_iter()
                .collect()
        }
    }
}
