//! The `http` transport: the hook is a server; JSON by POST, JSON back with status
//! 200. Some protocols allow text, or no body, with any status of success.
//!
//! Neither redirects nor proxy variables are followed, and no error contains the
//! URL: each could disclose events to another server.

use std::time::Duration;

use axum::body::Body;
use futures_util::future::BoxFuture;
use http::{
    HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{self, TRANSFER_ENCODING},
    uri::Scheme,
};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use serde::{Deserialize, de::Error};
use url::Url;

use super::{
    deps::TransportConfig,
    error::TransportError,
    hook_call::{HookCall, Transport},
};
use crate::{
    event::HookResult,
    http_client::{HttpClient, HttpClientError, HttpVersion, PoolConfig},
    media_type::is_media_type,
};

/// Idle time after which a connection to a hook's server is closed. Common servers
/// close theirs after five seconds, and a call must not race with that.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Timeout of connecting to a hook's server, which the addresses of its name share.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const JSON_TYPE: HeaderValue = HeaderValue::from_static(JSON);

#[derive(Debug)]
pub(super) struct HttpTransport {
    settings: HttpSettings,
    client: HttpClient,
    output_limit: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpSettings {
    #[serde(deserialize_with = "uri")]
    url: Uri,
    /// Complete header value; marked sensitive so that it is never logged.
    #[serde(default, rename = "bearer", deserialize_with = "bearer")]
    authorization: Option<HeaderValue>,
}

impl HttpTransport {
    pub(super) fn new(config: TransportConfig<'_>) -> Result<Self, TransportError> {
        let output_limit = config.deps.output_limit;
        let settings: HttpSettings = config.parse()?;
        let client = HttpClient::new(PoolConfig {
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            version: HttpVersion::Http1,
            https: settings.url.scheme() == Some(&Scheme::HTTPS),
        })?;
        Ok(Self {
            settings,
            client,
            output_limit,
        })
    }

    async fn post(&self, call: &HookCall<'_>) -> Result<Response<Incoming>, TransportError> {
        let mut request = Request::new(Body::from(call.input.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.settings.url.clone();
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, JSON_TYPE);
        headers.insert(header::ACCEPT, JSON_TYPE);
        if let Some(authorization) = &self.settings.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        Ok(self.client.send(request).await?)
    }

    async fn read(
        &self,
        call: &HookCall<'_>,
        response: Response<Incoming>,
    ) -> Result<HookResult, TransportError> {
        let (status, accepts_text) = (response.status(), call.protocol.accepts_text_over_http());
        if status != StatusCode::OK && !(accepts_text && status.is_success()) {
            return Err(TransportError::Status(status.as_u16()));
        }
        let is_json = is_media_type(response.headers(), JSON);
        let is_text = accepts_text && is_media_type(response.headers(), TEXT);
        let has_end =
            response.body().is_end_stream() || response.headers().contains_key(TRANSFER_ENCODING);
        let output = read_body(response, self.output_limit).await?;
        if output.is_empty() && !has_end {
            // The server may have failed after the head.
            return Err(TransportError::MissingBody);
        }
        if is_text || accepts_text && output.is_empty() {
            Ok(call.read_text(output))
        } else if is_json {
            call.read_object(output)
        } else {
            Err(TransportError::ContentType)
        }
    }
}

impl Transport for HttpTransport {
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<HookResult, TransportError>> {
        Box::pin(async move {
            let response = self.post(&call).await?;
            self.read(&call, response).await
        })
    }
}

/// Reads a URL, normalized.
fn uri<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Uri, D::Error> {
    let url = Url::deserialize(input)?;
    Uri::try_from(url.as_str()).map_err(|_| D::Error::custom("`url` is not a valid HTTP URL"))
}

fn bearer<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<HeaderValue>, D::Error> {
    let token = String::deserialize(input)?;
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    // The error must not contain the token.
    let mut value = value.map_err(|_| D::Error::custom("`bearer` is not a valid header value"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

async fn read_body(response: Response<Incoming>, limit: usize) -> Result<Vec<u8>, TransportError> {
    let body = Limited::new(response.into_body(), limit).collect().await;
    let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
        Ok(error) => HttpClientError::from(*error).into(),
        Err(_too_long) => TransportError::OutputLimit,
    })?;
    Ok(body.to_bytes().into())
}
