mod properties;

use serde_json::{Value, json};

use super::*;
use crate::{
    dialect::{
        RequestLine,
        google::{
            AllowedFunctions, Detail, History, append_contents, read_stable_form, withhold_tools,
            write_request, write_tool_selection,
        },
        openai_responses::fields::parse,
        recognize_call,
        text_edit::{TextEditor, TextKind},
    },
    model::{ModelName, RequestMutation, ToolConfig},
};

fn call_to(path: &str) -> Call {
    let line = RequestLine {
        method: &http::Method::POST,
        path,
        query: "",
        api: Some(crate::dialect::Api::OpenAiResponses),
    };
    recognize_call(line).unwrap().unwrap().call.unwrap()
}

/// A request as an agent would send it, with declarations in several places.
fn request() -> Value {
    json!({
        "model": "gpt-x",
        "stream": true,
        "instructions": "be brief",
        "input": [
            { "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": "rules" }] },
            { "role": "user", "content": "hi" },
            { "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA" },
            { "type": "message", "id": "msg_1", "role": "assistant", "content": [{ "type": "output_text", "text": "I look", "annotations": [] }] },
            { "type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gBBB" },
            { "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": "{ \"path\": \"a\" }" },
            { "type": "function_call_output", "call_id": "call_1", "output": "alpha" },
            { "type": "additional_tools", "role": "developer", "tools": [{ "type": "function", "name": "late", "parameters": {} }] },
            { "role": "user", "content": [{ "type": "input_text", "text": "next" }, { "type": "input_image", "image_url": "data:image/png;base64,AAAA" }] },
        ],
        "tools": [
            { "type": "function", "name": "read", "parameters": { "type": "object" }, "strict": false },
            { "type": "namespace", "name": "agents", "description": "d", "tools": [
                { "type": "function", "name": "spawn", "parameters": {} },
                { "type": "custom", "name": "patch" },
            ] },
            { "type": "web_search", "external_web_access": true },
            { "type": "mcp", "server_label": "wiki", "server_url": "https://example.com" },
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": true,
        "temperature": 0.5,
        "max_output_tokens": 100,
        "text": { "format": { "type": "json_schema", "schema": {} } },
    })
}

struct Opened {
    call: Call,
    body: Document,
    form: Document,
}

impl Opened {
    fn new(request: &Value) -> Self {
        let body = parse(request.to_string().into()).unwrap();
        let mut call = call_to("/v1/responses");
        call.model = ModelName::parse("gpt-x");
        Self {
            call,
            form: read_content_form(&body).unwrap(),
            body,
        }
    }

    fn close(&self) -> Value {
        let closed = close_request(&self.call, &self.body, &self.form).unwrap();
        serde_json::from_slice(&closed).unwrap()
    }

    fn write(&mut self, mutation: &Value) {
        let mutation = RequestMutation {
            fields: mutation.as_object().unwrap().clone(),
            ..RequestMutation::default()
        };
        let patched = write_request(
            &self.call,
            self.form.clone(),
            &mutation,
            &AllowedFunctions::default(),
        )
        .unwrap();
        self.form = patched.document;
    }

    fn withhold(&mut self, keep: &[&str]) -> Vec<String> {
        withhold_tools(&self.call, &mut self.form, &|tool| {
            keep.contains(&&*tool.name)
        })
        .unwrap()
    }
}

#[test]
fn an_unedited_request_keeps_its_bytes() {
    let text = " {\"model\" : \"gpt-x\", \"input\":[ {\"role\":\"user\", \"content\":\"h\\u0069\"} ],\"temperature\":1.0e0}";
    let body = parse(text.into()).unwrap();
    let form = read_content_form(&body).unwrap();
    let mut call = call_to("/responses");
    call.model = ModelName::parse("gpt-x");
    assert_eq!(close_request(&call, &body, &form).unwrap(), text);
    let opened = Opened::new(&request());
    assert_eq!(opened.close(), request());
}

#[test]
fn hooks_see_the_conversation() {
    let opened = Opened::new(&request());
    let stable = read_stable_form(&opened.call, &opened.form, Detail::Texts).unwrap();
    let messages: Vec<(String, &str)> = stable
        .messages
        .iter()
        .map(|message| (format!("{:?}", message.role), message.content.as_str()))
        .collect();
    assert_eq!(
        messages,
        [
            ("User".to_owned(), "hi"),
            ("Model".to_owned(), "I look"),
            ("User".to_owned(), "next"),
        ]
    );
    assert_eq!(stable.system.as_deref(), Some("be briefrules"));
    assert_eq!(stable.config["maxOutputTokens"], 100);
    let form: Value = serde_json::from_slice(&opened.form.to_bytes()).unwrap();
    assert_eq!(
        form["generationConfig"]["responseMimeType"],
        "application/json"
    );
    assert_eq!(
        form["contents"][3]["parts"][0]["functionResponse"]["name"],
        "read"
    );
    assert_eq!(
        form["contents"][4]["parts"][1]["inlineData"],
        json!({ "mimeType": "image/png", "data": "AAAA" })
    );
    assert_eq!(form["toolConfig"]["functionCallingConfig"]["mode"], "AUTO");
}

