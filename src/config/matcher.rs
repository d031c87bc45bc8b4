//! Matchers: select the subjects on which a group's hooks run (hook protocol,
//! section 5).

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::event::MatcherSubject;

/// A compiled matcher of a group of hooks. The default matches everything.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Matcher {
    text: String,
    rule: Rule,
}

#[derive(Debug, Clone, Default)]
enum Rule {
    #[default]
    All,
    Pattern(js_regex::Regex),
    Glob(Regex),
    Exact,
}

/// Maximum number of backtracking steps of a match. Names of tools are short, so more
/// steps mean an expression with exponential cost.
const BACKTRACK_LIMIT: usize = 100_000;

impl Matcher {
    /// Checks whether the matcher was written to match everything.
    pub const fn is_all(&self) -> bool {
        matches!(self.rule, Rule::All)
    }

    /// Checks whether an alternative of an expression begins or ends with a blank.
    pub(crate) fn has_blank_alternative(&self) -> bool {
        let is_alternation = matches!(self.rule, Rule::Pattern(_)) && !self.text.contains('[');
        let mut alternatives = self.text.split('|');
        is_alternation && alternatives.any(|alternative| alternative.trim() != alternative)
    }

    /// Checks whether it is a permission rule of Claude Code, such as `Bash(rm *)`.
    pub(crate) fn is_permission_rule(&self) -> bool {
        let rule = self.text.strip_suffix(')');
        let Some((tool, specifier)) = rule.and_then(|rule| rule.split_once('(')) else {
            return false;
        };
        let is_name = |char: char| char.is_alphanumeric() || char == '_';
        !tool.is_empty()
            && tool.chars().all(is_name)
            && specifier.contains([' ', ':', '/'])
            && !specifier.contains(['?', '['])
    }

    /// Parses `text` as a JavaScript regular expression. Never fails: an invalid one is
    /// a glob or a literal. A valid one that cannot be translated matches everything,
    /// since a guard that runs too often is safer than one that never runs. Both
    /// return a warning.
    pub fn parse(text: &str) -> (Self, Option<String>) {
        let text = text.trim_matches(|char: char| char.is_whitespace() || char == '\u{feff}');
        let (rule, warning) = match text {
            "" | "*" => (Rule::All, None),
            text => parse_rule(text),
        };
        let warning = warning.map(|warning| format!("matcher `{text}` {warning}"));
        let text = text.to_owned();
        (Self { text, rule }, warning)
    }

    /// Checks whether hooks run on `subject`. A match that exceeds the backtracking limit
    /// counts as one, so that no guard is skipped.
    pub fn matches(&self, subject: MatcherSubject<'_>) -> bool {
        match (subject, &self.rule) {
            (MatcherSubject::None, _) | (_, Rule::All) => true,
            (MatcherSubject::Tool(name), Rule::Pattern(pattern)) => {
                pattern.is_match(name).unwrap_or(true)
            }
            (MatcherSubject::Keyword(word), Rule::Pattern(pattern)) => {
                pattern.is_full_match(word).unwrap_or(true)
            }
            (MatcherSubject::Tool(text) | MatcherSubject::Keyword(text), Rule::Glob(glob)) => {
                glob.is_match(text)
            }
            (MatcherSubject::Tool(text) | MatcherSubject::Keyword(text), Rule::Exact) => {
                text == self.text
            }
        }
    }
}

impl From<String> for Matcher {
    fn from(text: String) -> Self {
        Self::parse(&text).0
    }
}

impl From<Matcher> for String {
    fn from(matcher: Matcher) -> Self {
        matcher.text
    }
}

fn parse_rule(text: &str) -> (Rule, Option<String>) {
    match js_regex::Regex::new(text, BACKTRACK_LIMIT) {
        Ok(pattern) => (Rule::Pattern(pattern), None),
        Err(js_regex::Error::Unsupported(why)) => {
            let warning = format!("is not supported ({why}), so it matches everything");
            (Rule::All, Some(warning))
        }
        Err(js_regex::Error::Invalid(why)) => {
            let (rule, treated) = match text.contains(['*', '?']).then(|| glob(text)) {
                Some(Ok(glob)) => (Rule::Glob(glob), "is a glob"),
                Some(Err(_)) | None => (Rule::Exact, "is compared literally"),
            };
            let warning =
                format!("is not a JavaScript regular expression ({why}), so it {treated}");
            (rule, Some(warning))
        }
    }
}

/// Compiles a glob: `*` is any text, `?` any one character, and the whole subject must
/// match.
fn glob(text: &str) -> Result<Regex, regex::Error> {
    let pattern = regex::escape(text).replace(r"\*", ".*").replace(r"\?", ".");
    Regex::new(&format!(r"(?s)\A{pattern}\z"))
}

#[cfg(test)]
mod tests;
