//! Effects of policies in the decision log, in metrics and in response headers.

use serde_json::{Value, json};

use super::{AUDIT, hash, kinds, lines::stop_and_read_log, only};
use crate::harness::{Answer, TestGateway, Upstream, decision_log, hook, prompt, run};

const MODEL: &str = "gemini-2.5-pro";

/// Upstream whose model calls a tool in the first round and returns text in the second.
async fn upstream_with_tool_call() -> Upstream {
    let response_line = |part: Value| {
        let content = json!({ "role": "model", "parts": [part] });
        let answer = json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] });
        json!({ "method": "generateContent", "response": answer }).to_string()
    };
    let call = json!({ "functionCall": { "name": "run_shell_command", "args": {} } });
    let text = json!({ "text": "mail a@b.example" });
    Upstream::scripted(&[response_line(call), response_line(text)].join("\n")).await
}

fn guard(more: &str) -> String {
    format!(
        "{AUDIT}policies: [{{ policy: tool_guard, name: tools, deny: \
         [run_shell_command]{more} }}]\n"
    )
}

fn hook_names(answer: &Answer) -> Vec<String> {
    let hooks = answer.header("x-hookgate-hooks").split(", ");
    let names = hooks.map(|hook| hook.split(';').next().unwrap().to_owned());
    names.collect()
}

async fn metrics(gate: &TestGateway) -> String {
    gate.operator().get("/metrics").await.text().to_owned()
}

#[tokio::test]
async fn a_tool_call_that_a_policy_withholds_is_logged_as_a_denial() {
    let upstream = upstream_with_tool_call().await;
    let gate = TestGateway::start(&upstream, &guard("")).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(hook_names(&answer), ["tools", "tools", "tools"]);
    let counted = metrics(&gate).await;
    for line in [
        r#"hookgate_denials_total{event="BeforeTool"} 1"#,
        r#"hookgate_hook_runs_total{event="AfterModel",hook="tools",status="ok"} 2"#,
    ] {
        assert!(counted.contains(line), "{line}: {counted}");
    }
    let path = gate.path("audit.jsonl");
    let folder = gate.stop_and_keep_files().await;
    let lines = decision_log(&path);
    assert_eq!(
        kinds(&lines[1..]),
        [
            "BeforeModel",
            "request",
            "BeforeTool",
            "BeforeModel",
            "AfterModel",
            "request",
            "AfterModel",
            "outcome",
            "stop"
        ]
    );
    let denial = &lines[3];
    assert_eq!(
        (&denial["subject"], &denial["verdict"]),
        (&json!("run_shell_command"), &json!("deny"))
    );
    assert_eq!(
        (&denial["request"], &denial["hooks"][0]["name"]),
        (&lines[2]["request"], &json!("tools"))
    );
    let reason = hash("The tool `run_shell_command` is not allowed here.");
    assert_eq!(denial["reason"]["sha256"], reason);
    assert_eq!(lines[6]["round"], 2);
    let after_model = |line: &Value| {
        let tools = &line["hooks"][0];
        json!([
            line["verdict"],
            line["chunks"],
            tools["edited"],
            tools["denied_calls"]
        ])
    };
    assert_eq!(after_model(&lines[5]), json!(["proceed", 1, true, 1]));
    assert_eq!(after_model(&lines[7]), json!(["proceed", 1, null, null]));
    let show = ["audit", "show", "audit.jsonl", "--verdict", "deny"];
    let (_, out, _) = run(&show, folder.path());
    assert!(
        out.contains("event BeforeTool run_shell_command deny tools("),
        "{out}"
    );
    assert_eq!(out.lines().count(), 1, "{out}");
}

