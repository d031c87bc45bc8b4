//! `http`: the hook is a server; JSON in by POST, JSON out with status 200.
//!
//! No redirect and no proxy variable is followed, and no error holds the URL:
//! each of these would tell strangers what the hook is told.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::{Deserialize, de::Error};
use url::Url;

use super::{BoxFuture, HookCall, Setup, Transport, TransportError, TransportKind};
use crate::{
    event::Answer,
    http_client::{HttpClient, HttpClientError, PoolConfig, TlsVerifierError},
};

pub(super) const KIND: TransportKind = TransportKind {
    name: "http",
    build: |setup| Ok(Arc::new(Http::build(setup)?)),
};

const JSON: &str = "application/json";
const JSON_TYPE: HeaderValue = HeaderValue::from_static(JSON);

/// How long an unused connection is kept. Common servers close theirs after
/// five seconds, and a call must not meet that moment.
const IDLE: Duration = Duration::from_secs(4);

/// How long a connection may take. A hook's own time is shorter, as a rule.
const CONNECT: Duration = Duration::from_mins(1);

/// How many connections are kept for each server that no call needs.
const SPARE: usize = 256;

/// A pool of connections for all hooks.
pub(super) fn client() -> Result<HttpClient, TlsVerifierError> {
    HttpClient::new(PoolConfig {
        connect: CONNECT,
        spare: SPARE,
        spare_for: IDLE,
    })
}

#[derive(Debug)]
struct Http {
    settings: Settings,
    client: HttpClient,
    output_limit: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(deserialize_with = "uri")]
    url: Uri,
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
        let mut request = Request::new(Body::from(call.document.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.settings.url.clone();
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, JSON_TYPE);
        headers.insert(header::ACCEPT, JSON_TYPE);
        if let Some(authorization) = &self.settings.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        let response = self.client.send(request).await?;
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

/// A URL as it is asked for.
fn uri<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Uri, D::Error> {
    let url = Url::deserialize(input)?;
    Uri::try_from(url.as_str()).map_err(|_| D::Error::custom("`url` cannot be asked for"))
}

fn bearer<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<HeaderValue>, D::Error> {
    let token = String::deserialize(input)?;
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    // The token is not shown, whatever is wrong with it.
    let mut value = value.map_err(|_| D::Error::custom("`bearer` cannot stand in a header"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn is_json(response: &Response<Incoming>) -> bool {
    let value = response.headers().get(header::CONTENT_TYPE);
    let text = value.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let media_type = text.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case(JSON)
}

async fn read(response: Response<Incoming>, limit: usize) -> Result<Vec<u8>, TransportError> {
    let mut frames = response.into_body();
    let mut body = Vec::new();
    while let Some(frame) = frames.frame().await {
        let frame = frame.map_err(HttpClientError::from)?;
        let piece = frame.data_ref().map(AsRef::as_ref).unwrap_or_default();
        if body.len() + piece.len() > limit {
            return Err(TransportError::TooMuchOutput);
        }
        body.extend_from_slice(piece);
    }
    Ok(body)
}
