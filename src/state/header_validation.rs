//! Whether a request's head can be read in one way only. Pure.
//!
//! What stands between an agent and hookgate, and what stands behind it, may take
//! a doubled header, a full URL or an override for something else than hookgate
//! does. Such a head is refused, whatever it means.

use http::{HeaderMap, HeaderName, Request, Version, header};

use super::{ApiError, ErrorReason};

/// Headers that say one thing, and so come once.
const ONCE: [HeaderName; 12] = [
    header::AUTHORIZATION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::HOST,
    header::ORIGIN,
    header::TRANSFER_ENCODING,
    header::USER_AGENT,
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("x-goog-user-project"),
    HeaderName::from_static("x-hookgate-key"),
    HeaderName::from_static("x-hookgate-session"),
];

/// Headers that make another request of this one, for those who heed them.
const OVERRIDES: [&str; 6] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-method",
    "x-original-url",
    "x-rewrite-url",
];

/// What a connection may be told: none of it is about a header that travels.
const CONNECTION: [&str; 6] = [
    "close",
    "http2-settings",
    "keep-alive",
    "te",
    "trailers",
    "upgrade",
];

/// Refuses a head that could be read in two ways, or is larger than `limit`
/// bytes.
pub fn check_head<B>(head: &Request<B>, limit: usize) -> Result<(), ApiError> {
    if size(head) > limit {
        let message = format!("the request's head is larger than {limit} bytes");
        return Err(ApiError::new(ErrorReason::HeadTooLarge, message));
    }
    check_target(head)?;
    check_headers(head.headers())
}

/// Nobody asks a model API for `*`, or by a URL whose host could be another.
fn check_target<B>(head: &Request<B>) -> Result<(), ApiError> {
    let has_host = head.uri().scheme().is_some() || head.uri().authority().is_some();
    if has_host || !head.uri().path().starts_with('/') {
        return Err(bad("a request is for a path"));
    }
    if head.version() >= Version::HTTP_11 && !head.headers().contains_key(header::HOST) {
        return Err(bad("the header `host` is missing"));
    }
    Ok(())
}

fn check_headers(headers: &HeaderMap) -> Result<(), ApiError> {
    let doubled = |it: &&HeaderName| headers.get_all(*it).iter().nth(1).is_some();
    let has_doubled = headers.len() > headers.keys_len();
    if let Some(name) = ONCE.iter().filter(|_| has_doubled).find(doubled) {
        return Err(bad(format!("the header `{name}` is given twice")));
    }
    let overrides = |it: &&HeaderName| OVERRIDES.contains(&it.as_str());
    if let Some(name) = headers.keys().find(overrides) {
        return Err(bad(format!("the header `{name}` is not supported")));
    }
    let coding = headers.get(header::TRANSFER_ENCODING);
    if coding.is_some_and(|it| !it.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        return Err(bad("the only transfer coding here is `chunked`"));
    }
    for value in headers.get_all(header::CONNECTION) {
        let mut options = value.to_str().unwrap_or("\u{fffd}").split(',');
        let known = |it: &str| {
            CONNECTION
                .iter()
                .any(|known| it.eq_ignore_ascii_case(known))
        };
        if !options.all(|it| it.trim().is_empty() || known(it.trim())) {
            return Err(bad("the header `connection` names another header"));
        }
    }
    Ok(())
}

/// About what the head was on the wire, in bytes.
fn size<B>(head: &Request<B>) -> usize {
    let line = head.method().as_str().len() + head.uri().path().len() + "  HTTP/1.1\r\n".len();
    let query = head.uri().query().map_or(0, |it| it.len() + 1);
    let fields = head.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    line + query + fields.sum::<usize>()
}

fn bad(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorReason::BadHead, message)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn checked(target: &str, headers: &[(&str, &str)]) -> Result<(), ErrorReason> {
        let mut request = Request::post(target).header("host", "x");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check_head(&request.body(()).unwrap(), 1000).map_err(|it| it.reason())
    }

    #[test]
    fn what_clients_send_is_taken() {
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
        assert_eq!(checked("/v1/models", &java), Ok(()));
        assert_eq!(checked("/v1/models?key=k", &cli), Ok(()));
    }

    #[test]
    fn what_somebody_could_read_otherwise_is_refused() {
        for name in ONCE {
            let refused = checked("/", &[(name.as_str(), "chunked"), (name.as_str(), "1")]);
            assert_eq!(refused, Err(ErrorReason::BadHead), "{name}");
        }
        for header in [
            ("X-HTTP-Method-Override", "GET"),
            ("connection", "x-goog-api-key"),
            ("connection", "close, authorization"),
            ("transfer-encoding", "gzip, chunked"),
        ] {
            assert_eq!(
                checked("/", &[header]),
                Err(ErrorReason::BadHead),
                "{header:?}"
            );
        }
        for target in ["http://other/v1/models", "*"] {
            assert_eq!(checked(target, &[]), Err(ErrorReason::BadHead), "{target}");
        }
        let long = "x".repeat(1000);
        let refused = checked("/", &[("x-long", &long)]);
        assert_eq!(refused, Err(ErrorReason::HeadTooLarge));
    }
}