#[tokio::test]
async fn a_tool_call_that_an_observing_policy_would_withhold_is_logged() {
    let upstream = upstream_with_tool_call().await;
    let gate = TestGateway::start(&upstream, &guard(", mode: observe")).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert!(answer.text().contains("run_shell_command"));
    assert_eq!(hook_names(&answer), ["tools", "tools"]);
    let metrics = metrics(&gate).await;
    let mut denials = metrics
        .lines()
        .filter(|line| line.starts_with("hookgate_denials_total{"));
    assert!(denials.all(|line| line.ends_with(" 0")), "{metrics}");
    let lines = stop_and_read_log(gate).await;
    let call = lines
        .iter()
        .find(|line| line["event"] == "BeforeTool")
        .unwrap();
    assert_eq!(
        (&call["verdict"], &call["hooks"][0]["would"]),
        (&json!("proceed"), &json!("would_deny"))
    );
    let after_model = lines
        .iter()
        .find(|line| line["event"] == "AfterModel")
        .unwrap();
    assert_eq!(after_model["hooks"][0]["denied_calls"], 1);
}

#[tokio::test]
async fn masking_is_logged_for_streams_and_in_observe_mode() {
    let text = |reply: &str| {
        let content = json!({ "role": "model", "parts": [{ "text": reply }] });
        json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] })
    };
    for (reply, edited) in [("mail a@b.example", json!(true)), ("mail him", Value::Null)] {
        for mode in ["enforce", "observe"] {
            let upstream = Upstream::answering(&text(reply)).await;
            let policy =
                format!("{{ policy: redact, name: mails, detect: [email], mode: {mode} }}");
            let gate =
                TestGateway::start(&upstream, &format!("{AUDIT}policies: [{policy}]\n")).await;

            gate.agent().generate(MODEL, &prompt("hello")).await;

            let lines = stop_and_read_log(gate).await;
            let after_model = lines
                .iter()
                .find(|line| line["event"] == "AfterModel")
                .unwrap();
            let hook = &after_model["hooks"][0];
            assert_eq!(
                (&hook["name"], &hook["edited"]),
                (&json!("mails"), &edited),
                "{mode}"
            );
            assert_eq!(hook["would"].is_string(), mode == "observe");
        }
    }
    let upstream = Upstream::mock().await;
    let policy = "{ policy: redact, name: mails, detect: [email], mode: observe }";
    let gate = TestGateway::start(&upstream, &format!("{AUDIT}policies: [{policy}]\n")).await;
    let answer = gate
        .agent()
        .stream(MODEL, &prompt("to a@b.example now"))
        .await;
    assert!(answer.text().contains('@'));
    let lines = stop_and_read_log(gate).await;
    let after_model = lines
        .iter()
        .find(|line| line["event"] == "AfterModel")
        .unwrap();
    assert!(after_model["chunks"].as_u64() > Some(1), "{after_model}");
    let runs = (
        &after_model["hooks"][0]["runs"],
        &after_model["hooks"][0]["name"],
    );
    assert_eq!(
        runs,
        (&after_model["chunks"], &json!("mails")),
        "{after_model}"
    );
    assert_eq!(after_model["hooks"][0]["edited"], true, "{after_model}");
}

#[tokio::test]
async fn masking_is_logged_for_reported_events() {
    for mode in ["enforce", "observe"] {
        let upstream = Upstream::mock().await;
        let policy = format!("{{ policy: redact, name: mails, detect: [email], mode: {mode} }}");
        let config = format!("{AUDIT}policies: [{policy}]\n");
        let gate = TestGateway::start(&upstream, &config).await;
        let event = json!({ "hook_event_name": "BeforeTool", "session_id": "s",
            "tool_name": "mail", "tool_input": { "to": "a@b.example" } });

        let answer = gate.agent().report(&event, "").await;

        assert_eq!(answer.text().contains("REDACTED"), mode == "enforce");
        let lines = stop_and_read_log(gate).await;
        let event = only(&lines, "event");
        let hook = &event["hooks"][0];
        assert_eq!(
            (&event["verdict"], &hook["name"], &hook["edited"]),
            (&json!("proceed"), &json!("mails"), &json!(true)),
            "{mode}"
        );
        assert_eq!(hook["would"].is_string(), mode == "observe");
    }
}

