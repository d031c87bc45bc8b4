//! The `worker` transport: the hook is a long-lived process that reads one JSON
//! object per line on stdin and writes one per line on stdout.
//!
//! Processes are started by the calls that need them, so that checking a config
//! starts none, and a worker that cannot run is not restarted in a loop. They end
//! when the hook is dropped.

mod framing;
mod process;
mod queue;
mod stderr;

use std::{
    collections::BTreeMap,
    num::NonZero,
    sync::{Arc, Once},
};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;

use self::{
    process::WorkerProcess,
    queue::{CallQueue, QueuedCall},
};
use super::{
    deps::TransportConfig,
    error::TransportError,
    hook_call::{HookCall, Transport},
    shell::ShellCommand,
};
use crate::event::HookResult;

#[derive(Debug)]
pub(super) struct WorkerTransport {
    queue: Arc<CallQueue>,
    shell: Arc<ShellCommand>,
    instances: NonZero<u32>,
    started: Once,
    /// Ends the processes when dropped.
    _closing: DropGuard,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkerSettings {
    command: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default = "one")]
    instances: NonZero<u32>,
}

const fn one() -> NonZero<u32> {
    NonZero::<u32>::MIN
}

impl WorkerTransport {
    pub(super) fn new(config: TransportConfig<'_>) -> Result<Self, TransportError> {
        let (deps, hook) = (config.deps, config.label);
        let settings: WorkerSettings = config.parse()?;
        let shell = ShellCommand::new(settings.command, settings.env, hook, deps)?;
        let queue = Arc::new(CallQueue::new());
        Ok(Self {
            _closing: queue.closed.clone().drop_guard(),
            queue,
            shell: Arc::new(shell),
            instances: settings.instances,
            started: Once::new(),
        })
    }

    fn start_once(&self) {
        self.started.call_once(|| {
            for _ in 0..self.instances.get() {
                let process = WorkerProcess::new(Arc::clone(&self.shell), Arc::clone(&self.queue));
                self.shell.deps.tasks.spawn(process.run());
            }
        });
    }
}

impl Transport for WorkerTransport {
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<HookResult, TransportError>> {
        Box::pin(async move {
            self.start_once();
            let (sender, output) = oneshot::channel();
            let queued = QueuedCall {
                input: call.input.clone(),
                output: sender,
            };
            if call.is_proof {
                self.queue.push_proof(queued);
            } else {
                self.queue.push(queued)?;
            }
            let outputs = output.await.map_err(|_| TransportError::ShuttingDown)??;
            let is_ambiguous = outputs.len() > 1;
            let mut readings = outputs.into_iter().map(|output| call.read_object(output));
            if is_ambiguous {
                let refusal = readings.find(|reading| reading.as_ref().is_ok_and(refuses));
                return refusal.unwrap_or(Err(TransportError::UnexpectedLine));
            }
            readings.next().unwrap_or(Err(TransportError::NotAnObject))
        })
    }

    fn instances(&self) -> u32 {
        self.instances.get()
    }
}

/// Returns whether a hook denies or stops.
fn refuses(result: &HookResult) -> bool {
    result.output.deny().is_some() || result.output.stop().is_some()
}
