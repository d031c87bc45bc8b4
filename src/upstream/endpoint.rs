//! One address of a model API: a pool of connections, and its circuit.

use std::{sync::Arc, time::Duration};

use http::{
    HeaderValue, Request, Response, StatusCode, Uri,
    header::{HOST, InvalidHeaderValue},
    uri::{self, Authority, PathAndQuery, Scheme},
};
use hyper::body::Incoming;
use tokio::time::timeout;
use url::Url;

use super::{
    OutgoingRequest, UpstreamError, UpstreamResponse, UpstreamTimeouts,
    circuit_breaker::{CallPermit, CircuitBreaker},
};
use crate::{
    config::CircuitSettings,
    http_client::{HttpClient, HttpClientError, PoolConfig},
    observe::Metrics,
};

/// How many connections are kept open that no call needs.
const SPARE_CONNECTIONS: usize = 256;

/// How long such a connection is kept.
const SPARE_FOR: Duration = Duration::from_secs(90);

/// One address of a model API.
#[derive(Debug)]
pub(super) struct Endpoint {
    client: HttpClient,
    /// Without a slash at its end.
    base: String,
    /// The same in parts: scheme and authority, and what stands before every path.
    scheme: Scheme,
    authority: Authority,
    /// The authority as a header has it, without a port that goes without saying.
    host: HeaderValue,
    prefix: String,
    connect: Duration,
    pub(super) circuit: Arc<CircuitBreaker>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct SendError {
    pub(super) error: UpstreamError,
    /// What may have come of the request.
    pub(super) sent: Delivery,
}

/// What may have come of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Nobody has seen it.
    Never,
    /// Somebody may have taken it, and may be at work on it.
    Perhaps,
}

impl Endpoint {
    pub(super) fn new(
        base: &Url,
        connect: Duration,
        (circuit, name): (CircuitSettings, String),
        metrics: Arc<Metrics>,
    ) -> Result<Self, UpstreamError> {
        let client = HttpClient::new(PoolConfig {
            connect,
            spare: SPARE_CONNECTIONS,
            spare_for: SPARE_FOR,
        })?;
        let parts = Uri::try_from(bare(base)).map(Uri::into_parts);
        let parts = parts.map_err(|_| UpstreamError::InvalidTarget)?;
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(UpstreamError::InvalidTarget);
        };
        let host = host(&authority).map_err(|_| UpstreamError::InvalidTarget)?;
        Ok(Self {
            client,
            scheme,
            host,
            authority,
            prefix: base.path().trim_end_matches('/').to_owned(),
            base: bare(base).to_owned(),
            connect,
            circuit: CircuitBreaker::new(circuit, name, metrics),
        })
    }

    /// Whether another endpoint would be just the same.
    pub(super) fn is(&self, base: &Url, connect: Duration, circuit: CircuitSettings) -> bool {
        self.base == bare(base) && self.connect == connect && self.circuit.settings() == circuit
    }

    /// Sends a request and waits for the head of its answer. It goes out in a plain
    /// call, so that the future has no room for it.
    pub(super) fn send(
        &self,
        outgoing: OutgoingRequest,
        patience: UpstreamTimeouts,
    ) -> impl Future<Output = Result<UpstreamResponse, SendError>> + use<> {
        let is_whole = outgoing.body.is_whole();
        let begun = self.begin(outgoing);
        let begun = begun.map(|(pass, sent)| (pass, timeout(patience.first_byte, sent)));
        async move {
            let (pass, sent) = begun.map_err(|error| SendError {
                error,
                sent: Delivery::Never,
            })?;
            match sent.await {
                Ok(sent) => heard(pass, sent, patience.idle),
                Err(_late) => Err(silent(pass, is_whole)),
            }
        }
    }

    /// Begins to send a request, if it may be sent.
    fn begin(
        &self,
        outgoing: OutgoingRequest,
    ) -> Result<
        (
            CallPermit,
            impl Future<Output = Result<Response<Incoming>, HttpClientError>> + use<>,
        ),
        UpstreamError,
    > {
        let away = |retry_after| UpstreamError::CircuitOpen { retry_after };
        let pass = self.circuit.enter().map_err(away)?;
        let mut request = Request::new(outgoing.body.give());
        *request.method_mut() = outgoing.method;
        *request.headers_mut() = outgoing.headers;
        // Hyper would write it anew for each request.
        request.headers_mut().insert(HOST, self.host.clone());
        let uri = self.uri(&outgoing.target);
        *request.uri_mut() = uri.map_err(|_| UpstreamError::InvalidTarget)?;
        Ok((pass, self.client.send(request)))
    }

    /// Where `target`, a path and query, is to be found here.
    fn uri(&self, target: &str) -> Result<Uri, http::Error> {
        let path = [self.prefix.as_str(), target].concat();
        let mut parts = uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(PathAndQuery::try_from(path)?);
        Ok(Uri::from_parts(parts)?)
    }
}

/// What came in time, and what it says of the address.
fn heard(
    pass: CallPermit,
    sent: Result<Response<Incoming>, HttpClientError>,
    idle: Duration,
) -> Result<UpstreamResponse, SendError> {
    let response = match sent {
        Ok(response) => response,
        Err(error) => {
            let (failed, why) = failed(error);
            match why {
                Some(why) => pass.failed(why),
                None => drop(pass),
            }
            return Err(failed);
        }
    };
    let answer = UpstreamResponse::new(response, idle);
    if is_of_a_proxy(&answer) {
        pass.failed("gateway");
    } else {
        pass.succeeded();
    }
    Ok(answer)
}

/// Nothing came in time. Of a body that comes piece by piece, its sender may be slow.
fn silent(pass: CallPermit, is_whole: bool) -> SendError {
    if is_whole {
        pass.failed("timeout");
    }
    SendError {
        error: UpstreamError::Timeout,
        sent: Delivery::Perhaps,
    }
}

/// An authority as the `host` header has it; a URL has no port that goes without
/// saying.
fn host(authority: &Authority) -> Result<HeaderValue, InvalidHeaderValue> {
    match authority.port_u16() {
        Some(port) => HeaderValue::try_from(format!("{}:{port}", authority.host())),
        None => HeaderValue::from_str(authority.host()),
    }
}

fn bare(base: &Url) -> &str {
    base.as_str().trim_end_matches('/')
}

/// A model API says in the form in which it is asked, JSON or another, that a model
/// is overloaded or took too long, and is well all the same; an agent can bring that
/// about. What stands before it and finds nobody there has words for people.
fn is_of_a_proxy(answer: &UpstreamResponse) -> bool {
    let status = matches!(
        answer.status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    );
    status && matches!(answer.media_type(), "" | "text/html" | "text/plain")
}

/// What an error means, and, if it is upstream's fault, what operators call it.
fn failed(error: HttpClientError) -> (SendError, Option<&'static str>) {
    let sent = if error.is_connect() {
        Delivery::Never
    } else {
        Delivery::Perhaps
    };
    if error.is_out_of_file_descriptors() {
        let error = UpstreamError::OutOfFileDescriptors;
        return (SendError { error, sent }, None);
    }
    let why = match sent {
        _ if error.is_request_body_error() || error.is_body_rejected() => None,
        Delivery::Never => Some("connect"),
        Delivery::Perhaps => Some("broken"),
    };
    let error = UpstreamError::Unreachable(error);
    (SendError { error, sent }, why)
}
