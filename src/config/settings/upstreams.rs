//! The model APIs and the credentials sent to them.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

use crate::config::{
    schema::scalars::{BaseUrlSchema, CountSchema},
    secret::Secret,
    units::DurationText,
};

/// The model APIs, at least one. Calls of an API without an entry are refused.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Upstreams")]
pub struct UpstreamsConfig {
    /// The Gemini API: `/v1beta/models/…`.
    pub gemini: Option<UpstreamConfig>,
    /// Vertex AI: `/v1/projects/…/publishers/google/models/…`, also without a
    /// project.
    pub vertex: Option<UpstreamConfig>,
    /// Code Assist, which gemini-cli calls for users who log in with Google:
    /// `/v1internal:…`.
    pub code_assist: Option<UpstreamConfig>,
    /// The Messages API of Anthropic: `/v1/messages`.
    pub anthropic: Option<UpstreamConfig>,
    /// The APIs of OpenAI and of servers that are compatible: `/v1/responses` and
    /// `/v1/chat/completions`.
    pub openai: Option<UpstreamConfig>,
}

/// A model API that is called.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "Upstream", deny_unknown_fields)]
pub struct UpstreamConfig {
    /// The base URL, before `/v1beta/…` or `/v1/…`.
    #[schemars(with = "BaseUrlSchema")]
    pub url: Url,
    /// Sent instead of the agent's own credential.
    #[serde(flatten)]
    #[schemars(with = "CredentialFields")]
    pub credential: Option<UpstreamCredential>,
    /// Headers to add to every request, at most 32. They replace the agent's headers of
    /// the same name. Secrets are not sent to the fallback.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 32, "default" = {}))]
    pub headers: BTreeMap<String, HeaderText>,
    /// Names of the agent's headers to forward in addition to those that are always
    /// forwarded, at most 32. They are not sent to the fallback.
    #[serde(default)]
    #[schemars(extend("maxItems" = 32))]
    pub forward_headers: Vec<String>,
    /// Conditions under which the circuit breaker opens, and the time for which it stays open.
    #[serde(default)]
    pub circuit: CircuitSettings,
    /// Calls it over HTTP/2: negotiated with an `https` address, and required of an `http`
    /// address. Calls of an event loop then share one connection.
    #[serde(default)]
    pub http2: bool,
    /// Another address for calls that this one has not received, because the
    /// connection failed or the circuit breaker is open.
    pub fallback: Option<FallbackConfig>,
}

/// The value of a header.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "HeaderText", with = "HeaderTextSchema")]
pub enum HeaderText {
    /// Plain text, as written in the config.
    Text(String),
    /// A secret, which the loader has read.
    Secret {
        /// The text of the secret.
        secret: Secret,
    },
}

/// The value of a header: text, or a reference to a secret.
#[derive(JsonSchema)]
#[schemars(rename = "HeaderText", untagged, extend("errorMessage" = "must be text, `{ env: NAME }` or `{ file: PATH }`"))]
#[expect(dead_code, reason = "only its schema is used")]
enum HeaderTextSchema {
    Text(String),
    Secret(Secret),
}

/// Another address of the same API. Agents' own credentials are not sent to it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "Fallback", deny_unknown_fields)]
pub struct FallbackConfig {
    /// The base URL, as for an upstream.
    #[schemars(with = "BaseUrlSchema")]
    pub url: Url,
    /// Sent instead of the agent's own credential.
    #[serde(flatten)]
    #[schemars(with = "CredentialFields")]
    pub credential: UpstreamCredential,
}

/// Conditions under which the circuit breaker of an upstream opens, and the time for which it stays
/// open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Circuit")]
pub struct CircuitSettings {
    /// Number of consecutive failures.
    #[schemars(with = "CountSchema")]
    pub failures: usize,
    /// Time within which the failures occur.
    #[serde(with = "DurationText")]
    pub within: Duration,
    /// Time for which the circuit breaker stays open. Then one call probes the
    /// upstream.
    #[serde(with = "DurationText")]
    pub open: Duration,
}

/// The credential of a caller at a model API.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamCredential {
    /// An API key, for the header in which the API takes keys.
    ApiKey(Secret),
    /// A token, for `Authorization: Bearer`.
    Bearer(Secret),
}

/// The schema of [`UpstreamCredential`]; the loader refuses a config with both fields.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct CredentialFields {
    /// The API key. Without this and `bearer`, the agent's own credential is
    /// forwarded.
    api_key: Option<Secret>,
    /// The token, sent as `Authorization: Bearer` instead of a key.
    bearer: Option<Secret>,
}

impl Default for CircuitSettings {
    fn default() -> Self {
        Self {
            failures: 5,
            within: Duration::from_secs(30),
            open: Duration::from_secs(10),
        }
    }
}

impl UpstreamsConfig {
    /// Returns the configured upstreams with their names in the config.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &UpstreamConfig)> {
        let all = [
            ("gemini", &self.gemini),
            ("vertex", &self.vertex),
            ("code_assist", &self.code_assist),
            ("anthropic", &self.anthropic),
            ("openai", &self.openai),
        ];
        all.into_iter()
            .filter_map(|(name, upstream)| Some((name, upstream.as_ref()?)))
    }

    /// Returns an upstream by its name in the config, if it is configured.
    pub fn get(&self, name: &str) -> Option<&UpstreamConfig> {
        let mut all = self.iter();
        all.find_map(|(found, upstream)| (found == name).then_some(upstream))
    }

    /// Returns the configured upstreams for changing them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut UpstreamConfig> {
        let all = [
            &mut self.gemini,
            &mut self.vertex,
            &mut self.code_assist,
            &mut self.anthropic,
            &mut self.openai,
        ];
        all.into_iter().flatten()
    }
}
