//! Shell commands with their environment, for the `command` and the `worker`
//! transport.

use std::{collections::BTreeMap, ffi::OsString, fmt};

use tokio::process;

use super::{deps::TransportDeps, error::TransportError, process::Process};
use crate::protocol::DIRECTORY_VARIABLES;

/// Variables with the session of the agent.
const SESSION_VARIABLES: &[&str] = &["GEMINI_SESSION_ID", "TERMINAI_SESSION_ID"];

/// Limit on a value from a request that becomes a variable. The kernel starts no
/// process with a variable of more than 128 KiB.
const MAX_SESSION_BYTES: usize = 4096;

/// A validated command for `bash -c`.
pub(super) struct ShellCommand {
    command: String,
    env: BTreeMap<String, String>,
    /// Name of the hook in logs.
    pub(super) hook: String,
    pub(super) deps: TransportDeps,
}

impl ShellCommand {
    /// Validates a command that can run. `hook` is the hook's name in logs.
    pub(super) fn new(
        command: String,
        env: BTreeMap<String, String>,
        hook: &str,
        deps: &TransportDeps,
    ) -> Result<Self, TransportError> {
        let invalid = |message: &str| Err(TransportError::Settings(message.to_owned()));
        if command.trim().is_empty() {
            return invalid("`command` is empty");
        }
        let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if !env.keys().all(is_name) {
            return invalid("`env` has an invalid variable name");
        }
        if command.contains('\0') || env.values().any(|value| value.contains('\0')) {
            return invalid("`command` and `env` cannot contain NUL characters");
        }
        Ok(Self {
            command,
            env,
            hook: hook.to_owned(),
            deps: deps.clone(),
        })
    }

    /// Starts a process. A process for a single call gets the call's session.
    pub(super) fn start(&self, session: Option<&str>) -> Result<Process, TransportError> {
        let mut command = process::Command::new(&self.deps.bash);
        // Everything here is supported by `posix_spawn`, so nothing is forked.
        command
            .arg0("bash")
            .args(["-c", &self.command])
            .current_dir(&self.deps.directory)
            .env_clear()
            .envs(self.environment(session));
        Process::start(command, &self.deps.running).map_err(TransportError::Start)
    }

    /// Later variables win: the hook's own `env` has precedence.
    fn environment(&self, session: Option<&str>) -> Vec<(OsString, OsString)> {
        let directory = self.deps.directory.as_os_str();
        let mut variables = self.deps.environment.clone();
        let directories = DIRECTORY_VARIABLES.iter();
        variables.extend(directories.map(|name| (name.into(), directory.into())));
        if let Some(session) = session.filter(|session| is_variable_value(session)) {
            let names = SESSION_VARIABLES.iter();
            variables.extend(names.map(|name| (name.into(), session.into())));
        }
        let own = self.env.iter();
        variables.extend(own.map(|(name, value)| (name.into(), value.into())));
        variables
    }
}

impl fmt::Debug for ShellCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The variables may hold keys.
        f.debug_tuple("ShellCommand").field(&self.command).finish()
    }
}

/// Returns whether a process can be started with this value. A request must not be able to
/// prevent the start of a guard.
fn is_variable_value(value: &str) -> bool {
    value.len() <= MAX_SESSION_BYTES && !value.contains('\0')
}
