//! The console page of one call: sources of its answer, and its content.

use serde_json::{Value, json};

use crate::{
    harness::{Browser, TestGateway, Upstream, closed_port, decision_log, hook, prompt, respond},
    trace::{calls, until},
};

const KEEP_DENIED: &str = "trace: { content: { denied_or_edited: true } }\n";

/// Starts a model API that answers with this text.
async fn upstream_with_text(text: &str) -> Upstream {
    let answer = json!({ "candidates": [{
        "content": { "role": "model", "parts": [{ "text": text }] }, "finishReason": "STOP",
    }] });
    Upstream::answering(&answer).await
}

/// Makes a call and waits for its content. Returns the page of the call with its content, and the
/// content as JSON.
async fn call_with_content(gateway: &TestGateway, text: &str) -> (String, Value) {
    let answer = gateway.agent().generate("m", &prompt(text)).await;
    let id = answer.header("x-hookgate-request-id");
    let path = format!("/calls/{id}/content");
    let kept = until(&gateway.operator(), &path, |found| found["id"].is_string()).await;
    let path = format!("/console/calls/{id}?content=1");
    (Browser::at(gateway).get(&path).await.html, kept)
}

#[tokio::test]
async fn a_denied_answer_is_not_shown_as_received() {
    let hooks = hook::config(&[("AfterModel", hook::denying("guard", "not this"))]);
    for (denials, received) in [("", json!("not this")), ("denials: error\n", Value::Null)] {
        let upstream = upstream_with_text("withheld").await;
        let config = format!("{KEEP_DENIED}{denials}{hooks}");
        let gateway = TestGateway::start(&upstream, &config).await;

        let (page, kept) = call_with_content(&gateway, "hello").await;

        let body = &kept["agent_answer"]["body"];
        let text = &body[0]["candidates"][0]["content"]["parts"][0]["text"];
        assert_eq!((body.is_array(), text), (true, &received), "{kept:#}");
        assert!(kept["answer"].to_string().contains("withheld"), "{kept:#}");
        let (agent, model) = page.split_once("<h3>Model API</h3>").unwrap();
        assert!(!agent.contains("withheld"), "{agent}");
        assert!(model.contains("withheld"), "{model}");
        let note = "hookgate answered in the place of the model.";
        assert!(agent.contains(note), "{agent}");
        assert!(!page.contains("unchanged"), "{page}");
    }
}

#[tokio::test]
async fn a_request_that_was_not_sent_is_not_shown_as_sent() {
    let hooks = [
        ("deny", hook::denying("guard", "not this")),
        (
            "respond",
            hook::printing(
                "guard",
                &hook::response(&json!({ "text": "from the hook" })),
            ),
        ),
    ];
    for (action, guard) in hooks {
        let upstream = upstream_with_text("never").await;
        let config = format!("{KEEP_DENIED}{}", hook::config(&[("BeforeModel", guard)]));
        let gateway = TestGateway::start(&upstream, &config).await;

        let (page, _) = call_with_content(&gateway, "an apple").await;

        let (agent, model) = page.split_once("<h3>Model API</h3>").unwrap();
        assert!(agent.contains("an apple"), "{action}: {agent}");
        assert!(
            model.contains("No request was sent to the model API."),
            "{action}: {model}"
        );
        assert!(!model.contains("an apple"), "{action}: {model}");
        assert!(
            agent.contains(&format!("<strong>{action}</strong>")),
            "{agent}"
        );
        assert!(upstream.requests().is_empty());
    }
}

#[tokio::test]
async fn a_sent_request_that_is_not_kept_is_not_shown_as_that_of_the_agent() {
    let upstream = upstream_with_text("ok").await;
    let config = "trace: { content: { sample: 1.0, memory: 64KiB } }\n\
         policies: [{ policy: tool_guard, deny: [removed_tool] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let mut body = prompt(&"x".repeat(20_000));
    body["tools"] =
        json!([{ "functionDeclarations": [{ "name": "removed_tool" }, { "name": "b" }] }]);

    let page = page_with_content(&gateway, &body).await;

    let (agent, model) = page.split_once("<h3>Model API</h3>").unwrap();
    let (sent, _) = model.split_once("Answers of the model").unwrap();
    assert!(agent.contains("removed_tool"), "{agent}");
    assert!(sent.contains("Not kept: it is too large"), "{sent}");
    assert!(!sent.contains("removed_tool"), "{sent}");
}

