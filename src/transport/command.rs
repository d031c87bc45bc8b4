//! The `command` transport: a process for each call, with JSON on stdin and stdout
//! (hook protocol, section 2).

mod prewarm_pool;
mod process_task;

use std::{collections::BTreeMap, num::NonZero, sync::Arc};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::{
    prewarm_pool::PrewarmPool,
    process_task::{HookInvocation, ProcessTask},
};
use super::{
    deps::TransportConfig,
    error::TransportError,
    hook_call::{HookCall, Transport},
    shell::ShellCommand,
};
use crate::{config::AnswerBy, event::HookResult, protocol::ProcessOutput};

#[derive(Debug)]
pub(super) struct CommandTransport {
    task: Arc<ProcessTask>,
    pool: Option<Arc<PrewarmPool>>,
    /// Ends idle processes, and those that continue after their output.
    _closing: DropGuard,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandSettings {
    command: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Number of processes that are started ahead of calls.
    #[serde(default)]
    prewarm: Option<NonZero<u32>>,
    #[serde(default)]
    answer: AnswerBy,
}

impl CommandTransport {
    pub(super) fn new(config: TransportConfig<'_>) -> Result<Self, TransportError> {
        let (deps, hook) = (config.deps, config.label);
        let settings: CommandSettings = config.parse()?;
        let shell = ShellCommand::new(settings.command, settings.env, hook, deps)?;
        let closed = CancellationToken::new();
        let task = Arc::new(ProcessTask {
            shell,
            answer_by: settings.answer,
            closed: closed.clone(),
        });
        let pool = settings
            .prewarm
            .map(|count| Arc::new(PrewarmPool::new(&task, count)));
        Ok(Self {
            task,
            pool,
            _closing: closed.drop_guard(),
        })
    }

    async fn run(&self, call: &HookCall<'_>) -> Result<ProcessOutput, TransportError> {
        loop {
            let (sender, output) = oneshot::channel();
            let invocation = HookInvocation {
                input: call.input.clone(),
                deadline: call.deadline,
                output: sender,
            };
            let dispatched = match &self.pool {
                Some(pool) => pool.dispatch(invocation),
                None => Err(invocation),
            };
            let Err(invocation) = dispatched else {
                match output.await {
                    Ok(output) => return output,
                    // The idle process exited just before it got the invocation.
                    Err(_) => continue,
                }
            };
            let shell = &self.task.shell;
            let slots = &shell.deps.slots;
            let slot = if call.is_proof {
                slots.acquire_for_proof().await
            } else {
                slots.acquire().await?
            };
            // Hooks cannot distinguish a prewarmed process from any other.
            let session = call.context.hook_session_id();
            let session = self.pool.is_none().then_some(session.as_ref());
            let process = shell.start(session)?;
            drop(self.task.spawn(process, slot, invocation));
            return output.await.map_err(|_| TransportError::ShuttingDown)?;
        }
    }
}

impl Transport for CommandTransport {
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<HookResult, TransportError>> {
        Box::pin(async move {
            let output = self.run(&call).await?;
            Ok(call.protocol.read(&output, call.event))
        })
    }

    fn starts_processes(&self) -> bool {
        true
    }

    fn start(&self) {
        if let Some(pool) = &self.pool {
            pool.start();
        }
    }
}

#[cfg(test)]
mod tests;
