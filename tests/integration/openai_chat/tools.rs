//! Tools: declarations that are withheld, and calls that are denied or edited.

use serde_json::{Value, json};

use super::{FORMS, Form, PATH, ask, chat, choices, events, finish_reason, gateway, text};
use crate::harness::{ReceivedRequest, Upstream, hook, respond};

fn with_tools(prompt: &str) -> Value {
    let mut body = chat(prompt);
    body["tools"] = json!([
        { "type": "function", "function": { "name": "read", "parameters": { "type": "object" } } },
        { "type": "function", "function": { "name": "rm", "parameters": { "type": "object" } } },
    ]);
    body["tool_choice"] = "auto".into();
    body
}

/// A model that calls tools, and repeats the result of the first one.
#[expect(clippy::too_many_lines, reason = "one script of the model")]
async fn model() -> Upstream {
    Upstream::with(|asked: ReceivedRequest| {
        let request = asked.json();
        let messages = request["messages"].as_array().unwrap();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        let results: Vec<&str> = results
            .filter_map(|message| message["content"].as_str())
            .collect();
        let id = format!("chatcmpl-{}", messages.len());
        let is_stream = request["stream"] == true;
        let (delta, object) = if is_stream {
            ("delta", "chat.completion.chunk")
        } else {
            ("message", "chat.completion")
        };
        let body = |part: Value, reason: Value| {
            let choice = json!({ "index": 0, delta: part, "finish_reason": reason });
            json!({ "id": id, "object": object, "created": 1, "model": "m", "choices": [choice] })
        };
        let call = |index: u64, name: &str| {
            json!({ "index": index, "id": format!("c{index}"), "type": "function",
                "function": { "name": name, "arguments": "{\"path\":\"a\"}" } })
        };
        let calls = json!([call(0, "read"), call(1, "rm")]);
        let reply = results.first().map(|result| format!("I see: {result}"));
        if !is_stream {
            let body = match reply {
                Some(reply) => body(
                    json!({ "role": "assistant", "content": reply }),
                    "stop".into(),
                ),
                None => body(
                    json!({ "role": "assistant", "content": "I try. ", "tool_calls": calls }),
                    "tool_calls".into(),
                ),
            };
            return respond(200, "application/json", body.to_string());
        }
        let mut stream = vec![body(
            json!({ "role": "assistant", "content": "" }),
            Value::Null,
        )];
        if let Some(reply) = reply {
            stream.push(body(json!({ "content": reply }), Value::Null));
            stream.push(body(json!({}), "stop".into()));
        } else {
            stream.push(body(json!({ "content": "I try. " }), Value::Null));
            for call in calls.as_array().unwrap() {
                stream.push(body(json!({ "tool_calls": [call] }), Value::Null));
            }
            stream.push(body(json!({}), "tool_calls".into()));
        }
        let stream = stream.iter().map(|event| format!("data: {event}\n\n"));
        let stream = stream.collect::<Vec<_>>().concat();
        respond(
            200,
            "text/event-stream",
            format!("{stream}data: [DONE]\n\n"),
        )
    })
    .await
}

/// The names of the calls in an answer.
fn calls(form: Form, answer: &crate::harness::Answer) -> Vec<String> {
    let choices = choices(form, answer);
    let lists = choices.iter().map(|choice| match form {
        Form::Whole => &choice["message"]["tool_calls"],
        Form::Stream => &choice["delta"]["tool_calls"],
    });
    let calls = lists.filter_map(Value::as_array).flatten();
    let names = calls.map(|call| call["function"]["name"].as_str());
    names.flatten().map(str::to_owned).collect()
}

