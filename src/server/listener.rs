//! One listener: accepts within bounds, serves HTTP/1.1, drains.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request};
use http::Response;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::patience::{Busy, Patient, Silence};
use crate::{
    app::{Observed, Peer, Shared},
    config::Config,
};

/// How long to wait when no file descriptor is left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The least that hyper takes for a head.
const LEAST_HEAD: usize = 8192;

/// How much more than the limit is read of a head, so that whoever sends a little
/// too much hears why. Hyper says nothing but the status.
const BEYOND: usize = 64 * 1024;

/// The bounds of one listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Connections at once; more wait to be accepted.
    pub(super) connections: usize,
    /// Bytes of a request's head.
    pub(super) head: usize,
    /// How long a connection may be silent.
    pub(super) silence: Silence,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 20_000,
            head: 64 * 1024,
            silence: Silence {
                head: Duration::from_secs(30),
                idle: Duration::from_mins(5),
            },
        }
    }
}

impl Bounds {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            connections: config.limits.connections,
            head: config.limits.headers.max(LEAST_HEAD) + BEYOND,
            silence: Silence {
                head: config.timeouts.header,
                idle: config.timeouts.idle,
            },
        }
    }
}

/// One listener.
#[derive(Debug)]
pub(super) struct Listener {
    socket: TcpListener,
    bounds: Bounds,
    permits: Arc<Semaphore>,
    shared: Shared,
    /// Cancelled at the end of the drain time.
    cut: CancellationToken,
}

impl Listener {
    pub(super) fn new(socket: TcpListener, bounds: Bounds, shared: &Shared) -> Self {
        Self {
            socket,
            bounds,
            permits: Arc::new(Semaphore::new(bounds.connections)),
            shared: shared.clone(),
            cut: CancellationToken::new(),
        }
    }

    /// Accepts until the house closes, then lets open connections end their
    /// requests within `drain`.
    pub(super) async fn serve(self, router: Router, drain: Duration) {
        let graceful = GracefulShutdown::new();
        tokio::select! {
            () = self.accept(&router, &graceful) => (),
            () = self.shared.shutdown.cancelled() => (),
        }
        drop(self.socket);
        if tokio::time::timeout(drain, graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!("requests were cut off at the end of the drain time");
            self.cut.cancel();
        }
    }

    /// Accepts for ever.
    async fn accept(&self, router: &Router, graceful: &GracefulShutdown) {
        while let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await {
            match self.socket.accept().await {
                Ok((stream, addr)) => self.connect((stream, addr), permit, router, graceful),
                Err(error) => refused(&error).await,
            }
        }
    }

    fn connect(
        &self,
        (stream, addr): (TcpStream, SocketAddr),
        permit: OwnedSemaphorePermit,
        router: &Router,
        graceful: &GracefulShutdown,
    ) {
        // Small chunks must not wait for one another.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY");
        }
        let router = router.clone();
        let busy = Busy::default();
        let patient = Patient::new(stream, busy.clone(), self.bounds.silence);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let certificate = None;
            request.extensions_mut().insert(Peer { addr, certificate });
            busy.begin();
            answer(router.clone(), request, busy.clone())
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_buf_size(self.bounds.head)
            .serve_connection(TokioIo::new(patient), service);
        let connection = graceful.watch(connection);
        let open = self.shared.metrics.connections.clone();
        open.inc();
        let cut = self.cut.clone();
        self.shared.tasks.spawn(async move {
            let ended = cut.run_until_cancelled_owned(connection).await;
            // An agent that leaves in the middle is no news.
            if let Some(Err(error)) = ended {
                tracing::debug!(%error, "connection ended");
            }
            open.dec();
            drop(permit);
        });
    }
}

async fn refused(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Answers one request; the connection is busy until its last byte.
async fn answer(
    router: Router,
    request: Request<Incoming>,
    busy: Busy,
) -> Result<Response<Body>, Infallible> {
    let response = router.oneshot(request.map(Body::new)).await?;
    Ok(response.map(|body| Body::new(Observed::new(body, move |_ended| busy.end()))))
}
