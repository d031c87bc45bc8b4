//! An identity provider: its tokens, and its keys, which are fetched and kept.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use arc_swap::ArcSwapOption;
use tokio::{sync::Mutex, time::timeout};
use url::Url;

use super::{
    credential::Credential,
    jwk::{JwksError, KeySet, PublicKey},
    jwt::Token,
};
use crate::config::{Grant, JwksOrigin, JwtSpec};

/// How long a fetch may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often keys are fetched anew.
const OFTEN: Duration = Duration::from_mins(5);

/// How often at most, however many tokens name keys that nobody knows.
const AT_MOST: Duration = Duration::from_secs(10);

/// How long keys count that could not be fetched anew: one that was taken back
/// must not count for ever.
const LONGEST: Duration = Duration::from_hours(24);

/// The largest set of keys, in bytes.
const LARGEST: usize = 256 * 1024;

/// An identity provider.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) spec: JwtSpec,
    pub(super) grant: Arc<Grant>,
    keys: ArcSwapOption<Fetched>,
    /// Whoever holds it fetches.
    fetching: Mutex<Fetching>,
    begun: AtomicBool,
    client: Option<(reqwest::Client, Url)>,
}

#[derive(Debug)]
struct Fetched {
    keys: KeySet,
    at: Instant,
}

#[derive(Debug, Default)]
struct Fetching {
    last: Option<Instant>,
    away: bool,
}

impl Issuer {
    pub(super) fn new(spec: JwtSpec) -> Result<Self, JwksError> {
        let (client, keys) = match &spec.jwks {
            JwksOrigin::Url(url) => (Some((client()?, url.clone())), None),
            JwksOrigin::File { content } => {
                let (keys, at) = (KeySet::parse(content)?, Instant::now());
                (None, Some(Arc::new(Fetched { keys, at })))
            }
        };
        Ok(Self {
            grant: Arc::new(spec.grant.clone()),
            spec,
            keys: ArcSwapOption::new(keys),
            fetching: Mutex::default(),
            begun: AtomicBool::new(false),
            client,
        })
    }

    /// Whether somebody must fetch its keys who did not so far.
    pub(super) fn begins(&self) -> bool {
        self.client.is_some() && !self.begun.swap(true, Ordering::Relaxed)
    }

    /// The name in a token that claims to be of this issuer, if it is good.
    pub(super) async fn subject(&self, credential: &Credential) -> Option<String> {
        let token = Token::read(credential.as_bytes())?;
        let keys = match self.known() {
            Some(keys) if key_of(&keys, &token).is_some() => keys,
            _ => {
                // Nobody waits longer for keys that may not come.
                timeout(PATIENCE, self.fetch(AT_MOST)).await.ok()?;
                self.known()?
            }
        };
        let claims = token.verified_by(key_of(&keys, &token)?)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        claims
            .subject(&self.spec, now.as_secs_f64())
            .map(str::to_owned)
    }

    /// Whether something claims to be a token of this issuer for us.
    pub(super) fn has_issued(&self, credential: &Credential) -> bool {
        let claims = Token::read(credential.as_bytes()).and_then(|it| it.unverified());
        claims.is_some_and(|it| it.is_from(&self.spec.issuer))
    }

    /// The keys, if they are fresh enough.
    fn known(&self) -> Option<Arc<Fetched>> {
        let keys = self.keys.load_full();
        keys.filter(|it| self.client.is_none() || it.at.elapsed() < LONGEST)
    }

    /// Fetches the keys, unless that was tried a moment ago. One at a time; the
    /// others wait for it.
    async fn fetch(&self, at_most: Duration) {
        let Some((client, url)) = &self.client else {
            return;
        };
        let mut fetching = self.fetching.lock().await;
        if fetching.last.is_some_and(|it| it.elapsed() < at_most) {
            return;
        }
        fetching.last = Some(Instant::now());
        let fetched = timeout(PATIENCE, fetch(client, url)).await;
        let silent = || JwksError::Unreachable("no answer in time".to_owned());
        match fetched.unwrap_or_else(|_elapsed| Err(silent())) {
            Ok(keys) => {
                let at = Instant::now();
                self.keys.store(Some(Arc::new(Fetched { keys, at })));
                if std::mem::take(&mut fetching.away) {
                    tracing::info!("JWKS fetch recovered");
                }
            }
            Err(error) if !fetching.away => {
                fetching.away = true;
                tracing::warn!(%error, "JWKS fetch failed");
            }
            Err(_) => (),
        }
    }
}

/// Fetches keys as long as anybody needs them; sooner, as long as there are none.
pub(super) async fn tend(issuer: Weak<Issuer>) {
    while let Some(issuer) = issuer.upgrade() {
        issuer.fetch(AT_MOST).await;
        let wait = match issuer.known() {
            Some(_) => OFTEN,
            None => AT_MOST,
        };
        drop(issuer);
        tokio::time::sleep(wait).await;
    }
}

fn key_of<'a>(keys: &'a Fetched, token: &Token<'_>) -> Option<&'a PublicKey> {
    let header = &token.header;
    keys.keys.find(header.kid.as_deref(), header.alg)
}

/// Neither redirects nor proxies: both would let others choose the keys.
fn client() -> Result<reqwest::Client, JwksError> {
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(PATIENCE)
        .build();
    client.map_err(unreachable)
}

async fn fetch(client: &reqwest::Client, url: &Url) -> Result<KeySet, JwksError> {
    let mut response = client.get(url.clone()).send().await.map_err(unreachable)?;
    if !response.status().is_success() {
        let status = response.status().as_u16();
        return Err(JwksError::Unreachable(format!("status {status}")));
    }
    let mut whole = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(unreachable)? {
        whole.extend_from_slice(&piece);
        if whole.len() > LARGEST {
            return Err(JwksError::Unreadable);
        }
    }
    KeySet::parse(std::str::from_utf8(&whole).map_err(|_| JwksError::Unreadable)?)
}

/// An URL may hold what is nobody's business.
fn unreachable(error: reqwest::Error) -> JwksError {
    JwksError::Unreachable(error.without_url().to_string())
}
