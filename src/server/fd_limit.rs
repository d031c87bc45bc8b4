//! How many files, sockets and pipes may be open at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is taken for the limit where the system has none.
const PLENTY: usize = 1 << 20;

/// Connections of agents at the same time if the config does not say.
const AGENTS: usize = 20_000;

/// Connections of operators at the same time: few, and never taken by agents.
const OPERATORS: usize = 64;

/// How many connections each listener may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) agents: usize,
    pub(super) operators: usize,
}

impl Shares {
    /// Agents get what the config says, and at most half of what may be open: the
    /// other half is for operators, the calls upstream, and hooks. Pure.
    pub(super) fn of(connections: Option<usize>, descriptors: usize) -> Self {
        Self {
            agents: connections.unwrap_or(AGENTS).min(descriptors / 2).max(1),
            operators: OPERATORS.min(descriptors / 8).max(1),
        }
    }
}

/// Raises the limit as far as the system lets us without asking; it is this from
/// then on.
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
    let current = current.and_then(|it| usize::try_from(it).ok());
    current.unwrap_or(PLENTY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_left_for_what_is_not_a_connection_of_agents() {
        let shares = |connections, descriptors| {
            let shares = Shares::of(connections, descriptors);
            (shares.agents, shares.operators)
        };

        assert_eq!(shares(Some(20_000), 1024), (512, 64));
        assert_eq!(shares(Some(100), 1024), (100, 64));
        assert_eq!(shares(None, 1024), (512, 64));
        assert_eq!(shares(None, 1 << 20), (20_000, 64));
        assert_eq!(shares(Some(20_000), 64), (32, 8));
        assert_eq!(shares(None, 0), (1, 1));
    }
}
