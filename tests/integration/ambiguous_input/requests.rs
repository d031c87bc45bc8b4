//! Request bodies that two parsers could read differently.

use super::{Endpoint, JSON_HEADER, SECRET, assert_not_forwarded, masking_gateway};

/// A case: its name, the reason of the error, and the body for an endpoint.
type Case = (&'static str, &'static str, fn(Endpoint) -> Vec<u8>);

const AMBIGUOUS_BODIES: &[Case] = &[
    (
        "a duplicate text, the secret last",
        "AMBIGUOUS",
        |endpoint| with_part(endpoint, r#"{"text":"x","text":"SECRET-4711"}"#),
    ),
    (
        "a duplicate text, the secret first",
        "AMBIGUOUS",
        |endpoint| with_part(endpoint, r#"{"text":"SECRET-4711","text":"x"}"#),
    ),
    (
        "a duplicate text, one key escaped",
        "AMBIGUOUS",
        |endpoint| with_part(endpoint, r#"{"text":"x","\u0074ext":"SECRET-4711"}"#),
    ),
    (
        "a duplicate text, one key in capitals",
        "AMBIGUOUS",
        |endpoint| with_part(endpoint, r#"{"text":"x","TEXT":"SECRET-4711"}"#),
    ),
    ("a duplicate list of parts", "AMBIGUOUS", |endpoint| {
        with_replacement(
            endpoint,
            "\"parts\":",
            "\"parts\":[{\"text\":\"x\"}],\"parts\":",
        )
    }),
    (
        "a duplicate field that hooks do not read",
        "AMBIGUOUS",
        |endpoint| with_part(endpoint, r#"{"text":"x","new":{"a":{"b":1,"b":2}}}"#),
    ),
    ("two spellings of a call", "AMBIGUOUS", |endpoint| {
        with_part(
            endpoint,
            r#"{"functionCall":{"name":"f"},"function_call":{"name":"rm"}}"#,
        )
    }),
    ("two spellings of media", "AMBIGUOUS", |endpoint| {
        with_part(endpoint, r#"{"inlineData":{},"inline_data":{}}"#)
    }),
    ("two spellings at the top level", "AMBIGUOUS", |endpoint| {
        with_fields(endpoint, r#""generationConfig":{},"generation_config":{}"#)
    }),
    ("two spellings in a config", "AMBIGUOUS", |endpoint| {
        with_fields(endpoint, r#""generationConfig":{"topK":1,"top_k":2}"#)
    }),
    ("two spellings, one escaped", "AMBIGUOUS", |endpoint| {
        with_fields(endpoint, r#""toolConfig":{},"tool\u005fconfig":{}"#)
    }),
    ("a duplicate argument", "AMBIGUOUS", |endpoint| {
        with_part(
            endpoint,
            r#"{"functionCall":{"name":"f","args":{"x":[{"a":1,"a":"SECRET-4711"}]}}}"#,
        )
    }),
    ("a duplicate key of a schema", "AMBIGUOUS", |endpoint| {
        with_fields(
            endpoint,
            r#""tools":[{"functionDeclarations":[{"parametersJsonSchema":{"type":1,"type":2}}]}]"#,
        )
    }),
    ("one duplicate among many keys", "AMBIGUOUS", |endpoint| {
        let many: Vec<String> = (0..100).map(|number| format!("\"k{number}\":0")).collect();
        with_fields(endpoint, &format!("{},\"k50\":1", many.join(",")))
    }),
    ("a field in capitals", "BAD_DOCUMENT", |endpoint| {
        with_replacement(endpoint, "\"parts\":", "\"Parts\":")
    }),
    ("a field of hookgate's own", "BAD_DOCUMENT", |endpoint| {
        with_part(endpoint, r#"{"text":"x","hookgateSource":"SECRET-4711"}"#)
    }),
    (
        "a field of hookgate's own, escaped",
        "BAD_DOCUMENT",
        |endpoint| {
            with_part(
                endpoint,
                r#"{"text":"x","hookgatePrecedin\u0067":"SECRET-4711"}"#,
            )
        },
    ),
    (
        "a field of hookgate's own in a content",
        "BAD_DOCUMENT",
        |endpoint| {
            with_replacement(
                endpoint,
                "\"parts\":",
                "\"hookgateSource\":\"SECRET-4711\",\"parts\":",
            )
        },
    ),
    ("a text in capitals", "BAD_DOCUMENT", |endpoint| {
        with_part(endpoint, r#"{"Text":"SECRET-4711"}"#)
    }),
    (
        "parts beside parts whose name ends with a long s",
        "BAD_JSON",
        |endpoint| {
            let long_s = format!("\"part\u{17f}\":[{{\"text\":\"{SECRET}\"}}],\"parts\":");
            with_replacement(endpoint, "\"parts\":", &long_s)
        },
    ),
    ("an escaped Kelvin sign", "BAD_JSON", |endpoint| {
        with_fields(endpoint, r#""generationConfig":{"top\u212a":1,"topK":2}"#)
    }),
    ("a second document", "BAD_JSON", |endpoint| {
        [
            endpoint.body_with_part(r#"{"text":"x"}"#),
            endpoint.body_with_secret(),
        ]
        .concat()
        .into_bytes()
    }),
    ("a trailing zero byte", "BAD_JSON", |endpoint| {
        with_suffix(endpoint, b"\0")
    }),
    ("a trailing comment", "BAD_JSON", |endpoint| {
        with_suffix(endpoint, b"// x")
    }),
    ("a trailing no-break space", "BAD_JSON", |endpoint| {
        with_suffix(endpoint, "\u{a0}".as_bytes())
    }),
    ("a byte order mark", "BAD_JSON", |endpoint| {
        [b"\xef\xbb\xbf", endpoint.body_with_secret().as_bytes()].concat()
    }),
    ("UTF-16", "BAD_JSON", |endpoint| {
        let units = endpoint.body_with_secret();
        units.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }),
    ("UTF-32", "BAD_JSON", |endpoint| {
        let text = endpoint.body_with_secret();
        text.chars()
            .flat_map(|character| u32::from(character).to_be_bytes())
            .collect()
    }),
    ("Latin-1", "BAD_JSON", |endpoint| {
        let [before, after] = split_body(endpoint, "SECRET");
        [before.as_bytes(), b"\xe9SECRET", after.as_bytes()].concat()
    }),
    ("an overlong UTF-8 encoding", "BAD_JSON", |endpoint| {
        let [before, after] = split_body(endpoint, "SECRET");
        [before.as_bytes(), b"\xc1\x93ECRET", after.as_bytes()].concat()
    }),
    ("a lone surrogate", "BAD_JSON", |endpoint| {
        with_part(endpoint, r#"{"text":"SECRET-4711\ud83d"}"#)
    }),
    (
        "a surrogate pair in reverse order",
        "BAD_JSON",
        |endpoint| with_part(endpoint, r#"{"text":"SECRET-4711\ude00\ud83d"}"#),
    ),
    ("a lone surrogate in a key", "BAD_JSON", |endpoint| {
        with_fields(endpoint, r#""\ud800":1"#)
    }),
    ("a key with a zero byte", "BAD_JSON", |endpoint| {
        with_fields(
            endpoint,
            r#""contents\u0000":[{"parts":[{"text":"SECRET-4711"}]}]"#,
        )
    }),
    ("too deeply nested", "BAD_JSON", |endpoint| {
        let deep = "[".repeat(64) + &"]".repeat(64);
        with_fields(endpoint, &format!("\"x\":{deep}"))
    }),
    ("far too deeply nested", "BAD_JSON", |endpoint| {
        with_fields(endpoint, &format!("\"x\":{}", "[{\"a\":".repeat(100_000)))
    }),
    ("NaN", "BAD_JSON", |endpoint| {
        with_fields(endpoint, "\"temperature\":NaN")
    }),
    ("a plus sign", "BAD_JSON", |endpoint| {
        with_fields(endpoint, "\"x\":+1")
    }),
    ("hexadecimal", "BAD_JSON", |endpoint| {
        with_fields(endpoint, "\"x\":0x1")
    }),
    ("octal", "BAD_JSON", |endpoint| {
        with_fields(endpoint, "\"x\":01")
    }),
    ("a trailing comma", "BAD_JSON", |endpoint| {
        with_fields(endpoint, "\"x\":[1,]")
    }),
    ("a comment", "BAD_JSON", |endpoint| {
        with_fields(endpoint, "\"x\":1/* y */")
    }),
    ("single quotes", "BAD_JSON", |endpoint| {
        with_fields(endpoint, "'x':1")
    }),
    ("an unquoted key", "BAD_JSON", |endpoint| {
        with_fields(endpoint, "x:1")
    }),
    ("a line break in a string", "BAD_JSON", |endpoint| {
        with_part(endpoint, "{\"text\":\"SECRET-4711\n\"}")
    }),
    (
        "an escape that JSON does not have",
        "BAD_JSON",
        |endpoint| with_part(endpoint, r#"{"text":"\x53ECRET-4711"}"#),
    ),
    ("a private key of serde_json", "BAD_JSON", |endpoint| {
        with_fields(endpoint, r#""x":{"\u0024serde_json::private::Number":"1"}"#)
    }),
    ("a string around the body", "BAD_JSON", |endpoint| {
        serde_json::to_vec(&endpoint.body_with_secret()).unwrap()
    }),
    ("a list around the body", "BAD_JSON", |endpoint| {
        format!("[{}]", endpoint.body_with_secret()).into_bytes()
    }),
    ("an empty body", "BAD_JSON", |_| Vec::new()),
    ("a truncated body", "BAD_JSON", |endpoint| {
        let mut body = endpoint.body_with_secret().into_bytes();
        body.truncate(body.len() - 3);
        body
    }),
];

/// The body with this part.
fn with_part(endpoint: Endpoint, part: &str) -> Vec<u8> {
    endpoint.body_with_part(part).into_bytes()
}

/// The body with more fields at its start.
fn with_fields(endpoint: Endpoint, fields: &str) -> Vec<u8> {
    let original = endpoint.body_with_secret();
    let body = original.strip_prefix('{').unwrap();
    format!("{{{fields},{body}").into_bytes()
}

/// The body with one text replaced.
fn with_replacement(endpoint: Endpoint, from: &str, to: &str) -> Vec<u8> {
    let body = endpoint.body_with_secret();
    assert!(body.contains(from));
    body.replacen(from, to, 1).into_bytes()
}

/// The body followed by these bytes.
fn with_suffix(endpoint: Endpoint, bytes: &[u8]) -> Vec<u8> {
    [endpoint.body_with_secret().as_bytes(), bytes].concat()
}

/// The body before and after this text.
fn split_body(endpoint: Endpoint, at: &str) -> [String; 2] {
    let body = endpoint.body_with_secret();
    let (before, after) = body.split_once(at).unwrap();
    [before.to_owned(), after.to_owned()]
}

#[tokio::test]
async fn an_ambiguous_body_reaches_no_upstream() {
    let (upstream, gateway) = masking_gateway().await;
    for endpoint in Endpoint::all() {
        for (name, reason, body_for) in AMBIGUOUS_BODIES {
            let answer = endpoint
                .post(&gateway, JSON_HEADER, &body_for(endpoint))
                .await;

            let case = format!("{name}: {}", endpoint.path());
            assert_not_forwarded(&upstream, &answer, (400, reason), &case);
            let error = String::from_utf8_lossy(&answer.body);
            assert!(!error.contains(SECRET), "{case}: {error}");
        }
    }
}

/// A `countTokens` body around a complete request that names this model.
fn wrapped_request(endpoint: Endpoint, model: &str) -> Vec<u8> {
    let inner = endpoint.body_with_secret();
    let inner = inner.strip_prefix('{').unwrap();
    let request = format!("{{\"model\":\"{model}\",{inner}");
    format!("{{\"generateContentRequest\":{request}}}").into_bytes()
}

#[tokio::test]
async fn a_body_that_names_another_model_than_its_path_reaches_no_upstream() {
    let (upstream, gateway) = masking_gateway().await;
    for endpoint in Endpoint::all().filter(|endpoint| !endpoint.route.has_envelope) {
        for other in [
            "other",
            "models/other",
            "projects/q/locations/l/publishers/google/models/m",
            "",
            "m/../o",
        ] {
            let body = match endpoint.method {
                "batchEmbedContents" => {
                    with_replacement(endpoint, "\"models/m\"", &format!("\"{other}\""))
                }
                "countTokens" => wrapped_request(endpoint, other),
                _ => with_fields(endpoint, &format!("\"model\":\"{other}\"")),
            };

            let answer = endpoint.post(&gateway, JSON_HEADER, &body).await;

            let case = format!("{other}: {}", endpoint.path());
            assert_not_forwarded(&upstream, &answer, (400, "AMBIGUOUS"), &case);
            let message = "`model` does not match the model in the path";
            let error = String::from_utf8_lossy(&answer.body);
            assert!(error.contains(message), "{case}: {error}");
        }
    }
}

#[tokio::test]
async fn user_defined_keys_that_differ_only_in_spelling_are_accepted() {
    let (upstream, gateway) = masking_gateway().await;
    let body = r#"{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f",
        "args":{"file_path":1,"filePath":2,"FILEPATH":3}}}]},
        {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"a_b":1,"aB":2}}}]}],
        "tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":
        {"properties":{"file_path":{},"filePath":{}}}}]}]}"#;

    let answer = gateway
        .agent()
        .post("/v1/models/m:generateContent", body)
        .await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(upstream.only_request().body, body);
}
