//! Header filtering between agent and upstream. Pure.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{self, ACCEPT_ENCODING},
    uri::PathAndQuery,
};

use super::credentials::{is_key_header, reduce_credentials, replace_credentials};
use crate::{
    config::{HeaderText, UpstreamConfig, UpstreamCredential},
    dialect::Vendor,
    event::Trace,
};

/// W3C Trace Context header.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Client library of the agent.
const API_CLIENT: HeaderName = HeaderName::from_static("x-goog-api-client");

/// Maximum size of a header's value, or of path and query, over HTTP/2, in bytes. Servers such as
/// nginx end the connection at a larger one by default.
const MAX_HTTP2_VALUE_BYTES: usize = 8 * 1024;

/// Maximum size of headers, path and query together, in bytes: names, values and
/// [`HTTP2_FIELD_BYTES`] each, as RFC 9113 (section 6.5.2) counts them, without the other
/// pseudo-headers. Servers such as those on hyper advertise this limit by default.
const MAX_HTTP2_HEAD_BYTES: usize = 16 * 1024;

/// Size of a header beside its name and value, as RFC 9113 (section 6.5.2) counts it, in bytes.
const HTTP2_FIELD_BYTES: usize = 32;

/// Configured headers of an upstream.
#[derive(Debug, Clone, Default)]
pub struct HeaderRules {
    /// Headers added to every request; secrets are marked sensitive.
    added: HeaderMap,
    /// Headers of the agent that are forwarded in addition to the allow list.
    forwarded: Vec<HeaderName>,
}

impl HeaderRules {
    /// Returns the rules of an upstream. The names and values are valid, since the
    /// config was checked.
    pub(super) fn new(config: &UpstreamConfig) -> Self {
        let added = config.headers.iter().filter_map(|(name, text)| {
            let value = match text {
                HeaderText::Text(text) => HeaderValue::from_str(text).ok()?,
                HeaderText::Secret { secret } => secret.header_value()?,
            };
            Some((HeaderName::try_from(name).ok()?, value))
        });
        let forwarded = config.forward_headers.iter();
        Self {
            added: added.collect(),
            forwarded: forwarded
                .filter_map(|name| HeaderName::try_from(name).ok())
                .collect(),
        }
    }

