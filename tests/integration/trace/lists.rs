//! Records of calls: decisions, skipped rules, and the lists of calls, rules and denials.

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::{GUARDS, MODEL, calls, event, record, rule, text_answer, tool_call_answer};
use crate::harness::{Browser, TestGateway, Upstream, chunked_head, hook, prompt, write_chunk};

/// Starts a model API that calls a tool until a request contains the denial.
async fn upstream_until_denied() -> Upstream {
    Upstream::with(|asked| {
        let answer = if asked.body.contains("blocked") {
            text_answer("Then not.")
        } else {
            tool_call_answer("run_shell_command")
        };
        crate::harness::respond(200, "application/json", answer.to_string())
    })
    .await
}

#[tokio::test]
async fn the_record_of_a_denied_tool_call_has_every_rule_and_its_config_line() {
    let upstream = upstream_until_denied().await;
    let gateway = TestGateway::start(&upstream, GUARDS).await;

    let answer = gateway.agent().generate(MODEL, &prompt("delete all")).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let record = record(&gateway, answer.header("x-hookgate-request-id")).await;
    let tool = event(&record, "BeforeTool");
    assert_eq!(tool["subject"], "run_shell_command");
    assert_eq!(tool["verdict"], "deny");
    let guard = rule(tool, "guard");
    assert_eq!(
        (&guard["asked"], &guard["status"], &guard["action"]),
        (&json!(true), &json!("block"), &json!("deny"))
    );
    let line = guard["at"]["line"].as_u64().unwrap();
    let config = std::fs::read_to_string(gateway.path("hookgate.yaml")).unwrap_or_default();
    assert!(
        guard["at"]["file"]
            .as_str()
            .unwrap()
            .ends_with("hookgate.yaml"),
        "{config}"
    );
    // `listen`, `admin` and `upstreams` are three lines before the config of the test.
    let written = GUARDS
        .lines()
        .position(|line| line.contains("name: guard"))
        .unwrap() as u64;
    assert_eq!(line, written + 1 + 3);
    assert_eq!(rule(tool, "watcher")["would"], "deny");
    let writer = rule(tool, "writer");
    assert_eq!(
        (&writer["asked"], &writer["because"]),
        (&json!(false), &json!("matcher"))
    );
    assert_eq!(rule(tool, "off")["because"], "disabled");
    let model = event(&record, "BeforeModel");
    assert_eq!(rule(model, "models")["asked"], true);
    assert_eq!(rule(model, "words")["because"], "condition");
    assert_eq!(
        rule(model, "words")["explanation"],
        "its condition `when` is false"
    );
    let listed = calls(&gateway, "", 1).await;
    assert_eq!(listed["calls"][0]["decided_by"]["at"], guard["at"]);
}

#[tokio::test]
async fn rounds_tokens_and_times_are_recorded() {
    let upstream = upstream_until_denied().await;
    let gateway = TestGateway::start(&upstream, GUARDS).await;

    let answer = gateway.agent().generate(MODEL, &prompt("delete all")).await;

    let record = record(&gateway, answer.header("x-hookgate-request-id")).await;
    let rounds = record["detail"]["upstream_rounds"].as_array().unwrap();
    assert_eq!((record["rounds"].as_u64(), rounds.len()), (Some(2), 2));
    assert_eq!(rounds[0]["status"], 200);
    assert_eq!(rounds[0]["asked_again"], json!(null));
    assert_eq!(rounds[1]["asked_again"], "tool_denied");
    assert!(rounds[1]["request_bytes"].as_u64() > rounds[0]["request_bytes"].as_u64());
    assert!(rounds[1]["sent_us"].as_u64() >= rounds[0]["ended_us"].as_u64());
    assert_eq!(record["tokens"]["total"], 9);
    let times = &record["detail"]["times"];
    let part = |name: &str| times[name].as_u64().unwrap();
    assert!(part("hooks_us") > 0 && part("upstream_us") > 0, "{times}");
    assert!(part("hooks_us") + part("upstream_us") <= record["duration_us"].as_u64().unwrap());
    assert_eq!(record["detail"]["session_match"]["result"], "new");
}