#[test]
fn an_input_that_is_a_text_stays_a_text() {
    let mut opened = Opened::new(&json!({ "model": "gpt-x", "input": "hi" }));
    opened.write(&json!({ "messages": [{ "role": "user", "content": "HI" }] }));
    assert_eq!(opened.close()["input"], "HI");

    let mut history = History::read(&opened.form).unwrap().unwrap();
    history.edit(0).unwrap().append_text("context").unwrap();
    history.write(&mut opened.form).unwrap();
    assert_eq!(opened.close()["input"], "HI\n\ncontext");
}

#[test]
fn edited_messages_keep_their_form() {
    let mut opened = Opened::new(&request());
    opened.write(&json!({ "messages": [
        { "role": "user", "content": "HI" },
        { "role": "model", "content": "I LOOK" },
        { "role": "user", "content": "NEXT" },
        { "role": "user", "content": "more" },
    ] }));
    let mut expected = request();
    expected["input"][1]["content"] = "HI".into();
    expected["input"][3]["content"][0]["text"] = "I LOOK".into();
    expected["input"][8]["content"][0]["text"] = "NEXT".into();
    let new = json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "more" }] });
    expected["input"].as_array_mut().unwrap().push(new);
    assert_eq!(opened.close(), expected);
}

#[test]
fn a_removed_message_removes_its_reasoning_and_nothing_else() {
    let mut opened = Opened::new(&request());
    opened.write(&json!({ "messages": [
        { "role": "user", "content": "hi" },
        { "role": "user", "content": "next" },
    ] }));
    let mut expected = request();
    let items = expected["input"].as_array_mut().unwrap();
    items.drain(2..4);
    assert_eq!(opened.close(), expected);
}

#[test]
fn a_call_behind_removed_reasoning_loses_its_id() {
    let mut value = request();
    let items = value["input"].as_array_mut().unwrap();
    items.remove(4);
    let mut opened = Opened::new(&value);
    opened.write(&json!({ "messages": [
        { "role": "user", "content": "hi" },
        { "role": "user", "content": "next" },
    ] }));
    let mut expected = value;
    let items = expected["input"].as_array_mut().unwrap();
    items.drain(2..4);
    assert!(items[2].as_object_mut().unwrap().remove("id").is_some());
    assert_eq!(opened.close(), expected);
}

/// The items `step` of the model, between two prompts, after a hook removed its texts.
fn without_texts(step: &[Value]) -> Vec<Value> {
    let user = |text: &str| json!({ "role": "user", "content": text });
    let input = [&[user("hi")], step, &[user("next")]].concat();
    let mut opened = Opened::new(&json!({ "model": "gpt-x", "input": input }));
    opened.write(&json!({ "messages": [user("hi"), user("next")] }));
    let closed = opened.close();
    let items = closed["input"].as_array().unwrap();
    items[1..items.len() - 1].to_vec()
}

fn reasoning() -> Value {
    json!({ "type": "reasoning", "id": "rs_1", "summary": [] })
}

fn message_of_model() -> Value {
    json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": "I look" })
}

