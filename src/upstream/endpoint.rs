//! One address of a model API: its connection pool and circuit breaker.

use std::{sync::Arc, time::Duration};

use http::{
    HeaderValue, Request, StatusCode, Uri,
    header::{ACCEPT_ENCODING, HOST, InvalidHeaderValue},
    uri::{self, Authority, PathAndQuery, Scheme},
};
use tokio::time::timeout;
use url::Url;

use super::{
    circuit_breaker::{CallGuard, CircuitBreaker},
    error::UpstreamError,
    key_mask::KeyMask,
    request::OutgoingRequest,
    response::UpstreamResponse,
};
use crate::{
    config::CircuitSettings,
    http_client::{HttpClient, HttpClientError, PoolConfig},
};

const MAX_IDLE_CONNECTIONS: usize = 256;
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(90);

/// Timeouts of a call to a model API.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamTimeouts {
    /// Until there is a connection.
    pub connect: Duration,
    /// From the end of the request to the head of the response.
    pub first_byte: Duration,
    /// Between two pieces of a response.
    pub idle: Duration,
}

/// One address of a model API.
#[derive(Debug)]
pub(super) struct Endpoint {
    client: HttpClient,
    base: BaseUrl,
    connect_timeout: Duration,
    pub(super) circuit_breaker: Arc<CircuitBreaker>,
}

/// Base URL without a trailing slash, whole and in parts.
#[derive(Debug)]
struct BaseUrl {
    text: String,
    scheme: Scheme,
    authority: Authority,
    /// Value of the `host` header: the authority without a default port.
    host: HeaderValue,
    /// Path before every request path.
    prefix: String,
}

/// Failed attempt to send a request.
#[derive(Debug)]
pub(super) struct SendError {
    pub(super) error: UpstreamError,
    pub(super) delivery: Delivery,
}

/// Whether a failed request may have reached upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// There was no connection, or the circuit breaker is open.
    NotSent,
    /// Upstream may have received it and may act on it.
    MaybeSent,
}

impl Endpoint {
    pub(super) fn new(
        base: &Url,
        connect_timeout: Duration,
        circuit_breaker: Arc<CircuitBreaker>,
    ) -> Result<Self, UpstreamError> {
        let client = HttpClient::new(PoolConfig {
            connect_timeout,
            max_idle_per_host: MAX_IDLE_CONNECTIONS,
            idle_timeout: IDLE_CONNECTION_TIMEOUT,
        })?;
        Ok(Self {
            client,
            base: BaseUrl::new(base)?,
            connect_timeout,
            circuit_breaker,
        })
    }

    /// Whether a new endpoint with this configuration would be the same.
    pub(super) fn is_equivalent(
        &self,
        base: &Url,
        connect_timeout: Duration,
        circuit: CircuitSettings,
    ) -> bool {
        self.base.text == without_trailing_slash(base)
            && self.connect_timeout == connect_timeout
            && self.circuit_breaker.settings() == circuit
    }

    /// Sends a request and waits for the head of its response. The request is
    /// started in a plain call, so that the future does not hold it.
    pub(super) fn send(
        &self,
        outgoing: OutgoingRequest,
        timeouts: UpstreamTimeouts,
    ) -> impl Future<Output = Result<UpstreamResponse, SendError>> + use<> {
        let is_buffered = outgoing.body.is_buffered();
        let key_mask = KeyMask::from_request_headers(&outgoing.headers);
        let needs_plain_body = key_mask.is_some();
        let started = self.circuit_breaker.start_call().and_then(|call| {
            let request = self.request(outgoing, needs_plain_body)?;
            Ok((
                call,
                timeout(timeouts.first_byte, self.client.send(request)),
            ))
        });
        async move {
            let (call, response) = started.map_err(|error| SendError {
                error,
                delivery: Delivery::NotSent,
            })?;
            let Ok(response) = response.await else {
                // The sender of a streamed body may be what is slow.
                if is_buffered {
                    call.record_failure("timeout");
                }
                return Err(UpstreamError::Timeout.into());
            };
            let response = match response {
                Ok(response) => response,
                Err(error) => return Err(record_error(call, error)),
            };
            let response = UpstreamResponse::new(response, timeouts.idle, key_mask)?;
            if is_from_proxy(&response) {
                call.record_failure("gateway");
            } else {
                call.record_success();
            }
            Ok(response)
        }
    }

    fn request(
        &self,
        outgoing: OutgoingRequest,
        needs_plain_body: bool,
    ) -> Result<Request<axum::body::Body>, UpstreamError> {
        let mut request = Request::new(outgoing.body.into_http_body());
        *request.method_mut() = outgoing.method;
        *request.headers_mut() = outgoing.headers;
        // Set here, since hyper would format it for each request.
        let headers = request.headers_mut();
        headers.insert(HOST, self.base.host.clone());
        if needs_plain_body {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let uri = self.base.uri(&outgoing.target);
        *request.uri_mut() = uri.map_err(|_| UpstreamError::InvalidTarget)?;
        Ok(request)
    }
}

impl BaseUrl {
    fn new(base: &Url) -> Result<Self, UpstreamError> {
        let text = without_trailing_slash(base);
        let parts = Uri::try_from(text).map(Uri::into_parts);
        let parts = parts.map_err(|_| UpstreamError::InvalidTarget)?;
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(UpstreamError::InvalidTarget);
        };
        Ok(Self {
            text: text.to_owned(),
            scheme,
            host: host(&authority).map_err(|_| UpstreamError::InvalidTarget)?,
            authority,
            prefix: base.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Returns the URI of `target`, a path and query.
    fn uri(&self, target: &str) -> Result<Uri, http::Error> {
        let path = [self.prefix.as_str(), target].concat();
        let mut parts = uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(PathAndQuery::try_from(path)?);
        Ok(Uri::from_parts(parts)?)
    }
}

impl From<UpstreamError> for SendError {
    fn from(error: UpstreamError) -> Self {
        let delivery = Delivery::MaybeSent;
        Self { error, delivery }
    }
}

/// Counts an error against the endpoint, unless this side caused it.
fn record_error(call: CallGuard, error: HttpClientError) -> SendError {
    let delivery = if error.is_connect() {
        Delivery::NotSent
    } else {
        Delivery::MaybeSent
    };
    if error.is_out_of_file_descriptors() {
        let error = UpstreamError::OutOfFileDescriptors;
        return SendError { error, delivery };
    }
    if !error.is_request_body_error() && !error.is_body_rejected() {
        call.record_failure(match delivery {
            Delivery::NotSent => "connect",
            Delivery::MaybeSent => "broken",
        });
    }
    let error = UpstreamError::Unreachable(error);
    SendError { error, delivery }
}

fn host(authority: &Authority) -> Result<HeaderValue, InvalidHeaderValue> {
    match authority.port_u16() {
        Some(port) => HeaderValue::try_from(format!("{}:{port}", authority.host())),
        None => HeaderValue::from_str(authority.host()),
    }
}

fn without_trailing_slash(base: &Url) -> &str {
    base.as_str().trim_end_matches('/')
}

/// Whether a proxy in front of the model API failed, rather than the API. An API
/// reports an overloaded model as JSON, and an agent can cause that; a proxy without
/// a backend answers in HTML or plain text.
fn is_from_proxy(response: &UpstreamResponse) -> bool {
    let is_unavailable = matches!(
        response.status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    );
    is_unavailable && matches!(response.media_type(), "" | "text/html" | "text/plain")
}
