//! Connection to Redis with short timeouts and a pause after each failure.

use std::{borrow::Cow, fmt, time::Duration};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use data_encoding::HEXLOWER;
use prometheus_client::metrics::counter::Counter;
use redis::{
    Client, Cmd, ErrorKind, FromRedisValue, RedisError, ToRedisArgs, aio::MultiplexedConnection,
};
use secrecy::ExposeSecret;
use thiserror::Error;
use tokio::time::{Instant, timeout};

use super::redis_thread::RedisThread;
use crate::{config::Secret, mutex::Mutex};

/// Timeout of a command, including a new connection.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(250);

/// Timeout of a connection in the background.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause after a failure, during which no command is sent.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The URL of Redis is invalid.
#[derive(Debug, Error)]
#[error("invalid URL of the {data} in Redis: {cause}")]
pub struct StoreError {
    data: &'static str,
    cause: String,
}

/// Connection to Redis that all requests share.
pub struct RedisConnection {
    client: Client,
    /// Name of the data in log lines.
    data: &'static str,
    state: Mutex<ConnectionInner>,
    /// Thread of the connection. Locked while a connection is being made.
    thread: tokio::sync::Mutex<Option<RedisThread>>,
    failures: Counter,
}

#[derive(Default)]
struct ConnectionInner {
    connection: Option<MultiplexedConnection>,
    paused_until: Option<Instant>,
    /// The last failure, until a command succeeds.
    failure: Option<RedisFailure>,
}

/// The reason why a command has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RedisFailure {
    /// There is no connection, or no answer.
    Unavailable,
    /// Redis answered with an error of this code, such as `MOVED`.
    Refused(String),
}

/// One run of a Lua script, which Redis runs atomically.
#[derive(Debug, Clone)]
pub struct ScriptCall {
    script: Cow<'static, str>,
    keys: Vec<String>,
    arguments: Vec<Vec<u8>>,
}

impl ScriptCall {
    /// Creates a call of a script with these keys and no arguments.
    pub fn new(
        script: impl Into<Cow<'static, str>>,
        keys: impl IntoIterator<Item = String>,
    ) -> Self {
        Self {
            script: script.into(),
            keys: keys.into_iter().collect(),
            arguments: Vec::new(),
        }
    }

    /// Returns the hash under which Redis keeps the script.
    fn sha1(&self) -> String {
        let sha1 = digest(&SHA1_FOR_LEGACY_USE_ONLY, self.script.as_bytes());
        HEXLOWER.encode(sha1.as_ref())
    }

    /// Returns the command that runs a script by its text or its hash.
    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys);
        command.arg(&self.arguments);
        command
    }

    /// Adds an argument behind those before.
    #[must_use]
    pub fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        argument.write_redis_args(&mut self.arguments);
        self
    }
}

impl RedisConnection {
    /// Creates a connection to the Redis at `url` for this kind of data. Connects on first
    /// use. Each failure is counted in `failures`.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid.
    pub fn new(url: &Secret, data: &'static str, failures: Counter) -> Result<Self, StoreError> {
        let client = Client::open(url.expose_secret()).map_err(|error| StoreError {
            data,
            cause: error.category().to_owned(),
        });
        Ok(Self {
            client: client?,
            data,
            state: Mutex::default(),
            thread: tokio::sync::Mutex::default(),
            failures,
        })
    }

    /// Runs a script; `None` if Redis is unavailable. The script is sent by its hash, and
    /// as a whole if Redis does not have it: servers may refuse to load scripts.
    pub async fn run_script<T: FromRedisValue>(&self, call: &ScriptCall) -> Option<T> {
        let query = async {
            let mut connection = self.connection().await?;
            let by_hash = call.command("EVALSHA", &call.sha1());
            match by_hash.query_async(&mut connection).await {
                Err(error) if error.kind() == ErrorKind::NoScriptError => {
                    let whole = call.command("EVAL", &call.script);
                    whole.query_async(&mut connection).await
                }
                answer => answer,
            }
        };
        self.query(query).await
    }

    /// Connects with the longer timeout, unless paused after a failure.
    pub async fn connect(&self) {
        let _connected = self.attempt(CONNECT_TIMEOUT, self.connection()).await;
    }

    async fn query<T>(&self, query: impl Future<Output = Result<T, RedisError>>) -> Option<T> {
        let answer = self.attempt(COMMAND_TIMEOUT, query).await?;
        if self.state.lock().failure.take().is_some() {
            tracing::info!(data = self.data, "Redis recovered");
        }
        Some(answer)
    }

    async fn attempt<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, RedisError>>,
    ) -> Option<T> {
        let paused_until = self.state.lock().paused_until;
        if paused_until.is_some_and(|until| until > Instant::now()) {
            return None;
        }
        match timeout(limit, work).await {
            Ok(Ok(value)) => return Some(value),
            Ok(Err(error)) => self.record_failure(&failure(&error), &cause(&error)),
            Err(_elapsed) => self.record_failure(&RedisFailure::Unavailable, "timed out"),
        }
        None
    }

    async fn connection(&self) -> Result<MultiplexedConnection, RedisError> {
        if let Some(connection) = &self.state.lock().connection {
            return Ok(connection.clone());
        }
        let mut thread = self.thread.lock().await;
        if let Some(connection) = &self.state.lock().connection {
            return Ok(connection.clone());
        }
        let thread = match &mut *thread {
            Some(thread) => thread,
            none => none.insert(RedisThread::start()?),
        };
        // The callers have timeouts.
        let connection = thread.connect(self.client.clone()).await?;
        self.state.lock().connection = Some(connection.clone());
        Ok(connection)
    }

    /// Returns the reason why Redis refuses commands, if it answers.
    pub fn refusal(&self) -> Option<String> {
        match &self.state.lock().failure {
            Some(RedisFailure::Refused(code)) => Some(refusal(code)),
            Some(RedisFailure::Unavailable) | None => None,
        }
    }

    fn record_failure(&self, failure: &RedisFailure, cause: &str) {
        self.failures.inc();
        let previous = {
            let mut state = self.state.lock();
            state.connection = None;
            state.paused_until = Some(Instant::now() + RETRY_DELAY);
            state.failure.replace(failure.clone())
        };
        if previous.as_ref() == Some(failure) {
            return;
        }
        let data = self.data;
        match failure {
            RedisFailure::Unavailable => {
                tracing::warn!(
                    data,
                    error = cause,
                    "Redis unavailable, falling back to memory"
                );
            }
            RedisFailure::Refused(code) => {
                tracing::warn!(
                    data,
                    error = refusal(code),
                    "Redis refuses commands, falling back to memory"
                );
            }
        }
    }
}

/// Returns the kind of a failure.
fn failure(error: &RedisError) -> RedisFailure {
    error.code().map_or(RedisFailure::Unavailable, |code| {
        RedisFailure::Refused(code.to_owned())
    })
}

/// Describes an answer with an error of this code.
fn refusal(code: &str) -> String {
    let hint = match code {
        "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" | "TRYAGAIN" => {
            ", and a cluster needs a proxy"
        }
        _ => "",
    };
    format!("Redis answered {code}{hint}")
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
