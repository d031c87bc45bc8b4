//! Read and write timeouts of a connection: between requests, while a request head is
//! received, and while the client accepts no data. hyper has one timeout for the first two
//! and none for the third. A connection of HTTP/2 is idle without a stream, whatever else
//! the client sends.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};

use crate::{config::Timeouts, mutex::Mutex, resettable_timer::ResettableTimer};

/// Maximum time to read from a client of HTTP/1.1 that still sends after the last response.
/// Closing the socket at once would reset the connection, and the client would lose the response.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

const DISCARD_BUFFER_BYTES: usize = 8192;

/// Interval at which a busy connection with unread input is checked for its end.
const CLOSE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout that closed a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum TimeoutKind {
    #[error("idle connection")]
    Idle,
    /// The head of a request, or the TLS handshake.
    #[error("timed out reading the request head")]
    Head,
    #[error("timed out writing")]
    Write,
}

/// Progress of the current requests, which decides which timeout applies.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionState(Arc<ConnectionFlags>);

#[derive(Debug, Default)]
struct ConnectionFlags {
    /// Requests that are being handled, which have timeouts of their own.
    requests: AtomicUsize,
    /// The connection has had a stream of HTTP/2.
    has_streams: AtomicBool,
    /// A response was completed since the last check, perhaps between two polls.
    has_responded: AtomicBool,
    /// Bytes were read or written since the last check.
    has_progressed: AtomicBool,
    /// The body of the last request was not read to its end.
    has_unread_body: AtomicBool,
    /// The timeout that failed the connection. Errors of HTTP/2 do not carry it.
    timeout: Mutex<Option<TimeoutKind>>,
}

impl ConnectionState {
    /// Marks the start of a request, whose body is not read yet if `has_body`.
    pub(super) fn start_request(&self, has_body: bool) -> BusyGuard {
        self.0.has_unread_body.store(has_body, Ordering::Relaxed);
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        BusyGuard(self.clone())
    }

    /// Marks the start of a request of HTTP/2. Other streams do not depend on its body.
    pub(super) fn start_stream(&self) -> BusyGuard {
        self.0.has_streams.store(true, Ordering::Relaxed);
        self.start_request(false)
    }

    /// Marks the request body as read to its end.
    pub(super) fn finish_body(&self) {
        self.0.has_unread_body.store(false, Ordering::Relaxed);
    }

    pub(super) fn has_unread_body(&self) -> bool {
        self.0.has_unread_body.load(Ordering::Relaxed)
    }

    /// Returns the timeout that failed the connection.
    pub(super) fn timeout(&self) -> Option<TimeoutKind> {
        *self.0.timeout.lock()
    }

    /// Returns the error for a connection that a timeout fails.
    fn time_out(&self, kind: TimeoutKind) -> io::Error {
        *self.0.timeout.lock() = Some(kind);
        io::Error::new(io::ErrorKind::TimedOut, kind)
    }

    fn take_has_responded(&self) -> bool {
        self.0.has_responded.swap(false, Ordering::Relaxed)
    }

    fn record_progress(&self) {
        self.0.has_progressed.store(true, Ordering::Relaxed);
    }

    /// Returns whether bytes were read or written since the last call.
    pub(super) fn take_has_progressed(&self) -> bool {
        self.0.has_progressed.swap(false, Ordering::Relaxed)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.0.requests.load(Ordering::Relaxed) > 0
    }

    pub(super) fn has_streams(&self) -> bool {
        self.0.has_streams.load(Ordering::Relaxed)
    }
}

/// Keeps a connection busy until all of the response is taken to be written, or the request is
/// given up.
#[derive(Debug)]
pub(super) struct BusyGuard(ConnectionState);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        let flags = &self.0.0;
        flags.has_responded.store(true, Ordering::Relaxed);
        flags.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Event that a connection without progress waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitState {
    RequestHead,
    NextRequest,
    Response,
    /// The next check for the end of the connection.
    CloseCheck,
}

/// Socket that fails with a [`TimeoutKind`] after a timeout.
#[derive(Debug)]
pub(super) struct TimeoutStream {
    stream: TcpStream,
    state: ConnectionState,
    timeouts: Timeouts,
    waiting_for: WaitState,
    /// False while bytes that were read, or may be read, wait for the end of a request.
    awaits_input: bool,
    /// End of the current wait.
    deadline: Instant,
    timer: ResettableTimer,
    /// Runs while a write makes no progress.
    write_timer: Option<Pin<Box<Sleep>>>,
    /// Runs while input is discarded after the last response.
    linger_timer: Option<Pin<Box<Sleep>>>,
}

