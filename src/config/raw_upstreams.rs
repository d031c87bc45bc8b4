//! The model APIs as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    UpstreamConfig, UpstreamsConfig,
    load::Reading,
    raw::{RawSecret, RawUrl},
    units::{Count, Period},
    upstreams::{CircuitSettings, Credential, FallbackConfig},
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
    /// When it is left alone for a while.
    #[serde(default)]
    pub(super) circuit: RawCircuit,
    /// Where calls go that it has not seen, because there is no connection to it
    /// or because it is left alone.
    pub(super) fallback: Option<RawFallback>,
}

/// When an upstream is left alone for a while.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Circuit")]
pub(super) struct RawCircuit {
    /// After so many failures in a row.
    pub(super) failures: Count,
    /// Within this time.
    pub(super) within: Period,
    /// For this long; then one call tries it.
    pub(super) open: Period,
}

/// Another address of the same API. Agents' own credentials do not go there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Fallback")]
pub(super) struct RawFallback {
    /// Its base.
    pub(super) url: RawUrl,
    /// The key to use.
    pub(super) api_key: Option<RawSecret>,
    /// The token to use, as `Authorization: Bearer`, instead of a key.
    pub(super) bearer: Option<RawSecret>,
}

/// The credentials of the model APIs, as far as they are there.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    pub(super) gemini: Shown,
    pub(super) vertex: Shown,
    pub(super) code_assist: Shown,
}

impl Credentials {
    /// Finds them. Every problem is noted with its place.
    pub(super) fn read(reading: &mut Reading) -> Self {
        Self {
            gemini: Shown::read(reading, "/upstreams/gemini"),
            vertex: Shown::read(reading, "/upstreams/vertex"),
            code_assist: Shown::read(reading, "/upstreams/code_assist"),
        }
    }
}

impl Shown {
    fn read(reading: &mut Reading, pointer: &str) -> Self {
        let fallback = format!("{pointer}/fallback");
        let raw: Option<RawFallback> = reading.section(&fallback);
        if raw.is_some_and(|it| it.api_key.is_none() && it.bearer.is_none()) {
            let message = "a fallback needs an `api_key` or a `bearer`: \
                 agents' own credentials do not go there";
            reading.problem(&fallback, message);
        }
        Self {
            first: credential(reading, pointer),
            fallback: credential(reading, &fallback),
        }
    }
}

/// What is shown to the model API at `pointer`.
fn credential(reading: &mut Reading, pointer: &str) -> Option<Credential> {
    let bearer = format!("{pointer}/bearer");
    let api_key = reading.secret(&format!("{pointer}/api_key"));
    let token = reading.secret(&bearer);
    if api_key.is_some() && token.is_some() {
        let message = "an upstream has `api_key` or `bearer`, not both";
        reading.problem(&bearer, message);
    }
    let api_key = api_key.map(Credential::ApiKey);
    api_key.or_else(|| token.map(Credential::Bearer))
}

/// What is shown to one model API.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) first: Option<Credential>,
    pub(super) fallback: Option<Credential>,
}

impl Default for RawCircuit {
    fn default() -> Self {
        let circuit = CircuitSettings::default();
        Self {
            failures: Count(circuit.failures),
            within: Period(circuit.within),
            open: Period(circuit.open),
        }
    }
}

impl From<RawCircuit> for CircuitSettings {
    fn from(raw: RawCircuit) -> Self {
        Self {
            failures: raw.failures.0,
            within: raw.within.0,
            open: raw.open.0,
        }
    }
}

impl RawUpstreams {
    pub(super) fn with(self, credentials: Credentials) -> UpstreamsConfig {
        let upstream = |raw: RawUpstream, shown: Shown| UpstreamConfig {
            url: raw.url.0,
            credential: shown.first,
            circuit: raw.circuit.into(),
            fallback: raw.fallback.zip(shown.fallback).map(|(raw, credential)| {
                let url = raw.url.0;
                FallbackConfig { url, credential }
            }),
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
