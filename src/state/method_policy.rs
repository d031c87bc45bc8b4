//! What a config makes of the coverage table.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    config::Config,
    dialect::{
        Api, Row,
        method_table::{self, Access, Runs},
    },
};

/// One method of a model API, and what runs on it.
#[derive(Debug, Serialize, ToSchema)]
pub struct Covered {
    /// `gemini`, `vertex` or `code_assist`.
    pub api: &'static str,
    /// The HTTP method.
    pub method: &'static str,
    /// The path; `{…}` stands for one segment, or for what stands before the `:`
    /// in one.
    pub path: &'static str,
    /// What it is called.
    pub name: &'static str,
    /// `hooked`, `request_only`, `passed` or `refused`.
    #[schema(value_type = String)]
    pub runs: Runs,
    /// Why, if the config or the method itself gives a reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Covered {
    /// Every method, under this config.
    pub fn all(config: &Config) -> Vec<Self> {
        method_table::rows()
            .map(|it| Self::of(it, config))
            .collect()
    }

    /// One method, under this config.
    fn of(row: &'static Row, config: &Config) -> Self {
        let (mut runs, mut why) = treatment(row, config);
        let upstreams = &config.upstreams;
        let upstream = match row.api {
            Api::Gemini => &upstreams.gemini,
            Api::Vertex => &upstreams.vertex,
            Api::CodeAssist => &upstreams.code_assist,
        };
        if upstream.is_none() {
            runs = Runs::Refused;
            why = Some(format!(
                "`upstreams.{}` is not configured",
                row.api.as_str()
            ));
        }
        Self {
            api: row.api.as_str(),
            method: row.method,
            path: row.path,
            name: row.name,
            runs,
            why,
        }
    }
}

/// What runs on a method, and why, wherever it goes.
pub(super) fn treatment(row: &Row, config: &Config) -> (Runs, Option<String>) {
    let runs = row.runs(config.coverage.allows(row.name));
    let why = match (runs, row.access) {
        (_, Access::Open) => None,
        (_, Access::Never(why)) => Some(why),
        (Runs::Refused, Access::ByName) => {
            Some("carries content that hookgate does not see; `coverage.allow` lets it pass")
        }
        (_, Access::ByName) => Some("is allowed by `coverage.allow`"),
    };
    (runs, why.map(|it| format!("`{}` {it}", row.name)))
}
