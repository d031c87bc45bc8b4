mod laws;
mod slow;

use super::*;

const JWT: &str =
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P";
const JWE: &str = "eyJhbGciOiJkaXIifQ..48V1_ALb6US04U3b.5eym8TW_c8SuK0lt.XFBoMYUZodetZdvT";
const PEM: &str = "-----BEGIN RSA PRIVATE KEY-----\nMIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu\nKUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwECAwEAAQ==\n-----END RSA PRIVATE KEY-----";
const AWS_SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// Secrets of every kind, by who finds them.
#[rustfmt::skip]
const SECRETS: &[(&str, &[&str])] = &[
    ("email", &[
        "john@example.com", "j.doe+tag@mail.example.co.uk", "x_1%y@a-b.museum", "A@EXAMPLE.ORG", "li@163.com",
        "0@a.io", "John.Doe@Example.Com",
    ]),
    ("phone", &[
        "+14155552671", "+1 415 555 2671", "+1 (415) 555-2671", "+49 30 901820", "+49 (0)30 901820",
        "+33 1 23 45 67 89", "+86 138 0013 8000", "+44.20.7946.0958", "(415) 555-2671", "415-555-2671",
        "1-415-555-2671", "415.555.2671", "01 23 45 67 89", "06.12.34.56.78", "0171 1234567", "030/12345678",
        "020 7946 0958", "0161 496 0000", "01632 960 001", "01632 960001", "090-1234-5678", "03-1234-5678",
    ]),
    ("card", &[
        "4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111", "378282246310005", "3782 822463 10005",
        "30569309025904", "3056 930902 5904", "6011000990139424", "5555 5555 5555 4444", "2223003122003222",
        "6304000000000000000", "4222222222222", "3530111333300000",
    ]),
    ("iban", &[
        "DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "GB29 NWBK 6016 1331 9268 19", "NO9386011117947",
        "FR14 2004 1010 0505 0001 3M02 606", "MT84MALT011000012345MTLCAST001S",
    ]),
    ("us_ssn", &["078-05-1120", "219-09-9999"]),
    ("jwt", &[JWT, JWE]),
    ("private_key", &[PEM]),
    ("aws_key", &["AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"]),
    ("google_key", &[
        concat!("AIza", "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"),
        concat!("AQ.", "Ab8RN6JxQ2vHkLmNoP3qRsTuVwXyZ01234_56-789abc"),
    ]),
    ("github_key", &[
        concat!("ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"),
        concat!("ghs_", "16C7e42F292c6912E7710c838347Ae178B4a"),
        concat!("github_pat_", "11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123456789"),
    ]),
    ("slack_key", &[
        concat!("xoxb-", "2345678901-2345678901234-abcDEFghiJKLmnoPQRstuVWX"),
        concat!("xapp-", "1-A0123456789-1234567890123-0123456789abcdef"),
        concat!("hooks.slack.com/", "services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"),
    ]),
    ("openai_key", &[
        concat!("sk-", "abcdefghijklmnopqrstT3BlbkFJ0123456789abcdefghij"),
        concat!("sk-", "proj-abc_DEF-0123456789ghijklmnopqrst"),
        concat!("sk-", "or-v1-0123456789abcdef0123456789abcdef"),
    ]),
    ("anthropic_key", &[
        concat!("sk-", "ant-api03-abc_DEF-0123456789ghijklmnopqrst-AA"),
    ]),
];

/// All of them, and some that are made of others.
fn secrets() -> Vec<(&'static str, String)> {
    let plain = SECRETS.iter().flat_map(|(name, secrets)| {
        let secrets = secrets.iter().map(|it| (*it).to_owned());
        secrets.map(move |it| (*name, it))
    });
    let pem = [
        PEM.replace('\n', "\\n"),
        PEM.replace('\n', "\\\\r\\\\n"),
        PEM.replace('\n', " "),
        PEM.replace("RSA ", ""),
        PEM.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"),
        PEM.replace('\n', "\n   12\u{2192}"),
    ];
    let pem = pem.map(|it| ("private_key", it));
    let stateless = ("github_key", format!("ghs_123456_{JWT}"));
    plain.chain(pem).chain([stateless]).collect()
}

