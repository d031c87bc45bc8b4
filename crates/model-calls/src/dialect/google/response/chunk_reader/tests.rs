use std::collections::BTreeMap;

use proptest::{prelude::*, sample::select};
use serde_json::Value;

use super::*;
use crate::dialect::text_edit::{ResponseTextEditor, TextChannel, TextKind, TextRest};

/// Holds every text back by one character, and replaces `s` by `*`.
#[derive(Default)]
struct DelayingEditor(BTreeMap<TextChannel, String>);

impl ResponseTextEditor for DelayingEditor {
    fn edit_piece(&mut self, channel: &TextChannel, text: &str, rest: TextRest) -> Option<String> {
        let mut text = self.0.remove(channel).unwrap_or_default() + text;
        if rest == TextRest::MayFollow
            && let Some(last) = text.pop()
        {
            self.0.insert(channel.clone(), last.to_string());
        }
        Some(text.replace('s', "*"))
    }

    fn edit(&mut self, _kind: TextKind, _text: &str) -> Option<String> {
        panic!("a text chunk has no other text");
    }

    fn open_channels(&self, _candidate: Option<u64>) -> Vec<TextChannel> {
        self.0.keys().cloned().collect()
    }
}

fn value(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Everything that is read from a chunk, whether it is parsed or not.
fn facts(chunk: &ResponseDocument) -> impl PartialEq + std::fmt::Debug {
    let texts: Vec<String> = chunk.plain_texts().map(str::to_owned).collect();
    let items = chunk.canonical_items().unwrap().into_iter();
    (
        chunk.model().unwrap().map(std::borrow::Cow::into_owned),
        chunk.usage().unwrap().map(|usage| value(&usage)),
        chunk.total_tokens().unwrap(),
        texts,
        items.map(|item| (item.kind, item.text)).collect::<Vec<_>>(),
        (
            chunk.has_content(),
            chunk.has_finish_reason(),
            chunk.is_complete().unwrap(),
        ),
        (chunk.has_withheld_calls(), chunk.has_alternatives()),
        (
            chunk.calls().unwrap(),
            chunk.proposed_calls().unwrap().len(),
        ),
        chunk.read().unwrap(),
    )
}

/// Reads a chunk a second time, if it is a text chunk then.
fn read_text(envelope: ResponseEnvelope, json: &str) -> Option<ResponseDocument> {
    let mut reader = ChunkReader::new(envelope);
    let first = reader.read(Bytes::from(json.to_owned())).ok()??;
    assert!(!first.is_text());
    let chunk = reader.read(Bytes::from(json.to_owned()));
    chunk.ok().flatten().filter(ResponseDocument::is_text)
}

/// Checks that an unparsed text chunk equals the parsed one. Returns whether it is a text
/// chunk.
#[track_caller]
fn agrees(envelope: ResponseEnvelope, json: &str) -> bool {
    let bytes = Bytes::from(json.to_owned());
    let Some(mut text) = read_text(envelope, json) else {
        return false;
    };
    let mut parsed = ResponseDocument::open(bytes.clone(), envelope).unwrap();
    assert!(facts(&text) == facts(&parsed), "{json}");
    assert_eq!(text.to_wire(envelope), bytes);
    assert_eq!(parsed.to_wire(envelope), bytes);
    assert_eq!(text.to_bytes(), parsed.to_bytes());

    let (mut one, mut other) = (DelayingEditor::default(), DelayingEditor::default());
    text.edit_texts(&mut one, TextRest::MayFollow).unwrap();
    parsed.edit_texts(&mut other, TextRest::MayFollow).unwrap();

    assert!(text.is_text());
    assert_eq!(one.0, other.0, "{json}");
    assert_eq!(text.is_edited(), parsed.is_edited(), "{json}");
    let wires = (text.to_wire(envelope), parsed.to_wire(envelope));
    assert_eq!(value(&wires.0), value(&wires.1), "{json}");
    assert_eq!(value(&text.to_bytes()), value(&parsed.to_bytes()), "{json}");
    true
}

/// Objects of these fields, some of them twice or in another spelling.
fn object(fields: Vec<(&'static str, BoxedStrategy<String>)>) -> BoxedStrategy<String> {
    let field = select(fields).prop_flat_map(|(key, value)| (Just(key), value));
    let spelled = (field, 0..40_u8).prop_map(|((key, value), spelling)| {
        let key = match spelling {
            0 => key.to_ascii_uppercase(),
            1 => key.replacen(|letter: char| letter.is_ascii_uppercase(), "_x", 1),
            2 => format!("\\u{:04x}{}", key.as_bytes()[0], key.get(1..).unwrap()),
            3 => format!("_{key}"),
            _ => key.to_owned(),
        };
        let white = if spelling == 4 { " \n" } else { "" };
        format!("{white}\"{key}\":{white}{value}{white}")
    });
    let fields = prop::collection::vec(spelled, 1..4);
    fields
        .prop_map(|fields| format!("{{{}}}", fields.join(",")))
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
            .prop_map(|elements| format!("[{}]", elements.join(",")))
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
        (
            "safetyRatings",
            any_of(&["[]", r#"[{"category":"s"}]"#, r#"[{"args":{"a":1}}]"#]),
        ),
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
    fn text_chunks_equal_parsed_chunks(answer in any_answer()) {
        agrees(ResponseEnvelope::None, &answer);
    }

    #[test]
    fn text_chunks_in_an_envelope_equal_parsed_chunks(
        envelope in object(vec![
            ("response", any_answer()),
            ("response", any_answer()),
            ("traceId", any_of(&["\"s\"", "5"])),
            ("candidates", any_of(&["[]"])),
        ]),
    ) {
        agrees(ResponseEnvelope::ResponseField, &envelope);
    }
}

/// Checks that a chunk is read equally with and without a template. Returns whether it is a
/// text chunk.
#[track_caller]
fn agrees_after(previous: &str, json: &str) -> bool {
    let mut reader = ChunkReader::new(ResponseEnvelope::None);
    drop(reader.read(Bytes::from(previous.to_owned())));
    let bytes = Bytes::from(json.to_owned());
    let after = reader.read(bytes.clone()).transpose().unwrap();
    let parsed = ResponseDocument::parse(bytes.clone());
    assert_eq!(after.is_ok(), parsed.is_ok(), "{json}");
    let (Ok(after), Ok(parsed)) = (after, parsed) else {
        return false;
    };
    assert_eq!(after.to_wire(ResponseEnvelope::None), bytes);
    assert!(
        !after.is_text() || facts(&after) == facts(&parsed),
        "{json}"
    );
    after.is_text()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_template_does_not_change_the_result(
        answer in any_answer(),
        texts in [any_text(), any_text()],
        cut in any::<prop::sample::Index>(),
        put in prop_oneof![any_text(), Just("\"a\",".to_owned()), Just("\"a\"}".to_owned())],
    ) {
        let last = answer.replace("\"a s\"", &texts[0]);
        agrees_after(&last, &answer.replace("\"a s\"", &texts[1]));
        // Anywhere at all.
        let cut = cut.index(answer.len() + 1);
        if let Some((before, after)) = answer.split_at_checked(cut) {
            agrees_after(&answer, &format!("{before}{put}{after}"));
        }
    }
}

#[test]
fn a_template_fits_only_chunks_that_differ_in_text_and_token_counts() {
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
        assert!(agrees_after(&chunk("\"hi\""), &chunk(text)), "{text}");
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
        assert!(!agrees_after(&chunk("\"hi\""), &chunk(text)), "{text}");
    }
    let bare = chunk("\"hi\"").replace(r#","usageMetadata":{"n":1}"#, "");
    assert!(agrees_after(&bare, &bare));
    for behind in [bare.as_str(), "{}", " {}", "\n"] {
        assert!(!agrees_after(&bare, &format!("{bare}{behind}")), "{behind}");
    }
    let counted = |usage: &str| chunk("\"hi\"").replace(r#"{"n":1}"#, usage);
    for usage in ["{}", r#"{"n":22,"x":[{}]}"#] {
        assert!(agrees_after(&chunk("\"hi\""), &counted(usage)), "{usage}");
    }
    for usage in [
        "5",
        "[]",
        " {}",
        r#"{"n":1,"n":2}"#,
        r#"{},"promptFeedback":{}"#,
        "{",
    ] {
        assert!(!agrees_after(&chunk("\"hi\""), &counted(usage)), "{usage}");
    }
    let mut wrong = chunk("\"hii\"").into_bytes();
    let at = wrong.iter().position(|byte| *byte == b'h').unwrap();
    wrong[at] = 0xff;
    let mut reader = ChunkReader::new(ResponseEnvelope::None);
    reader.read(chunk("\"hi\"").into()).unwrap();
    assert!(reader.read(wrong.into()).is_err());
}

#[test]
fn typical_chunks_are_text_chunks() {
    for json in [
        r#"{"candidates":[{"content":{"parts":[{"text":"hi s"}],"role":"model"},"index":0}],"modelVersion":"gemini-2.5-flash"}"#,
        r#" { "candidates": [ { "content": { "parts": [ { "text": "h\u00e9\n" } ] } } ], "usageMetadata": {"promptTokenCount": 1, "x": [1]}, "modelVersion": "m", "responseId": "r" } "#,
        r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true,"thoughtSignature":"x"}]}}]}"#,
        r#"{"model_version":"m","candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"safetyRatings":[{"category":"c","probability":"LOW","blocked":false}]}]}"#,
    ] {
        assert!(agrees(ResponseEnvelope::None, json), "{json}");
        let wrapped = format!("{{\"response\":{json},\"traceId\":\"t\"}}");
        assert!(
            agrees(ResponseEnvelope::ResponseField, &wrapped),
            "{wrapped}"
        );
        assert!(!agrees(ResponseEnvelope::None, &wrapped), "{wrapped}");
        assert!(!agrees(ResponseEnvelope::ResponseField, json), "{json}");
    }
}

#[test]
fn chunks_with_anything_else_are_parsed() {
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
        assert!(!agrees(ResponseEnvelope::None, &chunk(part)), "{part}");
    }
    let good = chunk(r#"{"text":"a"}"#);
    assert!(agrees(ResponseEnvelope::None, &good));
    for json in [
        format!("\u{feff}{good}"),
        format!("{good}{good}"),
        good.strip_suffix('}').unwrap().to_owned(),
        good.replace("\"index\":0", "\"index\":1"),
        good.replace("\"index\":0", "\"finishReason\":\"STOP\""),
        good.replace("[{\"content\"", "[{},{\"content\""),
        good.replacen('{', "{\"candidates\":[],", 1),
        good.replace("}]}", "},{\"text\":\"b\"}]}"),
    ] {
        assert!(!agrees(ResponseEnvelope::None, &json), "{json}");
    }
}
