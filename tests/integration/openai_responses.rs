//! Behaviour that is specific to the Responses API: stored content, tool declarations in the
//! conversation, reasoning items and error forms.

mod compatible_servers;
mod other_numbers;
mod unindexed_events;

use serde_json::{Value, json};

use crate::harness::{Agent, Answer, TestGateway, Upstream, hook, read_to_end, respond};

const DENY_RM: &str = "policies: [{ policy: tool_guard, deny: [rm], reason: not here }]\n";

async fn gateway(upstream: &Upstream, config: &str) -> TestGateway {
    let upstreams = "upstreams: { openai: { url: \"{upstream}\" } }\n";
    TestGateway::start(upstream, &format!("{upstreams}{config}")).await
}

async fn ask(gateway: &TestGateway, body: &Value) -> Answer {
    gateway
        .agent()
        .post("/v1/responses", body.to_string())
        .await
}

fn user(text: &str) -> Value {
    json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })
}

fn function(name: &str) -> Value {
    json!({ "type": "function", "name": name, "parameters": { "type": "object" } })
}

fn no_op_hook() -> String {
    hook::config(&[("BeforeModel", hook::command("quiet", "cat > /dev/null"))])
}

/// Types of the events of a stream, and the response that ends it.
fn stream(answer: &Answer) -> (Vec<String>, Value) {
    let events = events(answer);
    let names = events.iter().map(|event| event["type"].as_str().unwrap());
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    (names.map(str::to_owned).collect(), last["response"].clone())
}

/// A model API that streams these events, numbered.
async fn streaming(events: &[Value]) -> Upstream {
    let events = (0..).zip(events.iter().cloned());
    let events = events.map(|(number, mut event)| {
        event["sequence_number"] = json!(number);
        format!("data: {event}\n\n")
    });
    let events: String = events.collect();
    Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await
}

/// The events of a stream.
fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let lines = answer.text().lines();
    let data = lines.filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn created() -> Value {
    json!({ "type": "response.created",
        "response": { "id": "r", "status": "in_progress", "output": [] } })
}

