//! Test vectors of the hook protocols, with real processes: all of them through the events
//! endpoint, and model events also through model calls.

use serde_json::{Map, Value, json};

use crate::harness::{Answer, TestGateway, Upstream, prompt};

const VECTORS: &str = include_str!("../cases/vectors.json");
const CLAUDE_AND_CODEX: &str = include_str!("../cases/claude_codex_vectors.json");

#[tokio::test]
async fn every_vector_of_every_protocol_holds() {
    assert_vectors_hold(VECTORS, 104).await;
}

#[tokio::test]
async fn every_vector_of_claude_code_and_codex_holds() {
    assert_vectors_hold(CLAUDE_AND_CODEX, 83).await;
}

/// Checks all vectors of a file, and their number.
async fn assert_vectors_hold(file: &str, expected: usize) {
    let cases: Value = serde_json::from_str(file).unwrap();
    let vectors = cases["vectors"].as_array().unwrap();

    let runs: Vec<_> = vectors
        .iter()
        .map(|vector| (vector["id"].to_string(), tokio::spawn(run(vector.clone()))))
        .collect();
    let (mut held, mut failures) = (0, Vec::new());
    for (id, run) in runs {
        match run.await {
            Ok(differences) if differences.is_empty() => held += 1,
            Ok(differences) => failures.push(format!("{id}:\n  {}", differences.join("\n  "))),
            Err(panicked) => failures.push(format!("{id}: {panicked}")),
        }
    }

    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!((held, vectors.len()), (expected, expected));
}

/// Runs a vector. Returns every difference from its expectations.
async fn run(vector: Value) -> Vec<String> {
    let answer = vector.get("response").cloned();
    let upstream = Upstream::answering(&answer.unwrap_or_else(plain_answer)).await;
    let gate = start(&upstream, &vector).await;
    let mut checks = Checks::default();
    let event = text(&vector["event"]);
    let is_call = matches!(event, "BeforeModel" | "BeforeToolSelection" | "AfterModel");
    let input = if is_call {
        call(&vector, &gate, &upstream, &mut checks).await;
        // An agent would report the same input that hooks received on the call.
        gate.json("stdin-0").as_object().unwrap().clone()
    } else {
        input(&vector)
    };

    let reported = Value::Object(input.clone());
    let output = gate.agent().report(&reported, "explain=1&wait=1").await;

    checks.same("status", &json!(output.status), &json!(200));
    let output = output.json();
    check_output(&vector, &output, &mut checks);
    check_effects(&vector, &input, &output, &mut checks);
    check_stdin(&vector, &gate, &mut checks);
    checks.differences
}

/// Starts a gateway whose hooks save their stdin and then behave as the vector specifies.
async fn start(upstream: &Upstream, vector: &Value) -> TestGateway {
    let silent = json!({ "exit_code": 0, "stdout": "", "stderr": "" });
    let given = vector["hooks"].as_array().unwrap();
    let behaviors = if given.is_empty() {
        &vec![silent]
    } else {
        given
    };
    let mut files = Vec::new();
    let mut hooks = Vec::new();
    for (index, behavior) in behaviors.iter().enumerate() {
        files.push((
            format!("stdout-{index}"),
            text(&behavior["stdout"]).to_owned(),
        ));
        files.push((
            format!("stderr-{index}"),
            text(&behavior["stderr"]).to_owned(),
        ));
        let end = match (&behavior["exit_code"], &behavior["signal"]) {
            (Value::Number(code), _) => format!("exit {code}"),
            (_, Value::Number(signal)) => format!("kill -{signal} $$"),
            _ => "exec sleep 60".to_owned(),
        };
        let command =
            format!("cat > stdin-{index}; cat stdout-{index}; cat stderr-{index} >&2; {end}");
        let timeout = if behavior["timed_out"] == true {
            "300ms"
        } else {
            "60s"
        };
        hooks.push(
            json!({ "name": format!("hook-{index}"), "command": command, "timeout": timeout }),
        );
    }
    let group = json!({
        "matcher": text(&vector["matcher"]),
        "sequential": vector["sequential"] == true,
        "hooks": hooks,
    });
    let name = vector.get("alias").unwrap_or(&vector["event"]);
    let settings = json!({ "hooks": { text(name): [group] } });
    files.push(("settings.json".to_owned(), settings.to_string()));
    let file = json!({ "path": "settings.json", "protocol": vector["protocol"] });
    let config = format!("hook_files: [{file}]");
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, content)| (name.as_str(), content.as_str()))
        .collect();
    TestGateway::with_files(upstream, &config, &files).await
}

