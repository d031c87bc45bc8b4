//! Which headers travel, and under whose name. Pure.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{self, ACCEPT_ENCODING, AUTHORIZATION},
};
use secrecy::ExposeSecret;

use crate::{config::Credential, event::Trace};

/// Where Google's APIs look for a key.
const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Which span a request belongs to.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Which library an agent calls with.
const API_CLIENT: HeaderName = HeaderName::from_static("x-goog-api-client");

/// Which project an agent wants to pay for its calls.
const USER_PROJECT: &str = "x-goog-user-project";

/// Whether somebody here must read the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseUse {
    /// Read: it must not be compressed.
    Parsed,
    /// Passed on: gzip if the agent takes it.
    PassedThrough,
}

/// The headers for upstream: those on the list, with one credential.
///
/// `own` stands in for whatever credential the agent has; `query_key` is
/// the agent's key if it came in the query. An empty key counts as none.
pub fn request_headers(
    agent: &HeaderMap,
    own: Option<&Credential>,
    query_key: Option<&str>,
    answer: ResponseUse,
) -> HeaderMap {
    let mut out = HeaderMap::with_capacity(agent.len() + 1);
    for (name, value) in agent {
        if travels(name) && !(*name == API_KEY && value.is_empty()) {
            out.append(name, value.clone());
        }
    }
    if let Some(own) = own {
        out.remove(AUTHORIZATION);
        out.remove(API_KEY);
        // Whose project pays is not the agent's to choose, where the key is not.
        out.remove(USER_PROJECT);
        show(&mut out, own);
    } else if let Some(key) = query_key.filter(|_| !out.contains_key(API_KEY)) {
        set(&mut out, API_KEY, key);
    }
    let encodings = agent.get_all(ACCEPT_ENCODING).iter();
    let mut texts = encodings.filter_map(|it| it.to_str().ok());
    let takes_gzip = texts.any(|it| it.contains("gzip"));
    let encoding = match answer {
        ResponseUse::PassedThrough if takes_gzip => "gzip",
        ResponseUse::PassedThrough | ResponseUse::Parsed => "identity",
    };
    out.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
    out
}

/// Upstream goes on from our span instead of the agent's. What others say of a
/// trace goes with that trace alone.
pub fn set_trace(headers: &mut HeaderMap, trace: Trace) {
    if trace.parent == 0 {
        headers.remove("tracestate");
    }
    if let Ok(value) = HeaderValue::from_str(&trace.traceparent()) {
        headers.insert(TRACE_PARENT, value);
    }
}

/// What an agent says of an upload; other calls have none.
pub fn upload_headers(agent: &HeaderMap) -> HeaderMap {
    let said = agent.iter();
    let upload_headers = said.filter(|(name, _)| name.as_str().starts_with("x-goog-upload-"));
    let pairs = upload_headers.map(|(name, value)| (name.clone(), value.clone()));
    pairs.collect()
}

/// The headers for another address than they were made for: whatever says who
/// calls, or for whom, is `credential`.
pub(super) fn replace_for_fallback(headers: &mut HeaderMap, credential: &Credential) {
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    let kept = |it: &HeaderName| *it == API_CLIENT || !it.as_str().starts_with("x-goog-");
    for name in names {
        if name == AUTHORIZATION || !kept(&name) {
            headers.remove(name);
        }
    }
    show(headers, credential);
}

/// Upstream's headers for the agent, of an answer whose body goes on as it is.
pub fn response_headers(mut upstream: HeaderMap) -> HeaderMap {
    let names = upstream.keys().filter(|it| is_withheld(it.as_str()));
    let withheld: Vec<HeaderName> = names.cloned().collect();
    for name in withheld {
        upstream.remove(name);
    }
    upstream
}

/// The same of an answer that was read and is written anew.
pub fn rewritten_response_headers(upstream: HeaderMap) -> HeaderMap {
    let mut out = response_headers(upstream);
    out.remove(header::CONTENT_ENCODING);
    out.remove(header::CONTENT_LENGTH);
    out
}