#[tokio::test]
async fn a_refused_request_is_shown_with_its_error_and_not_as_forwarded() {
    let upstream = upstream_with_text("never").await;
    let config = hook::config(&[("BeforeModel", hook::denying("guard", "no"))]);
    let gateway = TestGateway::start(&upstream, &config).await;

    let path = "/v1beta/models/m:generateContent";
    let answer = gateway.agent().post(path, "{ nonsense").await;
    let id = answer.header("x-hookgate-request-id");
    let has_ended = |found: &Value| found["call"].is_object();
    until(&gateway.operator(), &format!("/calls/{id}"), has_ended).await;
    let page = Browser::at(&gateway)
        .get(&format!("/console/calls/{id}"))
        .await
        .html;

    assert_eq!(answer.status, 400);
    let refused = "refused the request with the error <code>BAD_JSON</code>, status 400";
    assert!(page.contains(refused), "{page}");
    assert!(
        page.contains("<dt>Error</dt><dd><code>BAD_JSON</code></dd>"),
        "{page}"
    );
    assert!(!page.contains("forwarded"), "{page}");
}

#[tokio::test]
async fn a_reported_event_is_shown_as_an_event_and_not_as_disconnected() {
    let upstream = Upstream::mock().await;
    let denying = hook::config(&[("BeforeTool", hook::denying("guard", "no"))]);
    for config in [denying.as_str(), ""] {
        let gateway = TestGateway::start(&upstream, config).await;
        let event = json!({ "hook_event_name": "BeforeTool", "session_id": "s-1",
            "tool_name": "shell", "tool_input": {} });
        gateway.agent().report(&event, "").await;

        let listed = calls(&gateway, "", 1).await["calls"][0].clone();
        let id = listed["id"].as_str().unwrap();
        let record = gateway.operator().get(&format!("/calls/{id}")).await.json();
        let page = Browser::at(&gateway)
            .get(&format!("/console/calls/{id}"))
            .await
            .html;

        let call = &record["call"];
        assert_eq!(listed["method"], "BeforeTool", "{listed:#}");
        assert_eq!(
            (&call["method"], &call["end"]),
            (&json!("BeforeTool"), &json!("complete")),
            "{call:#}"
        );
        assert!(
            page.contains("<dt>Event</dt><dd>BeforeTool, complete</dd>"),
            "{page}"
        );
        for wrong in ["client_disconnected", "<dt>Status</dt>", "<dt>Model</dt>"] {
            assert!(!page.contains(wrong), "{wrong} in {page}");
        }
    }
}

/// Waits for the record of a call. Returns it, and the page of the call.
pub(super) async fn call_and_page(gateway: &TestGateway, id: &str) -> (Value, String) {
    let path = format!("/calls/{id}");
    let has_ended = |found: &Value| found["call"].is_object();
    let found = until(&gateway.operator(), &path, has_ended).await;
    let page = Browser::at(gateway).get(&format!("/console{path}")).await;
    (found["call"].clone(), page.html)
}

/// Starts a model API that answers each prompt with a call of the tool `shell`.
async fn upstream_with_call() -> Upstream {
    let call = json!({ "functionCall": { "name": "shell", "args": {} } });
    let answer = json!({ "candidates": [{
        "content": { "role": "model", "parts": [call] }, "finishReason": "STOP",
    }] });
    Upstream::answering(&answer).await
}