/// What looks like a secret and is none.
#[rustfmt::skip]
const HARMLESS: &[&str] = &[
    // no e-mail addresses
    "user@localhost", "a@b", "@Override", "icon@2x.png", "package@4.17.21.tgz", "git@github.com:org/repo.git",
    "this@Window.close()", "https://john@example.com/x", "john@example.com(", "a@-b.com", "name@domain.c",
    "@types/node@18.0.0", "a @ b.com", "john@.com",
    // no telephone numbers
    "2024-05-06", "+2024-05-06 12:30", "+9999-12-31 23:59", "2024-05-06T12:30:00+02:00", "01-02-2024", "1.2.3", "12.34.56.78",
    "1234567890", "192.168.100.200", "+1 +1 +1", "+12", "x+14155552671", "3.14159265358979",
    "1.0.0+20130313144700", "0x4155552671", "415-555-26711", "1415-555-2671", "115-555-2671", "0.123456789",
    "+1 415 555 267", "10:20:30.123456", "550e8400-e29b-41d4-a716-446655440000",
    // no cards
    "4111111111111112", "1716239022123", "1716239022123456", "41111111111111111111111", "a4111111111111111",
    "4111111111111111a", "0.4111111111111111", "4111_1111_1111_1111", "1111 1111 1111 1117",
    // no IBANs
    "DE88370400440532013000", "DE8937040044053201300", "XX89370400440532013000", "aDE89370400440532013000",
    // no social security numbers
    "000-12-3456", "666-12-3456", "912-12-3456", "123-00-4567", "123-45-0000", "123-45-67890", "123 45 6789",
    "1123-45-6789", "123-45-6789-1", "2024-05-0601",
    // no tokens
    "eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi", "eyJ.eyJ.x",
    "xeyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0.dozj",
    // no keys
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----\nMIIB",
    "a line `-----BEGIN PRIVATE KEY-----` begins a key", "if (s == \"-----BEGIN RSA PRIVATE KEY-----\") {",
    "-----BEGIN PRIVATE KEY-----", "AKIAIOSFODNN7EXAMPL", "AKIAIOSFODNN7EXAMPLEX", "xAKIAIOSFODNN7EXAMPLE",
    "akiaiosfodnn7example", "AKIA", "aws_secret_access_key = short", "secret_access_key", "AIzaSy", "AQ.abc",
    "AQ.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ghp_short", "gho_", "github_pat_short", "xoxb-short", "xapp-",
    "https://hooks.slack.com/services/", "sk-learn-pipeline-of-many-words", "sk-estimator-doc-link-fitted",
    "task-0123456789abcdefghij", "sk-ant-short", "sk-ant-words-that-are-joined-by-hyphens",
    "sk-abcdefghijklmnopqrstuvwxyz",
    // no passwords
    "https://example.com:8080/a@b", "http://a:b/c", "postgres://user:${PASSWORD}@host/db", "://:@",
    "redis://:@host", "https://example.com/", "printf(\"%s://%s:%s@%s\")",
];

/// A mask with every detector.
fn every_detector() -> Mask {
    let names: Vec<&str> = DETECTORS.iter().map(|it| it.name).collect();
    Mask::new(&names, &[], &Style::Label).unwrap()
}

fn shown(mask: &Mask, text: &str) -> String {
    mask.mask(text).map_or(text.to_owned(), |it| it.text)
}

