//! The function `matches`: regular expressions, compiled once with their
//! condition. Matching takes time linear in the text, times the size of the
//! pattern in the worst case.

use std::collections::BTreeMap;

use cel::ExecutionError;
use regex::{Error, Regex, RegexBuilder};

use super::cost_budget::CostBudget;

/// Name of the function in conditions.
pub(super) const FUNCTION: &str = "matches";

/// Maximum size of a compiled pattern, in KiB.
const MAX_PATTERN_KIB: usize = 1024;

/// The patterns of a condition, by their text.
#[derive(Debug, Default)]
pub(super) struct PatternSet(BTreeMap<String, SizedRegex>);

#[derive(Debug)]
struct SizedRegex {
    regex: Regex,
    /// Compiled size, rounded up to a power of two.
    kib: usize,
}

impl PatternSet {
    /// Compiles a pattern, or returns the reason why it cannot be compiled.
    pub(super) fn add(&mut self, pattern: &str) -> Result<(), String> {
        let mut kib = 1;
        let regex = loop {
            match RegexBuilder::new(pattern).size_limit(kib << 10).build() {
                Err(Error::CompiledTooBig(_)) if kib < MAX_PATTERN_KIB => kib *= 2,
                built => break built,
            }
        };
        let regex = regex.map_err(|error| {
            let text = error.to_string();
            // The last line describes the error; those before it draw the pattern.
            let reason = text.lines().last().unwrap_or_default();
            reason.strip_prefix("error: ").unwrap_or(reason).to_owned()
        })?;
        self.0.insert(pattern.to_owned(), SizedRegex { regex, kib });
        Ok(())
    }

    /// Returns whether a text matches somewhere.
    pub(super) fn matches(
        &self,
        pattern: &str,
        text: &str,
        budget: &CostBudget,
    ) -> Result<bool, ExecutionError> {
        let failed = |reason| ExecutionError::function_error(FUNCTION, reason);
        let pattern = self.0.get(pattern).ok_or_else(|| failed("unknown"))?;
        if budget.spend(text.len().saturating_mul(1 + pattern.kib)) {
            Ok(pattern.regex.is_match(text))
        } else {
            Err(failed("cost budget exceeded"))
        }
    }
}
