//! Heartbeats of replicas.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;
use uuid::Uuid;

use super::redis_connection::{RedisConnection, RedisScript, ScriptCall, StoreError};
use crate::config::Secret;

/// Time between two heartbeats.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time after which a replica without a heartbeat is not counted.
const LIFETIME: Duration = Duration::from_secs(10);

/// Key of all replicas with the time of their last heartbeat. The number changes with the
/// form of the values.
const SEEN_KEY: &str = "hookgate:fleet:1:{replicas}:seen";

/// Writes a heartbeat and returns the number of replicas.
const BEAT: &str = "
local seen, replica, lifetime = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', seen, now_ms, replica)
redis.call('ZREMRANGEBYSCORE', seen, '-inf', now_ms - lifetime)
redis.call('PEXPIRE', seen, lifetime)
return redis.call('ZCARD', seen)";

/// This replica among those that share a Redis.
pub struct Fleet {
    connection: RedisConnection,
    /// Random id of this process.
    replica: Uuid,
    beat: RedisScript,
    /// Replicas at the last heartbeat; zero before the first.
    replicas: AtomicU64,
}

impl Fleet {
    /// Time between two heartbeats.
    pub const INTERVAL: Duration = INTERVAL;

    /// Creates a replica of the fleet whose Redis is at `url`. Connects on first use.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid.
    pub fn new(url: &Secret, failures: Counter) -> Result<Self, StoreError> {
        Ok(Self {
            connection: RedisConnection::new(url, "limits", failures)?,
            replica: Uuid::new_v4(),
            beat: RedisScript::new(BEAT.to_owned()),
            replicas: AtomicU64::new(0),
        })
    }

    /// Returns the connection to Redis.
    pub const fn connection(&self) -> &RedisConnection {
        &self.connection
    }

    /// Returns the number of replicas at the last heartbeat; zero before the first.
    pub fn replicas(&self) -> u64 {
        self.replicas.load(Ordering::Relaxed)
    }

    /// Writes a heartbeat. Returns `false` if Redis is unavailable.
    pub async fn beat(&self) -> bool {
        self.connection.connect().await;
        let call = ScriptCall::new([SEEN_KEY.to_owned()])
            .arg(self.replica.to_string())
            .arg(LIFETIME.as_secs() * 1000);
        let replicas: Option<u64> = self.connection.run_script(&self.beat, &call).await;
        if let Some(replicas) = replicas {
            self.replicas.store(replicas, Ordering::Relaxed);
        }
        replicas.is_some()
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").finish_non_exhaustive()
    }
}
