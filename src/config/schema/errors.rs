//! Error messages for violations of a schema.

use jsonschema::{ValidationError, error::ValidationErrorKind};
use serde_json::Value;

use super::did_you_mean::did_you_mean;
use crate::{
    config::{
        registry::Format,
        source_span::{Problem, SourceSpan},
        spanned_yaml::{SpannedYaml, escape_key, unescape_key},
    },
    protocol,
};

/// A violation of a schema, with the context of its message.
#[derive(Debug)]
pub(super) struct SchemaError<'a> {
    pub(super) document: &'a SpannedYaml,
    pub(super) value: &'a Value,
    pub(super) schema: &'a Value,
    pub(super) formats: &'a [Format],
    pub(super) error: &'a ValidationError<'a>,
}

impl SchemaError<'_> {
    /// Returns the problem of an error that is not about unknown keys.
    pub(super) fn problem(&self) -> Problem {
        let path = self.error.instance_path().as_str();
        match self.error.kind() {
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let field = format!("{path}/{}", escape_key(name));
                self.message(&self.document.key_span(path), &field, "is missing")
            }
            ValidationErrorKind::PropertyNames { error } => {
                let name = error.instance().as_str().unwrap_or_default();
                let field = format!("{path}/{}", escape_key(name));
                let expected = expected(self.keyword_node());
                self.message(&self.document.key_span(&field), &field, &expected)
            }
            ValidationErrorKind::Format { format } => {
                let what = self.format_error(format);
                let what = what.unwrap_or_else(|| self.wrong_value());
                self.message(&self.document.span(path), path, &what)
            }
            ValidationErrorKind::UniqueItems => self.repeated_item(),
            ValidationErrorKind::MaxItems { limit }
            | ValidationErrorKind::MaxProperties { limit } => {
                let node = self.keyword_node();
                let own = node.and_then(|node| node.get("errorMessage")?.as_str());
                let what = format!("has more than {limit} items");
                let what = own.unwrap_or(&what);
                self.message(&self.document.span(path), path, what)
            }
            ValidationErrorKind::FalseSchema => {
                let what = "is for hooks of another type";
                self.message(&self.document.key_span(path), path, what)
            }
            _ => self.message(&self.document.span(path), path, &self.wrong_value()),
        }
    }

    /// Returns the message of a custom format.
    fn format_error(&self, format: &str) -> Option<String> {
        let format = self.formats.iter().find(|known| known.name == format)?;
        (format.check)(self.error.instance().as_str()?).err()
    }

    /// Returns the problem for one of the unknown keys of the error.
    pub(super) fn unknown_key(&self, key: &str) -> Problem {
        let path = self.error.instance_path().as_str();
        let field = format!("{path}/{}", escape_key(key));
        let known = self.keyword_node().and_then(|node| node.get("properties"));
        let known = known.and_then(Value::as_object).into_iter().flatten();
        let mut hint = did_you_mean(key, known.map(|(name, _)| name.as_str()));
        let hook = hook_label(self.value, &field);
        let what = if self.keys_are_events() {
            hint = Self::foreign_event(key).unwrap_or(hint);
            format!("event `{key}`")
        } else {
            format!("key `{}`", field_name(&field))
        };
        let message = format!("{hook}unknown {what}{hint}");
        Problem::at(&self.document.key_span(&field), message)
    }

    /// Returns the advice for an event of another protocol.
    fn foreign_event(name: &str) -> Option<String> {
        let (protocol, event) = protocol::events_named(name).next()?;
        Some(format!(
            " of the protocol `{protocol}`: here it is `{event}`; a file under `hook_files` with `protocol: {protocol}` may have it"
        ))
    }

    /// Checks whether the keys of the mapping with the error are events.
    pub(super) fn keys_are_events(&self) -> bool {
        let node = self.keyword_node();
        node.and_then(|node| node.get("x-keys")).is_some()
    }

    /// Returns the problem of the first item that its list has already.
    fn repeated_item(&self) -> Problem {
        let path = self.error.instance_path().as_str();
        let items = self.error.instance().as_array();
        let items = items.map_or(&[][..], Vec::as_slice);
        let is_repeated =
            |(index, item): &(usize, &Value)| items.iter().take(*index).any(|other| other == *item);
        let repeated = items.iter().enumerate().find(is_repeated);
        let (index, item) = repeated.unwrap_or((0, &Value::Null));
        let what = item.as_str().map_or_else(
            || "lists an item twice".to_owned(),
            |text| format!("lists `{text}` twice"),
        );
        let span = self.document.span(&format!("{path}/{index}"));
        self.message(&span, path, &what)
    }

    /// Returns `must be …, not …`. A value that may contain a secret is not shown.
    fn wrong_value(&self) -> String {
        let node = self.keyword_node();
        let expected = expected(node);
        let secret = node.and_then(|node| node.get("writeOnly")).is_some();
        let is_type_error = matches!(self.error.kind(), ValidationErrorKind::Type { .. });
        let wants_integer = node.and_then(|node| node.get("type")) == Some(&"integer".into());
        // Unquoted `yes` is text in YAML 1.2.
        let is_switch = node.and_then(|node| node.get("type")) == Some(&"boolean".into());
        let shows_text = !is_type_error || is_switch;
        let value = self.error.instance().as_ref();
        match value {
            Value::Null => format!("{expected}, but nothing is here"),
            _ if secret => expected,
            Value::Bool(_) => format!("{expected}, not `{value}`"),
            Value::String(text) if text.is_empty() => format!("{expected}, but it is empty"),
            Value::String(text) if shows_text => format!("{expected}, not `{text}`"),
            Value::String(_) => format!("{expected}, not text"),
            Value::Number(number) if !is_type_error || wants_integer => {
                format!("{expected}, not `{number}`")
            }
            Value::Number(_) => format!("{expected}, not a number"),
            Value::Array(items) if items.is_empty() && !is_type_error => {
                format!("{expected}, but it is empty")
            }
            Value::Array(_) => format!("{expected}, not a list"),
            Value::Object(_) => format!("{expected}, not a mapping"),
        }
    }

    fn message(&self, span: &SourceSpan, field: &str, what: &str) -> Problem {
        let hook = hook_label(self.value, field);
        let message = match field_name(field).as_str() {
            "" if hook.is_empty() => format!("the document {what}"),
            "" => format!("{hook}it {what}"),
            name => format!("{hook}`{name}` {what}"),
        };
        Problem::at(span, message)
    }

    /// Returns the schema of the value with the error.
    fn keyword_node(&self) -> Option<&Value> {
        let (node, _keyword) = self.error.schema_path().as_str().rsplit_once('/')?;
        self.schema.pointer(node)
    }
}

