//! Rejected, failed and aborted calls, in the decision log and in the process log.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    AUDIT, hash,
    lines::{MODEL, SECRET, audited, stop_and_read_log},
    only,
};
use crate::harness::{
    Agent, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, chunked_head, decision_log,
    eventually, hook, next_chunk, prompt, read_to_end, run, wait_until_closed, write_chunk,
};
use crate::trace::calls;

/// Starts a gateway in a process of its own, with its config and log in a folder.
fn serve(upstream: &Upstream, config: &str) -> (ServerProcess, Agent, TempDir) {
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n{AUDIT}{config}",
        upstream.addr
    );
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    let agent = Agent::at(served.addr());
    (served, agent, folder)
}

/// Stops the gateway; returns its process log and the lines of its decision log.
async fn stop(served: ServerProcess, folder: &TempDir) -> (String, Vec<Value>) {
    served.terminate();
    let ended = tokio::task::spawn_blocking(move || served.ended(TEST_TIMEOUT));
    let (_, text) = ended.await.unwrap();
    (text, decision_log(&folder.path().join("audit.jsonl")))
}

#[tokio::test]
async fn a_rejected_request_is_logged_without_its_query() {
    let upstream = Upstream::mock().await;
    let config = format!("{AUDIT}admin: {{ listen: 127.0.0.1:0, token: {{ file: token }} }}\n");
    let gate = TestGateway::with_files(&upstream, &config, &[("token", "s3cret")]).await;

    gate.agent()
        .get(&format!("/v1beta/nowhere?key={SECRET}"))
        .await;
    gate.agent().post("/hookgate/v1/events", "{}").await;
    gate.operator().get("/metrics").await;

    let lines = stop_and_read_log(gate).await;
    let refused = lines.iter().filter(|line| line["kind"] == "rejected");
    let shape = |line: &Value| {
        let part = |key| line[key].as_str().unwrap_or_default().to_owned();
        (
            part("listener"),
            line["path"]["sha256"].as_str().unwrap().to_owned(),
            part("error"),
            line["status"].as_u64(),
        )
    };
    let expected = |listener: &str, path: &str, error: &str, status| {
        (
            listener.to_owned(),
            hash(path),
            error.to_owned(),
            Some(status),
        )
    };
    assert_eq!(
        refused.map(shape).collect::<Vec<_>>(),
        [
            expected("agents", "/v1beta/nowhere", "UNKNOWN_PATH", 403),
            expected("agents", "/hookgate/v1/events", "BAD_EVENT", 400),
            expected("operators", "/metrics", "UNAUTHENTICATED", 401),
        ]
    );
    let text = json!(lines).to_string();
    assert!(!text.contains(SECRET) && !text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn a_long_path_of_a_rejected_request_is_hashed_and_stored_as_a_whole() {
    let path = format!("/v1beta/{}", "x".repeat(1000));
    for content in [false, true] {
        let upstream = Upstream::mock().await;
        let config = format!("audit: {{ path: audit.jsonl, content: {content} }}\n");
        let gate = TestGateway::start(&upstream, &config).await;

        gate.agent().get(&path).await;

        let lines = stop_and_read_log(gate).await;
        let logged = &only(&lines, "rejected")["path"];
        assert_eq!(logged["sha256"], hash(&path));
        let text = content.then_some(path.as_str());
        assert_eq!(logged["text"].as_str(), text);
    }
}

#[tokio::test]
async fn the_name_of_a_denied_tool_is_truncated_in_the_process_log() {
    let answer = |part: Value| {
        let content = json!({ "role": "model", "parts": [part] });
        let answer = json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] });
        json!({ "method": "generateContent", "response": answer }).to_string()
    };
    let call = json!({ "functionCall": { "name": "x".repeat(100_000), "args": {} } });
    let answers = [answer(call), answer(json!({ "text": "fine" }))];
    let upstream = Upstream::scripted(&answers.join("\n")).await;
    let (served, agent, folder) = serve(
        &upstream,
        "policies: [{ policy: tool_guard, allow: [ls] }]\n",
    );

    let answered = agent.generate(MODEL, &prompt("hello")).await;

    assert_eq!(answered.status, 200);
    let (log, _) = stop(served, &folder).await;
    let line = log.lines().find(|line| line.contains("tool call denied"));
    let length = line.unwrap().len();
    assert!((256..1024).contains(&length), "{length}");
}

#[tokio::test]
async fn a_failed_call_is_logged_with_its_error() {
    let upstream = Upstream::raw(|_, socket| async move { drop(socket) }).await;
    let hooks = [("BeforeModel", hook::printing("look", &json!({})))];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;
    gate.agent()
        .post(&format!("/v1beta/models/{MODEL}:generateContent"), "{")
        .await;

    let lines = stop_and_read_log(gate).await;
    let outcomes: Vec<&Value> = lines
        .iter()
        .filter(|line| line["kind"] == "outcome")
        .collect();
    assert_eq!(outcomes[0]["error"], "UPSTREAM_UNREACHABLE");
    assert_eq!(
        (&outcomes[1]["error"], &outcomes[1]["status"]),
        (&json!("BAD_JSON"), &json!(400))
    );
    assert_eq!(
        (&outcomes[0]["rounds"], &outcomes[1]["rounds"]),
        (&json!(1), &json!(0))
    );
}

