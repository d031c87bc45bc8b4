//! Subjects that matchers match.

use super::*;

#[track_caller]
fn check(matcher: &str, subject: MatcherSubject<'_>, expected: bool) {
    let runs = Matcher::parse(matcher).0.matches(subject);
    assert_eq!(runs, expected, "{matcher:?} on {subject:?}");
}

#[track_caller]
fn check_warning(matcher: &str, expected: &str) {
    let warning = Matcher::parse(matcher).1.unwrap_or_default();
    assert_eq!(warning, expected);
}

#[test]
fn the_vectors_of_the_hook_protocol_hold() {
    check("write_*", MatcherSubject::Tool("write_file"), true); // G01
    check("read", MatcherSubject::Tool("read_file"), true); // G02
    check("write_file|replace", MatcherSubject::Tool("replace"), true); // G04
    check("*_file", MatcherSubject::Tool("read_file"), true); // G06
    check("write_*", MatcherSubject::Tool("overwrite"), true); // G08
    check(" * ", MatcherSubject::Tool("x"), true); // G09
    check(" read_file\t", MatcherSubject::Tool("read_file"), true);
    check("startup", MatcherSubject::Keyword("startup"), true); // G11
    check("start", MatcherSubject::Keyword("startup"), false); // G12
    check("Startup", MatcherSubject::Keyword("startup"), false); // G15
    check("anything", MatcherSubject::None, true); // G16, G17
}

#[test]
fn absent_empty_and_star_match_everything() {
    for matcher in ["", " ", "*", "\u{feff}*\t"] {
        check(matcher, MatcherSubject::Tool("x"), true);
        check(matcher, MatcherSubject::Keyword("x"), true);
        assert_eq!(Matcher::parse(matcher).1, None);
    }
}

#[test]
fn an_invalid_expression_is_a_glob_or_a_literal() {
    check("*_file", MatcherSubject::Tool("read_files"), false);
    check("r?ad(*", MatcherSubject::Tool("road(x)"), true);
    check("read(", MatcherSubject::Tool("read("), true);
    check("read(", MatcherSubject::Tool("read(x"), false);
    check("*", MatcherSubject::Keyword("x"), true);
    check_warning(
        "*_file",
        "matcher `*_file` is not a JavaScript regular expression (nothing to repeat), so it is a glob",
    );
    check_warning(
        "read(",
        "matcher `read(` is not a JavaScript regular expression (a group without an end), so it is \
         compared literally",
    );
}

#[test]
fn an_expression_that_cannot_be_compiled_matches_everything_with_a_warning() {
    check(r"(a)+\1", MatcherSubject::Tool("other"), true);
    let warning = Matcher::parse(r"(a)+\1").1.unwrap_or_default();
    assert!(warning.ends_with("so it matches everything"), "{warning}");
}

#[test]
fn an_expression_over_the_backtracking_limit_counts_as_a_match() {
    let name = format!("{}!", "a".repeat(100));
    check("^(?:a(?!b)|a(?!c))+$", MatcherSubject::Tool(&name), true);
}
