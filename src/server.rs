//! Listeners, connections, config reloads and graceful shutdown.

mod admin_router;
mod connection;
mod fd_limit;
mod file_watcher;
mod flushed_body;
mod handler;
mod http2;
mod io_timeout;
mod limits;
mod listener;
mod middleware_stack;
mod min_body_rate;
mod reload;
mod runtime_pool;
mod shared_state_sync;
mod tls;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{body::Body, extract::Request, response::Response};
use futures_util::future::{BoxFuture, OptionFuture};
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    admin_router::admin_router,
    fd_limit::ConnectionBudget,
    handler::Handler,
    limits::ListenerLimits,
    listener::{Listener, Shutdown},
    middleware_stack::MiddlewareStack,
    reload::ReloadTrigger,
    runtime_pool::RuntimePool,
    shared_state_sync::{leave_fleet, share_state},
};
use crate::{
    bundle::{Replica, follow},
    config::Config,
    middleware::{ListenerKind, OnBodyEnd},
    shadow::run_shadow,
    state::{
        App, AppResources, BuildError, ConfigSource, end_tasks, expire_sessions, prove_guards,
    },
};

/// Time for admin requests to complete after the last agent is served.
const ADMIN_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Queue of connections to be accepted; the system may allow fewer. Beyond it, clients
/// retry after a second or more.
const LISTEN_BACKLOG: u32 = 4096;

/// Two bound listeners that do not accept yet, and the threads for agents.
pub struct Server {
    /// Bound socket for the requests of agents.
    pub agents: TcpListener,
    /// Bound socket for operators: the admin API.
    pub operators: TcpListener,
    runtimes: Arc<RuntimePool>,
    app: App,
    reload_trigger: Option<ReloadTrigger>,
    replica: Option<Arc<Replica>>,
}

/// Reason why the server cannot start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// Something that the config asks for cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// An address cannot be bound.
    #[error("cannot listen on {addr} (`{setting}`): {source}")]
    Listen {
        /// The setting or option with the address.
        setting: &'static str,
        /// The address to bind to.
        addr: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The threads for agents cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
    /// The handler of SIGHUP cannot be installed.
    #[error("cannot handle signals: {0}")]
    Signal(#[source] io::Error),
}

impl Server {
    /// Builds the application, proves its guards, binds both listeners and starts the
    /// threads for agents.
    ///
    /// # Errors
    ///
    /// Returns the reason why the server cannot start.
    pub async fn bind(config: Config, resources: AppResources) -> Result<Self, ServerError> {
        Self::new(App::new(config, resources).await?)
    }

    /// Like [`Server::bind`], with config reloads: on SIGHUP, on changes of the config files, and
    /// through the admin API. Signals and changes are noticed from this call on. `source` has
    /// read the config; its revision is stored.
    ///
    /// # Errors
    ///
    /// Returns the reason why the server cannot start.
    pub async fn bind_reloading(
        config: Config,
        resources: AppResources,
        source: ConfigSource,
    ) -> Result<Self, ServerError> {
        let trigger = ReloadTrigger::new(source.files().clone()).map_err(ServerError::Signal)?;
        let app = Box::pin(App::with_reloads(config, resources, source)).await?;
        let mut server = Self::new(app)?;
        // INVARIANT: a start that fails leaves the revision that was in use before.
        server.app.store_start()?;
        server.reload_trigger = Some(trigger);
        Ok(server)
    }

    fn new(app: App) -> Result<Self, ServerError> {
        let snapshot = app.snapshot();
        let config = &snapshot.config;
        let (agents, operators) = (config.listen, config.admin.listen);
        Ok(Self {
            app,
            agents: bind("listen", agents)?,
            operators: bind("admin.listen", operators)?,
            runtimes: RuntimePool::start().map_err(ServerError::Threads)?.into(),
            reload_trigger: None,
            replica: None,
        })
    }

    /// Takes new bundles of `replica` into use while the server runs.
    #[must_use]
    pub fn with_replica(self, replica: Option<Arc<Replica>>) -> Self {
        Self { replica, ..self }
    }

    /// Serves until `shutdown` completes, then shuts down gracefully: in-flight requests
    /// complete within the drain timeout, and no hook process is left.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        self.run_until(shutdown, std::future::pending()).await;
    }

    /// Like [`Server::run`]; aborts in-flight requests when `abort` completes.
    pub async fn run_until(
        self,
        shutdown: impl Future<Output = ()> + Send,
        abort: impl Future<Output = ()> + Send,
    ) {
        start_tasks(&self.app, self.replica);
        let resources = Arc::clone(&self.app.resources);
        let timeouts = self.app.snapshot().config.timeouts;
        // Kept until the end, because dropping the runtimes aborts their tasks.
        let runtimes = self.runtimes;
        let (agents, operators) = listeners(&self.app, self.agents, self.operators, &runtimes);
        let close_admin = CancellationToken::new();
        let shutdown_of = |close: &CancellationToken, drain_timeout, tasks| Shutdown {
            close: close.clone(),
            drain_timeout,
            tasks,
            abort: resources.abort.clone(),
        };
        let answered = resources.answered_events.clone();
        let agents = Box::pin(agents.serve(
            MiddlewareStack::new(self.app.clone()),
            shutdown_of(&resources.shutdown, timeouts.drain, answered),
        ));
        let operators = Box::pin(operators.serve(
            Arc::new(admin_router(&self.app, handle_agent_request)),
            shutdown_of(&close_admin, ADMIN_DRAIN_TIMEOUT, TaskTracker::new()),
        ));
        let reloads = self
            .reload_trigger
            .map(|trigger| trigger.run(self.app.clone()));
        let wait = async {
            tokio::select! {
                () = shutdown => (),
                Some(()) = OptionFuture::from(reloads) => (),
            }
            start_shutdown(&resources, timeouts.lame_duck).await;
        };
        let served = async {
            agents.await;
            // The admin API is available until the last agent is served.
            close_admin.cancel();
        };
        let aborted = async {
            abort.await;
            tracing::warn!("aborting in-flight requests");
            resources.abort.cancel();
            resources.shutdown.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = async { tokio::join!(served, operators, wait) } => (),
            () = aborted => (),
            () = Box::pin(share_state(self.app.clone())) => (),
        }
        leave_fleet(&self.app).await;
        // Workers end with the last snapshot.
        drop(self.app);
        end_tasks(&resources.tasks).await;
    }
}