#[tokio::test]
async fn calls_are_listed_newest_first_with_pagination_and_filters() {
    let upstream = upstream_until_denied().await;
    let gateway = TestGateway::start(&upstream, GUARDS).await;
    let agent = gateway.agent();
    let denied = agent.generate(MODEL, &prompt("delete all")).await;
    for number in 0..3 {
        let text = format!("blocked {number}");
        agent.generate(MODEL, &prompt(&text)).await;
    }
    agent.generate("claude-1", &prompt("blocked")).await;

    let all = calls(&gateway, "limit=100", 5).await;
    let page = calls(&gateway, "limit=2", 2).await;
    let next = page["next"].as_u64().unwrap();
    let rest = calls(&gateway, &format!("limit=100&cursor={next}"), 3).await;
    let tool = calls(&gateway, "q=rule:guard%20tool:run_shell_command", 1).await;
    let would = calls(&gateway, "would=deny&edited=answer", 1).await;
    let denied_model = calls(&gateway, "verdict=deny&model=claude-1", 1).await;

    let ids = |list: &serde_json::Value| {
        let calls = list["calls"].as_array().unwrap().clone();
        calls
            .into_iter()
            .map(|call| call["id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&all), [ids(&page), ids(&rest)].concat());
    assert_eq!(page["scanned"]["is_complete"], false);
    assert_eq!(
        (&rest["scanned"]["is_complete"], &rest["next"]),
        (&json!(true), &json!(null))
    );
    let id = denied.header("x-hookgate-request-id");
    assert_eq!(
        (ids(&tool), ids(&would)),
        (vec![json!(id)], vec![json!(id)])
    );
    assert_eq!(tool["scanned"]["records"], 5);
    assert_eq!(tool["calls"][0]["decided_by"]["name"], "guard");
    assert_eq!(tool["calls"][0]["tools"], json!(["run_shell_command"]));
    assert_eq!(ids(&denied_model).len(), 1);
    assert_eq!(denied_model["calls"][0]["decided_by"]["name"], "models");
    let newer = &ids(&denied_model)[0];
    let view = async |id: &str| {
        let path = format!("/calls/{id}?verdict=deny");
        gateway.operator().get(&path).await.json()
    };
    assert_eq!(view(id).await["newer"], *newer);
    assert_eq!(view(newer.as_str().unwrap()).await["older"], id);
}

#[tokio::test]
async fn a_wrong_filter_and_an_unknown_call_are_refused() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "").await;

    for query in [
        "colour=red",
        "q=deny",
        "verdict=maybe",
        "limit=101",
        "cursor=x",
    ] {
        let refused = gateway.operator().get(&format!("/calls?{query}")).await;
        assert_eq!(refused.status, 400, "{query}: {}", refused.text());
    }
    let missing = gateway.operator().get("/calls/none").await;
    assert_eq!(missing.status, 404);
    assert_eq!(
        missing.json()["error"]["details"][0]["reason"],
        "UNKNOWN_CALL"
    );
}

#[tokio::test]
async fn rule_and_denial_counts_survive_the_eviction_of_calls() {
    let upstream = upstream_until_denied().await;
    let config = format!("trace: {{ exchanges: 1 }}\n{GUARDS}");
    let gateway = TestGateway::start(&upstream, &config).await;
    for number in 0..3 {
        gateway
            .agent()
            .generate(MODEL, &prompt(&format!("delete {number}")))
            .await;
    }

    let has_all = |groups: &serde_json::Value| groups["groups"][0]["count"] == 3;
    let denials = super::until(&gateway.operator(), "/denials", has_all).await;
    let rules = gateway.operator().get("/rules").await.json();

    let group = &denials["groups"][0];
    assert_eq!(
        (&group["rule"], &group["tool"]),
        (&json!("guard"), &json!("run_shell_command"))
    );
    assert_eq!(group["samples"].as_array().unwrap().len(), 3);
    assert_eq!(group["last_day"], 3);
    // Reasons of hooks can have content of calls, so only the digest is kept.
    assert_eq!(group["reason"]["text"], json!(null));
    assert_eq!(group["reason"]["bytes"], 8);
    let find = |name: &str| {
        let mut rules = rules.as_array().unwrap().iter();
        rules.find(|rule| rule["name"] == name).unwrap()
    };
    assert_eq!(
        (&find("guard")["asked"], &find("guard")["acted"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(find("watcher")["would_have"], 3);
    assert_eq!(
        find("guard")["last_day"],
        json!({ "asked": 3, "acted": 3, "would_have": 0, "failed": 0 })
    );
    assert_eq!(
        (&find("off")["disabled"], &find("off")["asked"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(
        (&find("writer")["asked"], &find("writer")["skipped"]),
        (&json!(0), &json!(3))
    );
    assert!(find("guard")["p99_us"].as_u64() > Some(0));
    assert_eq!(find("writer")["last_acted"], json!(null));
    assert!(find("guard")["last_acted"].is_string());
    assert_eq!(
        calls(&gateway, "", 1).await["calls"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn a_reported_event_and_a_call_without_hooks_are_recorded() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "trace: { content: { reasons: true } }\nhooks: { BeforeTool: [{ hooks: [{ name: guard, command: \"echo no AKIAIOSFODNN7EXAMPLE >&2; exit 2\" }] }] }").await;
    let agent = gateway.agent();

    agent.get("/v1beta/models").await;
    let reported = json!({ "hook_event_name": "BeforeTool", "session_id": "s-1",
        "tool_name": "shell", "tool_input": {} });
    agent.report(&reported, "").await;

    let list = calls(&gateway, "", 2).await;
    let list = list["calls"].as_array().unwrap();
    let found = |kind: &str| list.iter().find(|call| call["kind"] == kind).unwrap();
    assert_eq!(found("call")["method"], "models.list");
    assert_eq!(
        (&found("event")["method"], &found("event")["session"]),
        (&json!("BeforeTool"), &json!("s-1"))
    );
    assert_eq!(found("event")["action"], "deny");
    let reason = &found("event")["decided_by"]["reason"]["text"];
    assert_eq!(reason, "no [REDACTED:aws_key]");
}

#[tokio::test]
async fn the_trace_can_be_disabled() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "trace: { exchanges: 0 }").await;

    gateway.agent().generate(MODEL, &prompt("hi")).await;

    let list = gateway.operator().get("/calls").await.json();
    assert_eq!(list["calls"], json!([]));
    let metrics = gateway.operator().get("/metrics").await;
    assert!(
        metrics.text().contains("hookgate_trace_bytes "),
        "{}",
        metrics.text()
    );
}

/// Starts a model API that calls a tool until a request contains a tool result.
async fn upstream_until_tool_result() -> Upstream {
    Upstream::with(|asked| {
        let answer = if asked.body.contains("functionResponse") {
            text_answer("Then not.")
        } else {
            tool_call_answer("run_shell_command")
        };
        crate::harness::respond(200, "application/json", answer.to_string())
    })
    .await
}

#[tokio::test]
async fn calls_whose_tool_was_denied_have_the_verdict_deny() {
    let policy_config = "policies: [{ policy: tool_guard, name: no-shell, allow: [read_file] }]\n";
    let hook_config = "hooks: { BeforeTool: [{ hooks: [{ name: asks, command: \"echo '{\\\"decision\\\":\\\"ask\\\"}'\" }] }] }\n";
    let upstream = upstream_until_tool_result().await;
    for (config, rule, action) in [
        (policy_config, "no-shell", "deny"),
        (hook_config, "asks", "ask"),
    ] {
        let gateway = TestGateway::start(&upstream, config).await;

        let answer = gateway.agent().generate(MODEL, &prompt("delete all")).await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        let found = calls(&gateway, "verdict=deny&tool=run_shell_command", 1).await;
        let call = &found["calls"][0];
        assert_eq!(
            call["id"],
            answer.header("x-hookgate-request-id"),
            "{config}"
        );
        assert_eq!(call["action"], "edit", "the call itself is not denied");
        assert_eq!(call["tools"], json!(["run_shell_command"]));
        let decided_by = &call["decided_by"];
        assert_eq!(
            (&decided_by["name"], &decided_by["action"]),
            (&json!(rule), &json!(action))
        );
        let record = record(&gateway, answer.header("x-hookgate-request-id")).await;
        assert_eq!(
            record["detail"]["denied_tools"],
            json!(["run_shell_command"])
        );
    }
}

#[tokio::test]
async fn reasons_of_hookgate_itself_are_shown_and_those_of_hooks_are_not() {
    let upstream = Upstream::mock().await;
    let config = "hooks:
  BeforeModel:
    - hooks:
        - { name: slow, command: sleep 5, timeout: 100, on_failure: closed }
        - { name: unsure, command: \"echo '{\\\"decision\\\":\\\"dney\\\",\\\"reason\\\":\\\"CANARY\\\"}'\", on_failure: closed }
        - { name: chatty, command: \"echo CANARY >&2; exit 2\" }
";
    let gateway = TestGateway::start(&upstream, config).await;

    let answer = gateway.agent().generate(MODEL, &prompt("hello")).await;

    let record = record(&gateway, answer.header("x-hookgate-request-id")).await;
    let model = event(&record, "BeforeModel");
    let text = |name: &str| rule(model, name)["reason"]["text"].clone();
    assert_eq!(text("slow"), "Hook slow failed: timed out");
    let unsure = text("unsure").as_str().unwrap().to_owned();
    assert!(
        unsure.starts_with("Hook unsure failed: unknown decision"),
        "{unsure}"
    );
    assert_eq!(text("chatty"), json!(null));
    assert_eq!(rule(model, "chatty")["reason"]["bytes"], 6);
    assert!(!record.to_string().contains("CANARY"), "{record:#}");
    let denials = gateway.operator().get("/denials").await.json();
    let mut groups = denials["groups"].as_array().unwrap().iter();
    let slow = groups.find(|group| group["rule"] == "slow").unwrap();
    assert_eq!(slow["reason"]["text"], "Hook slow failed: timed out");
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_listed_and_found_as_truncated() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        let head = chunked_head("text/event-stream");
        socket.write_all(head.as_bytes()).await.unwrap();
        // Without a finish reason, the chunk does not wait for the next one.
        let chunk = r#"{"candidates":[{"content":{"parts":[{"text":"some words, "}]}}]}"#;
        let chunk = format!("data: {chunk}\r\n\r\n");
        write_chunk(&mut socket, chunk.as_bytes()).await.unwrap();
    })
    .await;
    for config in ["", "policies: [{ policy: redact, detect: [email] }]\n"] {
        let gateway = TestGateway::start(&upstream, config).await;
        let path = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");

        let (agent, body) = (gateway.agent(), prompt("hi").to_string());
        // The connection may break before the head is read.
        if let Ok(mut answer) = agent.try_open(&path, body).await {
            while let Ok(Some(_)) = answer.chunk().await {}
        }

        let found = calls(&gateway, "ended=truncated", 1).await;
        assert_eq!(found["calls"][0]["end"], "truncated", "{found:#}");
        let others = gateway.operator().get("/calls?ended=complete").await.json();
        assert_eq!(others["calls"], json!([]));
        let page = Browser::at(&gateway).get("/console/calls").await.html;
        assert!(page.contains("<td>200, truncated</td>"), "{page}");
        let wrong = gateway.operator().get("/calls?ended=early").await;
        assert_eq!(wrong.status, 400);
    }
}

#[tokio::test]
async fn decisions_of_other_kinds_are_groups_of_their_own() {
    let upstream = Upstream::mock().await;
    let command = "grep -q first && decision=ask || decision=deny; \
        echo \"{\\\"decision\\\":\\\"$decision\\\",\\\"reason\\\":\\\"no\\\"}\"";
    let hooks = hook::config(&[("BeforeTool", hook::command("guard", command))]);
    let gateway = TestGateway::start(&upstream, &hooks).await;

    for argument in ["first", "second"] {
        let event = json!({ "hook_event_name": "BeforeTool", "session_id": "s",
            "tool_name": "shell", "tool_input": { "argument": argument } });
        gateway.agent().report(&event, "").await;
    }
    calls(&gateway, "", 2).await;

    let denials = gateway.operator().get("/denials").await.json();
    let groups = denials["groups"].as_array().unwrap();
    let mut actions: Vec<&str> = groups
        .iter()
        .filter_map(|group| group["action"].as_str())
        .collect();
    actions.sort_unstable();
    assert_eq!(actions, ["ask", "deny"], "{denials:#}");
}

#[tokio::test]
async fn the_range_of_a_list_begins_before_its_end() {
    let upstream = Upstream::mock().await;
    let command = "grep -q slow && sleep 1; exit 0";
    let hooks = hook::config(&[("BeforeModel", hook::command("look", command))]);
    let gateway = TestGateway::start(&upstream, &hooks).await;
    let slow = gateway.agent();
    let slow = tokio::spawn(async move { slow.generate(MODEL, &prompt("slow")).await });
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    gateway.agent().generate(MODEL, &prompt("fast")).await;
    slow.await.unwrap();

    let list = calls(&gateway, "", 2).await;

    let scanned = &list["scanned"];
    let (from, to) = (scanned["from"].as_str(), scanned["to"].as_str());
    assert!(from.unwrap() < to.unwrap(), "{scanned}");
}

#[tokio::test]
async fn the_filter_of_tools_matches_only_tools() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("SessionStart", hook::command("look", "true"))]);
    let gateway = TestGateway::start(&upstream, &config).await;
    let started = json!({ "hook_event_name": "SessionStart", "source": "startup" });
    gateway.agent().report(&started, "").await;
    let all = calls(&gateway, "", 1).await;

    let path = "/calls?tool=startup";
    let found = gateway.operator().get(path).await.json();

    let id = all["calls"][0]["id"].as_str().unwrap();
    let record = record(&gateway, id).await;
    assert_eq!(event(&record, "SessionStart")["subject"], "startup");
    assert_eq!(found["calls"], json!([]), "{found:#}");
}
