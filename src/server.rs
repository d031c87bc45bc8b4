//! Listeners, layers, shutdown.
//!
//! The accept loop is our own because `axum::serve` waits for a request's head
//! for ever.

mod authentication;
mod browsers;
mod layers;
mod listener;
pub mod openapi;
mod patience;
mod reload;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use futures_util::future::OptionFuture;
use thiserror::Error;
use tokio::net::TcpListener;

use self::{
    browsers::Port,
    listener::{Bounds, Listener},
    reload::Watch,
};
use crate::{
    admin, api,
    app::{ApiError, App, BuildError, Door, ErrorReason, ReadConfig, Shared},
    config::Config,
    gateway,
};

/// After the drain time: how long dying hooks may take. A worker has two
/// seconds to end by itself and two more when asked to.
const LAST_GRACE: Duration = Duration::from_secs(5);

/// Two bound listeners that do not yet accept.
#[derive(Debug)]
pub struct Server {
    agents: TcpListener,
    operators: TcpListener,
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
}

impl Server {
    /// Builds everything and binds both listeners.
    pub async fn bind(config: Config) -> Result<Self, ServerError> {
        Self::bind_with(config, Shared::default()).await
    }

    /// The same, with what outlives configs given.
    pub async fn bind_with(config: Config, shared: Shared) -> Result<Self, ServerError> {
        let (agents, operators) = (config.listen, config.admin.listen);
        Ok(Self {
            app: App::new(config, shared)?,
            agents: bind(agents).await?,
            operators: bind(operators).await?,
            watch: None,
        })
    }

    /// The same server, whose config can be read anew: on SIGHUP, when one of its
    /// files changes, and when an operator asks. Signals are listened for from
    /// this call on.
    pub fn reloading(mut self, read: Arc<ReadConfig>) -> io::Result<Self> {
        self.app.reload_with(read);
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
        self.app.begin();
        let snapshot = self.app.snapshot();
        let bounds = Bounds::of(&snapshot.config);
        let drain = snapshot.config.timeouts.drain;
        drop(snapshot);
        let shared = self.app.shared.clone();
        shared.tasks.spawn(self.app.clone().tend_sessions());
        let agents = Listener::new(self.agents, bounds, &shared);
        let operators = Listener::new(self.operators, bounds, &shared);
        let closing = shared.shutdown.clone();
        let serve = async {
            tokio::join!(
                agents.serve(agents_router(self.app.clone()), drain),
                operators.serve(operators_router(self.app.clone()), drain),
            )
        };
        let watch = self.watch.map(|it| it.run(self.app.clone()));
        let wait = async {
            tokio::select! {
                () = shutdown => (),
                Some(()) = OptionFuture::from(watch) => (),
            }
            tracing::info!("shutting down");
            closing.cancel();
        };
        tokio::join!(serve, wait);
        // Workers end with the last snapshot.
        drop(self.app);
        shared.tasks.close();
        if tokio::time::timeout(LAST_GRACE, shared.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("some tasks did not end in time");
        }
    }
}

/// Binds an address; the error names it.
pub async fn bind(addr: SocketAddr) -> Result<TcpListener, ServerError> {
    let bound = TcpListener::bind(addr).await;
    bound.map_err(|source| ServerError::Listen { addr, source })
}

/// Serves a mock model API until `shutdown` completes.
pub async fn serve_mock(
    listener: TcpListener,
    mock: Router,
    shutdown: impl Future<Output = ()> + Send,
) {
    let shared = Shared::default();
    let closing = shared.shutdown.clone();
    let listener = Listener::new(listener, Bounds::default(), &shared);
    let wait = async {
        shutdown.await;
        closing.cancel();
    };
    tokio::join!(listener.serve(mock, Duration::from_secs(1)), wait);
}

fn agents_router(app: App) -> Router {
    let router = api::routes().fallback(gateway::handle);
    let router = authentication::asked(router, &app);
    let router = layers::capped(router, &app);
    let router = browsers::kept_out(router, &app, Port::Agents);
    layers::wrap(router, app, Door::Agents)
}

fn operators_router(app: App) -> Router {
    let router = admin::routes(&app).fallback(unknown_path);
    let router = browsers::kept_out(router, &app, Port::Operators);
    layers::wrap(router, app, Door::Operators)
}

async fn unknown_path() -> ApiError {
    ApiError::new(ErrorReason::UnknownPath, "this path is not served here")
}
