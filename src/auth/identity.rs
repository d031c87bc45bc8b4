//! Identity of an authenticated caller.

use std::{sync::Arc, time::SystemTime};

use secrecy::SecretString;

use super::{
    credentials::{PresentedKey, PresentedKeys},
    quota::{CallerCall, CallerInFlightGuard, Quota, QuotaExceeded, RequestCost, SharedQuota},
    token_usage::UsageReader,
};
use crate::{
    config::{Grant, UpstreamCredential},
    dialect::Api,
    event::{Caller, SessionScope},
    mutex::Mutex,
    observe::Metrics,
    sha256::sha256_hex,
};

/// Caller of a request, and the limits it is subject to.
#[derive(Debug)]
pub struct Identity {
    /// Name of the caller; empty for anonymous callers.
    pub name: Arc<str>,
    /// The caller's own credential for the model API, if it came in the query.
    pub query_key: Option<SecretString>,
    pub(super) user_agent: String,
    /// Key by which sessions and usage of callers are kept apart.
    pub(super) key: String,
    pub(super) session_scope: SessionScope,
    /// Limits and usage; `None` for anonymous callers.
    pub(super) allowance: Option<Allowance>,
}

/// Metric label for callers that the config does not name.
const OTHER_LABEL: &str = "other";

/// Caller found by its credential.
#[derive(Debug, Clone)]
pub(super) struct Principal {
    pub(super) name: Arc<str>,
    /// Name of the caller in metrics.
    pub(super) label: Arc<str>,
    pub(super) grant: Arc<Grant>,
}

/// Limits and usage of an authenticated caller.
#[derive(Debug)]
pub(super) struct Allowance {
    pub(super) principal: Principal,
    pub(super) quota: Arc<Quota>,
    /// Limits that several gateways share.
    pub(super) shared: Option<SharedQuota>,
    /// The call of this request, once it is counted.
    pub(super) call: Mutex<Option<Arc<CallerCall>>>,
    pub(super) metrics: Arc<Metrics>,
}

impl Principal {
    /// Returns a caller that the config does not name.
    pub(super) fn unnamed(name: impl Into<Arc<str>>, grant: &Arc<Grant>) -> Self {
        Self {
            name: name.into(),
            label: OTHER_LABEL.into(),
            grant: Arc::clone(grant),
        }
    }
}

impl Allowance {
    fn count_request(&self, outcome: &'static str) {
        let labels = [self.principal.label.to_string().into(), outcome.into()];
        self.metrics.caller_requests.with(labels).inc();
    }
}

impl Identity {
    /// Creates the identity of an anonymous caller, whose conversations are kept apart
    /// by its credentials for the model API.
    pub(super) fn anonymous(
        keys: &PresentedKeys,
        user_agent: String,
        session_scope: SessionScope,
    ) -> Self {
        Self {
            name: Arc::default(),
            query_key: keys.query().and_then(PresentedKey::to_secret),
            user_agent,
            key: keys.hash_for_model_api(),
            session_scope,
            allowance: None,
        }
    }

    /// Creates the identity of an authenticated caller.
    pub(super) fn named(
        principal: Principal,
        quota: Arc<Quota>,
        shared: Option<SharedQuota>,
        metrics: &Arc<Metrics>,
        user_agent: String,
    ) -> Self {
        Self {
            key: caller_key(&principal.name),
            name: Arc::clone(&principal.name),
            query_key: None,
            user_agent,
            allowance: Some(Allowance {
                principal,
                quota,
                shared,
                call: Mutex::default(),
                metrics: Arc::clone(metrics),
            }),
            session_scope: SessionScope::PerCaller,
        }
    }

    /// Returns the caller as hooks, logs and sessions refer to it.
    pub fn caller(&self) -> Caller {
        Caller {
            key: self.key.clone(),
            name: self.name.to_string(),
            agent: self.user_agent.clone(),
            session_scope: self.session_scope,
        }
    }

