//! Authentication of requests by the callers of one config.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use secrecy::SecretString;

use super::{
    api_keys::ApiKeys,
    credentials::{self, Credentials, KEY_HEADER, PresentedKey, PresentedKeys},
    error::AuthError,
    identity::{Identity, Principal, caller_key},
    jwks::{self, TokenIssuer},
    jwt::JwksError,
    login_throttle::LoginThrottle,
    mtls::PeerCertificate,
    quota::{Quotas, SharedLimits, SharedQuota, SyncQueue},
};
use crate::{
    config::{Auth, CERTIFICATE_PREFIX, Grant, MtlsSpec, TOKEN_PREFIX},
    event::SessionScope,
    observe::Metrics,
};

/// Callers of one config.
#[derive(Debug)]
pub struct Authenticator {
    keys: ApiKeys,
    issuer: Option<TokenIssuer>,
    mtls: Option<(MtlsSpec, Arc<Grant>)>,
    is_enabled: bool,
    /// True in trials, which also have calls without credentials.
    allows_anonymous: bool,
    /// Limits that several gateways share.
    shared_limits: Option<Arc<SharedLimits>>,
}

/// Authentication state that survives config reloads.
#[derive(Debug, Default)]
pub struct AuthState {
    quotas: Quotas,
    /// Callers whose usage the store of shared limits has to take over.
    pub limit_sync: Arc<SyncQueue>,
    throttle: LoginThrottle,
}

impl AuthState {
    /// Returns the name of the caller with this key of `event::Caller`, if it was authenticated
    /// by this process.
    pub fn name_of(&self, key: &str) -> Option<Arc<str>> {
        self.quotas.name_of(key)
    }
}

impl Authenticator {
    /// Creates an authenticator for the callers in `auth`, without fetching keys. An
    /// issuer whose `jwks` are those of `previous` keeps its keys. Requests also count against
    /// `shared_limits`.
    ///
    /// # Errors
    ///
    /// Returns an error if an issuer's key file is unusable, or there is no HTTP client.
    pub fn new(
        auth: &Auth,
        previous: Option<&Self>,
        shared_limits: Option<Arc<SharedLimits>>,
    ) -> Result<Self, JwksError> {
        let issuer = auth.jwt.as_ref().map(|spec| {
            let previous = previous.and_then(|previous| previous.issuer.as_ref());
            TokenIssuer::new(spec.clone(), previous)
        });
        let mtls = auth.mtls.clone();
        Ok(Self {
            keys: ApiKeys::new(&auth.keys),
            issuer: issuer.transpose()?,
            mtls: mtls.map(|spec| (spec.clone(), Arc::new(spec.grant))),
            is_enabled: auth.is_required(),
            allows_anonymous: auth.anonymous,
            shared_limits,
        })
    }

