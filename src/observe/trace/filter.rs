//! Filters of the list of calls and of its live tail.
//!
//! A filter is a list of conditions `key:value`, all of which must hold. In a query string
//! each is a parameter of its own, or all are in `q`.

mod filter_words;

use thiserror::Error;
use url::form_urlencoded;

use crate::{
    dialect::Api,
    event::Action,
    observe::{
        recorder::ExchangeEnd,
        trace::{
            record::{
                CallRecord,
                traced_event::{RunDetail, TracedEvent, TracedRun},
            },
            store::denials::MIN_CUT_NAME_BYTES,
        },
    },
    timestamp::{self, rfc3339_ms},
};

/// Keys of conditions, with an explanation of each.
const FILTER_KEYS: &[(FilterKey, &str)] = &[
    (
        FilterKey::Caller,
        "name of the caller, or at least 8 digits of its key; empty for calls without authentication",
    ),
    (FilterKey::Session, "id of the session"),
    (FilterKey::Dialect, "model API, such as `anthropic`"),
    (FilterKey::Request, "request id"),
    (FilterKey::Model, "model that was requested or called"),
    (
        FilterKey::Verdict,
        "action on the call, or verdict on one of its events or tool calls, such as `deny`",
    ),
    (
        FilterKey::Since,
        "time such as `2026-11-24T08:00:00Z`, or a duration such as `15m`",
    ),
    (FilterKey::Rule, "name of a policy or hook that ran"),
    (
        FilterKey::Tool,
        "name of a tool that an event was about, or whose call was denied or would have been",
    ),
    (
        FilterKey::Would,
        "verdict that a rule in mode `observe` would have had, such as `deny`",
    ),
    (FilterKey::Edited, "`request`, `answer` or `any`"),
    (FilterKey::Error, "reason code of an error, or `any`"),
    (FilterKey::Ended, "end of the response, such as `truncated`"),
];

/// Digits of a caller's key that a filter must have.
const MIN_KEY_CHARS: usize = 8;

/// Verdicts of calls, events and observing rules.
const VERDICTS: &[&str] = &[
    "pass", "edit", "proceed", "ask", "respond", "deny", "stop", "error",
];

/// Conditions on records, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceFilter {
    conditions: Vec<(FilterKey, String)>,
    /// Milliseconds since 1970 of `since`.
    since_ms: u64,
}

named_enum! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum FilterKey {
        Caller = "caller",
        Session = "session",
        Dialect = "dialect",
        Request = "request",
        Model = "model",
        Verdict = "verdict",
        Since = "since",
        Rule = "rule",
        Tool = "tool",
        Would = "would",
        Edited = "edited",
        Error = "error",
        Ended = "ended",
    }
}

/// Error of parsing a filter of the live trace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FilterError {
    /// There is no condition of this name.
    #[error("unknown filter `{key}`; known are {}", keys())]
    UnknownKey {
        /// Name of the condition.
        key: String,
    },
    /// A word of `q` is not `key:value`.
    #[error("`{word}` is not a filter such as `verdict:deny`")]
    NoKey {
        /// The word as written.
        word: String,
    },
    /// A quote in `q` is not closed.
    #[error("a quote is not closed; a filter is such as `rule:\"no shell\"`")]
    OpenQuote,
    /// A word of `q` has a condition without a value.
    #[error("`{key}` has no value")]
    NoValue {
        /// Name of the condition.
        key: &'static str,
    },
    /// The value is none of those that the condition has.
    #[error("`{key}` must be {expected}, not `{value}`")]
    BadValue {
        /// Name of the condition.
        key: &'static str,
        /// Possible values of the condition.
        expected: String,
        /// The value as written.
        value: String,
    },
}

fn keys() -> String {
    let keys: Vec<&str> = filter_keys().map(|(key, _)| key).collect();
    keys.join(", ")
}

/// Returns the keys of conditions, with an explanation of each.
pub fn filter_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILTER_KEYS
        .iter()
        .map(|(key, meaning)| (key.as_str(), *meaning))
}

