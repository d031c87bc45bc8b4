//! Checks that a JSON document means the same to every parser.
//!
//! RFC 8259 leaves some documents open to interpretation: of duplicate keys, one parser
//! reads the first and another the last; some accept a byte order mark, invalid UTF-8,
//! lone surrogates or deep nesting, and some do not. A proxy that inspects what another
//! program parses must not be misled by that. This crate refuses such documents in one
//! pass over the bytes, without building a tree.
//!
//! ```
//! use strict_json::{JsonError, Names, check};
//!
//! assert!(check(br#"{"model": "a", "stop": ["x"]}"#, Names::Free).is_ok());
//!
//! let duplicate = check(br#"{"model": "a", "mod\u0065l": "b"}"#, Names::Free);
//! assert_eq!(duplicate, Err(JsonError::DuplicateKey("model".to_owned())));
//! ```
//!
//! [`lay_out`] also records where values are, so that they need not be searched again:
//!
//! ```
//! use strict_json::{Names, lay_out};
//!
//! let text = br#"{"a": [1, 2]}"#;
//! let layout = lay_out(text, Names::Free, 2)?;
//! let array = layout.within(0).and_then(|mut values| values.next());
//! let array = array.and_then(|index| layout.place(index));
//! assert_eq!(array.map(|range| &text[range]), Some(&b"[1, 2]"[..]));
//! # Ok::<(), strict_json::JsonError>(())
//! ```
//!
//! Protocol buffer APIs read `fooBar` and `foo_bar` as one field: [`Names::Fields`]
//! compares keys by that rule, except below fields whose keys users choose. Names of fields with
//! a letter that Go reads as another one are refused: long s as `s`, the Kelvin sign as `k`. A
//! [`Document`] finds fields of an object under the spellings that an API accepts, and edits them
//! without changing other bytes.

mod decode;
mod document;
mod edit;
mod escapes;
mod keys;
mod layout;
mod names;
mod scan;
mod strings;
mod text;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use thiserror::Error;

pub use self::{
    decode::unquote,
    document::Document,
    edit::write_array,
    escapes::{ESCAPE_BYTES, unescaped_chars, unescaped_lossy},
    keys::same_field,
    layout::{Layout, Within},
};
use self::{scan::Scan, text::Text};

/// Maximum nesting depth of arrays and objects.
pub const MAX_DEPTH: usize = 64;

/// Maximum number of fields in an object of an API; lookups are linear in it.
pub const MAX_FIELDS: usize = 1000;

/// Maximum number of values whose positions are recorded. A position, and what is made of the
/// value, takes many times the bytes of a small value.
pub const MAX_VALUES: usize = 1 << 19;

/// Maximum length of a text in bytes: positions are stored in 32 bits.
const MAX_TEXT_BYTES: usize = u32::MAX as usize;

/// UTF-8 byte order mark, which RFC 8259 forbids to generate.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Scope of documents whose keys are all free.
const ALL_FREE: &FreeField = &FreeField::new("", 0);

/// A field below which keys have free names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeField {
    /// Name of the field, in any spelling.
    name: &'static str,
    /// Minimum depth of the object that has the field; the outermost has depth 1.
    from_depth: usize,
    hash: u32,
}

impl FreeField {
    /// Creates a free field of objects at this depth or deeper; the outermost object
    /// has depth 1. `name` may be in any spelling.
    pub const fn new(name: &'static str, from_depth: usize) -> Self {
        let hash = keys::hash(name.as_bytes());
        Self {
            name,
            from_depth,
            hash,
        }
    }
}

/// A set of free fields.
#[derive(Debug, PartialEq, Eq)]
pub struct FreeFields {
    all: &'static [FreeField],
    /// Bloom filter of the hashes of their names.
    hash_bits: u64,
}

impl FreeFields {
    /// Creates the set of these fields.
    pub const fn new(all: &'static [FreeField]) -> Self {
        let (mut hash_bits, mut rest) = (0, all);
        while let [field, others @ ..] = rest {
            hash_bits |= bit(field.hash);
            rest = others;
        }
        Self { all, hash_bits }
    }
}

/// Returns the bit of a hash, from its best mixed bits.
#[inline]
const fn bit(hash: u32) -> u64 {
    1 << (hash >> 26)
}

