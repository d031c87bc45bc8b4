//! The error type of all dialects.

use strict_json::JsonError;
use thiserror::Error;

/// Why a request or response could not be read.
#[derive(Debug, Error)]
pub enum DialectError {
    /// The path exists, but not with this HTTP method.
    #[error("method not allowed; allowed: {allowed}")]
    Method {
        /// The HTTP methods of this path, separated by commas.
        allowed: String,
    },
    /// A query parameter that cannot be forwarded.
    #[error("query parameter `{0}` is not supported")]
    Query(String),
    /// The document is not valid JSON, or parsers could disagree about it.
    #[error("{0}")]
    Json(String),
    /// A field is given twice, for example under both of its spellings.
    #[error("`{0}` is given twice")]
    Ambiguous(String),
    /// A field name that differs from a known one in case or underscores only, so
    /// that a lenient parser could read it as the known one.
    #[error("`{0}` is not a spelling that the model API accepts")]
    Spelling(String),
    /// The body names another model than the path.
    #[error("`model` does not match the model in the path")]
    OtherModel,
    /// A key is given twice inside a field of free-form keys. The error omits the
    /// key, because it may hold a secret.
    #[error("a key in `{0}` is given twice")]
    Twice(&'static str),
    /// A field has the wrong type.
    #[error("`{field}` must be {expected}")]
    Field {
        /// Name of the field.
        field: String,
        /// Expected type or value.
        expected: &'static str,
    },
}

impl From<JsonError> for DialectError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Invalid { .. } => Self::Json(error.to_string()),
            JsonError::DuplicateKey(field) => Self::Ambiguous(field),
            JsonError::DuplicateFreeKey(field) => Self::Twice(field),
            JsonError::Spelling(field) => Self::Spelling(field),
        }
    }
}
