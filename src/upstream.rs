//! The model API, as a client.
//!
//! Knows nothing of hooks. It follows no redirect and no proxy variable, and
//! its errors hold no URL: each of these would carry a key to a third party.
//! It retries nothing that anybody may have seen.

mod circuit_breaker;
pub mod content_headers;
mod decoded;
pub mod decompress;
mod endpoint;
pub mod headers;
mod request;
mod response;
pub mod sse;

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Method};
use thiserror::Error;
use url::Url;

use self::endpoint::{Delivery, Endpoint, SendError};
pub use self::{request::RequestBody, response::UpstreamResponse};
use crate::{
    config::{CircuitSettings, Credential, UpstreamConfig},
    http_client::{HttpClientError, TlsVerifierError},
    observe::Metrics,
};

/// A pool of connections to one model API.
#[derive(Debug)]
pub struct Upstream {
    first: Arc<Endpoint>,
    fallback: Option<Fallback>,
    credential: Option<Credential>,
    patience: UpstreamTimeouts,
    metrics: Arc<Metrics>,
}

/// Where calls go that nobody at the first address has seen.
#[derive(Debug)]
struct Fallback {
    endpoint: Arc<Endpoint>,
    /// What is shown there. No other credential is.
    credential: Credential,
}

/// Which address of a model API is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamTarget {
    /// The one that is always asked first.
    Primary,
    /// The other one.
    Fallback,
}

impl UpstreamTarget {
    /// The word in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Fallback => "fallback",
        }
    }
}

/// How long to wait for upstream.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamTimeouts {
    /// For a connection.
    pub connect: Duration,
    /// From the request's end to the answer's head.
    pub first_byte: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
}

/// A request as it goes out.
#[derive(Debug)]
pub struct OutgoingRequest {
    /// The HTTP method.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// The agent's headers, already chosen by [`headers::request_headers`].
    pub headers: HeaderMap,
    /// What is sent.
    pub body: RequestBody,
}

impl OutgoingRequest {
    /// For an address that may not be the only one to be asked.
    fn lend(self) -> (Self, Self) {
        let (lent, body) = self.body.lend();
        let lent = Self {
            method: self.method.clone(),
            target: self.target.clone(),
            headers: self.headers.clone(),
            body: lent,
        };
        (lent, Self { body, ..self })
    }
}

