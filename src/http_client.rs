//! HTTP/1.1 client for model APIs and HTTP hooks, with a connection pool per runtime.
//!
//! Each event loop has connections of its own, since a connection driven by another
//! loop would cost a wake-up across threads for every call.
//!
//! Follows no redirect and no proxy variable, and its errors hold no URL: each would
//! carry a key or a prompt to a third party. Retries nothing that may have been sent.
//!
//! Built on hyper's pooled client. `reqwest` adds a parsed URL, a copy of the headers
//! and five layers to each call; calls that are rare may use it.

mod connector;

use std::{error::Error, fmt, io, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use axum::body::Body;
use futures_util::TryFutureExt;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use rustix::io::Errno;
use tokio::runtime::{self, Handle};

use self::connector::Connector;

/// HTTP client. Clones share their connection pools.
#[derive(Clone)]
pub struct HttpClient(Arc<RuntimePools>);

/// One pool for each runtime that has sent a request.
struct RuntimePools {
    builder: legacy::Builder,
    connector: Connector,
    pools: ArcSwap<Vec<(runtime::Id, PooledClient)>>,
}

type PooledClient = legacy::Client<Connector, Body>;

/// Configuration of a connection pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolConfig {
    /// Time for a new connection, TLS included.
    pub connect_timeout: Duration,
    /// Most idle connections per address and event loop.
    pub max_idle_per_host: usize,
    /// Time until an idle connection is closed.
    pub idle_timeout: Duration,
}

/// The system's certificate verifier is not available.
#[derive(Debug, thiserror::Error)]
#[error("no certificate verifier: {0}")]
pub struct TlsVerifierError(io::Error);

/// Failed request, or failed response body.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct HttpClientError(#[from] ErrorSource);

#[derive(Debug, thiserror::Error)]
enum ErrorSource {
    #[error(transparent)]
    Request(#[from] legacy::Error),
    #[error(transparent)]
    Body(#[from] hyper::Error),
}

impl HttpClient {
    /// Returns a client without connections.
    pub fn new(config: PoolConfig) -> Result<Self, TlsVerifierError> {
        let connector = Connector::new(config.connect_timeout).map_err(TlsVerifierError)?;
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(config.idle_timeout)
            .pool_max_idle_per_host(config.max_idle_per_host);
        Ok(Self(Arc::new(RuntimePools {
            builder,
            connector,
            pools: ArcSwap::default(),
        })))
    }

    /// Sends a request with an absolute URI and waits for the head of its response.
    /// Dropping the future, or the response, ends the call. Needs a runtime.
    pub fn send(
        &self,
        request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Incoming>, HttpClientError>> + use<> {
        let response = self.0.client().request(request);
        response.map_err(|error| HttpClientError(error.into()))
    }
}

impl RuntimePools {
    /// Returns the client of the current runtime.
    fn client(&self) -> PooledClient {
        let runtime = Handle::current().id();
        let pools = self.pools.load();
        if let Some((_, client)) = pools.iter().find(|(id, _)| *id == runtime) {
            return client.clone();
        }
        let client: PooledClient = self.builder.build(self.connector.clone());
        self.pools.rcu(|pools| {
            let pools = pools.iter().cloned();
            pools.chain([(runtime, client.clone())]).collect::<Vec<_>>()
        });
        client
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

impl From<hyper::Error> for HttpClientError {
    fn from(error: hyper::Error) -> Self {
        Self(error.into())
    }
}

impl HttpClientError {
    /// Whether there was no connection, so that the request was not sent.
    pub fn is_connect(&self) -> bool {
        matches!(&self.0, ErrorSource::Request(error) if error.is_connect())
    }

    /// Whether the limit of open file descriptors is reached on this side.
    pub fn is_out_of_file_descriptors(&self) -> bool {
        let codes = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        let code = |error: &io::Error| error.raw_os_error();
        self.any(|error: &io::Error| code(error).is_some_and(|code| codes.contains(&code)))
    }

    /// Whether the body of the request failed.
    pub fn is_request_body_error(&self) -> bool {
        self.any(hyper::Error::is_user)
    }

    /// Whether the other side closed the connection while a body was being sent, as it
    /// may do with a body that is too large. Hyper exposes this in its message only.
    pub fn is_body_rejected(&self) -> bool {
        let message = "error writing a body to connection";
        self.any(|error: &hyper::Error| error.to_string() == message)
    }

    /// Whether an error of type `E` in the chain of sources matches.
    fn any<E: Error + 'static>(&self, matches: impl Fn(&E) -> bool) -> bool {
        let mut next = Some(match &self.0 {
            ErrorSource::Request(error) => error as &(dyn Error + 'static),
            ErrorSource::Body(error) => error,
        });
        while let Some(error) = next {
            if error.downcast_ref().is_some_and(&matches) {
                return true;
            }
            next = error.source();
        }
        false
    }
}
