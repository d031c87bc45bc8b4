//! One listener: accepts within bounds, and drains.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::sync::CancellationToken;

use super::{
    connection::{Connection, Terms},
    io_timeout::Silence,
    middleware_stack::Handler,
    min_body_rate::Pace,
    runtime_pool::Threads,
};
use crate::{
    config::{Config, Tls},
    error::{ApiError, ErrorReason},
    middleware::PeerInfo,
    state::AppResources,
};

/// How long to wait when no file descriptor is left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The least that hyper takes for a head.
const LEAST_HEAD: usize = 8192;

/// How much more than the limit is read of a head, so that whoever sends a little
/// too much hears why. Hyper says nothing but the status.
const BEYOND: usize = 64 * 1024;
/// How many connections beyond the bound are told so at once. More are closed
/// without a word.
const TOLD: usize = 64;

/// How long such a connection may take to hear it.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// The bounds of one listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Connections at once.
    pub(super) connections: usize,
    /// Bytes of a request's head.
    pub(super) head: usize,
    /// How long a connection may keep us waiting.
    pub(super) silence: Silence,
    /// How slowly a body may come.
    pub(super) pace: Pace,
}

impl Default for Bounds {
    fn default() -> Self {
        let minute = Duration::from_mins(1);
        Self {
            connections: 20_000,
            head: 64 * 1024,
            silence: Silence {
                head: minute,
                idle: 5 * minute,
                write: minute,
            },
            pace: Pace {
                grace: minute,
                rate: 1024,
            },
        }
    }
}

impl Bounds {
    /// What the config says, for so many connections.
    pub(super) fn of(config: &Config, connections: usize) -> Self {
        let (limits, timeouts) = (&config.limits, &config.timeouts);
        Self {
            connections,
            head: limits.headers.max(LEAST_HEAD) + BEYOND,
            silence: Silence {
                head: timeouts.header,
                idle: timeouts.idle,
                write: timeouts.write,
            },
            pace: Pace {
                grace: timeouts.body,
                rate: limits.body_rate,
            },
        }
    }
}

/// When a listener stops.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    /// Cancelled when nobody is accepted any more.
    pub(super) close: CancellationToken,
    /// How long requests under way may then take.
    pub(super) drain: Duration,
    /// Cancelled when they may not take any longer.
    pub(super) cut: CancellationToken,
}

/// How connections are spoken to from now on, if not in plain text.
type FindTls = dyn Fn() -> Option<Tls> + Send + Sync;

/// What a new connection may expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admitted {
    /// Handler.
    Served,
    /// To hear that there is no place for it.
    Told,
}

/// One listener.
pub(super) struct Listener {
    socket: TcpListener,
    bounds: Bounds,
    shared: Arc<AppResources>,
    tls: Box<FindTls>,
    /// Who serves its connections; whoever accepts them, if nobody else does.
    threads: Arc<Threads>,
    places: Arc<Semaphore>,
    /// For those who are told that there is no place.
    told: Arc<Semaphore>,
}

impl Listener {
    pub(super) fn new(socket: TcpListener, bounds: Bounds, shared: &Arc<AppResources>) -> Self {
        Self {
            socket,
            bounds,
            shared: Arc::clone(shared),
            tls: Box::new(|| None),
            threads: Arc::default(),
            places: Arc::new(Semaphore::new(bounds.connections)),
            told: Arc::new(Semaphore::new(TOLD)),
        }
    }

    /// The same listener, which asks `tls` how each connection is spoken to.
    pub(super) fn speaking(
        mut self,
        tls: impl Fn() -> Option<Tls> + Send + Sync + 'static,
    ) -> Self {
        self.tls = Box::new(tls);
        self
    }

    /// The same listener, whose connections are served by these threads.
    pub(super) fn served_by(self, threads: Arc<Threads>) -> Self {
        Self { threads, ..self }
    }

