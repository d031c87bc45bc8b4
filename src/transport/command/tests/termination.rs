//! Processes end with their call, by force if they must.

use super::*;

#[tokio::test]
async fn a_dropped_call_ends_the_hook_and_its_children() {
    let fixture = Fixture::new();
    let pids = fixture
        .run_and_drop("sleep 1000 & echo $$ $!. > pids; sleep 1000")
        .await;

    fixture.wait_until_idle().await;

    assert_eq!(pids.len(), 2);
    assert!(pids.into_iter().all(is_dead));
}

#[tokio::test]
async fn a_terminated_hook_may_clean_up() {
    let fixture = Fixture::new();
    fixture
        .run_and_drop("trap 'echo bye; touch clean; exit' TERM; echo $$. > pids; sleep 1000 & wait")
        .await;

    fixture.wait_until_idle().await;

    assert!(fixture.file("clean").exists());
}

#[tokio::test]
async fn a_hook_that_ignores_sigterm_is_killed_two_seconds_later() {
    let fixture = Fixture::new();
    let pids = fixture
        .run_and_drop("trap '' TERM; sleep 1000 & echo $$ $!. > pids; sleep 1000")
        .await;

    let left = Instant::now();
    fixture.wait_until_idle().await;

    assert!(left.elapsed() >= Duration::from_secs(2));
    assert_eq!(pids.len(), 2);
    assert!(pids.into_iter().all(is_dead));
}

#[tokio::test]
async fn a_child_that_ignores_sigterm_outlives_its_parent_by_two_seconds_only() {
    let fixture = Fixture::new();
    let pids = fixture
        .run_and_drop("(trap '' TERM; exec sleep 1000) & echo $!. > pids; sleep 1000")
        .await;

    fixture.wait_until_idle().await;

    assert!(pids.into_iter().all(is_dead));
}

#[tokio::test]
async fn no_child_outlives_a_call() {
    let fixture = Fixture::new();

    let child = fixture
        .print("sleep 1000 <&- >&- 2>&- & echo child $!")
        .await;

    fixture.wait_until_idle().await;
    assert!(is_dead(pid(child.strip_prefix("child ").unwrap())));
}

#[tokio::test]
async fn a_child_that_holds_the_pipes_delays_the_output_briefly() {
    let fixture = Fixture::new();

    let started = Instant::now();
    let child = fixture.print("sleep 1000 & echo child $!").await;

    assert!(started.elapsed() >= Duration::from_millis(250));
    fixture.wait_until_idle().await;
    assert!(is_dead(pid(child.strip_prefix("child ").unwrap())));
}

#[tokio::test]
async fn processes_are_killed_even_when_the_runtime_is_gone() {
    let fixture = Fixture::new();
    let pids = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = Runtime::new().unwrap();
            runtime.block_on(
                fixture.run_and_drop("trap '' TERM; sleep 1000 & echo $$ $!. > pids; sleep 1000"),
            )
        });
        thread.join().unwrap()
    });

    for pid in pids {
        until(|| is_dead(pid).then_some(())).await;
    }
}
