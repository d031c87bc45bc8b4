//! Calls that wait for an idle process of a worker.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::framing::WorkerOutputs;
use crate::{mutex::Mutex, transport::error::TransportError};

const MAX_QUEUED_CALLS: usize = 1024;

/// A call with a channel for its output.
#[derive(Debug)]
pub(super) struct QueuedCall {
    pub(super) input: Bytes,
    /// Closed when the call is dropped.
    pub(super) output: OutputSender,
}

/// Sender of a worker's output.
pub(super) type OutputSender = oneshot::Sender<Result<WorkerOutputs, TransportError>>;

/// Bounded first-in-first-out queue for the processes of a worker. Proofs are first.
#[derive(Debug)]
pub(super) struct CallQueue {
    calls: Mutex<VecDeque<QueuedCall>>,
    /// Counts the queued calls, and perhaps some that were dropped.
    ready: Semaphore,
    /// Cancelled when the hook is dropped.
    pub(super) closed: CancellationToken,
}

impl CallQueue {
    pub(super) fn new() -> Self {
        Self {
            calls: Mutex::default(),
            ready: Semaphore::new(0),
            closed: CancellationToken::new(),
        }
    }

    pub(super) fn push(&self, call: QueuedCall) -> Result<(), TransportError> {
        let mut calls = self.calls.lock();
        if calls.len() >= MAX_QUEUED_CALLS {
            calls.retain(|call| !call.output.is_closed());
        }
        if calls.len() >= MAX_QUEUED_CALLS {
            return Err(TransportError::QueueFull);
        }
        calls.push_back(call);
        self.ready.add_permits(1);
        Ok(())
    }

    /// Adds the call of a proof in front of all others, also to a full queue.
    pub(super) fn push_proof(&self, call: QueuedCall) {
        self.calls.lock().push_front(call);
        self.ready.add_permits(1);
    }

    /// Returns the next call that was not dropped; `None` if the queue is closed.
    /// Cancel-safe.
    pub(super) async fn next(&self) -> Option<QueuedCall> {
        loop {
            let permit = tokio::select! {
                biased;
                () = self.closed.cancelled() => return None,
                permit = self.ready.acquire() => permit.ok()?,
            };
            permit.forget();
            let call = self.calls.lock().pop_front();
            if let Some(call) = call.filter(|call| !call.output.is_closed()) {
                return Some(call);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type OutputReceiver = oneshot::Receiver<Result<WorkerOutputs, TransportError>>;

    fn call(input: &'static str) -> (QueuedCall, OutputReceiver) {
        let (output, receiver) = oneshot::channel();
        let input = Bytes::from_static(input.as_bytes());
        (QueuedCall { input, output }, receiver)
    }

    #[tokio::test]
    async fn calls_keep_their_order_and_dropped_ones_are_skipped() {
        let queue = CallQueue::new();
        let (first, _first) = call("first");
        let (second, dropped) = call("dropped");
        let (last, _last) = call("last");
        for call in [first, second, last] {
            queue.push(call).unwrap();
        }
        drop(dropped);

        assert_eq!(queue.next().await.unwrap().input, "first");
        assert_eq!(queue.next().await.unwrap().input, "last");
        queue.closed.cancel();
        assert!(queue.next().await.is_none());
    }

    #[test]
    fn a_full_queue_refuses_until_a_call_is_dropped() {
        let queue = CallQueue::new();
        let mut receivers = Vec::new();
        for _ in 0..MAX_QUEUED_CALLS {
            let (call, receiver) = call("");
            queue.push(call).unwrap();
            receivers.push(receiver);
        }
        let refused = queue.push(call("").0);

        receivers.pop();
        let (next, _next) = call("");
        let accepted = queue.push(next);

        assert!(matches!(refused, Err(TransportError::QueueFull)));
        assert!(accepted.is_ok());
    }

    #[tokio::test]
    async fn the_call_of_a_proof_is_first_also_in_a_full_queue() {
        let queue = CallQueue::new();
        let mut receivers = Vec::new();
        for _ in 0..MAX_QUEUED_CALLS {
            let (call, receiver) = call("call");
            queue.push(call).unwrap();
            receivers.push(receiver);
        }

        let (proof, _proof) = call("proof");
        queue.push_proof(proof);

        assert_eq!(queue.next().await.unwrap().input, "proof");
        assert_eq!(queue.next().await.unwrap().input, "call");
    }
}
