//! Whether JSON means one thing to everybody who reads it. Pure.
//!
//! One pass over the bytes, without a tree. It takes less than RFC 8259 allows:
//! whatever two parsers are known to read in two ways is refused, so that what
//! hooks saw is what the model API reads. It must not know what a document says.

mod keys;
mod layout;
mod scan;
mod strings;
mod text;

#[cfg(test)]
mod tests;

use thiserror::Error;

pub use self::{keys::same_field, layout::Layout};
use self::{scan::Scan, text::Text};

/// How deep arrays and objects may stand in one another.
pub const DEPTH: usize = 64;

/// How many fields an object of an API may have: each is looked for among them.
pub const MOST_FIELDS: usize = 1000;

/// How long a text may be, in bytes: places in it are kept in 32 bits.
const LONGEST: usize = u32::MAX as usize;

/// What stands in front of some texts, and is no JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What anybody names, and is under no such field.
const ANYBODYS: &FreeField = &FreeField::new("", 0);

/// A field under which anybody gives keys their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeField {
    /// Its name, in any spelling.
    name: &'static str,
    /// How deep the object must stand that has it; the outermost is 1.
    from_depth: usize,
    print: u32,
}

impl FreeField {
    /// A field of this name, in any spelling, of objects that stand so deep or
    /// deeper; the outermost is 1.
    pub const fn new(name: &'static str, from_depth: usize) -> Self {
        let print = keys::print(name.as_bytes());
        Self {
            name,
            from_depth,
            print,
        }
    }
}

/// Such fields.
#[derive(Debug, PartialEq, Eq)]
pub struct FreeFields {
    all: &'static [FreeField],
    /// A bit for each print: most keys have none of them.
    prints: u64,
}

impl FreeFields {
    /// These.
    pub const fn new(all: &'static [FreeField]) -> Self {
        let (mut prints, mut rest) = (0, all);
        while let [field, others @ ..] = rest {
            prints |= bit(field.print);
            rest = others;
        }
        Self { all, prints }
    }
}

/// The bit of a print, by its best mixed digits.
#[inline]
const fn bit(print: u32) -> u64 {
    1 << (print >> 26)
}

/// Who gives the keys of a document their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Anybody.
    Free,
    /// An API whose fields have two spellings each, `fooBar` and `foo_bar`: both
    /// are one key. Under these fields it is anybody.
    Fields(&'static FreeFields),
}

/// Why JSON is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JsonError {
    /// It is no JSON, or some parsers read it otherwise.
    #[error("{what} at byte {at}")]
    Broken {
        /// What is wrong. Nothing of the text is told: it may be a secret.
        what: &'static str,
        /// Where, from 0.
        at: usize,
    },
    /// A field is given twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// A key is given twice in, or below, a field whose keys anybody names; it is
    /// not told.
    #[error("a key in `{0}` is given twice")]
    TwiceWithin(&'static str),
}

/// Checks a document.
pub fn check(text: &[u8], names: Names) -> Result<(), JsonError> {
    let scan = Scan::new(checked(text)?);
    scan.document(names).map(drop).map_err(|it| *it)
}

/// Checks a document, and takes down where its values stand, so deep; the document
/// itself is 0.
pub fn lay_out(text: &[u8], names: Names, deepest: usize) -> Result<Layout, JsonError> {
    let scan = Scan::new(checked(text)?);
    scan.laid_out(names, deepest).map_err(|it| *it)
}

/// Where the string ends that a text begins with, behind its last quote; none if it
/// begins with no string that means one thing.
pub fn string_end(text: &[u8]) -> Option<usize> {
    let text = Text(checked(text).ok()?);
    let is_string = text.byte(0) == b'"';
    is_string.then(|| text.string(0).ok())?
}

/// A text that may be JSON: valid UTF-8.
fn checked(text: &[u8]) -> Result<&[u8], JsonError> {
    let broken = |what, at| Err(JsonError::Broken { what, at });
    if text.len() > LONGEST {
        return broken("longer than 4 GiB", LONGEST);
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
