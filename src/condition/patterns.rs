//! `matches`: regular expressions, compiled once with their condition. They take
//! linear time, whatever the text.

use std::collections::BTreeMap;

use cel::ExecutionError;
use regex::{Regex, RegexBuilder};

/// The function's name.
pub(super) const FUNCTION: &str = "matches";

/// How large one may become when it is compiled, in bytes.
const LARGEST: usize = 1 << 20;

/// Every pattern of a condition, by its text.
#[derive(Debug, Default)]
pub(super) struct Patterns(BTreeMap<String, Regex>);

impl Patterns {
    /// Compiles a pattern, or says what is wrong with it.
    pub(super) fn add(&mut self, pattern: &str) -> Result<(), String> {
        let regex = RegexBuilder::new(pattern).size_limit(LARGEST).build();
        let regex = regex.map_err(|error| {
            let text = error.to_string();
            // The library draws the pattern first; the last line says it in words.
            let words = text.lines().last().unwrap_or_default();
            words.strip_prefix("error: ").unwrap_or(words).to_owned()
        })?;
        self.0.insert(pattern.to_owned(), regex);
        Ok(())
    }

    /// Whether a text matches somewhere.
    pub(super) fn matches(&self, pattern: &str, text: &str) -> Result<bool, ExecutionError> {
        let regex = self.0.get(pattern);
        let regex = regex.ok_or_else(|| ExecutionError::function_error(FUNCTION, "unknown"))?;
        Ok(regex.is_match(text))
    }
}
