//! An error of the schema library in our own words. Pure.

use jsonschema::{ValidationError, error::ValidationErrorKind};
use serde_json::Value;

use super::{
    Format,
    source_span::{Place, Problem},
    spanned_yaml::{Tree, escape, unescape},
};

/// An error, with all that is needed to word it.
#[derive(Debug)]
pub(super) struct Finding<'a> {
    pub(super) tree: &'a Tree,
    pub(super) document: &'a Value,
    pub(super) schema: &'a Value,
    pub(super) formats: &'a [Format],
    pub(super) error: &'a ValidationError<'a>,
}

impl Finding<'_> {
    /// The error, if it is not about unknown keys.
    pub(super) fn problem(&self) -> Problem {
        let path = self.error.instance_path().as_str();
        match self.error.kind() {
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let field = format!("{path}/{}", escape(name));
                self.say(&self.tree.key_place(path), &field, "is missing")
            }
            ValidationErrorKind::PropertyNames { error } => {
                let name = error.instance().as_str().unwrap_or_default();
                let field = format!("{path}/{}", escape(name));
                let expected = expected(self.keyword_node());
                self.say(&self.tree.key_place(&field), &field, &expected)
            }
            ValidationErrorKind::Format { format } if self.check(format).is_some() => {
                let what = self.check(format).unwrap_or_default();
                self.say(&self.tree.place(path), path, &what)
            }
            ValidationErrorKind::FalseSchema => {
                let what = "is for hooks of another type";
                self.say(&self.tree.key_place(path), path, what)
            }
            _ => self.say(&self.tree.place(path), path, &self.wrong_value()),
        }
    }

    /// What a format of another room says of the text.
    fn check(&self, format: &str) -> Option<String> {
        let format = self.formats.iter().find(|it| it.name == format)?;
        (format.check)(self.error.instance().as_str()?).err()
    }

    /// The error, for one of the unknown keys it is about.
    pub(super) fn unknown_key(&self, key: &str) -> Problem {
        let path = self.error.instance_path().as_str();
        let field = format!("{path}/{}", escape(key));
        let known = self.keyword_node().and_then(|it| it.get("properties"));
        let known = known.and_then(Value::as_object).into_iter().flatten();
        let hint = did_you_mean(key, known.map(|(name, _)| name.as_str()));
        let hook = hook_label(self.document, &field);
        let what = if self.keys_are_events() {
            format!("event `{key}`")
        } else {
            format!("key `{}`", field_name(&field))
        };
        let message = format!("{hook}unknown {what}{hint}");
        Problem::at(&self.tree.key_place(&field), message)
    }

    /// Whether the keys of the mapping that the error is about name events.
    pub(super) fn keys_are_events(&self) -> bool {
        let node = self.keyword_node();
        node.and_then(|it| it.get("x-keys")).is_some()
    }

    /// `must be …, not …`; a value that may hold a secret is not shown.
    fn wrong_value(&self) -> String {
        let node = self.keyword_node();
        let expected = expected(node);
        let secret = node.and_then(|it| it.get("writeOnly")).is_some();
        let is_type_error = matches!(self.error.kind(), ValidationErrorKind::Type { .. });
        // A `yes` is text in YAML 1.2, which is news to many.
        let is_switch = node.and_then(|it| it.get("type")) == Some(&"boolean".into());
        let shows_text = !is_type_error || is_switch;
        let value = self.error.instance().as_ref();
        match value {
            Value::Null => format!("{expected}, but nothing is here"),
            _ if secret => expected,
            Value::Bool(_) => format!("{expected}, not `{value}`"),
            Value::String(text) if text.is_empty() => format!("{expected}, but it is empty"),
            Value::String(text) if shows_text => format!("{expected}, not `{text}`"),
            Value::String(_) => format!("{expected}, not text"),
            Value::Number(number) if !is_type_error => format!("{expected}, not `{number}`"),
            Value::Number(_) => format!("{expected}, not a number"),
            Value::Array(_) if is_type_error => format!("{expected}, not a list"),
            Value::Array(_) => format!("{expected}, but it is empty"),
            Value::Object(_) => format!("{expected}, not a mapping"),
        }
    }

    fn say(&self, place: &Place, field: &str, what: &str) -> Problem {
        let hook = hook_label(self.document, field);
        let message = match field_name(field).as_str() {
            "" if hook.is_empty() => format!("the document {what}"),
            "" => format!("{hook}it {what}"),
            name => format!("{hook}`{name}` {what}"),
        };
        Problem::at(place, message)
    }

    /// The schema of the value that the error is about.
    fn keyword_node(&self) -> Option<&Value> {
        let (node, _keyword) = self.error.schema_path().as_str().rsplit_once('/')?;
        self.node(node)
    }

    fn node(&self, pointer: &str) -> Option<&Value> {
        self.schema.pointer(pointer)
    }
}

/// `must be …`
fn expected(node: Option<&Value>) -> String {
    let text = |key| node.and_then(|it| it.get(key)).and_then(Value::as_str);
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
        Some("integer") => "a whole number",
        Some("number") => "a number",
        _ => "something else",
    };
    format!("must be {expected}")
}

/// The words a schema allows: `enum`, or what schemars makes of a Rust enum
/// whose variants are documented.
fn choices(node: &Value) -> Vec<String> {
    let list = |key| {
        node.get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let words = list("enum").chain(list("oneOf").filter_map(|it| it.get("const")));
    let quoted = |it: &Value| it.as_str().map(|word| format!("`{word}`"));
    words.filter_map(quoted).collect()
}

/// `; did you mean …?` with the known name that is most like `key`, or nothing if
/// none is like it at all.
pub(super) fn did_you_mean<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> String {
    const ALIKE: f64 = 0.8;
    let likeness = |name: &str| strsim::jaro_winkler(&key.to_lowercase(), &name.to_lowercase());
    known
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}

/// `/limits/body` → `limits.body`; inside a hook, from the hook on.
fn field_name(pointer: &str) -> String {
    let segments = split_hook(pointer).1.split('/').skip(1);
    let names = segments.map(|it| match it.parse::<usize>() {
        Ok(index) => format!("[{index}]"),
        Err(_) => format!(".{}", unescape(it)),
    });
    let name: String = names.collect();
    name.strip_prefix('.').unwrap_or(&name).to_owned()
}

/// ``hook `guard` on BeforeModel: `` or ``policy `respond`: ``, if `pointer`
/// leads into one.
fn hook_label(document: &Value, pointer: &str) -> String {
    let (hook, _) = split_hook(pointer);
    let text = |key| {
        let text = document.pointer(hook)?.get(key)?.as_str();
        text.filter(|it| !it.trim().is_empty())
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

/// `/hooks/BeforeModel/0/hooks/1/timeout` → the first five segments and
/// `/timeout`; `/policies/0/allow` → the first two and `/allow`; no hook and all
/// of it, if it leads into neither.
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
    fn fields_are_named_as_an_operator_would() {
        assert_eq!(field_name("/limits/body"), "limits.body");
        assert_eq!(field_name("/hook_files/0/path"), "hook_files[0].path");
        assert_eq!(
            field_name("/hooks/BeforeTool/1/hooks/0/env/A~1B"),
            "env.A/B"
        );
        assert_eq!(field_name(""), "");
    }
}
