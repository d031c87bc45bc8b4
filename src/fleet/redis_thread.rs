//! Thread with a runtime that drives a connection to Redis, so that no busy thread delays it.

use std::{io, thread};

use redis::{Client, RedisError, aio::MultiplexedConnection};
use tokio::runtime::{Builder, Handle};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};

/// Thread of a connection. It ends when it is dropped, and the connection with it.
#[derive(Debug)]
pub(super) struct RedisThread {
    runtime: Handle,
    _close: DropGuard,
}

impl RedisThread {
    /// Starts a thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no more threads or file descriptors.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, close) = (runtime.handle().clone(), CancellationToken::new());
        let closed = close.clone().cancelled_owned();
        let thread = thread::Builder::new().name("redis".to_owned());
        thread.spawn(move || {
            runtime.block_on(closed);
            // Does not wait for a lookup in DNS.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            runtime: handle,
            _close: close.drop_guard(),
        })
    }

    /// Connects to Redis. Dropping the future ends the attempt.
    ///
    /// # Errors
    ///
    /// Returns the reason why there is no connection.
    pub(super) async fn connect(
        &self,
        client: Client,
    ) -> Result<MultiplexedConnection, RedisError> {
        let connecting = async move { client.get_multiplexed_async_connection().await };
        let connecting = AbortOnDropHandle::new(self.runtime.spawn(connecting));
        connecting.await.map_err(io::Error::other)?
    }
}
