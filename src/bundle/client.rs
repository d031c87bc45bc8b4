//! HTTP client of the servers of bundles: conditional requests that the server may hold.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use policy_bundle::MAX_ARCHIVE_BYTES;
use secrecy::ExposeSecret;
use thiserror::Error;

use crate::{
    config::BundleOrigin,
    service_client::{client_builder, read_body, root_cause},
};

/// Time for a request beside that for which the server may hold it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of an entity tag. A longer one is not sent back.
const MAX_ETAG_BYTES: usize = 1024;

/// Client of the servers of bundles.
#[derive(Debug)]
pub(super) struct BundleClient {
    client: reqwest::Client,
    wait: Duration,
}

/// Response to a request for a bundle.
#[derive(Debug)]
pub(super) struct BundleResponse {
    /// The archive; `None` if it is that of the entity tag in the request.
    pub(super) archive: Option<Vec<u8>>,
    pub(super) etag: Option<String>,
    /// True if the server holds requests until there is another bundle.
    pub(super) is_held: bool,
}

/// Reason why there is no response, without the URL.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the server responded with {0}")]
    Status(StatusCode),
    #[error("the server redirects, which is not followed")]
    Redirect,
    #[error("the bundle is larger than {MAX_ARCHIVE_BYTES} bytes")]
    TooLarge,
}

impl BundleClient {
    /// Builds a client whose requests the server may hold for a time.
    pub(super) fn new(wait: Duration) -> Result<Self, FetchError> {
        let client = client_builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(wait + REQUEST_TIMEOUT)
            .build()
            .map_err(unreachable)?;
        Ok(Self { client, wait })
    }

    /// Fetches a bundle, unless it is that of `etag`. Then the server is asked to hold the
    /// request until there is another one (RFC 7240, section 4.3).
    pub(super) async fn fetch(
        &self,
        origin: &BundleOrigin,
        etag: Option<&str>,
    ) -> Result<BundleResponse, FetchError> {
        let mut request = self.client.get(origin.url.clone());
        if let Some(etag) = etag {
            request = request
                .header(header::IF_NONE_MATCH, etag)
                .header("prefer", format!("wait={}", self.wait.as_secs()));
        }
        if let Some(token) = &origin.token {
            request = request.bearer_auth(token.expose_secret());
        }
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let is_held = holds_requests(response.headers());
        let header = response.headers().get(header::ETAG);
        let found = header.and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let found = found.filter(|tag| tag.len() <= MAX_ETAG_BYTES);
        let archive = match status {
            StatusCode::OK => {
                let body = read_body(response, MAX_ARCHIVE_BYTES).await;
                Some(body.map_err(unreachable)?.ok_or(FetchError::TooLarge)?)
            }
            StatusCode::NOT_MODIFIED if etag.is_some() => None,
            status if status.is_redirection() => return Err(FetchError::Redirect),
            status => return Err(FetchError::Status(status)),
        };
        Ok(BundleResponse {
            archive,
            etag: found.or_else(|| etag.map(str::to_owned).filter(|_| status != StatusCode::OK)),
            is_held,
        })
    }
}

/// Returns whether a server applies the preference `wait`, or is a bundle server of OPA.
fn holds_requests(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let preference = text("preference-applied").unwrap_or_default();
    let mut preferences = preference.split([',', ';']).map(str::trim);
    preferences.any(|applied| applied.split('=').next() == Some("wait"))
        || text("content-type") == Some("application/vnd.openpolicyagent.bundles")
}

fn unreachable(error: reqwest::Error) -> FetchError {
    FetchError::Unreachable(root_cause(error))
}
