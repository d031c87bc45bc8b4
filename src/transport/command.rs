//! `command`: the hook is a process; JSON in on stdin, JSON out on stdout
//! (hook protocol, section 2).

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::oneshot;

use super::{
    BoxFuture, HookCall, Setup, Transport, TransportError, TransportKind, process::Process,
    shell::Shell,
};
use crate::{event::Answer, protocol::Ended};

pub(super) const KIND: TransportKind = TransportKind {
    name: "command",
    build: |setup| Ok(Arc::new(Command::build(setup)?)),
};

#[derive(Debug)]
struct Command {
    shell: Shell,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    command: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// For people only.
    #[serde(default, rename = "description")]
    _description: Option<String>,
}

impl Command {
    fn build(setup: Setup<'_>) -> Result<Self, TransportError> {
        let (toolbox, hook) = (setup.toolbox, setup.label);
        let settings: Settings = setup.parse()?;
        Ok(Self {
            shell: Shell::new(settings.command, settings.env, hook, toolbox)?,
        })
    }
}

impl Transport for Command {
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<Answer, TransportError>> {
        Box::pin(async move {
            let toolbox = self.shell.toolbox();
            let place = toolbox.places.take().await?;
            let process = self.shell.start(Some(&call.context.session_id))?;
            let (told, ended) = oneshot::channel();
            let limit = toolbox.output_limit;
            // The task outlives a dropped call, to see its processes end.
            toolbox.tasks.spawn(async move {
                run(process, call.document, limit, told).await;
                drop(place);
            });
            let ended = ended.await.map_err(|_| TransportError::ShuttingDown)??;
            Ok(call.protocol.read(&ended, call.event))
        })
    }
}

/// Runs a hook to its end, or ends it when nobody waits for it any more.
async fn run(
    mut process: Process,
    input: Bytes,
    limit: usize,
    mut told: oneshot::Sender<Result<Ended, TransportError>>,
) {
    let ended = tokio::select! {
        ended = process.exchange(&input, limit) => Some(ended),
        () = told.closed() => None,
    };
    match ended {
        Some(ended) => {
            process.kill();
            told.send(ended).ok();
            process.gone().await;
        }
        None => process.terminate().await,
    }
}

#[cfg(test)]
mod tests;
