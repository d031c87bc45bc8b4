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

/// Parameters that are forwarded to Google's APIs for calls without hooks.
const GOOGLE_UNINSPECTED: [&str; 12] = [
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

/// Parameters that are forwarded to the other APIs for calls without hooks.
const OTHERS_UNINSPECTED: [&str; 23] = [
    "after",
    "after_id",
    "before",
    "before_id",
    "client_version",
    "filter",
    "include",
    "include%5B%5D",
    "include[]",
    "include_obfuscation",
    "limit",
    "model",
    "name",
    "order",
    "order_by",
    "page",
    "purpose",
    "run_id",
    "source",
    "starting_after",
    "status",
    "stream",
    "variant",
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

/// Returns whether calls of some API have a parameter with this name and such a value.
pub fn is_accepted_parameter(name: &str, value: &str) -> bool {
    let lists = [
        &["alt", "beta"],
        FORWARDED.as_slice(),
        &GOOGLE_UNINSPECTED,
        &OTHERS_UNINSPECTED,
    ];
    lists.iter().any(|names| names.contains(&name)) && is_url_safe(value)
}

/// Returns whether the parameters ask for a stored response as a stream.
///
/// # Errors
///
/// Fails for a value that servers could read differently.
pub fn asks_for_stream(forwarded: &[String]) -> Result<bool, RequestLineError> {
    let mut values = forwarded.iter();
    match values.find_map(|pair| pair.strip_prefix("stream")) {
        None | Some("=false") => Ok(false),
        Some("=true") => Ok(true),
        Some(_) => Err(RequestLineError::Query("stream".to_owned())),
    }
}

fn is_forwarded(name: &str, value: &str, api: Api, operation: Operation) -> bool {
    match (operation, name) {
        // Claude Code and beta clients mark every call.
        (_, "beta") if !api.is_google() => value == "true",
        (Operation::Other, name) if !api.is_google() => OTHERS_UNINSPECTED.contains(&name),
        _ if !api.is_google() => false,
        _ if FORWARDED.contains(&name) => true,
        (Operation::Other, "alt") => matches!(value, "sse" | "media"),
        (Operation::Other, name) => GOOGLE_UNINSPECTED.contains(&name),
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
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%+=/:@[]".contains(&byte);
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
    fn parameters_of_calls_that_are_not_inspected_are_forwarded() {
        for text in [
            "purpose=batch&limit=2&order=asc&after=file_1",
            "stream=true&starting_after=3&include_obfuscation=false",
            "include[]=message.input_image.image_url",
            "include%5B%5D=file_search_call.results",
        ] {
            let query = super::parse(text, Api::OpenAiResponses, Operation::Other).unwrap();
            assert_eq!(query.forwarded.join("&"), text);
            let inspected = super::parse(text, Api::OpenAiResponses, Operation::Generate);
            assert!(inspected.is_err(), "{text}");
        }
        let unknown = super::parse("alt=sse", Api::OpenAiResponses, Operation::Other);
        assert!(unknown.is_err());
    }

    #[test]
    fn a_stored_response_is_streamed_if_its_query_says_so() {
        let asks = |parameter: &str| asks_for_stream(&[parameter.to_owned()]);
        assert_eq!(asks("include_obfuscation=true").ok(), Some(false));
        assert_eq!(asks("stream=false").ok(), Some(false));
        assert_eq!(asks("stream=true").ok(), Some(true));
        for ambiguous in ["stream", "stream=", "stream=1", "stream=True"] {
            assert!(asks(ambiguous).is_err(), "{ambiguous}");
        }
    }

    #[test]
    fn the_documentation_lists_the_parameters() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md");
        let page = std::fs::read_to_string(file).unwrap();
        let (_, section) = page.split_once("\n## Query parameters\n").unwrap();
        let (section, _) = section.split_once("\n## ").unwrap();
        let row = |requests: &str| {
            let start = format!("| {requests} | ");
            let mut lines = section.lines();
            lines.find(|line| line.starts_with(&start)).unwrap()
        };
        let lists_all = |requests: &str, names: &[&str]| {
            let row = row(requests);
            for name in names.iter().filter(|name| !name.contains('%')) {
                assert!(row.contains(&format!("`{name}`")), "{name}: {row}");
            }
        };
        lists_all("to Google's APIs", &FORWARDED);
        let uninspected = "… that are not inspected, such as lists of models";
        lists_all(uninspected, &GOOGLE_UNINSPECTED);
        lists_all("… that are not inspected", &OTHERS_UNINSPECTED);
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
