//! Routes: an agent with one kind of login, and where its model calls go.

use crate::{
    address::Address,
    settings::{Place, Setting},
};

/// An agent with one kind of login.
#[derive(Debug, Clone)]
pub struct Route {
    /// Name of the agent.
    pub agent: &'static str,
    /// Kind of login, or the model API.
    pub login: String,
    /// Settings that name a base URL, in the order of their precedence.
    pub settings: Vec<Setting>,
    /// Destination of calls without such a setting.
    pub default: Destination,
    /// Settings with a base URL that the agent does not use now.
    pub alternatives: Vec<Setting>,
    /// The setting that does not allow this login, if any.
    pub disabled_by: Option<Place>,
    /// Places of credentials with which the model API itself can be called.
    pub credentials: Vec<Place>,
}

/// Destination of calls for which no setting names a base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// To the first of these addresses that the agent chooses.
    Hosts(Vec<Address>),
    /// To an address that is not known, for this reason.
    Unknown(String),
}

impl Destination {
    /// HTTPS at a host.
    pub(crate) fn https(host: &str) -> Self {
        Self::Hosts(vec![Address::https(host)])
    }
}
