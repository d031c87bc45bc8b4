//! Shares of sessions, steps, and the statistics of aborts.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::*;

const RUNS: u64 = 1000;

fn settings(fields: Value) -> RolloutSettings {
    serde_json::from_value(fields).unwrap()
}

fn progress(fields: Value) -> RolloutProgress {
    RolloutProgress::new("a", "b", &settings(fields), false)
}

/// Numbers that are the same in every run (splitmix64), from 0 to 1.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        float((bits ^ (bits >> 31)) >> 11) / float(1 << 53)
    }
}

/// The chances of a call, which a regression changes.
#[derive(Clone, Copy)]
struct Chances {
    denied: f64,
    failed: f64,
    slow: f64,
}

impl Chances {
    fn call(self, dice: &mut Dice) -> CallOutcome {
        let millis = if dice.roll() < self.slow { 60 } else { 5 };
        CallOutcome {
            denied: dice.roll() < self.denied,
            hook_failed: dice.roll() < self.failed,
            hook_time: Duration::from_millis(millis),
        }
    }
}

const NORMAL: Chances = Chances {
    denied: 0.03,
    failed: 0.002,
    slow: 0.001,
};

/// Runs a rollout to 10 % until it is aborted or the candidate had `calls`. Gives the calls of
/// the candidate and the condition of the abort.
fn run(seed: u64, candidate: Chances, calls: u64) -> Option<(u64, &'static str)> {
    let limits = json!({ "newly_denied": "1%", "hook_failures": "0.5%", "hook_p99": "+20ms" });
    let rollout = progress(json!({ "to": "b", "percent": 10, "abort_if": limits }));
    let mut dice = Dice(seed);
    let mut of_candidate = 0;
    while of_candidate < calls {
        let (arm, chances) = if dice.roll() < 0.1 {
            of_candidate += 1;
            (RolloutArm::Candidate, candidate)
        } else {
            (RolloutArm::Current, NORMAL)
        };
        if let Some(RolloutChange::Abort(why)) = rollout.record(arm, chances.call(&mut dice)) {
            assert_eq!(rollout.share(), 0);
            return Some((of_candidate, why.measure));
        }
    }
    None
}

#[test]
fn a_regression_ends_the_rollout_at_the_two_hundredth_call() {
    let regressions = [
        (
            "newly_denied",
            Chances {
                denied: 0.18,
                ..NORMAL
            },
        ),
        (
            "hook_failures",
            Chances {
                failed: 0.15,
                ..NORMAL
            },
        ),
        (
            "hook_p99",
            Chances {
                slow: 0.15,
                ..NORMAL
            },
        ),
    ];
    for (measure, chances) in regressions {
        let found = (0..RUNS).filter(|seed| run(*seed, chances, 200) == Some((200, measure)));
        let found = found.count();
        assert!(found >= 990, "{measure}: {found} of {RUNS}");
    }
}

#[test]
fn hooks_slower_than_the_limit_end_the_rollout_and_faster_ones_do_not() {
    let rollout = |slowest: u64| {
        let limits = json!({ "hook_p99": "+20ms" });
        let rollout = progress(json!({ "to": "b", "percent": 50, "abort_if": limits }));
        let call = |millis| CallOutcome {
            hook_time: Duration::from_millis(millis),
            ..CallOutcome::default()
        };
        // The 99th percentile of the config in use is 139 ms.
        let aborted = (0..400).find_map(|number| {
            rollout.record(RolloutArm::Current, call(100 + number % 40));
            let slower = slowest - 40 + number % 41;
            rollout.record(RolloutArm::Candidate, call(slower))
        });
        aborted.is_some()
    };

    assert!(rollout(190));
    assert!(rollout(175));
    assert!(!rollout(139));
    assert!(!rollout(150));
}

#[test]
fn without_a_regression_the_rollout_continues() {
    for chances in [
        NORMAL,
        Chances {
            denied: 0.0,
            failed: 0.0,
            slow: 0.0,
        },
    ] {
        let aborted = (0..RUNS)
            .filter(|seed| run(*seed, chances, 5000).is_some())
            .count();
        assert!(aborted < 10, "{aborted} of {RUNS}");
    }
}

#[test]
fn a_session_keeps_its_config_while_the_share_grows() {
    let rollout = progress(json!({ "to": "b", "steps": [1, 10, 50, 100], "hold": "1m" }));
    let again = progress(json!({ "to": "b", "steps": [1, 10, 50, 100], "hold": "1m" }));
    let sessions: Vec<String> = (0..10_000).map(|number| format!("s{number}")).collect();
    let candidates = |rollout: &RolloutProgress| -> HashSet<&String> {
        let chosen = sessions.iter();
        let is_chosen = |id: &&String| rollout.arm_of("caller", id) == RolloutArm::Candidate;
        chosen.filter(is_chosen).collect()
    };
    let start = rollout.state.lock().step_began;
    let mut before = HashSet::new();
    for (minutes, share) in [(0, 1), (1, 10), (2, 50), (3, 100)] {
        let change = rollout.advance(start + Duration::from_mins(minutes));
        assert_eq!(change, (minutes > 0).then_some(RolloutChange::Step(share)));
        let now = candidates(&rollout);
        let expected = f64::from(share) * 100.0;
        let found = float(now.len() as u64);
        assert!(
            (found - expected).abs() <= 5.0 * expected.sqrt(),
            "{found} of {expected}"
        );
        assert!(before.is_subset(&now));
        if share == 1 {
            assert_eq!(candidates(&again), now, "another gateway");
        }
        before = now;
    }
    assert_eq!(rollout.advance(start + Duration::from_hours(1)), None);
}

#[test]
fn an_aborted_rollout_has_no_share_and_takes_no_step() {
    let fields = json!({ "to": "b", "percent": 10, "steps": [50], "hold": "1s" });
    let rollout = RolloutProgress::new("a", "b", &settings(fields), true);

    assert_eq!(rollout.takes_part("ci"), None);
    assert_eq!(
        rollout.advance(Instant::now() + Duration::from_hours(1)),
        None
    );
    let arms = (0..1000).map(|number| rollout.arm_of("caller", &number.to_string()));
    assert!(arms.into_iter().all(|arm| arm == RolloutArm::Current));
}

#[test]
fn other_callers_take_no_part() {
    let rollout = progress(json!({ "to": "b", "percent": 100, "callers": ["ci"], "by": "caller" }));

    assert_eq!(rollout.takes_part("ci"), Some(RolloutUnit::Caller));
    assert_eq!(rollout.takes_part("desk"), None);
}
