//! Users of the admin API and the console, and their roles.

use std::{collections::BTreeSet, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::auth::CALLER_NAME;
use crate::config::{secret::Secret, units::DurationText};

/// Name in logs of the user with `admin.token`.
pub const TOKEN_USER: &str = "admin";

/// A user of the admin API and the console.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdminUser {
    /// The user's name in logs.
    #[schemars(extend("pattern" = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "errorMessage" = CALLER_NAME))]
    pub name: String,
    /// The token that the user sends as `Authorization: Bearer …` or enters to log in.
    pub token: Secret,
    /// Roles that grant permissions to the user. Every role includes `viewer`.
    #[schemars(extend("minItems" = 1))]
    pub roles: BTreeSet<AdminRole>,
}

named_enum! {
    /// A role of users of the admin API and the console.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
    )]
    #[serde(rename_all = "lowercase")]
    pub enum AdminRole {
        /// Sees names, decisions, sizes and times.
        Viewer = "viewer",
        /// Also sees kept content of requests and responses.
        Investigator = "investigator",
        /// May also reload the config and run hooks in trials.
        Operator = "operator",
    }
}

/// Lifetime of logins to the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Login")]
pub struct LoginSettings {
    /// Time after which a user must log in again.
    #[serde(with = "DurationText")]
    pub lifetime: Duration,
    /// Time without a request after which a login ends.
    #[serde(with = "DurationText")]
    pub idle: Duration,
}

impl Default for LoginSettings {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_hours(12),
            idle: Duration::from_hours(1),
        }
    }
}
