//! One address of a model API: a pool of connections, and its circuit.

use std::{error::Error, io, sync::Arc, time::Duration};

use http::{HeaderMap, Method, StatusCode};
use rustix::io::Errno;
use url::Url;

use super::{Answer, Patience, UpstreamError, body::OutgoingBody, circuit::Circuit};
use crate::{config::CircuitSettings, telemetry::Metrics};

/// How many connections are kept open that no call needs.
const SPARE_CONNECTIONS: usize = 256;

/// How long such a connection is kept.
const SPARE_FOR: Duration = Duration::from_secs(90);

/// One address of a model API.
#[derive(Debug)]
pub(super) struct Endpoint {
    client: reqwest::Client,
    /// Without a slash at its end.
    base: String,
    connect: Duration,
    pub(super) circuit: Arc<Circuit>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: UpstreamError,
    /// What may have come of the request.
    pub(super) sent: Sent,
}

/// What may have come of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// Nobody has seen it.
    Never,
    /// Somebody may have taken it, and may be at work on it.
    Perhaps,
}

impl Endpoint {
    pub(super) fn new(
        base: &Url,
        connect: Duration,
        (circuit, name): (CircuitSettings, String),
        metrics: Arc<Metrics>,
    ) -> Result<Self, UpstreamError> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(connect)
            .pool_idle_timeout(SPARE_FOR)
            .pool_max_idle_per_host(SPARE_CONNECTIONS)
            .tcp_nodelay(true)
            .http1_only()
            .build()
            .map_err(|error| UpstreamError::Build(error.without_url().to_string()))?;
        Ok(Self {
            client,
            base: bare(base).to_owned(),
            connect,
            circuit: Circuit::new(circuit, name, metrics),
        })
    }

    /// Whether another endpoint would be just the same.
    pub(super) fn is(&self, base: &Url, connect: Duration, circuit: CircuitSettings) -> bool {
        self.base == bare(base) && self.connect == connect && self.circuit.settings() == circuit
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(
        &self,
        (method, target): (Method, &str),
        headers: HeaderMap,
        body: &OutgoingBody,
        patience: Patience,
    ) -> Result<Answer, Failed> {
        let pass = self.circuit.enter().map_err(|retry_after| Failed {
            error: UpstreamError::Away { retry_after },
            sent: Sent::Never,
        })?;
        let request = self
            .client
            .request(method, format!("{}{target}", self.base))
            .headers(headers)
            .body(body.lend());
        let Ok(sent) = tokio::time::timeout(patience.first_byte, request.send()).await else {
            // Of a body that comes piece by piece, its sender may be slow.
            if body.is_whole() {
                pass.failed("timeout");
            }
            return Err(Failed {
                error: UpstreamError::Silent,
                sent: Sent::Perhaps,
            });
        };
        let response = match sent {
            Ok(response) => response,
            Err(error) => {
                let (failed, why) = failed(error.without_url());
                match why {
                    Some(why) => pass.failed(why),
                    None => drop(pass),
                }
                return Err(failed);
            }
        };
        let answer = Answer {
            status: response.status(),
            headers: response.headers().clone(),
            response,
            idle: patience.idle,
            watcher: None,
        };
        if is_of_a_proxy(&answer) {
            pass.failed("gateway");
        } else {
            pass.succeeded();
        }
        Ok(answer)
    }
}

fn bare(base: &Url) -> &str {
    base.as_str().trim_end_matches('/')
}

/// A model API says in the form in which it is asked, JSON or another, that a model
/// is overloaded or took too long, and is well all the same; an agent can bring that
/// about. What stands before it and finds nobody there has words for people.
fn is_of_a_proxy(answer: &Answer) -> bool {
    let status = matches!(
        answer.status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    );
    status && matches!(answer.media_type(), "" | "text/html" | "text/plain")
}

/// What an error means, and, if it is upstream's fault, what operators call it.
fn failed(error: reqwest::Error) -> (Failed, Option<&'static str>) {
    let sent = if error.is_connect() {
        Sent::Never
    } else {
        Sent::Perhaps
    };
    if chain(&error).any(is_exhaustion) {
        let error = UpstreamError::Exhausted;
        return (Failed { error, sent }, None);
    }
    let of_agent = chain(&error)
        .filter_map(|it| it.downcast_ref::<hyper::Error>())
        .any(hyper::Error::is_user);
    let why = match sent {
        _ if of_agent || is_unwanted_body(&error) => None,
        Sent::Never => Some("connect"),
        Sent::Perhaps => Some("broken"),
    };
    let error = UpstreamError::Unreachable(error);
    (Failed { error, sent }, why)
}

/// Whether upstream hung up while it was sent a body. That may be what it does with
/// this body, such as one that is too large, and then its answer may be lost. Hyper
/// tells this by words alone.
fn is_unwanted_body(error: &reqwest::Error) -> bool {
    let words = "error writing a body to connection";
    chain(error)
        .filter_map(|it| it.downcast_ref::<hyper::Error>())
        .any(|it| it.to_string() == words)
}

/// An error, and all that lie behind it.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// Whether no file could be opened, which is no fault of upstream's.
fn is_exhaustion(error: &(dyn Error + 'static)) -> bool {
    let code = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::raw_os_error);
    let full = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    code.is_some_and(|it| full.contains(&it))
}