impl TimeoutStream {
    pub(super) fn new(stream: TcpStream, state: ConnectionState, timeouts: Timeouts) -> Self {
        Self {
            stream,
            state,
            timeouts,
            waiting_for: WaitState::RequestHead,
            awaits_input: false,
            deadline: Instant::now() + timeouts.header,
            timer: ResettableTimer::default(),
            write_timer: None,
            linger_timer: None,
        }
    }

    fn wait_for(&mut self, waiting_for: WaitState, timeout: Duration) {
        if self.waiting_for != waiting_for {
            self.waiting_for = waiting_for;
            self.deadline = Instant::now() + timeout;
        }
    }

    /// Starts the idle timeout after a response.
    fn wait_for_next_request(&mut self) {
        if self.state.take_has_responded() || self.is_in_request() {
            self.waiting_for = WaitState::Response;
            self.wait_for(WaitState::NextRequest, self.timeouts.idle);
        }
    }

    fn is_in_request(&self) -> bool {
        matches!(
            self.waiting_for,
            WaitState::Response | WaitState::CloseCheck
        )
    }

    /// Wakes the reader after the idle timeout. A stream can end by a reset, after which
    /// nothing is read or written.
    fn poll_while_busy(&mut self, context: &mut Context<'_>) {
        self.waiting_for = WaitState::Response;
        if self.state.has_streams() {
            self.deadline = Instant::now() + self.timeouts.idle;
            if self.poll_deadline(context).is_ready() {
                context.waker().wake_by_ref();
            }
        }
    }

    /// Fails if the client has closed the connection behind bytes that wait for the end of this
    /// request: hyper reads no further, and would not notice.
    fn check_close(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.awaits_input || self.state.has_streams() {
            return Ok(());
        }
        self.wait_for(WaitState::CloseCheck, CLOSE_CHECK_INTERVAL);
        while self.poll_deadline(context).is_ready() {
            let mut socket = [PollFd::new(&self.stream, PollFlags::RDHUP)];
            if poll(&mut socket, Some(&Timespec::default()))? > 0 {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            self.deadline = Instant::now() + CLOSE_CHECK_INTERVAL;
        }
        Ok(())
    }

    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.timer.poll(context, self.deadline)
    }

    /// Fails a write that makes no progress within the timeout.
    fn limit_write<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.state.record_progress();
            self.write_timer = None;
            return polled;
        }
        let timeout = self.timeouts.write;
        let timer = self.write_timer.get_or_insert_with(|| sleep(timeout));
        let state = &self.state;
        timer
            .as_mut()
            .poll(context)
            .map(|()| Err(state.time_out(TimeoutKind::Write)))
    }

    /// Discards input until the client closes the connection or the time is over. A client of
    /// HTTP/2 sends window updates while it reads the rest of a response.
    fn drain_before_close(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let timeout = if self.state.has_streams() {
            self.timeouts.write
        } else {
            LINGER_TIMEOUT
        };
        let timer = self.linger_timer.get_or_insert_with(|| sleep(timeout));
        let mut discarded = [0; DISCARD_BUFFER_BYTES];
        loop {
            if timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut discarded);
            let polled = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
            match ready!(polled) {
                Ok(()) if !buffer.filled().is_empty() => self.state.record_progress(),
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
    }
}

fn sleep(duration: Duration) -> Pin<Box<Sleep>> {
    Box::pin(sleep_until(Instant::now() + duration))
}

impl AsyncRead for TimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let head_timeout = self.timeouts.header;
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.awaits_input = polled.is_pending();
        if polled.is_ready() {
            self.state.record_progress();
        }
        if self.state.is_busy() {
            self.poll_while_busy(context);
            return polled;
        }
        if polled.is_ready() {
            if self.state.take_has_responded() {
                self.waiting_for = WaitState::Response;
            }
            // Not every frame of HTTP/2 begins a request.
            if !self.state.has_streams() {
                self.wait_for(WaitState::RequestHead, head_timeout);
            }
            return polled;
        }
        self.wait_for_next_request();
        let kind = match self.waiting_for {
            WaitState::RequestHead => TimeoutKind::Head,
            WaitState::NextRequest | WaitState::Response | WaitState::CloseCheck => {
                TimeoutKind::Idle
            }
        };
        ready!(self.poll_deadline(context));
        Poll::Ready(Err(self.state.time_out(kind)))
    }
}

impl AsyncWrite for TimeoutStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit_write(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.limit_write(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Starts the idle timeout. hyper polls for the next request before it has written the
    /// response, and not again without input, so the wait must begin here.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state.is_busy() {
            self.check_close(context)?;
        } else {
            self.wait_for_next_request();
            if self.poll_deadline(context).is_ready() {
                // Only a read reports the timeout.
                context.waker().wake_by_ref();
            }
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger_timer.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        }
        if self.state.has_unread_body() || self.state.has_streams() {
            ready!(self.drain_before_close(context));
        }
        Poll::Ready(Ok(()))
    }
}
