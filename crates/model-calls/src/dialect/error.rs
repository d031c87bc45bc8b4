//! The error types of all dialects.

pub use strict_json::DocumentError as DialectError;
use thiserror::Error;

/// Result of reading or writing a document of a model API.
pub type Result<T, E = DialectError> = std::result::Result<T, E>;

/// Error of a request line with a refused method or query parameter.
#[derive(Debug, Error)]
pub enum RequestLineError {
    /// The path exists, but not with this HTTP method.
    #[error("method not allowed; allowed: {allowed}")]
    Method {
        /// The HTTP methods of this path, separated by commas.
        allowed: String,
    },
    /// A query parameter that cannot be forwarded.
    #[error("query parameter `{0}` is not supported")]
    Query(String),
    /// A query parameter is given twice.
    #[error("`{0}` is given twice")]
    Twice(String),
}

/// Returns the error about a field that must be something else, or absent.
pub fn field_error(field: &str, expected: &'static str) -> DialectError {
    DialectError::Field {
        field: field.to_owned(),
        expected: expected.into(),
    }
}
