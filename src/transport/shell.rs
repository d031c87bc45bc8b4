//! A shell command and its variables: what the `command` and the `worker`
//! transport start.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fmt, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tokio::process;

use super::{TransportDeps, TransportError, process::Process};

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

/// What `bash -c` runs.
pub(super) struct Shell {
    command: String,
    env: BTreeMap<String, String>,
    hook: String,
    toolbox: TransportDeps,
}

impl Shell {
    /// Refuses at load what could never run. `hook` is what the hook is called
    /// in logs.
    pub(super) fn new(
        command: String,
        env: BTreeMap<String, String>,
        hook: &str,
        toolbox: &TransportDeps,
    ) -> Result<Self, TransportError> {
        let wrong = |message: &str| Err(TransportError::Settings(message.to_owned()));
        if command.trim().is_empty() {
            return wrong("`command` is empty");
        }
        let is_name = |it: &String| !it.is_empty() && !it.contains(['=', '\0']);
        if !env.keys().all(is_name) {
            return wrong("`env` has a name that no variable can have");
        }
        if command.contains('\0') || env.values().any(|it| it.contains('\0')) {
            return wrong("`command` and `env` cannot hold NUL characters");
        }
        Ok(Self {
            command,
            env,
            hook: hook.to_owned(),
            toolbox: toolbox.clone(),
        })
    }

    /// What its hook is called in logs.
    pub(super) fn hook(&self) -> &str {
        &self.hook
    }

    /// What it was built with.
    pub(super) const fn toolbox(&self) -> &TransportDeps {
        &self.toolbox
    }

    /// Starts it. A process that serves one call is told the call's session.
    pub(super) fn start(&self, session: Option<&str>) -> Result<Process, TransportError> {
        let mut command = process::Command::new(&self.toolbox.bash);
        // Nothing is asked for that `posix_spawn` cannot do, so nothing is forked.
        command
            .arg0("bash")
            .args(["-c", &self.command])
            .current_dir(&self.toolbox.directory)
            .env_clear()
            .envs(self.environment(session));
        let started = Process::start(command, &self.toolbox.alive);
        started.map_err(TransportError::Start)
    }

    /// Later ones win: the operator has the last word.
    fn environment(&self, session: Option<&str>) -> Vec<(OsString, OsString)> {
        let folder = self.toolbox.directory.as_os_str();
        let mut variables = self.toolbox.environment.clone();
        variables.extend(FOLDER.iter().map(|it| (it.into(), folder.to_owned())));
        if let Some(session) = session.filter(|it| can_be_variable(it)) {
            variables.extend(SESSION.iter().map(|it| (it.into(), session.into())));
        }
        let own = self.env.iter();
        variables.extend(own.map(|(name, value)| (name.into(), value.into())));
        variables
    }
}

impl fmt::Debug for Shell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its variables may hold keys.
        f.debug_tuple("Shell").field(&self.command).finish()
    }
}

/// Where bash is, by the folders of a `PATH`. A folder that depends on where a
/// process is started is none of them. If it is nowhere, its name is all there is,
/// and each hook looks by its own `PATH`.
pub(super) fn bash(path: &OsStr) -> PathBuf {
    let folders = env::split_paths(path).filter(|it| it.is_absolute());
    let mut places = folders.map(|it| it.join("bash"));
    places
        .find(|it| is_program(it))
        .unwrap_or_else(|| "bash".into())
}

fn is_program(place: &Path) -> bool {
    let runs = |it: fs::Metadata| it.is_file() && it.permissions().mode() & 0o111 != 0;
    fs::metadata(place).is_ok_and(runs)
}

/// Whether a process can be started with this value. What a request says must
/// not decide whether a guard starts.
fn can_be_variable(value: &str) -> bool {
    value.len() <= LONGEST_VALUE && !value.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_is_the_first_that_runs_in_a_folder_that_stands_still() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let file = |name: &str, mode: u32| {
            fs::create_dir(place(name)).unwrap();
            let file = place(name).join("bash");
            fs::write(&file, "").unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        };
        file("text", 0o644);
        file("first", 0o755);
        file("second", 0o755);
        fs::create_dir_all(place("folder/bash")).unwrap();
        let names = ["none", "text", "folder", "first", "second"];
        let folders = names.map(place);
        let path = env::join_paths(
            [Path::new(""), Path::new(".")]
                .into_iter()
                .chain(folders.iter().map(AsRef::as_ref)),
        );

        assert_eq!(bash(&path.unwrap()), place("first/bash"));
        assert_eq!(bash(OsStr::new(".:")), Path::new("bash"));
    }
}
