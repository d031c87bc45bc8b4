//! Tests generated from calls: they end as the call did, or the page states why they may not.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::calls::{
    generated_test, test_file, text_answer, tool_call_answer, upstream_with_answers, wait_for_rows,
};
use crate::harness::{
    Agent, Answer, Browser, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, hook, prompt,
    read_to_end, respond, run,
};

const CONTENT: &str = "trace: { content: { denied_or_edited: true } }\n";

/// Starts a gateway whose config is also in its folder.
async fn gateway_with_file(upstream: &Upstream, config: &str) -> TestGateway {
    let gateway = TestGateway::start(upstream, config).await;
    std::fs::write(gateway.path("hookgate.yaml"), config).unwrap();
    gateway
}

/// Returns the test of a denied call, and its page.
async fn test_of(gateway: &TestGateway, answer: &Answer) -> (String, String) {
    let browser = Browser::at(gateway);
    wait_for_rows(&browser, "?verdict=deny", 1).await;
    let id = answer.header("x-hookgate-request-id");
    let address = format!("/console/calls/{id}/test");
    let test = generated_test(&browser, &address).await;
    (test, browser.get(&address).await.html)
}

fn run_test(folder: &Path, test: &str) -> (i32, String) {
    std::fs::write(folder.join("denial.yaml"), test).unwrap();
    let (code, out, errors) = run(&["test", "denial.yaml"], folder);
    (code, out + &errors)
}

