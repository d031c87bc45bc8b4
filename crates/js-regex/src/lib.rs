//! Regular expressions with the meaning that they have in JavaScript without flags.
//!
//! Other engines agree with ECMAScript on most constructs and differ in details that
//! matter for security: whether `$` matches before a line feed, whether `\d` and `\w` match
//! letters and digits of other scripts, what `[a&&b]` or `(?i)` are. A pattern that was
//! written for JavaScript is parsed here by its rules, with Annex B as Node has it, and
//! translated for [`fancy_regex`].
//!
//! ```
//! use js_regex::{Error, Regex};
//!
//! let not_read = Regex::new("^(?!read_)", 100_000)?;
//! assert_eq!(not_read.is_match("write_file"), Some(true));
//! assert_eq!(not_read.is_match("read_file"), Some(false));
//!
//! let digits = Regex::new(r"^\d+$", 100_000)?;
//! assert_eq!(digits.is_match("١"), Some(false));
//!
//! assert!(matches!(Regex::new("*_file", 100_000), Err(Error::Invalid(_))));
//! # Ok::<(), Error>(())
//! ```
//!
//! Matching works on characters, even if JavaScript would work on UTF-16 code units.

mod translate;

#[cfg(test)]
mod tests;

use thiserror::Error;

use self::translate::translate;

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub struct Regex {
    anywhere: fancy_regex::Regex,
    whole: fancy_regex::Regex,
}

/// The reason why a pattern cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The pattern is not valid JavaScript.
    #[error("invalid: {0}")]
    Invalid(&'static str),
    /// The pattern is valid JavaScript that cannot be translated.
    #[error("not supported: {0}")]
    Unsupported(String),
}

impl Regex {
    /// Compiles a pattern. A match gives up after `backtrack_limit` steps.
    ///
    /// # Errors
    ///
    /// Returns an error if the pattern is invalid or cannot be translated.
    pub fn new(pattern: &str, backtrack_limit: usize) -> Result<Self, Error> {
        let pattern = translate(pattern)?;
        let compile = |pattern: &str| {
            fancy_regex::RegexBuilder::new(pattern)
                .backtrack_limit(backtrack_limit)
                .build()
                .map_err(|error| Error::Unsupported(error.to_string()))
        };
        Ok(Self {
            anywhere: compile(&pattern)?,
            whole: compile(&format!(r"\A(?:{pattern})\z"))?,
        })
    }

    /// Checks whether the pattern matches a part of `text`. `None` beyond the backtracking
    /// limit.
    pub fn is_match(&self, text: &str) -> Option<bool> {
        self.anywhere.is_match(text).ok()
    }

    /// Checks whether the pattern matches all of `text`. `None` beyond the backtracking
    /// limit.
    pub fn is_full_match(&self, text: &str) -> Option<bool> {
        self.whole.is_match(text).ok()
    }
}
