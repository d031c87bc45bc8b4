//! Validates a document against its schema and reports every problem at once.

use std::{any::TypeId, sync::Arc};

use jsonschema::error::ValidationErrorKind;
use schemars::JsonSchema;
use serde_json::Value;

use super::{
    errors::SchemaError,
    formats::{self, DERIVED_EVENT},
    generate::schema,
};
use crate::config::{
    registry::{CompiledSchema, Format, Registry},
    source_span::Problem,
    spanned_yaml::SpannedYaml,
};

/// Handling of unknown keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownKeys {
    /// A problem, in files that are written for hookgate.
    Refused,
    /// A warning, unless the keys of the mapping are events. Other products write keys
    /// of their own into settings files.
    Ignored,
}

/// A validated document with its problems.
#[derive(Debug)]
pub struct Validated {
    /// The document without ignored keys. Without problems, it matches its schema.
    pub value: Value,
    /// Everything that is wrong.
    pub problems: Vec<Problem>,
    /// A warning for each ignored key and tag.
    pub warnings: Vec<Problem>,
}

/// Validates `value`, a part of `document`, against the schema of `T`.
pub fn validate<T: JsonSchema + 'static>(
    document: &SpannedYaml,
    value: Value,
    registry: &Registry,
    unknown_keys: UnknownKeys,
) -> Validated {
    let formats = [registry.formats.as_slice(), &[DERIVED_EVENT]].concat();
    let compiled = {
        let mut schemas = registry.schemas.lock();
        let compiled = schemas.entry(TypeId::of::<T>());
        Arc::clone(compiled.or_insert_with(|| Arc::new(compile(schema::<T>(registry), &formats))))
    };
    let mut validated = Validated {
        value,
        problems: document.duplicates(),
        warnings: document.ignored_tags(),
    };
    let schema = match &*compiled {
        Ok(schema) => schema,
        Err(message) => {
            let message = format!("internal error: the schema is invalid: {message}");
            validated.problems.push(Problem::without_span(message));
            return validated;
        }
    };
    let mut ignored = Vec::new();
    for error in schema.validator.iter_errors(&validated.value) {
        let finding = SchemaError {
            document,
            value: &validated.value,
            schema: &schema.value,
            formats: &formats,
            error: &error,
        };
        let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() else {
            validated.problems.push(finding.problem());
            continue;
        };
        for key in unexpected {
            let problem = finding.unknown_key(key);
            if unknown_keys == UnknownKeys::Ignored && !finding.keys_are_events() {
                let parent = error.instance_path().as_str().to_owned();
                ignored.push((parent, key.clone()));
                validated.warnings.push(problem);
            } else {
                validated.problems.push(problem);
            }
        }
    }
    for (parent, key) in ignored {
        let parent = validated.value.pointer_mut(&parent);
        if let Some(fields) = parent.and_then(Value::as_object_mut) {
            fields.shift_remove(&key);
        }
    }
    validated
}

fn compile(value: Value, formats: &[Format]) -> Result<CompiledSchema, String> {
    let mut options = jsonschema::options();
    for Format { name, check } in formats.iter().copied() {
        options = options.with_format(name, move |text: &str| check(text).is_ok());
    }
    let options = formats::add_to(options).should_validate_formats(true);
    let validator = options.build(&value).map_err(|error| error.to_string())?;
    Ok(CompiledSchema { value, validator })
}
