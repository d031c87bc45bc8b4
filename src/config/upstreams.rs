//! The model APIs that are called, and with whose credential.

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

    /// Whether there is none.
    pub(super) const fn is_empty(&self) -> bool {
        self.gemini.is_none() && self.vertex.is_none() && self.code_assist.is_none()
    }
}
