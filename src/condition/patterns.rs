//! `matches`: regular expressions, compiled once with their condition. The time
//! they take is linear in the text, and at worst in their own size as well.

use std::collections::BTreeMap;

use cel::ExecutionError;
use regex::{Error, Regex, RegexBuilder};

use super::cost_budget::Effort;

/// The function's name.
pub(super) const FUNCTION: &str = "matches";

/// How large one may become when it is compiled, in KiB.
const LARGEST: usize = 1024;

/// Every pattern of a condition, by its text.
#[derive(Debug, Default)]
pub(super) struct Patterns(BTreeMap<String, Pattern>);

#[derive(Debug)]
struct Pattern {
    regex: Regex,
    /// The power of two that is enough for it when it is compiled.
    kib: usize,
}

impl Patterns {
    /// Compiles a pattern, or says what is wrong with it.
    pub(super) fn add(&mut self, pattern: &str) -> Result<(), String> {
        let mut kib = 1;
        let regex = loop {
            match RegexBuilder::new(pattern).size_limit(kib << 10).build() {
                Err(Error::CompiledTooBig(_)) if kib < LARGEST => kib *= 2,
                built => break built,
            }
        };
        let regex = regex.map_err(|error| {
            let text = error.to_string();
            // The library draws the pattern first; the last line says it in words.
            let words = text.lines().last().unwrap_or_default();
            words.strip_prefix("error: ").unwrap_or(words).to_owned()
        })?;
        let pattern = pattern.to_owned();
        self.0.insert(pattern, Pattern { regex, kib });
        Ok(())
    }

    /// Whether a text matches somewhere.
    pub(super) fn matches(
        &self,
        pattern: &str,
        text: &str,
        effort: &Effort,
    ) -> Result<bool, ExecutionError> {
        let failed = |why| ExecutionError::function_error(FUNCTION, why);
        let pattern = self.0.get(pattern).ok_or_else(|| failed("unknown"))?;
        if effort.spend(text.len().saturating_mul(1 + pattern.kib)) {
            Ok(pattern.regex.is_match(text))
        } else {
            Err(failed("too much"))
        }
    }
}
