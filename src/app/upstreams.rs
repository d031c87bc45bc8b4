//! A client for each model API that the config names.

use std::sync::Arc;

use crate::{
    config::{UpstreamConfig, UpstreamsConfig},
    dialect::Api,
    upstream::{Patience, Upstream, UpstreamError},
};

/// A client for each model API that the config names.
#[derive(Debug)]
pub struct Upstreams {
    gemini: Option<Arc<Upstream>>,
    vertex: Option<Arc<Upstream>>,
    code_assist: Option<Arc<Upstream>>,
}

impl Upstreams {
    /// The clients that the config asks for.
    pub fn new(config: &UpstreamsConfig, patience: Patience) -> Result<Self, UpstreamError> {
        let client = |config: &Option<UpstreamConfig>| {
            let client = config.as_ref().map(|it| {
                let client = Upstream::new(&it.url, it.credential.clone(), patience)?;
                Ok(Arc::new(client))
            });
            client.transpose()
        };
        Ok(Self {
            gemini: client(&config.gemini)?,
            vertex: client(&config.vertex)?,
            code_assist: client(&config.code_assist)?,
        })
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
