//! Settings from the command line.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use url::Url;

use super::{config_files::ConfigFiles, policy_layer::PolicyLayer};

/// Settings from the command line. They take precedence over the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Replaces `listen` of the file.
    pub listen: Option<SocketAddr>,
    /// Replaces `admin.listen` of the file.
    pub admin_listen: Option<SocketAddr>,
    /// Replaces `upstreams.gemini.url` of the file.
    pub upstream: Option<Url>,
    /// Settings files read after those of `hook_files`. Relative paths start from
    /// the current directory.
    pub hooks: Vec<PathBuf>,
    /// Base URL of every model API if the file has no `upstreams`.
    pub missing_upstreams: Option<Url>,
    /// Handling of secrets that cannot be read.
    pub missing_secrets: MissingSecrets,
    /// Files of a stored revision, which are read instead of those on the disk.
    pub stored: Option<Arc<ConfigFiles>>,
    /// Folders with the files of policy bundles, the organisation's first.
    pub layers: Vec<PolicyLayer>,
}

/// Handling of secrets that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingSecrets {
    /// Reported as a problem.
    #[default]
    Refused,
    /// Replaced by a placeholder, since no external service is called and no file is written.
    Placeholder,
}
