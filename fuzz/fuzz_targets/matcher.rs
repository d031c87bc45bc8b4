//! A matcher and a subject, a line each: it never panics, never hangs, and what
//! is nothing but a name matches that name and none that it is no part of.

#![no_main]

use hookgate::{config::Matcher, event::MatcherSubject};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (written, subject) = text.split_once('\n').unwrap_or((text, "read_file"));
    if subject.len() > 256 {
        return;
    }
    let (matcher, warning) = Matcher::parse(written);
    let found = matcher.matches(MatcherSubject::Tool(subject));
    let is_word = matcher.matches(MatcherSubject::Keyword(subject));
    assert!(matcher.matches(MatcherSubject::None));
    let is_name = |it: &str| {
        !it.is_empty() && it.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
    };
    if is_name(written) {
        assert_eq!(found, subject.contains(written), "{written:?} {subject:?}");
        assert_eq!(is_word, subject == written, "{written:?} {subject:?}");
        assert_eq!(warning, None);
    }
});
