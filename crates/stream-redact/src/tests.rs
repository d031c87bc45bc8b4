mod properties;
mod reference;
mod samples;

use self::samples::{AWS_SECRET, HARMLESS, PEM, secrets};
use super::*;

/// Returns a mask with every detector.
fn every_detector() -> Mask {
    let names: Vec<&str> = DETECTORS.iter().map(|detector| detector.name).collect();
    Mask::new(&names, &[], &Style::Label).unwrap()
}

fn shown(mask: &Mask, text: &str) -> String {
    mask.mask(text)
        .map_or(text.to_owned(), |masked| masked.text)
}

#[test]
fn two_texts_are_joined_if_a_secret_is_in_both() {
    let mask = every_detector();
    let joins = |text: &str, rest: &str, next: &str| {
        let mut stream = mask.stream();
        stream.push(text);
        let [open, complete] = [false, true].map(|is_complete| {
            let text = next;
            stream.joins(rest, NextText { text, is_complete })
        });
        assert_eq!(complete, open.or(Some(false)), "{text}{rest}|{next}");
        open
    };
    for (text, next, joined) in [
        ("key AKIAIOSF", "ODNN7EXAMPLE, ok", Some(true)),
        ("key AKIAIOSF", "OD", None),
        ("key AKIAIOSF", "OD, ok", Some(false)),
        ("postgres://app:", "hunter2@db.example.com/x", Some(true)),
        ("key AKIAIOSFODNN7EXAMPLE", "2, ok", Some(false)),
        ("key AKIAIOSFODNN7EXAMPLE", ", ok", Some(false)),
        ("jo@example.com", "pany.org,", Some(true)),
        ("The key", "AKIAIOSFODNN7EXAMPLE", None),
        ("The key", "AKIAIOSFODNN7EXAMPLE ok", Some(false)),
        ("see you", " at noon", Some(false)),
        ("see you", "", None),
    ] {
        assert_eq!(joins(text, "", next), joined, "{text}|{next}");
        let (text, rest) = text.split_at(text.len() - 3);
        assert_eq!(joins(text, rest, next), joined, "{text}{rest}|{next}");
    }
}

#[test]
fn texts_of_a_stream_are_searched_each_by_itself_and_as_one() {
    let mask = every_detector();
    for (texts, masked) in [
        (
            ["The key", "AKIAIOSFODNN7EXAMPLE"],
            "The key[REDACTED:aws_key]",
        ),
        (["AKIAIOSFODNN7EXAMPLE", "Done"], "[REDACTED:aws_key]Done"),
        (["AKIAIOSF", "ODNN7EXAMPLE ok"], "[REDACTED:aws_key] ok"),
        (["a@b.co", "m@x.org"], "[REDACTED:email]"),
        (["id 7", "4111111111111111 ok"], "id 7[REDACTED:card] ok"),
    ] {
        let mut stream = mask.stream();
        let mut out = stream.push(texts[0]);
        stream.end_text();
        out += &stream.push(texts[1]);
        out += &stream.finish();
        assert_eq!(out, masked, "{texts:?}");
    }
}

