//! The user of an admin request and the user's roles.

use std::{collections::BTreeSet, sync::Arc};

use aws_lc_rs::constant_time::verify_slices_are_equal;

use crate::config::AdminRole;

/// User of an admin request, and what the user may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminPrincipal {
    /// Name of the user in logs; `local` if no credential is configured.
    pub name: Arc<str>,
    /// Authentication method of the request.
    pub credential: AdminCredential,
    roles: Arc<BTreeSet<AdminRole>>,
}

/// Authentication method of an admin request, with the CSRF token of forms if it needs one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminCredential {
    /// By nothing: the config has no credential, and the listener is on loopback.
    Open {
        /// Token that forms of the console carry.
        csrf: Arc<str>,
    },
    /// By a bearer token, which browsers do not send on their own.
    Bearer {
        /// SHA-256 of the token.
        token: [u8; 32],
    },
    /// By the cookie of a login.
    Session {
        /// SHA-256 of the session's id.
        id: [u8; 32],
        /// Token that forms and scripts of the session carry.
        csrf: Arc<str>,
    },
}

impl AdminPrincipal {
    pub(super) fn new(
        name: &str,
        credential: AdminCredential,
        roles: impl IntoIterator<Item = AdminRole>,
    ) -> Self {
        Self {
            name: name.into(),
            credential,
            roles: Arc::new(roles.into_iter().collect()),
        }
    }

    /// Returns whether the user has a role; every user is a viewer.
    pub fn has(&self, role: AdminRole) -> bool {
        role == AdminRole::Viewer || self.roles.contains(&role)
    }

    /// Returns the roles of the user, the least first.
    pub fn roles(&self) -> impl Iterator<Item = AdminRole> {
        AdminRole::ALL.into_iter().filter(|role| self.has(*role))
    }

    /// Returns the token that forms carry; empty for bearer tokens, which need none.
    pub fn csrf_token(&self) -> &str {
        match &self.credential {
            AdminCredential::Open { csrf } | AdminCredential::Session { csrf, .. } => csrf,
            AdminCredential::Bearer { .. } => "",
        }
    }

    /// Checks the token of a form.
    pub fn accepts_csrf_token(&self, token: &str) -> bool {
        verify_slices_are_equal(self.csrf_token().as_bytes(), token.as_bytes()).is_ok()
    }
}
