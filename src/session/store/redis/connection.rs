//! Connection to Redis with short timeouts and a pause after each failure.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;
use redis::{Client, Cmd, FromRedisValue, RedisError, aio::MultiplexedConnection};
use secrecy::ExposeSecret;
use thiserror::Error;
use tokio::time::{Instant, timeout};

use crate::config::Secret;

/// Timeout of a command, including a new connection.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(250);

/// Timeout of a connection in the background.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause after a failure, during which no command is sent.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The URL of Redis is invalid.
#[derive(Debug, Error)]
#[error("invalid `sessions.store.redis.url`: {0}")]
pub struct StoreError(String);

/// Shared connection to Redis.
pub(super) struct RedisConnection {
    client: Client,
    state: Mutex<ConnectionInner>,
    /// Locked while a connection is being made.
    connecting: tokio::sync::Mutex<()>,
    failures: Counter,
}

#[derive(Default)]
struct ConnectionInner {
    connection: Option<MultiplexedConnection>,
    paused_until: Option<Instant>,
    /// Whether an outage was logged.
    is_unavailable: bool,
}

impl RedisConnection {
    pub(super) fn new(url: &Secret, failures: Counter) -> Result<Self, StoreError> {
        let client = Client::open(url.expose_secret());
        Ok(Self {
            client: client.map_err(|error| StoreError(error.category().to_owned()))?,
            state: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            failures,
        })
    }

    /// Runs a command; `None` if Redis is unavailable.
    pub(super) async fn run<T: FromRedisValue>(&self, command: Cmd) -> Option<T> {
        let query = async {
            let mut connection = self.connection().await?;
            command.query_async(&mut connection).await
        };
        let answer = self.attempt(COMMAND_TIMEOUT, query).await?;
        self.record_success();
        Some(answer)
    }

    /// Connects with the longer timeout, unless paused after a failure.
    pub(super) async fn connect(&self) {
        let connection = self.connection();
        let _connected = self.attempt(CONNECT_TIMEOUT, connection).await;
    }

    async fn attempt<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, RedisError>>,
    ) -> Option<T> {
        if self.is_paused() {
            return None;
        }
        match timeout(limit, work).await {
            Ok(Ok(value)) => return Some(value),
            Ok(Err(error)) => self.record_failure(&cause(&error)),
            Err(_elapsed) => self.record_failure("timed out"),
        }
        None
    }

    async fn connection(&self) -> Result<MultiplexedConnection, RedisError> {
        if let Some(connection) = &self.state().connection {
            return Ok(connection.clone());
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(connection) = &self.state().connection {
            return Ok(connection.clone());
        }
        // The callers have timeouts.
        let connection = self.client.get_multiplexed_async_connection().await?;
        self.state().connection = Some(connection.clone());
        Ok(connection)
    }

    fn is_paused(&self) -> bool {
        let state = self.state();
        state
            .paused_until
            .is_some_and(|until| until > Instant::now())
    }

    fn record_success(&self) {
        let was_unavailable = std::mem::take(&mut self.state().is_unavailable);
        if was_unavailable {
            tracing::info!("session store recovered");
        }
    }

    fn record_failure(&self, cause: &str) {
        self.failures.inc();
        let was_unavailable = {
            let mut state = self.state();
            state.connection = None;
            state.paused_until = Some(Instant::now() + RETRY_DELAY);
            std::mem::replace(&mut state.is_unavailable, true)
        };
        if !was_unavailable {
            tracing::warn!(
                error = cause,
                "session store unavailable, falling back to memory"
            );
        }
    }

    fn state(&self) -> MutexGuard<'_, ConnectionInner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes an error without the address.
fn cause(error: &RedisError) -> String {
    let code = error.code().unwrap_or_default();
    format!("{} {code}", error.category()).trim_end().to_owned()
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConnection").finish_non_exhaustive()
    }
}
