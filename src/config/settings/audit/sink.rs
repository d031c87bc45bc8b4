//! The HTTP sink of the audit log: where its lines are sent, how, and without which fields.

use std::{collections::BTreeMap, time::Duration};

use http::{HeaderMap, header};
use schemars::JsonSchema;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::config::{
    schema::scalars::{CountSchema, HookUrlSchema},
    secret::{Secret, header_map},
    units::{DurationText, Size},
};

/// An HTTP endpoint that receives the lines of the audit log, at least once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AuditSink")]
pub struct AuditSinkSettings {
    /// The whole URL to which batches are posted.
    #[schemars(with = "HookUrlSchema")]
    pub url: Url,
    /// The form of a request's body.
    #[serde(default)]
    pub format: SinkFormat,
    /// A token for `authorization`, in the scheme of the format.
    #[serde(default)]
    pub token: Option<Secret>,
    /// Further headers to send.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub headers: BTreeMap<String, Secret>,
    /// Fields that are not sent.
    #[serde(default)]
    pub mask: SinkMask,
    /// Bounds of one request.
    #[serde(default)]
    pub batch: SinkBatch,
    /// Timeout of one request.
    #[serde(default = "default_timeout", with = "DurationText")]
    #[schemars(with = "DurationText")]
    pub timeout: Duration,
}

/// The form of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SinkFormat {
    /// A JSON array of lines, as OPA sends its decision logs.
    #[default]
    JsonArray,
    /// Events of Splunk's HTTP Event Collector.
    SplunkHec,
    /// The bulk API of Elasticsearch.
    ElasticBulk,
}

/// Fields that are not sent, by JSON pointer; `*` is every item of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SinkMask {
    /// Fields to leave out.
    pub drop: Vec<String>,
    /// Fields to replace by their SHA-256.
    pub hash: Vec<String>,
}

/// Bounds of one request. A longer line is sent alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SinkBatch {
    /// Maximum number of lines.
    #[schemars(with = "CountSchema")]
    pub lines: usize,
    /// Maximum size of the lines, before compression.
    #[serde(with = "Size")]
    pub bytes: usize,
}

/// Fields that can be masked. The others give a line its place: `seq`, `prev`, `time`,
/// `kind`, `hash`.
pub const MASKABLE_FIELDS: &[&str] = &[
    "/action",
    "/because",
    "/by",
    "/bytes",
    "/caller",
    "/caller/agent",
    "/caller/key",
    "/caller/name",
    "/calls",
    "/candidate",
    "/chunks",
    "/config",
    "/content",
    "/current",
    "/dialect",
    "/dropped",
    "/duration_ms",
    "/edited",
    "/ended",
    "/error",
    "/event",
    "/file",
    "/from",
    "/hooks",
    "/hooks/*/denied_calls",
    "/hooks/*/edited",
    "/hooks/*/ms",
    "/hooks/*/name",
    "/hooks/*/runs",
    "/hooks/*/status",
    "/hooks/*/verdict",
    "/hooks/*/would",
    "/input",
    "/input/bytes",
    "/input/sha256",
    "/input/text",
    "/input/truncated",
    "/lines",
    "/listener",
    "/measure",
    "/method",
    "/mode",
    "/model",
    "/newly_allowed",
    "/newly_denied",
    "/operation",
    "/origin",
    "/outcome",
    "/path",
    "/path/sha256",
    "/path/text",
    "/peer",
    "/percent",
    "/reason",
    "/reason/sha256",
    "/reason/text",
    "/received",
    "/received/bytes",
    "/received/sha256",
    "/received/text",
    "/received/truncated",
    "/report",
    "/request",
    "/requested_model",
    "/requests",
    "/response",
    "/response/bytes",
    "/response/sha256",
    "/response/text",
    "/response/truncated",
    "/round",
    "/rounds",
    "/sample",
    "/sent",
    "/sent/bytes",
    "/sent/sha256",
    "/sent/text",
    "/sent/truncated",
    "/session",
    "/status",
    "/subject",
    "/to",
    "/trace",
    "/trace/id",
    "/trace/span",
    "/unchanged",
    "/unknown",
    "/upstream",
    "/usage",
    "/usage/candidates",
    "/usage/prompt",
    "/usage/total",
    "/verdict",
    "/version",
];

impl AuditSinkSettings {
    /// Returns the headers of every request, marked as sensitive.
    pub fn header_map(&self) -> HeaderMap {
        let token = self.token.as_ref().and_then(|token| {
            let scheme = self.format.token_scheme();
            let value = Secret::from(format!("{scheme} {}", token.expose_secret()));
            Some((header::AUTHORIZATION, value.header_value()?))
        });
        let mut headers = header_map(&self.headers);
        headers.extend(token);
        headers
    }
}

impl SinkFormat {
    const fn token_scheme(self) -> &'static str {
        match self {
            Self::JsonArray => "Bearer",
            Self::SplunkHec => "Splunk",
            Self::ElasticBulk => "ApiKey",
        }
    }
}

impl Default for SinkBatch {
    fn default() -> Self {
        Self {
            lines: 1000,
            bytes: 1024 * 1024,
        }
    }
}

const fn default_timeout() -> Duration {
    Duration::from_secs(10)
}
