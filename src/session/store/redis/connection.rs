//! The way to Redis: nobody waits for long, and while it is away it is left
//! alone.

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

/// How long anybody waits for Redis.
const WAIT: Duration = Duration::from_millis(250);

/// How long it may take to connect when nobody waits for it.
const CONNECT: Duration = Duration::from_secs(3);

/// How long Redis is left alone after it did not answer.
const REST: Duration = Duration::from_secs(1);

/// Why sessions cannot be kept in Redis.
#[derive(Debug, Error)]
#[error("`sessions.store.redis.url` cannot be used: {0}")]
pub struct StoreError(String);

/// The way to Redis.
pub(super) struct RedisConnection {
    client: Client,
    state: Mutex<LinkState>,
    /// Held by whoever connects.
    connecting: tokio::sync::Mutex<()>,
    failures: Counter,
}

#[derive(Default)]
struct LinkState {
    connection: Option<MultiplexedConnection>,
    /// Until when Redis is left alone.
    rests_until: Option<Instant>,
    /// Whether it was said that Redis is away.
    away: bool,
}

impl RedisConnection {
    pub(super) fn new(url: &Secret, failures: Counter) -> Result<Self, StoreError> {
        let client = Client::open(url.expose_secret());
        Ok(Self {
            client: client.map_err(|it| StoreError(it.category().to_owned()))?,
            state: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            failures,
        })
    }

    /// Asks Redis; `None` if it is away.
    pub(super) async fn run<T: FromRedisValue>(&self, command: Cmd) -> Option<T> {
        if self.rests() {
            return None;
        }
        let asked = async {
            let mut connection = self.connection().await?;
            command.query_async(&mut connection).await
        };
        match timeout(WAIT, asked).await {
            Ok(Ok(answer)) => {
                self.is_back();
                Some(answer)
            }
            Ok(Err(error)) => self.is_away(&cause(&error)),
            Err(_elapsed) => self.is_away("no answer in time"),
        }
    }

    /// Connects, and takes its time for that, unless Redis is left alone.
    pub(super) async fn reach(&self) {
        if self.rests() {
            return;
        }
        match timeout(CONNECT, self.connection()).await {
            Ok(Ok(_)) => (),
            Ok(Err(error)) => self.is_away(&cause(&error)).unwrap_or_default(),
            Err(_elapsed) => self.is_away("no connection in time").unwrap_or_default(),
        }
    }

    async fn connection(&self) -> Result<MultiplexedConnection, RedisError> {
        if let Some(connection) = &self.way().connection {
            return Ok(connection.clone());
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(connection) = &self.way().connection {
            return Ok(connection.clone());
        }
        // It has no deadline of its own: whoever waits for it has one.
        let connection = self.client.get_multiplexed_async_connection().await?;
        self.way().connection = Some(connection.clone());
        Ok(connection)
    }

    fn rests(&self) -> bool {
        let way = self.way();
        way.rests_until.is_some_and(|it| it > Instant::now())
    }

    fn is_back(&self) {
        let was_away = std::mem::take(&mut self.way().away);
        if was_away {
            tracing::info!("session store recovered");
        }
    }

    fn is_away<T>(&self, cause: &str) -> Option<T> {
        self.failures.inc();
        let was_away = {
            let mut way = self.way();
            way.connection = None;
            way.rests_until = Some(Instant::now() + REST);
            std::mem::replace(&mut way.away, true)
        };
        if !was_away {
            tracing::warn!(
                error = cause,
                "session store unavailable, falling back to memory"
            );
        }
        None
    }

    fn way(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What went wrong, without the address.
fn cause(error: &RedisError) -> String {
    let code = error.code().unwrap_or_default();
    format!("{} {code}", error.category()).trim_end().to_owned()
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConnection").finish_non_exhaustive()
    }
}
