//! What hooks can do to a model call.

use serde_json::json;

use crate::harness::{Gate, Upstream, prompt};

#[tokio::test]
async fn a_model_swap_changes_the_path_that_upstream_sees() {
    let upstream = Upstream::mock().await;
    let gate = Gate::with_files(
        &upstream,
        "hooks: { BeforeModel: [{ hooks: [{ command: cat swap.json }] }] }",
        &[(
            "swap.json",
            r#"{"hookSpecificOutput":{"llm_request":{"model":"gemini-2.5-flash"}}}"#,
        )],
    )
    .await;

    let answer = gate
        .agent()
        .generate("gemini-2.5-pro", &prompt("hello"))
        .await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = upstream.only();
    assert_eq!(
        asked.path,
        "/v1beta/models/gemini-2.5-flash:generateContent"
    );
    assert_eq!(
        asked.json(),
        json!({ "contents": [{ "role": "user", "parts": [{ "text": "hello" }] }] })
    );
}
