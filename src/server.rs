//! Listeners, layers, shutdown.
//!
//! The accept loop is our own because `axum::serve` waits for a request's head
//! for ever.

mod connection;
mod fd_limit;
mod file_watcher;
mod io_timeout;
mod listener;
mod middleware_stack;
mod min_body_rate;
mod reload;
mod runtime_pool;
mod tls;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use futures_util::future::OptionFuture;
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;

use self::{
    fd_limit::Shares,
    listener::{Bounds, Ending, Listener},
    middleware_stack::MiddlewareStack,
    reload::Watch,
    runtime_pool::Threads,
};
use crate::{
    config::Config,
    state::{App, AppResources, BuildError, ReadConfig, expire_sessions},
};

/// After the drain time: how long dying hooks may take. A worker has two
/// seconds to end by itself and two more when asked to.
const LAST_GRACE: Duration = Duration::from_secs(5);

/// After the last agent is served: how long operators' requests may take.
const OPERATORS_DRAIN: Duration = Duration::from_secs(1);

/// How many connections may wait to be accepted; the system may allow fewer. Of
/// more, an agent hears nothing for a second or longer.
const BACKLOG: u32 = 4096;

/// Two bound listeners that do not yet accept, and the threads for agents.
#[derive(Debug)]
pub struct Server {
    agents: TcpListener,
    operators: TcpListener,
    threads: Arc<Threads>,
    app: App,
    watch: Option<Watch>,
}

/// Why the server could not start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// What the config asks for could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// An address could not be bound.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The threads that serve agents could not be started.
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
}

impl Server {
    /// Builds everything, binds both listeners and starts the threads that will
    /// serve agents.
    pub fn bind(config: Config) -> Result<Self, ServerError> {
        Self::bind_with(config, AppResources::default())
    }

    /// The same, with what outlives configs given.
    pub fn bind_with(config: Config, shared: AppResources) -> Result<Self, ServerError> {
        let (agents, operators) = (config.listen, config.admin.listen);
        Ok(Self {
            app: App::new(config, shared)?,
            agents: bind(agents)?,
            operators: bind(operators)?,
            threads: Threads::start().map_err(ServerError::Threads)?.into(),
            watch: None,
        })
    }

    /// The same server, whose config can be read anew: on SIGHUP, when one of its
    /// files changes, and when an operator asks. Signals are listened for from
    /// this call on.
    pub fn reloading(mut self, read: Arc<ReadConfig>) -> io::Result<Self> {
        self.app = self.app.with_reloads(read);
        self.watch = Some(Watch::begin(&self.app)?);
        Ok(self)
    }

    /// Where agents connect.
    pub fn agents_addr(&self) -> io::Result<SocketAddr> {
        self.agents.local_addr()
    }

    /// Where operators connect.
    pub fn operators_addr(&self) -> io::Result<SocketAddr> {
        self.operators.local_addr()
    }

    /// Serves until `shutdown` completes; then what is in flight completes
    /// within the drain time, and no hook stays behind.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        self.run_until(shutdown, std::future::pending()).await;
    }

    /// The same; what is in flight is cut off as soon as `hurry` completes.
    pub async fn run_until(
        self,
        shutdown: impl Future<Output = ()> + Send,
        hurry: impl Future<Output = ()> + Send,
    ) {
        self.app.start();
        let shared = Arc::clone(&self.app.resources);
        shared.tasks.spawn(expire_sessions(self.app.clone()));
        let timeouts = self.app.snapshot().config.timeouts;
        let (agents, operators) = listeners(&self.app, self.agents, self.operators);
        // They end when all that is left on them had its time.
        let threads = self.threads;
        let agents = agents.served_by(Arc::clone(&threads));
        let (cut, closed) = (shared.abort.clone(), CancellationToken::new());
        let ending = |close: &CancellationToken, drain| Ending {
            close: close.clone(),
            drain,
            cut: cut.clone(),
        };
        let agents = Box::pin(agents.serve(
            MiddlewareStack::agents(self.app.clone()),
            ending(&shared.shutdown, timeouts.drain),
        ));
        let operators = Box::pin(operators.serve(
            MiddlewareStack::operators(self.app.clone()),
            ending(&closed, OPERATORS_DRAIN),
        ));
        let watch = self.watch.map(|it| it.run(self.app.clone()));
        let wait = async {
            tokio::select! {
                () = shutdown => (),
                Some(()) = OptionFuture::from(watch) => (),
            }
            leave(&shared, timeouts.lame_duck).await;
        };
        let served = async {
            agents.await;
            // Operators may look on until the last agent is served.
            closed.cancel();
        };
        let hurried = async {
            hurry.await;
            tracing::warn!("aborting in-flight requests");
            cut.cancel();
            shared.shutdown.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = async { tokio::join!(served, operators, wait) } => (),
            () = hurried => (),
        }
        // Workers end with the last snapshot.
        drop(self.app);
        shared.tasks.close();
        if tokio::time::timeout(LAST_GRACE, shared.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("background tasks did not finish in time");
        }
    }
}

/// Both listeners, which share what may be open at once.
fn listeners(app: &App, agents: TcpListener, operators: TcpListener) -> (Listener, Listener) {
    let config = &app.snapshot().config;
    let descriptors = fd_limit::raise();
    let shares = Shares::of(config.limits.connections, descriptors);
    tracing::info!(
        descriptors,
        connections = shares.agents,
        "file descriptor limit"
    );
    if config
        .limits
        .connections
        .is_some_and(|it| shares.agents < it)
    {
        tracing::warn!(
            connections = shares.agents,
            "`limits.connections` lowered to half of the file descriptor limit"
        );
    }
    let agents = Listener::new(agents, Bounds::of(config, shares.agents), &app.resources);
    let operators = Listener::new(
        operators,
        Bounds::of(config, shares.operators),
        &app.resources,
    );
    let (for_agents, for_operators) = (app.clone(), app.clone());
    (
        agents.speaking(move || for_agents.snapshot().config.tls.clone()),
        operators.speaking(move || for_operators.snapshot().config.admin.tls.clone()),
    )
}

/// Tells whoever asks that agents should go elsewhere, and closes the house a
/// while later.
async fn leave(shared: &AppResources, lame_duck: Duration) {
    tracing::info!("shutting down");
    shared.draining.cancel();
    let hurried = shared.shutdown.cancelled();
    // Either way it is time.
    tokio::time::timeout(lame_duck, hurried).await.ok();
    shared.shutdown.cancel();
}

/// Binds an address; the error names it.
pub fn bind(addr: SocketAddr) -> Result<TcpListener, ServerError> {
    listen(addr).map_err(|source| ServerError::Listen { addr, source })
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Serves a mock model API until `shutdown` completes.
pub async fn serve_mock(
    listener: TcpListener,
    mock: Router,
    shutdown: impl Future<Output = ()> + Send,
) {
    let listener = Listener::new(listener, Bounds::default(), &Arc::default());
    let ending = Ending {
        close: CancellationToken::new(),
        drain: Duration::from_secs(1),
        cut: CancellationToken::new(),
    };
    let close = ending.close.clone();
    let wait = async {
        shutdown.await;
        close.cancel();
    };
    tokio::join!(listener.serve(Arc::new(mock), ending), wait);
}