/// Returns the input of the vector's event.
fn input(vector: &Value) -> Map<String, Value> {
    let value = &vector["value"];
    let arguments = vector.get("tool_args").cloned().unwrap_or(json!({}));
    let tool = value.as_str().unwrap_or("write_file");
    let input = match text(&vector["event"]) {
        "SessionStart" => json!({ "source": value }),
        "SessionEnd" => json!({ "reason": "exit" }),
        "BeforeAgent" => json!({ "prompt": "Q" }),
        "AfterAgent" => json!({ "prompt": "Q", "prompt_response": "A", "stop_hook_active": false }),
        "BeforeTool" => json!({ "tool_name": tool, "tool_input": arguments }),
        "AfterTool" => json!({
            "tool_name": tool,
            "tool_input": arguments,
            "tool_response": { "llmContent": vector["tool_result_text"], "returnDisplay": "" },
        }),
        "PreCompress" => json!({ "trigger": "auto" }),
        "Notification" => {
            json!({ "notification_type": "ToolPermission", "message": "", "details": {} })
        }
        _ => json!({}),
    };
    let mut fields = input.as_object().unwrap().clone();
    fields.insert("hook_event_name".to_owned(), vector["event"].clone());
    if let Some(given) = vector["input"].as_object() {
        fields.extend(given.clone());
    }
    fields
}

/// Makes a unary and a streamed call, and checks the responses and the requests to upstream.
async fn call(vector: &Value, gate: &TestGateway, upstream: &Upstream, checks: &mut Checks) {
    let mut body = match vector["request"].as_object() {
        Some(request) => request.clone(),
        None => prompt("Q").as_object().unwrap().clone(),
    };
    let model = body.shift_remove("model");
    let model = model.as_ref().map_or("gemini-2.5-pro", text);
    let body = Value::Object(body);
    let unary = gate.agent().generate(model, &body).await;
    check_answer("unary", vector, &unary, Answer::json, checks);
    let stream = gate.agent().stream(model, &body).await;
    let only = |answer: &Answer| {
        let [event] = &answer.events()[..] else {
            panic!("more than one event: {}", answer.text());
        };
        event.clone()
    };
    check_answer("stream", vector, &stream, only, checks);
    check_upstream_requests(vector, upstream, checks);
}

/// Checks the requests that upstream received.
fn check_upstream_requests(vector: &Value, upstream: &Upstream, checks: &mut Checks) {
    let expected = &vector["expected"];
    let asked = upstream.requests();
    let refused = matches!(&expected["action"], Value::String(action) if action != "proceed");
    let reaches = !refused || vector["event"] == "AfterModel";
    let calls = if reaches { 2 } else { 0 };
    checks.same("calls to upstream", &json!(asked.len()), &json!(calls));
    for asked in asked {
        let Some(wanted) = expected.get("outgoing_request") else {
            continue;
        };
        let name = asked
            .path
            .rsplit('/')
            .next()
            .and_then(|part| part.split_once(':'));
        let mut whole = asked.json();
        whole["model"] = json!(name.unwrap().0);
        checks.same("outgoing request", &whole, wanted);
    }
}

/// Checks the response that the agent received.
fn check_answer(
    form: &str,
    vector: &Value,
    answer: &Answer,
    read: impl Fn(&Answer) -> Value,
    checks: &mut Checks,
) {
    checks.same(form, &json!(answer.status), &json!(200));
    let received = read(answer);
    let (expected, aggregate) = (&vector["expected"], &vector["expected"]["aggregate"]);
    if let Some(wanted) = expected.get("outgoing_response") {
        checks.same(form, &received, wanted);
        return;
    }
    if let Some(wanted) = expected.get("synthetic_response") {
        checks.same(form, &received["candidates"], &wanted["candidates"]);
        return;
    }
    let reason = match expected["action"].as_str() {
        Some("block") => &aggregate["reason"],
        Some("stop") => &aggregate["stopReason"],
        _ => {
            let given = vector.get("response").cloned();
            checks.same(form, &received, &given.unwrap_or_else(plain_answer));
            return;
        }
    };
    let message = json!([{
        "content": { "role": "model", "parts": [{ "text": reason }] },
        "finishReason": "STOP",
        "index": 0,
    }]);
    checks.same(form, &received["candidates"], &message);
}