fn hook_denying(tool: &str) -> String {
    let command =
        format!(r#"grep -q '"tool_name":"{tool}"' && {{ echo "no {tool}" >&2; exit 2; }}; exit 0"#);
    hook::config(&[("BeforeTool", hook::command("guard", &command))])
}

#[tokio::test]
async fn a_denied_call_is_returned_to_the_model_as_a_tool_result() {
    let upstream = model().await;
    let gate = gateway(&upstream, &hook_denying("rm")).await;
    for form in FORMS {
        let answer = ask(&gate, form, &with_tools("go")).await;

        let received = text(form, &answer);
        assert!(received.starts_with("I try. "), "{received}");
        assert!(received.contains("I see: "), "{received}");
        assert_eq!(calls(form, &answer), [""; 0]);
        assert_eq!(finish_reason(form, &answer), "stop");
        let asked = upstream.requests().pop().unwrap().json();
        let messages = asked["messages"].as_array().unwrap();
        let [_, step, read, rm] = messages.as_slice() else {
            panic!("{messages:#?}");
        };
        assert_eq!(step["role"], "assistant");
        assert_eq!(step["content"], "I try. ");
        assert_eq!(step["tool_calls"][1]["function"]["name"], "rm");
        assert_eq!(
            step["tool_calls"][1]["function"]["arguments"],
            "{\"path\":\"a\"}"
        );
        assert_eq!(read["tool_call_id"], "c0");
        assert_eq!(rm["role"], "tool");
        assert!(rm["content"].as_str().unwrap().contains("no rm"), "{rm}");
    }
    let answer = ask(&gate, Form::Stream, &with_tools("again")).await;
    let events = events(&answer);
    let roles = events
        .iter()
        .filter(|event| event["choices"][0]["delta"]["role"].is_string());
    assert_eq!(roles.count(), 1, "one message: {}", answer.text());
    assert!(events.iter().all(|event| event["id"] == events[0]["id"]));
}

#[tokio::test]
async fn the_request_with_a_denial_has_no_idempotency_key() {
    let upstream = model().await;
    let gate = gateway(&upstream, &hook_denying("rm")).await;
    let agent = gate.agent().sending("idempotency-key", "k");

    let answer = agent.post(PATH, with_tools("go").to_string()).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let requests = upstream.requests();
    let keys = requests.iter().map(|seen| seen.header("idempotency-key"));
    assert_eq!(keys.collect::<Vec<_>>(), ["k", ""]);
}

#[tokio::test]
async fn hosted_tools_are_withheld_by_name() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: tool_guard, deny: [web_search, 'mcp:*'] }]\n";
    let gate = gateway(&upstream, config).await;
    let mut body = chat("go");
    body["tools"] = json!([{ "type": "mcp", "server_label": "s", "server_url": "u" }]);
    body["web_search_options"] = json!({});
    body["tool_choice"] = "auto".into();

    ask(&gate, Form::Whole, &body).await;

    assert_eq!(upstream.only_request().json(), chat("go"));
}

#[tokio::test]
async fn searches_of_compatible_servers_are_withheld_by_name() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: tool_guard, deny: [web_search] }]\n";
    let gate = gateway(&upstream, config).await;
    let parser = json!({ "id": "file-parser" });
    let with = |field: &str, value: Value| {
        let mut body = chat("go");
        body[field] = value;
        body
    };
    for (body, expected) in [
        (
            with("search_parameters", json!({ "mode": "on" })),
            chat("go"),
        ),
        (
            with("plugins", json!([{ "id": "web", "max_results": 3 }])),
            chat("go"),
        ),
        (
            with("plugins", json!([{ "id": "web" }, parser])),
            with("plugins", json!([parser])),
        ),
        (
            with("plugins", json!([parser])),
            with("plugins", json!([parser])),
        ),
    ] {
        ask(&gate, Form::Whole, &body).await;
        assert_eq!(upstream.requests().pop().unwrap().json(), expected);
    }
}

#[tokio::test]
async fn a_tool_selection_applies_to_the_request_and_the_answer() {
    let upstream = model().await;
    let selection = json!({ "mode": "ANY", "allowedFunctionNames": ["read"] });
    let select = hook::printing("select", &hook::tools(&selection));
    let gate = gateway(&upstream, &hook::config(&[("BeforeToolSelection", select)])).await;

    let answer = ask(&gate, Form::Whole, &with_tools("go")).await;

    let expected = json!({ "type": "function", "function": { "name": "read" } });
    assert_eq!(upstream.requests()[0].json()["tool_choice"], expected);
    assert!(!calls(Form::Whole, &answer).contains(&"rm".to_owned()));
}

