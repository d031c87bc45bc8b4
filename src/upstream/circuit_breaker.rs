//! Circuit breaker of an upstream address.

use std::{collections::VecDeque, mem, sync::Arc};

use tokio::time::Instant;

use super::error::UpstreamError;
use crate::{config::CircuitSettings, mutex::Mutex, observe::Metrics};

/// Counts failures of one address and rejects calls after too many in a row.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    settings: CircuitSettings,
    /// Name of the upstream in logs and metrics.
    pub(super) name: String,
    metrics: Arc<Metrics>,
    state: Mutex<CircuitState>,
}

#[derive(Debug)]
enum CircuitState {
    /// Calls pass. Times of the last failures in a row.
    Closed(VecDeque<Instant>),
    /// Calls are rejected until then.
    Open(Instant),
    /// A probe is under way. If it has no outcome by then, another one is let
    /// through: a model may take its time.
    HalfOpen(Instant),
}

/// Permission for one call, which records the outcome.
#[derive(Debug)]
pub(super) struct CallGuard {
    circuit_breaker: Arc<CircuitBreaker>,
    /// True if the call tests whether upstream has recovered, until its outcome is recorded.
    is_probe: bool,
}

impl CircuitBreaker {
    pub(super) fn new(settings: CircuitSettings, name: String, metrics: Arc<Metrics>) -> Arc<Self> {
        metrics.create_upstream_failures(&name);
        Arc::new(Self {
            settings,
            name,
            metrics,
            state: Mutex::new(CircuitState::Closed(VecDeque::new())),
        })
    }

    /// Lets a call through.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::CircuitOpen`] with the time until the next probe.
    pub(super) fn start_call(self: &Arc<Self>) -> Result<CallGuard, UpstreamError> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let is_probe = match *state {
            CircuitState::Closed(_) => false,
            CircuitState::Open(until) | CircuitState::HalfOpen(until) if until > now => {
                let retry_after = until - now;
                return Err(UpstreamError::CircuitOpen { retry_after });
            }
            CircuitState::Open(_) | CircuitState::HalfOpen(_) => {
                *state = CircuitState::HalfOpen(now + self.settings.open);
                true
            }
        };
        Ok(CallGuard {
            circuit_breaker: Arc::clone(self),
            is_probe,
        })
    }

    /// Returns whether the circuit is open or half-open.
    pub(super) fn is_open(&self) -> bool {
        !matches!(*self.state.lock(), CircuitState::Closed(_))
    }

    /// Makes the next call a probe, since this one was dropped without an outcome.
    fn abandon_probe(&self) {
        let mut state = self.state.lock();
        if matches!(*state, CircuitState::HalfOpen(_)) {
            *state = CircuitState::Open(Instant::now());
        }
    }
}

impl CallGuard {
    /// Records that upstream answered.
    pub(super) fn record_success(mut self) {
        let is_probe = mem::take(&mut self.is_probe);
        let circuit = &self.circuit_breaker;
        let mut state = circuit.state.lock();
        match &mut *state {
            CircuitState::Closed(failures) => failures.clear(),
            CircuitState::Open(_) | CircuitState::HalfOpen(_) if is_probe => {
                *state = CircuitState::Closed(VecDeque::new());
                tracing::info!(upstream = circuit.name, "circuit breaker closed");
            }
            // The call started before the failures.
            CircuitState::Open(_) | CircuitState::HalfOpen(_) => (),
        }
    }

    /// Records that upstream failed, for this reason in metrics and logs.
    pub(super) fn record_failure(mut self, reason: &'static str) {
        let is_probe = mem::take(&mut self.is_probe);
        let circuit = &self.circuit_breaker;
        let labels = [circuit.name.clone().into(), reason.into()];
        circuit.metrics.upstream_failures.with(labels).inc();
        let now = Instant::now();
        let mut state = circuit.state.lock();
        match &mut *state {
            CircuitState::Closed(failures) => {
                failures.push_back(now);
                failures.retain(|failure| now - *failure <= circuit.settings.within);
                if failures.len() < circuit.settings.failures {
                    return;
                }
                let (upstream, failures) = (&circuit.name, failures.len());
                tracing::warn!(upstream, reason, failures, "circuit breaker opened");
            }
            CircuitState::Open(_) | CircuitState::HalfOpen(_) if is_probe => (),
            CircuitState::Open(_) | CircuitState::HalfOpen(_) => return,
        }
        *state = CircuitState::Open(now + circuit.settings.open);
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if self.is_probe {
            self.circuit_breaker.abandon_probe();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{advance, pause};

    use super::*;

    const OPEN: Duration = Duration::from_secs(10);

    fn circuit() -> Arc<CircuitBreaker> {
        let settings = CircuitSettings {
            failures: 3,
            within: Duration::from_secs(30),
            open: OPEN,
        };
        CircuitBreaker::new(settings, "gemini".to_owned(), Arc::default())
    }

    fn retry_after(circuit: &Arc<CircuitBreaker>) -> Duration {
        match circuit.start_call() {
            Err(UpstreamError::CircuitOpen { retry_after }) => retry_after,
            other => panic!("{other:?}"),
        }
    }

    fn fail(circuit: &Arc<CircuitBreaker>, times: usize) {
        for _ in 0..times {
            circuit.start_call().unwrap().record_failure("connect");
        }
    }

    #[tokio::test]
    async fn failures_in_a_row_open_the_circuit_for_a_while() {
        pause();
        let circuit = circuit();

        fail(&circuit, 3);

        assert_eq!(retry_after(&circuit), OPEN);
        advance(OPEN / 2).await;
        assert_eq!(retry_after(&circuit), OPEN / 2);
        advance(OPEN / 2).await;
        circuit.start_call().unwrap().record_success();
        assert!(!circuit.is_open());
        fail(&circuit, 2);
        assert!(!circuit.is_open(), "old failures are forgotten");
    }

    #[tokio::test]
    async fn failures_far_apart_or_with_a_success_between_leave_the_circuit_closed() {
        pause();
        let circuit = circuit();

        fail(&circuit, 2);
        circuit.start_call().unwrap().record_success();
        fail(&circuit, 2);
        advance(Duration::from_secs(31)).await;
        fail(&circuit, 2);

        assert!(!circuit.is_open());
    }

    #[tokio::test]
    async fn one_probe_decides_whether_the_circuit_closes() {
        pause();
        let circuit = circuit();
        fail(&circuit, 3);
        advance(OPEN).await;

        let probe = circuit.start_call().unwrap();
        assert!(circuit.start_call().is_err(), "one at a time");
        probe.record_failure("connect");

        assert_eq!(retry_after(&circuit), OPEN);
    }

    #[tokio::test]
    async fn a_slow_or_dropped_probe_is_followed_by_another() {
        pause();
        let circuit = circuit();
        fail(&circuit, 3);
        advance(OPEN).await;

        let slow = circuit.start_call().unwrap();
        advance(OPEN).await;
        let given_up = circuit.start_call().unwrap();
        drop(given_up);
        let next = circuit.start_call().unwrap();
        slow.record_success();

        assert!(!circuit.is_open());
        drop(next);
        assert!(!circuit.is_open());
    }

    #[tokio::test]
    async fn calls_from_before_the_failures_change_nothing() {
        pause();
        let circuit = circuit();
        let (succeeding, failing) = (circuit.start_call().unwrap(), circuit.start_call().unwrap());
        fail(&circuit, 3);

        succeeding.record_success();
        assert!(circuit.is_open());
        advance(OPEN / 2).await;
        failing.record_failure("timeout");

        assert_eq!(retry_after(&circuit), OPEN / 2);
    }
}