/// What an agent may say to upstream. Not all of `x-goog-`: such a header may leave
/// fields out of an answer, or name another resource than the path.
fn travels(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_listed = matches!(
        name,
        "accept"
            | "authorization"
            | "content-type"
            | "traceparent"
            | "tracestate"
            | "user-agent"
            | "x-goog-api-client"
            | "x-goog-api-key"
            | USER_PROJECT
            | "x-server-timeout"
            | "x-vertex-ai-llm-request-type"
            | "x-vertex-ai-llm-shared-request-type"
    );
    is_listed || name.starts_with("x-gemini-")
}

/// What upstream may not say to an agent: what belongs to the connection, what
/// would lead the agent past the gateway or a page in a browser to it, and our own
/// names.
fn is_withheld(name: &str) -> bool {
    let is_listed = matches!(
        name,
        "alt-svc"
            | "clear-site-data"
            | "connection"
            | "keep-alive"
            | "link"
            | "location"
            | "proxy-authenticate"
            | "proxy-connection"
            | "refresh"
            | "set-cookie"
            | "strict-transport-security"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    );
    let of_nobody = ["x-hookgate-", "access-control-"];
    is_listed || of_nobody.iter().any(|it| name.starts_with(it))
}

fn show(headers: &mut HeaderMap, credential: &Credential) {
    match credential {
        Credential::ApiKey(key) => set(headers, API_KEY, key.expose_secret()),
        Credential::Bearer(token) => {
            let bearer = format!("Bearer {}", token.expose_secret());
            set(headers, AUTHORIZATION, &bearer);
        }
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, secret: &str) {
    if let Ok(mut value) = HeaderValue::from_str(secret) {
        value.set_sensitive(true);
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_what_is_on_the_list_goes_upstream() {
        let agent = agent(&[
            ("x-goog-api-key", "K"),
            ("user-agent", "GeminiCLI"),
            ("cookie", "c"),
            ("x-http-method-override", "GET"),
            ("x-hookgate-session", "s"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-goog-fieldmask", "candidates.finishReason"),
            ("x-goog-upload-protocol", "resumable"),
        ]);
        let out = request_headers(&agent, None, None, ResponseUse::PassedThrough);
        let mut names: Vec<&str> = out.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept-encoding", "user-agent", "x-goog-api-key"]);
    }

    #[test]
    fn our_credential_stands_in_for_every_credential_of_the_agent() {
        let agent = agent(&[
            ("x-goog-api-key", "K"),
            ("authorization", "Bearer B"),
            ("x-goog-user-project", "p"),
        ]);
        let own = Credential::ApiKey("OWN".into());
        let out = request_headers(&agent, Some(&own), Some("Q"), ResponseUse::Parsed);
        assert!(!out.contains_key("x-goog-user-project"));
        assert_eq!(out["x-goog-api-key"], "OWN");
        assert!(!out.contains_key("authorization"));
        let own = Credential::Bearer("OWN".into());
        let out = request_headers(&agent, Some(&own), Some("Q"), ResponseUse::Parsed);
        assert_eq!(out["authorization"], "Bearer OWN");
        assert!(!out.contains_key("x-goog-api-key"));
    }

    #[test]
    fn another_address_hears_nothing_of_who_called_the_first() {
        let mut headers = agent(&[
            ("x-goog-api-key", "K"),
            ("authorization", "Bearer B"),
            ("x-goog-user-project", "p"),
            ("x-goog-api-client", "genai-js"),
            ("user-agent", "GeminiCLI"),
        ]);

        replace_for_fallback(&mut headers, &Credential::Bearer("OTHER".into()));

        let expected = agent(&[
            ("authorization", "Bearer OTHER"),
            ("x-goog-api-client", "genai-js"),
            ("user-agent", "GeminiCLI"),
        ]);
        assert_eq!(headers, expected);
    }

    #[test]
    fn an_empty_key_is_none_and_a_query_key_moves_to_a_header() {
        let agent = agent(&[("x-goog-api-key", "")]);
        let out = request_headers(&agent, None, Some("Q"), ResponseUse::Parsed);
        assert_eq!(out["x-goog-api-key"], "Q");
        let out = request_headers(&agent, None, None, ResponseUse::Parsed);
        assert!(!out.contains_key("x-goog-api-key"));
    }
}
