//! One connection: TLS if enabled, then HTTP/1.1.

use std::{convert::Infallible, error::Error, io, net, sync::Arc};

use axum::{body::Body, extract::Request};
use http::{HeaderValue, Response, header};
use hyper::body::Body as _;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::Watcher,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

use super::{
    handler::{Handler, HandlerResponse},
    io_timeout::{ConnectionState, TimeoutKind, TimeoutStream},
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

/// A connection after it was accepted.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: net::TcpStream,
    pub(super) peer: PeerInfo,
    /// TLS settings; `None` for plain text.
    pub(super) tls: Option<Tls>,
    pub(super) limits: ListenerLimits,
    pub(super) resources: Arc<AppResources>,
    /// Cancelled when the listener closes, which aborts TLS handshakes.
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
            resources: self.resources,
        };
        let Some(tls) = self.tls else {
            return requests.serve(stream, watcher).await;
        };
        // Boxed, so that the future of a plain-text connection has no space for it.
        Box::pin(async move {
            let handshake = tls::accept(tls, stream);
            match self.close.run_until_cancelled(handshake).await {
                Some(Ok((stream, certificate))) => {
                    requests.peer.certificate = certificate;
                    requests.serve(stream, watcher).await;
                }
                Some(Err(error)) => {
                    let metrics = &requests.resources.metrics;
                    metrics.record_rejected_connection("tls_handshake");
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

/// Requests of one connection.
struct RequestLoop {
    handler: Arc<dyn Handler>,
    peer: PeerInfo,
    state: ConnectionState,
    limits: ListenerLimits,
    resources: Arc<AppResources>,
    /// Cancelled when agents should reconnect elsewhere.
    draining: CancellationToken,
}

impl RequestLoop {
    async fn serve<S>(self, stream: S, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let metrics = Arc::clone(&self.resources.metrics);
        let max_head_bytes = self.limits.max_head_bytes;
        let requests = Arc::new(self);
        let service = service_fn(move |request| Arc::clone(&requests).handle(request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_buf_size(max_head_bytes.max(MIN_READ_BUFFER_BYTES))
            .serve_connection(TokioIo::new(stream), service);
        let Err(error) = watcher.watch(connection).await else {
            return;
        };
        let reason = match TimeoutKind::from_error(&error) {
            Some(TimeoutKind::Head) => Some("header_timeout"),
            Some(TimeoutKind::Write) => Some("write_timeout"),
            // Idle connections and disconnects are expected.
            Some(TimeoutKind::Idle) | None => None,
        };
        if let Some(reason) = reason {
            metrics.record_rejected_connection(reason);
        }
        tracing::debug!(error = &error as &dyn Error, "connection failed");
    }

    /// Handles one request. The connection is busy until the last byte of the response.
    fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> {
        let has_body = !request.body().is_end_stream();
        self.state.start_request(has_body);
        let min_rate = self.limits.min_body_rate;
        let mut request = request.map(|body| MinRateBody::wrap(body, min_rate, self.state.clone()));
        request.extensions_mut().insert(self.peer.clone());
        let response = Arc::clone(&self.handler).handle(request);
        async move { Ok(self.finish(response.await)) }
    }

    fn finish(&self, (mut response, guard): HandlerResponse) -> Response<Body> {
        // The rest of an unread body would be parsed as the next request.
        if self.draining.is_cancelled() || self.state.has_unread_body() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        let state = self.state.clone();
        let on_end = move |_ended| {
            drop(guard);
            state.finish_request();
        };
        response.map(|body| Body::new(OnBodyEnd::new(body, on_end)))
    }
}
