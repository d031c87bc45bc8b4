//! Methods of the model APIs under the `coverage` settings of a config.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    config::Config,
    dialect::{self, Access, Api, FieldSpec, HookCoverage, MethodSpec},
};

/// One method of a model API, or one field of its requests, and which hooks inspect it.
#[derive(Debug, Serialize, ToSchema)]
pub struct MethodPolicy {
    /// `gemini`, `vertex`, `code_assist`, `anthropic`, `openai_responses` or `openai_chat`.
    pub api: &'static str,
    /// HTTP method of the request line.
    pub method: &'static str,
    /// Path; `{…}` matches one segment, or the part of one before the `:`.
    pub path: &'static str,
    /// Name of the method or field.
    pub name: &'static str,
    /// The field of the method's requests, if the row is about one: what it refers to is not
    /// inspected like the rest of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<&'static str>,
    /// `hooked`, `request_only`, `passed` or `refused`.
    #[schema(value_type = String)]
    pub runs: HookCoverage,
    /// Reason, if the config or the method itself gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl MethodPolicy {
    /// Returns every method under a config, then every field.
    pub fn all(config: &Config) -> Vec<Self> {
        let methods = dialect::methods().map(|row| Self::of_method(row, config));
        let fields = dialect::FIELDS
            .iter()
            .map(|row| Self::of_field(row, config));
        methods.chain(fields).collect()
    }

    fn of_method(row: &'static MethodSpec, config: &Config) -> Self {
        let (runs, why) = hook_coverage(row, config);
        let policy = Self {
            api: row.api.as_str(),
            method: row.method,
            path: row.path,
            name: row.name,
            field: None,
            runs,
            why,
        };
        policy.behind(row.api, config)
    }

    fn of_field(row: &'static FieldSpec, config: &Config) -> Self {
        let (runs, why) = field_coverage(row, config);
        let policy = Self {
            api: row.api.as_str(),
            method: "POST",
            path: row.path,
            name: row.name,
            field: Some(row.field),
            runs,
            why: Some(why),
        };
        policy.behind(row.api, config)
    }

    /// Returns the row, which is refused if its API is not configured.
    fn behind(self, api: Api, config: &Config) -> Self {
        if config.upstreams.get(api.upstream()).is_some() {
            return self;
        }
        let upstream = api.upstream();
        Self {
            runs: HookCoverage::Refused,
            why: Some(format!("`upstreams.{upstream}` is not configured")),
            ..self
        }
    }
}

/// Returns the coverage of what a field refers to, and the reason.
fn field_coverage(row: &FieldSpec, config: &Config) -> (HookCoverage, String) {
    let runs = row.coverage(config.coverage.allows(row.name));
    let rest = match (row.access, runs) {
        (Access::ByName, HookCoverage::Refused) => {
            "; refused where hooks or policies run, unless `coverage.allow` lists it"
        }
        (Access::ByName, _) => "; `coverage.allow` lists it",
        (_, HookCoverage::Refused) => "; refused where hooks or policies run",
        _ => "",
    };
    let why = row.why();
    (runs, format!("`{}` {why}{rest}", row.name))
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
