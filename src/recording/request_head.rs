//! Heads of requests and responses without credentials. Pure.

use http::{HeaderMap, HeaderName};

use crate::dialect;

/// Headers of requests that have an effect on hookgate or on the meaning of the body. None of
/// them holds a credential.
const REQUEST_HEADERS: [&str; 17] = [
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "openai-beta",
    "originator",
    "session-id",
    "thread-id",
    "user-agent",
    "x-app",
    "x-claude-code-agent-id",
    "x-claude-code-session-id",
    "x-codex-turn-metadata",
    "x-goog-api-client",
    "x-hookgate-session",
    "x-session-id",
    "version",
];

/// Those of them that name a session or a sub-agent.
pub(super) const SESSION_HEADERS: [&str; 6] = [
    "session-id",
    "thread-id",
    "x-claude-code-agent-id",
    "x-claude-code-session-id",
    "x-hookgate-session",
    "x-session-id",
];

/// Headers of responses that describe the body.
const RESPONSE_HEADERS: [&str; 3] = ["content-type", "content-encoding", "retry-after"];

/// Parameters that calls may have and that are credentials.
const CREDENTIAL_PARAMETERS: [&str; 2] = ["key", "upload_id"];

/// Returns the headers of a request that have an effect.
pub(super) fn request_head(headers: &HeaderMap) -> Vec<(String, String)> {
    listed(headers, &REQUEST_HEADERS)
}

/// Returns the headers of a response that describe its body.
pub(super) fn response_head(headers: &HeaderMap) -> Vec<(String, String)> {
    listed(headers, &RESPONSE_HEADERS)
}

/// Returns the headers with these names.
fn listed(headers: &HeaderMap, names: &[&'static str]) -> Vec<(String, String)> {
    let names = names.iter().map(|name| HeaderName::from_static(name));
    let all = names.flat_map(|name| {
        let values = headers.get_all(&name).into_iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        texts.map(move |text| (name.to_string(), text.to_owned()))
    });
    all.collect()
}

/// Returns path and query without the parameters that are credentials, and without the values of
/// those that no call may have: they may be credentials, too.
pub(super) fn without_credentials(target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            _ if CREDENTIAL_PARAMETERS.contains(&name) => None,
            _ if dialect::is_accepted_parameter(name, value) => Some(pair.to_owned()),
            _ => Some(format!("{name}=")),
        }
    });
    let query = pairs.collect::<Vec<String>>().join("&");
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_with_credentials_and_unknown_values_are_removed() {
        for (target, expected) in [
            (
                "/v1/models/m:generate?alt=sse&key=K",
                "/v1/models/m:generate?alt=sse",
            ),
            ("/v1?%6bey=K", "/v1?%6bey="),
            ("/v1?KEY=K&a=b&&oauth_token", "/v1?KEY=&a=&oauth_token="),
            ("/v1?pageToken=P&order=a;key=K", "/v1?pageToken=P&order="),
            ("/v1", "/v1"),
        ] {
            assert_eq!(without_credentials(target), expected);
        }
    }
}
