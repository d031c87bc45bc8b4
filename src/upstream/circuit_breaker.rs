//! Whether an upstream is asked at all: after some failures in a row it is left
//! alone for a while, and then tried with one call.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{config::CircuitSettings, observe::Metrics};

/// What is known of an upstream's health.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    settings: CircuitSettings,
    /// The upstream's name, for operators.
    name: String,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// It is asked. The last failures in a row, at most as many as are borne.
    Closed(VecDeque<Instant>),
    /// It is left alone until then.
    Open(Instant),
    /// A call tries it. If that is not answered by then, another one does, too:
    /// a model may take its time.
    Trying(Instant),
}

/// What the outcome of a call is told to.
#[derive(Debug)]
pub(super) struct CallPermit {
    circuit: Arc<CircuitBreaker>,
    kind: Kind,
}

/// What a call means for a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One of many.
    Usual,
    /// It tries whether the upstream is back.
    Trial,
    /// Its outcome is told.
    Told,
}

impl CircuitBreaker {
    pub(super) fn new(settings: CircuitSettings, name: String, metrics: Arc<Metrics>) -> Arc<Self> {
        metrics.circuit_breaker_closed(&name);
        Arc::new(Self {
            settings,
            name,
            metrics,
            state: Mutex::new(State::Closed(VecDeque::new())),
        })
    }

    pub(super) const fn settings(&self) -> CircuitSettings {
        self.settings
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A pass for one call; or how long it is not worth while to ask again.
    pub(super) fn enter(self: &Arc<Self>) -> Result<CallPermit, Duration> {
        let now = Instant::now();
        let mut state = self.state();
        let kind = match *state {
            State::Closed(_) => Kind::Usual,
            State::Open(until) | State::Trying(until) if until > now => return Err(until - now),
            State::Open(_) | State::Trying(_) => {
                *state = State::Trying(now + self.settings.open);
                Kind::Trial
            }
        };
        Ok(CallPermit {
            circuit: Arc::clone(self),
            kind,
        })
    }

    /// Whether the upstream is left alone.
    pub(super) fn is_open(&self) -> bool {
        !matches!(*self.state(), State::Closed(_))
    }

    fn succeeded(&self, kind: Kind) {
        let mut state = self.state();
        match &mut *state {
            State::Closed(failures) => failures.clear(),
            State::Open(_) | State::Trying(_) if kind == Kind::Trial => {
                *state = State::Closed(VecDeque::new());
                self.metrics.circuit_breaker_closed(&self.name);
                tracing::info!(upstream = self.name, "circuit breaker closed");
            }
            // It was asked before the failures were.
            State::Open(_) | State::Trying(_) => (),
        }
    }

    fn failed(&self, kind: Kind, why: &'static str) {
        self.metrics.record_upstream_failure(&self.name, why);
        let now = Instant::now();
        let mut state = self.state();
        match &mut *state {
            State::Closed(failures) => {
                failures.push_back(now);
                failures.retain(|it| now - *it <= self.settings.within);
                if failures.len() < self.settings.failures {
                    return;
                }
                self.metrics.circuit_breaker_opened(&self.name);
                let failures = failures.len();
                tracing::warn!(
                    upstream = self.name,
                    failures,
                    reason = why,
                    "circuit breaker opened"
                );
            }
            State::Open(_) | State::Trying(_) if kind == Kind::Trial => (),
            State::Open(_) | State::Trying(_) => return,
        }
        *state = State::Open(now + self.settings.open);
    }

    /// Nobody knows what would have come of a trial: the next call is one.
    fn gave_up(&self) {
        let mut state = self.state();
        if matches!(*state, State::Trying(_)) {
            *state = State::Open(Instant::now());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallPermit {
    /// The upstream is well.
    pub(super) fn succeeded(mut self) {
        let kind = std::mem::replace(&mut self.kind, Kind::Told);
        self.circuit.succeeded(kind);
    }

    /// The upstream is not.
    pub(super) fn failed(mut self, why: &'static str) {
        let kind = std::mem::replace(&mut self.kind, Kind::Told);
        self.circuit.failed(kind, why);
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        if self.kind == Kind::Trial {
            self.circuit.gave_up();
        }
    }
}

#[cfg(test)]
mod tests {
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

    fn fail(circuit: &Arc<CircuitBreaker>, times: usize) {
        for _ in 0..times {
            circuit.enter().unwrap().failed("connect");
        }
    }

    #[tokio::test]
    async fn failures_in_a_row_open_it_for_a_while() {
        pause();
        let circuit = circuit();

        fail(&circuit, 3);

        assert_eq!(circuit.enter().unwrap_err(), OPEN);
        advance(OPEN / 2).await;
        assert_eq!(circuit.enter().unwrap_err(), OPEN / 2);
        advance(OPEN / 2).await;
        circuit.enter().unwrap().succeeded();
        assert!(!circuit.is_open());
        fail(&circuit, 2);
        assert!(!circuit.is_open(), "old failures are forgotten");
    }

    #[tokio::test]
    async fn failures_far_apart_or_with_a_success_between_do_not() {
        pause();
        let circuit = circuit();

        fail(&circuit, 2);
        circuit.enter().unwrap().succeeded();
        fail(&circuit, 2);
        advance(Duration::from_secs(31)).await;
        fail(&circuit, 2);

        assert!(!circuit.is_open());
    }

    #[tokio::test]
    async fn one_call_tries_it_and_decides() {
        pause();
        let circuit = circuit();
        fail(&circuit, 3);
        advance(OPEN).await;

        let trial = circuit.enter().unwrap();
        assert!(circuit.enter().is_err(), "one at a time");
        trial.failed("connect");

        assert_eq!(circuit.enter().unwrap_err(), OPEN);
    }

    #[tokio::test]
    async fn a_trial_that_takes_long_or_is_given_up_is_followed_by_another() {
        pause();
        let circuit = circuit();
        fail(&circuit, 3);
        advance(OPEN).await;

        let slow = circuit.enter().unwrap();
        advance(OPEN).await;
        let given_up = circuit.enter().unwrap();
        drop(given_up);
        let next = circuit.enter().unwrap();
        slow.succeeded();

        assert!(!circuit.is_open());
        drop(next);
        assert!(!circuit.is_open());
    }

    #[tokio::test]
    async fn calls_from_before_decide_nothing() {
        pause();
        let circuit = circuit();
        let (well, ill) = (circuit.enter().unwrap(), circuit.enter().unwrap());
        fail(&circuit, 3);

        well.succeeded();
        assert!(circuit.is_open());
        advance(OPEN / 2).await;
        ill.failed("timeout");

        assert_eq!(circuit.enter().unwrap_err(), OPEN / 2);
    }
}
