//! Limit of open file descriptors, and its division between listeners.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Assumed limit if the system has none.
const UNLIMITED_DESCRIPTORS: usize = 1 << 20;

const DEFAULT_AGENT_CONNECTIONS: usize = 20_000;

/// Connections reserved for operators, which agents cannot use up.
const OPERATOR_CONNECTIONS: usize = 64;

/// Maximum number of connections of each listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionBudget {
    pub(super) agents: usize,
    pub(super) operators: usize,
}

impl ConnectionBudget {
    /// Divides file descriptors. Agents get the configured number and at most half of them:
    /// the rest is for operators, upstream connections and hooks.
    pub(super) fn new(configured: Option<usize>, descriptors: usize) -> Self {
        let agents = configured.unwrap_or(DEFAULT_AGENT_CONNECTIONS);
        Self {
            agents: agents.min(descriptors / 2).max(1),
            operators: OPERATOR_CONNECTIONS.min(descriptors / 8).max(1),
        }
    }
}

/// Raises the soft limit to the hard limit and returns the limit.
pub(super) fn raise() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let highest = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, highest) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let current = current.and_then(|limit| usize::try_from(limit).ok());
    current.unwrap_or(UNLIMITED_DESCRIPTORS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_get_at_most_half_of_the_descriptors() {
        let budget = |configured, descriptors| {
            let budget = ConnectionBudget::new(configured, descriptors);
            (budget.agents, budget.operators)
        };

        assert_eq!(budget(Some(20_000), 1024), (512, 64));
        assert_eq!(budget(Some(100), 1024), (100, 64));
        assert_eq!(budget(None, 1024), (512, 64));
        assert_eq!(budget(None, 1 << 20), (20_000, 64));
        assert_eq!(budget(Some(20_000), 64), (32, 8));
        assert_eq!(budget(None, 0), (1, 1));
    }
}
