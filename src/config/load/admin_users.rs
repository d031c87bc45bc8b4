//! Checks of the users of the admin API and the console.

use std::collections::BTreeSet;

use secrecy::ExposeSecret;

use super::loader::Loader;
use crate::config::{
    overrides::MissingSecrets,
    settings::{admin_users::TOKEN_USER, listeners::AdminSettings},
};

impl Loader {
    /// Checks that names and tokens identify one user each.
    pub(super) fn check_admin_users(&mut self, admin: &AdminSettings) {
        let has_token = admin.token.is_some();
        let mut names: BTreeSet<&str> = has_token.then_some(TOKEN_USER).into_iter().collect();
        let token = admin.token.iter().map(ExposeSecret::expose_secret);
        let mut tokens: BTreeSet<&str> = token.collect();
        for (index, user) in admin.users.iter().enumerate() {
            if !names.insert(&user.name) {
                let message = format!("two users are named `{}`", user.name);
                self.problem(&format!("/admin/users/{index}/name"), message);
            }
            let is_new = tokens.insert(user.token.expose_secret());
            if !is_new && self.missing_secrets == MissingSecrets::Refused {
                let message = "two users have this token";
                self.problem(&format!("/admin/users/{index}/token"), message);
            }
        }
    }
}
