//! Routes: one kind of login of an agent, and where its model calls go.

use crate::{
    address::Address,
    settings::{Setting, SettingPosition},
};

/// One kind of login of an agent.
#[derive(Debug, Clone)]
pub struct Route {
    /// Kind of login, or the model API.
    pub login: String,
    /// Settings that name a base URL, in the order of their precedence.
    pub settings: Vec<Setting>,
    /// Destination of calls without such a setting.
    pub default: Destination,
    /// Settings with a base URL that the agent does not use now.
    pub alternatives: Vec<Setting>,
    /// The setting that does not allow this login, if any.
    pub disabled_by: Option<SettingPosition>,
    /// Places of credentials with which the model API itself can be called.
    pub credentials: Vec<SettingPosition>,
}

/// Destination of calls for which no setting names a base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// To the first of these addresses that the agent chooses.
    Hosts(Vec<Address>),
    /// To an address that is not known, for this reason.
    Unknown(String),
}

impl Route {
    /// Creates a route that no setting changes, without credentials.
    pub(crate) fn new(login: impl Into<String>, default: Destination) -> Self {
        Self {
            login: login.into(),
            settings: Vec::new(),
            default,
            alternatives: Vec::new(),
            disabled_by: None,
            credentials: Vec::new(),
        }
    }
}

impl Destination {
    /// HTTPS at a host.
    pub(crate) fn https(host: &str) -> Self {
        Self::Hosts(vec![Address::https(host)])
    }
}
