//! Queue and memory budgets: calls beyond them are dropped and counted.

use futures_util::future::join_all;

use super::{ShadowGateway, evaluated_calls};
use crate::{
    families::family::ALL,
    replay::{
        changes::base,
        conversations::{Call, Topic},
    },
};

fn calls(count: usize) -> Vec<Call> {
    let calls = (0..count).map(|number| {
        let family = ALL[number % ALL.len()];
        let mut call = Call::single(family, true, Topic::Look, "ci");
        call.session = format!("session-{number}");
        call
    });
    calls.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beyond_the_queue_limit_are_dropped_and_counted() {
    let shadow = "sample: 1, budget: { queue: 1, cpu: 1% }";
    let gateway = ShadowGateway::start(&base(), &base(), shadow).await;

    let calls = calls(60);
    join_all(calls.iter().map(|call| call.make(&gateway.agent))).await;
    let status = gateway.wait_until("counted calls", |status| {
        evaluated_calls(status) + status["dropped"].as_u64().unwrap() == 60
    });
    let status = status.await;

    let dropped = status["dropped"].as_u64().unwrap();
    assert!(dropped > 0 && evaluated_calls(&status) > 0, "{status:#}");
    let series = "hookgate_shadow_dropped_total";
    assert_eq!(gateway.operator.metric(series).await, dropped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beyond_the_memory_budget_are_dropped_and_memory_is_released() {
    let shadow = "sample: 1, budget: { memory: 256KiB, cpu: 100% }";
    let gateway = ShadowGateway::start(&base(), &base(), shadow).await;
    let text = "lorem ipsum ".repeat(50_000);
    let mut large = Call::single(ALL[0], false, Topic::Text, "ci");
    large.turns[0].1.insert_str(0, &text);

    for _ in 0..3 {
        large.make(&gateway.agent).await;
    }
    // A call of the same session would wait for those.
    let small = Call::single(ALL[0], true, Topic::Text, "ci");
    small.make(&gateway.agent).await;
    let status = gateway.wait_until_evaluated(1).await;

    assert_eq!(status["dropped"], 3, "{status:#}");
    gateway
        .wait_until("free memory", |status| status["held_bytes"] == 0)
        .await;
}

/// Starts a gateway with short timeouts and a shadow with little memory, which denies calls of
/// `look`.
async fn gateway_with_little_memory() -> ShadowGateway {
    let live = format!(
        "{}timeouts: {{ first_byte: 1s, stream_idle: 1s }}\n",
        base()
    );
    // Names alone are not enough for this rule, so the session matters.
    let rules = "deny: [rm], rules: [{ tool: look, argument: /x, matches: '^b' }]";
    let next = base().replace("deny: [rm]", rules);
    let shadow = "sample: 1, budget: { memory: 256KiB, cpu: 100% }";
    ShadowGateway::start(&live, &next, shadow).await
}

/// Returns a call of the session `one`.
fn call_of_one_session(topic: Topic) -> Call {
    Call {
        session: "one".to_owned(),
        ..Call::single(ALL[0], false, topic, "ci")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_for_a_dropped_one_are_evaluated_after_the_timeouts_of_a_call() {
    let gateway = gateway_with_little_memory().await;
    // There is memory for its request, but not for its answer.
    let mut large = call_of_one_session(Topic::Text);
    let text = "lorem ipsum ".repeat(8_000);
    large.turns[0].1 = format!("hello [[text|{text}]]");

    let [first, last] = [Topic::Text, Topic::Look].map(call_of_one_session);
    for call in [first, large, last] {
        call.make(&gateway.agent).await;
    }
    let status = gateway.wait_until_evaluated(2).await;

    let counts = &status["report"]["counts"];
    assert_eq!(
        (&status["dropped"], &counts["unchanged"], &counts["unknown"]),
        (&1.into(), &1.into(), &1.into()),
        "{status:#}"
    );
    gateway
        .wait_until("free memory", |status| status["held_bytes"] == 0)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_behind_one_that_was_dropped_as_it_arrived_is_unknown_where_it_differs() {
    let gateway = gateway_with_little_memory().await;
    let mut large = call_of_one_session(Topic::Text);
    let text = "lorem ipsum ".repeat(50_000);
    large.turns[0].1.insert_str(0, &text);

    for call in [large, call_of_one_session(Topic::Look)] {
        call.make(&gateway.agent).await;
    }
    let status = gateway.wait_until_evaluated(1).await;

    let counts = &status["report"]["counts"];
    assert_eq!(
        (
            &status["dropped"],
            &counts["newly_denied"],
            &counts["unknown"]
        ),
        (&1.into(), &0.into(), &1.into()),
        "{status:#}"
    );
}
