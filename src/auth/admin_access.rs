//! Authentication of operators: bearer tokens, and logins to the console.

use std::{net::IpAddr, sync::Arc, time::Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use secrecy::ExposeSecret;
use uuid::Uuid;

use super::{
    admin_principal::{AdminCredential, AdminPrincipal},
    console_sessions::{ConsoleSession, ConsoleSessions, csrf_token},
    error::AuthError,
    login_throttle::LoginThrottle,
};
use crate::{
    config::{AdminRole, AdminSettings, TOKEN_USER},
    sha256::sha256,
};

/// Name of every user if the config has no credential.
const OPEN_USER: &str = "local";

/// Logins and failed attempts of operators, which survive config reloads.
#[derive(Debug)]
pub struct AdminAccess {
    sessions: ConsoleSessions,
    throttle: LoginThrottle,
    /// Token of forms while no credential is configured.
    open_csrf: Arc<str>,
}

/// A login that has just succeeded.
#[derive(Debug)]
pub struct NewLogin {
    /// Id for the session cookie.
    pub session_id: String,
    /// Name of the user.
    pub user: Arc<str>,
}

/// User found by a token.
struct KnownUser {
    name: Arc<str>,
    roles: Vec<AdminRole>,
    token: [u8; 32],
}

impl Default for AdminAccess {
    fn default() -> Self {
        let open_csrf = [Uuid::new_v4(), Uuid::new_v4()].map(|uuid| uuid.simple().to_string());
        Self {
            sessions: ConsoleSessions::default(),
            throttle: LoginThrottle::default(),
            open_csrf: open_csrf.concat().into(),
        }
    }
}

impl AdminAccess {
    /// Returns the user of requests without a credential, who has every role: `Some` only if
    /// the config has no credential.
    pub fn open(&self, settings: &AdminSettings) -> Option<AdminPrincipal> {
        let csrf = Arc::clone(&self.open_csrf);
        let credential = AdminCredential::Open { csrf };
        let principal = AdminPrincipal::new(OPEN_USER, credential, AdminRole::ALL);
        (!settings.requires_credential()).then_some(principal)
    }

    /// Returns the user with a bearer token.
    ///
    /// # Errors
    ///
    /// Returns an error if no user has the token, or too many attempts failed.
    pub fn identify(
        &self,
        settings: &AdminSettings,
        address: Option<IpAddr>,
        token: &[u8],
    ) -> Result<AdminPrincipal, AuthError> {
        let user = self.find(settings, address, token)?;
        let token = user.token;
        let credential = AdminCredential::Bearer { token };
        Ok(AdminPrincipal::new(&user.name, credential, user.roles))
    }

    /// Starts a session for the user with a token.
    ///
    /// # Errors
    ///
    /// Returns an error if no user has the token, or too many attempts failed.
    pub fn log_in(
        &self,
        settings: &AdminSettings,
        address: Option<IpAddr>,
        token: &[u8],
    ) -> Result<NewLogin, AuthError> {
        let user = self.find(settings, address, token)?;
        let started = self.sessions.start(&user.name, user.token, Instant::now());
        Ok(NewLogin {
            session_id: started.ok_or(AuthError::NoRandomness)?,
            user: user.name,
        })
    }

    /// Returns the user of a session that has not expired, with the roles that the current
    /// config gives.
    pub fn resume(&self, settings: &AdminSettings, session_id: &str) -> Option<AdminPrincipal> {
        let now = Instant::now();
        let session = self.sessions.resume(session_id, settings.login, now)?;
        let user = user_of(settings, &session)?;
        let credential = AdminCredential::Session {
            id: sha256(session_id),
            csrf: csrf_token(session_id),
        };
        Some(AdminPrincipal::new(&user.name, credential, user.roles))
    }

    /// Returns the user of a request that is still answered, with the roles that the current
    /// config gives; `None` if its credential is no longer valid. Does not prolong a session.
    pub fn renew(
        &self,
        settings: &AdminSettings,
        principal: &AdminPrincipal,
    ) -> Option<AdminPrincipal> {
        if let Some(open) = self.open(settings) {
            return Some(open);
        }
        let user = match &principal.credential {
            AdminCredential::Open { .. } => return None,
            AdminCredential::Bearer { token } => user_with(settings, token)?,
            AdminCredential::Session { id, .. } => {
                let session = self.sessions.find(id, settings.login, Instant::now())?;
                user_of(settings, &session)?
            }
        };
        let credential = principal.credential.clone();
        Some(AdminPrincipal::new(&user.name, credential, user.roles))
    }

    /// Ends a session, if it exists.
    pub fn log_out(&self, session_id: &str) {
        self.sessions.end(session_id);
    }

    /// Ends the sessions of users whom a new config does not have, or whose token it changes.
    pub fn end_outdated_sessions(&self, settings: &AdminSettings) {
        self.sessions
            .end_unless(|session| user_of(settings, session).is_some());
    }

    fn find(
        &self,
        settings: &AdminSettings,
        address: Option<IpAddr>,
        token: &[u8],
    ) -> Result<KnownUser, AuthError> {
        if token.is_empty() {
            return Err(AuthError::Missing);
        }
        match (user_with(settings, &sha256(token)), address) {
            (Some(user), Some(address)) => {
                self.throttle.succeeded(address, &user.name)?;
                Ok(user)
            }
            (None, Some(address)) => Err(self.throttle.failed(address, AuthError::Unknown)),
            (found, None) => found.ok_or(AuthError::Unknown),
        }
    }
}

/// Returns the user whose token has this SHA-256. Every token is compared, so that timing reveals
/// nothing about them.
fn user_with(settings: &AdminSettings, token: &[u8; 32]) -> Option<KnownUser> {
    let has_token = |user: &KnownUser| verify_slices_are_equal(&user.token, token).is_ok();
    users(settings).filter(has_token).last()
}

/// Returns the user of a session, unless the config has another token for that user.
fn user_of(settings: &AdminSettings, session: &ConsoleSession) -> Option<KnownUser> {
    let user = users(settings).find(|user| user.name == session.user)?;
    let is_same = verify_slices_are_equal(&user.token, &session.token).is_ok();
    is_same.then_some(user)
}

/// Returns every user of the config.
fn users(settings: &AdminSettings) -> impl Iterator<Item = KnownUser> {
    let admin = settings.token.iter().map(|token| KnownUser {
        name: TOKEN_USER.into(),
        roles: AdminRole::ALL.to_vec(),
        token: sha256(token.expose_secret()),
    });
    let named = settings.users.iter().map(|user| KnownUser {
        name: user.name.as_str().into(),
        roles: user.roles.iter().copied().collect(),
        token: sha256(user.token.expose_secret()),
    });
    admin.chain(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AdminUser;

    fn settings(token: &str, roles: &[AdminRole]) -> AdminSettings {
        let user = AdminUser {
            name: "ann".to_owned(),
            token: token.into(),
            roles: roles.iter().copied().collect(),
        };
        AdminSettings {
            users: vec![user],
            ..AdminSettings::default()
        }
    }

    #[test]
    fn a_session_has_the_roles_of_the_current_config_and_ends_with_the_token() {
        let access = AdminAccess::default();
        let viewer = settings("one", &[AdminRole::Viewer]);
        let login = access.log_in(&viewer, None, b"one").unwrap();
        let resumed = |settings: &AdminSettings| access.resume(settings, &login.session_id);

        let promoted = settings("one", &[AdminRole::Operator]);
        assert!(!resumed(&viewer).unwrap().has(AdminRole::Operator));
        assert!(resumed(&promoted).unwrap().has(AdminRole::Operator));
        assert_eq!(resumed(&settings("two", &[AdminRole::Operator])), None);
        assert_eq!(resumed(&AdminSettings::default()), None, "a removed user");
    }

    #[test]
    fn without_a_credential_every_request_has_every_role() {
        let access = AdminAccess::default();

        let open = access.open(&AdminSettings::default()).unwrap();

        assert!(AdminRole::ALL.into_iter().all(|role| open.has(role)));
        assert_eq!(access.open(&settings("one", &[AdminRole::Viewer])), None);
    }
}
