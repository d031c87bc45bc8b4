//! Fake upstreams, real gateways and clients of both.

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
    child::{ServerProcess, hookgate, run, run_with_input, run_without_reader, serve_command},
    coder::Coder,
    decision_log::decision_log,
    raw::Raw,
    redis::Redis,
    refusal::assert_refused,
    test_gateway::TestGateway,
    upstream::{ReceivedRequest, Upstream, respond},
    wire::{
        End, TEST_TIMEOUT, chunked_head, closed_port, eventually, next_chunk, processes,
        read_to_end, send_and_read, send_and_read_bytes, wait_for_signal, wait_until_closed,
        write_chunk, write_last_chunk,
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
