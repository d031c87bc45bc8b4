//! Authentication of callers, and the quotas of each caller.
//!
//! A caller presents an API key, a token (JWT) or a client certificate.
//! [`Authenticator::authenticate`] removes the credential that identified the caller
//! from the request, so that it travels no further. Which models and tools a caller
//! may use is decided by policies, not here. To add an authentication method, add it
//! to `config::Auth` and to [`Authenticator`].

mod admin_access;
mod admin_principal;
mod api_keys;
mod authenticator;
mod console_sessions;
mod credentials;
mod error;
mod gcra;
mod identity;
mod jwks;
mod jwt;
mod login_throttle;
mod mtls;
mod quota;
#[cfg(test)]
mod tests;
mod token_usage;

pub use self::{
    admin_access::{AdminAccess, NewLogin},
    admin_principal::{AdminCredential, AdminPrincipal},
    api_keys::{add_named_caller, new_key},
    authenticator::{AuthState, Authenticator},
    credentials::{Credentials, KEY_HEADER, presented_key},
    error::AuthError,
    identity::{Identity, caller_key},
    jwt::JwksError,
    mtls::PeerCertificate,
    quota::{
        CallerInFlightGuard, LimitRefusal, LimitsMode, LossMode, MAX_RESERVED_OUTPUT,
        QuotaExceeded, RequestCost, SharedLimits, SyncQueue, limit_keys, limit_script,
    },
    token_usage::UsageReader,
};
