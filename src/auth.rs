//! Who calls: from what a request shows to an identity, or a refusal.
//!
//! A caller shows a key, a token or a certificate; what it shows is taken out of
//! the request, so that it goes nowhere from here. This room also counts what
//! each caller uses. It knows nothing of events and models: what a caller may
//! ask for, policies say. To add a way to be known, add it to `config::Auth` and
//! to [`Callers::identify`].

mod api_keys;
mod credential;
mod jwk;
mod jwks;
mod jwt;
mod login_throttle;
mod mtls;
mod quota;
mod token_usage;

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use data_encoding::HEXLOWER;
use http::HeaderMap;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use sha2::{Digest, Sha256};
use thiserror::Error;

use self::{
    api_keys::KeyRing,
    credential::{Credential, Found},
    jwks::Issuer,
    quota::Meter,
};
pub use self::{
    api_keys::{digest, new_key},
    credential::KEY_HEADER,
    jwk::JwksError,
    mtls::Certificate,
    quota::{Meters, QuotaExceeded, Stay},
    token_usage::UsageReader,
};
use crate::{
    config::{
        Auth, CERTIFICATE_PREFIX, Credential as UpstreamCredential, Grant, MtlsSpec, TOKEN_PREFIX,
    },
    event::{Caller, SessionScope},
    observe::Metrics,
};

/// The name in metrics of callers that the config does not name.
const OTHER: &str = "other";

/// Everybody who may call, by one config.
#[derive(Debug)]
pub struct Callers {
    keys: KeyRing,
    issuer: Option<Arc<Issuer>>,
    mtls: Option<(MtlsSpec, Arc<Grant>)>,
    asks: bool,
    anonymous: bool,
}

/// What a request shows of its caller. What is used up is taken out.
#[derive(Debug)]
pub struct Shown<'a> {
    /// The head's headers.
    pub headers: &'a mut HeaderMap,
    /// The query as sent; empty if there is none.
    pub query: &'a str,
    /// Where it comes from, if that is known.
    pub address: Option<IpAddr>,
    /// The certificate of the connection, if one was shown and found good.
    pub certificate: Option<Certificate<'a>>,
}

/// Who calls, and what it may use.
#[derive(Debug)]
pub struct Identity {
    /// Who it is by the config; empty if nobody is asked.
    pub name: String,
    /// The `User-Agent`; empty without one.
    agent: String,
    key: Key,
    /// Its own credential for the model API, if it came in the query.
    pub query_key: Option<SecretString>,
    /// What a model API that takes keys is shown instead of all other credentials.
    pub upstream: Option<UpstreamCredential>,
    /// What it is counted by; nothing, if nobody is asked.
    allowance: Option<Allowance>,
    session_scope: SessionScope,
}

/// What a caller's sessions and counts are kept apart by.
#[derive(Debug)]
enum Key {
    /// That of a caller that the config names.
    Known(String),
    /// The print of what it shows to the model API. It is made for those who ask:
    /// most calls need none.
    Shown(SecretSlice<u8>),
}

/// What a known caller is counted by.
#[derive(Debug, Clone)]
struct Allowance {
    grant: Arc<Grant>,
    /// Its name in metrics.
    label: Arc<str>,
    meter: Arc<Meter>,
    metrics: Arc<Metrics>,
}

/// A caller that was found.
#[derive(Debug, Clone)]
struct Member {
    name: Arc<str>,
    label: Arc<str>,
    grant: Arc<Grant>,
}

/// Why a request has no caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AuthError {
    /// It shows nothing.
    #[error(
        "a key is missing: send it as `x-hookgate-key`, `x-goog-api-key` or `Authorization: Bearer`"
    )]
    Silent,
    /// Nobody knows what it shows.
    #[error("the key or token is not known here")]
    Unknown,
    /// It shows a token of the issuer that is not good, or not any more.
    #[error("the token is not good here")]
    BadToken,
    /// It shows two things, and either could count.
    #[error("two different keys are given")]
    Ambiguous,
    /// Too many strangers came from there.
    #[error("too many wrong keys came from this address")]
    TooMany {
        /// When to come back.
        wait: Duration,
    },
}

/// What outlives every config: what callers have used, and who has tried.
#[derive(Debug, Default)]
pub struct AuthState {
    /// What each caller has used.
    pub meters: Meters,
    attempts: login_throttle::Attempts,
}

