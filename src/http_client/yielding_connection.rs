//! A connection that lets other tasks run while its server sends without end.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

/// Bytes that are read before other tasks run. hyper skips interim responses (status 1xx) in one
/// poll, which Tokio ends after 128 reads, however large they are.
const MAX_TURN_BYTES: usize = 64 * 1024;

/// A connection that lets other tasks run after [`MAX_TURN_BYTES`].
#[derive(Debug)]
pub(super) struct YieldingConnection<S> {
    stream: S,
    /// Bytes since other tasks ran, at most.
    turn_bytes: usize,
}

impl<S> YieldingConnection<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self {
            stream,
            turn_bytes: 0,
        }
    }
}

impl<S: Connection> Connection for YieldingConnection<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl<S: Read + Unpin> Read for YieldingConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.turn_bytes >= MAX_TURN_BYTES {
            self.turn_bytes = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.turn_bytes += buffer.remaining();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_pending() {
            self.turn_bytes = 0;
        }
        read
    }
}

impl<S: Write + Unpin> Write for YieldingConnection<S> {
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
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        thread,
        time::{Duration, Instant},
    };

    use axum::body::Body;
    use http::{Request, StatusCode};
    use tokio::time::{sleep, timeout};

    use crate::http_client::{HttpClient, HttpVersion, PoolConfig};

    /// Returns `count` interim responses.
    fn interim_responses(count: usize) -> Vec<u8> {
        "HTTP/1.1 103 Early Hints\r\n\r\n"
            .repeat(count)
            .into_bytes()
    }

    /// A client, and a request to a server that answers with `respond`.
    fn request_to(respond: impl FnOnce(TcpStream) + Send + 'static) -> (HttpClient, Request<Body>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _read = stream.read(&mut [0; 4096]).unwrap();
            respond(stream);
        });
        let client = HttpClient::new(PoolConfig {
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(10),
            version: HttpVersion::Http1,
            https: false,
        });
        let request = Request::get(format!("http://{address}/")).body(Body::empty());
        (client.unwrap(), request.unwrap())
    }

    #[tokio::test]
    async fn a_response_follows_many_interim_responses() {
        let (client, request) = request_to(|mut stream| {
            stream.write_all(&interim_responses(10_000)).unwrap();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
        });
        assert_eq!(client.send(request).await.unwrap().status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn other_tasks_run_while_interim_responses_arrive_without_end() {
        let (client, request) =
            request_to(
                |mut stream| {
                    while stream.write_all(&interim_responses(1300)).is_ok() {}
                },
            );
        let started = Instant::now();

        let (sent, turns) = tokio::join!(
            timeout(Duration::from_secs(1), client.send(request)),
            async {
                let mut turns = 0;
                while started.elapsed() < Duration::from_secs(1) {
                    sleep(Duration::from_millis(1)).await;
                    turns += 1;
                }
                turns
            }
        );

        assert!(sent.is_err(), "{sent:?}");
        // Unoptimised, each turn takes about 200 ms, and much longer on a busy machine.
        assert!(started.elapsed() < Duration::from_secs(20));
        assert!(turns >= 2, "{turns}");
    }
}