#[tokio::test]
async fn an_error_that_breaks_off_a_stream_is_logged_listed_and_exported() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        let head = chunked_head("text/event-stream");
        tokio::io::AsyncWriteExt::write_all(&mut socket, head.as_bytes())
            .await
            .unwrap();
        // Without a finish reason, the chunk does not wait for the next one.
        let chunk = r#"{"candidates":[{"content":{"parts":[{"text":"some words, "}]}}]}"#;
        let chunk = format!("data: {chunk}\r\n\r\n");
        write_chunk(&mut socket, chunk.as_bytes()).await.unwrap();
    })
    .await;
    for config in ["policies: [{ policy: redact, detect: [email] }]\n", ""] {
        assert_break_is_recorded(&upstream, config).await;
    }
}

/// Checks the records of a call whose stream the upstream breaks off.
async fn assert_break_is_recorded(upstream: &Upstream, config: &str) {
    let gate = TestGateway::start(upstream, &format!("{AUDIT}{config}")).await;

    let path = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");
    let (agent, body) = (gate.agent(), prompt("hi").to_string());
    // The connection may break before the head is read.
    if let Ok(mut answer) = agent.try_open(&path, body).await {
        while let Ok(Some(_)) = answer.chunk().await {}
    }

    let found = calls(&gate, "error=any", 1).await;
    let call = &found["calls"][0];
    let error = call["error"].as_str().unwrap_or_default();
    assert!(error.starts_with("UPSTREAM_"), "{call:#}");
    assert_eq!(
        (&call["status"], &call["end"]),
        (&json!(200), &json!("truncated"))
    );
    let log = gate.path("audit.jsonl");
    let folder = gate.stop_and_keep_files().await;
    let lines = decision_log(&log);
    let outcome = only(&lines, "outcome");
    assert_eq!(
        (&outcome["action"], &outcome["error"]),
        (&json!("pass"), &json!(error))
    );
    for (format, failure) in [
        ("ecs", r#""outcome":"failure""#),
        ("ocsf", r#""status":"Failure""#),
    ] {
        let export = ["audit", "export", "audit.jsonl", "--format", format];
        let (_, out, _) = run(&export, folder.path());
        assert!(out.contains(failure), "{format}: {out}");
    }
}

#[tokio::test]
async fn a_disconnected_agent_is_logged() {
    let upstream = Upstream::mock_with(mock_model_api::MockConfig {
        interval: Duration::from_millis(300),
        ..mock_model_api::MockConfig::default()
    })
    .await;
    let gate = TestGateway::start(&upstream, AUDIT).await;
    let path = gate.path("audit.jsonl");

    let target = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");
    let mut stream = gate
        .agent()
        .open(&target, prompt("one two three").to_string())
        .await;
    stream.chunk().await.unwrap();
    drop(stream);

    eventually("the outcome is logged", Duration::from_secs(5), || {
        decision_log(&path)
            .iter()
            .any(|line| line["ended"] == "client_disconnected")
    })
    .await;
}

#[tokio::test]
async fn a_rate_limited_caller_is_logged() {
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
    let (text, lines) = stop(served, &folder).await;
    let line = only(&lines, "rejected");
    assert_eq!(
        (&line["caller"]["name"], &line["error"]),
        (&json!("team-a"), &json!("RATE_LIMIT_EXCEEDED"))
    );
    let log_line = text
        .lines()
        .find(|line| line.contains("caller limit exceeded"));
    let log_line = log_line.unwrap_or_else(|| panic!("{text}"));
    for part in [
        "team-a",
        "RATE_LIMIT_EXCEEDED",
        refused.header("x-hookgate-request-id"),
    ] {
        assert!(log_line.contains(part), "{log_line}");
    }
}

#[tokio::test]
async fn suppressed_rejections_are_counted_in_front_of_the_next_line() {
    assert_suppressed_before("/v1beta/models").await;
    assert_suppressed_before("/v9/next").await;
}

/// Checks the count of a flood of rejections, behind which `next` is requested.
async fn assert_suppressed_before(next: &str) {
    let upstream = Upstream::mock().await;
    let (served, agent, folder) = serve(&upstream, "");
    let requests = 400;
    let path = folder.path().join("audit.jsonl");
    let suppressed = |lines: &[Value]| {
        let lines = lines.iter().filter(|line| line["kind"] == "suppressed");
        lines
            .filter_map(|line| line["requests"].as_u64())
            .sum::<u64>()
    };

    join_all((0..requests).map(|_| agent.get("/v9/x"))).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    agent.get(next).await;
    eventually("a line with the number", TEST_TIMEOUT, || {
        suppressed(&decision_log(&path)) > 0
    })
    .await;

    let (_, lines) = stop(served, &folder).await;
    let flooded = hash("/v9/x");
    let rejected = lines
        .iter()
        .filter(|line| line["path"]["sha256"] == *flooded);
    assert_eq!(rejected.count() as u64 + suppressed(&lines), requests);
}

#[tokio::test]
async fn a_rejected_event_has_its_caller_and_a_rejected_admin_request_its_user() {
    let upstream = Upstream::mock().await;
    let config = format!(
        "{AUDIT}auth: {{ keys: [{{ name: team-a, sha256: {} }}] }}\n\
         admin: {{ listen: 127.0.0.1:0, users: [\n\
         {{ name: vera, token: {{ file: vera }}, roles: [viewer] }}] }}\n",
        hash("a-key")
    );
    let gate = TestGateway::with_files(&upstream, &config, &[("vera", "vera-token")]).await;
    let agent = gate.agent().sending("x-hookgate-key", "a-key");
    let operator = gate
        .operator()
        .sending("authorization", "Bearer vera-token");

    let event = agent
        .report(&json!({ "hook_event_name": "Made-up" }), "")
        .await;
    let reload = operator.post("/reload", "").await;

    assert_eq!((event.status, reload.status), (400, 403));
    let lines = stop_and_read_log(gate).await;
    let rejected = lines.iter().filter(|line| line["kind"] == "rejected");
    let callers: Vec<(&Value, &Value)> = rejected
        .map(|line| (&line["error"], &line["caller"]["name"]))
        .collect();
    assert_eq!(
        callers,
        [
            (&json!("BAD_EVENT"), &json!("team-a")),
            (&json!("ROLE_REQUIRED"), &json!("vera"))
        ]
    );
}

#[tokio::test]
async fn a_call_aborted_by_the_drain_timeout_is_logged_as_aborted() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        let head = chunked_head("text/event-stream");
        tokio::io::AsyncWriteExt::write_all(&mut socket, head.as_bytes())
            .await
            .unwrap();
        write_chunk(&mut socket, b"data: {\"n\":1}\n\n")
            .await
            .unwrap();
        wait_until_closed(&mut socket).await;
    })
    .await;
    let (served, agent, folder) = serve(&upstream, "timeouts: { drain: 500ms }\n");
    let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
    let mut answer = agent.open(path, prompt("hang").to_string()).await;
    next_chunk(&mut answer).await;

    let (stopped, _) = tokio::join!(stop(served, &folder), read_to_end(&mut answer));

    let (text, lines) = stopped;
    assert_eq!(only(&lines, "outcome")["ended"], "aborted");
    let log_line = text.lines().find(|line| line.contains("exchange finished"));
    assert!(log_line.unwrap().contains("aborted"), "{text}");
}