    /// Starts refreshing the issuer's keys for as long as they are in use. `spawn` starts
    /// a task; it is called at most once per issuer.
    pub fn start(&self, spawn: impl FnOnce(BoxFuture<'static, ()>)) {
        if let Some(TokenIssuer { keys, .. }) = &self.issuer
            && keys.remote.is_some()
        {
            let refresh = || spawn(Box::pin(jwks::refresh(Arc::downgrade(keys))));
            keys.refresh_started.call_once(refresh);
        }
    }

    /// Returns the configured name of the caller with this key of `event::Caller`.
    pub fn name_of(&self, key: &str) -> Option<&str> {
        self.keys.names().find(|name| caller_key(name) == key)
    }

    /// Returns the scope of the session ids that hooks see.
    pub const fn session_scope(&self) -> SessionScope {
        if self.is_enabled {
            SessionScope::PerCaller
        } else {
            SessionScope::Shared
        }
    }

    /// Authenticates a request and removes the credential that identified its caller
    /// from the headers.
    ///
    /// # Errors
    ///
    /// Returns the reason why the request is not authenticated.
    pub async fn authenticate(
        &self,
        mut credentials: Credentials<'_>,
        state: &AuthState,
        metrics: &Arc<Metrics>,
    ) -> Result<Identity, AuthError> {
        let keys = PresentedKeys::read(credentials.headers, credentials.query);
        let user_agent = credentials::user_agent(credentials.headers);
        if !self.is_enabled {
            return Ok(Identity::anonymous(&keys, user_agent, self.session_scope()));
        }
        credentials.headers.remove(KEY_HEADER);
        // Boxed, because only tokens of an issuer may wait for its keys.
        let found = Box::pin(self.find(&keys, &mut credentials)).await;
        let found = match (found, credentials.address) {
            (Ok(Some(principal)), Some(address)) => {
                let counted = state.throttle.succeeded(address, &principal.name);
                counted.map(|()| Some(principal))
            }
            (Err(error), Some(address)) => Err(state.throttle.failed(address, error)),
            (found, _) => found,
        };
        let found = found.inspect_err(|error| {
            metrics.auth_failures.with([error.as_str().into()]).inc();
        })?;
        let Some(principal) = found else {
            return Ok(Identity::anonymous(&keys, user_agent, self.session_scope()));
        };
        let key = caller_key(&principal.name);
        let quota = state.quotas.get(&key, &principal.name);
        let shared = self.shared_limits.as_ref().map(|limits| SharedQuota {
            limits: Arc::clone(limits),
            queue: Arc::clone(&state.limit_sync),
        });
        let identity = Identity::named(principal, quota, shared, metrics, user_agent);
        Ok(Identity {
            query_key: self.query_key_for_model_api(&keys),
            ..identity
        })
    }

    /// Returns the identity of a caller that was authenticated when its request was recorded,
    /// with its present limits and without any usage; `None` if it is not served any more. `key`
    /// keeps anonymous callers apart.
    pub fn recorded_caller(
        &self,
        name: &str,
        key: &str,
        headers: &HeaderMap,
        metrics: &Arc<Metrics>,
    ) -> Option<Identity> {
        let user_agent = credentials::user_agent(headers);
        if !self.is_enabled || name.is_empty() && self.allows_anonymous {
            let keys = PresentedKeys::read(headers, "");
            let anonymous = Identity::anonymous(&keys, user_agent, self.session_scope());
            return Some(Identity {
                key: key.to_owned(),
                ..anonymous
            });
        }
        let principal = self.keys.find_by_name(name).cloned().or_else(|| {
            let grant = if name.starts_with(TOKEN_PREFIX) {
                &self.issuer.as_ref()?.grant
            } else if name.starts_with(CERTIFICATE_PREFIX) {
                &self.mtls.as_ref()?.1
            } else {
                return None;
            };
            Some(Principal::unnamed(name, grant))
        })?;
        let quota = Arc::default();
        Some(Identity::named(principal, quota, None, metrics, user_agent))
    }

    /// Returns the caller, or `None` for an anonymous caller that is allowed.
    ///
    /// `x-hookgate-key` takes precedence over a client certificate, and that over keys
    /// that may be meant for the model API.
    async fn find(
        &self,
        keys: &PresentedKeys,
        credentials: &mut Credentials<'_>,
    ) -> Result<Option<Principal>, AuthError> {
        let certificate = credentials.certificate;
        let found = match keys.own()? {
            Some(key) => Some(self.find_by_key(key).await?),
            None => certificate.and_then(|names| self.find_by_certificate(names)),
        };
        if found.is_some() {
            credentials::strip(credentials.headers, |key| self.is_own_key(key));
            return Ok(found);
        }
        let found = match keys.shared()? {
            None if certificate.is_some() && self.mtls.is_some() => {
                Err(AuthError::CertificateNotAllowed)
            }
            None => Err(AuthError::Missing),
            Some(key) => self.find_by_key(key).await,
        };
        match found {
            Ok(principal) => {
                credentials::strip(credentials.headers, |_| true);
                Ok(Some(principal))
            }
            Err(_) if self.allows_anonymous => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn find_by_key(&self, key: &PresentedKey) -> Result<Principal, AuthError> {
        if let Some(principal) = self.keys.find(key) {
            return Ok(principal.clone());
        }
        let issuer = self.issuer.as_ref().filter(|issuer| issuer.has_issued(key));
        let issuer = issuer.ok_or(AuthError::Unknown)?;
        let subject = issuer.verify(key).await?;
        let name = format!("{TOKEN_PREFIX}{subject}");
        Ok(Principal::unnamed(name, &issuer.grant))
    }

    fn find_by_certificate(&self, certificate: &PeerCertificate) -> Option<Principal> {
        let (spec, grant) = self.mtls.as_ref()?;
        let name = certificate.name(spec.name, spec.allow.as_deref())?;
        let name = format!("{CERTIFICATE_PREFIX}{name}");
        Some(Principal::unnamed(name, grant))
    }

    /// Returns whether a key is a credential for hookgate.
    ///
    /// INVARIANT: such a credential is never forwarded, even if it did not identify the
    /// caller.
    fn is_own_key(&self, key: &PresentedKey) -> bool {
        let issuer = self.issuer.as_ref();
        self.keys.find(key).is_some() || issuer.is_some_and(|issuer| issuer.has_issued(key))
    }

    /// Returns the key in the query, unless it is a credential for hookgate.
    fn query_key_for_model_api(&self, keys: &PresentedKeys) -> Option<SecretString> {
        let key = keys.query()?;
        (!self.is_own_key(key)).then(|| key.to_secret())?
    }
}
