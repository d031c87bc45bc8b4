//! One connection: TLS if there is any, then HTTP/1.1, request by request.

use std::{convert::Infallible, error::Error, io, net, sync::Arc};

use axum::{body::Body, extract::Request};
use http::Response;
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
    io_timeout::{Busy, GivenUp, Patient, Silence},
    middleware_stack::{Handler, HandlerResponse},
    min_body_rate::{Pace, paced},
    tls,
};
use crate::{
    config::Tls,
    middleware::{OnBodyEnd, PeerInfo},
    state::AppResources,
};

/// How much is read of a connection at once, at most: what hyper reads of its own
/// accord. Less would cost bodies of a megabyte a third of their time.
const READ: usize = 400 * 1024;

/// What all connections of a listener have in common.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// Bytes of a request's head.
    pub(super) head: usize,
    /// How long a connection may keep us waiting.
    pub(super) silence: Silence,
    /// How slowly a body may come.
    pub(super) pace: Pace,
    /// What outlives every config.
    pub(super) shared: Arc<AppResources>,
    /// Cancelled when the listener closes: who has not agreed on TLS by then, leaves.
    pub(super) close: CancellationToken,
}

/// A connection that was accepted.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: net::TcpStream,
    pub(super) peer: PeerInfo,
    /// How it is spoken to, if not in plain text.
    pub(super) tls: Option<Tls>,
    pub(super) terms: Terms,
}

impl Connection {
    /// Serves it to its end. Dropping the future cuts it off.
    pub(super) async fn serve(self, room: Arc<dyn Handler>, watcher: Watcher) {
        let stream = match undelayed(self.stream) {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, "connection setup failed"),
        };
        let busy = Busy::default();
        let (mut peer, terms) = (self.peer, self.terms);
        let stream = Patient::new(stream, busy.clone(), terms.silence);
        let Some(tls) = self.tls else {
            let requests = Requests::new(room, peer, busy, &terms);
            return requests.serve(stream, &terms, watcher).await;
        };
        // Boxed, so that a connection in plain text has no room for it.
        Box::pin(async move {
            let accepting = tls::accept(tls, stream);
            let agreed = terms.close.run_until_cancelled(accepting).await;
            match agreed {
                Some(Ok((stream, certificate))) => {
                    peer.certificate = certificate;
                    let requests = Requests::new(room, peer, busy, &terms);
                    requests.serve(stream, &terms, watcher).await;
                }
                Some(Err(error)) => {
                    terms
                        .shared
                        .metrics
                        .record_rejected_connection("tls_handshake");
                    tracing::debug!(%error, "TLS handshake failed");
                }
                None => (),
            }
        })
        .await;
    }
}

/// The connection, looked after by the event loop that this runs in. Small chunks
/// must not wait for one another.
fn undelayed(stream: net::TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    TcpStream::from_std(stream)
}

/// Who answers the requests of one connection.
struct Requests {
    room: Arc<dyn Handler>,
    peer: PeerInfo,
    busy: Busy,
    pace: Pace,
    /// Cancelled when agents should look for another gateway.
    leaving: CancellationToken,
}

impl Requests {
    fn new(room: Arc<dyn Handler>, peer: PeerInfo, busy: Busy, terms: &Terms) -> Arc<Self> {
        Arc::new(Self {
            room,
            peer,
            busy,
            pace: terms.pace,
            leaving: terms.shared.draining.child_token(),
        })
    }

    async fn serve<S>(self: Arc<Self>, stream: S, terms: &Terms, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(move |request| Arc::clone(&self).answer(request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_buf_size(terms.head.max(READ))
            .serve_connection(TokioIo::new(stream), service);
        let Err(error) = watcher.watch(connection).await else {
            return;
        };
        let given_up = GivenUp::in_chain(&error);
        match given_up {
            Some(GivenUp::Head) => terms
                .shared
                .metrics
                .record_rejected_connection("header_timeout"),
            Some(GivenUp::Write) => terms
                .shared
                .metrics
                .record_rejected_connection("write_timeout"),
            // An agent that asks for nothing more, or leaves in the middle, is no
            // news.
            Some(GivenUp::Idle) | None => (),
        }
        tracing::debug!(error = &error as &dyn Error, "connection failed");
    }

    /// Handler one request; the connection is busy until its last byte.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> {
        let has_body = !request.body().is_end_stream();
        self.busy.begin(has_body);
        let mut request = request.map(|body| paced(body, self.pace, self.busy.clone()));
        request.extensions_mut().insert(self.peer.clone());
        let answered = Arc::clone(&self.room).handle(request);
        async move { Ok(self.answered(answered.await)) }
    }

    fn answered(&self, answered: HandlerResponse) -> Response<Body> {
        let HandlerResponse {
            mut response,
            guard,
        } = answered;
        // Of a body that nobody reads to its end, the rest comes where a next request
        // should.
        if self.leaving.is_cancelled() || self.busy.is_unread() {
            let close = http::HeaderValue::from_static("close");
            response
                .headers_mut()
                .insert(http::header::CONNECTION, close);
        }
        let busy = self.busy.clone();
        let over = move |_ended| {
            drop(guard);
            busy.end();
        };
        response.map(|body| Body::new(OnBodyEnd::new(body, over)))
    }
}
