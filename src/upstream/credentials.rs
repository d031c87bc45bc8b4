//! Credentials in the headers of a request to upstream: one, in the header that the API
//! takes. Pure.

use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use secrecy::ExposeSecret;

use crate::{
    authorization::bearer_token,
    config::{Secret, UpstreamCredential},
    dialect::Vendor,
};

/// API key header of Google's APIs.
const GOOGLE_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// API key header of Anthropic's APIs.
const ANTHROPIC_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Headers that choose who is billed for a call.
const ACCOUNT_HEADERS: [&str; 4] = [
    "chatgpt-account-id",
    "openai-organization",
    "openai-project",
    "x-goog-user-project",
];

/// Start of the tokens of Claude subscriptions.
const SUBSCRIPTION_TOKEN: &[u8] = b"sk-ant-oat";

/// Returns whether a header holds a key and nothing else.
pub(super) fn is_key_header(name: &HeaderName) -> bool {
    *name == GOOGLE_KEY || *name == ANTHROPIC_KEY
}

/// Replaces the agent's credentials by a configured one.
pub(super) fn replace_credentials(
    headers: &mut HeaderMap,
    vendor: Vendor,
    credential: &UpstreamCredential,
) {
    // The agent must not choose who is billed for a key that is not its own.
    for name in ACCOUNT_HEADERS {
        headers.remove(name);
    }
    for name in [AUTHORIZATION, GOOGLE_KEY, ANTHROPIC_KEY] {
        headers.remove(name);
    }
    let (name, value) = match (credential, vendor) {
        (UpstreamCredential::ApiKey(key), Vendor::Google) => (GOOGLE_KEY, key.header_value()),
        (UpstreamCredential::ApiKey(key), Vendor::Anthropic) => (ANTHROPIC_KEY, key.header_value()),
        (UpstreamCredential::ApiKey(token), Vendor::OpenAi)
        | (UpstreamCredential::Bearer(token), _) => {
            let value = Secret::from(format!("Bearer {}", token.expose_secret()));
            (AUTHORIZATION, value.header_value())
        }
    };
    if let Some(value) = value {
        headers.insert(name, value);
    }
}

/// Reduces the agent's own credentials to one where an API takes only one. Google's APIs take a
/// key beside a token, and a key in the query, which moves to its header.
pub(super) fn reduce_credentials(headers: &mut HeaderMap, vendor: Vendor, query_key: Option<&str>) {
    match vendor {
        Vendor::Google => {
            if let Some(key) = query_key.filter(|_| !headers.contains_key(GOOGLE_KEY))
                && let Ok(key) = HeaderValue::from_str(key)
            {
                headers.insert(GOOGLE_KEY, key);
            }
        }
        Vendor::Anthropic if headers.contains_key(ANTHROPIC_KEY) => {
            let value = headers.get(AUTHORIZATION);
            let token = value.and_then(|value| bearer_token(value.as_bytes()));
            let is_subscription = token.is_some_and(|token| token.starts_with(SUBSCRIPTION_TOKEN));
            headers.remove(if is_subscription {
                ANTHROPIC_KEY
            } else {
                AUTHORIZATION
            });
        }
        Vendor::Anthropic | Vendor::OpenAi => (),
    }
}