    /// Accepts until its end, then lets open connections end their requests.
    pub(super) async fn serve(self, room: Arc<dyn Handler>, ending: Ending) {
        let graceful = GracefulShutdown::new();
        tokio::select! {
            () = self.accept(&room, &graceful, &ending) => (),
            () = ending.close.cancelled() => (),
        }
        drop(self.socket);
        let drained = tokio::time::timeout(ending.drain, graceful.shutdown());
        let drained = ending.cut.run_until_cancelled(drained).await;
        if !matches!(drained, Some(Ok(()))) {
            tracing::warn!("drain timeout exceeded; aborting in-flight requests");
            ending.cut.cancel();
        }
    }

    /// Accepts for ever.
    async fn accept(&self, room: &Arc<dyn Handler>, graceful: &GracefulShutdown, ending: &Ending) {
        let full: Arc<dyn Handler> = Arc::new(Router::new().fallback(no_place));
        let mut failing = false;
        loop {
            let accepted = self.socket.accept().await;
            // The event loop that serves it will look after it.
            let accepted = accepted.and_then(|(stream, addr)| Ok((stream.into_std()?, addr)));
            let (stream, addr) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    pause(&error, &mut failing).await;
                    continue;
                }
            };
            failing = false;
            let Some((place, admitted)) = self.admit() else {
                continue;
            };
            let (room, bounds) = match admitted {
                Admitted::Served => (room, self.bounds),
                Admitted::Told => (&full, self.bounds.in_short()),
            };
            let connection = self.connection((stream, addr), bounds, &ending.close);
            let served = connection.serve(Arc::clone(room), graceful.watcher());
            self.spawn(served, place, ending.cut.child_token());
        }
    }

    /// A place for one more connection; not even one to be told that there is
    /// none, if too many are told so already.
    fn admit(&self) -> Option<(OwnedSemaphorePermit, Admitted)> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some((place, Admitted::Served));
        }
        self.shared.metrics.record_rejected_connection("limit");
        let place = Arc::clone(&self.told).try_acquire_owned().ok()?;
        Some((place, Admitted::Told))
    }

    fn connection(
        &self,
        (stream, addr): (TcpStream, SocketAddr),
        bounds: Bounds,
        close: &CancellationToken,
    ) -> Connection {
        Connection {
            stream,
            peer: PeerInfo {
                addr,
                certificate: None,
            },
            tls: (self.tls)(),
            terms: Terms {
                head: bounds.head,
                silence: bounds.silence,
                pace: bounds.pace,
                shared: Arc::clone(&self.shared),
                close: close.clone(),
            },
        }
    }

    fn spawn(
        &self,
        served: impl Future<Output = ()> + Send + 'static,
        place: OwnedSemaphorePermit,
        cut: CancellationToken,
    ) {
        let open = self.shared.metrics.connections.clone();
        open.inc();
        let seat = self.threads.seat();
        let thread = seat.as_ref().map(|it| it.handle.clone());
        let served = async move {
            cut.run_until_cancelled_owned(served).await;
            open.dec();
            drop((place, seat));
        };
        match thread {
            Some(thread) => self.shared.tasks.spawn_on(served, &thread),
            None => self.shared.tasks.spawn(served),
        };
    }
}

impl Bounds {
    /// Those of a connection that is only told that there is no place for it.
    fn in_short(self) -> Self {
        Self {
            silence: Silence {
                head: TOLD_WITHIN.min(self.silence.head),
                idle: Duration::ZERO,
                write: TOLD_WITHIN.min(self.silence.write),
            },
            ..self
        }
    }
}

async fn no_place() -> axum::response::Response {
    let message = "too many connections are open";
    let error = ApiError::new(ErrorReason::Overloaded, message);
    let mut response = error.render(&uuid::Uuid::new_v4().to_string());
    let close = http::HeaderValue::from_static("close");
    response
        .headers_mut()
        .insert(http::header::CONNECTION, close);
    response
}

/// Says once that nobody can be accepted, and waits a little each time.
async fn pause(error: &io::Error, failing: &mut bool) {
    if !std::mem::replace(failing, true) {
        tracing::warn!(%error, "failed to accept connections");
    }
    tokio::time::sleep(ACCEPT_PAUSE).await;
}
