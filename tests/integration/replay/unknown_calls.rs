//! Calls that a recording is not enough for, and what is known of them all the same.

use std::{collections::BTreeMap, fs, io, time::Duration};

use futures_util::{StreamExt, stream};
use reqwest::Body;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{
    changes::base,
    commands::fail_on_of_job,
    conversations::{Call, SECRET, Topic, TurnKind},
    recorded::{RecordedCalls, UPSTREAMS},
};
use crate::{
    families::family::Family,
    harness::{
        Agent, TEST_TIMEOUT, TestGateway, Upstream, chunked_head, eventually, next_chunk, prompt,
        read_to_end, wait_until_closed, write_chunk,
    },
};

/// A call whose prompt has a secret.
fn secret_call(topic: Topic, answer: &str) -> Call {
    Call {
        turns: vec![(TurnKind::User, format!("{topic:?} {SECRET} [[{answer}]]"))],
        ..Call::single(Family::Gemini, true, topic, "ci")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denials_by_names_count_for_calls_with_masked_texts() {
    let calls = [
        secret_call(Topic::BigModel, "text|ok"),
        secret_call(Topic::Look, "call|look|a"),
        secret_call(Topic::SecretPrompt, "text|ok"),
    ];
    let recorded = RecordedCalls::record_with(", redact: all", "", calls).await;
    let report = |policy: &str| {
        recorded.write_config("next.yaml", &format!("policies: [{{ {policy} }}]\n"));
        recorded.report("next.yaml", &[])
    };

    // A model, a tool, and texts that are not what the gateway saw.
    let texts = report("policy: prompt_guard, deny: [REDACTED]");
    let tools = report("policy: tool_guard, deny: [look]");
    let models = report("policy: model_allow, models: [m]");

    assert_eq!(models["counts"]["masked"], 3, "{models:#}");
    for (report, denied, unknown) in [(&models, 1, 0), (&tools, 1, 0), (&texts, 0, 3)] {
        assert_eq!(report["counts"]["newly_denied"], denied, "{report:#}");
        assert_eq!(report["counts"]["unknown"], unknown, "{report:#}");
    }
    let of_model = &models["rules"]["model_allow"]["newly_denied"];
    assert_eq!(of_model, 1, "{models:#}");
    for job in ["github", "gitlab"] {
        let condition = fail_on_of_job(job);
        let (code, _, err) = recorded.replay("next.yaml", &["--fail-on", &condition]);
        assert_eq!(code, 1, "{err}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masked_calls_are_unknown_under_another_policy_on_texts() {
    let calls = [
        secret_call(Topic::SecretPrompt, "text|ok"),
        Call::single(Family::Gemini, true, Topic::Text, "ci"),
    ];
    let config = |policies: &str| format!("policies: [{policies}]\n");
    let words = "{ policy: prompt_guard, name: words, deny: [forbidden] }";
    let recorded = RecordedCalls::record_with(", redact: all", &config(words), calls).await;
    let keys = "{ policy: prompt_guard, name: keys, deny: [AKIA] }";
    recorded.write_config("new.yaml", &config(&format!("{words}, {keys}")));
    recorded.write_config("changed.yaml", &config(&words.replace("forbidden", "AKIA")));

    let same = recorded.report("base.yaml", &[]);

    assert_eq!(same["counts"]["masked"], 1, "{same:#}");
    assert_eq!(same["counts"]["unchanged"], 2, "{same:#}");
    for next in ["new.yaml", "changed.yaml"] {
        let report = recorded.report(next, &[]);
        assert_eq!(report["unknown"]["masked"], 1, "{report:#}");
        assert_eq!(report["counts"]["unchanged"], 1, "{report:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_after_an_unknown_call_of_the_session_is_stale() {
    let hook = "hooks:
  BeforeTool: [{ hooks: [{ name: slow, command: \"cat > /dev/null; sleep 0.05; echo '{\\\"decision\\\":\\\"deny\\\",\\\"reason\\\":\\\"not here\\\"}'\" }] }]\n";
    let first = Call::single(Family::Gemini, false, Topic::Look, "ci");
    let answer = (TurnKind::Model, "then not".to_owned());
    let prompt = (TurnKind::User, "two [[text|ok]]".to_owned());
    let second = Call {
        turns: [&first.turns[..], &[answer, prompt]].concat(),
        ..first.clone()
    };
    let recorded = RecordedCalls::record(hook, [first, second]).await;
    let next = hook.replace("name: slow,", "name: slow, timeout: 30s,");
    recorded.write_config("next.yaml", &next);

    let same = recorded.report("base.yaml", &[]);
    let report = recorded.report("next.yaml", &[]);

    assert_eq!(same["counts"]["unchanged"], 2, "{same:#}");
    assert_eq!(report["unknown"]["hook_not_recorded"], 1, "{report:#}");
    assert_eq!(report["counts"]["edited"], 0, "{report:#}");
    assert_eq!(report["counts"]["stale"], 1, "{report:#}");
    for format in ["text", "markdown", "html"] {
        let (_, out, _) = recorded.replay("base.yaml", &["--format", format]);
        for part in ["recorded hooks", "gateway in the replay"] {
            assert!(out.contains(part), "{format} has no {part}: {out}");
        }
    }
}

/// Returns the calls of a conversation with a prompt that is denied. Two of them continue it with
/// different prompts, so that the second one forks the session, and the last call continues that.
fn forked_calls() -> Vec<Call> {
    let user = |text: &str| (TurnKind::User, text.to_owned());
    let model = |text: &str| (TurnKind::Model, text.to_owned());
    let start = [
        user("hello [[text|well]]"),
        model("well"),
        user("aurora"),
        model("This prompt is not allowed here."),
        user("go on [[text|fine]]"),
        model("fine"),
    ];
    let first = [1, 3, 5].map(|length| start[..length].to_vec());
    let branch = |text: &str| [&start[..], &[user(text)]].concat();
    let (one, other) = (branch("one [[text|ok]]"), branch("other [[text|ok]]"));
    let last = [&other[..], &[model("ok"), user("more [[text|ok]]")]].concat();
    let conversations = first.into_iter().chain([one, other, last]);
    let calls = conversations.map(|turns| Call {
        turns,
        session: String::new(),
        ..Call::single(Family::Gemini, false, Topic::Text, "ci")
    });
    calls.collect()
}

/// The base config with a policy that denies these prompts.
fn denying(prompts: &str) -> String {
    let policy = format!("policy: prompt_guard, name: words, deny: [{prompts}]");
    format!("{}  - {{ {policy} }}\n", base())
}

/// Records [`forked_calls`]. Returns the time of the one that forks the session.
async fn record_forked_calls() -> (RecordedCalls, String) {
    let send = async |agent: &Agent| {
        for call in forked_calls() {
            call.make(agent).await;
            // The fork has a time of its own.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let recorded = RecordedCalls::record_requests("", &denying("aurora"), send).await;
    let exchanges = recorded.exchanges();
    let sessions = exchanges
        .iter()
        .map(|exchange| exchange.session.as_ref().unwrap());
    let kinds: Vec<&str> = sessions.map(|session| &*session.match_kind).collect();
    let expected = [
        "new",
        "continued",
        "continued",
        "continued",
        "forked",
        "continued",
    ];
    assert_eq!(kinds, expected);
    let time = exchanges[4].time.clone();
    (recorded, time)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_of_a_session_that_is_not_recorded_is_unknown_where_it_differs() {
    let (recorded, time_of_fork) = record_forked_calls().await;

    let all = recorded.report("base.yaml", &[]);
    let forked = recorded.report("base.yaml", &["--since", &time_of_fork]);

    assert_eq!(all["counts"]["unchanged"], 6, "{all:#}");
    assert_eq!(forked["counts"]["calls"], 2, "{forked:#}");
    assert_eq!(forked["unknown"]["session_incomplete"], 2, "{forked:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_of_a_fork_is_stale_if_its_session_went_otherwise_before() {
    let (recorded, _time) = record_forked_calls().await;
    recorded.write_config("next.yaml", &denying("aurora, go on"));

    let report = recorded.report("next.yaml", &[]);

    let counts = &report["counts"];
    assert_eq!(counts["newly_denied"], 1, "{report:#}");
    assert_eq!(counts["edited"], 0, "{report:#}");
    assert_eq!(counts["stale"], 3, "{report:#}");
    assert_eq!(counts["unchanged"], 2, "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_no_calls_are_not_counted() {
    let send = async |agent: &Agent| {
        let call = Call::single(Family::Gemini, false, Topic::Text, "ci");
        assert_eq!(call.send(agent).await.status, 200);
        assert_eq!(agent.post("/v1beta/unknown", "{}").await.status, 403);
    };
    let recorded = RecordedCalls::record_requests("", "", send).await;

    let report = recorded.report("base.yaml", &[]);

    assert_eq!(recorded.exchanges().len(), 2);
    assert_eq!(report["counts"]["calls"], 1, "{report:#}");
    assert_eq!(report["counts"]["unchanged"], 1, "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_refused_before_its_body_was_read_is_no_edit() {
    let send = async |agent: &Agent| {
        let body = r#"{"model":"m","request":{"contents":[{"parts":[{"text":"hi"}]}]}}"#;
        let answer = agent.post("/v1internal:generateContent", body).await;
        let text = answer.text();
        assert!(text.contains("UPSTREAM_NOT_CONFIGURED"), "{text}");
    };
    let recorded = RecordedCalls::record_requests("", "", send).await;
    // Continues the section `upstreams`.
    let open = "  code_assist: { url: \"{upstream}\" }\n";
    recorded.write_config("open.yaml", open);
    let policies = "policies: [{ policy: prompt_guard, deny: [secret] }]\n";
    recorded.write_config("guarded.yaml", &format!("{open}{policies}"));

    let same = recorded.report("base.yaml", &[]);
    let passed = recorded.report("open.yaml", &[]);
    let guarded = recorded.report("guarded.yaml", &[]);

    assert_eq!(same["counts"]["unchanged"], 1, "{same:#}");
    assert_eq!(passed["counts"]["newly_allowed"], 1, "{passed:#}");
    assert_eq!(guarded["unknown"]["request_not_recorded"], 1, "{guarded:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_refused_and_is_denied_now_is_an_edit() {
    let call = Call::single(Family::Gemini, false, Topic::Text, "ci");
    let recorded = RecordedCalls::record("", [call]).await;
    let closed = "upstreams: { openai: { url: \"http://127.0.0.1:9\" } }\n";
    fs::write(recorded.path().join("closed.yaml"), closed).unwrap();
    let policies = "policies: [{ policy: model_allow, models: [none] }]\n";
    recorded.write_config("next.yaml", policies);

    let report = recorded.report("next.yaml", &["--against", "closed.yaml"]);

    assert_eq!(report["counts"]["newly_allowed"], 0, "{report:#}");
    assert_eq!(report["counts"]["edited"], 1, "{report:#}");
    assert_eq!(report["rules"]["model_allow"]["edited"], 1, "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_refused_for_its_query_is_unchanged() {
    let send = async |agent: &Agent| {
        for parameter in ["access_token=T", "upload_protocol=resumable"] {
            let path = format!("/v1beta/models/m:generateContent?{parameter}");
            let answer = agent.post(&path, prompt("hello").to_string()).await;
            let text = answer.text();
            assert!(text.contains("BAD_QUERY"), "{text}");
        }
    };
    let policies = "policies: [{ policy: model_allow, models: [m] }]\n";
    let recorded = RecordedCalls::record_requests("", policies, send).await;

    let report = recorded.report("base.yaml", &[]);

    assert_eq!(report["counts"]["unchanged"], 2, "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_of_a_call_with_a_masked_query_is_newly_denied() {
    let send = async |agent: &Agent| {
        let path = "/v1beta/models/m:generateContent?quotaUser=%28ann%40example.com%29";
        let answer = agent.post(path, prompt("bad idea").to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    let recorded = RecordedCalls::record_requests(", redact: all", "", send).await;
    let policies = "policies: [{ policy: prompt_guard, deny: [bad idea] }]\n";
    recorded.write_config("next.yaml", policies);

    let same = recorded.report("base.yaml", &[]);
    let report = recorded.report("next.yaml", &["--against", "base.yaml"]);

    assert_eq!(same["counts"]["masked"], 1, "{same:#}");
    assert_eq!(same["counts"]["unchanged"], 1, "{same:#}");
    assert_eq!(report["counts"]["newly_denied"], 1, "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_of_a_hook_whose_command_has_changed_is_unknown() {
    let hook = "hooks:
  BeforeTool: [{ hooks: [{ command: \"cat > /dev/null; echo '{\\\"decision\\\":\\\"deny\\\",\\\"reason\\\":\\\"not here\\\"}'\" }] }]\n";
    let call = Call::single(Family::Gemini, false, Topic::Look, "ci");
    let recorded = RecordedCalls::record(hook, [call]).await;
    recorded.write_config("next.yaml", &hook.replace("cat >", "cat - >"));
    let arguments: [&[&str]; 2] = [&[], &["--against", "base.yaml"]];
    for arguments in arguments {
        let report = recorded.report("next.yaml", arguments);

        assert_eq!(report["counts"]["newly_allowed"], 0, "{report:#}");
        assert_eq!(report["unknown"]["hook_not_recorded"], 1, "{report:#}");
    }
}

/// A model API whose answers never end.
async fn endless_upstream() -> Upstream {
    Upstream::raw(|_, mut socket| async move {
        let head = chunked_head("text/event-stream");
        socket.write_all(head.as_bytes()).await.unwrap();
        write_chunk(&mut socket, b"data: {}\n\n").await.unwrap();
        wait_until_closed(&mut socket).await;
    })
    .await
}

/// A gateway without rules that records everything, with further settings.
async fn recording_gateway(upstream: &Upstream, settings: &str) -> TestGateway {
    let record = "record: { path: recordings, what: { sample: 1 }, redact: none }\n";
    TestGateway::start(upstream, &format!("{UPSTREAMS}{record}{settings}")).await
}

/// Stops the gateway. Returns its recording of one call, which ended so.
async fn recorded_call(gateway: TestGateway, end: &str) -> RecordedCalls {
    let recorded = RecordedCalls {
        folder: gateway.stop_and_keep_files().await,
        calls: BTreeMap::new(),
    };
    let exchanges = recorded.exchanges();
    assert_eq!(exchanges.len(), 1);
    assert_eq!(exchanges[0].outcome.end, end);
    recorded
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_refused_now_is_newly_denied_although_its_agent_disconnected() {
    let upstream = endless_upstream().await;
    let gateway = recording_gateway(&upstream, "").await;
    let (path, body) = (Family::Gemini.path(true), prompt("hello").to_string());
    let mut answer = gateway.agent().open(path, body).await;
    next_chunk(&mut answer).await;
    drop(answer);
    let recorded = recorded_call(gateway, "client_disconnected").await;
    recorded.write_config("base.yaml", "");
    let key = "a".repeat(64);
    let callers = format!("auth: {{ keys: [{{ name: ci, sha256: {key} }}] }}\n");
    recorded.write_config("next.yaml", &callers);

    let same = recorded.report("base.yaml", &[]);
    let report = recorded.report("next.yaml", &[]);

    assert_eq!(same["counts"]["unchanged"], 1, "{same:#}");
    assert_eq!(report["counts"]["newly_denied"], 1, "{report:#}");
}

/// A model API whose answers begin with an address of e-mail, and break off or do not end.
async fn cut_upstream(end: &'static str) -> Upstream {
    let text = format!("write to ann@example.com {}", "and so on ".repeat(100));
    let chunk = json!({ "candidates": [{ "content": {
        "role": "model", "parts": [{ "text": text }] } }] });
    Upstream::raw(move |_, mut socket| {
        let event = format!("data: {chunk}\n\n");
        async move {
            let head = chunked_head("text/event-stream");
            socket.write_all(head.as_bytes()).await.unwrap();
            write_chunk(&mut socket, event.as_bytes()).await.unwrap();
            if end == "client_disconnected" {
                wait_until_closed(&mut socket).await;
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_begin_of_an_answer_that_was_cut_is_compared() {
    let redact = "policies: [{ policy: redact, detect: [email] }]\n";
    for end in ["truncated", "client_disconnected"] {
        let upstream = cut_upstream(end).await;
        let gateway = recording_gateway(&upstream, redact).await;
        let (path, body) = (Family::Gemini.path(true), prompt("hello").to_string());
        let mut answer = gateway.agent().open(path, body).await;
        let begin = next_chunk(&mut answer).await;
        assert!(begin.contains("REDACTED"), "{begin}");
        if end == "truncated" {
            read_to_end(&mut answer).await;
        }
        drop(answer);
        let recorded = recorded_call(gateway, end).await;
        recorded.write_config("base.yaml", redact);
        recorded.write_config("next.yaml", "");

        let same = recorded.report("base.yaml", &[]);
        let report = recorded.report("next.yaml", &[]);

        assert_eq!(same["counts"]["unchanged"], 1, "{end}: {same:#}");
        assert_eq!(report["counts"]["edited"], 1, "{end}: {report:#}");
        assert_eq!(report["rules"]["redact"]["edited"], 1, "{end}: {report:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_aborted_within_its_request_is_unknown() {
    let upstream =
        Upstream::raw(|_, mut socket| async move { wait_until_closed(&mut socket).await }).await;
    let gateway = recording_gateway(&upstream, "timeouts: { drain: 100ms }\n").await;
    let begin = stream::iter([Ok::<_, io::Error>("{\"contents\":[")]);
    let body = Body::wrap_stream(begin.chain(stream::pending()));
    let agent = gateway.agent();
    let call = async move { agent.try_open(Family::Gemini.path(true), body).await };
    tokio::spawn(call);
    eventually("the call goes upstream", TEST_TIMEOUT, || {
        upstream.connections() == 1
    })
    .await;
    let recorded = recorded_call(gateway, "aborted").await;
    let policies = "policies: [{ policy: prompt_guard, deny: [secret] }]\n";
    recorded.write_config("next.yaml", policies);

    let report = recorded.report("next.yaml", &[]);

    assert_eq!(report["unknown"]["request_not_recorded"], 1, "{report:#}");
}