    /// Adds the configured headers and those of the agent that are forwarded.
    pub fn apply(&self, headers: &mut HeaderMap, agent: &HeaderMap) {
        for name in &self.forwarded {
            headers.remove(name);
            for value in agent.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        for (name, value) in &self.added {
            headers.insert(name, value.clone());
        }
    }

    /// Removes forwarded headers, which may hold credentials of the agent.
    pub(super) fn remove_forwarded(&self, headers: &mut HeaderMap) {
        remove_where(headers, |name, _| {
            self.forwarded.contains(name) && !self.added.contains_key(name)
        });
    }
}

/// Returns the headers of a request to an API of `vendor`: the agent's headers on the allow
/// list, with one credential. An uncompressed response is asked for, whose token usage and
/// credentials are visible.
///
/// `configured` replaces the agent's credentials and is marked sensitive. `query_key`
/// is the agent's key from the query. An empty key counts as none.
pub fn request_headers(
    agent: &HeaderMap,
    vendor: Vendor,
    configured: Option<&UpstreamCredential>,
    query_key: Option<&str>,
) -> HeaderMap {
    // What is added later takes the place of the agent's `host` and others.
    let mut headers = HeaderMap::with_capacity(agent.len());
    for (name, value) in agent {
        if is_forwarded(name, vendor) && !(value.is_empty() && is_key_header(name)) {
            headers.append(name, value.clone());
        }
    }
    match configured {
        Some(credential) => replace_credentials(&mut headers, vendor, credential),
        None => reduce_credentials(&mut headers, vendor, query_key),
    }
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers
}

/// Replaces the agent's span by ours. `tracestate` is dropped with a foreign trace.
pub fn set_trace(headers: &mut HeaderMap, trace: Trace) {
    if trace.parent == 0 {
        headers.remove("tracestate");
    }
    if let Ok(value) = HeaderValue::from_str(&trace.traceparent()) {
        headers.insert(TRACE_PARENT, value);
    }
}

/// Returns the agent's headers of an upload, which other calls do not have.
pub fn upload_headers(agent: &HeaderMap) -> HeaderMap {
    let headers = agent.iter();
    let of_uploads = headers.filter(|(name, _)| name.as_str().starts_with("x-goog-upload-"));
    let pairs = of_uploads.map(|(name, value)| (name.clone(), value.clone()));
    pairs.collect()
}

/// Adapts headers to the fallback: sensitive values, headers of credentials and accounts, and
/// `x-goog-` headers other than [`API_CLIENT`] are replaced by `credential`.
pub(super) fn replace_for_fallback(
    headers: &mut HeaderMap,
    vendor: Vendor,
    credential: &UpstreamCredential,
) {
    remove_where(headers, |name, value| {
        value.is_sensitive() || (*name != API_CLIENT && name.as_str().starts_with("x-goog-"))
    });
    replace_credentials(headers, vendor, credential);
}

/// Returns upstream's headers for the agent, of a response whose body is unchanged.
pub fn response_headers(mut upstream: HeaderMap) -> HeaderMap {
    if upstream.contains_key(header::TRANSFER_ENCODING) {
        // It overrides the length (RFC 9112, section 6.3).
        upstream.remove(header::CONTENT_LENGTH);
    }
    for name in connection_options(&upstream) {
        upstream.remove(name);
    }
    remove_where(&mut upstream, |name, _| is_withheld(name.as_str()));
    upstream
}

/// Returns the headers that are for one connection only, as `Connection` lists them.
fn connection_options(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let names = texts.flat_map(|text| text.split(','));
    names.filter_map(|name| name.trim().parse().ok()).collect()
}

/// Returns upstream's headers for the agent, of a response whose body is rewritten.
pub fn rewritten_response_headers(upstream: HeaderMap) -> HeaderMap {
    let mut headers = response_headers(upstream);
    headers.remove(header::CONTENT_ENCODING);
    headers.remove(header::CONTENT_LENGTH);
    headers
}

/// Returns whether a header of the agent is on the allow list of a vendor's APIs. Other `x-goog-`
/// headers may remove fields from a response, or name another resource than the path.
fn is_forwarded(name: &HeaderName, vendor: Vendor) -> bool {
    let name = name.as_str();
    let is_common = matches!(
        name,
        "accept" | "authorization" | "content-type" | "traceparent" | "tracestate" | "user-agent"
    );
    let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let is_of_vendor = match vendor {
        Vendor::Google => {
            let is_listed = matches!(
                name,
                "x-goog-api-client"
                    | "x-goog-api-key"
                    | "x-goog-user-project"
                    | "x-server-timeout"
                    | "x-vertex-ai-llm-request-type"
                    | "x-vertex-ai-llm-shared-request-type"
            );
            is_listed || starts_with(&["x-gemini-"])
        }
        Vendor::Anthropic => {
            let is_listed = matches!(name, "x-api-key" | "x-app" | "x-client-request-id");
            is_listed || starts_with(&["anthropic-", "x-claude-code-", "x-stainless-"])
        }
        Vendor::OpenAi => {
            let is_listed = matches!(
                name,
                "chatgpt-account-id"
                    | "idempotency-key"
                    | "originator"
                    | "session-id"
                    | "thread-id"
                    | "version"
                    | "x-client-request-id"
            );
            is_listed || starts_with(&["openai-", "x-codex-", "x-stainless-"])
        }
    };
    let is_session =
        !matches!(vendor, Vendor::Google) && matches!(name, "x-session-affinity" | "x-session-id");
    is_common || is_of_vendor || is_session
}

/// Returns whether a header of upstream is withheld from agents: credentials, headers of the
/// connection, headers that lead agents or browsers around the gateway, and
/// hookgate's own names.
fn is_withheld(name: &str) -> bool {
    let is_listed = matches!(
        name,
        "alt-svc"
            | "authorization"
            | "clear-site-data"
            | "connection"
            | "keep-alive"
            | "link"
            | "location"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "refresh"
            | "set-cookie"
            | "strict-transport-security"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "x-api-key"
            | "x-goog-api-key"
    );
    is_listed || name.starts_with("x-hookgate-") || name.starts_with("access-control-")
}

/// Returns whether the head of a request is within hookgate's limits for HTTP/2. Servers may answer
/// a larger one with an error that ends the connection, and with it the calls of other agents.
pub(super) fn fits_http2(target: &PathAndQuery, headers: &HeaderMap) -> bool {
    let fields = headers.iter();
    let fields = fields.map(|(name, value)| (name.as_str(), value.len()));
    let mut head_size = 0;
    for (name, size) in fields.chain([(":path", target.as_str().len())]) {
        if size > MAX_HTTP2_VALUE_BYTES {
            return false;
        }
        head_size += name.len() + size + HTTP2_FIELD_BYTES;
    }
    head_size <= MAX_HTTP2_HEAD_BYTES
}

/// Removes the headers for which `is_removed` is true.
pub(super) fn remove_where(
    headers: &mut HeaderMap,
    is_removed: impl Fn(&HeaderName, &HeaderValue) -> bool,
) {
    let removed = headers
        .iter()
        .filter(|(name, value)| is_removed(name, value));
    let removed: Vec<HeaderName> = removed.map(|(name, _)| name.clone()).collect();
    for name in removed {
        headers.remove(name);
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
    fn each_vendor_has_headers_of_its_own() {
        let agent = agent(&[
            ("anthropic-version", "2023-06-01"),
            ("anthropic-beta", "a,b"),
            ("x-stainless-lang", "js"),
            ("x-claude-code-session-id", "s"),
            ("openai-beta", "o"),
            ("chatgpt-account-id", "a"),
            ("session-id", "s"),
            ("x-session-id", "s"),
            ("x-goog-api-client", "genai-js"),
            ("cookie", "c"),
        ]);
        let names = |vendor| {
            let out = request_headers(&agent, vendor, None, None);
            let mut names: Vec<String> = out.keys().map(ToString::to_string).collect();
            names.retain(|name| name != "accept-encoding");
            names.sort_unstable();
            names
        };
        assert_eq!(names(Vendor::Google), ["x-goog-api-client"]);
        assert_eq!(
            names(Vendor::Anthropic),
            [
                "anthropic-beta",
                "anthropic-version",
                "x-claude-code-session-id",
                "x-session-id",
                "x-stainless-lang",
            ]
        );
        assert_eq!(
            names(Vendor::OpenAi),
            [
                "chatgpt-account-id",
                "openai-beta",
                "session-id",
                "x-session-id",
                "x-stainless-lang",
            ]
        );
    }

    /// Returns the credentials that go upstream for those of an agent.
    fn sent(
        vendor: Vendor,
        own: &[(&'static str, &'static str)],
        configured: Option<&UpstreamCredential>,
    ) -> Vec<String> {
        let query_key = (vendor == Vendor::Google).then_some("Q");
        let agent = agent(own);
        let out = request_headers(&agent, vendor, configured, query_key);
        let mut sent: Vec<String> = out
            .iter()
            .filter(|(name, _)| *name != "accept-encoding")
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        sent.sort_unstable();
        sent
    }

    const ALL: &[(&str, &str)] = &[
        ("x-goog-api-key", "K"),
        ("x-api-key", "K"),
        ("authorization", "Bearer B"),
        ("x-goog-user-project", "p"),
        ("openai-organization", "o"),
        ("openai-project", "p"),
        ("chatgpt-account-id", "a"),
    ];

    #[test]
    fn a_configured_credential_replaces_all_credentials_of_the_agent() {
        let key = UpstreamCredential::ApiKey("OWN".into());
        let token = UpstreamCredential::Bearer("OWN".into());
        for (vendor, expected) in [
            (Vendor::Google, "x-goog-api-key: OWN"),
            (Vendor::Anthropic, "x-api-key: OWN"),
            (Vendor::OpenAi, "authorization: Bearer OWN"),
        ] {
            assert_eq!(sent(vendor, ALL, Some(&key)), [expected]);
            let bearer = ["authorization: Bearer OWN"];
            assert_eq!(sent(vendor, ALL, Some(&token)), bearer);
        }
    }

    #[test]
    fn an_api_of_one_credential_gets_one_credential_of_the_agent() {
        let expected = ["x-api-key: K"];
        assert_eq!(sent(Vendor::Anthropic, ALL, None), expected);
        let subscription = [
            ("x-api-key", "K"),
            ("authorization", "Bearer sk-ant-oat01-x"),
        ];
        let expected = ["authorization: Bearer sk-ant-oat01-x"];
        assert_eq!(sent(Vendor::Anthropic, &subscription, None), expected);
        let expected = [
            "authorization: Bearer B",
            "chatgpt-account-id: a",
            "openai-organization: o",
            "openai-project: p",
        ];
        assert_eq!(sent(Vendor::OpenAi, ALL, None), expected);
    }

    #[test]
    fn the_fallback_gets_no_credential_of_the_first_address() {
        let mut headers = agent(ALL);
        headers.extend(agent(&[
            ("x-goog-api-client", "genai-js"),
            ("user-agent", "GeminiCLI"),
        ]));
        let other = UpstreamCredential::Bearer("OTHER".into());
        for vendor in [Vendor::Google, Vendor::Anthropic, Vendor::OpenAi] {
            let mut headers = headers.clone();
            replace_for_fallback(&mut headers, vendor, &other);

            let expected = agent(&[
                ("authorization", "Bearer OTHER"),
                ("x-goog-api-client", "genai-js"),
                ("user-agent", "GeminiCLI"),
            ]);
            assert_eq!(headers, expected);
        }
    }

    #[test]
    fn an_empty_key_counts_as_none_and_a_query_key_moves_to_a_header() {
        let empty = [("x-goog-api-key", "")];
        assert_eq!(sent(Vendor::Google, &empty, None), ["x-goog-api-key: Q"]);
        let empty = [("x-api-key", ""), ("authorization", "Bearer B")];
        let bearer = ["authorization: Bearer B"];
        assert_eq!(sent(Vendor::Anthropic, &empty, None), bearer);
    }
}