impl Callers {
    /// Those whom `auth` lets in. The keys of an issuer that is the same as before
    /// are kept. Fetches nothing.
    pub fn build(auth: &Auth, old: Option<&Self>) -> Result<Self, JwksError> {
        let issuer = match &auth.jwt {
            None => None,
            Some(spec) => {
                let kept = old.and_then(|it| it.issuer.as_ref());
                let kept = kept.filter(|it| it.spec == *spec).map(Arc::clone);
                Some(match kept {
                    Some(issuer) => issuer,
                    None => Arc::new(Issuer::new(spec.clone())?),
                })
            }
        };
        let mtls = auth.mtls.clone();
        Ok(Self {
            keys: KeyRing::new(&auth.keys),
            issuer,
            mtls: mtls.map(|it| (it.clone(), Arc::new(it.grant))),
            asks: auth.is_required(),
            anonymous: auth.anonymous,
        })
    }

    /// Keeps the keys of the issuer fresh, as long as these callers count. Needs a
    /// runtime; `spawn` starts a task.
    pub fn begin(&self, spawn: impl FnOnce(futures_util::future::BoxFuture<'static, ()>)) {
        if let Some(issuer) = &self.issuer
            && issuer.begins()
        {
            spawn(Box::pin(jwks::tend(Arc::downgrade(issuer))));
        }
    }

    /// Scope of the session ids that hooks see.
    pub const fn session_scope(&self) -> SessionScope {
        if self.asks {
            SessionScope::PerCaller
        } else {
            SessionScope::Shared
        }
    }

    /// The name of the caller with this key of `event::Caller`, if the config
    /// names it.
    pub fn name_of(&self, key: &str) -> Option<&str> {
        self.keys.names().find(|it| caller_key(it) == key)
    }

    /// Who calls. What it shows for that is taken out of the headers.
    pub async fn identify(
        &self,
        mut shown: Shown<'_>,
        counts: &AuthState,
        metrics: &Arc<Metrics>,
    ) -> Result<Identity, AuthError> {
        let found = Found::read(shown.headers, shown.query);
        let agent = credential::agent(shown.headers);
        if !self.asks {
            return Ok(open(&found, agent, SessionScope::Shared));
        }
        shown.headers.remove(KEY_HEADER);
        // Boxed: it may have to ask for the keys of an issuer.
        let known = Box::pin(self.know(&found, &mut shown)).await;
        let known = match (known, shown.address) {
            (Ok(Some(member)), Some(address)) => {
                let admitted = counts.attempts.succeeded(address, &member.name);
                admitted.map(|()| Some(member))
            }
            (Err(stranger), Some(address)) => Err(counts.attempts.failed(address, stranger)),
            (known, _) => known,
        };
        let member =
            known.inspect_err(|stranger| metrics.record_auth_failure(stranger.as_str()))?;
        let Some(member) = member else {
            return Ok(open(&found, agent, SessionScope::PerCaller));
        };
        let key = caller_key(&member.name);
        Ok(Identity {
            query_key: self.keeps_query_key(&found),
            upstream: (member.grant.upstream_key.clone()).map(UpstreamCredential::ApiKey),
            allowance: Some(Allowance {
                meter: counts.meters.of(&key),
                grant: member.grant,
                label: member.label,
                metrics: Arc::clone(metrics),
            }),
            key: Key::Known(key),
            session_scope: SessionScope::PerCaller,
            name: member.name.to_string(),
            agent,
        })
    }

    /// Who calls, if anybody knows it; nobody, if that is let in, too.
    ///
    /// `x-hookgate-key` outranks a certificate, and that outranks what may as well
    /// be meant for the model API.
    async fn know(
        &self,
        found: &Found,
        shown: &mut Shown<'_>,
    ) -> Result<Option<Member>, AuthError> {
        let own = found.own()?;
        if let Some(own) = own {
            let member = self.member(&own).await?;
            self.strip_known(found, shown.headers);
            return Ok(Some(member));
        }
        let certified = shown.certificate.and_then(|it| self.certified(it));
        if let Some(member) = certified {
            self.strip_known(found, shown.headers);
            return Ok(Some(member));
        }
        match found.only()? {
            None if self.anonymous => Ok(None),
            None => Err(AuthError::Silent),
            Some(credential) => match self.member(&credential).await {
                Ok(member) => {
                    credential::strip(shown.headers, |_| true);
                    Ok(Some(member))
                }
                Err(_) if self.anonymous => Ok(None),
                Err(stranger) => Err(stranger),
            },
        }
    }

    async fn member(&self, credential: &Credential) -> Result<Member, AuthError> {
        if let Some(member) = self.keys.find(credential) {
            return Ok(member.clone());
        }
        let issuer = self.issuer.as_ref().filter(|it| it.has_issued(credential));
        let issuer = issuer.ok_or(AuthError::Unknown)?;
        let subject = issuer
            .subject(credential)
            .await
            .ok_or(AuthError::BadToken)?;
        Ok(Member {
            name: format!("{TOKEN_PREFIX}{subject}").into(),
            label: OTHER.into(),
            grant: Arc::clone(&issuer.grant),
        })
    }

    fn certified(&self, certificate: Certificate<'_>) -> Option<Member> {
        let (spec, grant) = self.mtls.as_ref()?;
        let name = certificate.name(spec.name, spec.allow.as_deref())?;
        Some(Member {
            name: format!("{CERTIFICATE_PREFIX}{name}").into(),
            label: OTHER.into(),
            grant: Arc::clone(grant),
        })
    }

    /// INVARIANT: what is for hookgate goes nowhere else, also where it was not
    /// needed to know the caller.
    fn is_ours(&self, credential: &Credential) -> bool {
        let issued = self.issuer.as_ref();
        self.keys.find(credential).is_some() || issued.is_some_and(|it| it.has_issued(credential))
    }

    fn strip_known(&self, found: &Found, headers: &mut HeaderMap) {
        if found.iter().any(|it| self.is_ours(it)) {
            credential::strip(headers, |it| self.is_ours(it));
        }
    }

    /// The caller's own credential of the query: what was shown for hookgate has
    /// been stripped from the headers, and is not taken from there either.
    fn keeps_query_key(&self, found: &Found) -> Option<SecretString> {
        let key = found.query()?;
        (!self.is_ours(&key)).then(|| key.to_secret())?
    }
}

impl Identity {
    /// Who it is, for those who tell it on.
    pub fn caller(&self) -> Caller {
        Caller {
            key: match &self.key {
                Key::Known(key) => key.clone(),
                Key::Shown(shown) => credential::print(shown.expose_secret()),
            },
            name: self.name.clone(),
            agent: self.agent.clone(),
            session_scope: self.session_scope,
        }
    }

