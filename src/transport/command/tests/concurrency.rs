//! Hooks that run at the same time, within the process slots.

use super::*;

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
