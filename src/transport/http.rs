//! `http`: the hook is a server; JSON in by POST, JSON out with status 200.
//!
//! No redirect and no proxy variable is followed, and no error holds the URL:
//! each of these would tell strangers what the hook is told.

use std::{sync::Arc, time::Duration};

use http::{HeaderValue, StatusCode, header};
use reqwest::{Client, Response, redirect};
use serde::{Deserialize, de::Error};
use url::Url;

use super::{BoxFuture, HookCall, Setup, Transport, TransportError, TransportKind};
use crate::event::Answer;

pub(super) const KIND: TransportKind = TransportKind {
    name: "http",
    build: |setup| Ok(Arc::new(Http::build(setup)?)),
};

const JSON: &str = "application/json";

/// How long an unused connection is kept. Common servers close theirs after
/// five seconds, and a call must not meet that moment.
const IDLE: Duration = Duration::from_secs(4);

/// A pool of connections for all hooks.
pub(super) fn client() -> Result<Client, TransportError> {
    Client::builder()
        .redirect(redirect::Policy::none())
        .no_proxy()
        .pool_idle_timeout(IDLE)
        .tcp_nodelay(true)
        .http1_only()
        .build()
        .map_err(TransportError::Client)
}

#[derive(Debug)]
struct Http {
    settings: Settings,
    client: Client,
    output_limit: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    url: Url,
    /// The whole header. It shows itself to nobody.
    #[serde(default, rename = "bearer", deserialize_with = "bearer")]
    authorization: Option<HeaderValue>,
}

impl Http {
    fn build(setup: Setup<'_>) -> Result<Self, TransportError> {
        let toolbox = setup.toolbox;
        Ok(Self {
            settings: setup.parse()?,
            client: toolbox.client.clone(),
            output_limit: toolbox.output_limit,
        })
    }

    async fn post(&self, call: &HookCall<'_>) -> Result<Vec<u8>, TransportError> {
        let mut request = self
            .client
            .post(self.settings.url.clone())
            .header(header::CONTENT_TYPE, JSON)
            .header(header::ACCEPT, JSON)
            .body(call.document.clone());
        if let Some(authorization) = &self.settings.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let response = request.send().await.map_err(unreachable)?;
        if response.status() != StatusCode::OK {
            return Err(TransportError::Status(response.status().as_u16()));
        }
        if !is_json(&response) {
            return Err(TransportError::MediaType);
        }
        read(response, self.output_limit).await
    }
}

impl Transport for Http {
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<Answer, TransportError>> {
        Box::pin(async move { call.read_object(self.post(&call).await?) })
    }
}

fn bearer<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<HeaderValue>, D::Error> {
    let token = String::deserialize(input)?;
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    // The token is not shown, whatever is wrong with it.
    let mut value = value.map_err(|_| D::Error::custom("`bearer` cannot stand in a header"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn is_json(response: &Response) -> bool {
    let value = response.headers().get(header::CONTENT_TYPE);
    let text = value.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let media_type = text.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case(JSON)
}

async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, TransportError> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(unreachable)? {
        if body.len() + piece.len() > limit {
            return Err(TransportError::TooMuchOutput);
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

fn unreachable(error: reqwest::Error) -> TransportError {
    TransportError::Unreachable(error.without_url())
}
