//! `command`: the hook is a process; JSON in on stdin, JSON out on stdout
//! (hook protocol, section 2).

use std::{collections::BTreeMap, ffi::OsString, fmt, sync::Arc};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::{process, sync::oneshot};

use super::{
    BoxFuture, HookCall, Toolbox, Transport, TransportError, TransportKind, process::Process,
};
use crate::{
    event::{Answer, Context},
    protocol::Ended,
};

pub(super) const KIND: TransportKind = TransportKind {
    name: "command",
    build: |settings, toolbox| Ok(Arc::new(Command::build(settings, toolbox)?)),
};

/// Variables that hold the folder of the hooks, by the names that hooks written
/// for several agents look for. It is the operator's folder, never one that a
/// request names: commands such as `$GEMINI_PROJECT_DIR/guard.sh` rely on it.
const FOLDER: &[&str] = &[
    "GEMINI_PROJECT_DIR",
    "TERMINAI_PROJECT_DIR",
    "TABNINE_PROJECT_DIR",
    "LLXPRT_PROJECT_DIR",
    "CLAUDE_PROJECT_DIR",
    "GEMINI_CWD",
];

/// Variables that hold the agent's session.
const SESSION: &[&str] = &["GEMINI_SESSION_ID", "TERMINAI_SESSION_ID"];

/// The longest value from a request that becomes a variable, in bytes. The
/// kernel starts no process with a variable beyond 128 KiB.
const LONGEST_VALUE: usize = 4096;

struct Command {
    settings: Settings,
    toolbox: Toolbox,
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
    fn build(settings: Map<String, Value>, toolbox: &Toolbox) -> Result<Self, TransportError> {
        let settings: Settings = serde_json::from_value(Value::Object(settings))
            .map_err(|it| TransportError::Settings(it.to_string()))?;
        settings.check()?;
        Ok(Self {
            settings,
            toolbox: toolbox.clone(),
        })
    }

    fn start(&self, context: &Context) -> Result<Process, TransportError> {
        let mut command = process::Command::new("bash");
        command
            .args(["-c", &self.settings.command])
            .current_dir(&self.toolbox.directory)
            .env_clear()
            .envs(self.environment(context));
        Process::start(command).map_err(TransportError::Start)
    }

    /// Later ones win: the operator has the last word.
    fn environment(&self, context: &Context) -> Vec<(OsString, OsString)> {
        let folder = self.toolbox.directory.as_os_str();
        let mut variables = self.toolbox.environment.clone();
        variables.extend(FOLDER.iter().map(|it| (it.into(), folder.to_owned())));
        if can_be_variable(&context.session_id) {
            let session = OsString::from(&context.session_id);
            variables.extend(SESSION.iter().map(|it| (it.into(), session.clone())));
        }
        let own = self.settings.env.iter();
        variables.extend(own.map(|(name, value)| (name.into(), value.into())));
        variables
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its variables may hold keys.
        f.debug_tuple("Command")
            .field(&self.settings.command)
            .finish()
    }
}

impl Settings {
    /// Refuses at load what could never run.
    fn check(&self) -> Result<(), TransportError> {
        let wrong = |message: &str| Err(TransportError::Settings(message.to_owned()));
        if self.command.trim().is_empty() {
            return wrong("`command` is empty");
        }
        let is_name = |it: &String| !it.is_empty() && !it.contains(['=', '\0']);
        if !self.env.keys().all(is_name) {
            return wrong("`env` has a name that no variable can have");
        }
        if self.command.contains('\0') || self.env.values().any(|it| it.contains('\0')) {
            return wrong("`command` and `env` cannot hold NUL characters");
        }
        Ok(())
    }
}

/// Whether a process can be started with this value. What a request says must
/// not decide whether a guard starts.
fn can_be_variable(value: &str) -> bool {
    value.len() <= LONGEST_VALUE && !value.contains('\0')
}

impl Transport for Command {
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<Answer, TransportError>> {
        Box::pin(async move {
            let processes = Arc::clone(&self.toolbox.processes);
            let permit = processes.acquire_owned().await;
            let permit = permit.map_err(|_| TransportError::ShuttingDown)?;
            let process = self.start(call.context)?;
            let (told, ended) = oneshot::channel();
            let limit = self.toolbox.output_limit;
            let alive = self.toolbox.alive.clone();
            alive.inc();
            // The task outlives a dropped call, to see its processes end.
            self.toolbox.tasks.spawn(async move {
                run(process, call.document, limit, told).await;
                alive.dec();
                drop(permit);
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