    /// Counts a request against the caller's quota at the wall-clock time `now`.
    /// Anonymous callers have none.
    ///
    /// # Errors
    ///
    /// Returns the quota that the request would exceed.
    pub async fn enter(
        &self,
        cost: RequestCost,
        now: SystemTime,
    ) -> Result<Option<CallerInFlightGuard>, QuotaExceeded> {
        let Some(allowance) = &self.allowance else {
            return Ok(None);
        };
        let (grant, shared) = (&allowance.principal.grant, allowance.shared.as_ref());
        let entered = allowance.quota.enter(grant, cost, shared, now).await;
        if let Ok(guard) = &entered {
            *allowance.call.lock() = Some(Arc::clone(&guard.0));
        }
        let exceeded = entered.as_ref().err();
        let outcome = exceeded.map_or("accepted", QuotaExceeded::as_str);
        allowance.count_request(outcome);
        entered.map(Some)
    }

    /// Returns the caller's credential for an API, which replaces all others.
    pub fn credential_for(&self, api: Api) -> Option<UpstreamCredential> {
        let key = self.grant()?.key_for(api.upstream())?;
        Some(UpstreamCredential::ApiKey(key.clone()))
    }

    /// Returns whether the caller is limited to certain models or tools, or to a number
    /// of tokens. None of that can be enforced on methods whose content is not inspected.
    pub fn is_restricted(&self) -> bool {
        let grant = self.grant();
        grant.is_some_and(|grant| grant.has_lists() || grant.tokens_per_day.is_some())
    }

    /// Returns a reader that counts the tokens of a response, if the caller's are limited.
    pub fn usage(&self) -> Option<UsageReader> {
        let allowance = self.allowance.as_ref()?;
        allowance.principal.grant.tokens_per_day?;
        let call = allowance.call.lock().clone();
        let metrics = Arc::clone(&allowance.metrics);
        let label = Arc::clone(&allowance.principal.label);
        Some(UsageReader::new(move |tokens| {
            if let Some(call) = &call {
                call.spend(tokens, SystemTime::now());
            }
            let caller = label.to_string().into();
            metrics.caller_tokens.with([caller]).inc_by(tokens);
        }))
    }

    /// Returns whether the caller's tokens are limited.
    pub fn has_token_quota(&self) -> bool {
        let grant = self.grant();
        grant.is_some_and(|grant| grant.tokens_per_day.is_some())
    }

    fn grant(&self) -> Option<&Grant> {
        Some(&self.allowance.as_ref()?.principal.grant)
    }

    /// Reserves the tokens of a request of this size, whose answer has at most `max_output`
    /// tokens, instead of those that were expected before. Returns whether they are more.
    pub fn estimate_tokens(&self, bytes: usize, max_output: Option<u64>) -> bool {
        let allowance = self.allowance.as_ref();
        let call = allowance.and_then(|allowance| allowance.call.lock().clone());
        call.is_some_and(|call| call.estimate(bytes, max_output))
    }

    /// Checks that the tokens that the request reserves since it was read fit into the
    /// caller's quota at the wall-clock time `now`.
    ///
    /// # Errors
    ///
    /// Returns the quota that the request would exceed.
    pub async fn enter_again(&self, now: SystemTime) -> Result<(), QuotaExceeded> {
        let Some(allowance) = &self.allowance else {
            return Ok(());
        };
        let call = allowance.call.lock().clone();
        let Some(call) = call else {
            return Ok(());
        };
        let admitted = call.admit_again(&allowance.principal.grant, now).await;
        admitted.inspect_err(|exceeded| allowance.count_request(exceeded.as_str()))
    }
}

/// Returns the key for sessions and usage of a named caller. It survives a change of the
/// caller's credential and equals the hash of none.
pub fn caller_key(name: &str) -> String {
    sha256_hex(format!("hookgate caller\0{name}"))
}
