//! `command`: the hook is a process; JSON in on stdin, JSON out on stdout
//! (hook protocol, section 2).

mod spares;

use std::{collections::BTreeMap, convert::Infallible, num::NonZero, sync::Arc};

use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::oneshot;

use self::spares::Spares;
use super::{
    BoxFuture, HookCall, Setup, Transport, TransportError, TransportKind,
    places::Place,
    process::{self, Process},
    shell::Shell,
};
use crate::{event::Answer, protocol::Ended};

pub(super) const KIND: TransportKind = TransportKind {
    name: "command",
    build: |setup| Ok(Arc::new(Command::build(setup)?)),
};

#[derive(Debug)]
struct Command {
    shell: Arc<Shell>,
    spares: Option<Spares>,
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
    /// For people only.
    #[serde(default, rename = "description")]
    _description: Option<String>,
}

/// What a process is started for.
#[derive(Debug)]
struct Job {
    input: Bytes,
    /// Takes what came of it; closed when nobody waits.
    told: oneshot::Sender<Result<Ended, TransportError>>,
}

impl Command {
    fn build(setup: Setup<'_>) -> Result<Self, TransportError> {
        let (toolbox, hook) = (setup.toolbox, setup.label);
        let settings: Settings = setup.parse()?;
        let shell = Shell::new(settings.command, settings.env, hook, toolbox)?;
        let shell = Arc::new(shell);
        let spares = settings.prewarm.map(|it| Spares::new(&shell, it));
        Ok(Self { shell, spares })
    }

    async fn run(&self, call: &HookCall<'_>) -> Result<Ended, TransportError> {
        loop {
            let (told, ended) = oneshot::channel();
            let input = call.document.clone();
            let Err(job) = self.hand(Job { input, told }) else {
                match ended.await {
                    Ok(ended) => return ended,
                    // The spare ended just before it was given the job.
                    Err(_) => continue,
                }
            };
            let place = self.shell.toolbox().places.take().await?;
            // Whether a process is a spare is no difference that a hook could see.
            let session = &call.context.session_id;
            let session = self.spares.is_none().then_some(session.as_ref());
            let process = self.shell.start(session)?;
            drop(employ(&self.shell, (process, place), job));
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

/// Lets a process do a job, in a task that outlives a dropped call: it sees the
/// processes end. What is returned is closed when the answer is out.
fn employ(
    shell: &Shell,
    (process, place): (Process, Place),
    job: Job,
) -> oneshot::Receiver<Infallible> {
    let limit = shell.toolbox().output_limit;
    let (busy, idle) = oneshot::channel();
    shell.toolbox().tasks.spawn(async move {
        let process = work(process, job, limit).await;
        drop(busy);
        match process {
            Ok(answered) => answered.gone().await,
            Err(unwanted) => unwanted.terminate(process::PATIENCE).await,
        }
        drop(place);
    });
    idle
}

/// Runs a hook to its answer; gives the process back as an error if nobody waits
/// for that any more.
async fn work(mut process: Process, mut job: Job, limit: usize) -> Result<Process, Process> {
    let ended = tokio::select! {
        ended = process.exchange(&job.input, limit) => ended,
        () = job.told.closed() => return Err(process),
    };
    process.kill();
    job.told.send(ended).ok();
    Ok(process)
}

#[cfg(test)]
mod tests;
