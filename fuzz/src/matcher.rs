//! Matchers: they never panic or hang, and a plain name matches exactly the subjects that contain
//! it. Input: a matcher and a subject, a line each.

use hookgate::{config::Matcher, event::MatcherSubject};

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let (pattern, subject) = text.split_once('\n').unwrap_or((text, "read_file"));
    if subject.len() > 256 {
        return;
    }
    let (matcher, warning) = Matcher::parse(pattern);
    let matches_tool = matcher.matches(MatcherSubject::Tool(subject));
    let matches_keyword = matcher.matches(MatcherSubject::Keyword(subject));
    assert!(matcher.matches(MatcherSubject::None));
    let is_name = |text: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    if is_name(pattern) {
        assert_eq!(
            matches_tool,
            subject.contains(pattern),
            "{pattern:?} {subject:?}"
        );
        assert_eq!(
            matches_keyword,
            subject == pattern,
            "{pattern:?} {subject:?}"
        );
        assert_eq!(warning, None);
    }
}
