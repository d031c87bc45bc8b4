//! Token issuer: its public keys, fetched and cached.

use std::{
    sync::{Arc, Once, PoisonError, RwLock, Weak},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::Mutex, time::timeout};
use url::Url;

use super::{
    credentials::PresentedKey,
    jwt::{JwksError, VerificationKeys, claims_issuer},
};
use crate::{
    config::{Grant, JwksOrigin, JwtSpec},
    service_client::client_builder,
};

const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

const REFRESH_INTERVAL: Duration = Duration::from_mins(5);

/// Shortest time between two fetches, whatever key ids tokens name.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(10);

/// Lifetime of keys that cannot be refreshed, so that a revoked key expires in the end.
const MAX_KEY_AGE: Duration = Duration::from_hours(24);

const MAX_JWKS_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct TokenIssuer {
    pub(super) spec: JwtSpec,
    pub(super) grant: Arc<Grant>,
    cached: RwLock<Option<Arc<CachedKeys>>>,
    /// Locked during a fetch, so that there is one at a time.
    fetch_state: Mutex<FetchState>,
    /// Completed once [`refresh`] was started.
    pub(super) refresh_started: Once,
    /// Client and address of the keys; `None` if they are in a file.
    pub(super) remote: Option<(reqwest::Client, Url)>,
}

#[derive(Debug)]
struct CachedKeys {
    keys: VerificationKeys,
    fetched_at: Instant,
}

#[derive(Debug, Default)]
struct FetchState {
    last_attempt: Option<Instant>,
    is_failing: bool,
}

impl TokenIssuer {
    pub(super) fn new(spec: JwtSpec) -> Result<Self, JwksError> {
        let (remote, cached) = match &spec.jwks {
            JwksOrigin::Url(url) => (Some((http_client()?, url.clone())), None),
            JwksOrigin::File { content } => (None, Some(Arc::new(CachedKeys::parse(content)?))),
        };
        Ok(Self {
            grant: Arc::new(spec.grant.clone()),
            spec,
            cached: RwLock::new(cached),
            fetch_state: Mutex::default(),
            refresh_started: Once::new(),
            remote,
        })
    }

    /// Returns the caller's name in a valid token of this issuer.
    pub(super) async fn verify(&self, token: &PresentedKey) -> Option<String> {
        let token = token.as_bytes();
        let cached = match self.fresh_keys() {
            Some(cached) if cached.keys.find(token).is_some() => cached,
            _ => {
                timeout(FETCH_TIMEOUT, self.fetch()).await.ok()?;
                self.fresh_keys()?
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        cached.keys.verify(token, &self.spec, now.as_secs_f64())
    }

    /// Returns whether a key claims to be a token of this issuer.
    pub(super) fn has_issued(&self, key: &PresentedKey) -> bool {
        claims_issuer(key.as_bytes(), &self.spec.issuer)
    }

    fn fresh_keys(&self) -> Option<Arc<CachedKeys>> {
        let cached = self.cached.read();
        let cached = cached.unwrap_or_else(PoisonError::into_inner).clone()?;
        let is_fresh = self.remote.is_none() || cached.fetched_at.elapsed() < MAX_KEY_AGE;
        is_fresh.then_some(cached)
    }

    /// Fetches the keys, unless that was tried within [`MIN_FETCH_INTERVAL`]. Logs when
    /// fetches begin and cease to fail.
    async fn fetch(&self) {
        let Some((client, url)) = &self.remote else {
            return;
        };
        let mut state = self.fetch_state.lock().await;
        let last = state.last_attempt;
        if last.is_some_and(|last| last.elapsed() < MIN_FETCH_INTERVAL) {
            return;
        }
        state.last_attempt = Some(Instant::now());
        let fetched = timeout(FETCH_TIMEOUT, fetch(client, url)).await;
        let timed_out = |_| Err(JwksError::Unreachable("timed out".to_owned()));
        match fetched.unwrap_or_else(timed_out) {
            Ok(cached) => {
                let current = self.cached.write();
                *current.unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(cached));
                if std::mem::take(&mut state.is_failing) {
                    tracing::info!("JWKS fetch recovered");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut state.is_failing, true) {
                    tracing::warn!(%error, "JWKS fetch failed");
                }
            }
        }
    }
}

impl CachedKeys {
    fn parse(text: &str) -> Result<Self, JwksError> {
        Ok(Self {
            keys: VerificationKeys::parse(text)?,
            fetched_at: Instant::now(),
        })
    }
}

/// Refreshes the keys until the issuer is dropped; more often while there are none.
pub(super) async fn refresh(issuer: Weak<TokenIssuer>) {
    while let Some(issuer) = issuer.upgrade() {
        issuer.fetch().await;
        let wait = match issuer.fresh_keys() {
            Some(_) => REFRESH_INTERVAL,
            None => MIN_FETCH_INTERVAL,
        };
        drop(issuer);
        tokio::time::sleep(wait).await;
    }
}

fn http_client() -> Result<reqwest::Client, JwksError> {
    let client = client_builder().connect_timeout(FETCH_TIMEOUT);
    client.build().map_err(unreachable)
}

async fn fetch(client: &reqwest::Client, url: &Url) -> Result<CachedKeys, JwksError> {
    let mut response = client.get(url.clone()).send().await.map_err(unreachable)?;
    if !response.status().is_success() {
        let status = response.status().as_u16();
        return Err(JwksError::Unreachable(format!("status {status}")));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_JWKS_BYTES {
            return Err(JwksError::Malformed);
        }
    }
    CachedKeys::parse(std::str::from_utf8(&body).map_err(|_| JwksError::Malformed)?)
}

/// Converts an error without its URL, which may contain credentials.
fn unreachable(error: reqwest::Error) -> JwksError {
    JwksError::Unreachable(error.without_url().to_string())
}
