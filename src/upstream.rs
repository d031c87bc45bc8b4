//! Client of a model API, with circuit breaker and fallback address.
//!
//! Follows no redirect and no proxy variable, and its errors hold no URL: each would
//! carry a key to a third party. Retries only requests that were not sent.

mod circuit_breaker;
pub mod content_headers;
mod credentials;
pub mod decompress;
mod endpoint;
mod error;
pub mod headers;
mod key_mask;
mod recorded_answers;
mod request;
mod response;
pub mod sse;

use std::sync::Arc;

use http::StatusCode;
use url::Url;

use self::{
    circuit_breaker::CircuitBreaker,
    endpoint::{Endpoint, EndpointSettings},
    headers::HeaderRules,
};
pub use self::{
    error::UpstreamError,
    recorded_answers::{RecordedAnswers, SentRequest, StoredAnswer},
    request::{BodyProgress, OutgoingRequest, RequestBody},
    response::UpstreamResponse,
};
use crate::{
    config::{Timeouts, UpstreamConfig, UpstreamCredential},
    dialect::{Api, Vendor},
    http_client::HttpVersion,
    observe::Metrics,
};

/// Client of one model API.
#[derive(Debug)]
pub struct Upstream {
    vendor: Vendor,
    primary: Arc<Endpoint>,
    fallback: Option<FallbackEndpoint>,
    /// Configured credential, which replaces the agents' own.
    pub credential: Option<UpstreamCredential>,
    /// Headers to add to requests and to forward.
    pub header_rules: HeaderRules,
    timeouts: Timeouts,
    metrics: Arc<Metrics>,
}

/// Address for calls that the primary address has not received.
#[derive(Debug)]
struct FallbackEndpoint {
    endpoint: Arc<Endpoint>,
    /// The only credential that is sent there.
    credential: UpstreamCredential,
}

impl Upstream {
    /// Returns a client for the API with this configuration. Endpoints of `old` that are
    /// configured as before are kept, with their connections and circuit state.
    pub fn from_config(
        config: &UpstreamConfig,
        api: Api,
        timeouts: Timeouts,
        metrics: &Arc<Metrics>,
        old: Option<&Self>,
    ) -> Result<Self, UpstreamError> {
        let name = api.upstream();
        let endpoint = |url: &Url, name: String, old: Option<&Arc<Endpoint>>| {
            let settings = EndpointSettings {
                base: url.as_str().to_owned(),
                version: http_version(config.http2, url),
                connect_timeout: timeouts.upstream_connect,
                circuit: config.circuit,
            };
            if let Some(old) = old.filter(|old| old.settings == settings) {
                return Ok(Arc::clone(old));
            }
            let circuit_breaker = CircuitBreaker::new(config.circuit, name, Arc::clone(metrics));
            Endpoint::new(settings, circuit_breaker).map(Arc::new)
        };
        let primary = endpoint(&config.url, name.to_owned(), old.map(|old| &old.primary))?;
        let old = old.and_then(|old| Some(&old.fallback.as_ref()?.endpoint));
        let fallback = config.fallback.as_ref().map(|fallback| {
            let endpoint = endpoint(&fallback.url, format!("{name}.fallback"), old)?;
            metrics.upstream_fallbacks.with([name.into()]);
            let credential = fallback.credential.clone();
            Ok::<_, UpstreamError>(FallbackEndpoint {
                endpoint,
                credential,
            })
        });
        Ok(Self {
            vendor: api.vendor(),
            primary,
            fallback: fallback.transpose()?,
            credential: config.credential.clone(),
            header_rules: HeaderRules::new(config),
            timeouts,
            metrics: Arc::clone(metrics),
        })
    }

    /// Returns the names of the addresses, and whether their circuits are open or half-open.
    pub fn circuits(&self) -> impl Iterator<Item = (&str, bool)> {
        let fallback = self.fallback.iter().map(|fallback| &fallback.endpoint);
        let endpoints = [&self.primary].into_iter().chain(fallback);
        let circuits = endpoints.map(|endpoint| &endpoint.circuit_breaker);
        circuits.map(|circuit| (circuit.name.as_str(), circuit.is_open()))
    }

    /// Sends a request and waits for the head of its response. Calls `on_attempt` with
    /// `primary` or `fallback` before each address is tried, unless its circuit is open. Dropping
    /// the future, or the response, ends the call.
    pub async fn send(
        &self,
        outgoing: OutgoingRequest,
        on_attempt: &(dyn Fn(&'static str) + Sync),
    ) -> Result<UpstreamResponse, UpstreamError> {
        let response = match &self.fallback {
            None => {
                let on_attempt = || on_attempt("primary");
                self.primary
                    .send(outgoing, self.timeouts, &on_attempt)
                    .await?
            }
            // Boxed, to keep the future of calls without a fallback small.
            Some(fallback) => Box::pin(self.send_with(fallback, outgoing, on_attempt)).await?,
        };
        let status = response.status;
        if status == StatusCode::NOT_MODIFIED || !(200..600).contains(&status.as_u16()) {
            return Err(UpstreamError::InvalidStatus);
        }
        if status.is_redirection() {
            return Err(UpstreamError::Redirect);
        }
        Ok(response)
    }

    /// Sends a request to the fallback if the primary address has not received it.
    async fn send_with(
        &self,
        fallback: &FallbackEndpoint,
        outgoing: OutgoingRequest,
        on_attempt: &(dyn Fn(&'static str) + Sync),
    ) -> Result<UpstreamResponse, UpstreamError> {
        let (body, unread_body) = outgoing.body.share();
        let mut headers = outgoing.headers.clone();
        let first = OutgoingRequest {
            method: outgoing.method.clone(),
            target: outgoing.target.clone(),
            headers: outgoing.headers,
            body,
        };
        let on_first = || on_attempt("primary");
        let error = match self.primary.send(first, self.timeouts, &on_first).await {
            Err(error) if error.is_unsent() => error,
            sent => return sent,
        };
        let Some(body) = unread_body() else {
            return Err(error);
        };
        self.header_rules.remove_forwarded(&mut headers);
        headers::replace_for_fallback(&mut headers, self.vendor, &fallback.credential);
        let second = OutgoingRequest {
            headers,
            body,
            ..outgoing
        };
        let on_second = || {
            let name = self.primary.circuit_breaker.name.clone();
            self.metrics.upstream_fallbacks.with([name.into()]).inc();
            on_attempt("fallback");
        };
        fallback
            .endpoint
            .send(second, self.timeouts, &on_second)
            .await
    }
}

/// Returns the version of HTTP for an address. Only TLS can negotiate it.
fn http_version(has_http2: bool, url: &Url) -> HttpVersion {
    match (has_http2, url.scheme()) {
        (false, _) => HttpVersion::Http1,
        (true, "https") => HttpVersion::Negotiated,
        (true, _) => HttpVersion::Http2,
    }
}