/// Returns `must be …`.
fn expected(node: Option<&Value>) -> String {
    let text = |key| node.and_then(|node| node.get(key)).and_then(Value::as_str);
    if let Some(words) = text("errorMessage") {
        return words.to_owned();
    }
    let choices = node.map(choices).unwrap_or_default();
    if !choices.is_empty() {
        return format!("must be {}", choices.join(" or "));
    }
    let expected = match text("type") {
        Some("boolean") => "true or false",
        Some("string") => "text",
        Some("array") => "a list",
        Some("object") => "a mapping",
        Some("integer") => return format!("must be a whole number{}", range(node)),
        Some("number") => return format!("must be a number{}", range(node)),
        _ => "something else",
    };
    format!("must be {expected}")
}

/// Returns ` from 1 to 10` or ` from 1`; an empty text without bounds.
fn range(node: Option<&Value>) -> String {
    let bound = |key, word| {
        let bound = node.and_then(|node| node.get(key));
        bound.map_or_else(String::new, |bound| format!(" {word} {bound}"))
    };
    bound("minimum", "from") + &bound("maximum", "to")
}

/// Returns the values of an `enum`, or of the `oneOf` that schemars generates for a
/// Rust enum with documented variants.
fn choices(node: &Value) -> Vec<String> {
    let list = |key| {
        node.get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let values = list("enum").chain(list("oneOf").filter_map(|branch| branch.get("const")));
    let quoted = |value: &Value| value.as_str().map(|text| format!("`{text}`"));
    values.filter_map(quoted).collect()
}

/// `/limits/body` → `limits.body`; relative to the hook or policy inside of one.
fn field_name(pointer: &str) -> String {
    let segments = split_hook(pointer).1.split('/').skip(1);
    let names = segments.map(|segment| match segment.parse::<usize>() {
        Ok(index) => format!("[{index}]"),
        Err(_) => format!(".{}", unescape_key(segment)),
    });
    let name: String = names.collect();
    name.strip_prefix('.').unwrap_or(&name).to_owned()
}

/// Returns ``hook `guard` on BeforeModel: `` or ``policy `respond`: `` for pointers
/// into one.
fn hook_label(document: &Value, pointer: &str) -> String {
    let (hook, _) = split_hook(pointer);
    let text = |key| {
        let text = document.pointer(hook)?.get(key)?.as_str();
        text.filter(|text| !text.trim().is_empty())
    };
    let (noun, label, event) = match hook.split('/').collect::<Vec<_>>().as_slice() {
        ["", "hooks", event, ..] => {
            let label = text("name").or_else(|| text("command"));
            ("hook", label, format!(" on {event}"))
        }
        ["", "policies", ..] => {
            let label = text("name").or_else(|| text("policy"));
            ("policy", label, String::new())
        }
        _ => return String::new(),
    };
    match label {
        Some(label) => format!("{noun} `{label}`{event}: "),
        None => format!("a {noun}{event}: "),
    }
}

/// Splits a pointer behind a hook or policy: `/hooks/BeforeModel/0/hooks/1/timeout` →
/// the first five segments and `/timeout`; `/policies/0/allow` → the first two and
/// `/allow`. For other pointers, the first part is empty.
fn split_hook(pointer: &str) -> (&str, &str) {
    let slashes = match pointer.split('/').collect::<Vec<_>>().as_slice() {
        ["", "hooks", _, _, "hooks", _, ..] => 5,
        ["", "policies", _, ..] => 2,
        _ => return ("", pointer),
    };
    let mut found = pointer.match_indices('/').map(|(at, _)| at);
    let end = found.nth(slashes).unwrap_or(pointer.len());
    pointer.split_at_checked(end).unwrap_or(("", pointer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_path_in_the_config() {
        assert_eq!(field_name("/limits/body"), "limits.body");
        assert_eq!(field_name("/hook_files/0/path"), "hook_files[0].path");
        assert_eq!(
            field_name("/hooks/BeforeTool/1/hooks/0/env/A~1B"),
            "env.A/B"
        );
        assert_eq!(field_name(""), "");
    }
}
