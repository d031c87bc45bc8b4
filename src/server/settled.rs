//! A connection that wakes itself is polled again at once.
//!
//! hyper and who answers are one task. When one of them has something for the other,
//! such as the next piece of a body, it wakes the task that it runs in. The runtime
//! takes that for a task that yields: it queues it, and wakes another thread to help
//! with a queue of one.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;
use tokio::task::coop::has_budget_remaining;

/// How often it is polled before others have their turn.
const TURNS: usize = 3;

/// It is being polled.
const POLLED: u8 = 1;

/// It was woken since it was last polled.
const WOKEN: u8 = 2;

/// A future that is polled until it no longer wakes itself.
pub(super) struct Settled<F> {
    inner: Pin<Box<F>>,
    own: Arc<Own>,
    /// Of `own`.
    waker: Waker,
}

/// What the future wakes.
#[derive(Default)]
struct Own {
    /// [`POLLED`] and [`WOKEN`].
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Own {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Who polls it will see.
        if self.state.fetch_or(WOKEN, Ordering::AcqRel) == 0 {
            self.task.wake();
        }
    }
}

impl<F: Future> Settled<F> {
    pub(super) fn new(inner: F) -> Self {
        let own = Arc::<Own>::default();
        Self {
            inner: Box::pin(inner),
            waker: Waker::from(Arc::clone(&own)),
            own,
        }
    }
}

impl<F: Future> Future for Settled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let state = &this.own.state;
        this.own.task.register(context.waker());
        for _ in 0..TURNS {
            state.swap(POLLED, Ordering::AcqRel);
            let polled = this
                .inner
                .as_mut()
                .poll(&mut Context::from_waker(&this.waker));
            let is_settled = state.compare_exchange(POLLED, 0, Ordering::AcqRel, Ordering::Acquire);
            if polled.is_ready() || is_settled.is_ok() {
                return polled;
            }
            // Nothing gets on without it.
            if !has_budget_remaining() {
                break;
            }
        }
        state.swap(0, Ordering::AcqRel);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::atomic::AtomicUsize,
        task::{Wake, Waker},
        thread,
    };

    use tokio::sync::mpsc;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Wakes itself so often, and then waits.
    fn restless(mut times: usize) -> Settled<impl Future<Output = ()>> {
        Settled::new(poll_fn(move |context| {
            if times > 0 {
                times -= 1;
                context.waker().wake_by_ref();
            }
            Poll::Pending
        }))
    }

    fn woken_by(mut future: Settled<impl Future<Output = ()>>) -> usize {
        let count = Arc::<Count>::default();
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut future).poll(&mut context).is_pending());
        count.0.load(Ordering::SeqCst)
    }

    #[test]
    fn who_wakes_itself_is_polled_again_and_wakes_no_one() {
        assert_eq!(woken_by(restless(0)), 0);
        assert_eq!(woken_by(restless(TURNS - 1)), 0);
    }

    #[test]
    fn others_have_their_turn() {
        assert_eq!(woken_by(restless(TURNS)), 1);
        assert_eq!(woken_by(restless(usize::MAX)), 1);
    }

    async fn sum(mut numbers: mpsc::Receiver<u64>) -> u64 {
        let mut sum = 0;
        while let Some(number) = numbers.recv().await {
            sum += number;
        }
        sum
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_of_another_thread_is_lost() {
        for _ in 0..200 {
            let (send, receive) = mpsc::channel(1);
            let send = move || (0..100).for_each(|it| send.blocking_send(it).unwrap());
            let sender = thread::spawn(send);
            assert_eq!(Settled::new(sum(receive)).await, 4950);
            sender.join().unwrap();
        }
    }
}
