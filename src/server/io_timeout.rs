//! How long a connection may keep us waiting: between requests, while the head
//! of one is under way, and while it does not take what it is sent. hyper has
//! one timeout for the first two, and none for the third.

use std::{
    error::Error,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};

use crate::resettable_timer::ResettableTimer;

/// How long an agent that still sends is listened to after our last word. If we
/// closed at once, its system would throw away what we said.
const LINGER: Duration = Duration::from_secs(2);

/// How much is read at once of what is thrown away.
const SCRAP: usize = 8192;

/// The bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Silence {
    /// From a request's first byte, or the connection's start, to the end of
    /// the request's head. TLS is agreed upon within it.
    pub(super) head: Duration,
    /// Between an answer and the next request's first byte.
    pub(super) idle: Duration,
    /// Until something is taken of what is sent.
    pub(super) write: Duration,
}

/// Why a connection was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum GivenUp {
    /// No request within the time for it.
    #[error("no request came")]
    Idle,
    /// The rest of a head, or of what TLS needs, did not come in time.
    #[error("the head did not come in time")]
    Head,
    /// What was sent was not taken in time.
    #[error("what was sent was not taken in time")]
    Write,
}

impl GivenUp {
    /// Whether that is why a connection ended.
    pub(super) fn in_chain(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            let inner = error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            if let Some(why) = inner.and_then(|it| it.downcast_ref()) {
                return Some(*why);
            }
            next = error.source();
        }
        None
    }

    fn error(self) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, self)
    }
}

/// What goes on in a connection, as far as its patience is concerned.
#[derive(Debug, Clone, Default)]
pub(super) struct Busy(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether a request is being answered; its bounds are set elsewhere.
    busy: AtomicBool,
    /// Whether one was answered since this was last asked: it may have been between
    /// two looks at the connection.
    answered: AtomicBool,
    /// Whether the last request's body was not read to its end.
    unread: AtomicBool,
}

impl Busy {
    /// A request's head is here.
    pub(super) fn begin(&self, has_body: bool) {
        self.0.unread.store(has_body, Ordering::Relaxed);
        self.0.busy.store(true, Ordering::Relaxed);
    }

    /// Its body was read to its end.
    pub(super) fn has_read(&self) {
        self.0.unread.store(false, Ordering::Relaxed);
    }

    /// Whether something of its body was not read.
    pub(super) fn is_unread(&self) -> bool {
        self.0.unread.load(Ordering::Relaxed)
    }

    /// All of its answer is there to be written.
    pub(super) fn end(&self) {
        self.0.busy.store(false, Ordering::Relaxed);
        self.0.answered.store(true, Ordering::Relaxed);
    }

    fn has_answered(&self) -> bool {
        self.0.answered.swap(false, Ordering::Relaxed)
    }

    fn is_busy(&self) -> bool {
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

/// A connection that ends when it keeps us waiting for too long.
#[derive(Debug)]
pub(super) struct Patient {
    stream: TcpStream,
    busy: Busy,
    silence: Silence,
    waits: Waits,
    /// When it has waited for too long.
    until: Instant,
    deadline: ResettableTimer,
    /// Until when something must be taken of what is sent, if that waits.
    blocked: Option<Pin<Box<Sleep>>>,
    /// Until when is read what nobody needs, once our last word is said.
    lingers: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    pub(super) fn new(stream: TcpStream, busy: Busy, silence: Silence) -> Self {
        Self {
            stream,
            busy,
            silence,
            waits: Waits::Head,
            until: Instant::now() + silence.head,
            deadline: ResettableTimer::default(),
            blocked: None,
            lingers: None,
        }
    }

    fn wait(&mut self, waits: Waits, patience: Duration) {
        if self.waits != waits {
            self.waits = waits;
            self.until = Instant::now() + patience;
        }
    }

    /// Waits for a next request, if one was answered.
    fn rest(&mut self) {
        if self.busy.has_answered() || self.waits == Waits::Us {
            self.waits = Waits::Us;
            self.wait(Waits::Request, self.silence.idle);
        }
    }

    /// Waits until it has waited for too long.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.deadline.poll(context, self.until)
    }

    /// Gives up a write that waits for too long.
    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.blocked = None;
            return polled;
        }
        let patience = self.silence.write;
        let blocked = self.blocked.get_or_insert_with(|| sleep(patience));
        blocked
            .as_mut()
            .poll(context)
            .map(|()| Err(GivenUp::Write.error()))
    }

    /// Reads what nobody needs, until the agent has heard us or the time is over.
    fn linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let lingers = self.lingers.get_or_insert_with(|| sleep(LINGER));
        let mut scrap = [0; SCRAP];
        loop {
            if lingers.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut scrap);
            let polled = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
            match ready!(polled) {
                Ok(()) if !buffer.filled().is_empty() => (),
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
    }
}

fn sleep(duration: Duration) -> Pin<Box<Sleep>> {
    Box::pin(sleep_until(Instant::now() + duration))
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let silence = self.silence;
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.busy.is_busy() {
            self.waits = Waits::Us;
            return polled;
        }
        if polled.is_ready() {
            if self.busy.has_answered() {
                self.waits = Waits::Us;
            }
            self.wait(Waits::Head, silence.head);
            return polled;
        }
        self.rest();
        let why = match self.waits {
            Waits::Head => GivenUp::Head,
            Waits::Request | Waits::Us => GivenUp::Idle,
        };
        self.poll_over(context).map(|()| Err(why.error()))
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.bounded(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper looks for a next request before it has written the whole answer, and
    /// not again until there is something: the wait for it begins with the answer's
    /// end, for which the reader need not be woken.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.busy.is_busy() {
            self.rest();
            if self.poll_over(context).is_ready() {
                // The reader is who tells of it.
                context.waker().wake_by_ref();
            }
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingers.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        }
        if self.busy.is_unread() {
            ready!(self.linger(context));
        }
        Poll::Ready(Ok(()))
    }
}
