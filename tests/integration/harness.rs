//! Three actors: a fake [`Upstream`], the real [`Gate`], and an [`Agent`].

mod agent;
mod browser;
mod child;
mod coder;
mod decision_log;
pub mod hook;
mod raw;
mod redis;
mod refusal;
mod test_gateway;
mod upstream;
mod wire;

pub use self::{
    agent::{Agent, Answer, event_data, prompt},
    browser::Browser,
    child::{Served, hookgate, run, run_with_input, serving},
    coder::Coder,
    decision_log::decision_log,
    raw::Raw,
    redis::Redis,
    refusal::assert_refused,
    test_gateway::TestGateway,
    upstream::{Asked, Upstream, respond},
    wire::{
        End, PATIENCE, chunked_head, closed, closed_port, eventually, exchange, exchange_bytes,
        piece, processes, rest, signalled, write_chunk, write_last_chunk,
    },
};

use tokio::sync::oneshot;

/// Keeps something running while it is held.
type Running = oneshot::Sender<()>;

/// A future that completes when the returned value is dropped.
fn until_dropped() -> (Running, impl Future<Output = ()> + Send + 'static) {
    let (running, dropped) = oneshot::channel::<()>();
    let dropped = async move {
        dropped.await.ok();
    };
    (running, dropped)
}