/// Why upstream gave no answer, or not all of it.
#[derive(Debug, Error)]
pub enum UpstreamError {
    /// The client could not be built.
    #[error("the client for the model API cannot be built: {0}")]
    Tls(#[from] TlsVerifierError),
    /// What is asked for has no place in a URL.
    #[error("the model API has no such path")]
    InvalidTarget,
    /// No connection, or it broke before the answer's head.
    #[error("the model API cannot be reached")]
    Unreachable(#[source] HttpClientError),
    /// It failed again and again, and is left alone.
    #[error("the model API failed again and again, and is not asked for a while")]
    CircuitOpen {
        /// For how long.
        retry_after: Duration,
    },
    /// As many files are open here as may be.
    #[error("too much is open here for a connection to the model API")]
    OutOfFileDescriptors,
    /// No answer in time.
    #[error("the model API did not answer in time")]
    Timeout,
    /// It wants the agent elsewhere.
    #[error("the model API answered with a redirect, which is not followed")]
    Redirect,
    /// The answer broke off.
    #[error("the model API's answer broke off")]
    Interrupted(#[source] HttpClientError),
    /// It is compressed otherwise than by gzip, or broken.
    #[error("the model API's answer is encoded in a way that cannot be read")]
    UnsupportedEncoding,
    /// It has a status that HTTP does not know, or that is no answer.
    #[error("the model API answered with a status that is none")]
    InvalidStatus,
    /// More than is held in memory.
    #[error("the model API's answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
}

impl Upstream {
    /// A client for the API at `base` that nobody watches, using `credential`
    /// instead of the agents' own if there is one.
    pub fn new(
        base: &Url,
        credential: Option<Credential>,
        patience: UpstreamTimeouts,
    ) -> Result<Self, UpstreamError> {
        let config = UpstreamConfig {
            url: base.clone(),
            credential,
            circuit: CircuitSettings::default(),
            fallback: None,
        };
        Self::build(&config, "upstream", patience, (&Arc::default(), None))
    }

    /// A client as the config wants it. What `old` has of it goes on, with its
    /// connections and all that is known of its health.
    pub fn build(
        config: &UpstreamConfig,
        name: &str,
        patience: UpstreamTimeouts,
        (metrics, old): (&Arc<Metrics>, Option<&Self>),
    ) -> Result<Self, UpstreamError> {
        let endpoint = |url: &Url, name: String, old: Option<&Arc<Endpoint>>| {
            let same = |it: &&Arc<Endpoint>| it.is(url, patience.connect, config.circuit);
            if let Some(same) = old.filter(same) {
                return Ok(Arc::clone(same));
            }
            let circuit = (config.circuit, name);
            Endpoint::new(url, patience.connect, circuit, Arc::clone(metrics)).map(Arc::new)
        };
        let first = endpoint(&config.url, name.to_owned(), old.map(|it| &it.first))?;
        let old = old.and_then(|it| it.fallback.as_ref());
        let fallback = match &config.fallback {
            Some(fallback) => Some(Fallback {
                endpoint: endpoint(
                    &fallback.url,
                    format!("{name}.fallback"),
                    old.map(|it| &it.endpoint),
                )?,
                credential: fallback.credential.clone(),
            }),
            None => None,
        };
        Ok(Self {
            first,
            fallback,
            credential: config.credential.clone(),
            patience,
            metrics: Arc::clone(metrics),
        })
    }

    /// What stands in for the agents' own credentials, if anything does.
    pub const fn credential(&self) -> Option<&Credential> {
        self.credential.as_ref()
    }

    /// The names of its addresses that are left alone for a while, because they
    /// failed again and again.
    pub fn open_circuits(&self) -> impl Iterator<Item = &str> {
        let fallback = self.fallback.iter().map(|it| &it.endpoint);
        let circuits = [&self.first].into_iter().chain(fallback);
        let circuits = circuits.map(|it| &it.circuit);
        circuits.filter(|it| it.is_open()).map(|it| it.name())
    }

    /// Sends a request and waits for the head of its answer. `goes` is told
    /// whenever another address is about to be asked. Dropping the future, or the
    /// answer, ends the call.
    pub async fn send(
        &self,
        outgoing: OutgoingRequest,
        goes: &(dyn Fn(UpstreamTarget) + Sync),
    ) -> Result<UpstreamResponse, UpstreamError> {
        goes(UpstreamTarget::Primary);
        let sent = match &self.fallback {
            None => self.first.send(outgoing, self.patience).await,
            // Boxed, so that calls to an address without one have no room for it.
            Some(fallback) => Box::pin(self.send_to_either(fallback, outgoing, goes)).await,
        };
        let answer = sent.map_err(|it| it.error)?;
        if answer.status.is_redirection() {
            return Err(UpstreamError::Redirect);
        }
        if !(200..600).contains(&answer.status.as_u16()) {
            return Err(UpstreamError::InvalidStatus);
        }
        Ok(answer)
    }

    /// Sends a request to the fallback if nobody at the first address has seen it.
    async fn send_to_either(
        &self,
        fallback: &Fallback,
        outgoing: OutgoingRequest,
        goes: &(dyn Fn(UpstreamTarget) + Sync),
    ) -> Result<UpstreamResponse, SendError> {
        let (lent, mut spare) = outgoing.lend();
        let sent = self.first.send(lent, self.patience).await;
        match sent {
            Err(failed) if failed.sent == Delivery::Never && spare.body.is_unread() => {
                goes(UpstreamTarget::Fallback);
                self.metrics.record_fallback(self.first.circuit.name());
                headers::replace_for_fallback(&mut spare.headers, &fallback.credential);
                fallback.endpoint.send(spare, self.patience).await
            }
            sent => sent,
        }
    }
}
