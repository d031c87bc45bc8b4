//! Three actors: a fake [`Upstream`], the real [`Gate`], and an [`Agent`].

mod agent;
mod gate;
pub mod hook;
mod upstream;

pub use self::{
    agent::{Agent, Answer, event_data, prompt},
    gate::Gate,
    upstream::{Asked, Upstream, respond},
};

use tokio::sync::oneshot;

/// Whoever holds it keeps something running.
type Running = oneshot::Sender<()>;

/// A future that completes when the returned value is dropped.
fn until_dropped() -> (Running, impl Future<Output = ()> + Send + 'static) {
    let (running, dropped) = oneshot::channel::<()>();
    let dropped = async move {
        dropped.await.ok();
    };
    (running, dropped)
}
