//! Bodies that two parsers could read in two ways.

use super::{Door, JSON, SECRET, assert_stopped, masked};

/// A trick: its name, the error, and what it makes of a body.
type Trick = (&'static str, &'static str, fn(Door) -> Vec<u8>);

const TRICKS: &[Trick] = &[
    ("a text twice, the secret last", "AMBIGUOUS", |it| {
        part(it, r#"{"text":"x","text":"SECRET-4711"}"#)
    }),
    ("a text twice, the secret first", "AMBIGUOUS", |it| {
        part(it, r#"{"text":"SECRET-4711","text":"x"}"#)
    }),
    ("a text twice, once in escapes", "AMBIGUOUS", |it| {
        part(it, r#"{"text":"x","\u0074ext":"SECRET-4711"}"#)
    }),
    ("a text twice, once in capitals", "AMBIGUOUS", |it| {
        part(it, r#"{"text":"x","TEXT":"SECRET-4711"}"#)
    }),
    ("a list of parts twice", "AMBIGUOUS", |it| {
        swap(it, "\"parts\":", "\"parts\":[{\"text\":\"x\"}],\"parts\":")
    }),
    ("a field that hooks do not read, twice", "AMBIGUOUS", |it| {
        part(it, r#"{"text":"x","new":{"a":{"b":1,"b":2}}}"#)
    }),
    ("both spellings of a call", "AMBIGUOUS", |it| {
        part(
            it,
            r#"{"functionCall":{"name":"f"},"function_call":{"name":"rm"}}"#,
        )
    }),
    ("both spellings of media", "AMBIGUOUS", |it| {
        part(it, r#"{"inlineData":{},"inline_data":{}}"#)
    }),
    ("both spellings at the top", "AMBIGUOUS", |it| {
        top(it, r#""generationConfig":{},"generation_config":{}"#)
    }),
    ("both spellings in a config", "AMBIGUOUS", |it| {
        top(it, r#""generationConfig":{"topK":1,"top_k":2}"#)
    }),
    ("both spellings, one in escapes", "AMBIGUOUS", |it| {
        top(it, r#""toolConfig":{},"tool\u005fconfig":{}"#)
    }),
    ("an argument twice", "AMBIGUOUS", |it| {
        part(
            it,
            r#"{"functionCall":{"name":"f","args":{"x":[{"a":1,"a":"SECRET-4711"}]}}}"#,
        )
    }),
    ("a key of a schema twice", "AMBIGUOUS", |it| {
        top(
            it,
            r#""tools":[{"functionDeclarations":[{"parametersJsonSchema":{"type":1,"type":2}}]}]"#,
        )
    }),
    ("one of many keys twice", "AMBIGUOUS", |it| {
        let many: Vec<String> = (0..100).map(|it| format!("\"k{it}\":0")).collect();
        top(it, &format!("{},\"k50\":1", many.join(",")))
    }),
    ("a field in capitals", "BAD_DOCUMENT", |it| {
        swap(it, "\"parts\":", "\"Parts\":")
    }),
    ("a text in capitals", "BAD_DOCUMENT", |it| {
        part(it, r#"{"Text":"SECRET-4711"}"#)
    }),
    ("a second document", "BAD_JSON", |it| {
        [it.saying(r#"{"text":"x"}"#), it.honest()]
            .concat()
            .into_bytes()
    }),
    ("a zero byte behind", "BAD_JSON", |it| behind(it, b"\0")),
    ("a comment behind", "BAD_JSON", |it| behind(it, b"// x")),
    ("another space behind", "BAD_JSON", |it| {
        behind(it, "\u{a0}".as_bytes())
    }),
    ("a byte order mark", "BAD_JSON", |it| {
        [b"\xef\xbb\xbf", it.honest().as_bytes()].concat()
    }),
    ("UTF-16", "BAD_JSON", |it| {
        let units = it.honest();
        units.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }),
    ("UTF-32", "BAD_JSON", |it| {
        let text = it.honest();
        text.chars()
            .flat_map(|it| u32::from(it).to_be_bytes())
            .collect()
    }),
    ("Latin-1", "BAD_JSON", |it| {
        let [before, after] = cut(it, "SECRET");
        [before.as_bytes(), b"\xe9SECRET", after.as_bytes()].concat()
    }),
    ("a letter spelled too long", "BAD_JSON", |it| {
        let [before, after] = cut(it, "SECRET");
        [before.as_bytes(), b"\xc1\x93ECRET", after.as_bytes()].concat()
    }),
    ("half of a surrogate pair", "BAD_JSON", |it| {
        part(it, r#"{"text":"SECRET-4711\ud83d"}"#)
    }),
    ("a pair the wrong way round", "BAD_JSON", |it| {
        part(it, r#"{"text":"SECRET-4711\ude00\ud83d"}"#)
    }),
    ("half of a surrogate pair in a key", "BAD_JSON", |it| {
        top(it, r#""\ud800":1"#)
    }),
    ("a key that ends early in C", "BAD_JSON", |it| {
        top(
            it,
            r#""contents\u0000":[{"parts":[{"text":"SECRET-4711"}]}]"#,
        )
    }),
    ("too deep", "BAD_JSON", |it| {
        let deep = "[".repeat(64) + &"]".repeat(64);
        top(it, &format!("\"x\":{deep}"))
    }),
    ("far too deep", "BAD_JSON", |it| {
        top(it, &format!("\"x\":{}", "[{\"a\":".repeat(100_000)))
    }),
    ("NaN", "BAD_JSON", |it| top(it, "\"temperature\":NaN")),
    ("a plus", "BAD_JSON", |it| top(it, "\"x\":+1")),
    ("hexadecimal", "BAD_JSON", |it| top(it, "\"x\":0x1")),
    ("octal", "BAD_JSON", |it| top(it, "\"x\":01")),
    ("a comma too many", "BAD_JSON", |it| top(it, "\"x\":[1,]")),
    ("a comment", "BAD_JSON", |it| top(it, "\"x\":1/* y */")),
    ("single quotes", "BAD_JSON", |it| top(it, "'x':1")),
    ("a bare key", "BAD_JSON", |it| top(it, "x:1")),
    ("a line end in a string", "BAD_JSON", |it| {
        part(it, "{\"text\":\"SECRET-4711\n\"}")
    }),
    ("an escape of one parser", "BAD_JSON", |it| {
        part(it, r#"{"text":"\x53ECRET-4711"}"#)
    }),
    ("a key of serde_json", "BAD_JSON", |it| {
        top(it, r#""x":{"\u0024serde_json::private::Number":"1"}"#)
    }),
    ("a string around the body", "BAD_JSON", |it| {
        serde_json::to_vec(&it.honest()).unwrap()
    }),
    ("a list around the body", "BAD_JSON", |it| {
        format!("[{}]", it.honest()).into_bytes()
    }),
    ("nothing", "BAD_JSON", |_| Vec::new()),
    ("half of it", "BAD_JSON", |it| {
        let mut body = it.honest().into_bytes();
        body.truncate(body.len() - 3);
        body
    }),
];

/// The body with another part.
fn part(door: Door, part: &str) -> Vec<u8> {
    door.saying(part).into_bytes()
}

/// The body with more fields in front.
fn top(door: Door, fields: &str) -> Vec<u8> {
    let honest = door.honest();
    let body = honest.strip_prefix('{').unwrap();
    format!("{{{fields},{body}").into_bytes()
}

fn swap(door: Door, from: &str, to: &str) -> Vec<u8> {
    let honest = door.honest();
    assert!(honest.contains(from));
    honest.replacen(from, to, 1).into_bytes()
}

fn behind(door: Door, bytes: &[u8]) -> Vec<u8> {
    [door.honest().as_bytes(), bytes].concat()
}

fn cut(door: Door, at: &str) -> [String; 2] {
    let honest = door.honest();
    let (before, after) = honest.split_once(at).unwrap();
    [before.to_owned(), after.to_owned()]
}

#[tokio::test]
async fn an_ambiguous_body_reaches_no_upstream() {
    let (upstream, gate) = masked().await;
    for door in Door::all() {
        for (name, reason, trick) in TRICKS {
            let answer = door.post(&gate, JSON, &trick(door)).await;

            let what = format!("{name}: {}", door.path());
            assert_stopped(&upstream, &answer, (400, reason), &what);
            let said = String::from_utf8_lossy(&answer.body);
            assert!(!said.contains(SECRET), "{what}: {said}");
        }
    }
}

/// A count of a whole request, which names this model.
fn wrapped(door: Door, model: &str) -> Vec<u8> {
    let inner = door.honest();
    let inner = inner.strip_prefix('{').unwrap();
    let request = format!("{{\"model\":\"{model}\",{inner}");
    format!("{{\"generateContentRequest\":{request}}}").into_bytes()
}

#[tokio::test]
async fn a_body_that_names_another_model_than_its_path_reaches_no_upstream() {
    let (upstream, gate) = masked().await;
    for door in Door::all().filter(|it| !it.way.wraps) {
        for other in [
            "other",
            "models/other",
            "projects/q/locations/l/publishers/google/models/m",
            "",
            "m/../o",
        ] {
            let names = match door.method {
                "batchEmbedContents" => swap(door, "\"models/m\"", &format!("\"{other}\"")),
                "countTokens" => wrapped(door, other),
                _ => top(door, &format!("\"model\":\"{other}\"")),
            };

            let answer = door.post(&gate, JSON, &names).await;

            let what = format!("{other}: {}", door.path());
            assert_stopped(&upstream, &answer, (400, "AMBIGUOUS"), &what);
            let message = "`model` does not match the model in the path";
            let said = String::from_utf8_lossy(&answer.body);
            assert!(said.contains(message), "{what}: {said}");
        }
    }
}

#[tokio::test]
async fn keys_that_anybody_names_may_differ_in_spelling_alone() {
    let (upstream, gate) = masked().await;
    let body = r#"{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f",
        "args":{"file_path":1,"filePath":2,"FILEPATH":3}}}]},
        {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"a_b":1,"aB":2}}}]}],
        "tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":
        {"properties":{"file_path":{},"filePath":{}}}}]}]}"#;

    let answer = gate
        .agent()
        .post("/v1/models/m:generateContent", body)
        .await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(upstream.only().body, body);
}
