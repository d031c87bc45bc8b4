//! One address of a model API: its connection pool and circuit breaker.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use http::{
    HeaderMap, HeaderValue, Request, StatusCode, Uri,
    header::HOST,
    uri::{self, Authority, PathAndQuery, Scheme},
};
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    circuit_breaker::{CallGuard, CircuitBreaker},
    error::UpstreamError,
    headers::fits_http2,
    key_mask::KeyMask,
    request::OutgoingRequest,
    response::UpstreamResponse,
};
use crate::{
    config::{CircuitSettings, Timeouts},
    http_client::{HttpClient, HttpClientError, HttpVersion, PoolConfig},
    media_type::is_media_type,
};

const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(90);

/// Settings of an address. An endpoint with equal ones is kept at a reload.
#[derive(Debug, PartialEq)]
pub(super) struct EndpointSettings {
    pub(super) base: String,
    pub(super) version: HttpVersion,
    pub(super) connect_timeout: Duration,
    pub(super) circuit: CircuitSettings,
}

/// One address of a model API.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) settings: EndpointSettings,
    client: HttpClient,
    address: BaseAddress,
    pub(super) circuit_breaker: Arc<CircuitBreaker>,
}

/// Parts of a base URL, parsed once for all requests.
#[derive(Debug)]
struct BaseAddress {
    scheme: Scheme,
    authority: Authority,
    /// Without a trailing slash; empty if requests have no prefix.
    path: String,
    /// Value of the `host` header.
    host: HeaderValue,
}

impl BaseAddress {
    /// Parses a base URL without user and password. Returns `None` if it is no URI.
    fn parse(base: &str) -> Option<Self> {
        let parts = Uri::try_from(base).ok()?.into_parts();
        let authority = parts.authority?;
        let path = parts.path_and_query?;
        Some(Self {
            scheme: parts.scheme?,
            path: path.as_str().trim_end_matches('/').to_owned(),
            host: HeaderValue::from_str(authority.as_str()).ok()?,
            authority,
        })
    }

    fn uri(&self, target: PathAndQuery) -> Result<Uri, http::Error> {
        let target = if self.path.is_empty() {
            target
        } else {
            PathAndQuery::try_from([&self.path, target.as_str()].concat())?
        };
        let mut parts = uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(target);
        Ok(Uri::from_parts(parts)?)
    }
}

impl Endpoint {
    pub(super) fn new(
        settings: EndpointSettings,
        circuit_breaker: Arc<CircuitBreaker>,
    ) -> Result<Self, UpstreamError> {
        let address = BaseAddress::parse(&settings.base).ok_or(UpstreamError::InvalidTarget)?;
        let client = HttpClient::new(PoolConfig {
            connect_timeout: settings.connect_timeout,
            idle_timeout: IDLE_CONNECTION_TIMEOUT,
            version: settings.version,
            https: address.scheme == Scheme::HTTPS,
        })?;
        Ok(Self {
            settings,
            client,
            address,
            circuit_breaker,
        })
    }

    /// Sends a request and waits for the head of its response. Calls `on_attempt` unless the
    /// circuit is open. The request is started in a plain call, so that the future does not hold
    /// it.
    pub(super) fn send(
        &self,
        mut outgoing: OutgoingRequest,
        timeouts: Timeouts,
        on_attempt: &dyn Fn(),
    ) -> impl Future<Output = Result<UpstreamResponse, UpstreamError>> + use<> {
        if self.settings.version != HttpVersion::Http1 {
            outgoing.stream_body();
        }
        let completed = outgoing.body.completed();
        let key_mask = KeyMask::from_request_headers(&outgoing.headers);
        let started = self.circuit_breaker.start_call().and_then(|call| {
            let request = self.request(outgoing)?;
            on_attempt();
            Ok((call, self.client.send(request)))
        });
        async move {
            let (call, mut response) = started?;
            let first_byte = timeouts.first_byte;
            let mut answered = timeout(first_byte, &mut response).await;
            let completed = *completed.lock();
            if let (Err(_), Some(completed)) = (&answered, completed) {
                // A slow sender, or the wait for a stream, has used a part of the time.
                answered = timeout_at(completed + first_byte, response).await;
            }
            let Ok(response) = answered else {
                if completed.is_some() {
                    call.record_failure("timeout");
                }
                return Err(UpstreamError::Timeout);
            };
            let response = match response {
                Ok(response) => response,
                Err(error) => return Err(record_error(call, error, completed)),
            };
            if is_from_proxy(response.status(), response.headers()) {
                call.record_failure("gateway");
            } else {
                call.record_success();
            }
            UpstreamResponse::new(response, timeouts.stream_idle, key_mask)
        }
    }