impl TraceFilter {
    /// Reads the filter of a query string. `others` are parameters of the page, which are
    /// skipped.
    ///
    /// # Errors
    ///
    /// If a parameter or a word of `q` is no condition.
    pub fn from_query(query: &str, others: &[&str]) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "q" => filter.add_words(&value)?,
                other if others.contains(&other) => (),
                // A form sends its empty fields, too.
                other if value.is_empty() && other != FilterKey::Caller.as_str() => (),
                key => filter.add(key, &value)?,
            }
        }
        Ok(filter)
    }

    /// Reads words such as `verdict:deny rule:"no shell"`.
    ///
    /// # Errors
    ///
    /// If a word is no condition.
    pub fn parse(words: &str) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        filter.add_words(words)?;
        Ok(filter)
    }

    /// Returns the conditions as keys and values.
    pub fn conditions(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.keyed().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the conditions, with keys that can be matched.
    pub(super) fn keyed(&self) -> impl Iterator<Item = (FilterKey, &str)> {
        let conditions = self.conditions.iter();
        conditions.map(|(key, value)| (*key, value.as_str()))
    }

    /// Returns the conditions as a query string, with durations as times.
    pub fn to_query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(self.conditions());
        query.finish()
    }

    /// Returns the conditions as words, which [`TraceFilter::parse`] reads.
    pub fn to_words(&self) -> String {
        let words = self.conditions().map(|(key, value)| {
            let is_special = |letter: char| letter.is_whitespace() || letter == '"';
            if value.contains(is_special) {
                let escaped = value.replace('\\', r"\\").replace('"', r#"\""#);
                format!("{key}:\"{escaped}\"")
            } else {
                format!("{key}:{value}")
            }
        });
        words.collect::<Vec<String>>().join(" ")
    }

    /// Returns whether a record meets all conditions.
    pub fn matches(&self, record: &CallRecord) -> bool {
        self.keyed()
            .all(|(key, value)| self.holds(key, value, record))
    }

    /// Returns whether no record that ended at this time or before can match.
    pub(crate) const fn excludes_before(&self, ended_ms: u64) -> bool {
        ended_ms < self.since_ms
    }

    /// Returns whether a value of `caller` is the name of a caller, or the begin of its key. A
    /// caller without authentication has neither.
    pub(crate) fn names_caller(value: &str, name: &str, key: &str) -> bool {
        if value.is_empty() {
            return name.is_empty() && key.is_empty();
        }
        is_name(name, value) || value.len() >= MIN_KEY_CHARS && is_prefix(key, value)
    }

    fn add_words(&mut self, words: &str) -> Result<(), FilterError> {
        for word in filter_words::split(words).ok_or(FilterError::OpenQuote)? {
            let Some((key, value)) = word.split_once(':') else {
                return Err(FilterError::NoKey { word });
            };
            self.add(key, value)?;
        }
        Ok(())
    }

    fn add(&mut self, key: &str, value: &str) -> Result<(), FilterError> {
        let Some(key) = FilterKey::parse(key) else {
            let key = key.to_owned();
            return Err(FilterError::UnknownKey { key });
        };
        if value.is_empty() && key != FilterKey::Caller {
            let key = key.as_str();
            return Err(FilterError::NoValue { key });
        }
        let bad = |expected: String| FilterError::BadValue {
            key: key.as_str(),
            expected,
            value: value.to_owned(),
        };
        let mut value = value.to_owned();
        match key {
            FilterKey::Verdict | FilterKey::Would if !VERDICTS.contains(&value.as_str()) => {
                return Err(bad(VERDICTS.join(", ")));
            }
            FilterKey::Dialect if Api::named(&value).is_none() => {
                return Err(bad(Api::ALL.map(Api::as_str).join(", ")));
            }
            FilterKey::Edited if !["request", "answer", "any"].contains(&value.as_str()) => {
                return Err(bad("request, answer, any".to_owned()));
            }
            FilterKey::Ended if !ExchangeEnd::ALL.iter().any(|end| end.as_str() == value) => {
                return Err(bad(ExchangeEnd::ALL.map(ExchangeEnd::as_str).join(", ")));
            }
            FilterKey::Since => {
                let expected = "a time such as 2026-11-24T08:00:00Z or a duration such as 15m";
                let since = parse_since(&value).ok_or_else(|| bad(expected.to_owned()))?;
                self.since_ms = self.since_ms.max(since);
                value = rfc3339_ms(since);
            }
            _ => (),
        }
        self.conditions.push((key, value));
        Ok(())
    }

    fn holds(&self, key: FilterKey, value: &str, record: &CallRecord) -> bool {
        let events = record.events().iter();
        match key {
            FilterKey::Caller => Self::names_caller(value, &record.caller, &record.caller_key),
            FilterKey::Session => *record.session == *value,
            FilterKey::Dialect => record.dialect == value,
            FilterKey::Request => *record.id == *value,
            FilterKey::Model => *record.model == *value || *record.requested_model == *value,
            FilterKey::Verdict => {
                record.action.as_str() == value
                    || value == Action::Deny.as_str() && record.has_denied_tools()
                    || events
                        .filter_map(|event| event.verdict)
                        .any(|verdict| verdict.as_str() == value)
            }
            FilterKey::Since => record.started_ms >= self.since_ms,
            FilterKey::Rule => any_run(events, |run, _| is_name(run.name(), value)),
            FilterKey::Tool => record.tools().iter().any(|tool| is_name(tool, value)),
            FilterKey::Would => any_run(events, |_, detail| {
                detail.would.is_some_and(|would| would.as_str() == value)
            }),
            FilterKey::Edited => match value {
                "request" => record.has_edited_request(),
                "answer" => record.has_edited_answer(),
                _ => {
                    record.has_edited_request()
                        || record.has_edited_answer()
                        || record.has_edited_event()
                }
            },
            FilterKey::Error => match record.error {
                Some(error) => value == "any" || error.eq_ignore_ascii_case(value),
                None => false,
            },
            FilterKey::Ended => record.end.as_str() == value,
        }
    }
}