/// Starts what runs beside the listeners until the shutdown.
fn start_tasks(app: &App, replica: Option<Arc<Replica>>) {
    app.start();
    let tasks = &app.resources.tasks;
    tasks.spawn(expire_sessions(app.clone()));
    tasks.spawn(prove_guards(app.clone()));
    tasks.spawn(run_shadow(app.clone()));
    if let Some(replica) = replica {
        tasks.spawn(follow(replica, app.clone(), handle_agent_request));
    }
}

/// Creates both listeners, which share the file descriptors of the process.
fn listeners(
    app: &App,
    agents: TcpListener,
    operators: TcpListener,
    runtimes: &Arc<RuntimePool>,
) -> (Listener, Listener) {
    let config = &app.snapshot().config;
    let budget = connection_budget(config.limits.connections);
    let listener = |kind, socket, connections, runtimes| Listener {
        app: app.clone(),
        kind,
        socket,
        limits: ListenerLimits::from_config(config, connections),
        runtimes,
    };
    let (runtimes, own) = (Arc::clone(runtimes), Arc::default());
    (
        listener(ListenerKind::Agents, agents, budget.agents, runtimes),
        listener(ListenerKind::Operators, operators, budget.operators, own),
    )
}

/// Raises the file descriptor limit, and divides it among the listeners.
fn connection_budget(configured: Option<usize>) -> ConnectionBudget {
    let descriptors = fd_limit::raise();
    let budget = ConnectionBudget::new(configured, descriptors);
    let connections = budget.agents;
    tracing::info!(descriptors, connections, "file descriptor limit");
    if configured.is_some_and(|configured| connections < configured) {
        tracing::warn!(
            connections,
            "`limits.connections` lowered to half of the file descriptor limit"
        );
    }
    budget
}

/// Fails readiness, and closes the listeners after `lame_duck`.
async fn start_shutdown(resources: &AppResources, lame_duck: Duration) {
    tracing::info!("shutting down");
    resources.draining.cancel();
    let aborted = resources.shutdown.cancelled();
    // Either outcome ends the wait.
    tokio::time::timeout(lame_duck, aborted).await.ok();
    resources.shutdown.cancel();
}

/// Binds the address of a setting.
///
/// # Errors
///
/// Returns an error that names the address and the setting.
pub fn bind(setting: &'static str, addr: SocketAddr) -> Result<TcpListener, ServerError> {
    listen(addr).map_err(|source| ServerError::Listen {
        setting,
        addr,
        source,
    })
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(LISTEN_BACKLOG)
}

/// Handles one request of an agent without a connection, for trials.
pub fn handle_agent_request(app: App, request: Request) -> BoxFuture<'static, Response> {
    Box::pin(async move {
        let (response, guard) = MiddlewareStack::new(app).handle(request).await;
        let on_end = move |_ended| drop(guard);
        response.map(|body| Body::new(OnBodyEnd::new(body, on_end)))
    })
}
