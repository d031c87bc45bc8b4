//! Rejection of request lines and headers that could be parsed in two ways.
//!
//! Proxies in front of hookgate and servers behind it may read a repeated header, an
//! absolute URL or a method override differently than hookgate does, which enables request
//! smuggling (RFC 9112, section 11.2). Such a request is rejected, whatever it means.

use http::{HeaderMap, HeaderName, Request, Version, header};

use crate::error::{ApiError, ErrorReason};

/// Headers with a single value, besides `Host`.
const SINGLE_VALUE_HEADERS: [HeaderName; 17] = [
    header::AUTHORIZATION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::ORIGIN,
    header::TRANSFER_ENCODING,
    header::USER_AGENT,
    HeaderName::from_static("session-id"),
    HeaderName::from_static("thread-id"),
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-claude-code-agent-id"),
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("x-goog-user-project"),
    HeaderName::from_static("x-hookgate-key"),
    HeaderName::from_static("x-hookgate-session"),
    HeaderName::from_static("x-session-id"),
];

/// Options of `Connection` that name no end-to-end header.
const CONNECTION_OPTIONS: [&str; 6] = [
    "close",
    "http2-settings",
    "keep-alive",
    "te",
    "trailers",
    "upgrade",
];

/// Checks that request line and headers have one meaning and at most `max_bytes`.
///
/// # Errors
///
/// Returns an error that names the header.
pub(super) fn validate_headers<B>(request: &Request<B>, max_bytes: usize) -> Result<(), ApiError> {
    if head_size(request) > max_bytes {
        let message = format!("request line and headers larger than {max_bytes} bytes");
        return Err(ApiError::new(ErrorReason::HeadersTooLarge, message));
    }
    validate_target(request)?;
    let headers = request.headers();
    validate_names(headers)?;
    validate_framing(headers)
}

/// Checks that a request names one host: its target is in origin form (RFC 9112, section 3.2.1),
/// and it has one `Host`.
///
/// # Errors
///
/// Returns an error that names the part.
pub(super) fn validate_target<B>(request: &Request<B>) -> Result<(), ApiError> {
    let uri = request.uri();
    if uri.scheme().is_some() || uri.authority().is_some() || !uri.path().starts_with('/') {
        // In HTTP/2, only such an authority is left in front of a path.
        if request.version() == Version::HTTP_2 && uri.scheme().is_some() {
            return Err(invalid("header `:authority` differs from `host`"));
        }
        return Err(invalid("request target must be a path"));
    }
    if request.version() >= Version::HTTP_11 && !request.headers().contains_key(header::HOST) {
        return Err(invalid("missing header `host`"));
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    if hosts.nth(1).is_some() {
        return Err(invalid("header `host` is repeated"));
    }
    Ok(())
}

fn validate_names(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.len() > headers.keys_len() {
        let is_repeated = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
        if let Some(name) = SINGLE_VALUE_HEADERS.iter().find(is_repeated) {
            return Err(invalid(format!("header `{name}` is repeated")));
        }
    }
    match headers.keys().find(|name| is_override(name.as_str())) {
        Some(name) => Err(invalid(format!("header `{name}` is not supported"))),
        None => Ok(()),
    }
}

/// Returns whether a header overrides the method or path for servers that support it.
fn is_override(name: &str) -> bool {
    matches!(
        name,
        "x-http-method"
            | "x-http-method-override"
            | "x-method-override"
            | "x-original-method"
            | "x-original-url"
            | "x-rewrite-url"
    )
}

fn validate_framing(headers: &HeaderMap) -> Result<(), ApiError> {
    let coding = headers.get(header::TRANSFER_ENCODING);
    if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        let message = "unsupported transfer coding; supported: `chunked`";
        return Err(invalid(message));
    }
    let is_option = |option: &str| {
        let option = option.trim();
        option.is_empty()
            || CONNECTION_OPTIONS
                .iter()
                .any(|known| option.eq_ignore_ascii_case(known))
    };
    for value in headers.get_all(header::CONNECTION) {
        if !value
            .to_str()
            .is_ok_and(|value| value.split(',').all(is_option))
        {
            return Err(invalid("header `connection` names another header"));
        }
    }
    Ok(())
}

/// Approximates the size of request line and headers on the wire, in bytes.
fn head_size<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let line = request.method().as_str().len() + uri.path().len() + "  HTTP/1.1\r\n".len();
    let query = uri.query().map_or(0, |query| query.len() + 1);
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    line + query + fields.sum::<usize>()
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorReason::InvalidHeaders, message)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn validated(target: &str, headers: &[(&str, &str)]) -> Result<(), ErrorReason> {
        let mut request = Request::post(target).header("host", "x");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        validate_headers(&request.body(()).unwrap(), 1000).map_err(|error| error.reason())
    }

    #[test]
    fn requests_of_common_clients_are_valid() {
        let java = [
            ("connection", "Upgrade, HTTP2-Settings"),
            ("upgrade", "h2c"),
        ];
        let cli = [
            ("authorization", "Bearer k"),
            ("x-goog-api-key", "k"),
            ("accept", "a"),
            ("accept", "b"),
            ("connection", "keep-alive"),
            ("transfer-encoding", "Chunked"),
        ];
        assert_eq!(validated("/v1/models", &java), Ok(()));
        assert_eq!(validated("/v1/models?key=k", &cli), Ok(()));
    }

    #[test]
    fn ambiguous_requests_are_invalid() {
        let invalid = Err(ErrorReason::InvalidHeaders);
        for name in SINGLE_VALUE_HEADERS {
            let repeated = [(name.as_str(), "chunked"), (name.as_str(), "1")];
            assert_eq!(validated("/", &repeated), invalid, "{name}");
        }
        for header in [
            ("host", "x"),
            ("X-HTTP-Method-Override", "GET"),
            ("connection", "x-goog-api-key"),
            ("connection", "close, authorization"),
            ("transfer-encoding", "gzip, chunked"),
        ] {
            assert_eq!(validated("/", &[header]), invalid, "{header:?}");
        }
        for target in ["http://x/v1/models", "*"] {
            assert_eq!(validated(target, &[]), invalid, "{target}");
        }
        let long = "x".repeat(1000);
        let too_large = validated("/", &[("x-long", &long)]);
        assert_eq!(too_large, Err(ErrorReason::HeadersTooLarge));
    }

    #[test]
    fn an_authority_unlike_the_host_is_named() {
        let message = |version| {
            let request = Request::post("http://other/v1/models").version(version);
            let request = request.header("host", "x").body(()).unwrap();
            let error = validate_headers(&request, 1000).unwrap_err();
            error.message().to_owned()
        };
        let authority = "header `:authority` differs from `host`";
        assert_eq!(message(Version::HTTP_2), authority);
        assert_eq!(message(Version::HTTP_11), "request target must be a path");
    }
}
