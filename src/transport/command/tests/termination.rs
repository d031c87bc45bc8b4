//! Processes end with their call, by force if they must.

use super::*;

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