#[tokio::test]
async fn the_upstream_of_a_call_is_logged() {
    let second = Upstream::mock().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let unreachable = listener.local_addr().unwrap();
    drop(listener);
    let fallback = format!(
        "upstreams: {{ gemini: {{ url: \"http://{unreachable}\", fallback: {{ url: \"http://{}\", \
         bearer: {{ file: token }} }} }} }}\n",
        second.addr
    );
    let deny = hook::config(&[("BeforeModel", hook::denying("guard", "no"))]);
    let cases = [
        (fallback, json!("fallback")),
        (String::new(), json!("primary")),
        (deny, Value::Null),
    ];
    for (config, expected) in cases {
        let config = format!("{AUDIT}{config}");
        let gate = TestGateway::with_files(&second, &config, &[("token", "SECOND")]).await;

        gate.agent().generate("m", &prompt("hello")).await;

        let lines = stop_and_read_log(gate).await;
        assert_eq!(only(&lines, "outcome")["upstream"], expected);
    }
}

#[tokio::test]
async fn a_hook_that_fails_is_logged_with_its_request() {
    let upstream = Upstream::mock().await;
    let mut broken = hook::command("broken", "sleep 60");
    broken["timeout"] = json!(50);
    let mut unclear = hook::command("unclear", "true");
    unclear["when"] = json!("request.max_output_tokens > 5");
    let hooks = hook::config(&[("BeforeModel", broken), ("BeforeModel", unclear)]);
    let (served, agent, folder) = serve(&upstream, &hooks);

    let answer = agent.generate("m", &prompt("hello")).await;

    let (text, _) = stop(served, &folder).await;
    let id = answer.header("x-hookgate-request-id");
    for message in ["hook failed", "condition evaluation failed"] {
        let log_line = text.lines().find(|line| line.contains(message));
        let log_line = log_line.unwrap_or_else(|| panic!("{message}: {text}"));
        assert!(log_line.contains(id), "{log_line}");
    }
}

#[test]
fn show_refuses_an_unknown_verdict() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("audit.jsonl"), "").unwrap();

    let show = ["audit", "show", "audit.jsonl", "--verdict", "nope"];
    let (code, _, stderr) = run(&show, folder.path());

    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("would_deny") && stderr.contains("respond"),
        "{stderr}"
    );
}
