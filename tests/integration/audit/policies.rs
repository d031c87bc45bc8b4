//! What policies do to answers, in the decision log, in metrics and in headers.

use serde_json::{Value, json};

use super::{AUDIT, hash, kinds, lines::ended};
use crate::harness::{Answer, TestGateway, Upstream, decision_log, prompt, run};

const MODEL: &str = "gemini-2.5-pro";

/// A model that calls a tool, and then says something.
async fn calling() -> Upstream {
    let say = |part: Value| {
        let content = json!({ "role": "model", "parts": [part] });
        let answer = json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] });
        json!({ "method": "generateContent", "response": answer }).to_string()
    };
    let call = json!({ "functionCall": { "name": "run_shell_command", "args": {} } });
    let text = json!({ "text": "mail a@b.example" });
    Upstream::scripted(&[say(call), say(text)].join("\n")).await
}

fn guard(more: &str) -> String {
    format!(
        "{AUDIT}policies: [{{ policy: tool_guard, name: tools, deny: [run_shell_command]{more} }}]\n"
    )
}

fn names(answer: &Answer) -> Vec<String> {
    let hooks = answer.header("x-hookgate-hooks").split(", ");
    let names = hooks.map(|it| it.split(';').next().unwrap().to_owned());
    names.collect()
}

async fn metrics(gate: &TestGateway) -> String {
    gate.operator().get("/metrics").await.text().to_owned()
}

#[tokio::test]
async fn a_call_that_a_policy_takes_out_is_a_denial() {
    let upstream = calling().await;
    let gate = TestGateway::start(&upstream, &guard("")).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(names(&answer), ["tools", "tools", "tools"]);
    let counted = metrics(&gate).await;
    for line in [
        r#"hookgate_denials_total{event="BeforeTool"} 1"#,
        r#"hookgate_hook_runs_total{event="AfterModel",hook="tools",status="ok"} 2"#,
    ] {
        assert!(counted.contains(line), "{line}: {counted}");
    }
    let path = gate.path("audit.jsonl");
    let folder = gate.stop_keeping().await;
    let lines = decision_log(&path);
    assert_eq!(
        kinds(&lines[1..]),
        [
            "BeforeModel",
            "request",
            "BeforeTool",
            "BeforeModel",
            "request",
            "AfterModel",
            "outcome",
            "stop"
        ]
    );
    let refused = &lines[3];
    assert_eq!(
        (&refused["subject"], &refused["verdict"]),
        (&json!("run_shell_command"), &json!("deny"))
    );
    assert_eq!(
        (&refused["request"], &refused["hooks"][0]["name"]),
        (&lines[2]["request"], &json!("tools"))
    );
    let told = hash("The tool `run_shell_command` is not allowed here.");
    assert_eq!(refused["reason"]["sha256"], told);
    let looked = &lines[6];
    assert_eq!(
        (&looked["verdict"], &looked["chunks"]),
        (&json!("proceed"), &json!(2))
    );
    assert_eq!(
        (
            &looked["hooks"][0]["edited"],
            &looked["hooks"][0]["denied_calls"]
        ),
        (&json!(true), &json!(1))
    );
    let show = ["audit", "show", "audit.jsonl", "--verdict", "deny"];
    let (_, out, _) = run(&show, folder.path());
    assert!(
        out.contains("event BeforeTool run_shell_command deny tools("),
        "{out}"
    );
    assert_eq!(out.lines().count(), 1, "{out}");
}

#[tokio::test]
async fn a_call_that_a_policy_would_take_out_is_known() {
    let upstream = calling().await;
    let gate = TestGateway::start(&upstream, &guard(", mode: observe")).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert!(answer.text().contains("run_shell_command"));
    assert_eq!(names(&answer), ["tools", "tools"]);
    assert!(!metrics(&gate).await.contains("hookgate_denials_total{"));
    let lines = ended(gate).await;
    let call = lines.iter().find(|it| it["event"] == "BeforeTool").unwrap();
    assert_eq!(
        (&call["verdict"], &call["hooks"][0]["would"]),
        (&json!("proceed"), &json!("would_deny"))
    );
    let looked = lines.iter().find(|it| it["event"] == "AfterModel").unwrap();
    assert_eq!(looked["hooks"][0]["denied_calls"], 1);
}

#[tokio::test]
async fn what_a_policy_masks_is_known_also_in_streams_and_of_who_observes() {
    let text = |it: &str| {
        let content = json!({ "role": "model", "parts": [{ "text": it }] });
        json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] })
    };
    for (said, edited) in [("mail a@b.example", json!(true)), ("mail him", Value::Null)] {
        for mode in ["enforce", "observe"] {
            let upstream = Upstream::answering(&text(said)).await;
            let policy =
                format!("{{ policy: redact, name: mails, detect: [email], mode: {mode} }}");
            let gate =
                TestGateway::start(&upstream, &format!("{AUDIT}policies: [{policy}]\n")).await;

            gate.agent().generate(MODEL, &prompt("hello")).await;

            let lines = ended(gate).await;
            let looked = lines.iter().find(|it| it["event"] == "AfterModel").unwrap();
            let hook = &looked["hooks"][0];
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
    let lines = ended(gate).await;
    let looked = lines.iter().find(|it| it["event"] == "AfterModel").unwrap();
    assert!(looked["chunks"].as_u64() > Some(1), "{looked}");
    let runs = (&looked["hooks"][0]["runs"], &looked["hooks"][0]["name"]);
    assert_eq!(runs, (&looked["chunks"], &json!("mails")), "{looked}");
    assert_eq!(looked["hooks"][0]["edited"], true, "{looked}");
}

#[tokio::test]
async fn a_tool_that_a_policy_takes_out_of_a_request_is_known() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &guard("")).await;
    let mut body = prompt("hello");
    body["tools"] = json!([{ "functionDeclarations": [{ "name": "run_shell_command" }] }]);

    gate.agent().generate(MODEL, &body).await;

    let lines = ended(gate).await;
    let event = lines
        .iter()
        .find(|it| it["event"] == "BeforeModel")
        .unwrap();
    assert_eq!(event["hooks"][0]["edited"], true);
}
