//! Reading of requests, and splicing of edits into them.

mod properties;

use serde_json::{Value, json};

use super::*;
use crate::dialect::{
    Call, Document, Operation, RequestLine, SOURCE,
    anthropic::fields::{IS_TOOLSET, parse_strict},
    recognize_call,
    tests::set_fields,
};

/// Returns the call of a request.
pub fn call() -> Call {
    let line = RequestLine {
        method: &http::Method::POST,
        path: "/v1/messages",
        query: "beta=true",
        api: None,
    };
    recognize_call(line).unwrap().unwrap().call.unwrap()
}

fn body(value: &Value) -> Document {
    parse_strict(value.to_string().into()).unwrap()
}

fn opened(value: &Value) -> Value {
    let form = open_body(&mut call(), &body(value)).unwrap();
    serde_json::from_slice(&form.to_bytes()).unwrap()
}

fn refused(value: &Value) -> String {
    open_body(&mut call(), &body(value))
        .unwrap_err()
        .to_string()
}

/// Applies an edit to the content form, and returns the body.
fn edited(request: &Value, edit: impl FnOnce(&mut Value)) -> Value {
    let body = body(request);
    let mut call = call();
    let mut form = open_body(&mut call, &body).unwrap();
    let mut value: Value = serde_json::from_slice(&form.to_bytes()).unwrap();
    edit(&mut value);
    set_fields(&mut form, &value);
    let closed = close_body(&call, &body, &form).unwrap();
    serde_json::from_slice(&closed).unwrap()
}

fn request(messages: &Value) -> Value {
    json!({ "model": "m-1", "max_tokens": 100, "messages": messages })
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "description": "d", "input_schema": { "type": "object" } })
}

/// A conversation with every kind of message.
fn conversation() -> Value {
    json!({
        "model": "m-1",
        "max_tokens": 4096,
        "temperature": 0.5,
        "stop_sequences": ["X"],
        "stream": true,
        "thinking": { "type": "enabled", "budget_tokens": 2000 },
        "system": [
            { "type": "text", "text": "x-anthropic-billing-header: cc_version=1.0; cc_entrypoint=cli;" },
            { "type": "text", "text": "Be brief.", "cache_control": { "type": "ephemeral" } },
        ],
        "tools": [tool("Read"), { "type": "web_search_20250305", "name": "web_search" }],
        "tool_choice": { "type": "auto", "disable_parallel_tool_use": true },
        "messages": [
            { "role": "user", "content": "read a" },
            { "role": "system", "content": "More rules.", "output_config": { "effort": "low" } },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "hm", "signature": "s" },
                { "type": "text", "text": "I read." },
                { "type": "tool_use", "id": "t1", "name": "Read", "input": { "file_path": "a", "filePath": 1.0 } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "t1", "content": "contents", "cache_control": { "type": "ephemeral" } },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AA==" } },
                { "type": "text", "text": "next" },
            ] },
        ],
    })
}

#[test]
fn a_conversation_is_read_into_the_content_form() {
    let form = opened(&conversation());
    let contents = form["contents"].as_array().unwrap();
    assert_eq!(contents.len(), 3);
    assert_eq!(
        contents[0],
        json!({ "role": "user", "parts": [{ "text": "read a", SOURCE: 0 }], SOURCE: 0 })
    );
    assert_eq!(
        contents[1]["parts"],
        json!([
            { "text": "I read.", SOURCE: 1 },
            { "functionCall": { "id": "t1", "name": "Read", "args": { "file_path": "a", "filePath": 1.0 } }, SOURCE: 2 },
        ])
    );
    assert_eq!(
        contents[2]["parts"],
        json!([
            { "functionResponse": { "id": "t1", "name": "Read", "response": { "output": "contents" } }, SOURCE: 0 },
            { "inlineData": { "mimeType": "image/png", "data": "AA==" }, SOURCE: 1 },
            { "text": "next", SOURCE: 2 },
        ])
    );
    assert_eq!(
        form["systemInstruction"]["parts"],
        json!([
            { "text": "Be brief.", SOURCE: 1 },
            { "text": "More rules.", SOURCE: 2 },
        ])
    );
    assert_eq!(
        form["tools"],
        json!([
            { "functionDeclarations": [{
                "name": "Read", "description": "d", "parametersJsonSchema": { "type": "object" }, SOURCE: 0,
            }], SOURCE: 0 },
            { "web_search": {}, SOURCE: 1 },
        ])
    );
    assert_eq!(
        form["toolConfig"],
        json!({ "functionCallingConfig": { "mode": "AUTO" } })
    );
    assert_eq!(
        form["generationConfig"],
        json!({
            "temperature": 0.5, "maxOutputTokens": 4096, "stopSequences": ["X"],
        })
    );
}

