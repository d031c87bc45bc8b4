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
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::sync::CancellationToken;

use super::{
    connection::{Connection, ConnectionConfig},
    handler::Handler,
    io_timeout::IoTimeouts,
    min_body_rate::MinRate,
    runtime_pool::RuntimePool,
};
use crate::{
    config::{Config, Tls},
    error::{ApiError, ErrorReason},
    middleware::{PeerInfo, RequestId},
    state::AppResources,
};

/// Delay after a failure to accept, such as a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Smallest head limit that hyper supports.
const MIN_HEAD_BYTES: usize = 8192;

/// Bytes read beyond the head limit, so that a head slightly above it gets an error with a
/// reason. hyper itself only sends a status.
const HEAD_OVERREAD_BYTES: usize = 64 * 1024;

/// Connections beyond the limit that receive an error at the same time. Further ones are
/// closed without a response.
const MAX_REJECTIONS: usize = 64;

/// Time for a client to receive that error.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Limits of one listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListenerLimits {
    /// Maximum number of concurrent connections.
    pub(super) connections: usize,
    /// Maximum size of request line and headers, in bytes.
    pub(super) max_head_bytes: usize,
    pub(super) timeouts: IoTimeouts,
    pub(super) min_body_rate: MinRate,
}

impl ListenerLimits {
    /// Reads the limits of a config, for this number of connections.
    pub(super) fn from_config(config: &Config, connections: usize) -> Self {
        let (limits, timeouts) = (&config.limits, &config.timeouts);
        Self {
            connections,
            max_head_bytes: limits.headers.max(MIN_HEAD_BYTES) + HEAD_OVERREAD_BYTES,
            timeouts: IoTimeouts {
                head: timeouts.header,
                idle: timeouts.idle,
                write: timeouts.write,
            },
            min_body_rate: MinRate {
                grace: timeouts.body,
                bytes_per_second: limits.body_rate,
            },
        }
    }

    /// Returns the limits of a connection that only receives an error.
    fn for_rejection(self) -> Self {
        Self {
            timeouts: IoTimeouts {
                head: REJECTION_TIMEOUT.min(self.timeouts.head),
                idle: Duration::ZERO,
                write: REJECTION_TIMEOUT.min(self.timeouts.write),
            },
            ..self
        }
    }
}

/// Signals and timeout of a graceful shutdown.
#[derive(Debug, Clone)]
pub(super) struct Shutdown {
    /// Cancelled when the listener stops accepting.
    pub(super) close: CancellationToken,
    /// Time for in-flight requests to complete afterwards.
    pub(super) drain_timeout: Duration,
    /// Cancelled when in-flight requests are aborted.
    pub(super) abort: CancellationToken,
}

/// Returns the TLS settings for the next connection; `None` for plain text.
type TlsProvider = dyn Fn() -> Option<Tls> + Send + Sync;

/// Treatment of a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcceptDecision {
    Served,
    /// Beyond the limit: it receives an error.
    Rejected,
}

pub(super) struct Listener {
    socket: TcpListener,
    limits: ListenerLimits,
    resources: Arc<AppResources>,
    tls: Box<TlsProvider>,
    /// Threads that serve the connections; without any, the accepting runtime does.
    runtimes: Arc<RuntimePool>,
    connections: Arc<Semaphore>,
    rejections: Arc<Semaphore>,
}

impl Listener {
    pub(super) fn new(
        socket: TcpListener,
        limits: ListenerLimits,
        resources: &Arc<AppResources>,
    ) -> Self {
        Self {
            socket,
            limits,
            resources: Arc::clone(resources),
            tls: Box::new(|| None),
            runtimes: Arc::default(),
            connections: Arc::new(Semaphore::new(limits.connections)),
            rejections: Arc::new(Semaphore::new(MAX_REJECTIONS)),
        }
    }

    /// Sets the source of TLS settings, which is asked for each connection.
    pub(super) fn with_tls(
        mut self,
        tls: impl Fn() -> Option<Tls> + Send + Sync + 'static,
    ) -> Self {
        self.tls = Box::new(tls);
        self
    }

    /// Sets the threads that serve the connections.
    pub(super) fn with_runtimes(self, runtimes: Arc<RuntimePool>) -> Self {
        Self { runtimes, ..self }
    }

    /// Accepts connections until shutdown, then waits for their requests.
    pub(super) async fn serve(self, handler: Arc<dyn Handler>, shutdown: Shutdown) {
        let graceful = GracefulShutdown::new();
        tokio::select! {
            () = self.accept(&handler, &graceful, &shutdown) => (),
            () = shutdown.close.cancelled() => (),
        }
        drop(self.socket);
        let drained = tokio::time::timeout(shutdown.drain_timeout, graceful.shutdown());
        let drained = shutdown.abort.run_until_cancelled(drained).await;
        if !matches!(drained, Some(Ok(()))) {
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
        let mut is_failing = false;
        loop {
            let accepted = self.socket.accept().await;
            // The thread that serves the socket registers it with its own runtime.
            let accepted = accepted.and_then(|(stream, addr)| Ok((stream.into_std()?, addr)));
            let (stream, addr) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(%error, "failed to accept connections");
                    }
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            is_failing = false;
            let Some((permit, admission)) = self.admit() else {
                continue;
            };
            let (handler, limits) = match admission {
                AcceptDecision::Served => (handler, self.limits),
                AcceptDecision::Rejected => (&reject, self.limits.for_rejection()),
            };
            let connection = self.connection(stream, addr, limits, &shutdown.close);
            let served = connection.serve(Arc::clone(handler), graceful.watcher());
            self.spawn(served, permit, shutdown.abort.child_token());
        }
    }

    /// Returns a permit for one more connection; `None` if it gets no response at all.
    fn admit(&self) -> Option<(OwnedSemaphorePermit, AcceptDecision)> {
        if let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() {
            return Some((permit, AcceptDecision::Served));
        }
        self.resources.metrics.record_rejected_connection("limit");
        let permit = Arc::clone(&self.rejections).try_acquire_owned().ok()?;
        Some((permit, AcceptDecision::Rejected))
    }

    fn connection(
        &self,
        stream: TcpStream,
        addr: SocketAddr,
        limits: ListenerLimits,
        close: &CancellationToken,
    ) -> Connection {
        Connection {
            stream,
            peer: PeerInfo {
                addr,
                certificate: None,
            },
            tls: (self.tls)(),
            config: ConnectionConfig {
                max_head_bytes: limits.max_head_bytes,
                timeouts: limits.timeouts,
                min_body_rate: limits.min_body_rate,
                resources: Arc::clone(&self.resources),
                close: close.clone(),
            },
        }
    }

    fn spawn(
        &self,
        served: impl Future<Output = ()> + Send + 'static,
        permit: OwnedSemaphorePermit,
        abort: CancellationToken,
    ) {
        let open = self.resources.metrics.connections.clone();
        open.inc();
        let runtime = self.runtimes.least_loaded();
        let handle = runtime.as_ref().map(|runtime| runtime.handle.clone());
        let served = async move {
            abort.run_until_cancelled_owned(served).await;
            open.dec();
            drop((permit, runtime));
        };
        match handle {
            Some(handle) => self.resources.tasks.spawn_on(served, &handle),
            None => self.resources.tasks.spawn(served),
        };
    }
}

async fn too_many_connections() -> Response {
    let error = ApiError::new(ErrorReason::Overloaded, "too many connections");
    let mut response = error.render(&RequestId::random().0);
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}
