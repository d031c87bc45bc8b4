//! Finds secrets in text, complete or streamed, and replaces them by labels.
//!
//! A [`Mask`] has detectors for well-known secrets ([`DETECTORS`]) and patterns of your
//! own. Each is compiled to an automaton that finds leftmost matches; overlapping
//! matches share one label. The result does not depend on how a stream is split: a
//! [`Masker`] holds back only what may still be part of a match, at most
//! [`MAX_HELD_BYTES`]. What may be part of a match for longer is masked.
//!
//! ```
//! use stream_redact::{Mask, Style};
//!
//! let mask = Mask::new(&["email"], &[("ticket", "TICKET-[0-9]{4}")], &Style::Label)?;
//!
//! let masked = mask.mask("write to john@example.com about TICKET-0042");
//! assert_eq!(
//!     masked.map(|masked| masked.text).as_deref(),
//!     Some("write to [REDACTED:email] about [REDACTED:ticket]")
//! );
//!
//! let mut stream = mask.stream();
//! let mut out = stream.push("call john@exam");
//! out += &stream.push("ple.com now");
//! out += &stream.finish();
//! assert_eq!(out, "call [REDACTED:email] now");
//! # Ok::<(), stream_redact::MaskError>(())
//! ```

mod automaton;
mod detectors;
mod label;
mod masker;
mod matcher;
mod parts;
mod pattern;
mod pattern_bits;
mod prefilter;
mod prefilter_table;
mod search;
mod stream;
mod validators;
mod window;

use std::sync::Arc;

use thiserror::Error;

pub use self::{
    detectors::{DETECTORS, Detector},
    label::Style,
    masker::{Masker, NextText},
    parts::{FoundSecret, MaskedParts},
};
use self::{label::Labels, pattern::Pattern, prefilter_table::FirstByteTable};

/// Maximum number of bytes that a stream holds back.
pub const MAX_HELD_BYTES: usize = 8 * 1024;

/// Compiled detectors and patterns. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mask {
    rules: Arc<PatternSet>,
}

/// State that all texts of a mask share.
#[derive(Debug)]
struct PatternSet {
    all: Vec<Pattern>,
    first_bytes: FirstByteTable,
    labels: Labels,
    limit: usize,
}

/// A text with its secrets replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedText {
    /// The text with labels.
    pub text: String,
    /// Names of the detectors and patterns that matched, each once.
    pub detectors: Vec<Arc<str>>,
}

/// Error of compiling the detectors and patterns of a mask.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MaskError {
    /// No detector has this name.
    #[error("no detector is named `{0}`; there are {all}", all = names())]
    UnknownDetector(String),
    /// The name of a pattern is empty, too long or has invalid characters.
    #[error("`{0}` is no name for a pattern; a name has 1 to 64 of a-z, A-Z, 0-9, `_`, `-`")]
    Name(String),
    /// The name of a pattern is that of another pattern or of a detector.
    #[error("`{0}` is the name of another pattern or of a detector")]
    NameTaken(String),
    /// A pattern is not a regular expression.
    #[error("pattern `{name}`, character {at}: {reason}")]
    Syntax {
        /// Name of the pattern.
        name: String,
        /// Error message of the parser.
        reason: String,
        /// Column, counted from 1.
        at: usize,
    },
    /// A pattern uses a feature that automata do not support.
    #[error("pattern `{name}` cannot be an automaton: {reason}")]
    Unsupported {
        /// Name of the pattern.
        name: String,
        /// Error message of the compiler.
        reason: String,
    },
    /// A pattern matches the empty text, which is everywhere.
    #[error("pattern `{0}` matches nothing at all, so it would match everywhere")]
    MatchesNothing(String),
    /// A pattern can never match.
    #[error("pattern `{0}` can never match")]
    NeverMatches(String),
    /// The automaton of a pattern exceeds its memory limit.
    #[error(
        "pattern `{0}` is too large; shorter repetitions, or `[a-z]` for `\\w`, make it smaller"
    )]
    TooLarge(String),
    /// The key of [`Style::Hash`] is empty.
    #[error("the key of the hash is empty")]
    NoKey,
}

fn names() -> String {
    let names: Vec<&str> = DETECTORS.iter().map(|detector| detector.name).collect();
    names.join(", ")
}

impl Mask {
    /// Compiles detectors by name, and patterns as pairs of a name and a regular
    /// expression.
    ///
    /// # Errors
    ///
    /// Fails if a name is unknown, invalid or taken, or if a pattern cannot be
    /// compiled.
    pub fn new(
        detectors: &[&str],
        patterns: &[(&str, &str)],
        style: &Style,
    ) -> Result<Self, MaskError> {
        Self::holding(MAX_HELD_BYTES, detectors, patterns, style)
    }

    /// Compiles a mask whose streams hold back at most `limit` bytes, which must exceed
    /// the lead of every detector.
    fn holding(
        limit: usize,
        detectors: &[&str],
        patterns: &[(&str, &str)],
        style: &Style,
    ) -> Result<Self, MaskError> {
        let is_known = |name: &str| DETECTORS.iter().any(|detector| detector.name == name);
        if let Some(name) = detectors.iter().find(|name| !is_known(name)) {
            return Err(MaskError::UnknownDetector((*name).to_owned()));
        }
        let wanted = DETECTORS
            .iter()
            .filter(|detector| detectors.contains(&detector.name));
        let mut all: Vec<Pattern> = wanted
            .map(Pattern::from_detector)
            .collect::<Result<_, _>>()?;
        for (name, pattern) in patterns {
            check_name(name)?;
            if is_known(name) || all.iter().any(|other| *other.name == **name) {
                return Err(MaskError::NameTaken((*name).to_owned()));
            }
            all.push(Pattern::from_pattern(name, pattern)?);
        }
        let rules = PatternSet {
            first_bytes: FirstByteTable::new(&all),
            labels: Labels::new(style)?,
            all,
            limit,
        };
        Ok(Self {
            rules: Arc::new(rules),
        })
    }

    /// Replaces every secret in a complete text. Returns `None` if there is none.
    pub fn mask(&self, text: &str) -> Option<MaskedText> {
        let masked = self.mask_parts(&[text])?;
        Some(MaskedText {
            text: masked.texts.concat(),
            detectors: masked.detectors,
        })
    }

    /// Starts masking a streamed text.
    pub fn stream(&self) -> Masker {
        Masker::new(self.clone())
    }
}

impl PatternSet {
    /// Returns the names of patterns.
    fn names(&self, rules: impl Iterator<Item = usize>) -> impl Iterator<Item = Arc<str>> {
        rules.filter_map(|rule| Some(self.all.get(rule)?.name.clone()))
    }
}

fn check_name(name: &str) -> Result<(), MaskError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_plain) {
        return Err(MaskError::Name(name.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