/// Rule for comparing the keys of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Byte by byte: all names are free.
    Free,
    /// As field names of an API, where `fooBar` and `foo_bar` are one key; byte by byte
    /// below these fields.
    Fields(&'static FreeFields),
}

/// Error of a document that is invalid or has ambiguous keys.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JsonError {
    /// The document is not JSON, or parsers read it differently.
    #[error("{what} at byte {at}")]
    Invalid {
        /// Cause of the error. Never quotes the text, which may be secret.
        what: &'static str,
        /// Offset in bytes, from 0.
        at: usize,
    },
    /// An object has a field twice.
    #[error("`{0}` is duplicated")]
    DuplicateKey(String),
    /// An object has a key twice, in or below a field with free names. The key is not
    /// quoted.
    #[error("a key in `{0}` is duplicated")]
    DuplicateFreeKey(&'static str),
    /// A field name that differs from a known one in case or underscores only.
    #[error("`{0}` is not a known spelling of this field")]
    Spelling(String),
}

/// Error of a [`Document`] that is rejected, or of one of its fields.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DocumentError {
    /// The document is not valid JSON, or parsers could disagree about it.
    #[error("{0}")]
    Json(String),
    /// A field is given twice, for example under two of its spellings.
    #[error("`{0}` is given twice")]
    Ambiguous(String),
    /// A field name that differs from a known one in case or underscores only, so that a
    /// lenient parser could read it as the known one.
    #[error("`{0}` is not a spelling that the model API accepts")]
    Spelling(String),
    /// A key is given twice inside a field of free-form keys. The error omits the key,
    /// because it may hold a secret.
    #[error("a key in `{0}` is given twice")]
    Twice(&'static str),
    /// A field has the wrong type.
    #[error("`{field}` must be {expected}")]
    Field {
        /// Name of the field.
        field: String,
        /// Expected type or value.
        expected: Cow<'static, str>,
    },
    /// A field contradicts another part of the request.
    #[error("`{field}` does not match {other}")]
    Mismatch {
        /// Name of the field.
        field: &'static str,
        /// Description of the other part.
        other: &'static str,
    },
}

impl From<JsonError> for DocumentError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Invalid { .. } => Self::Json(error.to_string()),
            JsonError::DuplicateKey(field) => Self::Ambiguous(field),
            JsonError::DuplicateFreeKey(field) => Self::Twice(field),
            JsonError::Spelling(field) => Self::Spelling(field),
        }
    }
}

/// Checks a document and returns the number of its values, itself included.
///
/// # Errors
///
/// Returns what is wrong with the document, and where.
pub fn check(text: &[u8], names: Names) -> Result<usize, JsonError> {
    let scan = Scan::new(checked(text)?).document(names);
    scan.map(|scan| scan.layout.total).map_err(|error| *error)
}

/// Checks a document and records the positions of its values down to the nesting depth
/// `deepest`; the document itself has depth 0.
///
/// # Errors
///
/// Returns what is wrong with the document, and where.
pub fn lay_out(text: &[u8], names: Names, deepest: usize) -> Result<Layout, JsonError> {
    let scan = Scan::new(checked(text)?);
    scan.laid_out(names, deepest).map_err(|error| *error)
}

/// Returns the end of the string with which a text begins, closing quote included;
/// `None` if it does not begin with a valid string.
pub fn string_end(text: &[u8]) -> Option<usize> {
    let text = Text(checked(text).ok()?);
    let is_string = text.byte(0) == b'"';
    is_string.then(|| text.string(0).ok())?
}

/// Checks length, byte order mark and UTF-8.
fn checked(text: &[u8]) -> Result<&[u8], JsonError> {
    let broken = |what, at| Err(JsonError::Invalid { what, at });
    if text.len() > MAX_TEXT_BYTES {
        return broken("longer than 4 GiB", MAX_TEXT_BYTES);
    }
    if text.starts_with(BYTE_ORDER_MARK) {
        return broken("a byte order mark", 0);
    }
    if simdutf8::basic::from_utf8(text).is_err()
        && let Err(error) = std::str::from_utf8(text)
    {
        return broken("not UTF-8", error.valid_up_to());
    }
    Ok(text)
}
