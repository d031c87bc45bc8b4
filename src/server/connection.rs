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
    io_timeout::{ConnectionState, IoTimeouts, TimeoutKind, TimeoutStream},
    min_body_rate::{MinRate, MinRateBody},
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

/// Settings of every connection of a listener.
#[derive(Debug, Clone)]
pub(super) struct ConnectionConfig {
    /// Maximum size of request line and headers, in bytes.
    pub(super) max_head_bytes: usize,
    pub(super) timeouts: IoTimeouts,
    pub(super) min_body_rate: MinRate,
    pub(super) resources: Arc<AppResources>,
    /// Cancelled when the listener closes, which aborts TLS handshakes.
    pub(super) close: CancellationToken,
}

/// A connection after it was accepted.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: net::TcpStream,
    pub(super) peer: PeerInfo,
    /// TLS settings; `None` for plain text.
    pub(super) tls: Option<Tls>,
    pub(super) config: ConnectionConfig,
}

impl Connection {
    /// Serves requests until the connection ends. Dropping the future closes it.
    pub(super) async fn serve(self, handler: Arc<dyn Handler>, watcher: Watcher) {
        let stream = match register(self.stream) {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, "connection setup failed"),
        };
        let state = ConnectionState::default();
        let (mut peer, config) = (self.peer, self.config);
        let stream = TimeoutStream::new(stream, state.clone(), config.timeouts);
        let Some(tls) = self.tls else {
            let requests = RequestLoop::new(handler, peer, state, &config);
            return requests.serve(stream, &config, watcher).await;
        };
        // Boxed, so that the future of a plain-text connection has no space for it.
        Box::pin(async move {
            let handshake = tls::accept(tls, stream);
            match config.close.run_until_cancelled(handshake).await {
                Some(Ok((stream, certificate))) => {
                    peer.certificate = certificate;
                    let requests = RequestLoop::new(handler, peer, state, &config);
                    requests.serve(stream, &config, watcher).await;
                }
                Some(Err(error)) => {
                    let metrics = &config.resources.metrics;
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
    min_body_rate: MinRate,
    /// Cancelled when agents should reconnect elsewhere.
    draining: CancellationToken,
}

impl RequestLoop {
    fn new(
        handler: Arc<dyn Handler>,
        peer: PeerInfo,
        state: ConnectionState,
        config: &ConnectionConfig,
    ) -> Arc<Self> {
        Arc::new(Self {
            handler,
            peer,
            state,
            min_body_rate: config.min_body_rate,
            draining: config.resources.draining.child_token(),
        })
    }

    async fn serve<S>(self: Arc<Self>, stream: S, config: &ConnectionConfig, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(move |request| Arc::clone(&self).handle(request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_buf_size(config.max_head_bytes.max(MIN_READ_BUFFER_BYTES))
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
            let metrics = &config.resources.metrics;
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
        let mut request =
            request.map(|body| MinRateBody::wrap(body, self.min_body_rate, self.state.clone()));
        request.extensions_mut().insert(self.peer.clone());
        let response = Arc::clone(&self.handler).handle(request);
        async move { Ok(self.finish(response.await)) }
    }

    fn finish(&self, response: HandlerResponse) -> Response<Body> {
        let HandlerResponse {
            mut response,
            guard,
        } = response;
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