#[tokio::test]
async fn a_removed_tool_call_is_shown_as_denied() {
    let upstream = upstream_with_call().await;
    let policy = "policies: [{ policy: tool_guard, name: guard, deny: [shell] }]\n";
    let gateway = TestGateway::start(&upstream, policy).await;

    let answer = gateway.agent().generate("m", &prompt("list files")).await;

    let id = answer.header("x-hookgate-request-id");
    let (_, page) = call_and_page(&gateway, id).await;
    let (_, step) = page.split_once("<h3>AfterModel").unwrap();
    let (step, _) = step.split_once("</li>").unwrap();
    assert!(step.contains("1 tool call removed"), "{step}");
    assert!(!step.contains("proceed"), "{step}");
    assert_eq!(step.matches("deny").count(), 2, "{step}");
}

#[tokio::test]
async fn an_observing_tool_guard_is_shown_with_what_it_would_deny() {
    let upstream = upstream_with_call().await;
    let config =
        "policies: [{ policy: tool_guard, name: watcher, mode: observe, deny: [shell] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let mut body = prompt("list files");
    body["tools"] = json!([{ "functionDeclarations": [{ "name": "shell" }] }]);

    let answer = gateway.agent().generate("m", &body).await;

    assert_eq!(answer.header("x-hookgate-action"), "pass");
    let found = calls(&gateway, "would=deny&tool=shell", 1).await;
    assert_eq!(found["calls"][0]["tools"], json!(["shell"]), "{found:#}");
    let id = answer.header("x-hookgate-request-id");
    let (record, page) = call_and_page(&gateway, id).await;
    assert_eq!(record["detail"]["would_deny_tools"], json!(["shell"]));
    assert_eq!(record["detail"]["denied_tools"], Value::Null);
    for shown in ["would deny", "would remove 1 tool call", "would edit"] {
        assert!(page.contains(shown), "{shown} in {page}");
    }
    assert!(!page.contains("call removed"), "{page}");
}

#[tokio::test]
async fn a_call_that_an_open_circuit_refuses_is_not_shown_as_sent() {
    let upstream = Upstream::mock().await;
    let unused = closed_port();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\", circuit: {{ failures: 1 }} }} }}\n\
         policies: [{{ policy: redact, detect: [email] }}]\naudit: {{ path: audit.jsonl }}\n",
        unused.local_addr().unwrap()
    );
    let gateway = TestGateway::start(&upstream, &config).await;
    let mut seen = Vec::new();

    for _ in 0..2 {
        let answer = gateway
            .agent()
            .generate("m", &prompt("I am ann@example.com"))
            .await;
        let id = answer.header("x-hookgate-request-id").to_owned();
        seen.push(call_and_page(&gateway, &id).await);
    }

    let rounds = seen.iter().map(|(record, _)| record["rounds"].clone());
    assert_eq!(rounds.collect::<Vec<Value>>(), [1, 0]);
    for (record, page) in &seen {
        let is_sent = record["rounds"] == 1;
        assert_eq!(
            page.contains("<h3>Sent to the model API"),
            is_sent,
            "{page}"
        );
        assert_eq!(
            page.contains("Nothing was sent to the model API."),
            !is_sent,
            "{page}"
        );
        assert_eq!(
            record["detail"]["request_diff"].is_object(),
            is_sent,
            "{record:#}"
        );
        assert_eq!(record["upstream"], if is_sent { "primary" } else { "" });
        assert!(!page.contains("AfterModel"), "{page}");
    }
    assert_eq!(seen[1].0["error"], "UPSTREAM_UNREACHABLE");
    let folder = gateway.stop_and_keep_files().await;
    let lines = decision_log(&folder.path().join("audit.jsonl"));
    let outcomes = lines.iter().filter(|line| line["kind"] == "outcome");
    let rounds: Vec<&Value> = outcomes.map(|outcome| &outcome["rounds"]).collect();
    assert_eq!(rounds, [1, 0]);
}

#[tokio::test]
async fn a_reported_event_is_shown_to_have_no_content() {
    let upstream = Upstream::mock().await;
    let config = format!("{KEEP_DENIED}policies: [{{ policy: tool_guard, deny: [shell] }}]\n");
    let gateway = TestGateway::start(&upstream, &config).await;
    let event = json!({ "hook_event_name": "BeforeTool", "session_id": "s-1",
        "tool_name": "shell", "tool_input": {} });
    gateway.agent().report(&event, "").await;
    let listed = calls(&gateway, "", 1).await["calls"][0].clone();
    let id = listed["id"].as_str().unwrap();
    let browser = Browser::at(&gateway);

    for path in ["", "/test"] {
        let page = browser
            .get(&format!("/console/calls/{id}{path}"))
            .await
            .html;

        let expected = "The content of reported events is not kept";
        assert!(page.contains(expected), "{path}: {page}");
        assert!(!page.contains("trace.content"), "{path}: {page}");
    }
}