/// Checks the merged output of the hooks.
fn check_output(vector: &Value, output: &Value, checks: &mut Checks) {
    let (expected, explanation) = (&vector["expected"], &output["hookgate"]);
    if let Some(wanted) = expected.get("aggregate") {
        checks.same("aggregate", &flat(output), wanted);
    }
    if let Some(action) = expected["action"].as_str() {
        let verdict = match action {
            "block" => "deny",
            "synthetic" => "respond",
            action => action,
        };
        checks.same("verdict", &explanation["verdict"], &json!(verdict));
    }
    let runs = explanation["hooks"].as_array().unwrap();
    if let Some(wanted) = expected.get("hook_status") {
        let statuses: Value = runs.iter().map(|run| run["status"].clone()).collect();
        checks.same("hook status", &statuses, wanted);
    }
    if let Some(wanted) = expected.get("runs") {
        checks.same("runs", &json!(!runs.is_empty()), wanted);
    }
    let diagnostics = runs.iter().filter_map(|run| run["diagnostics"].as_array());
    let codes: Vec<&Value> = diagnostics.flatten().map(|entry| &entry["code"]).collect();
    for wanted in expected["diagnostics"].as_array().into_iter().flatten() {
        checks.same("diagnostic", &json!(codes.contains(&wanted)), &json!(true));
    }
}

/// Checks the arguments, context and tool result that an agent takes from the output.
fn check_effects(vector: &Value, input: &Map<String, Value>, output: &Value, checks: &mut Checks) {
    let expected = &vector["expected"];
    if let Some(wanted) = expected.get("final_tool_args") {
        let edited = output["hookgate"].get("arguments");
        checks.same("arguments", edited.unwrap_or(&input["tool_input"]), wanted);
    }
    let context = text(&output["hookgate"]["context"]);
    if vector["event"] == "BeforeAgent" && expected.get("outgoing_request").is_some() {
        let contents = &expected["outgoing_request"]["contents"];
        let part = contents[0]["parts"].as_array().unwrap().last().unwrap();
        checks.same("context", &json!(context), &part["text"]);
    }
    if let Some(wanted) = expected.get("tool_result_text") {
        let result = format!("{}\n\n{context}", text(&vector["tool_result_text"]));
        checks.same("tool result", &json!(result), wanted);
    }
}

/// Checks the stdin that hooks received.
fn check_stdin(vector: &Value, gate: &TestGateway, checks: &mut Checks) {
    let given = |index| -> Value {
        let stdin = gate.file(&format!("stdin-{index}"));
        serde_json::from_str(&stdin).unwrap_or(Value::Null)
    };
    let expected = &vector["expected"];
    for key in ["llm_request", "llm_response"] {
        if let Some(wanted) = expected.get(key) {
            checks.same(key, &given(0)[key], wanted);
        }
    }
    let fields = expected["stdin_fields"].as_array().into_iter().flatten();
    for (index, wanted) in fields.enumerate() {
        for (key, wanted) in wanted.as_object().unwrap() {
            checks.same(&format!("stdin {index}"), &given(index)[key], wanted);
        }
    }
}

/// Moves the fields of `hookSpecificOutput` to the top level, and adds defaults.
fn flat(output: &Value) -> Value {
    let mut fields = json!({ "decision": "allow", "continue": true });
    let all = fields.as_object_mut().unwrap();
    all.extend(output.as_object().unwrap().clone());
    all.shift_remove("hookgate");
    if let Some(Value::Object(specific)) = all.shift_remove("hookSpecificOutput") {
        all.extend(specific);
        all.shift_remove("hookEventName");
    }
    fields
}

fn plain_answer() -> Value {
    json!({ "candidates": [{
        "content": { "role": "model", "parts": [{ "text": "A" }] },
        "finishReason": "STOP",
        "index": 0,
    }] })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Differences, collected so that a failure lists all of them.
#[derive(Default)]
struct Checks {
    differences: Vec<String>,
}

impl Checks {
    fn same(&mut self, what: &str, got: &Value, expected: &Value) {
        if got != expected {
            let difference = format!("{what}\n    got      {got}\n    expected {expected}");
            self.differences.push(difference);
        }
    }
}
