//! Token issuer: its public keys, fetched and cached.

use std::{
    sync::{Arc, Once, PoisonError, RwLock, Weak},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use url::Url;

use super::{
    credentials::PresentedKey,
    error::AuthError,
    jwt::{JwksError, TokenProblem, VerificationKeys, claims_issuer},
};
use crate::{
    config::{Grant, JwksOrigin, JwtSpec},
    service_client::{client_builder, read_body, root_cause},
};

const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

const REFRESH_INTERVAL: Duration = Duration::from_mins(5);

/// Shortest time between two fetches, whatever key ids tokens name.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(10);

/// Lifetime of keys that cannot be refreshed, so that a revoked key expires in the end.
const MAX_KEY_AGE: Duration = Duration::from_hours(24);

const MAX_JWKS_BYTES: usize = 256 * 1024;

/// An issuer of tokens, and what its tokens permit.
#[derive(Debug)]
pub(super) struct TokenIssuer {
    spec: JwtSpec,
    pub(super) grant: Arc<Grant>,
    pub(super) keys: Arc<IssuerKeys>,
}

/// Public keys of an issuer. They survive a reload that does not change their origin.
#[derive(Debug)]
pub(super) struct IssuerKeys {
    origin: JwksOrigin,
    cached: RwLock<Option<Arc<CachedKeys>>>,
    last_fetch: watch::Sender<LastFetch>,
    /// Notified when a token is signed by a key that is missing.
    wanted: Arc<Notify>,
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
struct LastFetch {
    begun_at: Option<Instant>,
    is_running: bool,
    has_failed: bool,
}

impl TokenIssuer {
    /// Creates an issuer, with the keys of `previous` if they have the same origin.
    pub(super) fn new(spec: JwtSpec, previous: Option<&Self>) -> Result<Self, JwksError> {
        let kept = previous.filter(|previous| previous.keys.origin == spec.jwks);
        let keys = match kept {
            Some(previous) => Arc::clone(&previous.keys),
            None => Arc::new(IssuerKeys::new(spec.jwks.clone())?),
        };
        Ok(Self {
            grant: Arc::new(spec.grant.clone()),
            spec,
            keys,
        })
    }

    /// Returns the caller's name in a valid token of this issuer.
    ///
    /// # Errors
    ///
    /// [`AuthError::InvalidToken`], or [`AuthError::IssuerUnavailable`] if the keys that would show
    /// it cannot be fetched.
    pub(super) async fn verify(&self, token: &PresentedKey) -> Result<String, AuthError> {
        let token = token.as_bytes();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_err(|_| AuthError::InvalidToken)?.as_secs_f64();
        let verify = |cached: Arc<CachedKeys>| cached.keys.verify(token, &self.spec, now);
        let verified = match self.keys.fresh().map(verify) {
            Some(verified) if verified != Err(TokenProblem::OtherKey) => verified,
            // The issuer may also have replaced the key under its id.
            _ => verify(self.keys.renewed(token).await?),
        };
        verified.map_err(|_| AuthError::InvalidToken)
    }

    /// Returns whether a key claims to be a token of this issuer.
    pub(super) fn has_issued(&self, key: &PresentedKey) -> bool {
        claims_issuer(key.as_bytes(), &self.spec.issuer)
    }
}

impl IssuerKeys {
    fn new(origin: JwksOrigin) -> Result<Self, JwksError> {
        let (remote, cached) = match &origin {
            JwksOrigin::Url(url) => (Some((http_client()?, url.clone())), None),
            JwksOrigin::File { content } => (None, Some(Arc::new(CachedKeys::parse(content)?))),
        };
        Ok(Self {
            origin,
            cached: RwLock::new(cached),
            last_fetch: watch::Sender::default(),
            wanted: Arc::default(),
            refresh_started: Once::new(),
            remote,
        })
    }

    fn fresh(&self) -> Option<Arc<CachedKeys>> {
        let cached = self.cached.read();
        let cached = cached.unwrap_or_else(PoisonError::into_inner).clone()?;
        let is_fresh = self.remote.is_none() || cached.fetched_at.elapsed() < MAX_KEY_AGE;
        is_fresh.then_some(cached)
    }

    /// Returns the keys after a fetch for a token that none of the cached ones has signed.
    async fn renewed(&self, token: &[u8]) -> Result<Arc<CachedKeys>, AuthError> {
        let unavailable = AuthError::IssuerUnavailable {
            retry_after: MIN_FETCH_INTERVAL,
        };
        let is_renewed = timeout(FETCH_TIMEOUT, self.wait_for_fetch()).await.is_ok();
        let cached = self.fresh().filter(|_| is_renewed).ok_or(unavailable)?;
        let has_failed = self.last_fetch.borrow().has_failed;
        if has_failed && cached.keys.find(token).is_none() {
            return Err(unavailable);
        }
        Ok(cached)
    }

    /// Waits until [`refresh`] has fetched the keys, unless it has within
    /// [`MIN_FETCH_INTERVAL`]. Dropping the future does not end the fetch.
    async fn wait_for_fetch(&self) {
        if self.remote.is_none() {
            return;
        }
        let mut last_fetch = self.last_fetch.subscribe();
        if !last_fetch.borrow().is_recent() {
            self.wanted.notify_one();
        }
        // The sender is dropped with `self`.
        let _never_closed = last_fetch.wait_for(LastFetch::is_recent).await;
    }

    /// Fetches the keys, unless that was done within [`MIN_FETCH_INTERVAL`]. Logs when
    /// fetches begin and cease to fail.
    async fn fetch(&self) {
        let Some((client, url)) = &self.remote else {
            return;
        };
        if self.last_fetch.borrow().is_recent() {
            return;
        }
        self.last_fetch.send_modify(|last| {
            last.begun_at = Some(Instant::now());
            last.is_running = true;
        });
        let fetched = timeout(FETCH_TIMEOUT, fetch(client, url)).await;
        let timed_out = |_| Err(JwksError::Unreachable("timed out".to_owned()));
        let failed_before = self.last_fetch.borrow().has_failed;
        let has_failed = match fetched.unwrap_or_else(timed_out) {
            Ok(cached) => {
                let current = self.cached.write();
                *current.unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(cached));
                if failed_before {
                    tracing::info!("JWKS fetch recovered");
                }
                false
            }
            Err(error) => {
                if !failed_before {
                    tracing::warn!(%error, "JWKS fetch failed");
                }
                true
            }
        };
        self.last_fetch.send_modify(|last| {
            last.is_running = false;
            last.has_failed = has_failed;
        });
    }
}

impl LastFetch {
    /// Returns whether the fetch has ended and began within [`MIN_FETCH_INTERVAL`].
    fn is_recent(&self) -> bool {
        let begun = self.begun_at.filter(|_| !self.is_running);
        begun.is_some_and(|begun| begun.elapsed() < MIN_FETCH_INTERVAL)
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

/// Refreshes the keys until they are dropped: when a token is signed by one that is missing, from
/// time to time, and more often while there are none.
pub(super) async fn refresh(keys: Weak<IssuerKeys>) {
    while let Some(current) = keys.upgrade() {
        current.fetch().await;
        let wait = match current.fresh() {
            Some(_) => REFRESH_INTERVAL,
            None => MIN_FETCH_INTERVAL,
        };
        let wanted = Arc::clone(&current.wanted);
        drop(current);
        // Either outcome leads to the next fetch.
        timeout(wait, wanted.notified()).await.ok();
    }
}

fn http_client() -> Result<reqwest::Client, JwksError> {
    client_builder().build().map_err(unreachable)
}

async fn fetch(client: &reqwest::Client, url: &Url) -> Result<CachedKeys, JwksError> {
    let response = client.get(url.clone()).send().await.map_err(unreachable)?;
    if !response.status().is_success() {
        let status = response.status().as_u16();
        return Err(JwksError::Unreachable(format!("status {status}")));
    }
    let body = read_body(response, MAX_JWKS_BYTES).await;
    let body = body.map_err(unreachable)?.ok_or(JwksError::Malformed)?;
    CachedKeys::parse(std::str::from_utf8(&body).map_err(|_| JwksError::Malformed)?)
}

fn unreachable(error: reqwest::Error) -> JwksError {
    JwksError::Unreachable(root_cause(error))
}
