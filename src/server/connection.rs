//! One connection: TLS if enabled, then HTTP/1.1 or HTTP/2.

use std::{
    convert::Infallible,
    error::Error,
    io, net,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use axum::{body::Body, extract::Request};
use http::{HeaderValue, Response, Version, header};
use hyper::body::Body as _;
use hyper::{body::Incoming, rt::Executor, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::{conn::auto, graceful::Watcher},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    flushed_body::FlushedBody,
    handler::{Handler, RequestGuard},
    http2::{self, StallTimeoutBody},
    io_timeout::{BusyGuard, ConnectionState, TimeoutKind, TimeoutStream},
    limits::ListenerLimits,
    min_body_rate::MinRateBody,
    tls,
};
use crate::{
    config::Tls,
    middleware::{OnBodyEnd, PeerInfo},
    state::AppResources,
};

/// Read buffer of a connection: hyper's own maximum. A smaller one makes bodies of a
/// megabyte a third slower.
const MIN_READ_BUFFER_BYTES: usize = 400 * 1024;

/// Time for a client of HTTP/2 without streams to confirm the end of its connection, or to read
/// more of the last response.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(3);

/// A connection after it was accepted.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: net::TcpStream,
    pub(super) peer: PeerInfo,
    /// TLS settings; `None` for plain text.
    pub(super) tls: Option<Tls>,
    pub(super) limits: ListenerLimits,
    pub(super) resources: Arc<AppResources>,
    /// Cancelled when the listener closes, which aborts TLS handshakes and ends connections
    /// after their last response.
    pub(super) close: CancellationToken,
}

impl Connection {
    /// Serves requests until the connection ends. Dropping the future closes it.
    pub(super) async fn serve(self, handler: Arc<dyn Handler>, watcher: Watcher) {
        let stream = match register(self.stream) {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, "connection setup failed"),
        };
        let state = ConnectionState::default();
        let stream = TimeoutStream::new(stream, state.clone(), self.limits.timeouts);
        let mut requests = RequestLoop {
            handler,
            peer: self.peer,
            state,
            limits: self.limits,
            draining: self.resources.draining.child_token(),
            last_request: self.close.child_token(),
            resources: self.resources,
        };
        let Some(tls) = self.tls else {
            return requests.serve(stream, watcher).await;
        };
        // Boxed, so that the future of a plain-text connection has no space for it.
        Box::pin(async move {
            let handshake = tls::accept(tls, requests.limits, stream);
            match self.close.run_until_cancelled(handshake).await {
                Some(Ok((stream, certificate))) => {
                    requests.peer.certificate = certificate;
                    requests.serve(stream, watcher).await;
                }
                Some(Err(error)) => {
                    let rejected = &requests.resources.metrics.rejected_connections;
                    rejected.with(["tls_handshake".into()]).inc();
                    tracing::debug!(%error, "TLS handshake failed");
                }
                None => (),
            }
        })
        .await;
    }
}

/// Registers the socket with the runtime of this thread and disables Nagle's algorithm,
/// which would delay small chunks.
fn register(stream: net::TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    TcpStream::from_std(stream)
}

/// Waits for the end of a connection that accepts no further request. A client of HTTP/2 is
/// asked to confirm that; one that does not is left after a while without streams and progress.
async fn finish_requests<C, E>(
    mut connection: Pin<&mut C>,
    state: &ConnectionState,
) -> Result<(), E>
where
    C: Future<Output = Result<(), E>>,
{
    loop {
        let ended = tokio::time::timeout(CONFIRM_TIMEOUT, connection.as_mut()).await;
        let has_progressed = state.take_has_progressed();
        match ended {
            Ok(ended) => return ended,
            Err(_elapsed) if has_progressed || state.is_busy() || !state.has_streams() => (),
            Err(_elapsed) => return Ok(()),
        }
    }
}

/// Guards that are held until all of a response is taken to be written.
type ResponseGuards = (Option<RequestGuard>, BusyGuard);