#[tokio::test]
async fn a_call_behind_a_denied_one_keeps_its_signature() {
    let upstream = Upstream::with(|asked: ReceivedRequest| {
        let is_first = asked.json()["messages"].as_array().unwrap().len() == 1;
        let call = |name: &str| {
            json!({ "id": name, "type": "function",
                "function": { "name": name, "arguments": "{}" },
                "extra_content": { "google": { "thought_signature": format!("{name}-sig") } } })
        };
        let message = if is_first {
            json!({ "role": "assistant", "content": "first", "tool_calls": [call("rm")] })
        } else {
            json!({ "role": "assistant", "content": null, "tool_calls": [call("ls")],
                "reasoning_details": [{ "type": "reasoning.encrypted", "data": "RD" }] })
        };
        let choice = json!({ "index": 0, "message": message, "finish_reason": "tool_calls" });
        let body = json!({ "id": "1", "object": "chat.completion", "choices": [choice] });
        respond(200, "application/json", body.to_string())
    })
    .await;
    let gate = gateway(&upstream, &hook_denying("rm")).await;

    let answer = ask(&gate, Form::Whole, &with_tools("go")).await;

    assert_eq!(calls(Form::Whole, &answer), ["ls"]);
    let message = &answer.json()["choices"][0]["message"];
    assert_eq!(message["content"], "first");
    assert_eq!(message["reasoning_details"][0]["data"], "RD");
    let signature = &message["tool_calls"][0]["extra_content"]["google"]["thought_signature"];
    assert_eq!(signature, "ls-sig");
}

/// A piece of a message that thinks, with copies of the thought as LiteLLM sends them.
fn thinking(text: &str, signature: &str) -> Value {
    let block = json!({ "type": "thinking", "thinking": text, "signature": signature });
    json!({ "reasoning_content": text, "thinking_blocks": [block] })
}

/// A model behind LiteLLM that thinks twice and calls `rm`, until it has results.
async fn thinking_model() -> Upstream {
    let call = json!({ "index": 0, "id": "c", "type": "function",
        "function": { "name": "rm", "arguments": "{}" } });
    let pieces = [
        thinking("Let ", ""),
        thinking("me", ""),
        thinking("", "S1"),
        thinking("Now", ""),
        thinking("", "S2"),
        json!({ "tool_calls": [call] }),
    ];
    let blocks = json!([
        { "type": "thinking", "thinking": "Let me", "signature": "S1" },
        { "type": "thinking", "thinking": "Now", "signature": "S2" },
    ]);
    let whole = json!({ "role": "assistant", "content": null, "reasoning_content": "Let meNow",
        "thinking_blocks": blocks, "tool_calls": [call] });
    let body = |part: &str, message: &Value, reason: Value| {
        let object = if part == "delta" {
            "chat.completion.chunk"
        } else {
            "chat.completion"
        };
        let choice = json!({ "index": 0, part: message, "finish_reason": reason });
        json!({ "id": "1", "object": object, "choices": [choice] })
    };
    let event = |event: &Value| format!("data: {event}\n\n");
    let mut stream: Vec<Value> = pieces
        .iter()
        .map(|piece| body("delta", piece, Value::Null))
        .collect();
    stream.push(body("delta", &json!({}), "tool_calls".into()));
    let stream: String = stream.iter().map(event).collect();
    let done = json!({ "role": "assistant", "content": "done" });
    let answers = [
        body("message", &whole, "tool_calls".into()).to_string(),
        stream + "data: [DONE]\n\n",
        body("message", &done, "stop".into()).to_string(),
        event(&body("delta", &done, "stop".into())) + "data: [DONE]\n\n",
    ];
    Upstream::with(move |asked: ReceivedRequest| {
        let request = asked.json();
        let is_stream = request["stream"] == true;
        let is_last = request["messages"].as_array().unwrap().len() > 1;
        let answer = answers[usize::from(is_stream) + 2 * usize::from(is_last)].clone();
        let kind = if is_stream {
            "text/event-stream"
        } else {
            "application/json"
        };
        respond(200, kind, answer)
    })
    .await
}

#[tokio::test]
async fn blocks_of_thoughts_are_in_front_of_a_denied_call() {
    let upstream = thinking_model().await;
    let gate = gateway(&upstream, &hook_denying("rm")).await;
    for form in FORMS {
        let answer = ask(&gate, form, &with_tools("go")).await;

        assert_eq!(text(form, &answer), "done", "{form:?}");
        let asked = upstream.requests().pop().unwrap().json();
        let step = &asked["messages"][1];
        assert_eq!(step["reasoning_content"], "Let meNow", "{form:?}");
        let expected = json!([
            { "type": "thinking", "thinking": "Let me", "signature": "S1" },
            { "type": "thinking", "thinking": "Now", "signature": "S2" },
        ]);
        assert_eq!(step["thinking_blocks"], expected, "{form:?}");
        assert_eq!(step["tool_calls"][0]["function"]["name"], "rm");
    }
}