/// The texts of a response.
fn text(response: &Value) -> String {
    let items = response["output"].as_array().unwrap();
    let blocks = items.iter().flat_map(|item| {
        let content = item["content"].as_array();
        content.cloned().unwrap_or_default()
    });
    blocks
        .filter_map(|block| block["text"].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn paths_with_and_without_a_version_are_one_method() {
    let upstream = Upstream::mock().await;
    let gateway = gateway(&upstream, &no_op_hook()).await;
    let body = json!({ "model": "gpt-5.1", "input": "hello" }).to_string();
    for path in ["/v1/responses", "/responses", "/v1/responses?beta=true"] {
        let answer = gateway.agent().post(path, body.clone()).await;
        assert_eq!(text(&answer.json()), "You said: hello", "{path}");
    }
    let answer = gateway.agent().post("/v1/responses?alt=sse", body).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
}

#[tokio::test]
async fn a_websocket_is_answered_with_426() {
    let upstream = Upstream::mock().await;
    for config in [String::new(), no_op_hook()] {
        let gateway = gateway(&upstream, &config).await;
        let agent: Agent = gateway
            .agent()
            .sending("connection", "Upgrade")
            .sending("upgrade", "websocket")
            .sending("authorization", "Bearer k");
        let answer = agent.get("/v1/responses").await;
        assert_eq!(answer.status, 426, "{}", answer.text());
        assert_eq!(answer.json()["error"]["code"], "WEBSOCKET_REFUSED");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn fields_that_hide_content_from_hooks_are_refused() {
    let upstream = Upstream::mock().await;
    let gateway = gateway(&upstream, &no_op_hook()).await;
    for (field, value) in [
        ("previous_response_id", json!("resp_1")),
        ("conversation", json!("conv_1")),
        ("prompt", json!({ "id": "pmpt_1" })),
        ("preset", json!("other")),
        ("prompt_id", json!("other")),
        ("background", json!(true)),
        (
            "input",
            json!([{ "type": "item_reference", "id": "msg_1" }]),
        ),
    ] {
        let mut body = json!({ "model": "gpt-5.1", "input": "hello" });
        body[field] = value;
        let answer = ask(&gateway, &body).await;
        assert_eq!(answer.status, 400, "{field}: {}", answer.text());
        let error = &answer.json()["error"];
        assert_eq!(error["type"], "invalid_request_error");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("because hooks cannot see"), "{message}");
        let is_named = message.contains(&format!("`{field}` must be absent"));
        assert!(is_named || field == "input", "{message}");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_reference_to_a_stored_response_passes_without_hooks() {
    let upstream = Upstream::with(|asked| respond(200, "application/json", asked.body)).await;
    let gateway = gateway(&upstream, "").await;
    let body = json!({ "model": "gpt-5.1", "previous_response_id": "resp_1", "input": "hi" });
    let answer = ask(&gateway, &body).await;
    assert_eq!(answer.text(), body.to_string());
}

#[tokio::test]
async fn methods_on_stored_content_are_refused_and_listing_models_passes() {
    let upstream = Upstream::mock().await;
    let gateway = gateway(&upstream, &no_op_hook()).await;
    let agent = gateway.agent().sending("authorization", "Bearer k");
    for path in [
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/input_items",
        "/v1/conversations/conv_1",
        "/v1/files",
    ] {
        let answer = agent.get(path).await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        assert_eq!(answer.json()["error"]["code"], "METHOD_REFUSED", "{path}");
    }
    let models = agent.get("/v1/models").await;
    assert_eq!(models.status, 200, "{}", models.text());
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_denial_as_an_error_has_a_form_that_agents_do_not_retry() {
    let upstream = Upstream::mock().await;
    let deny = hook::config(&[("BeforeModel", hook::denying("guard", "not today"))]);
    let gateway = gateway(&upstream, &format!("{deny}denials: error\n")).await;
    let answer = ask(&gateway, &json!({ "model": "gpt-5.1", "input": "hello" })).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.header("x-should-retry"), "false");
    let error = json!({
        "message": answer.json()["error"]["message"],
        "type": "invalid_request_error",
        "param": null,
        "code": "content_policy_violation",
    });
    assert_eq!(answer.json(), json!({ "error": error }));
    assert!(answer.text().contains("not today"));
}

#[tokio::test]
async fn tools_are_withheld_wherever_they_are_declared() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: tool_guard, allow: [look] }]\n";
    let gateway = gateway(&upstream, config).await;
    let namespace = json!({ "type": "namespace", "name": "n", "description": "d", "tools": [function("look"), function("rm")] });
    let body = json!({
        "model": "gpt-5.1",
        "input": [
            { "type": "additional_tools", "role": "developer", "tools": [function("rm")] },
            { "type": "additional_tools", "role": "developer", "tools": [function("look"), { "type": "web_search" }] },
            user("hello"),
        ],
        "tools": [namespace, function("rm"), { "type": "mcp", "server_label": "s", "server_url": "https://example.com" }, { "type": "web_search" }],
        "tool_choice": { "type": "function", "name": "rm" },
    });
    let answer = ask(&gateway, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = upstream.only_request().json();
    let mut expected = body.clone();
    expected["tools"] = json!([
        { "type": "namespace", "name": "n", "description": "d", "tools": [function("look")] },
    ]);
    let items = expected["input"].as_array_mut().unwrap();
    items[1]["tools"] = json!([function("look")]);
    items.remove(0);
    let choice = asked["tool_choice"].clone();
    assert!(choice.is_null() || choice == "none", "{choice}");
    expected["tool_choice"] = choice.clone();
    if choice.is_null() {
        expected.as_object_mut().unwrap().remove("tool_choice");
    }
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn searches_of_compatible_servers_are_withheld_by_name() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: tool_guard, deny: [web_search] }]\n";
    let gateway = gateway(&upstream, config).await;
    let plain = json!({ "model": "gpt-5.1", "input": "hi", "tools": [function("look")] });
    for (field, value) in [
        ("search_parameters", json!({ "mode": "auto" })),
        ("plugins", json!([{ "id": "web" }])),
    ] {
        let mut body = plain.clone();
        body[field] = value;
        ask(&gateway, &body).await;
        assert_eq!(upstream.requests().pop().unwrap().json(), plain, "{field}");
    }
}

#[tokio::test]
async fn the_model_of_a_hosted_tool_must_be_allowed() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: model_allow, models: ['gpt-5*'] }]\n";
    let gateway = gateway(&upstream, config).await;
    let image = |model: &str| {
        let tool = json!({ "type": "image_generation", "model": model });
        json!({ "model": "gpt-5.1", "input": "hello", "tools": [tool] })
    };
    let answer = ask(&gateway, &image("gpt-5-image")).await;
    assert_eq!(text(&answer.json()), "You said: hello");
    let denied = ask(&gateway, &image("gpt-image-1.5")).await;
    assert!(
        denied.text().contains("`gpt-image-1.5` is not allowed"),
        "{}",
        denied.text()
    );
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_hook_sees_and_can_deny_the_container_of_an_earlier_call() {
    let upstream = Upstream::mock().await;
    let refuse = "if grep -q cntr_other; then echo not yours >&2; exit 2; fi";
    let mut refuse = hook::command("refuse", refuse);
    refuse["document"] = true.into();
    let gateway = gateway(&upstream, &hook::config(&[("BeforeModel", refuse)])).await;
    let body = |container: &str| {
        let call = json!({ "type": "code_interpreter_call", "id": "ci_1", "status": "completed",
            "container_id": container, "code": "1", "outputs": [] });
        let tool = json!({ "type": "code_interpreter", "container": { "type": "auto" } });
        json!({ "model": "m", "input": [call, user("hello")], "tools": [tool] })
    };
    let answer = ask(&gateway, &body("cntr_own")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(upstream.only_request().json(), body("cntr_own"));
    let denied = ask(&gateway, &body("cntr_other")).await;
    assert!(denied.text().contains("not yours"), "{}", denied.text());
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_shell_that_the_agent_runs_is_never_taken_for_a_hosted_one() {
    let call = |place: &str| {
        json!({ "type": "shell_call", "id": "sh_1", "call_id": "call_1", "status": "completed",
            "action": { "commands": ["rm -rf /"] },
            "environment": { "type": place, "container_id": "c" } })
    };
    let response = |place: &str| {
        json!({ "id": "r", "object": "response", "status": "completed", "model": "m",
            "output": [call(place)] })
    };
    let shell = |place: &str| json!([{ "type": "shell", "environment": { "type": place } }]);
    let config =
        "policies: [{ policy: redact }]\ncoverage: { allow: [responses.prompt] }\n".to_owned();
    let prompt = json!({ "id": "pmpt_1" });

    for (declared, prompt, called, is_refused) in [
        (json!([]), Value::Null, "container_auto", true),
        (json!([]), prompt, "container_auto", false),
        (shell("local"), Value::Null, "container_reference", true),
        (shell("local"), Value::Null, "local", false),
        (
            shell("container_auto"),
            Value::Null,
            "container_reference",
            false,
        ),
    ] {
        let answered = response(called).to_string();
        let upstream =
            Upstream::with(move |_| respond(200, "application/json", answered.clone())).await;
        let gateway = gateway(&upstream, &config).await;
        let mut body = json!({ "model": "m", "input": "hi", "tools": declared, "prompt": prompt });
        let answer = ask(&gateway, &body).await;
        let status = if is_refused { 502 } else { 200 };
        assert_eq!(answer.status, status, "{called}: {}", answer.text());

        let item = call(called);
        let upstream = streaming(&[
            created(),
            json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
            json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
            json!({ "type": "response.completed", "response": response(called) }),
        ])
        .await;
        let gateway = self::gateway(&upstream, &config).await;
        body["stream"] = json!(true);
        let agent = gateway.agent();
        let received = match agent.try_open("/v1/responses", body.to_string()).await {
            Ok(mut response) => read_to_end(&mut response).await.0,
            // The connection may break before the head is sent.
            Err(_) => String::new(),
        };
        let is_sent = received.contains("rm -rf");
        assert_eq!(is_sent, !is_refused, "{called}: {received}");
    }
}

#[tokio::test]
async fn a_denied_call_is_returned_to_the_model_with_its_reasoning() {
    let reasoning =
        json!({ "id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "ZW5j" });
    let call = json!({ "id": "ct_1", "type": "custom_tool_call", "call_id": "c1", "name": "rm", "input": "/" });
    let answers = [
        json!([reasoning, call]),
        json!([{ "id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [{ "type": "output_text", "text": "fine", "annotations": [] }] }]),
    ];
    let response = |output: &Value| json!({ "id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": output });
    let answers = answers.map(|output| response(&output).to_string());
    let upstream = Upstream::with(move |asked| {
        let is_second = asked.body.contains("custom_tool_call_output");
        respond(
            200,
            "application/json",
            answers[usize::from(is_second)].clone(),
        )
    })
    .await;
    let gateway = gateway(&upstream, DENY_RM).await;
    let body = json!({
        "model": "m",
        "input": [user("go")],
        "tools": [{ "type": "custom", "name": "rm" }],
    });

    let answer = ask(&gateway, &body).await;

    assert_eq!(text(&answer.json()), "fine", "{}", answer.text());
    assert_eq!(answer.json()["output"].as_array().unwrap().len(), 1);
    let second_request = upstream.requests()[1].json();
    let items = second_request["input"].as_array().unwrap();
    assert_eq!(items[..3], [user("go"), reasoning, call]);
    assert_eq!(items[3]["type"], "custom_tool_call_output");
    assert_eq!(items[3]["call_id"], "c1");
    assert!(items[3]["output"].as_str().unwrap().contains("not here"));
    assert_eq!(items.len(), 4);
}

/// A response with these items.
fn response(output: &Value) -> Value {
    json!({ "id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": output })
}

/// A model API that answers with these outputs, one after the other.
async fn answering(outputs: [Value; 2]) -> Upstream {
    let answers = outputs.map(|output| response(&output).to_string());
    Upstream::with(move |asked| {
        let is_second = asked.body.contains("_output\"");
        let answer = &answers[usize::from(is_second)];
        respond(200, "application/json", answer.clone())
    })
    .await
}

fn message(text: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
    json!({ "id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content })
}

/// A message of the model in a phase.
fn message_of(phase: &str, block: &Value) -> Value {
    json!({ "id": format!("msg_{phase}"), "type": "message", "role": "assistant",
        "status": "completed", "phase": phase, "content": [block] })
}

/// Events of a stream with these items, each sent as a whole but for its phase and its kind.
fn whole_items(items: &[Value]) -> String {
    let mut events = vec![created()];
    for (index, item) in items.iter().enumerate() {
        let mut start = item.clone();
        if item["type"] == "message" {
            start["content"] = json!([]);
        }
        for (kind, item) in [("added", &start), ("done", item)] {
            let kind = format!("response.output_item.{kind}");
            events.push(json!({ "type": kind, "output_index": index, "item": item }));
        }
    }
    events.push(completed(&json!(items)));
    let events = events.iter().map(|event| format!("data: {event}\n\n"));
    events.collect()
}

#[tokio::test]
async fn a_step_with_a_denied_call_keeps_its_phases_and_refusals() {
    let block = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
    let refusal = json!({ "type": "refusal", "refusal": "I cannot" });
    let call = json!({ "id": "fc_1", "type": "function_call", "call_id": "c1", "name": "rm",
        "arguments": "{}", "status": "completed" });
    let first = [
        message_of("commentary", &block("I look")),
        message_of("other", &refusal),
        call,
    ];
    let second = [message_of("final_answer", &block("done"))];
    for is_stream in [false, true] {
        let outputs = [first.to_vec(), second.to_vec()];
        let upstream = Upstream::with(move |asked| {
            let output = &outputs[usize::from(asked.body.contains("function_call_output"))];
            if is_stream {
                return respond(200, "text/event-stream", whole_items(output));
            }
            let body = json!({ "id": "r", "object": "response", "status": "completed",
                "model": "m", "output": output });
            respond(200, "application/json", body.to_string())
        })
        .await;
        let gateway = gateway(&upstream, DENY_RM).await;
        let body = json!({ "model": "m", "input": "go", "stream": is_stream,
            "tools": [function("rm")] });

        let answer = ask(&gateway, &body).await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        let asked = upstream.requests();
        assert_eq!(asked.len(), 2, "{}", answer.text());
        let sent = asked[1].json();
        assert_eq!(sent["input"][1]["phase"], "commentary", "{sent}");
        assert_eq!(sent["input"][1]["content"][0]["text"], "I look", "{sent}");
        assert_eq!(sent["input"][2]["phase"], "other", "{sent}");
        assert_eq!(sent["input"][2]["content"][0], refusal, "{sent}");
        if !is_stream {
            let response = answer.json();
            let phase = |item: &Value| item["phase"].clone();
            let items = response["output"].as_array().unwrap().iter();
            let phases: Vec<Value> = items.map(phase).collect();
            assert_eq!(
                json!(phases),
                json!(["commentary", "other", "final_answer"])
            );
        }
    }
}

#[tokio::test]
async fn a_denied_call_of_a_program_is_returned_to_the_model_with_the_program() {
    let program = json!({ "id": "prog_1", "type": "program", "call_id": "cp", "code": "rm()", "fingerprint": "fp" });
    let call = json!({ "id": "fc_1", "type": "function_call", "call_id": "c1", "name": "rm", "arguments": "{}",
        "status": "completed", "caller": { "type": "program", "caller_id": "cp" } });
    let upstream = answering([json!([program, call]), json!([message("fine")])]).await;
    let gateway = gateway(&upstream, DENY_RM).await;
    let tools = json!([function("rm"), { "type": "programmatic_tool_calling" }]);
    let body = json!({ "model": "m", "input": [user("go")], "tools": tools });

    let answer = ask(&gateway, &body).await;

    let second_request = upstream.requests()[1].json();
    let items = second_request["input"].as_array().unwrap();
    assert_eq!(items[..3], [user("go"), program, call]);
    assert_eq!(items[3]["type"], "function_call_output");
    let types = answer.json()["output"].as_array().unwrap().len();
    assert_eq!((text(&answer.json()).as_str(), types), ("fine", 1));
}

#[tokio::test]
async fn a_text_for_a_denied_use_of_the_computer_follows_all_results() {
    let computer = json!({ "id": "cc", "type": "computer_call", "call_id": "c7", "status": "completed",
        "actions": [{ "type": "screenshot" }], "pending_safety_checks": [] });
    let call = json!({ "id": "fc_1", "type": "function_call", "call_id": "c1", "name": "rm", "arguments": "{}", "status": "completed" });
    let upstream = answering([json!([computer, call]), json!([message("fine")])]).await;
    let gateway = gateway(&upstream, DENY_RM).await;
    let body = json!({ "model": "m", "input": [user("go")], "tools": [function("rm")] });

    ask(&gateway, &body).await;

    let second_request = upstream.requests()[1].json();
    let items = second_request["input"].as_array().unwrap();
    let types: Vec<&Value> = items.iter().map(|item| &item["type"]).collect();
    assert_eq!(
        types,
        [
            "message",
            "function_call",
            "function_call_output",
            "message"
        ]
    );
}

#[tokio::test]
async fn reasoning_of_a_denied_call_is_kept_and_the_call_is_restored_upstream() {
    let upstream = Upstream::mock().await;
    let rule = "{ tool: rm, argument: /path, not_matches: secret }";
    let config =
        format!("policies: [{{ policy: tool_guard, rules: [{rule}], reason: not here }}]\n");
    let gateway = gateway(&upstream, &config).await;
    let mut body = json!({
        "model": "gpt-5.1",
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "reasoning": { "effort": "medium", "summary": "auto" },
        "input": [user(r#"Use rm {"path":"secret"}"#)],
        "tools": [function("rm")],
    });

    let answer = ask(&gateway, &body).await;

    let (names, response) = stream(&answer);
    let count = |name: &str| names.iter().filter(|other| *other == name).count();
    let items = response["output"].as_array().unwrap().clone();
    let types: Vec<&str> = items
        .iter()
        .filter_map(|item| item["type"].as_str())
        .collect();
    assert_eq!(types, ["reasoning", "reasoning", "message"], "{response}");
    assert_eq!(count("response.output_item.added"), 3);
    assert_eq!(count("response.output_item.done"), 3);
    let asked = upstream.requests().last().unwrap().json();
    assert_eq!(asked["input"][1], items[0], "{asked}");

    let input = body["input"].as_array_mut().unwrap();
    input.extend(items.iter().cloned().chain([user("And now")]));
    stream(&ask(&gateway, &body).await);

    let asked = upstream.requests().last().unwrap().json();
    let asked = asked["input"].as_array().unwrap();
    let types: Vec<&str> = asked
        .iter()
        .filter_map(|item| item["type"].as_str())
        .collect();
    assert_eq!(
        types.join(" "),
        "message reasoning function_call function_call_output reasoning message message"
    );
    assert_eq!(asked[1], items[0]);
    assert_eq!(asked[4], items[1]);
}

#[tokio::test]
async fn a_stream_with_reasoning_and_a_tool_loop_passes_hooks() {
    let upstream = Upstream::mock().await;
    let quiet = || hook::command("quiet", "cat > /dev/null");
    let hooks = hook::config(&[
        ("AfterModel", quiet()),
        ("BeforeTool", quiet()),
        ("AfterTool", quiet()),
        ("AfterAgent", quiet()),
    ]);
    let gateway = gateway(&upstream, &hooks).await;
    let mut body = json!({
        "model": "gpt-5.1",
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "reasoning": { "effort": "medium", "summary": "auto" },
        "input": [user("look")],
        "tools": [function("look")],
    });
    let direct = Agent::at(upstream.addr)
        .post("/v1/responses", body.to_string())
        .await;
    let answer = ask(&gateway, &body).await;
    let (names, response) = stream(&answer);
    let (expected, _) = stream(&direct);
    assert_eq!(names, expected);
    let items = response["output"].as_array().unwrap().clone();
    let call = items
        .iter()
        .find(|item| item["type"] == "function_call")
        .expect("a call");
    let result =
        json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "seen" });
    let input = body["input"].as_array_mut().unwrap();
    input.extend(items.iter().cloned().chain([result]));
    let (_, response) = stream(&ask(&gateway, &body).await);
    assert!(text(&response).contains("seen"), "{response}");
    assert_eq!(upstream.requests().last().unwrap().json(), body);
}

#[tokio::test]
async fn embedding_input_is_masked_and_token_input_is_refused() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: redact, detect: [email] }]\n";
    let gateway = gateway(&upstream, config).await;
    let embed = async |input: Value| {
        let body = json!({ "model": "text-embedding-3-small", "input": input });
        gateway
            .agent()
            .post("/v1/embeddings", body.to_string())
            .await
    };
    let answer = embed(json!(["ann@example.com", "b"])).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = upstream.only_request().json();
    assert_eq!(asked["input"], json!(["[REDACTED:email]", "b"]));
    for tokens in [json!([1, 2]), json!([[1, 2]])] {
        let answer = embed(tokens).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
}

#[tokio::test]
async fn a_completion_of_a_tensor_is_refused() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: redact, detect: [email] }]\ncoverage: { allow: [completions.create] }\n";
    let gateway = gateway(&upstream, config).await;
    for prompt in [json!("x"), json!(["x"])] {
        let body = json!({ "model": "m", "prompt": prompt, "prompt_embeds": "UEsDBA==" });

        let answer = gateway
            .agent()
            .post("/v1/completions", body.to_string())
            .await;

        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains("prompt_embeds"), "{}", answer.text());
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn prompts_with_the_same_cache_key_share_a_session() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeAgent", hook::command("see", "cat > seen.json"))]);
    let gateway = gateway(&upstream, &hooks).await;
    let mut ids = Vec::new();
    for key in ["one", "one"] {
        let body = json!({ "model": "gpt-5.1", "input": "hi", "prompt_cache_key": key });
        let answer = ask(&gateway, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        ids.push(answer.header("x-hookgate-session").to_owned());
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn context_that_codex_sends_before_a_prompt_is_not_part_of_it() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeAgent", hook::printing("see", &json!({})))]);
    let gateway = gateway(&upstream, &hooks).await;
    let mut input = vec![
        json!({ "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": "rules" }] }),
        user("<environment_context>\n  <cwd>/home</cwd>\n</environment_context>"),
        user("first"),
    ];
    for prompt in ["first", "second"] {
        let body = json!({ "model": "gpt-5.1", "input": input });
        let answer = ask(&gateway, &body).await.json();
        assert_eq!(gateway.json("see.json")["prompt"], prompt);
        input.extend(answer["output"].as_array().unwrap().clone());
        input.push(user("second"));
    }
}

#[tokio::test]
async fn a_buffered_stream_that_a_hook_edits_is_a_valid_stream() {
    let upstream = Upstream::mock().await;
    let edit = json!({ "candidates": [{ "content": { "parts": ["X"] } }] });
    let hooks = hook::config(&[("AfterModel", hook::printing("edit", &hook::response(&edit)))]);
    let gateway = gateway(&upstream, &format!("{hooks}after_model: buffered\n")).await;
    let body = json!({ "model": "gpt-5.1", "input": "hello", "stream": true });
    let (names, response) = stream(&ask(&gateway, &body).await);
    assert_eq!(text(&response), "X");
    assert_eq!(names.first().unwrap(), "response.created");
    let done = names
        .iter()
        .filter(|name| *name == "response.output_item.done");
    assert_eq!(done.count(), 1);
}

#[tokio::test]
async fn a_refusal_in_a_buffered_stream_that_is_masked_stays_a_refusal() {
    let place = |name: &str, fields: &Value| {
        let mut event = json!({ "type": format!("response.{name}"), "item_id": "m",
            "output_index": 0, "content_index": 0 });
        let fields = fields.as_object().unwrap().clone();
        event.as_object_mut().unwrap().extend(fields);
        event
    };
    let block = |text: &str| json!({ "type": "refusal", "refusal": text });
    let item = |status: &str, content: Value| {
        json!({ "id": "m", "type": "message", "role": "assistant", "status": status,
            "content": content })
    };
    let whole_text = "I cannot mail a@example.com";
    let done = item("completed", json!([block(whole_text)]));
    let upstream = streaming(&[
        created(),
        json!({ "type": "response.output_item.added", "output_index": 0,
            "item": item("in_progress", json!([])) }),
        place("content_part.added", &json!({ "part": block("") })),
        place("refusal.delta", &json!({ "delta": "I cannot mail a@exa" })),
        place("refusal.delta", &json!({ "delta": "mple.com" })),
        place("refusal.done", &json!({ "refusal": whole_text })),
        place("content_part.done", &json!({ "part": block(whole_text) })),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": done }),
        json!({ "type": "response.completed", "response": { "id": "r", "object": "response",
            "status": "completed", "output": [done] } }),
    ])
    .await;
    for mode in ["", "after_model: buffered\n"] {
        let config = format!("policies: [{{ policy: redact }}]\n{mode}");
        let gateway = gateway(&upstream, &config).await;
        let body = json!({ "model": "m", "input": "hello", "stream": true });
        let (names, response) = stream(&ask(&gateway, &body).await);
        let masked = block("I cannot mail [REDACTED:email]");
        assert_eq!(response["output"][0]["content"], json!([masked]), "{mode}");
        assert_eq!(response["status"], "completed");
        assert!(
            names.contains(&"response.refusal.delta".to_owned()),
            "{names:?}"
        );
        assert!(
            names.contains(&"response.refusal.done".to_owned()),
            "{names:?}"
        );
    }
}

#[tokio::test]
async fn an_error_ends_a_buffered_stream_that_is_masked() {
    const SECRET: &str = "AKIAIOSFODNN7EXAMPLE";
    let message = format!("boom {SECRET}");
    let failed = json!({ "type": "response.failed", "response": { "id": "r", "status": "failed",
        "error": { "code": "server_error", "message": message }, "output": [] } });
    for error in [
        json!({ "type": "error", "code": "server_error", "message": message }),
        failed,
    ] {
        let events = [
            json!({ "type": "response.created", "response": { "id": "r", "status": "in_progress", "output": [] } }),
            json!({ "type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": SECRET }),
            error,
        ];
        let events = events.map(|event| format!("data: {event}\n\n")).concat();
        let upstream =
            Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
        let config = "policies: [{ policy: redact }]\nafter_model: buffered\n";
        let gateway = gateway(&upstream, config).await;

        let body = json!({ "model": "m", "input": "hello", "stream": true });
        let answer = ask(&gateway, &body).await;

        let last = answer.text().trim_end().lines().last().unwrap();
        let last: Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(last["type"], "response.failed", "{last}");
        let failed = &last["response"];
        assert_eq!(failed["status"], "failed", "{last}");
        assert_eq!(failed["error"]["code"], "server_error");
        assert_eq!(failed["error"]["message"], "boom [REDACTED:aws_key]");
    }
}

#[tokio::test]
async fn an_error_behind_an_open_call_reaches_the_agent() {
    const CALL: &str = "function_call";
    let item = |arguments: &str| {
        json!({ "type": CALL, "id": "f", "call_id": "c", "name": "read",
            "arguments": arguments, "status": "in_progress" })
    };
    let failed = |output: Value| {
        json!({ "type": "response.failed", "response": { "id": "r", "status": "failed",
            "error": { "code": "server_error", "message": "boom" }, "output": output } })
    };
    for error in [
        json!({ "type": "error", "code": "server_error", "message": "boom", "param": null }),
        failed(json!([])),
        failed(json!([item("{\"path\":")])),
    ] {
        for mode in ["", "after_model: buffered\n"] {
            let sent = [
                created(),
                json!({ "type": "response.output_item.added", "output_index": 0, "item": item("") }),
                json!({ "type": "response.function_call_arguments.delta", "item_id": "f", "output_index": 0, "delta": "{\"path\":" }),
                error.clone(),
            ];
            let upstream = streaming(&sent).await;
            let config = format!("policies: [{{ policy: tool_guard, deny: [read] }}]\n{mode}");
            let gateway = gateway(&upstream, &config).await;

            let body = json!({ "model": "m", "input": "hello", "stream": true, "tools": [function("read")] });
            let answer = ask(&gateway, &body).await;

            let text = answer.text();
            let last = events(&answer).pop().unwrap();
            assert_eq!(last["type"], error["type"], "{text}");
            assert!(last.to_string().contains("boom"), "{text}");
            assert_eq!(last["sequence_number"], 1, "{text}");
            assert!(!text.contains(CALL), "{text}");
            assert_eq!(upstream.requests().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_limit_behind_an_open_call_ends_the_response_without_the_call() {
    let call = |id: &str, arguments: &str, status: &str| {
        json!({ "type": "function_call", "id": id, "call_id": format!("call_{id}"),
            "name": "read", "arguments": arguments, "status": status })
    };
    let whole = call("f0", r#"{"path":"a"}"#, "completed");
    let output = json!([whole, call("f1", r#"{"path":"b"#, "incomplete")]);
    let upstream = streaming(&[
        created(),
        json!({ "type": "response.output_item.added", "output_index": 0,
            "item": call("f0", "", "in_progress") }),
        json!({ "type": "response.function_call_arguments.delta", "item_id": "f0",
            "output_index": 0, "delta": r#"{"path":"a"}"# }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": whole }),
        json!({ "type": "response.output_item.added", "output_index": 1,
            "item": call("f1", "", "in_progress") }),
        json!({ "type": "response.function_call_arguments.delta", "item_id": "f1",
            "output_index": 1, "delta": r#"{"path":"b"# }),
        json!({ "type": "response.incomplete", "response": { "id": "r", "status": "incomplete",
            "incomplete_details": { "reason": "max_output_tokens" }, "output": output } }),
    ])
    .await;
    for mode in ["", "after_model: buffered\n"] {
        let config = format!("policies: [{{ policy: tool_guard, deny: [rm] }}]\n{mode}");
        let gateway = gateway(&upstream, &config).await;

        let body =
            json!({ "model": "m", "input": "hello", "stream": true, "tools": [function("read")] });
        let answer = ask(&gateway, &body).await;

        let events = events(&answer);
        let last = events.last().unwrap();
        assert_eq!(last["type"], "response.incomplete", "{mode}: {events:?}");
        let response = &last["response"];
        let details = json!({ "reason": "max_output_tokens" });
        assert_eq!(response["incomplete_details"], details);
        assert_eq!(response["output"], json!([whole]), "{mode}: {events:?}");
        let done = events
            .iter()
            .filter(|event| event["type"] == "response.output_item.done");
        assert_eq!(done.count(), 1, "{mode}: {events:?}");
        assert!(!answer.text().contains("f1"), "{mode}: {events:?}");
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number, "{mode}: {events:?}");
        }
    }
}

#[tokio::test]
async fn reasoning_that_a_policy_holds_back_precedes_the_end() {
    let item = json!({ "type": "reasoning", "id": "rs", "summary": [] });
    let ended = |status: &str, error: Value| {
        json!({ "type": format!("response.{status}"), "response": { "id": "r", "status": status,
            "error": error, "output": [] } })
    };
    let error = json!({ "code": "server_error", "message": "boom" });
    for (name, index) in [
        ("response.reasoning_summary_text.delta", "summary_index"),
        ("response.reasoning_text.delta", "content_index"),
    ] {
        for end in [
            ended("failed", error.clone()),
            ended("incomplete", Value::Null),
            json!({ "type": "error", "code": "server_error", "message": "boom", "param": null }),
        ] {
            let upstream = streaming(&[
                created(),
                json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
                json!({ "type": name, "item_id": "rs", "output_index": 0, index: 0,
                    "delta": "key AKIAIOSFODNN7EXAMPLE wor" }),
                end.clone(),
            ])
            .await;
            let gateway = gateway(&upstream, "policies: [{ policy: redact }]\n").await;

            let body = json!({ "model": "m", "input": "hello", "stream": true });
            let answer = ask(&gateway, &body).await;

            let events = events(&answer);
            let (last, before) = events.split_last().unwrap();
            assert_eq!(last["type"], end["type"], "{events:?}");
            let pieces = before.iter().filter(|event| event["type"] == name);
            let pieces = pieces.map(|event| {
                assert_eq!(event["item_id"], "rs", "{event}");
                assert_eq!(event["output_index"], 0, "{event}");
                assert_eq!(event[index], 0, "{event}");
                event["delta"].as_str().unwrap()
            });
            let text = pieces.collect::<String>();
            assert_eq!(text, "key [REDACTED:aws_key] wor", "{events:?}");
        }
    }
}

fn completed(output: &Value) -> Value {
    json!({ "type": "response.completed", "response": response(output) })
}

/// A tool of an MCP server as Codex declares it.
fn mcp_tool(name: &str) -> Value {
    json!({ "type": "namespace", "name": "mcp__files", "description": "d", "tools": [function(name)] })
}

fn call_of(namespace: Option<&str>) -> Value {
    let mut call = json!({ "type": "function_call", "id": "fc_1", "call_id": "c1",
        "name": "exec_command", "arguments": "{}", "status": "completed" });
    if let Some(namespace) = namespace {
        call["namespace"] = namespace.into();
    }
    call
}

#[tokio::test]
async fn a_guard_sees_the_server_of_an_mcp_tool_in_a_namespace() {
    let tools = json!([function("exec_command"), mcp_tool("exec_command")]);
    let body = json!({ "model": "m", "input": [user("go")], "tools": tools });
    for (guard, is_mcp_denied) in [
        ("deny: ['mcp__files__*']", true),
        ("allow: [exec_command]", true),
        ("deny: [exec_command]", false),
        ("allow: ['mcp__*']", false),
    ] {
        let config = format!("policies: [{{ policy: tool_guard, {guard}, reason: not here }}]\n");
        for namespace in [Some("mcp__files"), None] {
            let call = call_of(namespace);
            let upstream = answering([json!([call]), json!([message("fine")])]).await;
            let gateway = gateway(&upstream, &config).await;

            let answer = ask(&gateway, &body).await;

            let is_denied = namespace.is_some() == is_mcp_denied;
            let expected = if is_denied { message("fine") } else { call };
            assert_eq!(answer.json()["output"], json!([expected]), "{guard}");
            let left = if is_mcp_denied { &tools[0] } else { &tools[1] };
            assert_eq!(upstream.requests()[0].json()["tools"], json!([left]));
        }
    }
}

#[tokio::test]
async fn hooks_see_the_server_of_an_mcp_tool_in_a_namespace() {
    let call = call_of(Some("mcp__files"));
    let upstream = answering([json!([call]), json!([message("fine")])]).await;
    let hooks = hook::config(&[
        ("BeforeTool", hook::printing("before", &json!({}))),
        ("AfterTool", hook::printing("after", &json!({}))),
    ]);
    let gateway = gateway(&upstream, &hooks).await;
    let mut body =
        json!({ "model": "m", "input": [user("go")], "tools": [mcp_tool("exec_command")] });

    let answer = ask(&gateway, &body).await;
    let result = json!({ "type": "function_call_output", "call_id": "c1", "output": "seen" });
    let input = body["input"].as_array_mut().unwrap();
    input.extend([call.clone(), result]);
    ask(&gateway, &body).await;

    assert_eq!(answer.json()["output"], json!([call]));
    assert_eq!(upstream.requests()[1].json(), body);
    for event in ["before.json", "after.json"] {
        let seen = gateway.json(event);
        assert_eq!(seen["tool_name"], "mcp__files__exec_command", "{event}");
        let server = &seen["mcp_context"]["server_name"];
        assert_eq!(server, "files", "{event}");
    }
}

#[tokio::test]
async fn a_choice_of_an_mcp_tool_in_a_namespace_is_that_of_its_declaration() {
    let echo = "printf '{\"hookSpecificOutput\":'; cat; printf '}'";
    let echo = hook::config(&[("BeforeModel", hook::command("echo", echo))]);
    let deny = "policies: [{ policy: tool_guard, deny: [mcp__files__exec_command] }]\n";
    let tool = json!({ "type": "function", "name": "exec_command" });
    let list = json!({ "type": "allowed_tools", "mode": "required",
        "tools": [tool, { "type": "function", "name": "read" }] });
    let tools = json!([function("read"), mcp_tool("exec_command")]);
    for (config, choice, expected) in [
        (echo.as_str(), &tool, tool.clone()),
        (echo.as_str(), &list, list.clone()),
        (deny, &tool, json!("none")),
    ] {
        let call = call_of(Some("mcp__files"));
        let upstream = answering([json!([call]), json!([message("fine")])]).await;
        let gateway = gateway(&upstream, config).await;
        let body = json!({ "model": "m", "input": [user("go")], "tools": tools,
            "tool_choice": choice });

        let answer = ask(&gateway, &body).await;

        assert_eq!(upstream.requests()[0].json()["tool_choice"], expected);
        let is_called = answer.json()["output"] == json!([call]);
        assert_eq!(is_called, config == echo, "{}", answer.text());
    }
}

#[tokio::test]
async fn a_choice_of_a_hosted_tool_is_not_that_of_a_tool_in_a_namespace() {
    let deny = "policies: [{ policy: tool_guard, deny: [mcp__files__web_search] }]\n";
    let search = json!({ "type": "web_search" });
    let list = json!({ "type": "allowed_tools", "mode": "required",
        "tools": [search, { "type": "function", "name": "read" }] });
    let tools = json!([search, function("read"), mcp_tool("web_search")]);
    for choice in [search, list] {
        let upstream = Upstream::mock().await;
        let gateway = gateway(&upstream, deny).await;
        let body = json!({ "model": "m", "input": [user("go")], "tools": tools,
            "tool_choice": choice });

        ask(&gateway, &body).await;

        let request = upstream.requests()[0].json();
        assert_eq!(request["tool_choice"], choice);
        assert_eq!(request["tools"], json!([tools[0], tools[1]]));
    }
}

#[tokio::test]
async fn a_tool_of_an_mcp_server_has_the_name_that_hooks_of_codex_see() {
    let mut call = call_of(Some("mcp__codex_apps__calendar"));
    call["name"] = "_create_event".into();
    let mut tool = mcp_tool("_create_event");
    tool["name"] = "mcp__codex_apps__calendar".into();
    let choice = json!({ "type": "function", "name": "_create_event" });
    let body = json!({ "model": "m", "input": [user("go")], "tools": [function("read"), tool],
        "tool_choice": choice });
    for (guard, is_denied) in [
        ("deny: [mcp__codex_apps__calendar__create_event]", true),
        ("allow: [mcp__codex_apps__calendar__create_event]", false),
    ] {
        let upstream = answering([json!([call]), json!([message("fine")])]).await;
        let config = format!("policies: [{{ policy: tool_guard, {guard} }}]\n");
        let gateway = gateway(&upstream, &config).await;

        let answer = ask(&gateway, &body).await;

        let expected = if is_denied {
            message("fine")
        } else {
            call.clone()
        };
        assert_eq!(answer.json()["output"], json!([expected]), "{guard}");
        let sent = upstream.requests()[0].json();
        let left = if is_denied {
            function("read")
        } else {
            tool.clone()
        };
        assert_eq!(sent["tools"], json!([left]), "{guard}");
        let expected = if is_denied {
            json!("none")
        } else {
            choice.clone()
        };
        assert_eq!(sent["tool_choice"], expected, "{guard}");
    }
}

#[tokio::test]
async fn a_text_in_place_of_a_message_is_not_put_into_its_summary() {
    let mut item = message("secret");
    item["summary"] = json!([{ "type": "summary_text", "text": "hm" }]);
    let upstream = answering([json!([item]), json!([])]).await;
    let edit = hook::response(&json!({ "candidates": [
        { "content": { "role": "model", "parts": ["new"] }, "finishReason": "STOP" }] }));
    let hooks = hook::config(&[("AfterModel", hook::printing("edit", &edit))]);
    let gateway = gateway(&upstream, &hooks).await;

    let answer = ask(&gateway, &json!({ "model": "m", "input": "hello" })).await;

    let output = &answer.json()["output"];
    assert_eq!(output[0]["content"][0]["text"], "new", "{output}");
    assert!(!answer.text().contains("secret"), "{output}");
}