#[test]
fn items_that_others_refer_to_keep_their_ids_without_their_reasoning() {
    for items in [
        [
            json!({ "type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "server_label": "s", "arguments": "{}" }),
            json!({ "type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true }),
        ],
        [
            json!({ "type": "local_shell_call", "id": "lsh_1", "call_id": "c1", "status": "completed",
                "action": { "type": "exec", "command": ["ls"], "env": {} } }),
            json!({ "type": "local_shell_call_output", "id": "lsh_1", "output": "a" }),
        ],
        [
            json!({ "type": "function_call", "id": "c1", "name": "f", "arguments": "{}" }),
            json!({ "type": "function_call_output", "call_id": "c1", "output": "a" }),
        ],
    ] {
        let step = [&[reasoning(), message_of_model()], items.as_slice()].concat();
        assert_eq!(without_texts(&step), items);
    }
}

#[test]
fn reasoning_in_front_of_a_search_for_tools_stays_with_it() {
    let search = json!({ "type": "tool_search_call", "execution": "server", "id": "tsc_1", "call_id": null });
    let step = [reasoning(), search.clone(), message_of_model()];
    assert_eq!(without_texts(&step), [reasoning(), search.clone()]);

    let step = [reasoning(), message_of_model(), search.clone()];
    let mut without_id = search;
    without_id.as_object_mut().unwrap().remove("id");
    assert_eq!(without_texts(&step), [without_id]);
}

/// A request after the result of its function call was replaced by `hidden`.
fn with_hidden_result(request: &Value) -> Value {
    let mut opened = Opened::new(request);
    let mut history = History::read(&opened.form).unwrap().unwrap();
    let content = history.edit(3).unwrap();
    content.replace_result(0, "hidden").unwrap();
    history.write(&mut opened.form).unwrap();
    opened.close()
}

#[test]
fn a_replaced_result_consists_of_the_reason() {
    let mut expected = request();
    expected["input"][6]["output"] = "hidden".into();
    assert_eq!(with_hidden_result(&request()), expected);
}

#[test]
fn a_context_is_appended_to_a_result() {
    let mut opened = Opened::new(&request());
    let mut history = History::read(&opened.form).unwrap().unwrap();
    let edit = history.edit(3).unwrap();
    edit.append_to_result(0, "note").unwrap();
    history.write(&mut opened.form).unwrap();
    assert_eq!(opened.close()["input"][6]["output"], "alpha\n\nnote");
}

/// A request with the results of a shell and of the computer, in one step.
fn step_of_shell_and_computer() -> Value {
    let image = json!({ "type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA" });
    let printed =
        json!([{ "stdout": "a", "stderr": "", "outcome": { "type": "exit", "exit_code": 1 } }]);
    json!({ "model": "gpt-x", "input": [
        { "role": "user", "content": "hi" },
        { "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA" },
        { "type": "computer_call", "id": "cu_1", "call_id": "c1", "actions": [] },
        { "type": "shell_call", "id": "sh_1", "call_id": "c2", "action": { "commands": ["ls"] } },
        { "type": "computer_call_output", "call_id": "c1", "output": image },
        { "type": "shell_call_output", "call_id": "c2", "output": printed },
        { "role": "user", "content": "go on" },
    ] })
}

/// The items of that request after an edit of its results.
fn with_edited_step(edit: impl Fn(&mut History, usize)) -> Vec<Value> {
    let mut opened = Opened::new(&step_of_shell_and_computer());
    let mut history = History::read(&opened.form).unwrap().unwrap();
    for content in [3, 4] {
        edit(&mut history, content);
    }
    history.write(&mut opened.form).unwrap();
    opened.close()["input"].as_array().unwrap().clone()
}

#[test]
fn a_context_is_added_to_a_screenshot_and_to_the_output_of_a_shell() {
    let items = with_edited_step(|history, content| {
        let edit = history.edit(content).unwrap();
        edit.append_to_result(0, "note").unwrap();
    });
    let request = step_of_shell_and_computer();
    assert_eq!(items.len(), 8);
    assert_eq!(items[..5], request["input"].as_array().unwrap()[..5]);
    let printed = items[5]["output"].as_array().unwrap();
    assert_eq!(printed[0], request["input"][5]["output"][0]);
    assert_eq!(printed[1]["stdout"], "note");
    let block = json!({ "type": "input_text", "text": "note" });
    assert_eq!(items[6]["content"], json!([block]));
    assert_eq!(items[7], request["input"][6]);
}

#[test]
fn a_hidden_screenshot_becomes_a_text_and_its_call_goes() {
    for is_denied in [true, false] {
        let items = with_edited_step(|history, content| {
            let edit = history.edit(content).unwrap();
            if is_denied {
                edit.replace_result(0, "hidden").unwrap();
            } else {
                edit.set_result_text(0, "hidden").unwrap();
            }
        });
        let request = step_of_shell_and_computer();
        assert_eq!(items.len(), 6, "{items:?}");
        // The reasoning belongs to the call of the shell, too.
        assert_eq!(items[..2], request["input"].as_array().unwrap()[..2]);
        assert_eq!(items[2], request["input"][3]);
        let block = json!({ "type": "input_text", "text": "hidden" });
        let message = json!({ "type": "message", "role": "user", "content": [block] });
        assert_eq!(items[3], message);
        assert_eq!(items[4]["output"][0]["stdout"], "hidden");
        assert_eq!(items[5], request["input"][6]);
    }
}

#[test]
fn results_of_blocks_keep_their_media() {
    let mut value = request();
    let blocks = json!([
        { "type": "input_text", "text": "one" },
        { "type": "input_image", "image_url": "data:image/png;base64,AAAA" },
        { "type": "input_text", "text": "two" },
    ]);
    value["input"][6]["output"] = blocks;
    let mut opened = Opened::new(&value);
    let mut edit = Upper;
    crate::dialect::edit_request_texts(&opened.call, &mut opened.form, &mut edit).unwrap();
    let output = &opened.close()["input"][6]["output"];
    assert_eq!(output[0]["text"], "ONE");
    assert_eq!(output[1]["image_url"], "data:image/png;base64,AAAA");
    assert_eq!(output[2]["text"], "TWO");
}

/// A result of a text, an image, and blocks of unknown types.
fn unknown_blocks() -> Value {
    let mut value = request();
    value["input"][6]["output"] = json!([
        { "type": "resource", "resource": { "content": "deep" } },
        { "type": "input_text", "text": "one" },
        { "type": "input_image", "image_url": "data:image/png;base64,AAAA" },
        { "type": "input_image", "source": { "note": "odd" } },
    ]);
    value
}

#[test]
fn blocks_of_a_result_that_are_no_texts_are_seen_whole() {
    let mut opened = Opened::new(&unknown_blocks());
    crate::dialect::edit_request_texts(&opened.call, &mut opened.form, &mut Upper).unwrap();
    let output = &opened.close()["input"][6]["output"];
    assert_eq!(output[0]["resource"]["content"], "DEEP");
    assert_eq!(output[1]["text"], "ONE");
    assert_eq!(output[2], unknown_blocks()["input"][6]["output"][2]);
    assert_eq!(output[3]["source"]["note"], "ODD");
}

#[test]
fn no_block_of_a_hidden_result_is_left() {
    let mut value = unknown_blocks();
    for _ in 0..2 {
        let mut opened = Opened::new(&value);
        let mut history = History::read(&opened.form).unwrap().unwrap();
        let edit = history.edit(3).unwrap();
        edit.replace_result(0, "hidden").unwrap();
        history.write(&mut opened.form).unwrap();
        assert_eq!(opened.close()["input"][6]["output"], "hidden");
        // The same without media.
        let blocks = value["input"][6]["output"].as_array_mut().unwrap();
        blocks.remove(2);
    }
}

/// Writes every text in upper case, but for keys.
struct Upper;

impl TextEditor for Upper {
    fn edit_joined(&mut self, _kind: TextKind, texts: &mut [String]) -> bool {
        for text in texts.iter_mut() {
            *text = text.to_uppercase();
        }
        true
    }

    fn edit(&mut self, _kind: TextKind, text: &str) -> Option<String> {
        let keys = [
            "action",
            "arguments",
            "content",
            "image_url",
            "input",
            "metadata",
            "note",
            "output",
            "path",
            "query",
            "resource",
            "source",
            "text",
            "type",
        ];
        (!keys.contains(&text)).then(|| text.to_uppercase())
    }
}

#[test]
fn every_text_that_a_model_reads_is_edited() {
    let mut value = request();
    let items = value["input"].as_array_mut().unwrap();
    items.push(json!({ "type": "web_search_call", "id": "ws_1", "status": "completed", "action": { "type": "search", "query": "query x" } }));
    items.push(
        json!({ "type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "diff" }),
    );
    items.push(json!({ "role": "user", "content": [{ "type": "new_kind", "text": "odd" }, { "type": "other", "note": "deep" }] }));
    value["metadata"] = json!({ "query": "label" });
    let mut opened = Opened::new(&value);
    crate::dialect::edit_request_texts(&opened.call, &mut opened.form, &mut Upper).unwrap();
    let closed = opened.close();
    assert_eq!(closed["metadata"]["query"], "LABEL");
    assert_eq!(closed["instructions"], "BE BRIEF");
    let input = &closed["input"];
    assert_eq!(input[0]["content"][0]["text"], "RULES");
    assert_eq!(input[5]["arguments"], r#"{"path":"A"}"#);
    assert_eq!(input[6]["output"], "ALPHA");
    assert_eq!(input[9]["action"]["query"], "QUERY X");
    assert_eq!(input[9]["id"], "ws_1");
    assert_eq!(input[10]["input"], "DIFF");
    assert_eq!(input[11]["content"][0]["text"], "ODD");
    assert_eq!(input[11]["content"][1]["note"], "DEEP");
    assert_eq!(input[2], request()["input"][2]);
    assert_eq!(closed["tools"], request()["tools"]);
}

#[test]
fn an_item_that_no_model_makes_is_a_prompt() {
    for (item, expected) in [
        (json!({ "type": "input_text", "text": "typed" }), "typed"),
        (
            json!({ "type": "new_kind", "note": { "deep": "typed" } }),
            "typed",
        ),
        (
            json!({ "type": "mcp_approval_response", "approval_request_id": "r", "approve": false, "reason": "typed" }),
            "typed",
        ),
        (
            json!({ "type": "web_search_call", "action": { "query": "q" } }),
            "first",
        ),
        (
            json!({ "type": "new_call_output", "output": "printed" }),
            "first",
        ),
        (
            json!({ "type": "new_kind", "id": "nk_1", "note": "answered" }),
            "first",
        ),
        (
            json!({ "type": "new_kind", "role": "assistant", "note": "answered" }),
            "first",
        ),
    ] {
        let opened = Opened::new(&json!({ "model": "gpt-x", "input": [
            { "role": "user", "content": "first" },
            { "role": "assistant", "content": "yes" },
            item,
        ] }));
        let prompt = crate::dialect::new_prompt(&opened.call, &opened.form).unwrap();
        assert_eq!(prompt, [expected], "{item}");
    }
}

#[test]
fn a_text_that_hooks_add_to_an_item_of_an_unknown_type_is_a_message() {
    let item = json!({ "type": "input_text", "text": "typed" });
    let value = json!({ "model": "gpt-x", "input": [item] });
    let mut opened = Opened::new(&value);
    let mutation = RequestMutation {
        appended_text: Some("added".to_owned()),
        ..RequestMutation::default()
    };
    opened.form = write_request(
        &opened.call,
        opened.form.clone(),
        &mutation,
        &AllowedFunctions::default(),
    )
    .unwrap()
    .document;
    let message = json!({ "type": "message", "role": "user",
        "content": [{ "type": "input_text", "text": "added" }] });
    assert_eq!(opened.close()["input"], json!([item, message]));
}

#[test]
fn unknown_fields_of_items_and_blocks_are_edited() {
    let items = |text: &str| {
        json!([
            { "role": "developer", "content": "RULES", "note": text },
            { "type": "message", "id": "m", "status": "s", "role": "user", "phase": "p", "content": [
                { "type": "input_text", "text": "TEXT", "note": text },
                { "type": "input_image", "image_url": "data:image/png;base64,a", "detail": "low", "note": text },
                { "type": "input_audio", "input_audio": { "data": "a", "format": "wav", "note": text }, "note": text },
            ], "note": { "query": [text] } },
            { "type": "reasoning", "id": "r", "encrypted_content": "e", "signature": "s", "summary": [{ "type": "summary_text", "text": "s" }], "note": text },
            { "type": "function_call", "call_id": "c1", "name": "f", "arguments": "", "note": text },
            { "type": "function_call_output", "call_id": "c1", "output": [{ "type": "input_text", "text": "TEXT", "note": text }], "note": text },
            { "type": "tool_search_call", "id": "t", "arguments": { "query": text } },
            { "type": "configuration_update", "text": text },
            { "type": "compaction", "encrypted_content": "e" },
            { "type": "context_compaction", "encrypted_content": "e" },
        ])
    };
    let value = json!({ "model": "m", "input": items("ab") });
    let mut opened = Opened::new(&value);
    crate::dialect::edit_request_texts(&opened.call, &mut opened.form, &mut Upper).unwrap();
    assert_eq!(opened.close()["input"], items("AB"));
}

#[test]
fn unknown_fields_of_a_hidden_result_go() {
    let mut value = request();
    value["input"][6]["x"] = json!("secret");
    let item = &with_hidden_result(&value)["input"][6];
    assert_eq!(item["output"], "hidden");
    assert!(item.get("x").is_none());
}

#[test]
fn a_denied_step_is_appended_with_its_reasoning() {
    let mut opened = Opened::new(&request());
    let reasoning = json!({ "type": "reasoning", "id": "rs_9", "summary": [] });
    let call = json!({ "type": "custom_tool_call", "id": "ct_9", "call_id": "c9", "name": "patch", "input": "x" });
    let part = json!({
        "functionCall": { "id": "c9", "name": "patch", "args": { "input": "x" } },
        "hookgatePreceding": [reasoning, call],
    });
    let result = json!({ "functionResponse": { "id": "c9", "name": "patch", "response": { "error": "blocked" } } });
    let contents = [
        json!({ "role": "model", "parts": [{ "text": "I try" }, part] }),
        json!({ "role": "user", "parts": [result] }),
    ];
    let contents = contents.map(|content| Bytes::from(content.to_string()));
    append_contents(&mut opened.form, &contents).unwrap();
    let closed = opened.close();
    let items = closed["input"].as_array().unwrap();
    assert_eq!(items.len(), 13);
    assert_eq!(items[..9], request()["input"].as_array().unwrap()[..]);
    assert_eq!(
        items[9]["content"][0],
        json!({ "type": "output_text", "text": "I try" })
    );
    assert_eq!(items[10..12], [reasoning, call]);
    assert_eq!(
        items[12],
        json!({ "type": "custom_tool_call_output", "call_id": "c9", "output": "blocked" })
    );
}

/// The items that are appended for a denied call of the model.
fn denied(name: &str, call: &Value) -> Vec<Value> {
    let mut opened = Opened::new(&request());
    let part = json!({
        "functionCall": { "id": "c9", "name": name, "args": {} },
        "hookgatePreceding": [call],
    });
    let result = json!({ "functionResponse": { "id": "c9", "name": name, "response": { "error": "blocked" } } });
    let contents = [
        json!({ "role": "model", "parts": [part] }),
        json!({ "role": "user", "parts": [result] }),
    ];
    let contents = contents.map(|content| Bytes::from(content.to_string()));
    append_contents(&mut opened.form, &contents).unwrap();
    let closed = opened.close();
    closed["input"].as_array().unwrap()[9..].to_vec()
}

#[test]
fn a_denied_search_of_tools_finds_none() {
    let call = json!({ "type": "tool_search_call", "call_id": "c9", "execution": "client",
        "arguments": {} });
    let output = json!({ "type": "tool_search_output", "call_id": "c9", "execution": "client",
        "status": "completed", "tools": [] });
    assert_eq!(denied("tool_search", &call), [call, output]);
}

#[test]
fn a_denied_use_of_the_computer_becomes_a_text() {
    let call = json!({ "type": "computer_call", "id": "cu", "call_id": "c9", "actions": [] });
    let message = json!({ "type": "message", "role": "user",
        "content": [{ "type": "input_text", "text": "blocked" }] });
    assert_eq!(denied("computer", &call), [message]);
}

#[test]
fn tools_are_removed_wherever_they_are_declared() {
    let mut opened = Opened::new(&request());
    let mut removed = opened.withhold(&["read", "spawn"]);
    removed.sort();
    assert_eq!(removed, ["late", "mcp:wiki", "patch", "web_search"]);
    let closed = opened.close();
    let tools = closed["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 2);
    assert_eq!(tools[0], request()["tools"][0]);
    assert_eq!(
        tools[1]["tools"],
        json!([{ "type": "function", "name": "spawn", "parameters": {} }])
    );
    assert_eq!(closed["input"].as_array().unwrap().len(), 8);
    assert_eq!(closed["tool_choice"], "auto");
}

#[test]
fn a_request_without_tools_has_no_tool_choice() {
    let mut opened = Opened::new(&request());
    opened.withhold(&[]);
    let closed = opened.close();
    for field in ["tools", "tool_choice", "parallel_tool_calls"] {
        assert!(closed.get(field).is_none(), "{field}");
    }
}

#[test]
fn a_selection_of_tools_is_written() {
    let choice = |selection: Value| {
        let mut opened = Opened::new(&request());
        let selection = ToolConfig::read(&selection).unwrap();
        write_tool_selection(&mut opened.form, &selection, &AllowedFunctions::default()).unwrap();
        opened.close()
    };
    let closed = choice(json!({ "mode": "NONE" }));
    assert_eq!(closed["tool_choice"], "none");
    let closed = choice(json!({ "mode": "ANY" }));
    assert_eq!(closed["tool_choice"], "required");
    let closed = choice(json!({ "mode": "ANY", "allowedFunctionNames": ["patch"] }));
    assert_eq!(
        closed["tool_choice"],
        json!({ "type": "custom", "name": "patch" })
    );
    let closed = choice(json!({ "mode": "ANY", "allowedFunctionNames": ["patch", "read"] }));
    assert_eq!(
        closed["tool_choice"],
        json!({ "type": "allowed_tools", "mode": "required", "tools": [
            { "type": "custom", "name": "patch" },
            { "type": "function", "name": "read" },
        ] })
    );
    let closed = choice(json!({ "mode": "AUTO", "allowedFunctionNames": ["read"] }));
    assert_eq!(closed["tools"][0]["name"], "read");
    assert!(!closed.to_string().contains("spawn"));
}

#[test]
fn a_tool_of_an_mcp_server_is_written_with_its_name_in_the_namespace() {
    for namespace in ["mcp__files", "mcp__files__"] {
        let mut value = request();
        value["tools"][1]["name"] = namespace.into();
        let mut opened = Opened::new(&value);
        let selection = json!({ "mode": "ANY", "allowedFunctionNames": ["mcp__files__spawn"] });
        let selection = ToolConfig::read(&selection).unwrap();
        write_tool_selection(&mut opened.form, &selection, &AllowedFunctions::default()).unwrap();
        let call =
            json!({ "functionCall": { "id": "c9", "name": "mcp__files__spawn", "args": {} } });
        let content = json!({ "role": "model", "parts": [call] }).to_string();
        append_contents(&mut opened.form, &[content.into()]).unwrap();

        let closed = opened.close();

        let choice = json!({ "type": "function", "name": "spawn" });
        assert_eq!(closed["tool_choice"], choice);
        assert_eq!(closed["tools"], value["tools"]);
        let call = json!({ "type": "function_call", "call_id": "c9", "namespace": namespace,
            "name": "spawn", "arguments": "{}" });
        assert_eq!(closed["input"].as_array().unwrap().last(), Some(&call));
    }
}

#[test]
fn a_choice_of_the_agent_is_read() {
    for (choice, mode, names) in [
        (json!("required"), "ANY", json!(null)),
        (
            json!({ "type": "function", "name": "read" }),
            "ANY",
            json!(["read"]),
        ),
        (
            json!({ "type": "web_search" }),
            "ANY",
            json!(["web_search"]),
        ),
        (
            json!({ "type": "allowed_tools", "mode": "auto", "tools": [{ "type": "mcp", "server_label": "wiki" }] }),
            "AUTO",
            json!(["mcp:wiki"]),
        ),
    ] {
        let mut value = request();
        value["tool_choice"] = choice;
        let opened = Opened::new(&value);
        let form: Value = serde_json::from_slice(&opened.form.to_bytes()).unwrap();
        let config = &form["toolConfig"]["functionCallingConfig"];
        assert_eq!(config["mode"], mode);
        assert_eq!(
            config
                .get("allowedFunctionNames")
                .cloned()
                .unwrap_or_default(),
            names
        );
        assert_eq!(opened.close(), value);
    }
}

#[test]
fn system_texts_and_parameters_are_written() {
    let mut opened = Opened::new(&request());
    opened.write(&json!({
        "systemInstruction": "short",
        "config": { "temperature": 1, "maxOutputTokens": null },
    }));
    let closed = opened.close();
    assert_eq!(closed["instructions"], "short");
    assert!(closed["input"][0]["role"] == "user");
    assert_eq!(closed["temperature"], 1);
}

#[test]
fn new_system_texts_follow_the_old_ones() {
    let mut opened = Opened::new(&request());
    opened.write(&json!({ "messages": [
        { "role": "system", "content": "new" },
        { "role": "user", "content": "hi" },
        { "role": "model", "content": "I look" },
        { "role": "user", "content": "next" },
    ] }));
    let closed = opened.close();
    assert_eq!(closed["instructions"], "be brief");
    assert_eq!(
        closed["input"][0]["content"][1],
        json!({ "type": "input_text", "text": "new" })
    );
    let mut opened = Opened::new(&json!({ "model": "gpt-x", "input": "hi" }));
    opened.write(&json!({ "systemInstruction": "short" }));
    assert_eq!(opened.close()["instructions"], "short");
}

#[test]
fn another_model_is_written() {
    let mut opened = Opened::new(&request());
    opened.call.model = ModelName::parse("gpt-y");
    let mut expected = request();
    expected["model"] = "gpt-y".into();
    assert_eq!(opened.close(), expected);
}

#[test]
fn requests_that_hooks_cannot_read_are_refused() {
    let user = json!({ "role": "user", "content": "hi" });
    for (field, value) in [
        ("previous_response_id", json!("resp_1")),
        ("conversation", json!("conv_1")),
        ("conversation", json!({ "id": "conv_1" })),
        ("prompt", json!({ "id": "pmpt_1" })),
        ("background", json!(true)),
        ("messages", json!([])),
        ("functions", json!([])),
        ("max_tokens", json!(5)),
        ("Tools", json!([])),
        ("tool_Choice", json!("none")),
        ("maxOutputTokens", json!(5)),
        (
            "input",
            json!([user, { "type": "item_reference", "id": "msg_1" }]),
        ),
        ("input", json!([user, { "id": "msg_1" }])),
        ("input", json!([{ "text": "hi" }])),
        ("input", json!([{ "role": "tool", "content": "hi" }])),
        ("input", json!([{ "role": "user", "Content": "hi" }])),
        ("input", json!(5)),
        ("tools", json!([{ "name": "f" }])),
        (
            "tools",
            json!([{ "type": "function", "function": { "name": "f" } }]),
        ),
        ("tool_choice", json!("any")),
        ("stream", json!("true")),
    ] {
        let mut request = json!({ "model": "gpt-x", "input": "hi", "max_output_tokens": 5 });
        request[field] = value;
        let body = parse(request.to_string().into());
        let read = body.and_then(|body| {
            crate::dialect::of(crate::dialect::Api::OpenAiResponses)
                .open_request(&mut call_to("/v1/responses"), body)
        });
        assert!(read.is_err(), "{request}");
    }
}

/// Returns whether a request with these tools is read.
fn reads_tools(tools: &Value) -> bool {
    let responses = crate::dialect::of(crate::dialect::Api::OpenAiResponses);
    let item = json!({ "type": "additional_tools", "role": "developer", "tools": tools });
    let with = |field: &str, value: &Value| {
        let mut request = json!({ "model": "gpt-x", "input": [] });
        request[field] = value.clone();
        let body = parse(request.to_string().into()).unwrap();
        let read = responses.open_request(&mut call_to("/v1/responses"), body);
        read.is_ok()
    };
    let is_read = with("tools", tools);
    assert_eq!(with("input", &json!([item])), is_read, "{tools}");
    is_read
}

#[test]
fn tools_with_stored_files_containers_or_skills_are_refused() {
    let shell = |environment: Value| json!({ "type": "shell", "environment": environment });
    let skills = json!([{ "type": "skill_reference", "skill_id": "s" }]);
    for tool in [
        json!({ "type": "image_generation", "input_image_mask": { "file_id": "file-1" } }),
        json!({ "type": "code_interpreter", "container": "cntr_1" }),
        json!({ "type": "code_interpreter", "container": { "type": "auto", "file_ids": ["f"] } }),
        shell(json!({ "type": "container_auto", "skills": skills })),
        shell(json!({ "type": "container_auto", "skills": [{ "type": "inline", "name": "s" }] })),
        shell(json!({ "type": "container_reference", "container_id": "cntr_1" })),
    ] {
        assert!(!reads_tools(&json!([tool])), "{tool}");
    }
    let schema = json!({ "type": "object", "properties": { "file_id": { "type": "string" } } });
    for tool in [
        json!({ "type": "image_generation", "input_image_mask": { "file_id": null } }),
        json!({ "type": "code_interpreter", "container": { "type": "auto", "file_ids": [] } }),
        shell(json!({ "type": "container_auto" })),
        json!({ "type": "function", "name": "container", "parameters": schema }),
    ] {
        assert!(reads_tools(&json!([tool])), "{tool}");
    }
}

#[test]
fn other_models_of_compatible_servers_are_seen() {
    let value = json!({ "model": "gpt-x", "input": "hi", "models": ["a/b"], "fallbacks": ["c"] });
    let names = crate::dialect::other_models(&Opened::new(&value).form);
    assert_eq!(names.unwrap(), ["c", "a/b"]);
}

#[test]
fn fields_that_are_null_count_as_absent() {
    let value = json!({ "model": "gpt-x", "input": "hi", "previous_response_id": null, "conversation": null, "prompt": null, "background": false, "tools": null, "tool_choice": null, "instructions": null, "text": null });
    assert_eq!(Opened::new(&value).close(), value);
}

#[test]
fn texts_to_embed_are_read_and_written() {
    for (input, expected) in [
        (json!("a"), json!("A")),
        (json!(["a", "b"]), json!(["A", "B"])),
        (
            json!([{ "type": "text", "text": "a" }, { "type": "image_url", "image_url": { "url": "https://example.com" } }]),
            json!([{ "type": "text", "text": "A" }, { "type": "image_url", "image_url": { "url": "https://example.com" } }]),
        ),
    ] {
        let value = json!({ "model": "m", "input": input });
        let mut call = call_to("/v1/moderations");
        let body = parse(value.to_string().into()).unwrap();
        let dialect = crate::dialect::of(crate::dialect::Api::OpenAiResponses);
        let mut opened = dialect.open_request(&mut call, body).unwrap();
        let original = opened.original.clone().unwrap();
        let closed = dialect.close_request(&call, &original, &opened.form);
        assert_eq!(closed.unwrap(), value.to_string());
        crate::dialect::edit_request_texts(&call, &mut opened.form, &mut Upper).unwrap();
        let closed = dialect.close_request(&call, &original, &opened.form);
        let closed: Value = serde_json::from_slice(&closed.unwrap()).unwrap();
        assert_eq!(closed["input"], expected);
    }
}

#[test]
fn unknown_fields_of_texts_to_embed_are_edited() {
    let image = json!({ "type": "image_url", "image_url": { "url": "data:image/png,a" } });
    for input in [
        json!("A"),
        json!([{ "type": "text", "text": "A" }, "A"]),
        json!([image]),
    ] {
        let body = |text: &str| {
            let mut input = input.clone();
            if let Some(block) = input.get_mut(0) {
                block["note"] = json!(text);
                if let Some(image) = block.get_mut("image_url") {
                    image["note"] = json!(text);
                }
            }
            json!({ "model": "m", "encoding_format": "float", "input": input, "note": text })
        };
        let mut call = call_to("/v1/embeddings");
        let dialect = crate::dialect::of(crate::dialect::Api::OpenAiResponses);
        let parsed = parse(body("k").to_string().into()).unwrap();
        let mut opened = dialect.open_request(&mut call, parsed).unwrap();
        crate::dialect::edit_request_texts(&call, &mut opened.form, &mut Upper).unwrap();
        let closed = dialect.close_request(&call, opened.original.as_ref().unwrap(), &opened.form);
        let closed: Value = serde_json::from_slice(&closed.unwrap()).unwrap();
        assert_eq!(closed, body("K"));
    }
}

#[test]
fn tokens_to_embed_are_refused() {
    for input in [json!([1, 2]), json!([[1], [2]]), json!(5), json!(null)] {
        let body = json!({ "model": "m", "input": input });
        let body = parse(body.to_string().into()).unwrap();
        assert!(open_texts(&body).is_err(), "{input}");
    }
}

#[test]
fn only_a_moderation_may_name_no_model() {
    let open = |path: &str, model: Value| {
        let body = json!({ "model": model, "input": "a" });
        let body = parse(body.to_string().into()).unwrap();
        let dialect = crate::dialect::of(crate::dialect::Api::OpenAiResponses);
        let mut call = call_to(path);
        let opened = dialect.open_request(&mut call, body)?;
        dialect.close_request(&call, opened.original.as_ref().unwrap(), &opened.form)
    };
    let closed = open("/v1/moderations", Value::Null).unwrap();
    assert_eq!(closed, r#"{"model":null,"input":"a"}"#);
    assert!(open("/v1/moderations", json!("")).is_err());
    for path in ["/v1/embeddings", "/v1/responses"] {
        assert!(open(path, Value::Null).is_err(), "{path}");
    }
}

#[test]
fn an_error_about_texts_names_their_field() {
    for field in ["prompt", "input"] {
        let body = json!({ "model": "m", field: [1, 2] });
        let body = parse(body.to_string().into()).unwrap();
        let error = open_texts(&body).unwrap_err().to_string();
        assert!(error.contains(&format!("`{field}`")), "{error}");
    }
}

#[test]
fn reasoning_that_was_cut_off_is_removed_unless_it_is_stored() {
    let cut = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "status": "incomplete" });
    let mut kept = cut.clone();
    kept["encrypted_content"] = "gAAA".into();
    // A server with open reasoning reads its texts.
    let mut open = cut.clone();
    open["content"] = json!([{ "type": "reasoning_text", "text": "Let me" }]);
    let text = json!({ "role": "assistant", "content": "denied" });
    for (store, expected) in [
        (json!(false), json!([kept, open, text])),
        (json!(true), json!([kept, cut, open, text])),
        (Value::Null, json!([kept, cut, open, text])),
    ] {
        let input = json!([kept, cut, open, text]);
        let request = json!({ "model": "gpt-x", "input": input, "store": store });
        assert_eq!(Opened::new(&request).close()["input"], expected, "{store}");
    }
}
