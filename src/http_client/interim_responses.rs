//! Limit on interim responses (RFC 9110, section 15.2). In HTTP/1 hyper reads and discards any
//! number of them, without letting other tasks run.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::{Extensions, Request};
use hyper::{
    ext::on_informational,
    rt::{Read, ReadBufCursor, Write},
};
use hyper_util::client::legacy::connect::{Connected, Connection, capture_connection};

/// Maximum number of interim responses to one request. Servers send few: hints, or a sign of life
/// every 20 seconds (RFC 2518, section 10.1).
const MAX_INTERIM_RESPONSES: usize = 256;

/// A connection that fails once its server has sent too many interim responses.
#[derive(Debug)]
pub(super) struct LimitedConnection<S> {
    stream: S,
    limit: InterimLimit,
}

/// State of a connection, which each request on it finds in its metadata.
#[derive(Debug, Clone, Default)]
struct InterimLimit {
    is_exceeded: Arc<AtomicBool>,
}

/// Lets the connection of a request fail if its server sends too many interim responses.
pub(super) fn limit_interim_responses<B>(request: &mut Request<B>) {
    let connection = capture_connection(request);
    let received = AtomicUsize::new(0);
    on_informational(request, move |_| {
        if received.fetch_add(1, Ordering::Relaxed) != MAX_INTERIM_RESPONSES {
            return;
        }
        let mut metadata = Extensions::new();
        if let Some(connected) = connection.connection_metadata().as_ref() {
            connected.get_extras(&mut metadata);
        }
        if let Some(limit) = metadata.get::<InterimLimit>() {
            limit.is_exceeded.store(true, Ordering::Relaxed);
        }
    });
}

impl<S> LimitedConnection<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            limit: InterimLimit::default(),
        }
    }
}

impl<S: Connection> Connection for LimitedConnection<S> {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.limit.clone())
    }
}

impl<S: Read + Unpin> Read for LimitedConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.limit.is_exceeded.load(Ordering::Relaxed) {
            let error = format!("more than {MAX_INTERIM_RESPONSES} interim responses");
            return Poll::Ready(Err(io::Error::other(error)));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for LimitedConnection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use http::Response;
    use hyper::body::Incoming;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        time::timeout,
    };

    use super::*;
    use crate::http_client::{HttpClient, HttpClientError, HttpVersion, PoolConfig};

    const INTERIM: &str = "HTTP/1.1 103 Early Hints\r\n\r\n";

    /// Sends a request to a server that answers with `interim` interim responses and a final one.
    async fn send(interim: usize) -> Result<Response<Incoming>, HttpClientError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_buf(&mut Vec::new()).await.unwrap();
            for _ in 0..interim {
                if stream.write_all(INTERIM.as_bytes()).await.is_err() {
                    return;
                }
            }
            let response = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(response.as_bytes()).await.ok();
        };
        let client = HttpClient::new(PoolConfig {
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(10),
            version: HttpVersion::Http1,
            https: false,
        });
        let uri = format!("http://{address}/");
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let sent = client.unwrap().send(request);
        let (response, ()) = timeout(Duration::from_secs(10), async { tokio::join!(sent, serve) })
            .await
            .unwrap();
        response
    }

    #[tokio::test]
    async fn interim_responses_are_skipped_within_their_limit() {
        assert_eq!(send(MAX_INTERIM_RESPONSES).await.unwrap().status(), 200);
    }

    #[tokio::test]
    async fn interim_responses_without_end_fail_the_request() {
        let error = send(usize::MAX).await.unwrap_err();

        let is_limit = |error: &io::Error| error.to_string().contains("interim");
        assert!(error.any(is_limit), "{error:?}");
    }
}
