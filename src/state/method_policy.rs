//! Methods of the model APIs under the `coverage` settings of a config.

use serde::Serialize;
use utoipa::ToSchema;

use super::upstreams;
use crate::{
    config::Config,
    dialect::{self, Access, HookCoverage, MethodSpec},
};

/// One method of a model API, and which hooks inspect it.
#[derive(Debug, Serialize, ToSchema)]
pub struct MethodPolicy {
    /// `gemini`, `vertex` or `code_assist`.
    pub api: &'static str,
    /// HTTP method of the request line.
    pub method: &'static str,
    /// Path; `{…}` matches one segment, or the part of one before the `:`.
    pub path: &'static str,
    /// Name of the method.
    pub name: &'static str,
    /// `hooked`, `request_only`, `passed` or `refused`.
    #[schema(value_type = String)]
    pub runs: HookCoverage,
    /// Reason, if the config or the method itself gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl MethodPolicy {
    /// Returns every method under a config.
    pub fn all(config: &Config) -> Vec<Self> {
        let rows = dialect::methods();
        rows.map(|row| Self::new(row, config)).collect()
    }

    fn new(row: &'static MethodSpec, config: &Config) -> Self {
        let (mut runs, mut why) = hook_coverage(row, config);
        let api = row.api.as_str();
        if upstreams::settings(&config.upstreams, row.api).is_none() {
            runs = HookCoverage::Refused;
            let upstream = row.api.upstream();
            why = Some(format!("`upstreams.{upstream}` is not configured"));
        }
        Self {
            api,
            method: row.method,
            path: row.path,
            name: row.name,
            runs,
            why,
        }
    }
}

/// Returns the hooks that inspect a method, and the reason, whatever upstreams exist.
pub(super) fn hook_coverage(row: &MethodSpec, config: &Config) -> (HookCoverage, Option<String>) {
    let runs = row.coverage(config.coverage.allows(row.name));
    let why = match (runs, row.access) {
        (_, Access::Open) => None,
        (_, Access::Never(_) | Access::Socket) => row.access.refusal(),
        (HookCoverage::Refused, Access::ByName) => {
            Some("carries content that hookgate does not inspect; allow it with `coverage.allow`")
        }
        (_, Access::ByName) => Some("is allowed by `coverage.allow`"),
    };
    (runs, why.map(|why| format!("`{}` {why}", row.name)))
}
