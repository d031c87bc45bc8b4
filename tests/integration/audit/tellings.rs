//! Who was refused, where a call went, and how it ended: in both logs.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{AUDIT, hash, lines::ended, only};
use crate::harness::{
    Agent, PATIENCE, Served, TestGateway, Upstream, chunked_head, closed, decision_log, hook,
    piece, prompt, rest, run, write_chunk,
};

/// A gateway in a process of its own, and its folder.
fn serve(upstream: &Upstream, config: &str) -> (Served, Agent, TempDir) {
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n{AUDIT}{config}",
        upstream.addr
    );
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut served = Served::folder(folder.path());
    let agent = Agent::at(served.addr());
    (served, agent, folder)
}

/// Ends it; gives what it logged and what it wrote down.
async fn end(served: Served, folder: &TempDir) -> (String, Vec<Value>) {
    served.terminate();
    let ended = tokio::task::spawn_blocking(move || served.ended(PATIENCE));
    let (_, text) = ended.await.unwrap();
    (text, decision_log(&folder.path().join("audit.jsonl")))
}

#[tokio::test]
async fn a_caller_that_has_used_up_what_it_may_is_named() {
    let upstream = Upstream::mock().await;
    let callers = format!(
        "auth: {{ keys: [{{ name: team-a, sha256: {}, requests_per_minute: 1 }}] }}\n",
        hash("a-key")
    );
    let (served, agent, folder) = serve(&upstream, &callers);
    let agent = agent.sending("x-hookgate-key", "a-key");

    assert_eq!(agent.generate("m", &prompt("hi")).await.status, 200);
    let refused = agent.generate("m", &prompt("hi")).await;

    assert_eq!(refused.status, 429);
    let (text, lines) = end(served, &folder).await;
    let line = only(&lines, "rejected");
    assert_eq!(
        (&line["caller"]["name"], &line["error"]),
        (&json!("team-a"), &json!("RATE_LIMIT_EXCEEDED"))
    );
    let said = text.lines().find(|it| it.contains("caller limit exceeded"));
    let said = said.unwrap_or_else(|| panic!("{text}"));
    for part in [
        "team-a",
        "RATE_LIMIT_EXCEEDED",
        refused.header("x-hookgate-request-id"),
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[tokio::test]
async fn a_call_that_is_cut_off_is_said_to_be() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        let head = chunked_head("text/event-stream");
        tokio::io::AsyncWriteExt::write_all(&mut socket, head.as_bytes())
            .await
            .unwrap();
        write_chunk(&mut socket, b"data: {\"n\":1}\n\n")
            .await
            .unwrap();
        closed(&mut socket).await;
    })
    .await;
    let (served, agent, folder) = serve(&upstream, "timeouts: { drain: 500ms }\n");
    let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
    let mut answer = agent.open(path, prompt("hang").to_string()).await;
    piece(&mut answer).await;

    let (ended, _) = tokio::join!(end(served, &folder), rest(&mut answer));

    let (text, lines) = ended;
    assert_eq!(only(&lines, "outcome")["ended"], "aborted");
    let said = text.lines().find(|it| it.contains("exchange finished"));
    assert!(said.unwrap().contains("aborted"), "{text}");
}

#[tokio::test]
async fn where_a_call_went_is_known() {
    let second = Upstream::mock().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let fallback = format!(
        "upstreams: {{ gemini: {{ url: \"http://{nobody}\", fallback: {{ url: \"http://{}\", \
         bearer: {{ file: token }} }} }} }}\n",
        second.addr
    );
    let deny = hook::config(&[("BeforeModel", hook::refusing("guard", "no"))]);
    let cases = [
        (fallback, json!("fallback")),
        (String::new(), json!("primary")),
        (deny, Value::Null),
    ];
    for (config, wanted) in cases {
        let config = format!("{AUDIT}{config}");
        let gate = TestGateway::with_files(&second, &config, &[("token", "SECOND")]).await;

        gate.agent().generate("m", &prompt("hello")).await;

        let lines = ended(gate).await;
        assert_eq!(only(&lines, "outcome")["upstream"], wanted);
    }
}

#[tokio::test]
async fn a_hook_that_fails_is_logged_with_its_request() {
    let upstream = Upstream::mock().await;
    let mut broken = hook::running("broken", "sleep 60");
    broken["timeout"] = json!(50);
    let mut unclear = hook::running("unclear", "true");
    unclear["when"] = json!("request.max_output_tokens > 5");
    let hooks = hook::config(&[("BeforeModel", broken), ("BeforeModel", unclear)]);
    let (served, agent, folder) = serve(&upstream, &hooks);

    let answer = agent.generate("m", &prompt("hello")).await;

    let (text, _) = end(served, &folder).await;
    let id = answer.header("x-hookgate-request-id");
    for message in ["hook failed", "condition evaluation failed"] {
        let said = text.lines().find(|it| it.contains(message));
        let said = said.unwrap_or_else(|| panic!("{message}: {text}"));
        assert!(said.contains(id), "{said}");
    }
}

#[test]
fn a_verdict_that_no_line_has_is_refused() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("audit.jsonl"), "").unwrap();

    let show = ["audit", "show", "audit.jsonl", "--verdict", "nope"];
    let (code, _, said) = run(&show, folder.path());

    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("would_deny") && said.contains("respond"),
        "{said}"
    );
}
