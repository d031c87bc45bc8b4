use std::collections::BTreeMap;

use proptest::{prelude::*, sample::select};

use super::*;
use crate::dialect::{Api, ResponseDocument, TextKind, of};

/// Holds every text back by one character, and puts `*` for `s` elsewhere.
#[derive(Default)]
struct Late(BTreeMap<Channel, String>);

impl AnswerEditor for Late {
    fn piece(&mut self, channel: &Channel, text: &str, rest: Rest) -> Option<String> {
        let mut said = self.0.remove(channel).unwrap_or_default() + text;
        if rest == Rest::MayCome
            && let Some(last) = said.pop()
        {
            self.0.insert(channel.clone(), last.to_string());
        }
        Some(said.replace('s', "*"))
    }

    fn alone(&mut self, _kind: TextKind, _text: &str) -> Option<String> {
        panic!("words have no other text");
    }

    fn holding(&self, _candidate: Option<u64>) -> Vec<Channel> {
        self.0.keys().cloned().collect()
    }
}

fn value(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// What a chunk is to those who judge it, whichever way it is read.
fn told(answer: &ResponseDocument) -> (Option<String>, Option<Value>, String) {
    let told = (
        answer.model().unwrap(),
        answer.usage().unwrap().map(|it| it.read()),
    );
    (told.0, told.1, answer.plain_text())
}

fn opened(api: Api, json: &str, last: Option<&Words>) -> Option<Words> {
    let bytes = Bytes::from(json.to_owned());
    match of(api).open_words(bytes.clone(), last) {
        Ok(words) => Some(words),
        Err(given_back) => {
            assert_eq!(given_back, bytes);
            None
        }
    }
}

/// A chunk that is read as words is no other as a document. Whether it is words.
#[track_caller]
fn agree(api: Api, json: &str) -> bool {
    let (dialect, bytes) = (of(api), Bytes::from(json.to_owned()));
    let Some(mut words) = opened(api, json, None) else {
        return false;
    };
    let mut answer = dialect.open_answer(bytes.clone()).unwrap();
    let (model, usage, text) = told(&answer);
    let plain: String = words.plain_texts().collect();
    let said = (
        words.model().map(str::to_owned),
        words.usage().map(|it| it.read()),
    );
    assert_eq!((said.0, said.1, plain), (model, usage, text), "{json}");
    assert!(answer.step().unwrap().is_empty(), "{json}");
    assert!(!answer.finishes() && !answer.stops().unwrap(), "{json}");
    assert!(!answer.withholds() && !answer.has_alternatives(), "{json}");
    let items = answer.canonical_items().unwrap();
    let items: Vec<String> = items.into_iter().map(|it| it.text).collect();
    let texts: Vec<&str> = words.plain_texts().filter(|it| !it.is_empty()).collect();
    assert_eq!(items, texts, "{json}");
    assert_eq!(words.to_bytes(), bytes);
    assert_eq!(dialect.close_answer(&answer), bytes);

    let (mut one, mut other) = (Late::default(), Late::default());
    words.edit_texts(&mut one);
    answer.edit_texts(&mut other, Rest::MayCome).unwrap();

    assert_eq!(one.0, other.0, "{json}");
    assert_eq!(words.is_edited(), answer.document().is_edited(), "{json}");
    let closed = dialect.close_answer(&answer);
    assert_eq!(value(&words.to_bytes()), value(&closed), "{json}");
    true
}

/// An object of these fields, some of them twice, or spelled otherwise.
fn object(fields: Vec<(&'static str, BoxedStrategy<String>)>) -> BoxedStrategy<String> {
    let field = select(fields).prop_flat_map(|(key, value)| (Just(key), value));
    let spelled = (field, 0..40_u8).prop_map(|((key, value), spelling)| {
        let key = match spelling {
            0 => key.to_ascii_uppercase(),
            1 => key.replacen(|it: char| it.is_ascii_uppercase(), "_x", 1),
            2 => format!("\\u{:04x}{}", key.as_bytes()[0], key.get(1..).unwrap()),
            3 => format!("_{key}"),
            _ => key.to_owned(),
        };
        let white = if spelling == 4 { " \n" } else { "" };
        format!("{white}\"{key}\":{white}{value}{white}")
    });
    let fields = prop::collection::vec(spelled, 1..4);
    fields
        .prop_map(|it| format!("{{{}}}", it.join(",")))
        .boxed()
}

fn any_of(values: &'static [&'static str]) -> BoxedStrategy<String> {
    select(values).prop_map(str::to_owned).boxed()
}

fn mostly(usual: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let odd = any_of(&[
        "null", "5", "\"s\"", "[]", "{}", "true", "[null]", "nul", "",
    ]);
    prop_oneof![12 => usual, 1 => odd].boxed()
}

fn list(element: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let elements = prop_oneof![
        6 => prop::collection::vec(element.clone(), 1..2),
        2 => prop::collection::vec(element, 0..4),
    ];
    mostly(
        elements
            .prop_map(|it| format!("[{}]", it.join(",")))
            .boxed(),
    )
}

fn any_text() -> BoxedStrategy<String> {
    mostly(any_of(&[
        "\"\"",
        "\"a s\"",
        "\"\\ud83e\\udd80s\\n\"",
        "\"é\\\"\"",
        "\" \"",
        "\"\\u0073\"",
    ]))
}

fn any_part() -> BoxedStrategy<String> {
    object(vec![
        ("text", any_text()),
        ("text", any_text()),
        ("text", any_text()),
        ("thought", mostly(any_of(&["true", "false"]))),
        ("thoughtSignature", mostly(any_of(&["\"s\""]))),
        ("functionCall", any_of(&[r#"{"name":"f"}"#, "null"])),
        ("inlineData", any_of(&["{}"])),
    ])
}

fn any_answer() -> BoxedStrategy<String> {
    let content = object(vec![
        ("parts", list(any_part())),
        ("parts", list(any_part())),
        ("role", mostly(any_of(&["\"model\""]))),
    ]);
    let candidate = object(vec![
        ("content", mostly(content.clone())),
        ("content", mostly(content)),
        ("index", mostly(any_of(&["0", "0", "1", "-0", "0.0"]))),
        ("safetyRatings", any_of(&["[]", "[{\"args\":{\"a\":1}}]"])),
        ("finishReason", any_of(&["\"STOP\"", "null"])),
        ("logprobsResult", any_of(&["{}"])),
        ("citationMetadata", any_of(&["{}"])),
    ]);
    object(vec![
        ("candidates", list(candidate.clone())),
        ("candidates", list(candidate.clone())),
        ("candidates", list(candidate)),
        (
            "modelVersion",
            mostly(any_of(&["\"m-1\"", "\"m\\u002d1\""])),
        ),
        (
            "usageMetadata",
            mostly(any_of(&[r#"{"totalTokenCount":5}"#])),
        ),
        ("responseId", any_of(&["\"s\"", "7"])),
        ("promptFeedback", any_of(&["{}"])),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn words_are_what_a_document_is(answer in any_answer()) {
        agree(Api::Gemini, &answer);
    }

    #[test]
    fn words_in_an_envelope_are_what_a_document_is(
        envelope in object(vec![
            ("response", any_answer()),
            ("response", any_answer()),
            ("traceId", any_of(&["\"s\"", "5"])),
            ("candidates", any_of(&["[]"])),
        ]),
    ) {
        agree(Api::CodeAssist, &envelope);
    }
}

/// What a chunk is, whatever came before it.
#[track_caller]
fn agree_after(last: &str, json: &str) -> bool {
    let last = opened(Api::Gemini, last, None);
    let after = opened(Api::Gemini, json, last.as_ref());
    let alone = opened(Api::Gemini, json, None);
    assert_eq!(format!("{after:?}"), format!("{alone:?}"));
    last.is_some() && alone.is_some()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn it_does_not_matter_what_words_come_after(
        answer in any_answer(),
        texts in [any_text(), any_text()],
        cut in any::<prop::sample::Index>(),
        put in prop_oneof![any_text(), Just("\"a\",".to_owned()), Just("\"a\"}".to_owned())],
    ) {
        let last = answer.replace("\"a s\"", &texts[0]);
        agree_after(&last, &answer.replace("\"a s\"", &texts[1]));
        // Anywhere at all.
        let cut = cut.index(answer.len() + 1);
        if let Some((before, after)) = answer.split_at_checked(cut) {
            agree_after(&answer, &format!("{before}{put}{after}"));
        }
    }
}

#[test]
fn words_are_read_as_those_before_them_only_if_a_string_is_the_difference() {
    let chunk = |text: &str| {
        format!(
            r#"{{"modelVersion":"m","candidates":[{{"content":{{"parts":[{{"text":{text},"thought":true}}]}}}}],"usageMetadata":{{"n":1}}}}"#
        )
    };
    for text in [
        "\"\"",
        "\"a much longer text\"",
        "\"\\u00e9\"",
        "\"\\\"\"",
        "\"é\"",
    ] {
        assert!(agree_after(&chunk("\"hi\""), &chunk(text)), "{text}");
    }
    for text in [
        "5",
        "null",
        "\"\\ud800\"",
        "\"a\"\"b\"",
        "\"a\",\"functionCall\":{}",
        "\"a\nb\"",
        "\"a",
        "",
    ] {
        assert!(!agree_after(&chunk("\"hi\""), &chunk(text)), "{text}");
    }
    let mut wrong = chunk("\"hii\"").into_bytes();
    let at = wrong.iter().position(|it| *it == b'h').unwrap();
    wrong[at] = 0xff;
    let last = opened(Api::Gemini, &chunk("\"hi\""), None);
    let opened = of(Api::Gemini).open_words(wrong.into(), last.as_ref());
    assert!(opened.is_err());
}

#[test]
fn what_models_send_is_words() {
    for json in [
        r#"{"candidates":[{"content":{"parts":[{"text":"hi s"}],"role":"model"},"index":0}],"modelVersion":"gemini-2.5-flash"}"#,
        r#" { "candidates": [ { "content": { "parts": [ { "text": "h\u00e9\n" } ] } } ], "usageMetadata": {"promptTokenCount": 1, "x": [1]}, "modelVersion": "m", "responseId": "r" } "#,
        r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true,"thoughtSignature":"x"},{"text":"a"},{"thoughtSignature":"y"}]}}]}"#,
    ] {
        assert!(agree(Api::Gemini, json), "{json}");
        let wrapped = format!("{{\"response\":{json},\"traceId\":\"t\"}}");
        assert!(agree(Api::CodeAssist, &wrapped), "{wrapped}");
        assert!(!agree(Api::Gemini, &wrapped), "{wrapped}");
        assert!(!agree(Api::CodeAssist, json), "{json}");
    }
}

#[test]
fn what_hides_something_is_no_words() {
    let chunk =
        |part: &str| format!(r#"{{"candidates":[{{"content":{{"parts":[{part}]}},"index":0}}]}}"#);
    for part in [
        r#"{"functionCall":{"name":"rm"}}"#,
        r#"{"function_call":{"name":"rm"}}"#,
        r#"{"function\u0043all":{"name":"rm"}}"#,
        r#"{"text":"a","FunctionCall":{"name":"rm"}}"#,
        r#"{"text":"a","text":"b"}"#,
        r#"{"text":"a","te\u0078t":"b"}"#,
        r#"{"text":"a","Text":"b"}"#,
        r#"{"text":"a","thought":"true"}"#,
        r#"{"text":null}"#,
        r#"{"text":"a","new":{}}"#,
        r#"{"text":"\ud800"}"#,
        r#"{"text":"a"},null"#,
    ] {
        assert!(!agree(Api::Gemini, &chunk(part)), "{part}");
    }
    let good = chunk(r#"{"text":"a"}"#);
    assert!(agree(Api::Gemini, &good));
    for json in [
        format!("\u{feff}{good}"),
        format!("{good}{good}"),
        good.strip_suffix('}').unwrap().to_owned(),
        good.replace("\"index\":0", "\"index\":1"),
        good.replace("\"index\":0", "\"finishReason\":\"STOP\""),
        good.replace("[{\"content\"", "[{},{\"content\""),
        good.replacen('{', "{\"candidates\":[],", 1),
        good.replacen('{', "{\"modelVersion\":null,", 1),
        good.replacen('{', "{\"model_version\":\"m\",", 1),
    ] {
        assert!(!agree(Api::Gemini, &json), "{json}");
    }
}
