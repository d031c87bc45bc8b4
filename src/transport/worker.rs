//! `worker`: the hook is a process that stays; one JSON object per line in on
//! stdin, and one out on stdout.
//!
//! Processes are started by the calls that need them, so that checking a config
//! starts none and a worker that cannot run is not started over and over. They
//! end when the hook is dropped.

mod framing;
mod process;
mod queue;
mod stderr;

use std::{
    collections::BTreeMap,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;

use self::{
    process::Instance,
    queue::{Job, Queue},
};
use super::{BoxFuture, HookCall, Setup, Transport, TransportError, TransportKind, shell::Shell};
use crate::event::Answer;

pub(super) const KIND: TransportKind = TransportKind {
    name: "worker",
    build: |setup| Ok(Arc::new(Worker::build(setup)?)),
};

#[derive(Debug)]
struct Worker {
    queue: Arc<Queue>,
    shell: Arc<Shell>,
    instances: NonZero<u32>,
    /// Whether the instances wait for calls.
    awake: AtomicBool,
    /// Tells the instances to end.
    _closing: DropGuard,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    command: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default = "one")]
    instances: NonZero<u32>,
}

const fn one() -> NonZero<u32> {
    NonZero::<u32>::MIN
}

impl Worker {
    fn build(setup: Setup<'_>) -> Result<Self, TransportError> {
        let (toolbox, hook) = (setup.toolbox, setup.label);
        let settings: Settings = setup.parse()?;
        let shell = Shell::new(settings.command, settings.env, hook, toolbox)?;
        let queue = Arc::new(Queue::new());
        Ok(Self {
            _closing: queue.closed.clone().drop_guard(),
            queue,
            shell: Arc::new(shell),
            instances: settings.instances,
            awake: AtomicBool::new(false),
        })
    }

    fn wake(&self) {
        if self.awake.swap(true, Ordering::Relaxed) {
            return;
        }
        let tasks = &self.shell.toolbox().tasks;
        for _ in 0..self.instances.get() {
            let instance = Instance::new(Arc::clone(&self.shell), Arc::clone(&self.queue));
            tasks.spawn(instance.run());
        }
    }
}

impl Transport for Worker {
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<Answer, TransportError>> {
        Box::pin(async move {
            self.wake();
            let (told, output) = oneshot::channel();
            let input = call.document.clone();
            self.queue.push(Job { input, told })?;
            let output = output.await.map_err(|_| TransportError::ShuttingDown)??;
            call.read_object(output)
        })
    }

    fn instances(&self) -> u32 {
        self.instances.get()
    }
}