#[tokio::test]
async fn a_test_is_offered_only_for_calls_whose_content_is_kept() {
    let upstream = Upstream::mock().await;
    let config = format!("{KEEP_DENIED}policies: [{{ policy: prompt_guard, deny: [apple] }}]\n");
    let gateway = TestGateway::start(&upstream, &config).await;

    let passed = gateway.agent().generate("m", &prompt("hello")).await;
    let (_, passed) = call_and_page(&gateway, passed.header("x-hookgate-request-id")).await;
    let (denied, _) = call_with_content(&gateway, "an apple").await;

    assert!(!passed.contains("Make a test of this"), "{passed}");
    assert!(denied.contains("Make a test of this"), "{denied}");
}

#[tokio::test]
async fn the_console_names_a_decision_log_only_if_there_is_one() {
    let upstream = Upstream::mock().await;
    let denied = format!("{KEEP_DENIED}policies: [{{ policy: prompt_guard, deny: [apple] }}]\n");
    let log = "audit: { path: log.jsonl }\n";
    for (config, is_logged) in [(denied.clone(), false), (format!("{denied}{log}"), true)] {
        let gateway = TestGateway::with_files(&upstream, &config, &[]).await;
        let agent = gateway.agent().sending("x-hookgate-session", "s");
        let answer = agent.generate("m", &prompt("an apple")).await;
        let id = answer.header("x-hookgate-request-id");
        let path = format!("/calls/{id}/content");
        until(&gateway.operator(), &path, |found| found["id"].is_string()).await;

        for path in [
            format!("/console/calls/{id}"),
            "/console/sessions/s".to_owned(),
        ] {
            let page = Browser::at(&gateway).get(&path).await.html;
            assert_eq!(page.contains("The decision log"), is_logged, "{page}");
            let is_none = page.contains("no decision log is configured");
            assert_eq!(is_none, !is_logged, "{page}");
        }
    }
}

const LIMITS: &str =
    "policies: [{ policy: request_limits, name: limits, max_output_tokens: 10 }]\n";

#[tokio::test]
async fn an_error_and_not_an_edit_is_the_cause_of_a_failed_call() {
    let upstream = Upstream::mock().await;
    let unused = closed_port();
    let url = format!("http://{}", unused.local_addr().unwrap());
    let config = format!("{KEEP_DENIED}upstreams: {{ gemini: {{ url: \"{url}\" }} }}\n{LIMITS}");
    let gateway = TestGateway::start(&upstream, &config).await;

    let answer = gateway.agent().generate("m", &prompt("hello")).await;
    let (_, page) = call_and_page(&gateway, answer.header("x-hookgate-request-id")).await;
    let list = Browser::at(&gateway).get("/console/calls").await.html;

    let cause = "<p class=\"problem\">Error <code>UPSTREAM_UNREACHABLE</code>, status 503</p>";
    assert!(page.contains(cause), "{page}");
    assert!(!page.contains("decided"), "{page}");
    assert!(page.contains("of those that ended with an error"), "{page}");
    assert!(list.contains("<td>UPSTREAM_UNREACHABLE</td>"), "{list}");
    assert!(!list.contains("<td>limits</td>"), "{list}");
}

#[tokio::test]
async fn an_edit_is_no_decision_and_no_problem() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, LIMITS).await;

    let answer = gateway.agent().generate("m", &prompt("hello")).await;
    let (_, page) = call_and_page(&gateway, answer.header("x-hookgate-request-id")).await;

    assert!(page.contains("edited</span> on BeforeModel"), "{page}");
    for wrong in ["decided", "class=\"problem\"", "<tr class=\"bad\">"] {
        assert!(!page.contains(wrong), "{wrong} in {page}");
    }
    assert!(page.contains("<tr class=\"warning\">"), "{page}");
}

