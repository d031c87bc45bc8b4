//! Time complexity of policies and of selections of tools: adversarial bodies do not take quadratic
//! time.

use std::{fmt::Write, time::Duration};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::MODEL;
use crate::{
    families::family::{Family, Part},
    harness::{TEST_TIMEOUT, TestGateway, Upstream, hook, prompt, respond},
};

/// The size of each body. In quadratic time, one would take minutes.
const BODY_BYTES: usize = 512 * 1024;

/// Time for one of the largest requests. In quadratic time, each would take minutes.
const LARGE_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A comma-separated list of numbered items, `BODY_BYTES` long.
fn numbered_list(item: fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0.. {
        if text.len() > BODY_BYTES {
            break;
        }
        write!(text, "{},", item(number)).unwrap();
    }
    text.pop();
    text
}

/// Lists numbered JSON values, separated by commas.
fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}

/// Function calls with about as many fields as an object of the API may have.
fn calls_with_many_fields() -> String {
    list(8, |_| {
        let fields = list(900, |number| format!(r#""a{number}":"a@b.com""#));
        format!(r#"{{"functionCall":{{"name":"f",{fields}}}}}"#)
    })
}

/// A list of one part, with this text repeated to `BODY_BYTES`.
fn part_with_repeated_text(text: &str) -> String {
    json!([{ "text": text.repeat(BODY_BYTES / text.len()) }]).to_string()
}

#[tokio::test]
async fn adversarial_requests_do_not_take_quadratic_time() {
    let upstream = Upstream::answering(&json!({})).await;
    let config = "
policies:
  - { policy: redact }
  - { policy: tool_guard, deny: [x], rules: [{ tool: y, argument: /a }] }
  - { policy: prompt_guard, deny: ['(a+)+b'] }
  - { policy: request_limits, max_output_tokens: 9 }
";
    let gateway = TestGateway::start(&upstream, config).await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let secrets = numbered_list(|number| format!(r#""a{number}@b.com":1"#));
    let fields = numbered_list(|number| format!(r#""a{number}":"a@b.com""#));
    let texts = numbered_list(|_| r#"{"text":"a@"}"#.to_owned());
    let tools =
        numbered_list(|number| format!(r#"{{"functionDeclarations":[{{"name":"{number}"}}]}}"#));
    let tool_fields = numbered_list(|number| format!(r#""a{number}":{{}}"#));
    let contents = |parts: String| format!(r#"{{"contents":[{{"parts":{parts}}}]}}"#);
    let bodies = [
        format!("{{{fields}}}"),
        contents(format!("[{{{fields}}}]")),
        contents(format!(r#"[{{"functionCall":{{"args":{{{secrets}}}}}}}]"#)),
        contents(format!("[{texts}]")),
        contents(part_with_repeated_text("a@")),
        contents(part_with_repeated_text("a@a.")),
        contents(part_with_repeated_text("-----BEGIN PRIVATE KEY-----\n")),
        contents(part_with_repeated_text("4111 ")),
        contents(part_with_repeated_text("eyJaaaaaaaaaaaaaa.")),
        contents(part_with_repeated_text("://a:")),
        format!(r#"{{"tools":[{tools}]}}"#),
        format!(r#"{{"tools":[{{{tool_fields}}}]}}"#),
    ];

    for body in bodies {
        let prefix: String = body.chars().take(80).collect();
        let answer = timeout(TEST_TIMEOUT, gateway.agent().post(&path, body)).await;
        // Has more fields than any message of the API, so it is refused.
        let status = if prefix.contains("\"a0\":") && !prefix.contains("args") {
            400
        } else {
            200
        };
        assert_eq!(answer.expect(&prefix).status, status, "{prefix}");
    }
}

#[tokio::test]
async fn requests_with_many_fields_do_not_take_quadratic_time() {
    let upstream = Upstream::answering(&json!({})).await;
    let gateway = TestGateway::start(&upstream, "policies: [{ policy: redact }]\n").await;
    let secrets = list(8000, |number| format!(r#""a{number}":"a@b.com""#));
    let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
    let texts = format!("[{},{}]", text("a@b.com"), text(" and"));
    let lists = list(3000, |number| format!(r#""a{number}":{texts}"#));
    let result = |response: &str| {
        format!(r#"{{"functionResponse":{{"name":"f","response":{{{response}}}}}}}"#)
    };
    let contents = |part: String| format!(r#"{{"contents":[{{"parts":[{part}]}}]}}"#);
    let path = format!("/v1beta/models/{MODEL}:generateContent");

    for body in [
        format!(r#"{{"labels":{{{secrets}}}}}"#),
        contents(result(&secrets)),
        contents(result(&lists)),
        contents(calls_with_many_fields()),
    ] {
        let prefix: String = body.chars().take(80).collect();
        let answer = timeout(TEST_TIMEOUT, gateway.agent().post(&path, body)).await;
        assert_eq!(answer.expect(&prefix).status, 200, "{prefix}");
        let sent = upstream.requests().pop().unwrap().body;
        assert!(!sent.contains("a@b.com"), "{prefix}");
    }
}

#[tokio::test]
async fn a_response_with_many_fields_does_not_take_quadratic_time() {
    let calls = calls_with_many_fields();
    let content = format!(r#"{{"role":"model","parts":[{calls}]}}"#);
    let body = format!(r#"{{"candidates":[{{"content":{content}}}]}}"#);
    let upstream = Upstream::with(move |_| respond(200, "application/json", body.clone())).await;
    let gateway = TestGateway::start(&upstream, "policies: [{ policy: redact }]\n").await;

    let agent = gateway.agent();
    let answer = timeout(TEST_TIMEOUT, agent.generate(MODEL, &prompt("go"))).await;

    let answer = answer.unwrap();
    assert_eq!(answer.status, 200);
    assert!(!answer.text().contains("a@b.com"));
}

#[tokio::test]
async fn a_buffered_response_of_many_chunks_does_not_take_quadratic_time() {
    let chunk = json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "sixteen letters. " }] } }] });
    let events = format!("data: {chunk}\r\n\r\n").repeat(BODY_BYTES / 16);
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
    let config = "after_model: buffered\npolicies: [{ policy: redact }]\n";
    let gateway = TestGateway::start(&upstream, config).await;

    let agent = gateway.agent();
    let answer = timeout(TEST_TIMEOUT, agent.stream(MODEL, &prompt("go"))).await;

    assert_eq!(answer.unwrap().events().len(), BODY_BYTES / 16);
}

/// Sends a large request that policies edit. Returns it as it is upstream.
async fn edited(family: Family, body: String) -> String {
    let upstream = Upstream::answering(&family.whole(&[Part::text(&["ok"])])).await;
    let config = "
policies:
  - { policy: redact, detect: [email] }
  - { policy: tool_guard, deny: ['r*'] }
";
    let gateway = family.gateway(&upstream, config).await;
    let answer = timeout(LARGE_REQUEST_TIMEOUT, family.post(&gateway, false, body)).await;
    let answer = answer.expect("the request takes quadratic time");
    assert_eq!(answer.status, 200, "{}", answer.text());
    upstream.only_request().body
}

#[tokio::test]
async fn an_edit_beside_many_system_messages_does_not_take_quadratic_time() {
    let system = list(30_000, |_| r#"{"role":"system","content":"s"}"#.to_owned());
    let user = r#"{"role":"user","content":"ann@example.com"}"#;
    let body = format!(r#"{{"model":"m","max_tokens":9,"messages":[{user},{system}]}}"#);

    let sent = edited(Family::Anthropic, body).await;

    assert!(sent.contains("[REDACTED:email]"));
    assert_eq!(sent.matches(r#""system""#).count(), 30_000);
}

#[tokio::test]
async fn withholding_many_tools_does_not_take_quadratic_time() {
    let tools = list(40_000, |_| r#"{"name":"rm"}"#.to_owned());
    let reference = |_| r#"{"type":"tool_reference","tool_name":"k"}"#.to_owned();
    let references = list(30_000, reference);
    let removal = r#"{"type":"tool_removal","tool":{"type":"tool_reference","name":"k"}}"#;
    let removals = list(40_000, |_| removal.to_owned());
    let call = r#"{"type":"tool_use","id":"t","name":"look","input":{}}"#;
    let result = format!(r#"{{"type":"tool_result","tool_use_id":"t","content":[{references}]}}"#);
    let messages = format!(
        r#"{{"role":"user","content":"hi"}},{{"role":"assistant","content":[{call}]}},{{"role":"user","content":[{result}]}},{{"role":"system","content":[{removals}]}}"#
    );
    let body = format!(
        r#"{{"model":"m","max_tokens":9,"messages":[{messages}],"tools":[{tools},{{"name":"look"}}]}}"#
    );

    let sent = edited(Family::Anthropic, body).await;

    assert!(sent.contains(r#""tools":[{"name":"look"}]"#));
    assert_eq!(sent.matches(r#""tool_removal""#).count(), 40_000);
}

#[tokio::test]
async fn withholding_all_tools_beside_many_calls_does_not_take_quadratic_time() {
    // Long names of the same length, so that each comparison reads them.
    let tools = list(40_000, |number| {
        format!(r#"{{"name":"run_{number:0>60}"}}"#)
    });
    let calls = list(30_000, |number| {
        format!(r#"{{"type":"tool_use","id":"{number}","name":"ran_{number:0>60}","input":{{}}}}"#)
    });
    let messages = format!(
        r#"{{"role":"user","content":"hi"}},{{"role":"assistant","content":[{calls}]}},{{"role":"user","content":"on"}}"#
    );
    let body =
        format!(r#"{{"model":"m","max_tokens":9,"messages":[{messages}],"tools":[{tools}]}}"#);

    let sent = edited(Family::Anthropic, body).await;

    assert!(!sent.contains("run_"));
    assert_eq!(sent.matches("ran_").count(), 30_000);
}

#[tokio::test]
async fn withholding_some_of_many_chosen_tools_does_not_take_quadratic_time() {
    let function =
        |name: &str, number: usize| format!(r#"{{"type":"function","name":"{name}_{number}"}}"#);
    let kept = list(30_000, |number| function("look", number));
    let withheld = list(30_000, |number| function("rm", number));
    let chosen = format!("{},{kept}", function("rm", 0));
    let choice = format!(r#"{{"type":"allowed_tools","mode":"auto","tools":[{chosen}]}}"#);
    let body = format!(
        r#"{{"model":"m","input":"hi","tool_choice":{choice},"tools":[{kept},{withheld}]}}"#
    );

    let sent = edited(Family::Responses, body).await;

    assert!(!sent.contains("rm_"));
    assert_eq!(sent.matches("look_").count(), 60_000);
}

/// A selection of many functions in this mode.
fn selection(mode: &str, count: usize) -> Value {
    let names: Vec<String> = (0..count).map(|number| format!("look_{number}")).collect();
    json!({ "mode": mode, "allowedFunctionNames": names })
}

/// Sends a request with many functions and `rm` through hooks, each with its event and its output.
/// The model calls each fourth function. Returns the numbers of functions that upstream receives
/// and of calls that the agent receives.
async fn declared_and_called(count: usize, outputs: &[(&str, Value)]) -> (usize, usize) {
    let calls = list(count / 4, |number| {
        format!(
            r#"{{"functionCall":{{"name":"look_{}","args":{{}}}}}}"#,
            number * 4
        )
    });
    let response =
        format!(r#"{{"candidates":[{{"content":{{"role":"model","parts":[{calls}]}}}}]}}"#);
    let upstream =
        Upstream::with(move |_| respond(200, "application/json", response.clone())).await;
    let hook = |event: &str| hook::command(event, &format!("cat > /dev/null; cat {event}.json"));
    let hooks: Vec<(&str, Value)> = outputs
        .iter()
        .map(|(event, _)| (*event, hook(event)))
        .collect();
    let files = outputs.iter();
    let files = files.map(|(event, output)| (format!("{event}.json"), output.to_string()));
    let files: Vec<(String, String)> = files.collect();
    let files = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()));
    let files: Vec<(&str, &str)> = files.collect();
    let family = Family::Gemini;
    let gateway = family
        .gateway_with_files(&upstream, &hook::config(&hooks), &files)
        .await;
    let functions = list(count, |number| format!(r#"{{"name":"look_{number}"}}"#));
    let tools = format!(r#"[{{"functionDeclarations":[{functions},{{"name":"rm"}}]}}]"#);
    let contents = r#"[{"role":"user","parts":[{"text":"hi"}]}]"#;
    let body = format!(r#"{{"contents":{contents},"tools":{tools}}}"#);

    let answer = timeout(LARGE_REQUEST_TIMEOUT, family.post(&gateway, false, body)).await;

    let answer = answer.expect("the request takes quadratic time");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let declared = family.tools(&upstream.only_request()).len();
    (declared, answer.text().matches(r#""functionCall""#).count())
}

#[tokio::test]
async fn selecting_many_functions_does_not_take_quadratic_time() {
    for (mode, declared) in [("AUTO", 40_000), ("ANY", 40_001)] {
        let output = hook::tools(&selection(mode, 40_000));
        let outputs = [("BeforeToolSelection", output)];

        assert_eq!(
            declared_and_called(40_000, &outputs).await,
            (declared, 10_000)
        );
    }
}

#[tokio::test]
async fn selecting_many_functions_twice_does_not_take_cubic_time() {
    let config = json!({ "toolConfig": selection("ANY", 3000) });
    let outputs = [
        ("BeforeModel", hook::request(&config)),
        ("BeforeToolSelection", hook::tools(&selection("AUTO", 3000))),
    ];

    assert_eq!(declared_and_called(3000, &outputs).await, (3000, 750));
}