#[test]
fn each_detector_finds_its_secrets_at_any_position() {
    let around = [
        ("", ""),
        (" ", " "),
        ("\"", "\""),
        ("key=", ""),
        ("key: ", "\n"),
        ("\\n", "\\n"),
        ("(", ")"),
        ("é", "é"),
        ("密钥：", "。"),
        ("\\u003c", "\\u003e"),
        ("%3D", "&b=1"),
        ("?n=%20", "%20"),
        ("\"card\":%22", "%22"),
        ("\\x20", "\\x20"),
        ("{\\\"n\\\":\\u0020", "\\u007d"),
        ("\\\\u0022", "\\\\u0022"),
        ("`", "`,"),
        ("=", ";"),
        ("a\n", "\r\n"),
    ];
    let mut missed = Vec::new();
    for name in DETECTORS.iter().map(|detector| detector.name) {
        let mask = Mask::new(&[name], &[], &Style::Label).unwrap();
        let all = secrets();
        let own = all.iter().filter(|secret| secret.0 == name);
        let placed = own.flat_map(|secret| around.map(|around| (secret, around)));
        for ((_, secret), (before, after)) in placed {
            let masked = shown(&mask, &format!("{before}{secret}{after}"));
            if masked != format!("{before}[REDACTED:{name}]{after}") {
                missed.push(format!("{name}: {before}{secret}{after} became {masked}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_secret_has_its_label_if_all_detectors_are_enabled() {
    let mask = every_detector();
    let labelled = |(name, secret): &(&str, String)| {
        let found = mask.mask(&format!("a {secret} b"));
        let found = found.map_or(String::new(), |masked| masked.text);
        (found != format!("a [REDACTED:{name}] b")).then(|| format!("{secret}: {found}"))
    };
    let wrong: Vec<String> = secrets().iter().filter_map(labelled).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn text_that_resembles_a_secret_is_unchanged() {
    let mask = every_detector();
    let mut wrong = Vec::new();
    for text in HARMLESS {
        for text in [
            (*text).to_owned(),
            format!("a {text} b"),
            format!("\"{text}\"\n"),
        ] {
            if let Some(masked) = mask.mask(&text) {
                wrong.push(format!("{text:?} became {:?}", masked.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[track_caller]
fn check(mask: &Mask, text: &str, expected: &str) {
    assert_eq!(shown(mask, text), expected);
}

#[test]
fn only_the_secret_of_an_assignment_is_masked() {
    let mask = every_detector();
    for (before, after) in [
        ("aws_secret_access_key = ", "\n"),
        ("AWS_SECRET_ACCESS_KEY=", ""),
        ("\"SecretAccessKey\": \"", "\","),
        ("{\\\"secretAccessKey\\\":\\\"", "\\\"}"),
        ("awsSecretKey => '", "'"),
    ] {
        check(
            &mask,
            &format!("{before}{AWS_SECRET}{after}"),
            &format!("{before}[REDACTED:aws_key]{after}"),
        );
    }
    check(
        &mask,
        "postgres://app:s3cr3t!@db.example.com/x",
        "postgres://app:[REDACTED:url_password]@db.example.com/x",
    );
    check(
        &mask,
        "redis://:pw@host",
        "redis://:[REDACTED:url_password]@host",
    );
}

#[test]
fn an_address_behind_a_url_without_a_path_is_masked() {
    let mask = every_detector();
    for before in [
        "https://acme.com,",
        "|https://acme.com|",
        "[a](https://acme.com),",
        "https://app.example.org?email=",
        "https://app.example.org#",
        "{https://acme.com};",
        "[https://acme.com]",
        "https://acme.com\\",
    ] {
        check(
            &mask,
            &format!("{before}ann@corp.com,x"),
            &format!("{before}[REDACTED:email],x"),
        );
    }
}

#[test]
fn a_password_that_begins_like_a_placeholder_is_masked() {
    let mask = Mask::new(&["url_password"], &[], &Style::Label).unwrap();
    for password in [
        "$3cretPw9",
        "*9secretPw",
        "[3cretPw9",
        "{3cretPw9",
        "$3CRET",
        "${PASSWORD}9",
    ] {
        check(
            &mask,
            &format!("postgres://app:{password}@db.example.com/x"),
            "postgres://app:[REDACTED:url_password]@db.example.com/x",
        );
    }
}

#[test]
fn adjacent_secrets_have_one_label_each() {
    let mask = every_detector();
    let (key, mail) = ("AKIAIOSFODNN7EXAMPLE", "john@example.com");
    check(
        &mask,
        &format!("{key},{mail} {key}"),
        "[REDACTED:aws_key],[REDACTED:email] [REDACTED:aws_key]",
    );
    let mask = Mask::new(&[], &[("a", "a+"), ("b", "b+")], &Style::Label).unwrap();
    assert_eq!(
        shown(&mask, "aabbcab"),
        "[REDACTED:a][REDACTED:b]c[REDACTED:a][REDACTED:b]"
    );
}

#[test]
fn overlapping_secrets_have_one_label() {
    let mask = every_detector();
    check(
        &mask,
        &PEM.replace("MIIB", "Comment: john@example.com"),
        "[REDACTED:private_key]",
    );
    check(
        &mask,
        "AKIAIOSFODNN7EXAMPLE@example.com",
        "[REDACTED:email]",
    );
    let mask = Mask::new(&[], &[("x", "abc+"), ("y", "cd")], &Style::Label).unwrap();
    let masked = mask.mask("abccdcd").unwrap();
    assert_eq!(masked.text, "[REDACTED:x][REDACTED:y]");
    assert_eq!(masked.detectors, ["x".into(), "y".into()]);
}

#[test]
fn a_match_that_begins_within_a_rejected_match_is_found() {
    let mask = every_detector();
    check(&mask, "1111 4111 1111 1111 1111", "1111 [REDACTED:card]");
    check(&mask, "a@b@example.com", "a@[REDACTED:email]");
    check(
        &mask,
        "sk-ant-sk-proj-abc_DEF-0123456789ghijklmnopqrst",
        "[REDACTED:anthropic_key]",
    );
}

#[test]
fn escape_sequences_are_not_split() {
    let mask = every_detector();
    check(&mask, "x\\njohn@example.com", "x\\n[REDACTED:email]");
    check(
        &mask,
        "\\u003cjohn@example.com\\u003e",
        "\\u003c[REDACTED:email]\\u003e",
    );
    check(&mask, "to=%20john@example.com", "to=%20[REDACTED:email]");
    check(&mask, "CORP\\john@example.com", "CORP\\[REDACTED:email]");
}

/// `%20` may be an escape, or a percent sign in front of a number.
#[test]
fn a_secret_after_a_percent_sign_is_masked() {
    let mask = every_detector();
    check(
        &mask,
        "card%3A%204111111111111111",
        "card%3A%20[REDACTED:card]",
    );
    check(&mask, "100%078-05-1120", "100%[REDACTED:us_ssn]");
    check(&mask, "%4111111111111111", "%[REDACTED:card]");
    check(&mask, "%DE89370400440532013000", "%[REDACTED:iban]");
    check(&mask, "%41 and 20%, %2041", "%41 and 20%, %2041");
}

#[test]
fn a_private_key_without_an_end_is_masked_to_the_end_of_the_text() {
    let mask = every_detector();
    let cut = PEM.split("-----END").next().unwrap();
    check(
        &mask,
        &format!("a {cut} and more"),
        "a [REDACTED:private_key]",
    );
    check(
        &mask,
        "a -----BEGIN PRIVATE KEY-----\nMII",
        "a [REDACTED:private_key]",
    );
}

#[test]
fn equal_secrets_have_equal_hashes_that_depend_on_the_key() {
    let mask = |key: &str| Mask::new(&["email"], &[], &Style::Hash(key.into())).unwrap();
    let text = "a@example.com b@example.com a@example.com";

    let one = shown(&mask("one"), text);
    let labels: Vec<&str> = one.split(' ').collect();

    assert_eq!(labels[0], labels[2]);
    assert_ne!(labels[0], labels[1]);
    assert_ne!(one, shown(&mask("two"), text));
    // HMAC-SHA256 with the key `one`, computed by another program.
    assert_eq!(labels[0], "[REDACTED:email:24f1bf185f85]");
}

#[test]
fn text_over_the_hold_limit_is_masked_until_no_match_is_possible() {
    let pattern = [("p", "x[a-z]*!")];
    let mask = Mask::holding(10, &[], &pattern, &Style::Label).unwrap();
    assert_eq!(shown(&mask, "a xabcdefg 1"), "a xabcdefg 1");
    assert_eq!(shown(&mask, "a xabcdefgh!1"), "a [REDACTED:p]1");
    assert_eq!(shown(&mask, "a xabcdefghi 1"), "a [REDACTED:p] 1");
    assert_eq!(shown(&mask, "a xabcdefghijklm! 1"), "a [REDACTED:p] 1");
    assert_eq!(shown(&mask, "xabcdefghijklm"), "[REDACTED:p]");

    let mut stream = mask.stream();
    let pushed: Vec<String> = ["a xabc", "defghijk", "lmn", "opq 1 ", "x"]
        .map(|chunk| stream.push(chunk))
        .into();
    assert_eq!(pushed, ["a ", "[REDACTED:p]", "", " 1 ", ""]);
    assert_eq!(stream.finish(), "x");
}

#[test]
fn a_stream_reports_its_detectors_and_is_reusable() {
    let patterns = [("t", "TCK-[0-9]{3}")];
    let mask = Mask::new(&["card", "us_ssn"], &patterns, &Style::Label).unwrap();
    let mut stream = mask.stream();

    assert_eq!(stream.push("see TCK-"), "see ");
    assert!(!stream.is_idle());
    // The match cannot become longer, so its label is returned at once.
    assert_eq!(stream.push("123"), "[REDACTED:t]");
    assert!(stream.is_idle());
    assert_eq!(stream.push(" of 07"), " of ");
    assert_eq!(stream.finish(), "07");
    assert_eq!(stream.push("8-05-1120, 078-05-1120"), "8-05-1120, ");
    assert_eq!(stream.finish(), "[REDACTED:us_ssn]");

    assert_eq!(stream.found(), ["us_ssn".into(), "t".into()]);
}

#[test]
fn invalid_patterns_are_refused() {
    let error = |pattern: &str| {
        let mask = Mask::new(&[], &[("p", pattern)], &Style::Label);
        mask.unwrap_err().to_string()
    };
    insta::assert_snapshot!(error("a("), @"pattern `p`, character 2: unclosed group");
    insta::assert_snapshot!(error("x*"), @"pattern `p` matches nothing at all, so it would match everywhere");
    insta::assert_snapshot!(error("(?=a)b"), @"pattern `p`, character 1: look-around, including look-ahead and look-behind, is not supported");
    insta::assert_snapshot!(error("[a&&b]"), @"pattern `p` can never match");
    insta::assert_snapshot!(error("(?-u:\\xFF)"), @"pattern `p`, character 6: pattern can match invalid UTF-8");
    insta::assert_snapshot!(error("\\w{1000}"), @r#"pattern `p` is too large; shorter repetitions, or `[a-z]` for `\w`, make it smaller"#);
    insta::assert_snapshot!(error("((a{100}){100}){100}"), @r#"pattern `p` is too large; shorter repetitions, or `[a-z]` for `\w`, make it smaller"#);
    insta::assert_snapshot!(error("(a|b)*a(a|b){20}"), @r#"pattern `p` is too large; shorter repetitions, or `[a-z]` for `\w`, make it smaller"#);
}

#[test]
fn unknown_invalid_and_duplicate_names_are_refused() {
    let error = |detectors: &[&str], patterns: &[(&str, &str)]| {
        let mask = Mask::new(detectors, patterns, &Style::Label);
        mask.unwrap_err().to_string()
    };
    insta::assert_snapshot!(error(&["mail"], &[]), @"no detector is named `mail`; there are email, phone, card, iban, us_ssn, jwt, private_key, aws_key, google_key, github_key, slack_key, openai_key, anthropic_key, url_password");
    insta::assert_snapshot!(error(&[], &[("a]", "a")]), @"`a]` is no name for a pattern; a name has 1 to 64 of a-z, A-Z, 0-9, `_`, `-`");
    insta::assert_snapshot!(error(&[], &[("email", "a")]), @"`email` is the name of another pattern or of a detector");
    insta::assert_snapshot!(error(&[], &[("a", "a"), ("a", "b")]), @"`a` is the name of another pattern or of a detector");
    assert_eq!(
        Mask::new(&[], &[], &Style::Hash("".into())).unwrap_err(),
        MaskError::NoKey
    );
}

#[test]
fn word_boundaries_of_patterns_are_ascii() {
    let mask = Mask::new(&[], &[("p", r"\bcat\b|É\w")], &Style::Label).unwrap();
    assert_eq!(
        shown(&mask, "cat concat écat éÉé"),
        "[REDACTED:p] concat é[REDACTED:p] é[REDACTED:p]"
    );
}

#[test]
fn a_match_may_be_longer_at_the_end_of_a_text() {
    let mask = Mask::new(&[], &[("p", "ab$|a")], &Style::Label).unwrap();
    assert_eq!(shown(&mask, "ab"), "[REDACTED:p]");
    assert_eq!(shown(&mask, "abc"), "[REDACTED:p]bc");
}

/// A rejected match must not exclude a later start within it.
#[test]
fn a_match_rejected_from_one_start_may_be_accepted_from_another() {
    let rule = Pattern::from_detector(&Detector {
        name: "b",
        finds: "what begins with b",
        rule: "[ab]+c",
        edges: detectors::Edges::OPEN,
        check: Some(|candidate| candidate.text.starts_with(b"b").then_some(0)),
    });
    let all = vec![rule.unwrap()];
    let rules = PatternSet {
        first_bytes: FirstByteTable::new(&all),
        labels: Labels::new(&Style::Label).unwrap(),
        all,
        limit: MAX_HELD_BYTES,
    };
    let mask = Mask {
        rules: Arc::new(rules),
    };
    let (before, after) = ("a".repeat(100), "a".repeat(100));
    let text = format!("{before}b{after}c");
    assert_eq!(shown(&mask, &text), format!("{before}[REDACTED:b]"));
}

/// The search discards the states of failed attempts at each match of a validator.
#[test]
fn matches_with_a_validator_have_a_maximum_length() {
    for detector in DETECTORS.iter().filter(|detector| detector.check.is_some()) {
        let rule = regex_syntax::parse(detector.rule).unwrap();
        let max = rule.properties().maximum_len();
        assert!(
            max.is_some_and(|max| max <= 1000),
            "{}: {max:?}",
            detector.name
        );
    }
}

#[test]
fn the_documentation_lists_every_detector() {
    let page = include_str!("../../../docs/policies/redact.md");
    for detector in DETECTORS {
        assert!(
            page.contains(&format!("| `{}` |", detector.name)),
            "{}",
            detector.name
        );
    }
}

#[test]
fn a_released_text_is_complete_and_the_rest_of_its_secret_is_masked() {
    let mask = Mask::new(&["email", "card", "aws_key"], &[], &Style::Label).unwrap();
    let check = |texts: [&str; 2], expected: [&str; 2]| {
        for size in [1, 3, 100] {
            let mut stream = mask.stream();
            let push = |stream: &mut Masker, text: &str| -> String {
                let pieces = text.as_bytes().chunks(size);
                let pieces = pieces.map(|piece| std::str::from_utf8(piece).unwrap());
                pieces.map(|piece| stream.push(piece)).collect()
            };
            let first = push(&mut stream, texts[0]) + &stream.release();
            assert_eq!((stream.held(), stream.release()), (0, String::new()));
            let next = push(&mut stream, texts[1]) + &stream.finish();
            assert_eq!([first, next], expected, "{size}");
        }
    };
    check(
        ["k AKIAIOSFODNN7EXAMPLE", "Anything"],
        ["k [REDACTED:aws_key]", "Anything"],
    );
    check(
        ["Your key is", "AKIAIOSFODNN7EXAMPLE x"],
        ["Your key is", "[REDACTED:aws_key] x"],
    );
    check(
        ["k AKIAIOSF", "ODNN7EXAMPLE b"],
        ["k AKIAIOSF", "[REDACTED:aws_key] b"],
    );
    check(["a@b.com", ". Done"], ["[REDACTED:email]", ". Done"]);
    check(
        ["a@b.com", "pany is"],
        ["[REDACTED:email]", "[REDACTED:email] is"],
    );
    check(
        ["no 4111 1111 ", "1111 1111 x"],
        ["no 4111 1111 ", "[REDACTED:card] x"],
    );
    check(["I will do it", "now"], ["I will do it", "now"]);
}