#[test]
fn each_secret_is_found_by_its_detector_only_at_any_position() {
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
        ("`", "`,"),
        ("=", ";"),
        ("a\n", "\r\n"),
    ];
    let mut missed = Vec::new();
    for name in DETECTORS.iter().map(|it| it.name) {
        let mask = Mask::new(&[name], &[], &Style::Label).unwrap();
        let all = secrets();
        let own = all.iter().filter(|it| it.0 == name);
        for ((_, secret), (before, after)) in own.flat_map(|it| around.map(|around| (it, around))) {
            let concealed = shown(&mask, &format!("{before}{secret}{after}"));
            if concealed != format!("{before}[REDACTED:{name}]{after}") {
                missed.push(format!(
                    "{name}: {before}{secret}{after} became {concealed}"
                ));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_secret_has_its_label_among_all_detectors() {
    let mask = every_detector();
    let labelled = |(name, secret): &(&str, String)| {
        let found = mask.mask(&format!("a {secret} b"));
        let found = found.map_or(String::new(), |it| it.text);
        (found != format!("a [REDACTED:{name}] b")).then(|| format!("{secret}: {found}"))
    };
    let wrong: Vec<String> = secrets().iter().filter_map(labelled).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_only_looks_like_a_secret_is_left_alone() {
    let mask = every_detector();
    let mut wrong = Vec::new();
    for text in HARMLESS {
        for text in [
            (*text).to_owned(),
            format!("a {text} b"),
            format!("\"{text}\"\n"),
        ] {
            if let Some(concealed) = mask.mask(&text) {
                wrong.push(format!("{text:?} became {:?}", concealed.text));
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
fn of_an_assignment_only_the_secret_is_concealed() {
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
fn secrets_side_by_side_have_a_label_each() {
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
fn secrets_that_overlap_have_one_label() {
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
    let concealed = mask.mask("abccdcd").unwrap();
    assert_eq!(concealed.text, "[REDACTED:x][REDACTED:y]");
    assert_eq!(concealed.detectors, ["x".into(), "y".into()]);
}

#[test]
fn what_begins_in_a_refused_match_is_found() {
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
fn escapes_stay_whole() {
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

#[test]
fn a_private_key_that_never_ends_is_concealed_to_the_end() {
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
    // Of HMAC-SHA256 with the key `one`, by another program.
    assert_eq!(labels[0], "[REDACTED:email:24f1bf185f85]");
}

#[test]
fn a_text_that_is_too_long_to_be_held_is_concealed_until_no_match_can_come() {
    let pattern = [("p", "x[a-z]*!")];
    let mask = Mask::holding(10, &[], &pattern, &Style::Label).unwrap();
    assert_eq!(shown(&mask, "a xabcdefg 1"), "a xabcdefg 1");
    assert_eq!(shown(&mask, "a xabcdefgh!1"), "a [REDACTED:p]1");
    assert_eq!(shown(&mask, "a xabcdefghi 1"), "a [REDACTED:p] 1");
    assert_eq!(shown(&mask, "a xabcdefghijklm! 1"), "a [REDACTED:p] 1");
    assert_eq!(shown(&mask, "xabcdefghijklm"), "[REDACTED:p]");

    let mut stream = mask.stream();
    let pushed: Vec<String> = ["a xabc", "defghijk", "lmn", "opq 1 ", "x"]
        .map(|it| stream.push(it))
        .into();
    assert_eq!(pushed, ["a ", "[REDACTED:p]", "", " 1 ", ""]);
    assert_eq!(stream.finish(), "x");
}

#[test]
fn a_stream_tells_what_it_found_and_begins_anew() {
    let patterns = [("t", "TCK-[0-9]{3}")];
    let mask = Mask::new(&["card", "us_ssn"], &patterns, &Style::Label).unwrap();
    let mut stream = mask.stream();

    assert_eq!(stream.push("see TCK-"), "see ");
    assert!(!stream.is_idle());
    // No more of it can come, so it goes out at once.
    assert_eq!(stream.push("123"), "[REDACTED:t]");
    assert!(stream.is_idle());
    assert_eq!(stream.push(" of 07"), " of ");
    assert_eq!(stream.finish(), "07");
    assert_eq!(stream.push("8-05-1120, 078-05-1120"), "8-05-1120, ");
    assert_eq!(stream.finish(), "[REDACTED:us_ssn]");

    assert_eq!(stream.found(), ["us_ssn".into(), "t".into()]);
}

#[test]
fn patterns_that_cannot_be_are_refused() {
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
fn names_that_cannot_be_are_refused() {
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
fn words_of_patterns_are_ascii_words() {
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

/// A run that found something that was refused leaves no trail.
#[test]
fn what_is_refused_from_one_place_may_be_a_match_from_another() {
    let rule = Pattern::from_detector(&Detector {
        name: "b",
        finds: "what begins with b",
        rule: "[ab]+c",
        edges: detectors::Edges::OPEN,
        check: Some(|it| it.text.starts_with(b"b").then_some(0)),
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

#[test]
fn the_page_shows_every_detector() {
    let page = include_str!("../../../docs/policies/redact.md");
    for detector in DETECTORS {
        assert!(
            page.contains(&format!("| `{}` |", detector.name)),
            "{}",
            detector.name
        );
    }
}
