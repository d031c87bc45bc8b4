//! One client for each configured model API.

use std::sync::Arc;

use crate::{
    config::{UpstreamConfig, UpstreamsConfig},
    dialect::Api,
    observe::Metrics,
    upstream::{Upstream, UpstreamError, UpstreamTimeouts},
};

/// One client for each configured model API.
#[derive(Debug)]
pub struct Upstreams {
    gemini: Option<Arc<Upstream>>,
    vertex: Option<Arc<Upstream>>,
    code_assist: Option<Arc<Upstream>>,
}

impl Upstreams {
    /// Creates the configured clients, which keep the connections and circuit breakers of
    /// `previous`.
    ///
    /// # Errors
    ///
    /// Returns an error if TLS certificates cannot be verified on this system.
    pub fn new(
        config: &UpstreamsConfig,
        timeouts: UpstreamTimeouts,
        metrics: &Arc<Metrics>,
        previous: Option<&Self>,
    ) -> Result<Self, UpstreamError> {
        let client = |api: Api, config: &Option<UpstreamConfig>| {
            let previous = previous.and_then(|previous| previous.get(api));
            let previous = previous.map(|previous| &**previous);
            let build =
                |config| Upstream::from_config(config, api.as_str(), timeouts, metrics, previous);
            let client = config.as_ref().map(|config| build(config).map(Arc::new));
            client.transpose()
        };
        Ok(Self {
            gemini: client(Api::Gemini, &config.gemini)?,
            vertex: client(Api::Vertex, &config.vertex)?,
            code_assist: client(Api::CodeAssist, &config.code_assist)?,
        })
    }

    /// Returns the names of upstreams whose circuit breaker is open.
    pub fn open_circuits(&self) -> impl Iterator<Item = &str> {
        let clients = [&self.gemini, &self.vertex, &self.code_assist];
        let clients = clients.into_iter().flatten();
        clients.flat_map(|client| client.open_circuits())
    }

    /// Returns the client for an API.
    pub const fn get(&self, api: Api) -> Option<&Arc<Upstream>> {
        match api {
            Api::Gemini => self.gemini.as_ref(),
            Api::Vertex => self.vertex.as_ref(),
            Api::CodeAssist => self.code_assist.as_ref(),
        }
    }
}
