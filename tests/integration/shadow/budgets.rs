//! Limits of queue and memory: what exceeds them is dropped and counted.

use futures_util::future::join_all;

use super::{Shadowed, judged};
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
async fn a_full_queue_drops_and_counts() {
    let shadow = "sample: 1, budget: { queue: 1, cpu: 1% }";
    let gateway = Shadowed::start(&base(), &base(), shadow).await;

    let calls = calls(60);
    join_all(calls.iter().map(|call| call.make(&gateway.agent))).await;
    let status = gateway.until("counted calls", |status| {
        judged(status) + status["dropped"].as_u64().unwrap() == 60
    });
    let status = status.await;

    let dropped = status["dropped"].as_u64().unwrap();
    assert!(dropped > 0 && judged(&status) > 0, "{status:#}");
    let series = "hookgate_shadow_dropped_total";
    assert_eq!(gateway.operator.metric(series).await, dropped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_is_used_up_drops_and_counts_and_is_free_again() {
    let shadow = "sample: 1, budget: { memory: 256KiB, cpu: 100% }";
    let gateway = Shadowed::start(&base(), &base(), shadow).await;
    let text = "lorem ipsum ".repeat(50_000);
    let mut large = Call::single(ALL[0], false, Topic::Text, "ci");
    large.turns[0].1.insert_str(0, &text);

    for _ in 0..3 {
        large.make(&gateway.agent).await;
    }
    let small = Call::single(ALL[0], false, Topic::Text, "ci");
    small.make(&gateway.agent).await;
    let status = gateway.until_judged(1).await;

    assert_eq!(status["dropped"], 3, "{status:#}");
    gateway
        .until("free memory", |status| status["held_bytes"] == 0)
        .await;
}