/// Waits until a page has a text.
async fn wait_for_text(browser: &Browser, path: &str, text: &str) -> String {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let page = browser.get(path).await.html;
        if page.contains(text) {
            return page;
        }
        assert!(Instant::now() < deadline, "no {text} in {page}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn numbers_of_a_call_are_in_its_test_as_they_were_sent() {
    let big = "12345678901234567890123";
    for (rule, number) in [
        ("matches: '^[0-9]+$'", "1.0"),
        ("matches: '^[0-9]+$'", "1e5"),
        ("matches: '^[0-9]+$'", "-0.0"),
        (&*format!("not_matches: '^{big}$'"), big),
    ] {
        let arguments = serde_json::from_str(&format!("{{\"n\":{number}}}")).unwrap();
        let answers = [tool_call_answer("pay", &arguments), text_answer("ok")];
        let upstream = upstream_with_answers(&answers).await;
        let rule = format!("{{ tool: pay, argument: /n, {rule} }}");
        let config = format!("{CONTENT}policies: [{{ policy: tool_guard, rules: [{rule}] }}]\n");
        let gateway = gateway_with_file(&upstream, &config).await;

        let answer = gateway.agent().generate("m", &prompt("pay")).await;
        let (test, _) = test_of(&gateway, &answer).await;

        let (code, out) = run_test(gateway.path("").as_path(), &test);
        assert_eq!(code, 0, "{number}: {out}\n{test}");
    }
}

#[tokio::test]
async fn a_test_has_the_name_of_its_session() {
    let config = format!(
        "{CONTENT}policies: [{{ policy: prompt_guard, deny: [aurora], when: 'session.id == \"ci\"' }}]\n"
    );
    for (path, header) in [
        ("/v1beta/models/m:generateContent", Some("ci")),
        ("/s/ci/v1beta/models/m:generateContent", None),
    ] {
        let upstream = Upstream::mock().await;
        let gateway = gateway_with_file(&upstream, &config).await;
        let mut agent = gateway.agent();
        if let Some(name) = header {
            agent = agent.sending("x-hookgate-session", name);
        }

        let answer = agent.post(path, prompt("aurora").to_string()).await;
        let (test, _) = test_of(&gateway, &answer).await;

        let (code, out) = run_test(gateway.path("").as_path(), &test);
        assert_eq!(code, 0, "{path}: {out}\n{test}");
    }
}

#[tokio::test]
async fn chunks_behind_a_finish_reason_are_of_the_same_answer() {
    let usage = json!({ "usageMetadata": { "totalTokenCount": 9 }, "modelVersion": "m" });
    let upstream = Upstream::with(move |asked| {
        let first = if asked.body.contains("functionResponse") {
            text_answer("the second answer")
        } else {
            tool_call_answer("run_shell_command", &json!({ "command": "ls" }))
        };
        let events = format!("data: {first}\r\n\r\ndata: {usage}\r\n\r\n");
        respond(200, "text/event-stream", events)
    })
    .await;
    let config =
        format!("{CONTENT}policies: [{{ policy: tool_guard, deny: [run_shell_command] }}]\n");
    let gateway = gateway_with_file(&upstream, &config).await;

    let answer = gateway.agent().stream("m", &prompt("list files")).await;
    let (test, page) = test_of(&gateway, &answer).await;

    assert_eq!(upstream.requests().len(), 2);
    assert!(!page.contains("answers of the model API"), "{page}");
    let (_, second) = test.split_once("then:").unwrap();
    assert!(second.contains("the second answer"), "{test}");
    let (code, out) = run_test(gateway.path("").as_path(), &test);
    assert_eq!(code, 0, "{out}\n{test}");
}

#[tokio::test]
async fn a_test_whose_answers_are_not_kept_has_a_note() {
    let arguments = json!({ "command": "x".repeat(2_200_000) });
    let large = tool_call_answer("run_shell_command", &arguments);
    let upstream = upstream_with_answers(&[large, text_answer("ok")]).await;
    let config =
        format!("{CONTENT}policies: [{{ policy: tool_guard, deny: [run_shell_command] }}]\n");
    let gateway = gateway_with_file(&upstream, &config).await;

    let answer = gateway.agent().generate("m", &prompt("list files")).await;
    let (_, page) = test_of(&gateway, &answer).await;
    let id = answer.header("x-hookgate-request-id");
    let browser = Browser::at(&gateway);
    let trial = browser.get(&format!("/console/try?call={id}")).await.html;

    for page in [page, trial] {
        assert!(page.contains("model API are not kept"), "{page}");
    }
}

#[tokio::test]
async fn a_number_that_no_test_can_have_is_named_on_the_page() {
    let upstream = Upstream::mock().await;
    let config = format!("{CONTENT}policies: [{{ policy: prompt_guard, deny: [aurora] }}]\n");
    let gateway = gateway_with_file(&upstream, &config).await;
    let body = prompt("aurora").to_string();
    let body = body.replacen('{', "{\"labels\":{\"n\":1e400},", 1);

    let path = "/v1beta/models/m:generateContent";
    let answer = gateway.agent().post(path, body).await;
    let (_, page) = test_of(&gateway, &answer).await;

    assert!(page.contains("Replace or remove them"), "{page}");
}

#[tokio::test]
async fn a_text_that_its_indentation_makes_too_large_is_not_shown() {
    let upstream = Upstream::mock().await;
    let config = format!("{CONTENT}policies: [{{ policy: prompt_guard, deny: [aurora] }}]\n");
    let gateway = gateway_with_file(&upstream, &config).await;
    let numbers = format!("[{}0]", "0,".repeat(240_000));
    let nested = (0..20).fold(numbers, |inner, _| format!("[{inner}]"));
    let body = prompt("aurora").to_string();
    let body = body.replacen('{', &format!("{{\"labels\":{{\"n\":{nested}}},"), 1);

    let path = "/v1beta/models/m:generateContent";
    let answer = gateway.agent().post(path, body).await;
    let id = answer.header("x-hookgate-request-id");
    let browser = Browser::at(&gateway);
    wait_for_rows(&browser, "?verdict=deny", 1).await;

    for path in [
        format!("/console/calls/{id}/test"),
        format!("/console/try?call={id}"),
    ] {
        let page = wait_for_text(&browser, &path, "too large for a page").await;
        assert!(page.len() < 1_000_000, "{path}: {} bytes", page.len());
    }
}

#[tokio::test]
async fn a_test_names_the_config_of_a_rollout_that_alone_has_the_rule() {
    for content in [CONTENT, ""] {
        let call = tool_call_answer("run_shell_command", &json!({ "command": "ls" }));
        let upstream = upstream_with_answers(&[call, text_answer("ok")]).await;
        let folder = TempDir::new().unwrap();
        let rest = format!(
            "{content}upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nrevisions: {{ path: revisions }}\n",
            upstream.addr
        );
        let guard = |tool: &str| format!("policies: [{{ policy: tool_guard, deny: [{tool}] }}]\n");
        let rollout = "rollout: { to: next.yaml, percent: 100 }\n";
        let files = [
            (
                "next.yaml",
                format!("# next\n{}{rest}", guard("run_shell_command")),
            ),
            ("hookgate.yaml", format!("{}{rest}{rollout}", guard("read"))),
        ];
        for (name, text) in &files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let mut served = ServerProcess::folder(folder.path());
        let agent = Agent::at(served.addr());
        let browser = Browser::at_address(served.operators());

        let answer = agent.generate("m", &prompt("list files")).await;
        wait_for_rows(&browser, "?verdict=deny", 1).await;
        let test = if content.is_empty() {
            test_file(&browser.get("/console/denials").await.html)
        } else {
            let id = answer.header("x-hookgate-request-id");
            generated_test(&browser, &format!("/console/calls/{id}/test")).await
        };

        assert!(test.contains("next.yaml"), "{test}");
        let (code, out) = run_test(folder.path(), &test);
        assert_eq!(code, 0, "{out}\n{test}");
    }
}

#[tokio::test]
async fn a_call_that_an_error_ended_has_no_decision_to_test() {
    let upstream = Upstream::with(|_| respond(302, "text/plain", "")).await;
    let config = "trace: { content: { sample: 1.0 } }\npolicies: [{ policy: prompt_guard, deny: [aurora] }]\n";
    let gateway = gateway_with_file(&upstream, config).await;
    let browser = Browser::at(&gateway);

    let answer = gateway.agent().generate("m", &prompt("hello")).await;
    let id = answer.header("x-hookgate-request-id");
    let content = gateway.operator();
    crate::trace::until(
        &content,
        &format!("/calls/{id}/content"),
        |found: &Value| found["id"].is_string(),
    )
    .await;
    let path = format!("/console/calls/{id}/test");
    let page = wait_for_text(&browser, &path, "<h1").await;

    assert!(page.contains("UPSTREAM_REDIRECT"), "{page}");
    assert!(!page.contains("verdict: proceed"), "{page}");
}

#[tokio::test]
async fn a_denial_behind_very_many_edits_is_tested_as_one() {
    let upstream = Upstream::mock().await;
    let context = json!({ "hookSpecificOutput": { "additionalContext": "noted" } });
    let hooks = hook::config(&[
        ("AfterTool", hook::printing("note", &context)),
        ("BeforeModel", hook::denying("guard", "no")),
    ]);
    let gateway = gateway_with_file(&upstream, &format!("{CONTENT}{hooks}")).await;
    let mut contents = vec![json!({ "role": "user", "parts": [{ "text": "read all" }] })];
    for number in 0..350 {
        let call = json!({ "name": "read", "args": { "page": number } });
        let result = json!({ "name": "read", "response": { "page": number } });
        contents.push(json!({ "role": "model", "parts": [{ "functionCall": call }] }));
        contents.push(json!({ "role": "user", "parts": [{ "functionResponse": result }] }));
    }

    let body = json!({ "contents": contents });
    let answer = gateway.agent().generate("m", &body).await;
    let (test, page) = test_of(&gateway, &answer).await;
    let id = answer.header("x-hookgate-request-id");
    let record = gateway.operator().get(&format!("/calls/{id}")).await.json();

    let dropped = record["call"]["detail"]["dropped_details"].as_u64();
    assert!(dropped > Some(0), "{dropped:?}");
    assert!(test.contains("verdict: deny"), "{page}");
    let (code, out) = run_test(gateway.path("").as_path(), &test);
    assert_eq!(code, 0, "{out}");
}

#[tokio::test]
async fn a_test_of_a_session_with_earlier_calls_or_events_has_a_note() {
    let guard = hook::command(
        "guard",
        "grep -q aurora && { echo no >&2; exit 2; }; exit 0",
    );
    let config = format!(
        "{CONTENT}policies: [{{ policy: redact, detect: [email] }}]\n{}",
        hook::config(&[("BeforeAgent", guard)])
    );
    let content = |role: &str, text: &str| json!({ "role": role, "parts": [{ "text": text }] });
    let later = json!({ "contents": [
        content("user", "aurora"), content("model", "no"), content("user", "mail bob@example.com"),
    ] });
    let event =
        json!({ "hook_event_name": "BeforeAgent", "session_id": "reported", "prompt": "hello" });
    let upstream = Upstream::mock().await;
    let gateway = gateway_with_file(&upstream, &config).await;
    let named = |name: &str| gateway.agent().sending("x-hookgate-session", name);

    let first = named("calls").generate("m", &prompt("aurora")).await;
    let second = named("calls").generate("m", &later).await;
    gateway.agent().report(&event, "").await;
    let body = prompt("mail bob@example.com");
    let reported = named("reported").generate("m", &body).await;

    for (answer, has_note) in [(first, false), (second, true), (reported, true)] {
        let (test, page) = test_of(&gateway, &answer).await;
        let found = page.contains("begins a new session");
        assert_eq!(found, has_note, "{test}\n{page}");
    }
}

#[tokio::test]
async fn a_test_of_a_continued_response_has_a_note() {
    let content = json!([{ "type": "output_text", "text": "ok", "annotations": [] }]);
    let message = json!({ "id": "msg_1", "type": "message", "status": "completed",
        "role": "assistant", "content": content });
    let response = json!({ "id": "resp_1", "object": "response", "status": "completed",
        "model": "m", "store": true, "output": [message] });
    let upstream = Upstream::answering(&response).await;
    let config = format!(
        "{CONTENT}upstreams: {{ openai: {{ url: \"{{upstream}}\" }} }}\n\
         coverage: {{ allow: [responses.state] }}\n\
         policies: [{{ policy: prompt_guard, deny: [aurora] }}]\n"
    );
    let gateway = gateway_with_file(&upstream, &config).await;
    let first = json!({ "model": "m", "input": "hello", "store": true });
    let second = json!({ "model": "m", "input": "aurora", "previous_response_id": "resp_1" });

    let agent = gateway.agent();
    let answer = agent.post("/v1/responses", first.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = agent.post("/v1/responses", second.to_string()).await;
    let (_, page) = test_of(&gateway, &answer).await;

    assert!(page.contains("<code>previous_response_id</code>"), "{page}");
}

#[tokio::test]
async fn a_test_of_a_failed_hook_has_a_note() {
    for (command, has_note) in [("exit 3", true), ("echo no >&2; exit 2", false)] {
        let upstream = Upstream::mock().await;
        let mut guard = hook::command("guard", command);
        guard["on_failure"] = json!("closed");
        let hooks = hook::config(&[("BeforeModel", guard)]);
        let gateway = gateway_with_file(&upstream, &format!("{CONTENT}{hooks}")).await;

        let answer = gateway.agent().generate("m", &prompt("hello")).await;
        let (_, page) = test_of(&gateway, &answer).await;

        let found = page.contains("A hook failed in this call");
        assert_eq!(found, has_note, "{command}: {page}");
    }
}

#[tokio::test]
async fn a_test_of_a_caller_without_a_name_has_a_note_on_its_key() {
    for (condition, has_note) in [("caller.key != \"\"", true), ("caller.name == \"\"", false)] {
        let upstream = Upstream::mock().await;
        let config = format!(
            "{CONTENT}policies: [{{ policy: prompt_guard, deny: [aurora], when: '{condition}' }}]\n"
        );
        let gateway = gateway_with_file(&upstream, &config).await;
        let agent = gateway.agent().sending("x-goog-api-key", "key-of-an-agent");

        let answer = agent.generate("m", &prompt("aurora")).await;
        let (_, page) = test_of(&gateway, &answer).await;

        let found = page.contains("<code>caller.key</code>");
        assert_eq!(found, has_note, "{condition}: {page}");
    }
}

#[tokio::test]
async fn a_test_of_a_call_that_the_model_api_answers_with_an_error_has_a_note() {
    let error = json!({ "error": { "code": 500, "message": "no", "status": "INTERNAL" } });
    let upstream =
        Upstream::with(move |_| respond(500, "application/json", error.to_string())).await;
    let config = format!("{CONTENT}policies: [{{ policy: redact, detect: [email] }}]\n");
    let gateway = gateway_with_file(&upstream, &config).await;

    let body = prompt("mail bob@example.com");
    let answer = gateway.agent().generate("m", &body).await;
    let id = answer.header("x-hookgate-request-id");
    let path = format!("/console/calls/{id}/test");
    let page = wait_for_text(&Browser::at(&gateway), &path, "<pre tabindex").await;

    assert_eq!(answer.status, 500, "{}", answer.text());
    assert!(page.contains("answered with an error"), "{page}");
}

/// Starts a gateway that keeps the content of all calls.
async fn sampling_gateway(upstream: &Upstream) -> TestGateway {
    let config =
        "trace: { content: { sample: 1.0 } }\npolicies: [{ policy: redact, detect: [email] }]\n";
    gateway_with_file(upstream, config).await
}

#[tokio::test]
async fn a_test_of_a_stream_that_an_error_ended_expects_the_error() {
    let content = json!({ "role": "model", "parts": [{ "text": "Hi." }] });
    let chunk = json!({ "candidates": [{ "content": content, "index": 0 }] });
    let error = json!({ "error": { "code": 503, "message": "no", "status": "UNAVAILABLE" } });
    let events = format!("data: {chunk}\r\n\r\ndata: {error}\r\n\r\n");
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
    let gateway = sampling_gateway(&upstream).await;

    let answer = gateway.agent().stream("m", &prompt("hello")).await;
    let id = answer.header("x-hookgate-request-id");
    let path = format!("/console/calls/{id}/test");
    let test = generated_test(&Browser::at(&gateway), &path).await;

    assert!(test.contains("verdict: error"), "{test}");
    let (code, out) = run_test(gateway.path("").as_path(), &test);
    assert_eq!(code, 0, "{out}\n{test}");
}

#[tokio::test]
async fn a_test_of_an_answer_that_is_an_error_alone_has_a_note() {
    let error = json!({ "error": { "code": 503, "message": "no", "status": "UNAVAILABLE" } });
    let upstream = Upstream::answering(&error).await;
    let gateway = sampling_gateway(&upstream).await;
    let (agent, browser) = (gateway.agent(), Browser::at(&gateway));

    let whole = agent.generate("m", &prompt("hello")).await;
    let stream = agent.stream("m", &prompt("hi")).await;

    for answer in [whole, stream] {
        let id = answer.header("x-hookgate-request-id");
        let path = format!("/console/calls/{id}/test");
        let test = generated_test(&browser, &path).await;
        let (code, out) = run_test(gateway.path("").as_path(), &test);
        assert_eq!(code, 0, "{out}\n{test}");
        for path in [path, format!("/console/try?call={id}")] {
            let page = browser.get(&path).await.html;
            assert!(page.contains("in no form that a trial can read"), "{page}");
        }
    }
}

/// Starts a gateway with a hook that denies answers of OpenAI's APIs with "aurora".
async fn openai_gateway(upstream: &Upstream) -> TestGateway {
    let hook = "{ name: words, command: \"grep -q aurora && exit 2; exit 0\" }";
    let config = format!(
        "{CONTENT}upstreams: {{ openai: {{ url: \"http://{}\" }} }}\n\
         hooks: {{ AfterModel: [{{ hooks: [{hook}] }}] }}\n",
        upstream.addr
    );
    gateway_with_file(upstream, &config).await
}

#[tokio::test]
async fn a_test_of_a_denied_thought_has_the_thought() {
    let summary = json!([{ "type": "summary_text", "text": "aurora" }]);
    let content = json!([{ "type": "output_text", "text": "ok", "annotations": [] }]);
    let output = json!([
        { "id": "rs_1", "type": "reasoning", "summary": summary },
        { "id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content },
    ]);
    let response = json!({ "id": "resp_1", "object": "response", "status": "completed",
        "model": "m", "output": output });
    let upstream = Upstream::answering(&response).await;
    let gateway = openai_gateway(&upstream).await;
    let request = json!({ "model": "m", "input": "hello" });

    let agent = gateway.agent();
    let answer = agent.post("/v1/responses", request.to_string()).await;
    let (test, _) = test_of(&gateway, &answer).await;

    let (code, out) = run_test(gateway.path("").as_path(), &test);
    assert_eq!(code, 0, "{out}\n{test}");
}

#[tokio::test]
async fn a_test_of_an_answer_with_two_choices_has_a_note() {
    let choice = |index: usize, text: &str| {
        let message = json!({ "role": "assistant", "content": text });
        json!({ "index": index, "message": message, "finish_reason": "stop" })
    };
    let response = json!({ "id": "chatcmpl-1", "object": "chat.completion", "model": "m",
        "choices": [choice(0, "ok"), choice(1, "aurora")] });
    let upstream = Upstream::answering(&response).await;
    let gateway = openai_gateway(&upstream).await;
    let messages = json!([{ "role": "user", "content": "hello" }]);
    let request = json!({ "model": "m", "n": 2, "messages": messages });

    let agent = gateway.agent();
    let path = "/v1/chat/completions";
    let answer = agent.post(path, request.to_string()).await;
    let (_, page) = test_of(&gateway, &answer).await;

    assert!(page.contains("more than one choice"), "{page}");
}

#[tokio::test]
async fn a_test_of_a_stream_that_an_error_of_the_model_api_breaks_off_has_a_note() {
    let error = r#"{"error":{"code":500,"message":"no","status":"INTERNAL"}}"#;
    let upstream = Upstream::with(move |_| respond(500, "application/json", error)).await;
    let slow = hook::command("slow", "cat > /dev/null; sleep 0.5");
    let settings = "timeouts: { keep_alive: 50ms }\n\
                    policies: [{ policy: redact, detect: [email] }]\n";
    let hooks = hook::config(&[("BeforeModel", slow)]);
    let gateway = gateway_with_file(&upstream, &format!("{CONTENT}{settings}{hooks}")).await;

    let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
    let body = prompt("mail bob@example.com").to_string();
    let mut answer = gateway.agent().open(path, body).await;
    read_to_end(&mut answer).await;
    let id = answer.headers()["x-hookgate-request-id"].to_str().unwrap();
    let path = format!("/console/calls/{id}/test");
    let page = wait_for_text(&Browser::at(&gateway), &path, "<pre tabindex").await;

    assert_eq!(answer.status().as_u16(), 200);
    assert!(page.contains("answered with an error"), "{page}");
}

#[tokio::test]
async fn a_test_of_a_request_that_is_too_large_has_a_note() {
    let upstream = Upstream::mock().await;
    let config = format!("{CONTENT}policies: [{{ policy: request_limits, max_input: 100B }}]\n");
    let gateway = gateway_with_file(&upstream, &config).await;

    let body = prompt(&"x".repeat(1_000));
    let answer = gateway.agent().generate("m", &body).await;
    let (_, page) = test_of(&gateway, &answer).await;

    assert!(page.contains("<code>max_input</code>"), "{page}");
}

/// Starts a gateway that keeps revisions. Its config denies the tool `run_shell_command`, which
/// the model calls.
async fn gateway_with_revisions(folder: &Path, content: &str) -> (ServerProcess, Upstream) {
    let call = tool_call_answer("run_shell_command", &json!({ "command": "ls" }));
    let upstream = upstream_with_answers(&[call, text_answer("ok")]).await;
    let config = format!(
        "policies: [{{ policy: tool_guard, deny: [run_shell_command] }}]\n\
         {content}upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
         revisions: {{ path: revisions }}\n",
        upstream.addr
    );
    std::fs::write(folder.join("hookgate.yaml"), config).unwrap();
    (ServerProcess::folder(folder), upstream)
}

/// Replaces a text of the config, adds lines, and waits until it is in use.
async fn edit_config(folder: &Path, operator: &Agent, edit: (&str, &str), lines: &str) {
    let path = folder.join("hookgate.yaml");
    let config = std::fs::read_to_string(&path).unwrap();
    let config = config.replace(edit.0, edit.1) + lines;
    std::fs::write(path, config).unwrap();
    let answer = operator.post("/reload", "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

const OTHER_CONFIG: &str = "may have other policies and hooks than this call had";

#[tokio::test]
async fn a_test_of_a_stored_revision_has_a_note() {
    for (content, is_promoted) in [(CONTENT, true), (CONTENT, false), ("", true), ("", false)] {
        let folder = TempDir::new().unwrap();
        let (mut served, _upstream) = gateway_with_revisions(folder.path(), content).await;
        let agent = Agent::at(served.addr());
        let admin = served.operators();
        let (operator, browser) = (Agent::at(admin), Browser::at_address(admin));
        let view = operator.get("/config").await.json();
        let version = view["version"].as_str().unwrap();
        let other = ("run_shell_command", "read_file");
        if is_promoted {
            edit_config(folder.path(), &operator, other, "").await;
            let command = ["config", "promote", version, "--url", &operator.base];
            let (code, _, errors) = run(&command, folder.path());
            assert_eq!(code, 0, "{errors}");
        } else {
            let rollout = format!("rollout: {{ to: \"{version}\", percent: 100 }}\n");
            edit_config(folder.path(), &operator, other, &rollout).await;
        }

        let answer = agent.generate("m", &prompt("list files")).await;
        wait_for_rows(&browser, "?verdict=deny", 1).await;
        let id = answer.header("x-hookgate-request-id");
        let page = if content.is_empty() {
            browser.get("/console/denials").await.html
        } else {
            let path = format!("/console/calls/{id}/test");
            wait_for_text(&browser, &path, "<pre tabindex").await
        };

        assert!(page.contains(OTHER_CONFIG), "{page}");
        assert!(!page.contains("passes as it is"), "{page}");
    }
}

#[tokio::test]
async fn a_test_of_a_policy_that_was_removed_has_a_note() {
    let folder = TempDir::new().unwrap();
    let (mut served, _upstream) = gateway_with_revisions(folder.path(), CONTENT).await;
    let agent = Agent::at(served.addr());
    let admin = served.operators();
    let (operator, browser) = (Agent::at(admin), Browser::at_address(admin));
    let answer = agent.generate("m", &prompt("list files")).await;
    let path = format!(
        "/console/calls/{}/test",
        answer.header("x-hookgate-request-id")
    );
    let before = wait_for_text(&browser, &path, "<pre tabindex").await;

    edit_config(folder.path(), &operator, ("policies:", "# policies:"), "").await;
    let after = browser.get(&path).await.html;

    assert!(!before.contains(OTHER_CONFIG), "{before}");
    assert!(after.contains(OTHER_CONFIG), "{after}");
}

#[tokio::test]
async fn a_test_has_no_name_of_a_sub_agent_that_no_header_can_have() {
    let config = format!("{CONTENT}policies: [{{ policy: prompt_guard, deny: [aurora] }}]\n");
    let upstream = Upstream::mock().await;
    let gateway = gateway_with_file(&upstream, &config).await;
    let agent = gateway
        .agent()
        .sending("session-id", "s-1")
        .sending("thread-id", "t-1")
        .sending("x-codex-turn-metadata", r#"{"agent_name":"/root/a\u007f"}"#);

    let answer = agent.generate("m", &prompt("aurora")).await;
    let (test, _) = test_of(&gateway, &answer).await;

    assert!(!test.contains("x-codex-turn-metadata"), "{test}");
    let (code, out) = run_test(gateway.path("").as_path(), &test);
    assert_eq!(code, 0, "{out}\n{test}");
}

#[tokio::test]
async fn a_test_of_a_sub_agent_has_its_name_and_session() {
    let hook = json!({ "type": "command", "command": "echo no >&2; exit 2" });
    let settings = json!({ "hooks": { "SubagentStop": [{ "hooks": [hook] }] } }).to_string();
    let config = format!(
        "{CONTENT}hook_files: [{{ path: settings.json, protocol: claude }}]\n\
         events: {{ max_answer_retries: 1 }}\n"
    );
    for (headers, session) in [
        (
            &[
                ("x-claude-code-session-id", "c-1"),
                ("x-claude-code-agent-id", "a1"),
            ][..],
            "c-1:a1",
        ),
        (
            &[
                ("session-id", "s-1"),
                ("thread-id", "t-1"),
                (
                    "x-codex-turn-metadata",
                    r#"{"agent_name":"/root/explorer"}"#,
                ),
            ],
            "s-1:t-1",
        ),
    ] {
        let upstream = Upstream::mock().await;
        let files = [("settings.json", &*settings)];
        let gateway = TestGateway::with_files(&upstream, &config, &files).await;
        std::fs::write(gateway.path("hookgate.yaml"), &config).unwrap();
        let mut agent = gateway.agent();
        for &(name, value) in headers {
            agent = agent.sending(name, value);
        }

        let answer = agent.generate("m", &prompt("go")).await;
        let (test, _) = test_of(&gateway, &answer).await;

        assert!(test.contains(session), "{test}");
        let (code, out) = run_test(gateway.path("").as_path(), &test);
        assert_eq!(code, 0, "{session}: {out}\n{test}");
    }
}
