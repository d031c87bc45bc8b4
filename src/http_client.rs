//! HTTP client for model APIs and HTTP hooks, with a connection pool per runtime.
//!
//! Each event loop has connections of its own, since a connection driven by another
//! loop would cost a wake-up across threads for every call.
//!
//! Follows no redirect and no proxy variable, and its errors hold no URL: each would
//! carry a key or a prompt to a third party. Retries nothing that may have been sent.
//!
//! Built on hyper's pooled client. `reqwest` adds a parsed URL, a copy of the headers
//! and five layers to each call; calls that are rare may use it.

mod few_addresses;
mod yielding_connection;

use std::{
    error::Error,
    io,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use futures_util::{TryFutureExt, future::BoxFuture};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use rustix::io::Errno;
use tokio::{
    net::TcpStream,
    runtime::{self, Handle},
};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use tower::{BoxError, Service, ServiceExt, timeout::Timeout};

use self::{few_addresses::FewAddresses, yielding_connection::YieldingConnection};
use crate::error_chain::error_chain;

/// Most idle connections per address and event loop.
const MAX_IDLE_CONNECTIONS: usize = 256;

/// Receive window of a stream of HTTP/2, in bytes.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;

/// Receive window of a connection of HTTP/2: that of 256 streams, so that responses which
/// agents do not read stop no others.
const CONNECTION_WINDOW_BYTES: u32 = 256 * STREAM_WINDOW_BYTES;

/// Maximum size of a response's headers, in bytes.
const MAX_HEADER_BYTES: u32 = 64 * 1024;

/// Interval at which a connection of HTTP/2 with streams is tested, and the time for the
/// answer. All calls of an event loop depend on one connection.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// HTTP client. Clones share their connection pools.
#[derive(Debug, Clone)]
pub struct HttpClient(Arc<RuntimePools>);

/// One pool for each runtime that has sent a request.
#[derive(Debug)]
struct RuntimePools {
    builder: legacy::Builder,
    connector: Connector,
    pools: RwLock<Vec<(runtime::Id, PooledClient)>>,
}

type PooledClient = legacy::Client<Connector, Body>;

/// Connects with TLS if the scheme of the URI is `https`. The pool clones it for each request,
/// and few requests connect.
#[derive(Debug, Clone)]
struct Connector(Arc<Timeout<HttpsConnector<HttpConnector<FewAddresses>>>>);

/// Configuration of a connection pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolConfig {
    /// Time for a new connection, TLS included.
    pub connect_timeout: Duration,
    /// Time until an idle connection is closed.
    pub idle_timeout: Duration,
    /// Version of HTTP that servers are spoken to in.
    pub version: HttpVersion,
    /// Support of `https`. Without it no certificate is trusted, which saves reading all of
    /// the system's.
    pub https: bool,
}

/// Version of HTTP of the connections of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1, also if the server has HTTP/2.
    Http1,
    /// HTTP/2 if the server agrees to it in the TLS handshake (ALPN), else HTTP/1.1.
    Negotiated,
    /// HTTP/2 without negotiation (RFC 9113, section 3.3).
    Http2,
}

/// The system's certificate verifier is not available.
#[derive(Debug, thiserror::Error)]
#[error("no certificate verifier: {0}")]
pub struct TlsVerifierError(io::Error);

/// Failed request, or failed response body.
#[derive(Debug, thiserror::Error)]
pub enum HttpClientError {
    /// The request was not sent, or its response has no head.
    #[error(transparent)]
    Request(#[from] legacy::Error),
    /// The body of the response broke off.
    #[error(transparent)]
    Body(#[from] hyper::Error),
}

impl HttpClient {
    /// Returns a client without connections.
    pub fn new(config: PoolConfig) -> Result<Self, TlsVerifierError> {
        let connector = connector(&config).map_err(TlsVerifierError)?;
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(config.idle_timeout)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .http1_max_buf_size(MAX_HEADER_BYTES as usize)
            .http2_only(config.version == HttpVersion::Http2)
            .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
            .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .http2_keep_alive_interval(PING_INTERVAL)
            .http2_keep_alive_timeout(PING_INTERVAL);
        Ok(Self(Arc::new(RuntimePools {
            builder,
            connector,
            pools: RwLock::default(),
        })))
    }

    /// Sends a request with an absolute URI and waits for the head of its response.
    /// Dropping the future, or the response, ends the call. Needs a runtime.
    pub fn send(
        &self,
        request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Incoming>, HttpClientError>> + use<> {
        self.0.send(request).err_into()
    }
}

/// Returns a connector that verifies certificates as the system does, or trusts none. The
/// timeout is for DNS, TCP and TLS together.
fn connector(config: &PoolConfig) -> io::Result<Connector> {
    let mut plain = HttpConnector::new_with_resolver(FewAddresses::new());
    plain.set_nodelay(true);
    plain.enforce_http(false);
    // Each address of a name has a share of it.
    plain.set_connect_timeout(Some(config.connect_timeout));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let connector = HttpsConnectorBuilder::new();
    let connector = if config.https {
        connector.with_provider_and_platform_verifier(provider)?
    } else {
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let tls = tls.with_root_certificates(RootCertStore::empty());
        connector.with_tls_config(tls.with_no_client_auth())
    };
    let connector = connector.https_or_http().enable_http1();
    let connector = match config.version {
        HttpVersion::Http1 => connector.wrap_connector(plain),
        HttpVersion::Negotiated | HttpVersion::Http2 => {
            connector.enable_http2().wrap_connector(plain)
        }
    };
    let connector = Timeout::new(connector, config.connect_timeout);
    Ok(Connector(Arc::new(connector)))
}

impl Service<Uri> for Connector {
    type Response = YieldingConnection<MaybeHttpsStream<TokioIo<TcpStream>>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let connected = Timeout::clone(&self.0).oneshot(address);
        Box::pin(connected.map_ok(YieldingConnection::new))
    }
}

impl RuntimePools {
    /// Sends a request with the client of the current runtime.
    fn send(&self, request: Request<Body>) -> legacy::ResponseFuture {
        let runtime = Handle::current().id();
        let pools = self.pools.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = pools.iter().find(|(id, _)| *id == runtime) {
            return client.request(request);
        }
        drop(pools);
        let client: PooledClient = self.builder.build(self.connector.clone());
        let response = client.request(request);
        let mut pools = self.pools.write().unwrap_or_else(PoisonError::into_inner);
        pools.push((runtime, client));
        response
    }
}

impl HttpClientError {
    /// Returns whether there was no connection, so that the request was not sent.
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Request(error) if error.is_connect())
    }

    /// Returns whether the limit of open file descriptors is reached on this side.
    pub fn is_out_of_file_descriptors(&self) -> bool {
        let codes = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        let code = |error: &io::Error| error.raw_os_error();
        self.any(|error: &io::Error| code(error).is_some_and(|code| codes.contains(&code)))
    }

    /// Returns whether the other side closed the connection while a body was being sent, as it
    /// may do with a body that is too large. Hyper exposes this in its message only.
    pub fn is_body_rejected(&self) -> bool {
        let message = "error writing a body to connection";
        self.any(|error: &hyper::Error| error.to_string() == message)
    }

    /// Returns whether an error of type `E` in the chain of sources matches.
    fn any<E: Error + 'static>(&self, matches: impl Fn(&E) -> bool) -> bool {
        let error: &(dyn Error + 'static) = match self {
            Self::Request(error) => error,
            Self::Body(error) => error,
        };
        error_chain(error).any(|error| error.downcast_ref().is_some_and(&matches))
    }
}