    fn request(&self, outgoing: OutgoingRequest) -> Result<Request<Body>, UpstreamError> {
        if self.settings.version != HttpVersion::Http1
            && !fits_http2(&outgoing.target, &outgoing.headers)
        {
            return Err(UpstreamError::HeadersTooLarge);
        }
        let uri = self.address.uri(outgoing.target);
        let mut request = Request::new(outgoing.body.into_http_body());
        *request.method_mut() = outgoing.method;
        *request.uri_mut() = uri.map_err(|_| UpstreamError::InvalidTarget)?;
        *request.headers_mut() = outgoing.headers;
        // Hyper would format it for each request.
        let host = request.headers_mut().entry(HOST);
        host.or_insert_with(|| self.address.host.clone());
        Ok(request)
    }
}

/// Counts an error against the endpoint, unless this side or the agent may be the cause. Without
/// `completed` the agent has not sent all of the body; hyper does not report over HTTP/2 that a
/// body failed.
fn record_error(
    call: CallGuard,
    error: HttpClientError,
    completed: Option<Instant>,
) -> UpstreamError {
    if error.is_out_of_file_descriptors() {
        return UpstreamError::OutOfFileDescriptors;
    }
    if error.is_connect() {
        call.record_failure("connect");
    } else if completed.is_some() && !error.is_body_rejected() {
        call.record_failure("broken");
    }
    UpstreamError::Unreachable(error)
}

/// Returns whether a proxy in front of the model API failed, rather than the API. An API
/// reports an overloaded model as JSON, and an agent can cause that; a proxy without
/// a backend answers in HTML or plain text.
fn is_from_proxy(status: StatusCode, headers: &HeaderMap) -> bool {
    let is_unavailable = matches!(
        status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    );
    let mut media_types = ["", "text/html", "text/plain"].into_iter();
    is_unavailable && media_types.any(|name| is_media_type(headers, name))
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;

    use super::*;

    fn uri_and_host(base: &str) -> (String, HeaderValue) {
        let address = BaseAddress::parse(base).unwrap();
        let uri = address.uri(PathAndQuery::from_static("/v1/models?a=b"));
        (uri.unwrap().to_string(), address.host)
    }

    #[test]
    fn a_base_address_may_have_a_port_and_a_path() {
        for (base, uri, host) in [
            ("https://a.test", "https://a.test/v1/models?a=b", "a.test"),
            (
                "http://a.test:81",
                "http://a.test:81/v1/models?a=b",
                "a.test:81",
            ),
            (
                "http://[::1]:81/x/y/",
                "http://[::1]:81/x/y/v1/models?a=b",
                "[::1]:81",
            ),
        ] {
            assert_eq!(
                uri_and_host(base),
                (uri.to_owned(), HeaderValue::from_static(host))
            );
        }
    }

    #[test]
    fn a_base_address_without_a_host_is_refused() {
        assert!(BaseAddress::parse("/v1").is_none());
    }

    #[test]
    fn an_error_in_html_is_of_a_proxy_in_any_spelling() {
        for (media_type, expected) in [
            ("text/html", true),
            ("Text/HTML; charset=UTF-8", true),
            ("TEXT/PLAIN", true),
            ("application/json", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            let status = StatusCode::BAD_GATEWAY;
            assert_eq!(is_from_proxy(status, &headers), expected, "{media_type}");
        }
    }
}