#[test]
fn the_body_names_model_and_stream() {
    let mut call = call();
    open_body(&mut call, &body(&conversation())).unwrap();
    assert_eq!(call.model_name(), "m-1");
    assert!(matches!(call.operation, Operation::Stream(_)));
    assert_eq!(call.target(), "/v1/messages?beta=true");
}

#[test]
fn an_unedited_body_keeps_its_bytes() {
    let text = format!(
        " {}\n",
        serde_json::to_string_pretty(&conversation()).unwrap()
    );
    let body = parse_strict(text.clone().into()).unwrap();
    let mut call = call();
    let form = open_body(&mut call, &body).unwrap();
    assert_eq!(close_body(&call, &body, &form).unwrap(), text);
}

#[test]
fn an_edited_text_stays_a_string_or_a_block() {
    let closed = edited(&conversation(), |form| {
        form["contents"][0]["parts"][0]["text"] = "read b".into();
        form["contents"][2]["parts"][2]["text"] = "later".into();
    });
    let mut expected = conversation();
    expected["messages"][0]["content"] = "read b".into();
    expected["messages"][3]["content"][2]["text"] = "later".into();
    assert_eq!(closed, expected);
}

#[test]
fn context_is_appended_to_a_string_behind_a_blank_line() {
    let closed = edited(&conversation(), |form| {
        let parts = form["contents"][0]["parts"].as_array_mut().unwrap();
        parts.push(json!({ "text": "context" }));
        let parts = form["contents"][2]["parts"].as_array_mut().unwrap();
        parts.push(json!({ "text": "context" }));
    });
    let mut expected = conversation();
    expected["messages"][0]["content"] = "read a\n\ncontext".into();
    let blocks = expected["messages"][3]["content"].as_array_mut().unwrap();
    blocks.push(json!({ "type": "text", "text": "context" }));
    assert_eq!(closed, expected);
}

#[test]
fn thinking_stays_in_front_when_a_text_is_removed() {
    let closed = edited(&conversation(), |form| {
        form["contents"][1]["parts"]
            .as_array_mut()
            .unwrap()
            .remove(0);
    });
    let kinds = closed["messages"][2]["content"].as_array().unwrap();
    let kinds: Vec<&str> = kinds
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["thinking", "tool_use"]);
}

#[test]
fn a_hidden_result_is_an_error() {
    let closed = edited(&conversation(), |form| {
        let result = &mut form["contents"][2]["parts"][0]["functionResponse"];
        result["response"] = json!({ "error": "hidden" });
    });
    assert_eq!(
        closed["messages"][3]["content"][0],
        json!({
            "type": "tool_result", "tool_use_id": "t1", "content": "hidden",
            "cache_control": { "type": "ephemeral" }, "is_error": true,
        })
    );
}

#[test]
fn a_result_of_blocks_keeps_its_media() {
    let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AA" } });
    let request = request(&json!([{ "role": "user", "content": [{
        "type": "tool_result", "tool_use_id": "t", "content": [{ "type": "text", "text": "s" }, image],
    }] }]));
    let form = opened(&request);
    let result = &form["contents"][0]["parts"][0]["functionResponse"];
    assert_eq!(result["response"], json!({ "output": "s" }));
    assert_eq!(result["parts"][0]["inlineData"]["data"], "AA");
    let masked = edited(&request, |form| {
        form["contents"][0]["parts"][0]["functionResponse"]["response"]["output"] = "x".into();
    });
    let mut expected = request.clone();
    expected["messages"][0]["content"][0]["content"][0]["text"] = "x".into();
    assert_eq!(masked, expected);
    let hidden = edited(&request, |form| {
        let result = &mut form["contents"][0]["parts"][0]["functionResponse"];
        *result = json!({ "id": "t", "name": "", "response": { "error": "no" } });
    });
    let result = &hidden["messages"][0]["content"][0];
    assert_eq!(result["content"], "no");
    assert_eq!(result["is_error"], true);
}