#[tokio::test]
async fn a_call_behind_a_denied_one_keeps_the_blocks_of_its_thought() {
    let upstream = Upstream::with(|asked: ReceivedRequest| {
        let is_first = asked.json()["messages"].as_array().unwrap().len() == 1;
        let name = if is_first { "rm" } else { "ls" };
        let mut message = thinking(name, "S");
        message["role"] = "assistant".into();
        message["content"] = if is_first {
            "first".into()
        } else {
            Value::Null
        };
        message["tool_calls"] = json!([{ "id": name, "type": "function",
            "function": { "name": name, "arguments": "{}" } }]);
        let choice = json!({ "index": 0, "message": message, "finish_reason": "tool_calls" });
        let body = json!({ "id": "1", "object": "chat.completion", "choices": [choice] });
        respond(200, "application/json", body.to_string())
    })
    .await;
    let gate = gateway(&upstream, &hook_denying("rm")).await;

    let answer = ask(&gate, Form::Whole, &with_tools("go")).await;

    assert_eq!(calls(Form::Whole, &answer), ["ls"]);
    let blocks = &answer.json()["choices"][0]["message"]["thinking_blocks"];
    let block = json!({ "type": "thinking", "thinking": "ls", "signature": "S" });
    assert_eq!(*blocks, json!([block]));
}

/// A model that calls `read` and `rm`, each with this id, until it has results.
async fn model_with_ids(id: Value) -> Upstream {
    Upstream::with(move |asked: ReceivedRequest| {
        let request = asked.json();
        let is_first = request["messages"].as_array().unwrap().len() == 1;
        let call = |index: u64, name: &str| {
            json!({ "index": index, "id": id, "type": "function",
                "function": { "name": name, "arguments": "{}" } })
        };
        let (part, reason) = if is_first {
            let calls = json!([call(0, "read"), call(1, "rm")]);
            (
                json!({ "role": "assistant", "tool_calls": calls }),
                "tool_calls",
            )
        } else {
            (json!({ "role": "assistant", "content": "done" }), "stop")
        };
        if request["stream"] == true {
            let choice = json!({ "index": 0, "delta": part, "finish_reason": reason });
            let event =
                json!({ "id": "1", "object": "chat.completion.chunk", "choices": [choice] });
            let stream = format!("data: {event}\n\ndata: [DONE]\n\n");
            return respond(200, "text/event-stream", stream);
        }
        let choice = json!({ "index": 0, "message": part, "finish_reason": reason });
        let body = json!({ "id": "1", "object": "chat.completion", "choices": [choice] });
        respond(200, "application/json", body.to_string())
    })
    .await
}

#[tokio::test]
async fn denied_calls_without_ids_are_returned_to_the_model_with_ids() {
    for id in [Value::Null, json!("")] {
        let upstream = model_with_ids(id.clone()).await;
        let gate = gateway(&upstream, &hook_denying("rm")).await;
        for form in FORMS {
            let answer = ask(&gate, form, &with_tools("go")).await;

            assert_eq!(text(form, &answer), "done", "{id} {form:?}");
            let asked = upstream.requests().pop().unwrap().json();
            let messages = asked["messages"].as_array().unwrap();
            let [_, step, read, rm] = messages.as_slice() else {
                panic!("{messages:#?}");
            };
            let calls = step["tool_calls"].as_array().unwrap();
            let ids: Vec<&str> = calls
                .iter()
                .map(|call| call["id"].as_str().unwrap())
                .collect();
            assert!(!ids[0].is_empty() && ids[0] != ids[1], "{ids:?}");
            for (call, name) in calls.iter().zip(["read", "rm"]) {
                assert_eq!(call["function"]["name"], name);
            }
            for (result, id) in [read, rm].into_iter().zip(&ids) {
                assert_eq!(result["role"], "tool");
                assert_eq!(result["tool_call_id"], *id);
            }
        }
    }
}