#[tokio::test]
async fn a_reported_answer_whose_hook_fails_is_logged_as_the_stop_that_the_agent_receives() {
    let upstream = Upstream::mock().await;
    let mut broken = hook::command("falls", "exit 1");
    broken["on_failure"] = json!("closed");
    let hooks = hook::config(&[("AfterAgent", broken)]);
    let gate = TestGateway::start(&upstream, &format!("{AUDIT}{hooks}")).await;
    let event = json!({ "hook_event_name": "AfterAgent", "session_id": "s",
        "prompt": "hi", "prompt_response": "yes", "stop_hook_active": false });

    let answer = gate.agent().report(&event, "explain=1").await.json();

    assert_eq!(
        (&answer["continue"], &answer["hookgate"]["verdict"]),
        (&json!(false), &json!("stop"))
    );
    let lines = stop_and_read_log(gate).await;
    assert_eq!(only(&lines, "event")["verdict"], "stop");
}

#[tokio::test]
async fn a_tool_that_a_policy_removes_from_a_request_is_logged() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &guard("")).await;
    let mut body = prompt("hello");
    body["tools"] = json!([{ "functionDeclarations": [{ "name": "run_shell_command" }] }]);

    gate.agent().generate(MODEL, &body).await;

    let lines = stop_and_read_log(gate).await;
    let event = lines
        .iter()
        .find(|line| line["event"] == "BeforeModel")
        .unwrap();
    assert_eq!(event["hooks"][0]["edited"], true);
}

/// Config of an `AfterModel` hook that leaves every answer as it is.
fn looking() -> String {
    hook::config(&[("AfterModel", hook::command("look", "cat > /dev/null"))])
}

#[tokio::test]
async fn an_observed_denial_is_logged_once_beside_hooks_on_answers() {
    let upstream = upstream_with_tool_call().await;
    let config = guard(", mode: observe") + &looking();
    let gate = TestGateway::start(&upstream, &config).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    let rules = gate.operator().get("/rules").await.json();
    let tools = rules.as_array().unwrap().iter();
    let mut tools = tools.filter(|rule| rule["name"] == "tools");
    assert_eq!(tools.next().unwrap()["would_have"], 1, "{rules:#}");
    let lines = stop_and_read_log(gate).await;
    let mut events = kinds(&lines);
    events.retain(|kind| matches!(kind.as_str(), "BeforeTool" | "AfterModel"));
    assert_eq!(events, ["BeforeTool", "AfterModel"], "{lines:#?}");
    let after_model = lines.iter().find(|line| line["event"] == "AfterModel");
    let tools = &after_model.unwrap()["hooks"][0];
    assert_eq!(
        (&tools["denied_calls"], &tools["runs"]),
        (&json!(1), &json!(2))
    );
}

#[tokio::test]
async fn the_runs_of_both_passes_on_a_stream_are_counted() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &(guard("") + &looking())).await;

    gate.agent()
        .stream(MODEL, &prompt("one two three four"))
        .await;

    let counted = metrics(&gate).await;
    let lines = stop_and_read_log(gate).await;
    let after_model = lines.iter().find(|line| line["event"] == "AfterModel");
    let after_model = after_model.unwrap();
    let runs = 2 * after_model["chunks"].as_u64().unwrap();
    assert!(runs > 2, "{after_model}");
    assert_eq!(
        (
            &after_model["hooks"][0]["name"],
            &after_model["hooks"][0]["runs"]
        ),
        (&json!("tools"), &json!(runs)),
        "{after_model}"
    );
    let series = r#"hookgate_hook_runs_total{event="AfterModel",hook="tools",status="ok"}"#;
    let line = format!("{series} {runs}\n");
    assert!(counted.contains(&line), "{line}: {counted}");
}

