//! HTTP/1.1 towards others: model APIs, and hooks that are servers.
//!
//! Each event loop has connections of its own: one that another loop looks after
//! would have to be woken for every call.
//!
//! It follows no redirect and no proxy variable, and its errors hold no URL: each
//! of these would carry a key or a prompt to a third party. It retries nothing
//! that anybody may have seen. It must not know what is sent, or why.
//!
//! It stands on hyper and its pool of connections. `reqwest` stands there, too,
//! and costs every call a parsed URL, a copy of its headers and five layers; who
//! calls rarely may use that.

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

/// Pools of connections.
#[derive(Clone)]
pub struct HttpClient(Arc<Pools>);

/// A pool for each event loop that has sent something.
struct Pools {
    builder: legacy::Builder,
    connector: Connector,
    open: ArcSwap<Vec<(runtime::Id, Sender)>>,
}

type Sender = legacy::Client<Connector, Body>;

/// What connections are kept, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct PoolConfig {
    /// How long a new one may take, TLS included.
    pub connect: Duration,
    /// How many are kept for each address and event loop that no call needs.
    pub spare: usize,
    /// How long such a connection is kept.
    pub spare_for: Duration,
}

/// No client can be built: there is nothing by which certificates are judged.
#[derive(Debug, thiserror::Error)]
#[error("certificates cannot be judged: {0}")]
pub struct TlsVerifierError(String);

/// Why there is no answer, or not all of it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct HttpClientError(#[from] Kind);

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error(transparent)]
    Call(#[from] legacy::Error),
    #[error(transparent)]
    Body(#[from] hyper::Error),
}

impl HttpClient {
    /// A client without connections.
    pub fn new(pool: PoolConfig) -> Result<Self, TlsVerifierError> {
        let connector =
            Connector::new(pool.connect).map_err(|it| TlsVerifierError(it.to_string()))?;
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(pool.spare_for)
            .pool_max_idle_per_host(pool.spare);
        Ok(Self(Arc::new(Pools {
            builder,
            connector,
            open: ArcSwap::default(),
        })))
    }

    /// Sends a request, whose URI is whole, and waits for the head of its answer.
    /// Dropping the future, or the answer, ends the call. Needs a runtime.
    pub fn send(
        &self,
        request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Incoming>, HttpClientError>> + use<> {
        let sending = self.0.send(request);
        sending.map_err(|error| HttpClientError(error.into()))
    }
}

impl Pools {
    /// Sends it by the pool of the event loop that this runs in.
    fn send(&self, request: Request<Body>) -> legacy::ResponseFuture {
        let here = Handle::current().id();
        let open = self.open.load();
        if let Some((_, sender)) = open.iter().find(|it| it.0 == here) {
            return sender.request(request);
        }
        let sender: Sender = self.builder.build(self.connector.clone());
        self.open.rcu(|open| {
            let open = open.iter().cloned();
            open.chain([(here, sender.clone())]).collect::<Vec<_>>()
        });
        sender.request(request)
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
    /// Whether there was no connection, so that nobody has seen the request.
    pub fn is_connect(&self) -> bool {
        matches!(&self.0, Kind::Call(error) if error.is_connect())
    }

    /// Whether no file could be opened, which is no fault of the other side.
    pub fn is_out_of_file_descriptors(&self) -> bool {
        let full = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        let code = |it: &io::Error| it.raw_os_error();
        self.any(|it: &io::Error| code(it).is_some_and(|it| full.contains(&it)))
    }

    /// Whether the request's own body broke off.
    pub fn is_request_body_error(&self) -> bool {
        self.any(hyper::Error::is_user)
    }

    /// Whether the other side hung up while it was sent a body. That may be what
    /// it does with this body, such as one that is too large, and then its answer
    /// may be lost. Hyper tells this by words alone.
    pub fn is_body_rejected(&self) -> bool {
        let words = "error writing a body to connection";
        self.any(|it: &hyper::Error| it.to_string() == words)
    }

    /// Whether this error, or one behind it, is of type `E` and such a one.
    fn any<E: Error + 'static>(&self, is: impl Fn(&E) -> bool) -> bool {
        let mut next = Some(match &self.0 {
            Kind::Call(error) => error as &(dyn Error + 'static),
            Kind::Body(error) => error,
        });
        let mut all = std::iter::from_fn(|| {
            let error = next?;
            next = error.source();
            Some(error)
        });
        all.any(|it| it.downcast_ref().is_some_and(&is))
    }
}
