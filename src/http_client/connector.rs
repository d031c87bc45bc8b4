//! Connector for TCP and TLS, with a timeout.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tower::{BoxError, Service};

/// Connects with TLS if the scheme of the URI is `https`.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    inner: HttpsConnector<HttpConnector>,
    /// For DNS, TCP and TLS together.
    connect_timeout: Duration,
}

type ConnectFuture = Pin<Box<dyn Future<Output = Result<PooledStream, BoxError>> + Send>>;

type PooledStream = MaybeHttpsStream<TokioIo<TcpStream>>;

impl Connector {
    /// Returns a connector that verifies certificates as the system does.
    pub(super) fn new(connect_timeout: Duration) -> io::Result<Self> {
        let mut plain = HttpConnector::new();
        plain.set_nodelay(true);
        plain.enforce_http(false);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let inner = HttpsConnectorBuilder::new()
            .with_provider_and_platform_verifier(provider)?
            .https_or_http()
            .enable_http1()
            .wrap_connector(plain);
        Ok(Self {
            inner,
            connect_timeout,
        })
    }
}

impl Service<Uri> for Connector {
    type Response = PooledStream;
    type Error = BoxError;
    type Future = ConnectFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> ConnectFuture {
        let connecting = timeout(self.connect_timeout, self.inner.call(uri));
        Box::pin(async move {
            let elapsed = |_| io::Error::from(io::ErrorKind::TimedOut);
            connecting.await.map_err(elapsed)?
        })
    }
}