#[tokio::test]
async fn a_request_that_a_hook_edits_is_one_event_with_both_passes() {
    let upstream = Upstream::mock().await;
    let messages = json!([{ "role": "user", "content": "mail a@b.example" }]);
    let edit = hook::printing("edit", &hook::request(&json!({ "messages": messages })));
    let policy = "policies: [{ policy: redact, name: mails, detect: [email] }]\n";
    let config = format!("{AUDIT}{policy}{}", hook::config(&[("BeforeModel", edit)]));
    let gate = TestGateway::start(&upstream, &config).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    assert!(!upstream.only_request().body.contains("a@b.example"));
    let lines = stop_and_read_log(gate).await;
    let events = lines.iter().filter(|line| line["event"] == "BeforeModel");
    let events: Vec<&Value> = events.collect();
    assert_eq!(events.len(), 1, "{lines:#?}");
    let hooks = events[0]["hooks"].as_array().unwrap().iter();
    let runs: Vec<Value> = hooks
        .map(|hook| json!([hook["name"], hook["runs"], hook["edited"]]))
        .collect();
    assert_eq!(
        runs,
        [json!(["mails", 2, true]), json!(["edit", null, null])]
    );
}

#[tokio::test]
async fn a_denial_of_what_a_hook_changed_has_no_reason_of_a_hook_that_allowed() {
    let upstream = Upstream::mock().await;
    let messages = json!([{ "role": "user", "content": "aurora" }]);
    let mut edit = hook::request(&json!({ "messages": messages }));
    edit["decision"] = "allow".into();
    edit["reason"] = "no objection".into();
    let edit = hook::config(&[("BeforeModel", hook::printing("edit", &edit))]);
    let policy = "policies: [{ policy: prompt_guard, name: words, deny: [aurora] }]\n";
    let gate = TestGateway::start(&upstream, &format!("{AUDIT}{policy}{edit}")).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    let reason = "This prompt is not allowed here.";
    assert!(answer.text().contains(reason), "{}", answer.text());
    assert!(!answer.text().contains("objection"), "{}", answer.text());
    assert!(upstream.requests().is_empty());
    let lines = stop_and_read_log(gate).await;
    let denial = lines.iter().find(|line| line["verdict"] == "deny");
    assert_eq!(denial.unwrap()["reason"]["sha256"], hash(reason));
}

#[tokio::test]
async fn the_model_of_each_round_is_logged() {
    let upstream = upstream_with_tool_call().await;
    let edit = hook::request(&json!({ "model": "gemini-2.5-flash" }));
    let once = format!("cat > /dev/null; [ -e swapped ] || {{ touch swapped; echo '{edit}'; }}");
    let swap = hook::config(&[("BeforeModel", hook::command("swap", &once))]);
    let gate = TestGateway::start(&upstream, &(guard("") + &swap)).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    let called = upstream.requests();
    assert!(called[0].path.contains("gemini-2.5-flash"));
    assert!(called[1].path.contains(MODEL));
    let lines = stop_and_read_log(gate).await;
    let requests = lines.iter().filter(|line| line["kind"] == "request");
    let models: Vec<&Value> = requests.map(|request| &request["model"]).collect();
    assert_eq!(models, ["gemini-2.5-flash", MODEL]);
    assert_eq!(only(&lines, "outcome")["model"], MODEL);
}

#[tokio::test]
async fn a_call_that_is_denied_has_the_model_of_its_last_request() {
    let edit = hook::request(&json!({ "model": "gemini-2.5-flash" }));
    let denial = json!({ "decision": "deny", "reason": "enough" });
    let then_denied = format!(
        "cat > /dev/null; if [ -e swapped ]; then echo '{denial}'; \
         else touch swapped; echo '{edit}'; fi"
    );
    let then_denied = hook::command("swap", &then_denied);
    let allow = format!("{AUDIT}policies: [{{ policy: model_allow, models: [{MODEL}] }}]\n");
    for (config, hook, requests, model) in [
        (guard(""), then_denied, 1, "gemini-2.5-flash"),
        (allow, hook::printing("swap", &edit), 0, MODEL),
    ] {
        let upstream = upstream_with_tool_call().await;
        let hooks = hook::config(&[("BeforeModel", hook)]);
        let gate = TestGateway::start(&upstream, &(config + &hooks)).await;

        gate.agent().generate(MODEL, &prompt("hello")).await;

        assert_eq!(upstream.requests().len(), requests);
        let lines = stop_and_read_log(gate).await;
        assert_eq!(only(&lines, "outcome")["model"], model);
    }
}
