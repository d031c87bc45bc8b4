//! Assigns a request to one of two configs while one of them is rolled out.

use axum::extract::Request;
use bytes::Bytes;
use http::request::Parts;
use serde_json::Value;

use crate::{
    config::RolloutUnit,
    dialect::{self, Api, RequestLine},
    middleware::Authenticated,
    proxy::{
        request_body,
        session_name::{self, SessionName},
    },
    upstream::content_headers::{self, ContentEncoding, MediaType},
};

/// JSON pointers to the conversation of a request, in the bodies of all APIs.
const CONVERSATIONS: [&str; 6] = [
    "/contents",
    "/request/contents",
    "/messages",
    "/input",
    // Counts of tokens.
    "/generateContentRequest/contents",
    "/generate_content_request/contents",
];

/// Keys of texts in the items of a conversation, and of lists of such items.
const TEXTS: [&str; 3] = ["text", "content", "parts"];

/// Replaces the snapshot of a request by that of its session. Without a name in path or headers,
/// the body is read here: for the name in it, or else for the text of the first prompt. A request
/// whose body breaks off or is late is assigned by its caller, and fails when it is read again.
pub(in crate::proxy) async fn assign(
    unit: RolloutUnit,
    mut authenticated: Authenticated,
    request: Box<Request>,
) -> (Authenticated, Box<Request>) {
    let (mut head, mut body) = request.into_parts();
    let snapshot = &authenticated.snapshot;
    let config = &snapshot.config;
    // A malformed name is refused later.
    let named = session_name::split(head.uri.path(), &head.headers);
    let named = named.ok().and_then(|(_, name)| name);
    let session = match (unit, named) {
        (RolloutUnit::Session, Some(name)) => name.id,
        (RolloutUnit::Session, None) if has_readable_conversation(&head, config.limits.body) => {
            let (read, same) = request_body::preload(body, &mut head, &config.limits).await;
            body = same;
            let api = snapshot.configured_api(authenticated.named_api);
            let name =
                |read: &Bytes| name_in_body(&head, api, read).unwrap_or_else(|| first_prompt(read));
            read.as_ref().map(name).unwrap_or_default()
        }
        (RolloutUnit::Session, None) | (RolloutUnit::Caller, _) => String::new(),
    };
    let caller = authenticated.identity.caller();
    authenticated.snapshot = authenticated.snapshot.for_session(&caller.key, &session);
    (authenticated, Box::new(Request::from_parts(head, body)))
}

/// Returns whether the body is JSON that can be read here and again later.
fn has_readable_conversation(head: &Parts, limit: usize) -> bool {
    let length = request_body::content_length(&head.headers);
    length.is_some_and(|length| (1..=limit).contains(&length))
        && content_headers::media_type(&head.headers) == MediaType::Json
        && content_headers::encoding(&head.headers) == ContentEncoding::Identity
}

/// Returns the name that the body gives its session.
fn name_in_body(head: &Parts, api: Option<Api>, body: &Bytes) -> Option<String> {
    let dialect = dialect::dialect_of(RequestLine {
        method: &head.method,
        path: head.uri.path(),
        query: "",
        api,
    });
    // A body that cannot be read is refused later.
    let body = dialect.parse_request(body.clone()).ok()?;
    let name = SessionName::in_body(dialect, &body).ok()?;
    name.map(|name| name.id)
}

/// Returns the text of the first prompt of a user; empty if there is none, or if the request
/// continues an earlier response, whose prompts it lacks. Cache marks and other fields, which
/// agents move, do not belong to it.
fn first_prompt(body: &Bytes) -> String {
    let body = str::from_utf8(body)
        .ok()
        .and_then(|text| dialect::parse(text).ok());
    let body = body.unwrap_or_default();
    if let Some(Value::String(_)) = body.get("previous_response_id") {
        return String::new();
    }
    let conversation = CONVERSATIONS
        .iter()
        .find_map(|pointer| body.pointer(pointer));
    let mut text = String::new();
    match conversation {
        Some(Value::Array(items)) => {
            let is_users = |item: &&Value| {
                let role = item.get("role").and_then(Value::as_str);
                matches!(role, None | Some("user"))
            };
            if let Some(item) = items.iter().find(is_users) {
                collect_text(item, &mut text);
            }
        }
        Some(Value::String(prompt)) => text.clone_from(prompt),
        _ => (),
    }
    text
}

fn collect_text(item: &Value, text: &mut String) {
    match item {
        Value::String(part) => text.push_str(part),
        Value::Array(items) => items.iter().for_each(|item| collect_text(item, text)),
        Value::Object(fields) => {
            let parts = TEXTS.iter().filter_map(|key| fields.get(*key));
            parts.for_each(|part| collect_text(part, text));
        }
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_prompt_is_the_same_in_later_requests() {
        let later = json!([{ "role": "model", "parts": [{ "text": "yes" }] }]);
        let bodies = [
            json!({ "contents": [{ "role": "user", "parts": [{ "text": "fix it" }] }, later] }),
            json!({ "request": { "contents": [{ "parts": [{ "text": "fix it" }] }] } }),
            json!({ "generateContentRequest": {
                "contents": [{ "parts": [{ "text": "fix it" }] }] } }),
            json!({ "messages": [
                { "role": "system", "content": "You are an agent." },
                { "role": "user", "content": "fix it" }] }),
            json!({ "messages": [{ "role": "user", "content": [
                { "type": "text", "text": "fix it", "cache_control": { "type": "ephemeral" } }] }] }),
            json!({ "input": "fix it" }),
            json!({ "input": [{ "role": "user", "content": [
                { "type": "input_text", "text": "fix it" }] }] }),
        ];
        for body in bodies {
            assert_eq!(first_prompt(&body.to_string().into()), "fix it", "{body}");
        }
        assert_eq!(first_prompt(&"no JSON".into()), "");
        assert_eq!(first_prompt(&"{}".into()), "");
        let continued = r#"{"input":"go on","previous_response_id":"resp_1"}"#;
        assert_eq!(first_prompt(&continued.into()), "");
    }
}
