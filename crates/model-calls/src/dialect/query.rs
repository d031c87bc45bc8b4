//! Parsing of query parameters.
//!
//! Names and values are compared as sent: a percent-encoded name is unknown, and
//! unknown parameters are refused.

use crate::dialect::{
    error::RequestLineError,
    method::{Api, Framing, Operation},
};

/// Parameters that are forwarded for every call. None changes the meaning of a request.
const FORWARDED: [&str; 4] = ["pageSize", "pageToken", "prettyPrint", "quotaUser"];

/// Parameters that are forwarded for calls without hooks.
const FORWARDED_UNINSPECTED: [&str; 12] = [
    "filter",
    "force",
    "include_input",
    "last_event_id",
    "orderBy",
    "returnPartialSuccess",
    "stream",
    "updateMask",
    "uploadType",
    "upload_id",
    "upload_protocol",
    "view",
];

/// Parameters of lists, which are forwarded to APIs other than Google's.
const FORWARDED_OF_LISTS: [&str; 7] = [
    "after",
    "after_id",
    "before",
    "before_id",
    "client_version",
    "limit",
    "order",
];

/// A parsed query without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Framing of a stream.
    pub framing: Framing,
    /// Parameters to forward, as sent. Holds no credential.
    pub forwarded: Vec<String>,
}

/// Parses the query of a call, without its `?`.
pub fn parse(text: &str, api: Api, operation: Operation) -> Result<Query, RequestLineError> {
    let mut framing = Framing::Array;
    let mut forwarded = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if seen.contains(&name) {
            return Err(RequestLineError::Twice(name.to_owned()));
        }
        seen.push(name);
        match (name, value) {
            // `key` is a credential, which is forwarded in a header.
            ("key", _) | ("alt", "json" | "") if api.is_google() => (),
            ("alt", "sse") if api.is_google() && operation != Operation::Other => {
                framing = Framing::Sse;
            }
            _ if is_forwarded(name, value, api, operation) && is_url_safe(value) => {
                forwarded.push(pair.to_owned());
            }
            _ => return Err(RequestLineError::Query(name.to_owned())),
        }
    }
    Ok(Query { framing, forwarded })
}

fn is_forwarded(name: &str, value: &str, api: Api, operation: Operation) -> bool {
    match (operation, name) {
        // Claude Code and beta clients mark every call.
        (_, "beta") if !api.is_google() => value == "true",
        (Operation::Other, name) if !api.is_google() => FORWARDED_OF_LISTS.contains(&name),
        _ if !api.is_google() => false,
        _ if FORWARDED.contains(&name) => true,
        (Operation::Other, "alt") => matches!(value, "sse" | "media"),
        (Operation::Other, name) => FORWARDED_UNINSPECTED.contains(&name),
        // Only the lifetime of cached content may change. A field that the mask names and
        // the body lacks would be deleted.
        (Operation::UseCache, "updateMask") => {
            matches!(value, "ttl" | "expireTime" | "expire_time")
        }
        _ => false,
    }
}

/// Returns whether a value can be placed in a URL without ending its parameter.
fn is_url_safe(value: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%+=/:@".contains(&byte);
    value.bytes().all(is_safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Query, RequestLineError> {
        super::parse(text, Api::Gemini, Operation::Stream(Framing::Array))
    }

    #[test]
    fn known_parameters_are_parsed_and_forwarded_ones_keep_their_spelling() {
        let query = parse("key=S%26&&alt=sse&pageToken=a%2Bb%3D%3D&prettyPrint=").unwrap();
        assert_eq!(query.framing, Framing::Sse);
        assert_eq!(query.forwarded, ["pageToken=a%2Bb%3D%3D", "prettyPrint="]);
        assert_eq!(parse("alt=json").unwrap().framing, Framing::Array);
        assert_eq!(parse("").unwrap().forwarded, [""; 0]);
    }

    #[test]
    fn ambiguous_or_unknown_parameters_are_refused() {
        for text in [
            "alt=sse&alt=json",
            "key=a&key=b",
            "key=a&alt=sse&key=a",
            "pageSize=1&pageSize=2",
            "alt=proto",
            "alt=SSE",
            "alt=sse%00",
            "a%6ct=sse",
            "Alt=sse",
            "alt",
            "$alt=sse",
            "$httpMethod=GET",
            "%24httpMethod=GET",
            "$.xgafv=1",
            "$ct=x",
            "$req=x",
            "fields=candidates",
            "$fields=x",
            "callback=f",
            "access_token=t",
            "oauth_token=t",
            "uploadType=media",
            "upload_protocol=raw",
            "x",
            "=",
            "pageToken=a;alt=proto",
            "pageToken=a#b",
            "quotaUser=a?b",
        ] {
            let refused = parse(text).is_err();
            // `alt` without a value means what its absence means.
            assert!(refused || text == "alt", "{text}");
        }
    }
}
