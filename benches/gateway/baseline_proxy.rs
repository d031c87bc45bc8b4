//! Baseline: a reverse proxy with hyper that streams both ways, reuses connections,
//! replaces the authority and removes hop-by-hop headers. Any additional cost is that of
//! hookgate.

use std::future::Future;

use bytes::Bytes;
use http::{Request, Response, Uri, header, uri::Scheme};
use http_body_util::{Either, Full};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::{Error, Result};

/// A request's body as received, or as rewritten by a lower bound.
pub(crate) type Outgoing = Either<Incoming, Full<Bytes>>;

#[derive(Clone)]
pub(crate) struct Upstream {
    client: Client<HttpConnector, Outgoing>,
    authority: String,
}

impl Upstream {
    pub(crate) fn new(authority: &str) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            authority: authority.to_owned(),
        }
    }

    pub(crate) async fn send(&self, mut request: Request<Outgoing>) -> Result<Response<Incoming>> {
        let mut parts = request.uri().clone().into_parts();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(self.authority.parse()?);
        *request.uri_mut() = Uri::from_parts(parts)?;
        for name in [
            header::HOST,
            header::CONNECTION,
            header::TE,
            header::UPGRADE,
        ] {
            request.headers_mut().remove(name);
        }
        let mut response = self.client.request(request).await?;
        response.headers_mut().remove(header::CONNECTION);
        Ok(response)
    }
}

pub(crate) async fn serve<H, F, B>(listener: TcpListener, handle: H) -> Result<()>
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>>> + Send,
    B: Body<Data: Send, Error: Into<Error>> + Send + 'static,
{
    let connections = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service_fn(handle.clone());
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

pub(crate) async fn run(listener: TcpListener, upstream: &str) -> Result<()> {
    let upstream = Upstream::new(upstream);
    let handle = move |request: Request<Incoming>| {
        let upstream = upstream.clone();
        async move { upstream.send(request.map(Either::Left)).await }
    };
    serve(listener, handle).await
}
