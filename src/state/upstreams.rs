//! One client for each configured model API.

use std::sync::Arc;

use crate::{
    config::{Timeouts, UpstreamsConfig},
    dialect::{self, Api},
    observe::Metrics,
    upstream::{Upstream, UpstreamError},
};

/// One client for each configured model API; the two of OpenAI share one.
#[derive(Debug)]
pub struct Upstreams(Vec<(Api, Arc<Upstream>)>);

impl Upstreams {
    /// Creates the configured clients, which keep the connections and circuit breakers of
    /// `previous`.
    ///
    /// # Errors
    ///
    /// Returns an error if TLS certificates cannot be verified on this system.
    pub fn new(
        config: &UpstreamsConfig,
        timeouts: Timeouts,
        metrics: &Arc<Metrics>,
        previous: Option<&Self>,
    ) -> Result<Self, UpstreamError> {
        let apis = dialect::ALL.iter().map(|dialect| dialect.api());
        let mut clients: Vec<(Api, Arc<Upstream>)> = Vec::new();
        for (api, config) in apis.filter_map(|api| Some((api, config.get(api.upstream())?))) {
            let mut known = clients.iter();
            let shared = known.find(|(known, _)| known.upstream() == api.upstream());
            let client = if let Some((_, client)) = shared {
                Arc::clone(client)
            } else {
                let previous = previous.and_then(|previous| previous.get(api));
                let previous = previous.map(|previous| &**previous);
                Upstream::from_config(config, api, timeouts, metrics, previous)?.into()
            };
            clients.push((api, client));
        }
        Ok(Self(clients))
    }

    /// Returns the names of upstreams, and whether their circuit breakers are open.
    pub(super) fn circuits(&self) -> impl Iterator<Item = (&str, bool)> {
        let mut seen = Vec::new();
        let clients = self.0.iter().filter(move |(api, _)| {
            let is_new = !seen.contains(&api.upstream());
            seen.push(api.upstream());
            is_new
        });
        clients.flat_map(|(_, client)| client.circuits())
    }

    /// Returns the client for an API.
    pub fn get(&self, api: Api) -> Option<&Arc<Upstream>> {
        let found = self.0.iter().find(|(found, _)| *found == api);
        found.map(|(_, client)| client)
    }
}
