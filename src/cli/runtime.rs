//! The runtime of commands, and the signals that stop them.

use std::{io, time::Duration};

use rustix::process::Signal;
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use super::failure::Failure;

/// Time for blocking operations that are left at the end, such as a read of a file on a disk that
/// does not respond. The process ends without them.
const BLOCKING_TASKS_TIMEOUT: Duration = Duration::from_secs(5);

/// Stack of a thread for blocking tasks, as large as that of the main thread: pages of deeply nested
/// content are made there.
const BLOCKING_STACK_BYTES: usize = 8 * 1024 * 1024;

/// Runs a future to its end. Agents are served by threads of their own.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    run(&mut Builder::new_current_thread(), future)
}

/// Runs a future to its end on the runtime of a builder.
pub(super) fn run<T>(
    builder: &mut Builder,
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    builder.thread_stack_size(BLOCKING_STACK_BYTES);
    let runtime = builder.enable_all().build()?;
    let output = runtime.block_on(future);
    runtime.shutdown_timeout(BLOCKING_TASKS_TIMEOUT);
    output
}

/// Runs a future to its end. SIGINT or SIGTERM drops it, and with it its hook processes, which
/// are groups of their own and so do not receive the signals of a terminal.
pub(super) async fn until_signal<T>(
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        output = future => output,
        _ = interrupt.recv() => Err(Failure::Interrupted(SignalKind::interrupt())),
        _ = terminate.recv() => Err(Failure::Interrupted(SignalKind::terminate())),
    }
}

/// Keeps SIGHUP from ending the process, also before config reloads listen for it, and SIGXFSZ: a
/// write beyond a limit of the file size fails, as on a full disk. The handlers stay installed
/// until the process ends.
pub(super) fn ignore_fatal_signals() -> io::Result<()> {
    let file_size = SignalKind::from_raw(Signal::XFSZ.as_raw());
    for kind in [SignalKind::hangup(), file_size] {
        drop(signal(kind)?);
    }
    Ok(())
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
