//! Which subjects a group's hooks run on (hook protocol, section 5).

mod javascript;

use std::fmt;

use fancy_regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use self::javascript::{Fault, translate};
use crate::event::MatcherSubject;

/// A compiled matcher.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Matcher {
    text: String,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    All,
    Pattern {
        /// Found anywhere in the subject.
        anywhere: Regex,
        /// Matching the whole of it.
        whole: Regex,
    },
    Glob(Regex),
    Exact,
}

/// Steps of backtracking after which a match is given up. A tool's name is
/// short; whoever needs more has an expression that blows up.
const BACKTRACK_LIMIT: usize = 100_000;

impl Matcher {
    /// The matcher that matches everything.
    pub const fn all() -> Self {
        Self {
            text: String::new(),
            rule: Rule::All,
        }
    }

    /// Whether it was written to match everything.
    pub const fn is_all(&self) -> bool {
        matches!(self.rule, Rule::All)
    }

    /// Parses `text` as a JavaScript regular expression. Never fails: text that
    /// is none is a glob or a literal, and a valid one that cannot be compiled
    /// here matches everything, since a guard had better run too often than
    /// never. Both come with a warning.
    pub fn parse(text: &str) -> (Self, Option<String>) {
        let text = text.trim_matches(|it: char| it.is_whitespace() || it == '\u{feff}');
        let (rule, warning) = match text {
            "" | "*" => (Rule::All, None),
            text => parse_rule(text),
        };
        let warning = warning.map(|it| format!("matcher `{text}` {it}"));
        let text = text.to_owned();
        (Self { text, rule }, warning)
    }

    /// Whether hooks run on `subject`. A match that takes too long counts: a
    /// guard must run rather than be skipped.
    pub fn matches(&self, subject: MatcherSubject<'_>) -> bool {
        match (subject, &self.rule) {
            (MatcherSubject::None, _) | (_, Rule::All) => true,
            (MatcherSubject::Tool(name), Rule::Pattern { anywhere, .. }) => finds(anywhere, name),
            (MatcherSubject::Keyword(word), Rule::Pattern { whole, .. }) => finds(whole, word),
            (MatcherSubject::Tool(text) | MatcherSubject::Keyword(text), Rule::Glob(glob)) => {
                finds(glob, text)
            }
            (MatcherSubject::Tool(text) | MatcherSubject::Keyword(text), Rule::Exact) => {
                text == self.text
            }
        }
    }
}

impl Default for Matcher {
    fn default() -> Self {
        Self::all()
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

/// Shows the matcher as it was written, without blanks around it.
impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn parse_rule(text: &str) -> (Rule, Option<String>) {
    let compiled = translate(text).and_then(|pattern| {
        let whole = compile(&format!(r"\A(?:{pattern})\z"));
        match (compile(&pattern), whole) {
            (Ok(anywhere), Ok(whole)) => Ok(Rule::Pattern { anywhere, whole }),
            (Err(why), _) | (_, Err(why)) => Err(Fault::Unsupported(why)),
        }
    });
    match compiled {
        Ok(rule) => (rule, None),
        Err(Fault::Unsupported(why)) => {
            let warning = format!("cannot be used here ({why}), so it matches everything");
            (Rule::All, Some(warning))
        }
        Err(Fault::Invalid(why)) => {
            let (rule, treated) = match text.contains(['*', '?']).then(|| glob(text)) {
                Some(Ok(glob)) => (Rule::Glob(glob), "is a glob"),
                Some(Err(_)) | None => (Rule::Exact, "is compared literally"),
            };
            let warning = format!("is no JavaScript regular expression ({why}), so it {treated}");
            (rule, Some(warning))
        }
    }
}

fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .backtrack_limit(BACKTRACK_LIMIT)
        .build()
        .map_err(|error| error.to_string())
}

/// `*` is any text, `?` any one character, and the whole subject must match.
fn glob(text: &str) -> Result<Regex, String> {
    let mut pattern = String::from(r"(?s)\A");
    for char in text.chars() {
        match char {
            '*' => pattern.push_str(".*"),
            '?' => pattern.push('.'),
            char => javascript::push_literal(char, &mut pattern),
        }
    }
    pattern.push_str(r"\z");
    compile(&pattern)
}

fn finds(pattern: &Regex, text: &str) -> bool {
    pattern.is_match(text).unwrap_or(true)
}

#[cfg(test)]
mod tests;
