//! Hooks that run at the same time, within the process slots.

use super::*;

#[tokio::test]
async fn concurrent_hooks_are_limited_by_the_slots() {
    let mut fixture = Fixture::new();
    let most = 8;
    fixture.deps.slots = slots(most);
    let count = "touch run.$$; echo $(ls run.* | wc -l) at once; rm run.$$";

    let counts = join_all((0..64).map(|_| fixture.print(count))).await;

    assert_eq!(counts.len(), 64);
    for running in counts {
        let running = running.strip_suffix(" at once").unwrap().parse().unwrap();
        assert!((1..=most).contains(&running), "{running}");
    }
}

#[tokio::test]
async fn sixty_four_hooks_run_at_once() {
    let fixture = Fixture::new();
    // Each waits for all others.
    let meet = "touch here.$$; until [ $(ls here.* | wc -l) = 64 ]; do sleep 0.1; done; echo met";

    let printed = join_all((0..64).map(|_| fixture.print(meet))).await;

    assert_eq!(printed, vec!["met"; 64]);
    fixture.wait_until_idle().await;
}

#[tokio::test]
async fn hooks_are_counted_while_they_run() {
    let fixture = Fixture::new();
    let hook = fixture.hook("touch here; until [ -e enough ]; do sleep 0.1; done");

    let call = fixture.call(&*hook, b"{}".to_vec());
    let observe = async {
        until(|| fixture.file("here").exists().then_some(())).await;
        let running = fixture.deps.running.get();
        fs::write(fixture.file("enough"), "").unwrap();
        running
    };
    let (answer, running) = tokio::join!(call, observe);

    assert_eq!((answer.unwrap().status, running), (HookStatus::Ok, 1));
    fixture.wait_until_idle().await;
}

#[tokio::test]
async fn a_call_dropped_while_it_waits_starts_nothing() {
    let mut fixture = Fixture::new();
    fixture.deps.slots = slots(0);

    let waited = timeout(Duration::from_millis(50), fixture.run("touch here")).await;
    fixture.deps.slots.resize(1);

    assert!(waited.is_err());
    assert_eq!(fixture.print("ls").await, "");
    assert!(!fixture.file("here").exists());
}