/// Requests of one connection.
struct RequestLoop {
    handler: Arc<dyn Handler>,
    peer: PeerInfo,
    state: ConnectionState,
    limits: ListenerLimits,
    resources: Arc<AppResources>,
    /// Cancelled when agents should reconnect elsewhere.
    draining: CancellationToken,
    /// Cancelled when the connection accepts no further request.
    last_request: CancellationToken,
}

/// Runs the requests of an HTTP/2 connection as tracked tasks. They end with their streams.
#[derive(Debug, Clone)]
struct TrackedExecutor(TaskTracker);

impl<F> Executor<F> for TrackedExecutor
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

impl RequestLoop {
    async fn serve<S>(self, stream: S, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let metrics = Arc::clone(&self.resources.metrics);
        let (state, last_request) = (self.state.clone(), self.last_request.clone());
        let builder = self.builder();
        let requests = Arc::new(self);
        let service = service_fn(move |request| Arc::clone(&requests).handle(request));
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = last_request.cancelled() => {
                connection.as_mut().graceful_shutdown();
                finish_requests(connection, &state).await
            }
        };
        // The listener waits for it.
        drop(watcher);
        let Err(error) = served else {
            return;
        };
        let reason = match state.timeout() {
            Some(TimeoutKind::Head) => Some("header_timeout"),
            Some(TimeoutKind::Write) => Some("write_timeout"),
            // Idle connections and disconnects are expected.
            Some(TimeoutKind::Idle) | None => None,
        };
        if let Some(reason) = reason {
            metrics.rejected_connections.with([reason.into()]).inc();
        }
        tracing::debug!(error = error.as_ref() as &dyn Error, "connection failed");
    }

    /// Returns a builder that recognises HTTP/2 by its first bytes (RFC 9113, section 3.4),
    /// after TLS as without.
    fn builder(&self) -> auto::Builder<TrackedExecutor> {
        let limits = &self.limits;
        let mut builder = auto::Builder::new(TrackedExecutor(self.resources.tasks.clone()));
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_buf_size(limits.max_head_bytes.max(MIN_READ_BUFFER_BYTES));
        match limits.http2_streams {
            0 => builder.http1_only(),
            streams => {
                http2::configure(&mut builder, streams, limits.max_head_bytes);
                builder
            }
        }
    }

    /// Handles one request. The connection is busy until all of the response is taken to be
    /// written.
    fn handle(
        self: Arc<Self>,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> {
        let has_body = !request.body().is_end_stream();
        let is_stream = request.version() == Version::HTTP_2;
        let busy = if is_stream {
            http2::to_origin_form(&mut request);
            self.state.start_stream()
        } else {
            self.state.start_request(has_body)
        };
        let min_rate = self.limits.min_body_rate;
        let mut request = request.map(|body| MinRateBody::wrap(body, min_rate, self.state.clone()));
        request.extensions_mut().insert(self.peer.clone());
        let response = Arc::clone(&self.handler).handle(request);
        async move {
            let (response, guard) = response.await;
            let guards = (guard, busy);
            Ok(if is_stream {
                self.finish_stream(response, guards)
            } else {
                self.finish(response, guards)
            })
        }
    }

    fn finish(&self, response: Response<Body>, guards: ResponseGuards) -> Response<Body> {
        let on_end = move |_ended| drop(guards);
        let body_end = |body| Body::new(FlushedBody::new(OnBodyEnd::new(body, on_end)));
        let mut response = response.map(body_end);
        // The rest of an unread body would be parsed as the next request.
        if self.draining.is_cancelled() || self.state.has_unread_body() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response
    }

    /// Limits how long the client may leave a response unread.
    fn finish_stream(&self, response: Response<Body>, guards: ResponseGuards) -> Response<Body> {
        if self.draining.is_cancelled() {
            self.last_request.cancel();
        }
        let (timeout, resources) = (self.limits.timeouts.write, &self.resources);
        response.map(|body| {
            let body = Body::new(FlushedBody::new(body));
            Body::new(StallTimeoutBody::new(body, guards, timeout, resources))
        })
    }
}
