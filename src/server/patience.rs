//! How long a connection may be silent: between requests, and while the head of
//! one is under way. hyper has one timeout for both.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};

/// The two bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Silence {
    /// From a request's first byte, or the connection's start, to the end of
    /// the request's head.
    pub(super) head: Duration,
    /// Between an answer and the next request's first byte.
    pub(super) idle: Duration,
}

/// Whether a request is being answered; its bounds are set elsewhere.
#[derive(Debug, Clone, Default)]
pub(super) struct Busy(Arc<State>);

#[derive(Debug, Default)]
struct State {
    busy: AtomicBool,
    /// Who reads the connection. hyper looks for a next request before it has
    /// written the whole answer, and not again until there is something.
    reader: AtomicWaker,
}

impl Busy {
    /// A request's head is here.
    pub(super) fn begin(&self) {
        self.0.busy.store(true, Ordering::Relaxed);
    }

    /// Its answer is out.
    pub(super) fn end(&self) {
        self.0.busy.store(false, Ordering::Relaxed);
        self.0.reader.wake();
    }

    /// Whether the reader must wait; it is woken when it must no longer.
    fn is_busy(&self, context: &Context<'_>) -> bool {
        self.0.reader.register(context.waker());
        self.0.busy.load(Ordering::Relaxed)
    }
}

/// What a silent connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// The rest of a head.
    Head,
    /// A next request.
    Request,
    /// An answer of ours.
    Us,
}

/// A connection that ends when it is silent for too long.
#[derive(Debug)]
pub(super) struct Patient {
    stream: TcpStream,
    busy: Busy,
    silence: Silence,
    waits: Waits,
    deadline: Pin<Box<Sleep>>,
}

impl Patient {
    pub(super) fn new(stream: TcpStream, busy: Busy, silence: Silence) -> Self {
        Self {
            stream,
            busy,
            silence,
            waits: Waits::Head,
            deadline: Box::pin(sleep_until(Instant::now() + silence.head)),
        }
    }

    fn wait(&mut self, waits: Waits, patience: Duration) {
        if self.waits != waits {
            self.waits = waits;
            self.deadline.as_mut().reset(Instant::now() + patience);
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let silence = self.silence;
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.busy.is_busy(context) {
            self.waits = Waits::Us;
            return polled;
        }
        if polled.is_ready() {
            self.wait(Waits::Head, silence.head);
            return polled;
        }
        if self.waits == Waits::Us {
            self.wait(Waits::Request, silence.idle);
        }
        let over = self.deadline.as_mut().poll(context);
        over.map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
