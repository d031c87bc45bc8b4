//! Expressions of `--fail-on`, such as `newly_denied > 0.1% || newly_allowed > 0`. Pure.

use std::{cmp::Ordering, str::FromStr};

use thiserror::Error;

use super::report::{CallCounts, ReplayReport};

/// The condition of `--fail-on`: a valid expression over the counts of a report.
#[derive(Debug, Clone)]
pub struct FailCondition(String);

/// A mistake in an expression.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("at {position}: {message}")]
pub struct FailOnError {
    /// Number of the character, from 1.
    pub position: usize,
    /// Reason why the text is no expression.
    pub message: String,
}

/// Count of a report. Parts that are damaged are counted apart.
type Count = fn(&CallCounts, damaged: u64) -> u64;

const COUNTS: &[(&str, Count)] = &[
    ("newly_denied", |counts, _| counts.newly_denied),
    ("newly_allowed", |counts, _| counts.newly_allowed),
    ("edited", |counts, _| counts.edited),
    ("unknown", |counts, _| counts.unknown),
    ("unchanged", |counts, _| counts.unchanged),
    ("stale", |counts, _| counts.stale),
    ("masked", |counts, _| counts.masked),
    ("calls", |counts, _| counts.calls),
    ("damaged", |_, damaged| damaged),
];

/// Relation of a count and a bound, by their order.
type Relation = fn(Ordering) -> bool;

/// Longer relations first, because shorter ones are their prefixes.
const RELATIONS: &[(&str, Relation)] = &[
    ("<=", Ordering::is_le),
    (">=", Ordering::is_ge),
    ("==", Ordering::is_eq),
    ("!=", Ordering::is_ne),
    ("<", Ordering::is_lt),
    (">", Ordering::is_gt),
];

/// Deepest nesting of parentheses.
const MAX_DEPTH: usize = 16;

impl FailCondition {
    /// Returns the expression as it was written.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns whether the report fails.
    pub fn holds(&self, report: &ReplayReport) -> bool {
        evaluate(&self.0, &report.counts, report.damaged.count) == Ok(true)
    }
}

impl FromStr for FailCondition {
    type Err = FailOnError;

    fn from_str(text: &str) -> Result<Self, FailOnError> {
        evaluate(text, &CallCounts::default(), 0)?;
        Ok(Self(text.to_owned()))
    }
}

/// Returns whether an expression holds. Mistakes do not depend on the counts.
fn evaluate(text: &str, counts: &CallCounts, damaged: u64) -> Result<bool, FailOnError> {
    let mut parser = Parser {
        counts,
        damaged,
        text,
        rest: text,
        depth: 0,
    };
    let holds = parser.any()?;
    parser.skip_space();
    if !parser.rest.is_empty() {
        return Err(parser.error("expected `&&`, `||` or the end"));
    }
    Ok(holds)
}

#[expect(clippy::cast_precision_loss, reason = "counts of calls are below 2^53")]
const fn as_float(count: u64) -> f64 {
    count as f64
}

/// Parser of an expression, which evaluates it at once. It reads both operands also where one is
/// enough.
struct Parser<'a> {
    counts: &'a CallCounts,
    damaged: u64,
    text: &'a str,
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<bool, FailOnError> {
        let mut holds = self.all()?;
        while self.take("||") {
            holds |= self.all()?;
        }
        Ok(holds)
    }

    fn all(&mut self) -> Result<bool, FailOnError> {
        let mut holds = self.comparison()?;
        while self.take("&&") {
            holds &= self.comparison()?;
        }
        Ok(holds)
    }

    fn comparison(&mut self) -> Result<bool, FailOnError> {
        if self.take("(") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(self.error("too many parentheses"));
            }
            let inner = self.any()?;
            self.depth -= 1;
            if !self.take(")") {
                return Err(self.error("expected `)`"));
            }
            return Ok(inner);
        }
        let count = self.count()?;
        let Some((_, relation)) = RELATIONS.iter().find(|(text, _)| self.take(text)) else {
            return Err(self.error("expected `<`, `<=`, `>`, `>=`, `==` or `!=`"));
        };
        Ok(relation(as_float(count).total_cmp(&self.bound()?)))
    }

    fn bound(&mut self) -> Result<f64, FailOnError> {
        let number = self.number()?;
        if !self.take("%") {
            return Ok(number);
        }
        if number > 100.0 {
            return Err(self.error("expected at most 100%"));
        }
        Ok(as_float(self.counts.calls) * number / 100.0)
    }

    fn count(&mut self) -> Result<u64, FailOnError> {
        let word = self.word(|char| char.is_ascii_alphabetic() || char == '_');
        let Some((_, count)) = COUNTS.iter().find(|(name, _)| *name == word) else {
            let names: Vec<&str> = COUNTS.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            return Err(self.error(&format!("expected one of {names}")));
        };
        self.advance(word.len());
        Ok(count(self.counts, self.damaged))
    }

    fn number(&mut self) -> Result<f64, FailOnError> {
        let word = self.word(|char| char.is_ascii_digit() || char == '.');
        let number = word.parse();
        let number = number.map_err(|_| self.error("expected a number"))?;
        self.advance(word.len());
        Ok(number)
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        self.skip_space();
        let end = self.rest.find(|char| !belongs(char));
        self.rest
            .get(..end.unwrap_or(self.rest.len()))
            .unwrap_or_default()
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest.starts_with(token);
        if found {
            self.advance(token.len());
        }
        found
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn error(&self, message: &str) -> FailOnError {
        let read = self.text.len() - self.rest.len();
        let read = self.text.get(..read).unwrap_or_default();
        FailOnError {
            position: read.chars().count() + 1,
            message: message.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: CallCounts = CallCounts {
        calls: 1000,
        newly_denied: 2,
        newly_allowed: 0,
        edited: 10,
        unchanged: 987,
        unknown: 1,
        stale: 0,
        masked: 0,
    };

    fn holds(text: &str) -> bool {
        evaluate(text, &COUNTS, 3).unwrap()
    }

    #[test]
    fn counts_are_compared_with_numbers_and_shares() {
        for text in [
            "newly_denied > 0.1% || newly_allowed > 0",
            "edited >= 1%",
            "damaged == 3 && unknown != 0",
            "(newly_allowed > 0 || edited<=10) && calls>=1000",
            "unchanged < 99%&&stale<1",
            "newly_allowed > 0 && edited > 0 || unknown == 1",
        ] {
            assert!(holds(text), "{text}");
        }
        for text in [
            "newly_denied > 0.2%",
            "newly_allowed > 0 && edited > 0",
            "damaged > 3",
        ] {
            assert!(!holds(text), "{text}");
        }
    }

    #[test]
    fn an_error_is_reported_with_its_position() {
        let mistake = |text: &str| text.parse::<FailCondition>().unwrap_err().to_string();

        assert!(mistake("newly_refused > 0").starts_with("at 1: expected one of newly_denied, "));
        assert_eq!(mistake("edited > "), "at 10: expected a number");
        assert_eq!(
            mistake("edited 3"),
            "at 8: expected `<`, `<=`, `>`, `>=`, `==` or `!=`"
        );
        assert_eq!(
            mistake("edited > 3 unknown"),
            "at 12: expected `&&`, `||` or the end"
        );
        assert_eq!(mistake("(edited > 3"), "at 12: expected `)`");
        assert_eq!(mistake("edited > 101%"), "at 14: expected at most 100%");
        assert_eq!(mistake(&"(".repeat(99)), "at 18: too many parentheses");
    }
}
