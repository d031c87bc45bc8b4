//! Logs of this process, and the OTLP collector.

use std::collections::BTreeMap;

use http::HeaderMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::config::{
    schema::scalars::BaseUrlSchema,
    secret::{Secret, header_map},
};

/// Logs of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Log")]
pub struct LogSettings {
    /// The format of log lines.
    pub format: LogLineFormat,
    /// The lowest level that is logged.
    pub level: LogLevel,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLineFormat {
    /// Plain text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The lowest level that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Operations that failed, and nothing else.
    Error,
    /// Conditions that need attention.
    Warn,
    /// Events of normal operation.
    #[default]
    Info,
    /// Details of each operation.
    Debug,
    /// All details, including those of libraries.
    Trace,
}

/// Exporters of traces and logs.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// An OpenTelemetry collector that receives traces and logs by OTLP.
    pub otlp: Option<OtlpSettings>,
}

/// An OpenTelemetry collector and what is exported.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Otlp")]
pub struct OtlpSettings {
    /// The base URL, before `/v1/traces` and `/v1/logs`.
    #[schemars(with = "BaseUrlSchema")]
    pub endpoint: Url,
    /// Headers to send, such as an API key.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub headers: BTreeMap<String, Secret>,
    /// Export calls, events and hooks as spans.
    #[serde(default = "enabled")]
    pub traces: bool,
    /// Export the records of the audit log.
    #[serde(default = "enabled")]
    pub logs: bool,
    /// The `service.name` of this gateway.
    #[serde(default = "default_service_name")]
    #[schemars(length(min = 1, max = 256))]
    pub service_name: String,
}

impl OtlpSettings {
    /// Returns the headers to send, marked as sensitive.
    pub fn header_map(&self) -> HeaderMap {
        header_map(&self.headers)
    }
}

const fn enabled() -> bool {
    true
}

fn default_service_name() -> String {
    "hookgate".to_owned()
}
