//! A document against its schema: every mistake at once.

use std::net::SocketAddr;

use jsonschema::{Validator, error::ValidationErrorKind};
use schemars::JsonSchema;
use serde_json::Value;
use url::Url;

use super::{
    Format, Known,
    raw_auth::{is_jwks_url, is_origin},
    raw_sessions::DERIVED_EVENT,
    schema::schema,
    schema_errors::Finding,
    source_span::Problem,
    spanned_yaml::Tree,
};

/// What an unknown key means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownKeys {
    /// A problem: the operator wrote this file for hookgate.
    Refused,
    /// A warning, unless it stands where an event should: other products write
    /// keys of their own into the same file.
    Ignored,
}

/// What was found, and what is left.
#[derive(Debug)]
pub(super) struct Checked {
    /// The document without ignored keys. It fits its schema if there are no
    /// problems.
    pub(super) value: Value,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// Checks the document `value`, whose places `tree` knows, against the schema of
/// `T`.
pub(super) fn check<T: JsonSchema>(
    tree: &Tree,
    value: Value,
    known: &Known,
    unknown_keys: UnknownKeys,
) -> Checked {
    let schema = schema::<T>(known);
    let mut checked = Checked {
        value,
        problems: tree.duplicates(),
        warnings: Vec::new(),
    };
    let formats = [known.formats.as_slice(), &[DERIVED_EVENT]].concat();
    let validator = match validator(&schema, &formats) {
        Ok(validator) => validator,
        Err(message) => {
            checked.problems.push(Problem::nowhere(message));
            return checked;
        }
    };
    let mut ignored = Vec::new();
    for error in validator.iter_errors(&checked.value) {
        let finding = Finding {
            tree,
            document: &checked.value,
            schema: &schema,
            formats: &formats,
            error: &error,
        };
        let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() else {
            checked.problems.push(finding.problem());
            continue;
        };
        for key in unexpected {
            let problem = finding.unknown_key(key);
            if unknown_keys == UnknownKeys::Ignored && !finding.keys_are_events() {
                let parent = error.instance_path().as_str().to_owned();
                ignored.push((parent, key.clone()));
                checked.warnings.push(problem);
            } else {
                checked.problems.push(problem);
            }
        }
    }
    for (parent, key) in ignored {
        let parent = checked.value.pointer_mut(&parent);
        if let Some(fields) = parent.and_then(Value::as_object_mut) {
            fields.shift_remove(&key);
        }
    }
    checked
}

fn validator(schema: &Value, formats: &[Format]) -> Result<Validator, String> {
    let mut options = jsonschema::options();
    for Format { name, check } in formats.iter().copied() {
        options = options.with_format(name, move |it: &str| check(it).is_ok());
    }
    options
        .should_validate_formats(true)
        .with_format("socket-address", |it: &str| {
            it.parse::<SocketAddr>().is_ok()
        })
        .with_format("base-url", |it: &str| {
            Url::parse(it).is_ok_and(|url| is_base_url(&url))
        })
        .with_format("hook-url", |it: &str| {
            Url::parse(it).is_ok_and(|url| is_hook_url(&url))
        })
        .with_format("jwks-url", is_jwks_url)
        .with_format("origin", is_origin)
        .build(schema)
        .map_err(|error| format!("the schema itself is broken: {error}"))
}

/// Whether `url` can stand before the path of every call upstream.
pub(super) fn is_base_url(url: &Url) -> bool {
    is_hook_url(url) && url.query().is_none()
}

/// Whether events can be posted to `url`, and it holds no password.
fn is_hook_url(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none()
}