#[test]
fn a_masked_error_of_several_blocks_keeps_its_form() {
    let request = request(&json!([{ "role": "user", "content": [{
        "type": "tool_result", "tool_use_id": "t", "is_error": true,
        "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }],
    }] }]));
    let masked = edited(&request, |form| {
        let result = &mut form["contents"][0]["parts"][0]["functionResponse"];
        result["response"]["error"][1]["text"] = "x".into();
    });
    let mut expected = request.clone();
    expected["messages"][0]["content"][0]["content"][1]["text"] = "x".into();
    assert_eq!(masked, expected);
}

#[test]
fn system_texts_are_edited_where_they_are() {
    let closed = edited(&conversation(), |form| {
        let parts = &mut form["systemInstruction"]["parts"];
        parts[0]["text"] = "Be kind.".into();
        parts[1]["text"] = "Fewer rules.".into();
        parts
            .as_array_mut()
            .unwrap()
            .push(json!({ "text": "New." }));
    });
    let mut expected = conversation();
    expected["system"][1]["text"] = "Be kind.".into();
    expected["messages"][1]["content"] = "Fewer rules.".into();
    let system = expected["system"].as_array_mut().unwrap();
    system.push(json!({ "type": "text", "text": "New." }));
    assert_eq!(closed, expected);
}

#[test]
fn a_removed_system_text_removes_its_message_and_keeps_its_cache_mark() {
    let closed = edited(&conversation(), |form| {
        form["systemInstruction"] = json!({ "parts": [{ "text": "All.", SOURCE: 1 }] });
    });
    assert_eq!(closed["messages"].as_array().unwrap().len(), 3);
    let system = json!([{ "type": "text", "text": "a" }, {
        "type": "text", "text": "b", "cache_control": { "type": "ephemeral" },
    }]);
    let mut request = request(&json!([{ "role": "user", "content": "x" }]));
    request["system"] = system;
    let closed = edited(&request, |form| {
        form["systemInstruction"] = json!({ "parts": [{ "text": "ab", SOURCE: 0 }] });
    });
    assert_eq!(
        closed["system"],
        json!([{
            "type": "text", "text": "ab", "cache_control": { "type": "ephemeral" },
        }])
    );
}

#[test]
fn a_system_text_is_added_to_a_request_without_any() {
    let prompt = request(&json!([{ "role": "user", "content": "x" }]));
    let closed = edited(&prompt, |form| {
        form["systemInstruction"] = json!({ "parts": [{ "text": "Be brief." }] });
    });
    assert_eq!(closed["system"], "Be brief.");
}

#[test]
fn withheld_tools_are_removed_and_the_choice_follows() {
    let closed = edited(&conversation(), |form| {
        form["tools"].as_array_mut().unwrap().remove(1);
    });
    assert_eq!(closed["tools"], json!([tool("Read")]));
    assert_eq!(closed["tool_choice"], conversation()["tool_choice"]);
    // A called tool stays declared, but must not be called.
    let closed = edited(&conversation(), |form| {
        form.as_object_mut().unwrap().remove("tools");
        form.as_object_mut().unwrap().remove("toolConfig");
    });
    assert_eq!(closed["tools"], json!([tool("Read")]));
    assert_eq!(closed["tool_choice"], json!({ "type": "none" }));
    let mut prompt = request(&json!([{ "role": "user", "content": "x" }]));
    prompt["tools"] = json!([tool("a")]);
    prompt["tool_choice"] = json!({ "type": "any" });
    let closed = edited(&prompt, |form| {
        form.as_object_mut().unwrap().remove("tools");
        form.as_object_mut().unwrap().remove("toolConfig");
    });
    assert!(closed.get("tools").is_none() && closed.get("tool_choice").is_none());
}