impl FilterKey {
    fn parse(name: &str) -> Option<Self> {
        let mut keys = Self::ALL.into_iter();
        keys.find(|key| key.as_str() == name)
    }
}

fn any_run<'a>(
    mut events: impl Iterator<Item = &'a TracedEvent>,
    holds: impl Fn(&TracedRun, &RunDetail) -> bool,
) -> bool {
    events.any(|event| {
        let mut runs = event.rules.iter();
        runs.any(|run| run.asked().is_some_and(|detail| holds(run, detail)))
    })
}

/// Returns whether a value is a name, or the begin of one that the table of denials has cut.
fn is_name(name: &str, value: &str) -> bool {
    name == value || value.len() >= MIN_CUT_NAME_BYTES && name.starts_with(value)
}

/// Returns whether one of two prefixes of a key begins with the other.
fn is_prefix(stored: &str, value: &str) -> bool {
    !stored.is_empty() && (stored.starts_with(value) || value.starts_with(stored))
}

/// Reads a time, or a duration before now, as milliseconds since 1970.
fn parse_since(text: &str) -> Option<u64> {
    let since = timestamp::parse_since(text)?;
    u64::try_from(since.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_string_and_a_search_text_are_the_same_filter() {
        let query = "caller=ci&verdict=deny&rule=no+shell&cursor=7&edited=";
        let words = "caller:ci verdict:deny rule:\"no shell\"";

        let from_query = TraceFilter::from_query(query, &["cursor"]).unwrap();
        let in_q = format!("q={}", words.replace(' ', "%20"));

        assert_eq!(from_query, TraceFilter::parse(words).unwrap());
        assert_eq!(from_query, TraceFilter::from_query(&in_q, &[]).unwrap());
        assert_eq!(
            from_query.to_query(),
            "caller=ci&verdict=deny&rule=no+shell"
        );
    }

    #[test]
    fn a_filter_that_is_written_and_read_again_is_equal() {
        let filter = TraceFilter::parse("since:15m would:stop error:any").unwrap();

        let again = TraceFilter::from_query(&filter.to_query(), &[]).unwrap();

        assert_eq!(again, filter);
        assert!(filter.excludes_before(0));
    }

    #[test]
    fn words_of_a_filter_are_read_as_the_same_filter() {
        let names = [
            r#""$CLAUDE_PROJECT_DIR"/.claude/hooks/x.sh"#,
            r#"f="$(cat)"; echo 'not \"allowed\"' \\"#,
            r"C:\hooks\guard.exe",
            r"C:\my hooks\",
            "no shell",
        ];
        for name in names {
            let mut written = TraceFilter::default();
            written.add("rule", name).unwrap();

            let words = written.to_words();

            assert_eq!(TraceFilter::parse(&words).unwrap(), written, "{words}");
        }
    }

    #[test]
    fn an_invalid_filter_is_refused_with_the_valid_ones() {
        let wrong = [
            (
                "colour:red",
                "unknown filter `colour`; known are caller, session",
            ),
            ("deny", "`deny` is not a filter such as `verdict:deny`"),
            ("session:", "`session` has no value"),
            ("rule:\"a b", "a quote is not closed; a filter is such as"),
            ("rule:\"\"", "`rule` has no value"),
            ("verdict:maybe", "`verdict` must be pass, edit, proceed"),
            (
                "dialect:grok",
                "`dialect` must be gemini, vertex, code_assist, anthropic, openai_responses",
            ),
            ("edited:yes", "`edited` must be request, answer, any"),
            ("since:yesterday", "`since` must be a time such as"),
        ];

        for (words, message) in wrong {
            let error = TraceFilter::parse(words).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn a_long_name_is_found_by_what_the_table_of_denials_keeps_of_it() {
        let name = "jwt:spiffe://example.org/".to_owned() + &"ä".repeat(40);
        let (cut, _) = name.split_at(name.floor_char_boundary(64));

        assert!(TraceFilter::names_caller(cut, &name, ""));
        assert!(TraceFilter::names_caller(&name, &name, ""));
        assert!(!TraceFilter::names_caller("jwt:spiffe", &name, ""));
        assert!(!TraceFilter::names_caller(&name, cut, ""));
    }
}
