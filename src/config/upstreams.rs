//! The model APIs that are called, and with whose credential.

use std::time::Duration;

use secrecy::SecretString;
use url::Url;

/// The model APIs that are called. At least one is there.
#[derive(Debug, Clone)]
pub struct UpstreamsConfig {
    /// The Gemini API.
    pub gemini: Option<UpstreamConfig>,
    /// Vertex AI.
    pub vertex: Option<UpstreamConfig>,
    /// Code Assist.
    pub code_assist: Option<UpstreamConfig>,
}

/// One model API.
#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    /// Its base: http or https, without user, query and fragment.
    pub url: Url,
    /// What is shown to it instead of the agent's own credential.
    pub credential: Option<Credential>,
    /// When it is left alone for a while.
    pub circuit: CircuitSettings,
    /// Where calls go that it has not seen.
    pub fallback: Option<FallbackConfig>,
}

/// Where calls go that an upstream has not seen.
#[derive(Debug, Clone)]
pub struct FallbackConfig {
    /// Its base: http or https, without user, query and fragment.
    pub url: Url,
    /// What is shown to it; agents' own credentials are not.
    pub credential: Credential,
}

/// When an upstream is left alone for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitSettings {
    /// After so many failures in a row. Not zero.
    pub failures: usize,
    /// Within this time.
    pub within: Duration,
    /// For this long; then one call tries it.
    pub open: Duration,
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

/// What a model API knows a caller by.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A key, for `x-goog-api-key`.
    ApiKey(SecretString),
    /// A token, for `Authorization: Bearer`.
    Bearer(SecretString),
}

impl UpstreamsConfig {
    /// Those that are there.
    pub fn each_mut(&mut self) -> impl Iterator<Item = &mut UpstreamConfig> {
        let all = [&mut self.gemini, &mut self.vertex, &mut self.code_assist];
        all.into_iter().flatten()
    }

    /// Those that are there, by their names in the config.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, &UpstreamConfig)> {
        let all = [
            ("gemini", &self.gemini),
            ("vertex", &self.vertex),
            ("code_assist", &self.code_assist),
        ];
        all.into_iter()
            .filter_map(|(name, it)| Some((name, it.as_ref()?)))
    }

    /// Whether there is none.
    pub(super) const fn is_empty(&self) -> bool {
        self.gemini.is_none() && self.vertex.is_none() && self.code_assist.is_none()
    }
}
