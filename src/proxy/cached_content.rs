//! Content that a model API keeps for later calls: a cache is its caller's, and
//! nobody else builds upon it.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use http::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;

use super::{
    chunk_source,
    exchange::Exchange,
    passthrough,
    reply::{self, DenialForm, Reply, ResponseBuilder},
    request_body,
    response_filter::unreadable,
};
use crate::{
    dialect::{DialectError, Document},
    state::{ApiError, ErrorReason},
    upstream::{
        UpstreamResponse,
        headers::{self, ResponseUse},
    },
};

/// What may be changed of a cache: how long it is kept, and nothing that a model
/// reads.
const CHANGEABLE: [&str; 5] = ["ttl", "expireTime", "expire_time", "name", "etag"];

/// Shows, changes or deletes a cache of the caller's.
pub(super) async fn forward(exchange: Box<Exchange>, body: Body) -> Result<Response, ApiError> {
    let name = exchange.call.resource();
    exchange.check_cache(&name)?;
    let (caches, method) = (exchange.caches.clone(), exchange.head.method.clone());
    if method == Method::PATCH {
        return change(exchange, body).await;
    }
    let response = passthrough::forward(exchange, body).await?;
    if method == Method::DELETE && response.status().is_success() {
        caches.forget(&name);
    }
    Ok(response)
}

async fn change(exchange: Box<Exchange>, body: Body) -> Result<Response, ApiError> {
    let config = &exchange.snapshot.config;
    let bytes =
        request_body::read(body, &exchange.head, &config.limits, config.timeouts.body).await?;
    let document = Document::parse(bytes)?;
    if let Some((field, _)) = document
        .fields()
        .find(|it| !CHANGEABLE.contains(&it.0.as_str()))
    {
        let message = format!("`{field}` of what is cached cannot be changed");
        return Err(ApiError::new(ErrorReason::BadDocument, message));
    }
    let named = document.string(&["name"])?;
    if named.is_some_and(|it| it != exchange.call.resource()) {
        return Err(DialectError::Ambiguous("name".to_owned()).into());
    }
    let bytes = document.to_bytes();
    let outgoing = exchange.outgoing(bytes.clone().into(), ResponseUse::Parsed);
    let answer = exchange.send(outgoing, Some(&bytes)).await?;
    let reply = if answer.status.is_success() {
        exchange.keep_cache(answer).await?
    } else {
        Reply::Upstream(reply::passed(answer, &exchange.facts))
    };
    let teller = ResponseBuilder {
        dialect: exchange.dialect,
        call: exchange.call.clone(),
        form: DenialForm::Error,
        facts: exchange.facts.clone(),
    };
    Ok(teller.tell(reply))
}

impl Exchange {
    /// Refuses a cache that is not known to be the caller's.
    pub(super) fn check_cache(&self, name: &str) -> Result<(), ApiError> {
        if self.caches.belongs(name, &self.identity().caller().key) {
            return Ok(());
        }
        let message = "what is cached there was not made through this gateway by this caller, \
                       or has ended";
        Err(ApiError::new(ErrorReason::UnknownCache, message))
    }

    /// Remembers whose the cache is that an answer tells of.
    pub(super) async fn keep_cache(&self, answer: UpstreamResponse) -> Result<Reply, ApiError> {
        let (status, head) = (
            answer.status,
            headers::rewritten_response_headers(answer.headers.clone()),
        );
        let body = chunk_source::json(answer, &self.head, &self.snapshot.config.limits).await?;
        let told = Document::parse(body.clone()).map_err(|_| unreadable())?;
        let text = |spellings: &[&str]| told.string(spellings).map_err(|_| unreadable());
        let name = text(&["name"])?.ok_or_else(unreadable)?;
        let ends = text(&["expireTime", "expire_time"])?;
        let ends_in = ends.and_then(|it| ends_in(&it));
        self.caches
            .keep(&name, &self.identity().caller().key, ends_in);
        Ok(Reply::Upstream(response(status, head, body)))
    }
}

fn response(status: StatusCode, head: HeaderMap, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = head;
    response
}

/// How far off a time of RFC 3339 is.
fn ends_in(time: &str) -> Option<Duration> {
    let time: Timestamp = time.parse().ok()?;
    Some(Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default())
}
