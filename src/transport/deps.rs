//! Construction of transports: settings of a hook and shared resources.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt,
    path::{self, Path, PathBuf},
    sync::Arc,
};

use prometheus_client::metrics::gauge::Gauge;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::task::TaskTracker;

use super::{error::TransportError, process_slots::ProcessSlots, recorded_runs::RecordedRuns};

/// Environment variables of the gateway that hooks inherit, besides `LC_*`; others
/// may hold keys (hook protocol, section 2).
const INHERITED_VARIABLES: &[&str] = &["PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "SHELL"];

/// Settings of one hook. They may hold keys.
pub struct TransportConfig<'a> {
    /// Name of the hook in logs.
    pub label: &'a str,
    /// Settings specific to the transport.
    pub settings: Map<String, Value>,
    /// Resources shared by all hooks.
    pub deps: &'a TransportDeps,
}

impl TransportConfig<'_> {
    pub(super) fn parse<T: DeserializeOwned>(self) -> Result<T, TransportError> {
        serde_json::from_value(Value::Object(self.settings))
            .map_err(|error| TransportError::Settings(error.to_string()))
    }
}

/// Resources that transports share.
#[derive(Debug, Clone)]
pub struct TransportDeps {
    /// Tracker of tasks that must end before the gateway does.
    pub tasks: TaskTracker,
    /// Limit on concurrent processes, except those that transports reserve.
    pub slots: Arc<ProcessSlots>,
    /// Number of running processes.
    pub running: Gauge,
    /// Limit in bytes on a hook's output; for processes on each of standard output and
    /// standard error.
    pub output_limit: usize,
    /// Absolute working directory of processes.
    pub directory: PathBuf,
    /// Shell that runs commands. Resolved once, because a program without a path
    /// cannot be started by `posix_spawn`, and a fork copies the page tables.
    pub bash: PathBuf,
    /// Environment that processes inherit.
    pub environment: Vec<(OsString, OsString)>,
    /// Recorded outputs of hooks; if there are some, no hook is called.
    pub recorded: Option<Arc<RecordedRuns>>,
}

impl TransportDeps {
    /// Returns resources with the environment of this process as far as hooks may see it.
    pub fn new(
        tasks: TaskTracker,
        slots: Arc<ProcessSlots>,
        running: Gauge,
        output_limit: usize,
        directory: PathBuf,
    ) -> Self {
        Self {
            tasks,
            slots,
            running,
            output_limit,
            directory: path::absolute(&directory).unwrap_or(directory),
            bash: find_bash(&env::var_os("PATH").unwrap_or_default()),
            environment: env::vars_os()
                .filter(|(name, _)| is_inherited(name))
                .collect(),
            recorded: None,
        }
    }
}

pub(super) fn is_inherited(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    INHERITED_VARIABLES.contains(&name.as_ref()) || name.starts_with("LC_")
}

/// Finds bash in the absolute folders of a `PATH`. If it is in none, returns its
/// bare name, and each process looks it up.
fn find_bash(path: &OsStr) -> PathBuf {
    env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("bash"))
        .find(|file| is_executable(file))
        .unwrap_or_else(|| "bash".into())
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_is_the_first_executable_in_an_absolute_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path_of = |name: &str| folder.path().join(name);
        let create = |name: &str, mode: u32| {
            fs::create_dir(path_of(name)).unwrap();
            let file = path_of(name).join("bash");
            fs::write(&file, "").unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        };
        create("text", 0o644);
        create("first", 0o755);
        create("second", 0o755);
        fs::create_dir_all(path_of("folder/bash")).unwrap();
        let names = ["none", "text", "folder", "first", "second"];
        let folders = names.map(path_of);
        let path = env::join_paths(
            [Path::new(""), Path::new(".")]
                .into_iter()
                .chain(folders.iter().map(AsRef::as_ref)),
        );

        assert_eq!(find_bash(&path.unwrap()), path_of("first/bash"));
        assert_eq!(find_bash(OsStr::new(".:")), Path::new("bash"));
    }
}
