//! The model APIs as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    UpstreamConfig, UpstreamsConfig,
    raw::{RawSecret, RawUrl},
    upstreams::Credential,
};

/// The model APIs that are called, at least one. Calls of an API that is not
/// here are refused.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Upstreams")]
pub(super) struct RawUpstreams {
    /// The Gemini API: `/v1beta/models/…`.
    pub(super) gemini: Option<RawUpstream>,
    /// Vertex AI: `/v1/projects/…/publishers/google/models/…`, and without a
    /// project.
    pub(super) vertex: Option<RawUpstream>,
    /// Code Assist, which gemini-cli calls for those who log in with Google:
    /// `/v1internal:…`.
    pub(super) code_assist: Option<RawUpstream>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Upstream")]
pub(super) struct RawUpstream {
    /// Its base, before `/v1beta/…`.
    pub(super) url: RawUrl,
    /// The key to use; the agent's own credential goes through if neither this
    /// nor `bearer` is there.
    #[expect(dead_code, reason = "resolved from where it stands, with its place")]
    pub(super) api_key: Option<RawSecret>,
    /// The token to use, as `Authorization: Bearer`, instead of a key.
    #[expect(dead_code, reason = "resolved from where it stands, with its place")]
    pub(super) bearer: Option<RawSecret>,
}

/// The credentials of the model APIs, as far as they are there.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    pub(super) gemini: Option<Credential>,
    pub(super) vertex: Option<Credential>,
    pub(super) code_assist: Option<Credential>,
}

impl RawUpstreams {
    pub(super) fn with(self, credentials: Credentials) -> UpstreamsConfig {
        let upstream = |raw: RawUpstream, credential| UpstreamConfig {
            url: raw.url.0,
            credential,
        };
        UpstreamsConfig {
            gemini: self.gemini.map(|it| upstream(it, credentials.gemini)),
            vertex: self.vertex.map(|it| upstream(it, credentials.vertex)),
            code_assist: self
                .code_assist
                .map(|it| upstream(it, credentials.code_assist)),
        }
    }
}
