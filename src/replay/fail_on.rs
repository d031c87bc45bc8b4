//! Expressions of `--fail-on`, such as `newly_denied > 0.1% || newly_allowed > 0`. Pure.

use std::{cmp::Ordering, str::FromStr};

use thiserror::Error;

use super::report::{CallCounts, ReplayReport};

/// The condition of `--fail-on`.
#[derive(Debug, Clone)]
pub struct FailCondition {
    /// The expression as it was written.
    pub text: String,
    /// Comparisons that were read from the text.
    pub expression: FailOn,
}

impl FailCondition {
    /// Returns whether the report fails.
    pub fn holds(&self, report: &ReplayReport) -> bool {
        self.expression.holds(&report.counts, report.damaged.count)
    }
}

/// An expression over the counts of a report.
#[derive(Debug, Clone)]
pub enum FailOn {
    /// True if both are.
    And(Box<Self>, Box<Self>),
    /// True if one is.
    Or(Box<Self>, Box<Self>),
    /// A comparison of a count with a bound: true for some orders of them.
    Compare(Count, Relation, Bound),
}

/// Bound of a count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// A number of calls.
    Number(f64),
    /// A share of all calls, in percent.
    Percent(f64),
}

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

impl FailOn {
    /// Returns whether the expression holds.
    pub fn holds(&self, counts: &CallCounts, damaged: u64) -> bool {
        match self {
            Self::And(one, other) => one.holds(counts, damaged) && other.holds(counts, damaged),
            Self::Or(one, other) => one.holds(counts, damaged) || other.holds(counts, damaged),
            Self::Compare(count, relation, bound) => {
                let count = as_float(count(counts, damaged));
                let bound = match bound {
                    Bound::Number(number) => *number,
                    Bound::Percent(percent) => as_float(counts.calls) * percent / 100.0,
                };
                relation(count.total_cmp(&bound))
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of calls are below 2^53")]
const fn as_float(count: u64) -> f64 {
    count as f64
}

impl FromStr for FailOn {
    type Err = FailOnError;

    fn from_str(text: &str) -> Result<Self, FailOnError> {
        let mut parser = Parser {
            text,
            rest: text,
            depth: 0,
        };
        let expression = parser.any()?;
        parser.skip_space();
        if !parser.rest.is_empty() {
            return Err(parser.error("expected `&&`, `||` or the end"));
        }
        Ok(expression)
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<FailOn, FailOnError> {
        let mut expression = self.all()?;
        while self.take("||") {
            expression = FailOn::Or(Box::new(expression), Box::new(self.all()?));
        }
        Ok(expression)
    }

    fn all(&mut self) -> Result<FailOn, FailOnError> {
        let mut expression = self.comparison()?;
        while self.take("&&") {
            expression = FailOn::And(Box::new(expression), Box::new(self.comparison()?));
        }
        Ok(expression)
    }

    fn comparison(&mut self) -> Result<FailOn, FailOnError> {
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
        let name = self.name()?;
        let Some((_, relation)) = RELATIONS.iter().find(|(text, _)| self.take(text)) else {
            return Err(self.error("expected `<`, `<=`, `>`, `>=`, `==` or `!=`"));
        };
        Ok(FailOn::Compare(name, *relation, self.bound()?))
    }

    fn bound(&mut self) -> Result<Bound, FailOnError> {
        let number = self.number()?;
        if !self.take("%") {
            return Ok(Bound::Number(number));
        }
        if number > 100.0 {
            return Err(self.error("expected at most 100%"));
        }
        Ok(Bound::Percent(number))
    }

    fn name(&mut self) -> Result<Count, FailOnError> {
        let word = self.word(|char| char.is_ascii_alphabetic() || char == '_');
        let Some((_, count)) = COUNTS.iter().find(|(name, _)| *name == word) else {
            let names: Vec<&str> = COUNTS.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            return Err(self.error(&format!("expected one of {names}")));
        };
        self.advance(word.len());
        Ok(*count)
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
        text.parse::<FailOn>().unwrap().holds(&COUNTS, 3)
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
        let mistake = |text: &str| text.parse::<FailOn>().unwrap_err().to_string();

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
