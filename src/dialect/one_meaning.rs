//! Whether JSON means one thing to everybody who reads it. Pure.
//!
//! One pass over the bytes, without a tree. It takes less than RFC 8259 allows:
//! whatever two parsers are known to read in two ways is refused, so that what
//! hooks saw is what the model API reads.

mod keys;
mod scan;

#[cfg(test)]
mod tests;

use self::scan::Scan;
use super::DialectError;

/// How deep arrays and objects may stand in one another.
pub(super) const DEPTH: usize = 64;

/// What stands in front of some texts, and is no JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Fields of the API under which anything may stand, so that their keys mean
/// nothing to it: arguments, results, schemas, labels. In the API's spelling.
const FREE: [&str; 13] = [
    "args",
    "customMetadata",
    "default",
    "example",
    "inputSchema",
    "labels",
    "parameters",
    "parametersJsonSchema",
    "properties",
    "response",
    "responseJsonSchema",
    "responseSchema",
    "schema",
];

/// Who gives the keys of an object their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// The API: two spellings of one field are one key.
    Fields,
    /// Anybody; it is, or is part of, the field of this name.
    Free(&'static str),
}

impl Names {
    /// Who names the keys under `key`, which stands `depth` levels deep.
    fn under(self, key: &[u8], depth: usize) -> Self {
        if self != Self::Fields {
            return self;
        }
        let mut free = FREE
            .iter()
            .filter(|it| keys::same_field(it.as_bytes(), key));
        match free.next() {
            // At the top it is no function's, but an answer in its envelope.
            Some(&"response") if depth <= 1 => Self::Fields,
            Some(name) => Self::Free(name),
            None => Self::Fields,
        }
    }
}

/// Checks a request or an answer of the model API.
pub(super) fn check_document(text: &[u8]) -> Result<(), DialectError> {
    check(text, Names::Fields)
}

/// Checks JSON whose keys may have any names.
pub(super) fn check_value(text: &[u8]) -> Result<(), DialectError> {
    check(text, Names::Free("the document"))
}

fn check(text: &[u8], names: Names) -> Result<(), DialectError> {
    if text.starts_with(BYTE_ORDER_MARK) {
        return Err(DialectError::Json(
            "it begins with a byte order mark".to_owned(),
        ));
    }
    if std::str::from_utf8(text).is_err() {
        return Err(DialectError::Json("not UTF-8".to_owned()));
    }
    Scan::new(text).document(names)
}
