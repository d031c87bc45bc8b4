use std::fmt;

use proptest::prelude::*;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::*;

const FREE: &FreeFields = &FreeFields::new(&[
    FreeField::new("args", 1),
    FreeField::new("parametersJsonSchema", 1),
    FreeField::new("response", 2),
]);

fn check_document(text: &[u8]) -> Result<usize, JsonError> {
    check(text, Names::Fields(FREE))
}

fn check_value(text: &[u8]) -> Result<usize, JsonError> {
    check(text, Names::Free)
}

#[track_caller]
fn check_refused(text: &str, part: &str) {
    let error = check_document(text.as_bytes()).expect_err(text).to_string();
    assert!(error.contains(part), "{text}: {error}");
}

#[test]
fn unambiguous_json_is_accepted() {
    for text in [
        "{}",
        " [ ] ",
        "\"\"",
        "null",
        "-0.0e+10",
        r#"{"a":[{"b":null},{"b":true}],"c":{"a":1}}"#,
        r#"{"a":"\ud83d\ude00 \u0000 \\u12 é"}"#,
        r#"{"args":{"foo_bar":1,"fooBar":2,"FOOBAR":3}}"#,
        r#"{"tools":[{"parametersJsonSchema":{"properties":{"a_b":{},"aB":{}}}}]}"#,
        r#"{"functionResponse":{"response":{"a_b":{},"aB":{}}}}"#,
        r#"{"ARGS":{"a_b":1,"aB":2}}"#,
        r#"{"\u0061rgs":{"a_b":1,"aB":2}}"#,
        r#"{"parameters_json_schema":{"a_b":1,"aB":2}}"#,
        r#"{"_responseJsonSchema":{},"responseJsonSchema":{}}"#,
        "{\"args\":{\"\u{17f}\":1,\"s\":2,\"\u{212a}\":3,\"K\":4}}",
        "{\"gr\u{f6}\u{df}e\":1,\"\u{540d}\u{524d}\":2}",
    ] {
        check_document(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let deep = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
    assert!(check_document(deep.as_bytes()).is_ok());
}

#[test]
fn a_layout_has_a_bounded_number_of_values() {
    let array = |values| ["[", &vec!["0"; values].join(","), "]"].concat();
    let lays_out = |text: &str, deepest| lay_out(text.as_bytes(), Names::Free, deepest);

    assert!(lays_out(&array(MAX_VALUES - 1), 1).is_ok());
    let error = lays_out(&array(MAX_VALUES), 1).unwrap_err().to_string();
    assert!(error.starts_with("more than 524,288 values"), "{error}");
    // Deeper values are not recorded.
    assert!(lays_out(&array(MAX_VALUES), 0).is_ok());
}

#[test]
fn values_are_counted_at_all_depths() {
    for (text, count) in [
        ("7", 1),
        ("[]", 1),
        (r#"{"a": [1, {"b": "x"}], "c": {}}"#, 6),
    ] {
        assert_eq!(check_document(text.as_bytes()), Ok(count), "{text}");
    }
}

#[test]
fn a_duplicate_field_is_refused_at_every_depth() {
    check_refused(r#"{"a":1,"a":2}"#, "`a` is duplicated");
    check_refused(r#"{"x":[{"b":1,"\u0062":2}]}"#, "`b` is duplicated");
    check_refused(
        r#"{"contents":[{"parts":[{"functionCall":{},"function_call":{}}]}]}"#,
        "`function_call` is duplicated",
    );
    check_refused(r#"{"\u0061b":1,"ab":2}"#, "`ab` is duplicated");
    check_refused(r#"{"toolConfig":1,"ToolConfig":2}"#, "duplicated");
    check_refused(
        r#"{"args":{"x":[{"a":1,"a":2}]}}"#,
        "a key in `args` is duplicated",
    );
    check_refused(
        r#"{"response":{"toolConfig":1,"tool_config":2}}"#,
        "`tool_config` is duplicated",
    );
    let many: Vec<String> = (0..40).map(|number| format!("\"k{number}\":0")).collect();
    let many = many.join(",");
    check_refused(&format!("{{{many},\"K_3\":0}}"), "`K_3` is duplicated");
    check_refused(&format!("{{\"args\":{{{many},\"k39\":0}}}}"), "`args`");
    assert!(check_document(format!("{{{many}}}").as_bytes()).is_ok());
}

#[test]
fn the_number_of_fields_is_limited() {
    let fields = |count: usize| {
        let all: Vec<String> = (0..count)
            .map(|number| format!("\"k{number}\":0"))
            .collect();
        format!("{{{}}}", all.join(","))
    };
    assert!(check_document(fields(MAX_FIELDS).as_bytes()).is_ok());
    check_refused(&fields(MAX_FIELDS + 1), "more fields");
    let arguments = format!("{{\"args\":{}}}", fields(5 * MAX_FIELDS));
    assert!(check_document(arguments.as_bytes()).is_ok());
}

#[test]
fn json_that_only_lenient_parsers_accept_is_refused() {
    for text in [
        "",
        " ",
        "{} {}",
        "{}x",
        "{}\0",
        "\u{feff}{}",
        "{,}",
        "{\"a\":1,}",
        "[1,]",
        "[1 2]",
        "{\"a\" 1}",
        "{a:1}",
        "{'a':1}",
        "['a']",
        "// x\n{}",
        "{/**/}",
        "NaN",
        "[Infinity]",
        "-",
        "+1",
        "01",
        "1.",
        ".5",
        "1e",
        "0x10",
        "True",
        "nul",
        "nullx",
        "\"a\nb\"",
        "\"\\x41\"",
        "\"\\u12g4\"",
        "\"\\u+123\"",
        "\"",
        "\"\\",
        "{",
        "[",
        r#""\ud800""#,
        r#""\ud800x""#,
        r#""\ud800\n""#,
        r#""\ud800\ud800""#,
        r#""\udc00""#,
        r#"{"\ud800":1}"#,
        r#"{"contents\u0000":1}"#,
        "{\"content\u{17f}\":1}",
        "{\"to\u{212a}ens\":1}",
        r#"{"content\u017F":1}"#,
        r#"{"x":[{"\u212aey":1}]}"#,
        "{\"a name of more than sixteen letter\u{17f}\":1}",
        r#"{"$serde_json::private::Number":"1"}"#,
        r#"{"\u0024serde_json::private::Number":"1"}"#,
        "{\"\u{a0}\":1}\u{a0}",
    ] {
        let refused = check_document(text.as_bytes());
        assert!(
            matches!(refused, Err(JsonError::Invalid { .. })),
            "{text:?}"
        );
    }
}

#[test]
fn invalid_utf8_and_deep_nesting_are_refused() {
    assert!(check_document(b"\"\xff\"").is_err());
    assert!(check_document(b"\"\xc0\x80\"").is_err());
    assert!(check_document(b"{\0\"\0a\0\"\0:\0t\0}\0").is_err());
    let deep = "[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1);
    check_refused(&deep, "too deep");
    check_refused(&"{\"a\":".repeat(100_000), "too deep");
}

/// Depth of a document that `serde_json` accepts and that has no duplicate key.
struct Oracle(usize);

impl<'de> Deserialize<'de> for Oracle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Depth)
    }
}

struct Depth;

impl<'de> Visitor<'de> for Depth {
    type Value = Oracle;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Oracle, E> {
        Ok(Oracle(0))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Oracle, E> {
        Ok(Oracle(0))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Oracle, E> {
        Ok(Oracle(0))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Oracle, E> {
        Ok(Oracle(0))
    }

    fn visit_str<E>(self, _: &str) -> Result<Oracle, E> {
        Ok(Oracle(0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Oracle, A::Error> {
        let mut deepest = 0;
        while let Some(Oracle(depth)) = seq.next_element()? {
            deepest = deepest.max(depth);
        }
        Ok(Oracle(deepest + 1))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Oracle, A::Error> {
        let (mut deepest, mut keys) = (0, Vec::new());
        while let Some(key) = map.next_key::<String>()? {
            if key.starts_with("$serde_json::private") {
                // `serde_json` passes a number as an object.
                map.next_value::<IgnoredAny>()?;
                return Ok(Oracle(0));
            }
            if keys.contains(&key) {
                return Err(Error::custom("twice"));
            }
            keys.push(key);
            deepest = deepest.max(map.next_value::<Oracle>()?.0);
        }
        Ok(Oracle(deepest + 1))
    }
}

/// Returns true if `serde_json` accepts a document, without duplicate keys or too many levels.
fn oracle(bytes: &[u8]) -> bool {
    let read = serde_json::from_slice::<Oracle>(bytes);
    read.is_ok_and(|Oracle(depth)| depth <= MAX_DEPTH)
}

const PIECES: [&str; 34] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    " ",
    "\n",
    "\"",
    "\"a\"",
    "\"b\"",
    "\"a_b\"",
    "\"aB\"",
    "\"args\"",
    "\\",
    "\\\"",
    "\\n",
    "\\ud83d",
    "\\ude00",
    "é",
    "😀",
    "\u{1}",
    "\u{feff}",
    "-",
    "0",
    "1",
    "12",
    ".",
    "e",
    "E+",
    "true",
    "null",
    "false",
    "\"long enough for words\"",
];

fn json_like_bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..14);
    let value = prop::sample::select(vec![
        r#"{"a":[1,{"b":"x\n😀\ud83d\ude00"}],"args":{"q":-1.5e3},"c":null}"#,
        r#"[true,false,[],{},"0123456789abcdef\"01234567"]"#,
    ]);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    prop_oneof![
        pieces.prop_map(|pieces| pieces.concat().into_bytes()),
        (value, edits).prop_map(|(text, edits)| {
            let mut bytes = text.as_bytes().to_vec();
            for (at, byte) in edits {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_check_agrees_with_serde_json(bytes in json_like_bytes()) {
        let accepted = check_value(&bytes).is_ok();
        prop_assert_eq!(accepted, oracle(&bytes), "{}", bytes.escape_ascii());
        prop_assert!(check_document(&bytes).is_err() || accepted);
    }
}

/// A key of a document.
#[derive(Debug, Clone)]
struct Key {
    /// Spelling in the document, with quotes.
    text: String,
    decoded: String,
}

fn key() -> impl Strategy<Value = Key> {
    let pieces = vec![
        "a",
        "A",
        "b",
        "_",
        "\u{e9}",
        "name",
        "sixteen letters.",
        "0",
    ];
    let pieces = prop::collection::vec(prop::sample::select(pieces), 0..4);
    (pieces, prop::bool::weighted(0.1)).prop_map(|(pieces, is_escaped)| {
        let decoded = pieces.concat();
        let text = if is_escaped {
            let units = decoded.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
            units.collect::<Vec<_>>().concat()
        } else {
            decoded.clone()
        };
        let text = format!("\"{text}\"");
        Key { text, decoded }
    })
}

/// Returns the spelling that all spellings of a field share.
fn canonical_field(name: &str) -> String {
    let letters = name.char_indices();
    let kept = letters.filter(|(at, letter)| *at == 0 || *letter != '_');
    kept.map(|(_, letter)| letter.to_ascii_lowercase())
        .collect()
}

fn all_distinct(names: impl Iterator<Item = String>) -> bool {
    let mut known = std::collections::HashSet::new();
    names.into_iter().all(|name| known.insert(name))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_duplicate_key_is_detected_in_every_spelling(
        names in prop_oneof![
            4 => prop::collection::vec(key(), 0..6),
            1 => prop::collection::vec(key(), 0..100),
        ],
        behind in 0_usize..40,
    ) {
        let members: Vec<String> = names.iter().map(|name| format!("{}:{{}}", name.text)).collect();
        // The end of a text is read by other code.
        let text = format!("{{{}}}{}", members.join(","), " ".repeat(behind));
        let accepted = |names| check(text.as_bytes(), names).is_ok();

        let decoded_keys = names.iter().map(|name| name.decoded.clone());
        prop_assert_eq!(accepted(Names::Free), all_distinct(decoded_keys), "{}", &text);
        let canonical_fields = names.iter().map(|name| canonical_field(&name.decoded));
        let expected = all_distinct(canonical_fields);
        prop_assert_eq!(accepted(Names::Fields(FREE)), expected, "{}", &text);
    }
}
