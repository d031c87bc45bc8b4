//! `worker`: the hook is a process that stays; one JSON object per line in on
//! stdin, and one out on stdout.
//!
//! Processes are started by the calls that need them, so that checking a config
//! starts none and a worker that cannot run is not started over and over. They
//! end when the hook is dropped.

mod instance;
mod line;
mod log;
mod queue;

use std::{
    collections::BTreeMap,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::DropGuard;

use self::{
    instance::{Instance, Launch},
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
    launch: Arc<Launch>,
    instances: usize,
    /// Whether the instances wait for calls.
    awake: AtomicBool,
    /// Its processes' share of all, taken for as long as there may be some:
    /// else a call could wait for ever for workers that never end.
    _permits: OwnedSemaphorePermit,
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
        let (toolbox, hook) = (setup.toolbox, setup.label.to_owned());
        let settings: Settings = setup.parse()?;
        let shell = Shell::new(settings.command, settings.env, toolbox)?;
        let instances = settings.instances.get();
        let processes = Arc::clone(&toolbox.processes);
        let permits = processes.try_acquire_many_owned(instances);
        // One more must be left, for the hooks that are no workers.
        let (Ok(permits), 1..) = (permits, toolbox.processes.available_permits()) else {
            let message =
                "`instances` of all workers together must be fewer than `limits.hook_processes`";
            return Err(TransportError::Settings(message.to_owned()));
        };
        let queue = Arc::new(Queue::new());
        Ok(Self {
            _closing: queue.closed.clone().drop_guard(),
            queue,
            launch: Arc::new(Launch { shell, hook }),
            instances: permits.num_permits(),
            awake: AtomicBool::new(false),
            _permits: permits,
        })
    }

    fn wake(&self) {
        if self.awake.swap(true, Ordering::Relaxed) {
            return;
        }
        let tasks = &self.launch.shell.toolbox().tasks;
        for _ in 0..self.instances {
            let instance = Instance::new(Arc::clone(&self.launch), Arc::clone(&self.queue));
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
}