#[tokio::test]
async fn only_an_observing_rule_that_would_act_is_marked() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: redact, mode: observe, detect: [email] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    for (text, is_marked) in [("hello", false), ("I am ann@example.com", true)] {
        let answer = gateway.agent().generate("m", &prompt(text)).await;
        let (_, page) = call_and_page(&gateway, answer.header("x-hookgate-request-id")).await;

        assert!(page.contains("would proceed"), "{page}");
        for marked in ["<tr class=\"warning\">", "<span class=\"badge warning\">"] {
            assert_eq!(
                page.contains(marked),
                is_marked,
                "{text}: {marked} in {page}"
            );
        }
    }
}

#[tokio::test]
async fn a_masked_result_of_a_tool_is_an_edit_of_its_event() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: redact, detect: [email] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    for result in ["nothing", "from ann@example.com"] {
        let event = json!({ "hook_event_name": "AfterTool", "session_id": "rep",
            "tool_name": "shell", "tool_input": {}, "tool_response": { "llmContent": result } });
        gateway.agent().report(&event, "").await;
    }
    calls(&gateway, "session=rep", 2).await;

    let found = calls(&gateway, "session=rep&edited=any", 1).await;
    let id = found["calls"][0]["id"].as_str().unwrap();
    let (record, page) = call_and_page(&gateway, id).await;
    let list = Browser::at(&gateway)
        .get("/console/calls?edited=any")
        .await
        .html;

    assert_eq!(found["calls"].as_array().unwrap().len(), 1, "{found:#}");
    assert_eq!(found["calls"][0]["action"], "edit", "{found:#}");
    let rule = &record["detail"]["events"][0]["rules"][0];
    assert_eq!(rule["fields"], json!(["updatedToolOutput"]), "{record:#}");
    assert!(page.contains("edited</span> on AfterTool"), "{page}");
    assert!(list.contains("</span> edit</span>"), "{list}");
    assert!(list.contains("<td>event</td>"), "{list}");
}

/// Starts a model API that streams these texts.
async fn upstream_streaming(texts: &'static [&str]) -> Upstream {
    Upstream::with(move |_| {
        let chunk = |text: &&str| {
            let part = json!({ "text": text });
            let content = json!({ "role": "model", "parts": [part] });
            let chunk = json!({ "candidates": [{ "content": content }] });
            format!("data: {chunk}\r\n\r\n")
        };
        let chunks = texts.iter().map(chunk);
        respond(200, "text/event-stream", chunks.collect::<String>())
    })
    .await
}

#[tokio::test]
async fn text_that_is_only_held_back_is_not_shown_as_changed() {
    let upstream = upstream_streaming(&["hello th", "ere, wri", "te to bob@", "example.com"]).await;
    for (detector, is_edited) in [("aws_key", false), ("email", true)] {
        let policy = format!("policies: [{{ policy: redact, detect: [{detector}] }}]\n");
        let config = format!("trace: {{ content: {{ sample: 1.0 }} }}\n{policy}");
        let gateway = TestGateway::start(&upstream, &config).await;

        let answer = gateway.agent().stream("m", &prompt("hello")).await;
        let id = answer.header("x-hookgate-request-id");
        let path = format!("/calls/{id}/content");
        until(&gateway.operator(), &path, |found| found["id"].is_string()).await;
        let path = format!("/console/calls/{id}?content=1");
        let page = Browser::at(&gateway).get(&path).await.html;

        for changed in ["What was changed in the answer", "Only changed chunks."] {
            assert_eq!(page.contains(changed), is_edited, "{changed} in {page}");
        }
        assert!(page.contains("changed or moved."), "{page}");
    }
}

