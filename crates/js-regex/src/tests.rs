//! Matches of translated patterns. The expected results are those of Node.js.

use super::*;

const LIMIT: usize = 100_000;

#[track_caller]
fn check(pattern: &str, text: &str, expected: bool) {
    let found = Regex::new(pattern, LIMIT).map(|regex| regex.is_match(text));
    assert_eq!(found.unwrap(), Some(expected), "{pattern:?} on {text:?}");
}

#[test]
fn syntax_has_its_meaning_in_javascript() {
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
    for (pattern, text, expected) in cases {
        check(pattern, text, expected);
    }
}

#[test]
fn flags_of_a_group_are_supported() {
    check("(?i:write)_file", "WRITE_file", true);
    check("(?i:write)_file", "WRITE_FILE", false);
    check("(?i:a(?-i:b))", "AB", false);
    check("(?s:a.b)", "a\nb", true);
    check("(?m:^b$)", "a\nb\nc", true);
}

#[test]
fn a_full_match_covers_the_whole_text() {
    let full = |pattern, text| Regex::new(pattern, LIMIT).unwrap().is_full_match(text);

    assert_eq!(full("a|ab", "ab"), Some(true));
    assert_eq!(full("startup|resume", "resumed"), Some(false));
    assert_eq!(full("exit$", "exit"), Some(true));
}

#[test]
fn patterns_that_javascript_refuses_are_invalid() {
    let other_engines = [
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
    for pattern in other_engines.iter().chain(&broken).chain(&unnamed) {
        let error = Regex::new(pattern, LIMIT).err();
        assert!(
            matches!(error, Some(Error::Invalid(_))),
            "{pattern:?}: {error:?}"
        );
    }
}

#[test]
fn patterns_that_cannot_be_translated_are_unsupported() {
    let deep = format!("{}a{}", "(".repeat(60), ")".repeat(60));
    let patterns = [
        r"(a)+\1",
        r"(?=(a))\1",
        r"(?<=\bx)y",
        r"\ud83d",
        "a{1001}",
        deep.as_str(),
    ];
    for pattern in patterns {
        let error = Regex::new(pattern, LIMIT).err();
        assert!(
            matches!(error, Some(Error::Unsupported(_))),
            "{pattern:?}: {error:?}"
        );
    }
}

#[test]
fn a_match_beyond_the_backtracking_limit_is_unknown() {
    let regex = Regex::new("^(?:a(?!b)|a(?!c))+$", LIMIT).unwrap();

    assert_eq!(regex.is_match(&format!("{}!", "a".repeat(100))), None);
}
