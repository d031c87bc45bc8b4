use std::time::Duration;

use serde_json::json;

use super::*;
use crate::protocol;

#[tokio::test]
async fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let toolbox = Toolbox::new(
        TaskTracker::new(),
        Arc::new(Semaphore::new(4)),
        1 << 20,
        dir.path().into(),
    );
    let hook = build(
        "command",
        json!({"command":"cat >&2; exit 2"})
            .as_object()
            .unwrap()
            .clone(),
        &toolbox,
    )
    .unwrap();
    let context = Context::default();
    let call = HookCall {
        context: &context,
        event: EventName::BeforeTool,
        document: Bytes::from_static(b"no\n"),
        protocol: protocol::find("gemini").unwrap(),
    };
    let a = tokio::time::timeout(Duration::from_secs(5), hook.call(call))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(a.output.reason.as_deref(), Some("no"));
    toolbox.tasks.close();
    toolbox.tasks.wait().await;
    assert_eq!(toolbox.processes.available_permits(), 4);
}