    /// Counts a request as under way, unless its caller has used up what it may.
    /// `now` is what the clock says.
    pub fn enter(&self, now: SystemTime) -> Result<Option<Stay>, QuotaExceeded> {
        let Some(allowance) = &self.allowance else {
            return Ok(None);
        };
        let stay = allowance.meter.enter(&allowance.grant, now);
        let outcome = stay
            .as_ref()
            .map_or_else(QuotaExceeded::as_str, |_| "accepted");
        let metrics = &allowance.metrics;
        metrics.record_caller_request(&allowance.label, outcome);
        stay.map(Some)
    }

    /// Whether it may use only what hookgate sees: elsewhere, nobody can tell which
    /// models and tools it uses, nor how many tokens.
    pub fn is_held_to_what_is_seen(&self) -> bool {
        let grant = self.allowance.as_ref().map(|it| &it.grant);
        grant.is_some_and(|it| it.has_lists() || it.tokens_per_day.is_some())
    }

    /// Who counts the tokens of an answer, if they must be counted.
    pub fn usage(&self) -> Option<UsageReader> {
        let allowance = self.allowance.as_ref()?;
        allowance.grant.tokens_per_day?;
        let (meter, metrics) = (Arc::clone(&allowance.meter), Arc::clone(&allowance.metrics));
        let label = Arc::clone(&allowance.label);
        Some(UsageReader::new(move |tokens| {
            meter.spend(tokens, SystemTime::now());
            metrics.record_caller_tokens(&label, tokens);
        }))
    }
}

impl AuthError {
    /// In one word, for metrics.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Silent => "missing",
            Self::Unknown => "unknown",
            Self::BadToken => "invalid_token",
            Self::Ambiguous => "ambiguous",
            Self::TooMany { .. } => "throttled",
        }
    }
}

/// A caller where nobody is asked: conversations are kept apart by what it shows
/// to the model API.
fn open(found: &Found, agent: String, session_scope: SessionScope) -> Identity {
    Identity {
        key: Key::Shown(found.shown()),
        name: String::new(),
        agent,
        query_key: found.query().and_then(|it| it.to_secret()),
        upstream: None,
        allowance: None,
        session_scope,
    }
}

/// What a known caller's sessions and counts are kept apart by. It stays when its
/// key changes, and no credential has it.
fn caller_key(name: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(format!("hookgate caller\0{name}")))
}

#[cfg(test)]
mod tests;
