//! Settings that take effect only at the start.

use std::net::SocketAddr;

use crate::{
    config::{Config, LogSettings},
    state::revisions::ReloadError,
};

/// Settings of the start, which a reload does not change.
#[derive(Debug)]
pub(in crate::state) struct StartSettings {
    /// Addresses to which the listeners of agents and operators are bound.
    addresses: (SocketAddr, SocketAddr),
    log: LogSettings,
}

impl StartSettings {
    /// Reads the settings of the config of the start.
    pub(in crate::state) const fn of(config: &Config) -> Self {
        Self {
            addresses: (config.listen, config.admin.listen),
            log: config.log,
        }
    }

    /// Checks that a config does not open the bound listeners, and logs which of its settings
    /// need a restart.
    ///
    /// # Errors
    ///
    /// Returns the problem of each listener that other machines could use without a credential.
    pub(in crate::state) fn check(&self, config: &Config) -> Result<(), ReloadError> {
        let (agents, operators) = self.addresses;
        let checked = config.check_bound_addresses(agents, operators);
        checked.map_err(|error| ReloadError(error.to_string()))?;
        if (config.listen, config.admin.listen) != self.addresses {
            tracing::warn!("listener addresses changed; restart to apply");
        }
        if config.log != self.log {
            tracing::warn!("log settings changed; restart to apply");
        }
        Ok(())
    }
}
