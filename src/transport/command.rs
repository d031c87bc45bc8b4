//! `command`: the hook is a process; JSON in on stdin, JSON out on stdout
//! (hook protocol, section 2).

mod prewarm_pool;
mod process_task;

use std::{collections::BTreeMap, num::NonZero, sync::Arc};

use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::{
    prewarm_pool::Spares,
    process_task::{Employer, Job},
};
use super::{BoxFuture, HookCall, Setup, Transport, TransportError, TransportKind, shell::Shell};
use crate::{config::AnswerBy, event::Answer, protocol::Ended};

pub(super) const KIND: TransportKind = TransportKind {
    name: "command",
    build: |setup| Ok(Arc::new(Command::build(setup)?)),
};

#[derive(Debug)]
struct Command {
    employer: Arc<Employer>,
    spares: Option<Spares>,
    /// Tells the processes that no call waits for to end.
    _closing: DropGuard,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    command: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// How many processes wait ahead of time.
    #[serde(default)]
    prewarm: Option<NonZero<u32>>,
    #[serde(default)]
    answer: AnswerBy,
    /// For people only.
    #[serde(default, rename = "description")]
    _description: Option<String>,
}

impl Command {
    fn build(setup: Setup<'_>) -> Result<Self, TransportError> {
        let (toolbox, hook) = (setup.toolbox, setup.label);
        let settings: Settings = setup.parse()?;
        let shell = Shell::new(settings.command, settings.env, hook, toolbox)?;
        let closed = CancellationToken::new();
        let employer = Arc::new(Employer {
            shell,
            answer_by: settings.answer,
            closed: closed.clone(),
        });
        let spares = settings.prewarm.map(|it| Spares::new(&employer, it));
        Ok(Self {
            employer,
            spares,
            _closing: closed.drop_guard(),
        })
    }

    async fn run(&self, call: &HookCall<'_>) -> Result<Ended, TransportError> {
        loop {
            let (told, ended) = oneshot::channel();
            let job = Job {
                input: call.document.clone(),
                deadline: call.deadline,
                told,
            };
            let Err(job) = self.hand(job) else {
                match ended.await {
                    Ok(ended) => return ended,
                    // The spare ended just before it was given the job.
                    Err(_) => continue,
                }
            };
            let shell = &self.employer.shell;
            let place = shell.toolbox().places.take().await?;
            // Whether a process is a spare is no difference that a hook could see.
            let session = &call.context.session_id;
            let session = self.spares.is_none().then_some(session.as_ref());
            let process = shell.start(session)?;
            drop(self.employer.employ((process, place), job));
            return ended.await.map_err(|_| TransportError::ShuttingDown)?;
        }
    }

    /// Hands a job to a spare; gives it back if there is none.
    fn hand(&self, job: Job) -> Result<(), Job> {
        match &self.spares {
            Some(spares) => spares.hand(job),
            None => Err(job),
        }
    }
}

impl Transport for Command {
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<Answer, TransportError>> {
        Box::pin(async move {
            let ended = self.run(&call).await?;
            Ok(call.protocol.read(&ended, call.event))
        })
    }

    fn begin(&self) {
        if let Some(spares) = &self.spares {
            spares.begin();
        }
    }
}

#[cfg(test)]
mod tests;
