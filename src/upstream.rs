//! The model API, as a client.
//!
//! Knows nothing of hooks. It follows no redirect and no proxy variable, and
//! its errors hold no URL: each of these would carry a key to a third party.
//! It retries nothing that anybody may have seen.

mod answer;
mod body;
mod circuit_breaker;
pub mod content_headers;
mod decoded;
mod endpoint;
pub mod gzip;
pub mod headers;
pub mod sse;

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Method};
use thiserror::Error;
use url::Url;

use self::endpoint::{Endpoint, Failed, Sent};
pub use self::{answer::Answer, body::OutgoingBody};
use crate::{
    client::{ClientError, NoTrust},
    config::{CircuitSettings, Credential, UpstreamConfig},
    observe::Metrics,
};

/// A pool of connections to one model API.
#[derive(Debug)]
pub struct Upstream {
    first: Arc<Endpoint>,
    fallback: Option<Fallback>,
    credential: Option<Credential>,
    patience: Patience,
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
pub enum Route {
    /// The one that is always asked first.
    First,
    /// The other one.
    Fallback,
}

impl Route {
    /// The word in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Fallback => "fallback",
        }
    }
}

/// How long to wait for upstream.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// From the request's end to the answer's head.
    pub first_byte: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
}

/// A request as it goes out.
#[derive(Debug)]
pub struct Outgoing {
    /// The HTTP method.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// The agent's headers, already chosen by [`headers::to_upstream`].
    pub headers: HeaderMap,
    /// What is sent.
    pub body: OutgoingBody,
}

impl Outgoing {
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
    Build(#[from] NoTrust),
    /// What is asked for has no place in a URL.
    #[error("the model API has no such path")]
    Target,
    /// No connection, or it broke before the answer's head.
    #[error("the model API cannot be reached")]
    Unreachable(#[source] ClientError),
    /// It failed again and again, and is left alone.
    #[error("the model API failed again and again, and is not asked for a while")]
    Away {
        /// For how long.
        retry_after: Duration,
    },
    /// As many files are open here as may be.
    #[error("too much is open here for a connection to the model API")]
    Exhausted,
    /// No answer in time.
    #[error("the model API did not answer in time")]
    Silent,
    /// It wants the agent elsewhere.
    #[error("the model API answered with a redirect, which is not followed")]
    Redirect,
    /// The answer broke off.
    #[error("the model API's answer broke off")]
    Broken(#[source] ClientError),
    /// It is compressed otherwise than by gzip, or broken.
    #[error("the model API's answer is encoded in a way that cannot be read")]
    Encoded,
    /// It has a status that HTTP does not know, or that is no answer.
    #[error("the model API answered with a status that is none")]
    Odd,
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
        patience: Patience,
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
        patience: Patience,
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
    pub fn left_alone(&self) -> impl Iterator<Item = &str> {
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
        outgoing: Outgoing,
        goes: &(dyn Fn(Route) + Sync),
    ) -> Result<Answer, UpstreamError> {
        goes(Route::First);
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
            return Err(UpstreamError::Odd);
        }
        Ok(answer)
    }

    /// Sends a request to the fallback if nobody at the first address has seen it.
    async fn send_to_either(
        &self,
        fallback: &Fallback,
        outgoing: Outgoing,
        goes: &(dyn Fn(Route) + Sync),
    ) -> Result<Answer, Failed> {
        let (lent, mut spare) = outgoing.lend();
        let sent = self.first.send(lent, self.patience).await;
        match sent {
            Err(failed) if failed.sent == Sent::Never && spare.body.is_unread() => {
                goes(Route::Fallback);
                self.metrics.fell_back(self.first.circuit.name());
                headers::to_fallback(&mut spare.headers, &fallback.credential);
                fallback.endpoint.send(spare, self.patience).await
            }
            sent => sent,
        }
    }
}
