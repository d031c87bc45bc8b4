//! Names and formats that other modules define and a config may use.

use std::{any::TypeId, collections::HashMap, sync::Arc};

use jsonschema::Validator;
use serde_json::Value;

use crate::mutex::Mutex;

/// The transports, policies and formats that a config may name.
#[derive(Debug, Default)]
pub struct Registry {
    /// Allowed values of a hook's `type`.
    pub transports: Vec<&'static str>,
    /// Allowed values of `policy`, with their settings.
    pub policies: Vec<PolicyShape>,
    /// Checks for the custom values of `format` in schemas.
    pub formats: Vec<Format>,
    /// The schemas of documents that use these names, once they were compiled.
    pub schemas: CompiledSchemas,
}

/// Compiled schemas, each by the type it was made of, or the reason why it is invalid.
pub type CompiledSchemas = Mutex<HashMap<TypeId, Arc<Result<CompiledSchema, String>>>>;

/// The schema of a type, with a validator.
#[derive(Debug)]
pub struct CompiledSchema {
    pub(super) value: Value,
    pub(super) validator: Validator,
}

/// Name and settings of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyShape {
    /// The name of the policy.
    pub name: &'static str,
    /// The JSON Schema of its settings.
    pub schema: Value,
}

/// A custom `format` of JSON Schema strings.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The value of `format`.
    pub name: &'static str,
    /// Validates a text. The error completes a sentence that begins with the
    /// name of the setting.
    pub check: fn(&str) -> Result<(), String>,
}
