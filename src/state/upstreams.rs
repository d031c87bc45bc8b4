//! A client for each model API that the config names.

use std::sync::Arc;

use crate::{
    config::{UpstreamConfig, UpstreamsConfig},
    dialect::Api,
    observe::Metrics,
    upstream::{Upstream, UpstreamError, UpstreamTimeouts},
};

/// A client for each model API that the config names.
#[derive(Debug)]
pub struct Upstreams {
    gemini: Option<Arc<Upstream>>,
    vertex: Option<Arc<Upstream>>,
    code_assist: Option<Arc<Upstream>>,
}

impl Upstreams {
    /// The clients that the config asks for. What `old` has of them goes on.
    pub fn new(
        config: &UpstreamsConfig,
        patience: UpstreamTimeouts,
        metrics: &Arc<Metrics>,
        old: Option<&Self>,
    ) -> Result<Self, UpstreamError> {
        let client = |api: Api, config: &Option<UpstreamConfig>| {
            let old = old.and_then(|it| it.get(api)).map(|it| &**it);
            let build = |it| Upstream::from_config(it, api.as_str(), patience, metrics, old);
            let client = config.as_ref().map(|it| build(it).map(Arc::new));
            client.transpose()
        };
        Ok(Self {
            gemini: client(Api::Gemini, &config.gemini)?,
            vertex: client(Api::Vertex, &config.vertex)?,
            code_assist: client(Api::CodeAssist, &config.code_assist)?,
        })
    }

    /// The names of those that are left alone for a while, because they failed
    /// again and again.
    pub fn open_circuits(&self) -> impl Iterator<Item = &str> {
        let all = [&self.gemini, &self.vertex, &self.code_assist];
        let all = all.into_iter().flatten();
        all.flat_map(|it| it.open_circuits())
    }

    /// The client for one API, if the config names it.
    pub const fn get(&self, api: Api) -> Option<&Arc<Upstream>> {
        match api {
            Api::Gemini => self.gemini.as_ref(),
            Api::Vertex => self.vertex.as_ref(),
            Api::CodeAssist => self.code_assist.as_ref(),
        }
    }
}
