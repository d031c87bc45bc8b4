//! The bound of the elements and parts of a request, for every API.

use crate::dialect::{self, RequestLine, error::Result};

/// Number of elements and of parts that is accepted.
const MAX: usize = 1 << 16;

/// Opens a request whose body has `count` elements in the place of `*`.
fn open(path: &str, body: &str, element: &str, count: usize) -> Result<()> {
    let line = RequestLine {
        method: &http::Method::POST,
        path,
        query: "",
        api: None,
    };
    let recognized = dialect::recognize_call(line).unwrap().unwrap();
    let mut call = recognized.call.unwrap();
    let dialect = dialect::of(recognized.method.api);
    let elements = vec![element; count].join(",");
    let body = dialect.parse_request(body.replacen('*', &elements, 1).into());
    dialect.open_request(&mut call, body?).map(drop)
}

#[track_caller]
fn check_refused(path: &str, body: &str, element: &str) {
    let error = open(path, body, element, MAX + 1).unwrap_err().to_string();
    assert!(error.contains("at most 65,536 elements"), "{path} {error}");
}

#[test]
fn a_google_request_of_too_many_contents_or_parts_is_refused() {
    let generate = "/v1beta/models/m:generateContent";
    let count = "/v1beta/models/m:countTokens";
    let embed = "/v1beta/models/m:embedContent";
    let batch = "/v1beta/models/m:batchEmbedContents";
    let code_assist = "/v1internal:generateContent";
    for (path, body) in [
        (generate, r#"{"contents":[*]}"#),
        (generate, r#"{"contents":[{"parts":[]},{"parts":[*]}]}"#),
        (generate, r#"{"contents":{"parts":[*]}}"#),
        (generate, r#"{"system_instruction":{"parts":[*]}}"#),
        (count, r#"{"generateContentRequest":{"contents":[*]}}"#),
        (embed, r#"{"content":{"parts":[*]}}"#),
        (batch, r#"{"requests":[*]}"#),
        (batch, r#"{"requests":[{"content":{"parts":[*]}}]}"#),
        (code_assist, r#"{"model":"m","request":{"contents":[*]}}"#),
    ] {
        check_refused(path, body, "{}");
        assert!(open(path, body, "{}", MAX).is_ok(), "{path} {body}");
    }
}

#[test]
fn a_request_of_another_api_with_too_many_messages_or_blocks_is_refused() {
    let blocks = r#"{"model":"m","messages":[{"role":"user","content":[*]}]}"#;
    for path in ["/v1/messages", "/v1/chat/completions"] {
        check_refused(path, r#"{"model":"m","messages":[*]}"#, "{}");
        check_refused(path, blocks, "{}");
    }
    let system = r#"{"model":"m","messages":[],"system":[*]}"#;
    check_refused("/v1/messages", system, "{}");
    let blocks = r#"{"model":"m","input":[{"role":"user","content":[*]}]}"#;
    check_refused("/v1/responses", blocks, "{}");
    for path in ["/v1/responses", "/v1/embeddings"] {
        check_refused(path, r#"{"model":"m","input":[*]}"#, "{}");
    }
    check_refused("/v1/completions", r#"{"model":"m","prompt":[*]}"#, "{}");
}