#[test]
fn tools_are_chosen_as_far_as_the_api_can() {
    let mut prompt = request(&json!([{ "role": "user", "content": "x" }]));
    prompt["tools"] = json!([tool("a"), tool("b"), tool("c")]);
    let choose = |prompt: &Value, calling: Value| {
        let closed = edited(prompt, |form| {
            form["toolConfig"] = json!({ "functionCallingConfig": calling });
        });
        let tools = closed["tools"].as_array().unwrap().iter();
        let names = tools.map(|tool| tool["name"].as_str().unwrap().to_owned());
        (closed["tool_choice"].clone(), names.collect::<String>())
    };
    let any = |names: &[&str]| json!({ "mode": "ANY", "allowedFunctionNames": names });
    let forced = json!({ "type": "tool", "name": "a" });
    assert_eq!(choose(&prompt, any(&["a"])), (forced, "abc".to_owned()));
    assert_eq!(
        choose(&prompt, any(&["a", "b"])),
        (json!({ "type": "any" }), "ab".to_owned())
    );
    assert_eq!(
        choose(&prompt, json!({ "mode": "NONE" })),
        (json!({ "type": "none" }), "abc".to_owned())
    );
    prompt["thinking"] = json!({ "type": "adaptive" });
    assert_eq!(
        choose(&prompt, any(&["a"])),
        (json!({ "type": "auto" }), "a".to_owned())
    );
}

#[test]
fn a_toolset_is_declared_by_the_name_that_its_calls_have() {
    let toolset = json!({ "type": "browser_toolset_20260801", "configs": {} });
    let call = json!({
        "type": "tool_use", "id": "t1", "name": "find", "toolset_name": "browser", "input": {},
    });
    let mut prompt = request(&json!([
        { "role": "user", "content": "x" },
        { "role": "assistant", "content": [call] },
    ]));
    prompt["tools"] = json!([tool("a"), toolset]);
    let form = opened(&prompt);
    let declaration = json!({ "name": "browser", IS_TOOLSET: true, SOURCE: 1 });
    assert_eq!(
        form["tools"][1],
        json!({ "functionDeclarations": [declaration], SOURCE: 1 })
    );
    let function_call = &form["contents"][1]["parts"][0]["functionCall"];
    assert_eq!(function_call["toolsetName"], "browser");
    let choose = |calling: Value| {
        let closed = edited(&prompt, |form| {
            form["toolConfig"] = json!({ "functionCallingConfig": calling });
        });
        (closed["tool_choice"].clone(), closed["tools"].clone())
    };
    let any = |names: &[&str]| json!({ "mode": "ANY", "allowedFunctionNames": names });
    let only = (json!({ "type": "any" }), json!([toolset]));
    assert_eq!(choose(any(&["find"])), only);
    assert_eq!(choose(any(&["browser"])), only);
    let (choice, tools) = choose(any(&["a"]));
    assert_eq!(choice, json!({ "type": "tool", "name": "a" }));
    assert_eq!(tools, prompt["tools"]);
    // A called toolset stays declared, but must not be called.
    let closed = edited(&prompt, |form| {
        form.as_object_mut().unwrap().remove("tools");
    });
    assert_eq!(closed["tools"], json!([toolset]));
    assert_eq!(closed["tool_choice"], json!({ "type": "none" }));
}

