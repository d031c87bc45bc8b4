//! Subjects that matchers match. The results of JavaScript are those of Node.

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
fn words_are_matched_as_a_whole() {
    check("startup|resume", MatcherSubject::Keyword("resume"), true);
    check("startup|resume", MatcherSubject::Keyword("resumed"), false);
    check("a|ab", MatcherSubject::Keyword("ab"), true);
    check("exit$", MatcherSubject::Keyword("exit"), true);
}

#[test]
fn constructs_mean_what_they_mean_in_javascript() {
    let cases = [
        ("^(?!read_).*", "write_file", true),
        ("^(?!read_).*", "read_file", false),
        ("(?<=mcp_)git", "mcp_git_push", true),
        ("(?<!mcp_)git", "mcp_git_push", false),
        (r"(\w+)_\1", "a_a", true),
        (r"(\w+)_\1", "a_b", false),
        (r"(?<verb>get|set)-\k<verb>", "get-get", true),
        (r"(?<verb>get|set)-\k<verb>", "get-set", false),
        (r"^\d+$", "١", false),
        (r"^\w+$", "é", false),
        (r"^\s$", "\u{a0}", true),
        (r"\bfile\b", "éfileé", true),
        (r"\bfile\b", "read_file", false),
        ("a.c", "a\u{2028}c", false),
        ("x$", "x\n", false),
        ("[^]", "\n", true),
        ("[]", "x", false),
        ("[[]x", "[x", true),
        ("[a&&b]", "&", true),
        (r"[\w-.]", "-", true),
        (r"[\b]", "\u{8}", true),
        (r"a\/b", "a/b", true),
        (r"\u0061\x62\cA", "ab\u{1}", true),
        (r"\ud83d\ude00", "😀", true),
        (r"\101\0", "A\0", true),
        (r"\u{2}", "uu", true),
        (r"\p{L}", "é", false),
        (r"\p{L}", "p{L}", true),
        (r"\A\Z\z\e\h\Q", "AZzehQ", true),
        ("x{,2}", "x{,2}", true),
        ("a{", "a{", true),
        ("]}", "]}", true),
        ("(?=a)*b", "b", true),
        ("(?:)+", "", true),
        ("#x y", "#x y", true),
    ];
    for (matcher, name, expected) in cases {
        check(matcher, MatcherSubject::Tool(name), expected);
        assert_eq!(Matcher::parse(matcher).1, None, "{matcher:?}");
    }
}

#[test]
fn flags_of_a_group_are_understood() {
    check("(?i:write)_file", MatcherSubject::Tool("WRITE_file"), true);
    check("(?i:write)_file", MatcherSubject::Tool("WRITE_FILE"), false);
    check("(?i:a(?-i:b))", MatcherSubject::Tool("AB"), false);
    check("(?s:a.b)", MatcherSubject::Tool("a\nb"), true);
    check("(?m:^b$)", MatcherSubject::Tool("a\nb\nc"), true);
}

#[test]
fn what_is_no_expression_is_a_glob_or_a_literal() {
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
fn javascript_refuses_what_other_engines_know() {
    let others = [
        "(?i)x", "(?>a)", "(?P<n>a)", "(?#c)", "a*+", "a++", "*a", "a**", "{1}",
    ];
    let broken = [
        "(", ")", "[", "a\\", "[z-a]", "a{2,1}", "^*", r"\b+", "(?<=a)*", "(?<1>a)",
    ];
    let unnamed = [
        r"(?<n>a)\k",
        r"(?<n>a)\k<m>",
        r"(?<n>a)[\k]",
        "(?<>a)",
        "(?<n",
        "(?-:a)",
    ];
    for matcher in others.iter().chain(&broken).chain(&unnamed) {
        let warning = Matcher::parse(matcher).1.unwrap_or_default();
        assert!(
            warning.contains("is not a JavaScript"),
            "{matcher:?}: {warning}"
        );
    }
}

#[test]
fn what_cannot_be_compiled_matches_everything_and_says_so() {
    let deep = format!("{}a{}", "(".repeat(60), ")".repeat(60));
    let matchers = [
        r"(a)+\1",
        r"(?=(a))\1",
        r"(?<=\bx)y",
        r"\ud83d",
        "a{1001}",
        deep.as_str(),
    ];
    for matcher in matchers {
        check(matcher, MatcherSubject::Tool("other"), true);
        let warning = Matcher::parse(matcher).1.unwrap_or_default();
        assert!(warning.ends_with("so it matches everything"), "{warning}");
    }
}

#[test]
fn an_expression_that_blows_up_ends_soon_and_counts_as_a_match() {
    let name = format!("{}!", "a".repeat(100));
    check("^(?:a(?!b)|a(?!c))+$", MatcherSubject::Tool(&name), true);
}
