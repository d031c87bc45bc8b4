//! The runtime of commands, and the signals that stop them.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use super::failure::Failure;

/// Runs a future to its end. Agents are served by threads of their own.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(future)
}

/// Returns a future that completes after `count` signals of SIGINT or SIGTERM. Signals
/// are handled from this call on, so call it before reporting that the process is ready.
pub(super) fn shutdown_signals(count: usize) -> io::Result<impl Future<Output = ()> + Send> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        for _ in 0..count {
            tokio::select! {
                _ = interrupt.recv() => (),
                _ = terminate.recv() => (),
            }
        }
    })
}