#[test]
fn tools_in_the_history_are_declared_and_withheld() {
    let addition = |name: &str| {
        json!({
            "type": "tool_addition", "tool": { "type": "tool_definition", "definition": tool(name) },
        })
    };
    let removal =
        json!({ "type": "tool_removal", "tool": { "type": "tool_reference", "name": "a" } });
    let prompt = request(&json!([
        { "role": "user", "content": "x" },
        { "role": "system", "content": [addition("a"), { "type": "text", "text": "rules" }, addition("b")] },
        { "role": "assistant", "content": [{ "type": "compaction", "content": "so far", "tool_changes": [addition("c")] }] },
        { "role": "system", "content": [removal] },
        { "role": "user", "content": "y" },
    ]));
    let form = opened(&prompt);
    let names: Vec<&Value> = form["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["functionDeclarations"][0]["name"])
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    let closed = edited(&prompt, |form| {
        form["tools"] = json!([form["tools"][1]]);
        form["systemInstruction"]["parts"][0]["text"] = "masked".into();
    });
    assert_eq!(
        closed["messages"],
        json!([
            { "role": "user", "content": "x" },
            { "role": "system", "content": [{ "type": "text", "text": "masked" }, addition("b")] },
            { "role": "assistant", "content": [{ "type": "compaction", "content": "so far", "tool_changes": [] }] },
            { "role": "user", "content": "y" },
        ])
    );
}

#[test]
fn additions_without_a_visible_tool_are_refused() {
    for (change, field) in [
        (
            json!({ "type": "tool_addition", "tool_definition": tool("a") }),
            "tool",
        ),
        (
            json!({ "type": "tool_addition", "tool": { "type": "tool_definition", "name": "a" } }),
            "definition",
        ),
    ] {
        for message in [
            json!({ "role": "system", "content": [change] }),
            json!({ "role": "assistant", "content": [{ "type": "compaction", "content": "so far", "tool_changes": [change] }] }),
        ] {
            let error = refused(&request(&json!([message])));
            assert!(error.contains(&format!("`{field}`")), "{error}");
        }
    }
}

#[test]
fn other_models_of_compatible_servers_are_seen() {
    let mut prompt = request(&json!([{ "role": "user", "content": "x" }]));
    prompt["fallbacks"] = json!([{ "model": "m-2" }]);
    prompt["models"] = json!(["m-3"]);
    assert_eq!(opened(&prompt)["fallbackModels"], json!(["m-2", "m-3"]));
    prompt["models"] = json!([{ "name": "m-3" }]);
    assert!(refused(&prompt).contains("models"));
}

#[test]
fn mcp_servers_are_tools() {
    let mut prompt = request(&json!([{ "role": "user", "content": "x" }]));
    prompt["mcp_servers"] = json!([{ "type": "url", "name": "files", "url": "https://mcp.test" }]);
    prompt["tools"] = json!([{ "type": "mcp_toolset", "mcp_server_name": "files" }, tool("a")]);
    let form = opened(&prompt);
    assert!(form["tools"][0].get("mcp:files").is_some());
    assert!(form["tools"][2].get("mcp:files").is_some());
    let closed = edited(&prompt, |form| form["tools"] = json!([form["tools"][1]]));
    assert!(closed.get("mcp_servers").is_none());
    assert_eq!(closed["tools"], json!([tool("a")]));
}

#[test]
fn references_to_tools_of_a_withheld_mcp_server_are_removed() {
    let reference = |name: &str| json!({ "type": "tool_reference", "tool_name": name });
    let found = json!([reference("read"), reference("a")]);
    let call = json!({ "type": "tool_use", "id": "t", "name": "a", "input": {} });
    let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": found });
    let mut prompt = request(&json!([
        { "role": "user", "content": "x" },
        { "role": "assistant", "content": [call] },
        { "role": "user", "content": [result] },
    ]));
    prompt["mcp_servers"] = json!([{ "type": "url", "name": "files", "url": "https://mcp.test" }]);
    prompt["tools"] = json!([{ "type": "mcp_toolset", "mcp_server_name": "files" }, tool("a")]);
    let closed = edited(&prompt, |form| form["tools"] = json!([form["tools"][1]]));
    let kept = &closed["messages"][2]["content"][0]["content"];
    assert_eq!(*kept, json!([reference("a")]));
}

#[test]
fn parameters_and_models_are_written_back() {
    let mut prompt = conversation();
    prompt["fallbacks"] = json!([{ "model": "m-2" }, { "model": "m-3" }]);
    assert_eq!(opened(&prompt)["fallbackModels"], json!(["m-2", "m-3"]));
    let closed = edited(&prompt, |form| {
        form["generationConfig"] = json!({ "topK": 5, "maxOutputTokens": 1500 });
        form["fallbackModels"] = json!(["m-3"]);
    });
    let mut expected = prompt.clone();
    for field in ["temperature", "stop_sequences"] {
        expected.as_object_mut().unwrap().remove(field);
    }
    expected["max_tokens"] = json!(1500);
    expected["top_k"] = json!(5);
    expected["thinking"]["budget_tokens"] = json!(1499);
    expected["fallbacks"] = json!([{ "model": "m-3" }]);
    assert_eq!(closed, expected);
    let closed = edited(&prompt, |form| form["generationConfig"] = json!({}));
    assert_eq!(closed["max_tokens"], 4096);
}

#[test]
fn a_swapped_model_is_written_to_the_body() {
    let body = body(&conversation());
    let mut call = call();
    let form = open_body(&mut call, &body).unwrap();
    call.model = crate::model::ModelName::parse("m-9");
    let closed: Value = serde_json::from_slice(&close_body(&call, &body, &form).unwrap()).unwrap();
    let mut expected = conversation();
    expected["model"] = "m-9".into();
    assert_eq!(closed, expected);
}

#[test]
fn a_denied_step_is_written_with_its_thinking() {
    let thinking = json!({ "type": "thinking", "thinking": "hm", "signature": "s" });
    let prompt = request(&json!([{ "role": "user", "content": "x" }]));
    let closed = edited(&prompt, |form| {
        let contents = form["contents"].as_array_mut().unwrap();
        contents.push(json!({ "role": "model", "parts": [
            { "text": "I try." },
            { "functionCall": { "id": "t", "name": "f", "args": { "a": 1 } }, "hookgatePreceding": [thinking] },
        ] }));
        contents.push(json!({ "role": "user", "parts": [
            { "functionResponse": { "id": "t", "name": "f", "response": { "error": "denied" } } },
        ] }));
    });
    assert_eq!(
        closed["messages"],
        json!([
            { "role": "user", "content": "x" },
            { "role": "assistant", "content": [
                thinking,
                { "type": "text", "text": "I try." },
                { "type": "tool_use", "id": "t", "name": "f", "input": { "a": 1 } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "t", "content": "denied", "is_error": true },
            ] },
        ])
    );
}

#[test]
fn blocks_of_other_types_are_shown_whole() {
    let block = json!({ "type": "search_result", "title": "t", "content": [{ "type": "text", "text": "s" }] });
    let prompt = request(&json!([{ "role": "user", "content": [block] }]));
    assert_eq!(opened(&prompt)["contents"][0]["parts"][0]["block"], block);
    let closed = edited(&prompt, |form| {
        form["contents"][0]["parts"][0]["block"]["title"] = "x".into();
    });
    assert_eq!(closed["messages"][0]["content"][0]["title"], "x");
    let document = json!({
        "type": "document", "title": "t",
        "source": { "type": "url", "url": "https://a.test", "note": "n" },
    });
    let prompt = request(&json!([{ "role": "user", "content": [document] }]));
    let part = &opened(&prompt)["contents"][0]["parts"][0];
    assert_eq!(part["fileData"]["fileUri"], "https://a.test");
    let texts = json!({ "title": "t", "source": { "note": "n" } });
    assert_eq!(part["block"], texts);
    let closed = edited(&prompt, |form| {
        form["contents"][0]["parts"][0]["block"] =
            json!({ "title": "x", "source": { "[key]": "y" } });
    });
    let mut expected = document.clone();
    expected["title"] = "x".into();
    expected["source"] = json!({ "type": "url", "url": "https://a.test", "[key]": "y" });
    assert_eq!(closed["messages"][0]["content"][0], expected);
}

#[test]
fn content_that_hooks_cannot_read_is_refused() {
    let prompt = request(&json!([{ "role": "user", "content": "x" }]));
    let with = |field: &str, value: Value| {
        let mut prompt = prompt.clone();
        prompt[field] = value;
        refused(&prompt)
    };
    assert!(with("container", json!("c")).contains("container"));
    assert!(with("thread", json!({ "type": "create" })).contains("thread"));
    assert!(with("Container", json!("c")).contains("Container"));
    assert!(with("topP", json!(1)).contains("topP"));
    assert!(with("Tools", json!([])).contains("Tools"));
    assert!(with("stream", json!("true")).contains("stream"));
    assert!(with("model", json!(null)).contains("model"));
    assert!(with("model", json!(["m"])).contains("model"));
    assert!(with("fallbacks", json!(["m"])).contains("fallbacks"));
    assert!(with("tool_choice", json!({ "type": "all" })).contains("tool_choice"));
    let both = json!({ "format": { "type": "json_schema" } });
    let mut twice = prompt.clone();
    twice["output_config"] = both;
    twice["output_format"] = json!({ "type": "json_schema" });
    assert!(refused(&twice).contains("output_format"));
    for (block, word) in [
        (
            json!({ "type": "image", "source": { "type": "file", "file_id": "f" } }),
            "file_id",
        ),
        (
            json!({ "type": "container_upload", "file_id": "f" }),
            "container",
        ),
        (
            json!({ "type": "document", "source": { "type": "content", "content": [
                { "type": "image", "source": { "type": "file", "file_id": "f" } },
            ] } }),
            "file_id",
        ),
        (
            json!({ "type": "tool_result", "tool_use_id": "t", "content": [
                { "type": "container_upload", "file_id": "f" },
            ] }),
            "container",
        ),
        (json!({ "text": "x" }), "type"),
        (json!({ "type": "text", "text": ["x"] }), "text"),
        (json!({ "type": "tool_addition", "tool": {} }), "role"),
    ] {
        let prompt = request(&json!([{ "role": "user", "content": [block] }]));
        assert!(refused(&prompt).contains(word), "{prompt}");
    }
    assert!(refused(&request(&json!([{ "role": "developer", "content": "x" }]))).contains("role"));
    assert!(refused(&request(&json!([{ "role": "user", "content": 5 }]))).contains("content"));
    let twice = r#"{"model":"m","messages":[{"role":"user","content":"a","content":"b"}]}"#;
    assert!(parse_strict(twice.into()).is_err());
}

#[test]
fn the_session_is_in_the_metadata() {
    let session = |user: &str| {
        let mut prompt = request(&json!([]));
        prompt["metadata"] = json!({ "user_id": user });
        agent_session(&body(&prompt)).unwrap()
    };
    let json = r#"{"device_id":"d","account_uuid":"","session_id":"s-1"}"#;
    assert_eq!(session(json).as_deref(), Some("s-1"));
    assert_eq!(
        session("user_a_account_b_session_s-2").as_deref(),
        Some("s-2")
    );
    assert_eq!(session("someone"), None);
}

#[test]
fn thinking_that_was_cut_off_is_removed() {
    let unsigned =
        |signature: Value| json!({ "type": "thinking", "thinking": "a", "signature": signature });
    let signed = unsigned("s".into());
    let text = json!({ "type": "text", "text": "denied" });
    let call = json!({ "type": "tool_use", "id": "t", "name": "f", "input": {} });
    let result = json!([{ "type": "tool_result", "tool_use_id": "t", "content": "r" }]);
    let answer = |content: Value| json!({ "role": "assistant", "content": content });
    let user = json!({ "role": "user", "content": "b" });
    let missing = json!({ "type": "thinking", "thinking": "" });
    let messages = json!([
        user,
        answer(json!([signed, unsigned("".into()), text])),
        user,
        answer(json!([missing])),
        user,
        answer(json!([signed, call])),
        { "role": "user", "content": result },
    ]);
    let sent = edited(&request(&messages), |_| ());
    let mut expected = messages;
    expected[1] = answer(json!([signed, text]));
    expected.as_array_mut().unwrap().remove(3);
    assert_eq!(sent["messages"], expected);
}

#[test]
fn thinking_of_a_server_without_signatures_is_kept() {
    let thinking = json!({ "type": "thinking", "thinking": "a" });
    let call = json!({ "type": "tool_use", "id": "t", "name": "f", "input": {} });
    let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": "r" });
    let messages = json!([
        { "role": "user", "content": "b" },
        { "role": "assistant", "content": [thinking, { "type": "text", "text": "c" }] },
        { "role": "user", "content": "b" },
        { "role": "assistant", "content": [thinking, call] },
        { "role": "user", "content": [result] },
    ]);
    let sent = edited(&request(&messages), |_| ());
    assert_eq!(sent["messages"], messages);
}