#[tokio::test]
async fn a_stream_of_one_chunk_has_one_chunk() {
    let upstream = upstream_streaming(&["hello"]).await;
    let config = "policies: [{ policy: redact, detect: [email] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;

    let answer = gateway.agent().stream("m", &prompt("hello")).await;
    let (_, page) = call_and_page(&gateway, answer.header("x-hookgate-request-id")).await;

    assert!(page.contains(", 1 chunk."), "{page}");
    assert!(page.contains(">1 chunk in "), "{page}");
    assert!(!page.contains("1 chunks"), "{page}");
}

#[tokio::test]
async fn distant_changes_of_a_request_are_shown_apart() {
    let upstream = upstream_with_text("ok").await;
    let policy = "policies: [{ policy: tool_guard, deny: [first, last] }]\n";
    let gateway = TestGateway::start(&upstream, &format!("{KEEP_DENIED}{policy}")).await;
    let declared = ["first", "a", "b", "c", "last"].map(|name| json!({ "name": name }));
    let mut body = prompt("hello");
    body["tools"] = json!([{ "functionDeclarations": declared }]);

    let page = page_with_content(&gateway, &body).await;

    let (_, diff) = page.split_once("What was changed in the request").unwrap();
    let (_, behind) = diff.split_once("- ").unwrap();
    let (between, behind) = behind.split_once("  …\n").unwrap();
    assert!(between.contains("first"), "{diff}");
    assert!(behind.contains("last"), "{diff}");
}

/// Makes a call, and returns its page with its content, once that is kept.
async fn page_with_content(gateway: &TestGateway, body: &Value) -> String {
    let answer = gateway.agent().generate("m", body).await;
    let id = answer.header("x-hookgate-request-id");
    let path = format!("/calls/{id}/content");
    until(&gateway.operator(), &path, |found| found["id"].is_string()).await;
    let path = format!("/console/calls/{id}?content=1");
    Browser::at(gateway).get(&path).await.html
}

/// Makes a call whose request a policy edits, with all content kept, and returns the difference of
/// the request on its page.
async fn request_difference(gateway: &TestGateway, body: &Value) -> String {
    let page = page_with_content(gateway, body).await;
    let (_, difference) = page.split_once("What was changed in the request").unwrap();
    difference.to_owned()
}

#[tokio::test]
async fn a_change_behind_long_texts_of_a_request_is_shown() {
    let upstream = upstream_with_text("ok").await;
    let policy = "policies: [{ policy: tool_guard, deny: [removed_tool] }]\n";
    let gateway = TestGateway::start(&upstream, &format!("{KEEP_DENIED}{policy}")).await;
    let mut body = prompt(&"long ".repeat(50_000));
    body["tools"] =
        json!([{ "functionDeclarations": [{ "name": "removed_tool" }, { "name": "b" }] }]);

    let difference = request_difference(&gateway, &body).await;

    assert!(difference.contains("removed_tool"), "{difference}");
    assert!(!difference.contains("is cut at"), "{difference}");
}

#[tokio::test]
async fn a_long_change_of_a_request_is_cut_with_a_note() {
    let upstream = upstream_with_text("ok").await;
    let messages = json!({ "messages": [{ "role": "user", "content": "rewritten" }] });
    let rewriter = hook::printing("rewriter", &hook::request(&messages));
    let config = format!(
        "{KEEP_DENIED}{}",
        hook::config(&[("BeforeModel", rewriter)])
    );
    let gateway = TestGateway::start(&upstream, &config).await;

    let difference = request_difference(&gateway, &prompt(&"long ".repeat(50_000))).await;

    assert!(
        difference.contains("is cut at 204800 characters."),
        "no note"
    );
    assert!(difference.len() < 300_000, "{}", difference.len());
}

#[tokio::test]
async fn a_change_of_masked_texts_only_is_not_an_empty_box() {
    let upstream = upstream_with_text("ok").await;
    let policy = "policies: [{ policy: redact, detect: [email] }]\n";
    let gateway = TestGateway::start(&upstream, &format!("{KEEP_DENIED}{policy}")).await;

    let difference = request_difference(&gateway, &prompt("mail bob@example.com")).await;

    assert!(
        difference.contains("The kept texts are equal"),
        "{difference}"
    );
    assert!(!difference.contains("<pre class=\"diff\""), "{difference}");
}
