//! Accept loop of one listener, with limits and graceful shutdown.
//!
//! `axum::serve` is not used because it has no timeout for request heads.

use std::{
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use axum::{Router, response::Response};
use http::{HeaderValue, header};
use hyper_util::server::graceful::GracefulShutdown;
use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    connection::Connection, handler::Handler, limits::ListenerLimits, runtime_pool::RuntimePool,
};
use crate::{
    config::Tls,
    dialect::{self, Api},
    error::{ApiError, ErrorReason},
    middleware::{ListenerKind, PeerInfo, RequestId},
    state::App,
};

/// Delay after a failure to accept, such as a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Connections beyond the limit that receive an error at the same time. Further ones are
/// closed without a response.
const MAX_REJECTIONS: usize = 64;

/// Signals and timeout of a graceful shutdown.
#[derive(Debug, Clone)]
pub(super) struct Shutdown {
    /// Cancelled when the listener stops accepting.
    pub(super) close: CancellationToken,
    /// Time for in-flight requests to complete afterwards.
    pub(super) drain_timeout: Duration,
    /// Tasks that continue requests after their responses, and have the same time.
    pub(super) tasks: TaskTracker,
    /// Cancelled when in-flight requests are aborted.
    pub(super) abort: CancellationToken,
}

/// Bound socket whose connections are not accepted yet.
pub(super) struct Listener {
    pub(super) app: App,
    pub(super) kind: ListenerKind,
    pub(super) socket: TcpListener,
    pub(super) limits: ListenerLimits,
    /// Threads that serve the connections; without any, the accepting runtime does.
    pub(super) runtimes: Arc<RuntimePool>,
}

/// Counts a connection as open until it is dropped, also by a panic.
#[derive(Debug)]
struct OpenConnection(Gauge);

impl OpenConnection {
    fn new(connections: &Gauge) -> Self {
        connections.inc();
        Self(connections.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Listener {
    /// Accepts connections until shutdown, then waits for their requests.
    pub(super) async fn serve(self, handler: Arc<dyn Handler>, shutdown: Shutdown) {
        let graceful = GracefulShutdown::new();
        tokio::select! {
            () = self.accept(&handler, &graceful, &shutdown) => (),
            () = shutdown.close.cancelled() => (),
        }
        drop(self.socket);
        let drained = async {
            graceful.shutdown().await;
            shutdown.tasks.close();
            shutdown.tasks.wait().await;
        };
        let drained = tokio::time::timeout(shutdown.drain_timeout, drained);
        let drained = shutdown.abort.run_until_cancelled(drained).await;
        if matches!(drained, Some(Err(_))) {
            tracing::warn!("drain timeout exceeded; aborting in-flight requests");
            shutdown.abort.cancel();
        }
    }

    /// Accepts connections and never returns.
    async fn accept(
        &self,
        handler: &Arc<dyn Handler>,
        graceful: &GracefulShutdown,
        shutdown: &Shutdown,
    ) {
        let reject: Arc<dyn Handler> = Arc::new(Router::new().fallback(too_many_connections));
        let connections = Arc::new(Semaphore::new(self.limits.connections));
        let rejections = Arc::new(Semaphore::new(MAX_REJECTIONS));
        loop {
            let (stream, addr) = self.accept_one().await;
            let permit = Arc::clone(&connections).try_acquire_owned();
            let (permit, handler, limits) = if let Ok(permit) = permit {
                (permit, handler, self.limits)
            } else {
                let metrics = &self.app.resources.metrics;
                metrics.rejected_connections.with(["limit".into()]).inc();
                let Ok(permit) = Arc::clone(&rejections).try_acquire_owned() else {
                    continue;
                };
                (permit, &reject, self.limits.for_rejection())
            };
            let connection = Connection {
                stream,
                peer: PeerInfo {
                    addr,
                    certificate: None,
                },
                tls: self.tls(),
                limits,
                resources: Arc::clone(&self.app.resources),
                close: shutdown.close.clone(),
            };
            // Boxed, because each function that it is passed to would have space for it.
            let served = Box::pin(connection.serve(Arc::clone(handler), graceful.watcher()));
            self.spawn(served, permit, shutdown.abort.child_token());
        }
    }

    /// Accepts one connection. Failures are retried; the first of several is logged.
    async fn accept_one(&self) -> (TcpStream, SocketAddr) {
        let mut is_failing = false;
        loop {
            let accepted = self.socket.accept().await;
            // The thread that serves the socket registers it with its own runtime.
            match accepted.and_then(|(stream, addr)| Ok((stream.into_std()?, addr))) {
                Ok(accepted) => return accepted,
                Err(error) if is_failing => drop(error),
                Err(error) => tracing::warn!(%error, "failed to accept connections"),
            }
            is_failing = true;
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
        }
    }

    /// Returns the TLS settings for the next connection; `None` for plain text.
    fn tls(&self) -> Option<Tls> {
        let config = &self.app.snapshot().config;
        match self.kind {
            ListenerKind::Agents => config.tls.clone(),
            ListenerKind::Operators => config.admin.tls.clone(),
        }
    }

    fn spawn(
        &self,
        served: impl Future<Output = ()> + Send + 'static,
        permit: OwnedSemaphorePermit,
        abort: CancellationToken,
    ) {
        let open = OpenConnection::new(&self.app.resources.metrics.connections);
        let runtime = self.runtimes.least_loaded();
        let handle = runtime.as_ref().map(|runtime| runtime.handle.clone());
        let served = async move {
            abort.run_until_cancelled_owned(served).await;
            drop((open, permit, runtime));
        };
        match handle {
            Some(handle) => self.app.resources.tasks.spawn_on(served, &handle),
            None => self.app.resources.tasks.spawn(served),
        };
    }
}

async fn too_many_connections() -> Response {
    let error = ApiError::new(ErrorReason::Overloaded, "too many connections");
    let id = RequestId::random();
    let mut response = error.render(&id.0, dialect::of(Api::Gemini));
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        headers.insert(RequestId::HEADER, value);
    }
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}
