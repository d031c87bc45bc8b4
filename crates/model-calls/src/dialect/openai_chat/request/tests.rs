mod properties;

use serde_json::json;

use super::*;
use crate::{
    dialect::{
        RequestLine, TextEditor, TextKind, edit_request_texts,
        method::{Framing, Operation},
        openai_chat::fields::parse,
        recognize_call,
        tests::set_fields,
        withhold_tools,
    },
    model::ModelName,
};

pub fn open(body: &str) -> Result<(Call, OpenedRequest)> {
    let line = RequestLine {
        method: &http::Method::POST,
        path: "/v1/chat/completions",
        query: "",
        api: None,
    };
    let mut call = recognize_call(line).unwrap().unwrap().call.unwrap();
    let body = parse(body.to_owned().into())?;
    let opened = open_request(&mut call, body)?;
    Ok((call, opened))
}

/// Returns the body for upstream.
pub fn close(call: &Call, opened: &OpenedRequest, document: &Document) -> Bytes {
    close_request(call, opened.original.as_ref().unwrap(), document).unwrap()
}

/// Edits a request by `edit` and compares what is sent upstream.
#[track_caller]
fn check_call(body: &str, edit: impl FnOnce(&mut Call, &mut Document), expected: &str) {
    let (mut call, opened) = open(body).unwrap();
    let mut document = opened.form;
    edit(&mut call, &mut document);
    let closed = close_request(&call, opened.original.as_ref().unwrap(), &document).unwrap();
    assert_eq!(closed, expected);
}

#[track_caller]
fn check(body: &str, edit: impl FnOnce(&mut Document), expected: &str) {
    let edit = |_: &mut Call, document: &mut Document| edit(document);
    check_call(body, edit, expected);
}

#[track_caller]
fn refused(body: &str) -> String {
    let opened = open(body);
    opened.unwrap_err().to_string()
}

fn content_form(body: &str) -> Value {
    let (_, opened) = open(body).unwrap();
    serde_json::from_slice(&opened.form.to_bytes()).unwrap()
}

/// Replaces a field of the content form.
fn set(field: &'static str, value: Value) -> impl FnOnce(&mut Document) {
    move |document| document.set(&[field], &value).unwrap()
}

/// Hides the results of all tools.
fn hide(document: &mut Document) {
    let mut form: Value = serde_json::from_str(&document.to_text()).unwrap();
    for content in form["contents"].as_array_mut().unwrap() {
        for part in content["parts"].as_array_mut().unwrap() {
            if let Some(response) = part.pointer_mut("/functionResponse/response") {
                *response = json!({ "error": "hidden" });
            }
        }
    }
    set_fields(document, &form);
}

/// Puts `*` for every `ss`.
struct Stars;

impl TextEditor for Stars {
    fn edit_joined(&mut self, kind: TextKind, texts: &mut [String]) -> bool {
        let mut is_edited = false;
        for text in texts {
            if let Some(new) = self.edit(kind, text) {
                *text = new;
                is_edited = true;
            }
        }
        is_edited
    }

    fn edit(&mut self, _kind: TextKind, text: &str) -> Option<String> {
        text.contains("ss").then(|| text.replace("ss", "*"))
    }
}

const HISTORY: &str = r#"{ "model": "m", "messages": [
 {"role":"developer","content":"be brief"},
 {"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},
 {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{ \"path\":\"a\", \"n\":1.0 }"}}]},
 {"role":"tool","tool_call_id":"c1","content":"alpha"},
 {"role":"system","content":"late"}
] , "temperature": 1.0, "max_tokens": 5, "stop": "x", "stream": true}"#;

#[test]
fn a_conversation_has_the_content_form() {
    let form = content_form(HISTORY);
    let expected = json!({
        "systemInstruction": { "parts": [
            { "text": "be brief", "hookgateSource": 0 },
            { "text": "late", "hookgateSource": 1 },
        ]},
        "contents": [
            { "role": "user", "parts": [
                { "text": "look", "hookgateSource": 0 },
                { "inlineData": { "mimeType": "image/png", "data": "AAAA" }, "hookgateSource": 1 },
            ], "hookgateSource": 1 },
            { "role": "model", "parts": [
                { "functionCall": { "id": "c1", "name": "read", "args": { "path": "a", "n": 1.0 } }, "hookgateSource": 0 },
            ], "hookgateSource": 2 },
            { "role": "user", "parts": [
                { "functionResponse": { "name": "read", "response": { "output": "alpha" }, "id": "c1" }, "hookgateSource": 0 },
            ], "hookgateSource": 3 },
        ],
        "generationConfig": { "temperature": 1.0, "maxOutputTokens": 5, "stopSequences": ["x"] },
    });
    assert_eq!(
        form.to_string().len(),
        expected.to_string().len(),
        "{form:#}"
    );
    for key in ["systemInstruction", "contents", "generationConfig"] {
        assert_eq!(form[key].to_string(), expected[key].to_string());
    }
}

#[test]
fn a_request_asks_for_a_stream_in_its_body() {
    let (call, _) = open(HISTORY).unwrap();
    assert_eq!(call.operation, Operation::Stream(Framing::Sse));
    let (call, _) = open(r#"{"model":"m","stream":false}"#).unwrap();
    assert_eq!(call.operation, Operation::Generate);
}

#[test]
fn an_unedited_request_keeps_its_bytes() {
    check(HISTORY, |_| (), HISTORY);
    // A document that was rebuilt without a change is unedited, too.
    check(
        HISTORY,
        |document| {
            let contents = document.children(&["contents"]).unwrap().unwrap();
            document.set_children(&["contents"], &contents).unwrap();
        },
        HISTORY,
    );
}

#[test]
fn texts_are_edited_where_they_are() {
    let body = r#"{"model":"m","messages":[{"role":"system","content":"ss"},{"role":"user","content":[{"type":"text","text":"ss","cache_control":{"type":"ephemeral"}},{"type":"new","text":"ss","more":"ss"}],"name":"ss"},{"role":"assistant","content":"ss","reasoning_content":"ss","refusal":"ss","tool_calls":[{"id":"ss","type":"function","function":{"name":"ss","arguments":"{\"a\": \"ss\"}"}},{"id":"c","type":"custom","custom":{"name":"ss","input":"ss"}}]},{"role":"tool","tool_call_id":"ss","content":"ss"}],"user":"ss","prediction":{"type":"content","content":"ss"}}"#;
    let expected = r#"{"model":"m","messages":[{"role":"system","content":"*"},{"role":"user","content":[{"type":"text","text":"*","cache_control":{"type":"ephemeral"}},{"type":"new","text":"*","more":"*"}],"name":"ss"},{"role":"assistant","content":"*","reasoning_content":"ss","refusal":"*","tool_calls":[{"id":"ss","type":"function","function":{"name":"ss","arguments":"{\"a\":\"*\"}"}},{"id":"c","type":"custom","custom":{"name":"ss","input":"*"}}]},{"role":"tool","tool_call_id":"ss","content":"*"}],"user":"*","prediction":{"type":"content","content":"*"}}"#;
    let edit = |call: &mut Call, document: &mut Document| {
        edit_request_texts(call, document, &mut Stars).unwrap();
    };
    check_call(body, edit, expected);
}

#[test]
fn unknown_fields_of_messages_blocks_and_calls_are_edited() {
    let body = |text: &str| {
        let system = format!(r#"{{"role":"system","content":"a","x":"{text}"}}"#);
        let user = format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"a","x":"{text}"}},{{"type":"image_url","image_url":{{"url":"ss","x":"{text}"}},"x":"{text}"}},{{"type":"file","file":{{"file_data":"ss","filename":"ss","x":"{text}"}}}},{{"type":"input_audio","input_audio":{{"data":"ss","format":"wav","x":"{text}"}}}}],"name":"ss","x":{{"y":["{text}"]}}}}"#
        );
        let call = format!(
            r#"{{"id":"1","type":"function","function":{{"name":"f","arguments":"","x":"{text}","provider_specific_fields":{{"thought_signature":"ss","x":"{text}"}}}},"x":"{text}","extra_content":{{"google":{{"thought_signature":"ss","x":"{text}"}}}}}}"#
        );
        let assistant = format!(
            r#"{{"role":"assistant","id":"ss","content":null,"x":"{text}","audio":{{"id":null,"data":"ss","x":"{text}"}},"thinking_blocks":[{{"thinking":"ss","signature":"ss"}}],"reasoning_opaque":"ss","images":[{{"image_url":{{"url":"ss"}}}}],"reasoning":"ss","reasoning_details":[{{"type":"reasoning.text","text":"ss","data":"ss","signature":"ss","x":"{text}"}}],"tool_calls":[{call}]}}"#
        );
        let tool = format!(
            r#"{{"role":"tool","tool_call_id":"1","content":[{{"type":"text","text":"a","x":"{text}"}}],"x":"{text}"}}"#
        );
        format!(r#"{{"model":"m","messages":[{system},{user},{assistant},{tool}]}}"#)
    };
    let edit = |call: &mut Call, document: &mut Document| {
        edit_request_texts(call, document, &mut Stars).unwrap();
    };
    let edited = |body: &str| -> Value {
        let (mut call, mut opened) = open(body).unwrap();
        edit(&mut call, &mut opened.form);
        serde_json::from_slice(&close(&call, &opened, &opened.form)).unwrap()
    };
    assert_eq!(
        edited(&body("ss")),
        serde_json::from_str::<Value>(&body("*")).unwrap()
    );
    check_call(&body("a"), edit, &body("a"));
}

#[test]
fn a_sound_that_is_stored_upstream_is_refused() {
    let body = |audio: &str| {
        format!(r#"{{"model":"m","messages":[{{"role":"assistant","audio":{audio}}}]}}"#)
    };
    assert!(refused(&body(r#"{"id":"audio_1"}"#)).starts_with("`audio.id` must be absent"));
    assert!(open(&body("null")).is_ok());
    assert!(open(&body(r#"{"id":null,"data":"AAAA"}"#)).is_ok());
}

#[test]
fn unknown_fields_of_a_hidden_result_go() {
    check(
        r#"{"model":"m","messages":[{"role":"tool","tool_call_id":"1","x":"secret","y":4711,"cache_control":{},"content":[{"type":"text","text":"xy","x":"secret"}]},{"role":"user","content":"a","x":"b"}]}"#,
        hide,
        r#"{"model":"m","messages":[{"role":"tool","tool_call_id":"1","cache_control":{},"content":[{"type":"text","text":"hidden"}]},{"role":"user","content":"a","x":"b"}]}"#,
    );
}

#[test]
fn new_texts_join_a_content_that_is_a_string() {
    check(
        r#"{"model":"m","messages":[{"role":"user","content":"a"}]}"#,
        set(
            "contents",
            json!([{ "role": "user", "parts": [
                { "text": "front" }, { "text": "a", "hookgateSource": 0 }, { "text": "end" },
            ], "hookgateSource": 0 }]),
        ),
        r#"{"model":"m","messages":[{"role":"user","content":"front\n\na\n\nend"}]}"#,
    );
    check(
        r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}"#,
        set(
            "contents",
            json!([{ "role": "user", "parts": [
                { "text": "a", "hookgateSource": 0 }, { "text": "end" },
            ], "hookgateSource": 0 }]),
        ),
        r#"{"model":"m","messages":[{"role":"user","content":[{"text":"a","type":"text"},{"type":"text","text":"end"}]}]}"#
            .replace(r#"{"text":"a","type":"text"}"#, r#"{"type":"text","text":"a"}"#)
            .as_str(),
    );
}

#[test]
fn a_text_behind_a_result_follows_all_results_of_the_step() {
    let body = r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":""}},{"id":"2","function":{"name":"g","arguments":""}}]},{"role":"tool","tool_call_id":"1","content":"x"},{"role":"tool","tool_call_id":"2","content":"y"}]}"#;
    let expected = r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":""}},{"id":"2","function":{"name":"g","arguments":""}}]},{"role":"tool","tool_call_id":"1","content":"x"},{"role":"tool","tool_call_id":"2","content":"y"},{"role":"user","content":"note"}]}"#;
    let edit = |document: &mut Document| {
        let mut contents = document.children(&["contents"]).unwrap().unwrap();
        let parts = contents[1].children(&["parts"]).unwrap().unwrap();
        let note = Document::from_checked(Bytes::from_static(b"{\"text\":\"note\"}")).unwrap();
        contents[1]
            .set_children(&["parts"], parts.iter().chain([&note]))
            .unwrap();
        document.set_children(&["contents"], &contents).unwrap();
    };
    check(body, edit, expected);
}

#[test]
fn a_denied_step_is_appended_as_messages() {
    check(
        r#"{"model":"m","messages":[{"role":"user","content":"a"}]}"#,
        set(
            "contents",
            json!([
                { "role": "user", "parts": [{ "text": "a", "hookgateSource": 0 }], "hookgateSource": 0 },
                { "role": "model", "parts": [
                    { "text": "I will" },
                    { "functionCall": { "id": "c", "name": "rm", "args": { "p": 1 } }, "hookgateSource": 1,
                      "hookgatePreceding": { "message": { "reasoning_content": "hm" }, "call": { "extra_content": "sig" } } },
                ]},
                { "role": "user", "parts": [
                    { "functionResponse": { "id": "c", "name": "rm", "response": { "error": "no" } } },
                ]},
            ]),
        ),
        r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"I will","reasoning_content":"hm","tool_calls":[{"id":"c","type":"function","function":{"name":"rm","arguments":"{\"p\":1}"},"extra_content":"sig"}]},{"role":"tool","tool_call_id":"c","content":"no"}]}"#,
    );
}

#[test]
fn removed_parts_remove_what_they_were_read_from() {
    let body = r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}},{"id":"2","function":{"name":"g","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}]}"#;
    check(
        body,
        |document| {
            let mut contents = document.children(&["contents"]).unwrap().unwrap();
            let parts = contents[1].children(&["parts"]).unwrap().unwrap();
            contents[1].set_children(&["parts"], &parts[2..]).unwrap();
            document
                .set_children(&["contents"], &contents[1..2])
                .unwrap();
            document.remove(&["systemInstruction"]).unwrap();
        },
        r#"{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"2","function":{"name":"g","arguments":"{}"}}]}]}"#,
    );
}

#[test]
fn system_texts_are_replaced_and_added_behind_the_first_ones() {
    let body = r#"{"model":"m","messages":[{"role":"developer","content":"a"},{"role":"user","content":"u"},{"role":"system","content":[{"type":"text","text":"b"}]}]}"#;
    check(
        body,
        set(
            "systemInstruction",
            json!({ "parts": [{ "text": "A", "hookgateSource": 0 }, { "text": "new" }] }),
        ),
        r#"{"model":"m","messages":[{"role":"developer","content":"A"},{"role":"developer","content":"new"},{"role":"user","content":"u"}]}"#,
    );
    check(
        r#"{"model":"m","messages":[{"role":"user","content":"u"}]}"#,
        set("systemInstruction", json!({ "parts": [{ "text": "new" }] })),
        r#"{"model":"m","messages":[{"role":"system","content":"new"},{"role":"user","content":"u"}]}"#,
    );
}

#[test]
fn an_edited_result_keeps_its_form() {
    let body = |content: &str| {
        format!(
            r#"{{"model":"m","messages":[{{"role":"assistant","tool_calls":[{{"id":"1","function":{{"name":"f","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"1","content":{content}}}]}}"#
        )
    };
    check(&body(r#""xy""#), hide, &body(r#""hidden""#));
    check(
        &body(r#"[{"type":"text","text":"x","cache_control":{}},{"type":"text","text":"y"}]"#),
        hide,
        &body(r#"[{"type":"text","text":"hidden","cache_control":{}}]"#),
    );
}

#[test]
fn media_of_a_result_are_opaque_and_go_with_a_hidden_one() {
    let body = |content: &str| {
        format!(
            r#"{{"model":"m","messages":[{{"role":"tool","tool_call_id":"1","name":"f","content":{content}}}]}}"#
        )
    };
    let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,ss"}}"#;
    let content = body(&format!(
        r#"[{image},{{"type":"text","text":"ss"}},{{"type":"new","x":"ss"}}]"#
    ));
    check_call(
        &content,
        |call, document| edit_request_texts(call, document, &mut Stars).unwrap(),
        &body(&format!(
            r#"[{image},{{"type":"text","text":"*"}},{{"type":"new","x":"*"}}]"#
        )),
    );
    check(
        &body(&format!(r#"[{image},{{"type":"text","text":"xy"}}]"#)),
        hide,
        &body(r#"[{"type":"text","text":"hidden"}]"#),
    );
}

const TOOLS: &str = r#"{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"a","description":"d","parameters":{"type":"object"}}},{"type":"custom","custom":{"name":"b"}},{"type":"mcp","server_label":"s"}],"web_search_options":{},"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"a"}},{"type":"custom","custom":{"name":"b"}}]}},"parallel_tool_calls":false}"#;

#[test]
fn tools_have_the_content_form() {
    let form = content_form(TOOLS);
    assert_eq!(
        form["tools"].to_string(),
        r#"[{"functionDeclarations":[{"name":"a","description":"d","parametersJsonSchema":{"type":"object"},"hookgateSource":0}],"hookgateSource":0},{"functionDeclarations":[{"name":"b","hookgateSource":1}],"hookgateSource":1},{"mcp:s":{},"hookgateSource":2},{"web_search":{},"hookgateSource":3}]"#
    );
    assert_eq!(
        form["toolConfig"].to_string(),
        r#"{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["a","b"]}}"#
    );
}

#[test]
fn withheld_tools_are_removed_and_the_choice_follows() {
    let withhold = |kept: &'static [&'static str]| {
        move |call: &mut Call, document: &mut Document| {
            withhold_tools(call, document, &|tool| kept.contains(&&*tool.name)).unwrap();
        }
    };
    check_call(
        TOOLS,
        withhold(&["b"]),
        r#"{"model":"m","messages":[],"tools":[{"type":"custom","custom":{"name":"b"}}],"tool_choice":{"type":"custom","custom":{"name":"b"}},"parallel_tool_calls":false}"#,
    );
    check_call(TOOLS, withhold(&[]), r#"{"model":"m","messages":[]}"#);
    check_call(
        r#"{"model":"m","messages":[],"functions":[{"name":"a"},{"name":"b"}],"function_call":{"name":"a"}}"#,
        withhold(&["b"]),
        r#"{"model":"m","messages":[],"functions":[{"name":"b"}],"function_call":"none"}"#,
    );
}

#[test]
fn a_selection_of_tools_is_written_as_a_tool_choice() {
    let body = |choice: &str| {
        format!(
            r#"{{"model":"m","messages":[],"tools":[{{"type":"function","function":{{"name":"a"}}}},{{"type":"function","function":{{"name":"b"}}}}],"tool_choice":{choice}}}"#
        )
    };
    for (mode, names, expected) in [
        ("NONE", json!([]), r#""none""#),
        ("ANY", json!([]), r#""required""#),
        (
            "ANY",
            json!(["a"]),
            r#"{"type":"function","function":{"name":"a"}}"#,
        ),
        (
            "ANY",
            json!(["a", "b"]),
            r#"{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}]}}"#,
        ),
    ] {
        let calling = json!({ "mode": mode, "allowedFunctionNames": names });
        let config = json!({ "functionCallingConfig": calling });
        check(
            &body(r#""auto""#),
            set("toolConfig", config),
            &body(expected),
        );
    }
}

#[test]
fn parameters_are_written_under_the_names_of_the_request() {
    let config = json!({
        "temperature": 0.5, "maxOutputTokens": 7, "stopSequences": ["y"], "topK": 3,
        "presencePenalty": 1,
    });
    check(
        r#"{"model":"m","messages":[],"temperature":1.0,"max_tokens":5,"stop":"x","n":2}"#,
        set("generationConfig", config.clone()),
        r#"{"model":"m","messages":[],"temperature":0.5,"max_tokens":7,"stop":"y","presence_penalty":1}"#,
    );
    check(
        r#"{"model":"m","messages":[],"top_k":1,"stop":["x"]}"#,
        set("generationConfig", config),
        r#"{"model":"m","messages":[],"top_k":3,"stop":["y"],"temperature":0.5,"presence_penalty":1,"max_completion_tokens":7}"#,
    );
}

#[test]
fn a_response_format_is_read() {
    let form = content_form(r#"{"model":"m","response_format":{"type":"json_schema"}}"#);
    let config = &form["generationConfig"];
    assert_eq!(config["responseMimeType"], "application/json");
    let form = content_form(r#"{"model":"m","response_format":{"type":"text"}}"#);
    assert_eq!(form["generationConfig"], Value::Null);
}

#[test]
fn another_model_is_written() {
    check_call(
        r#"{"model": "qwen/qwen3-coder", "messages": []}"#,
        |call, _| call.model = ModelName::parse("openai/gpt-5"),
        r#"{"model": "openai/gpt-5", "messages": []}"#,
    );
}

#[test]
fn other_models_that_may_answer_are_seen() {
    let form = content_form(r#"{"model":"m","models":["a/b"],"fallbacks":["c"]}"#);
    assert_eq!(form["fallbackModels"], json!(["c", "a/b"]));

    let form = content_form(
        r#"{"model":"m","context_window_fallbacks":[{"m":["d","e"]}],"content_policy_fallbacks":["f"]}"#,
    );
    let expected = json!(["f", "d", "e"]);
    assert_eq!(form["fallbackModels"], expected);
}

#[test]
fn requests_that_hooks_cannot_read_are_refused() {
    for body in [
        r#"{"model":"m","prompt":"x"}"#,
        r#"{"model":"m","messages":[],"previous_response_id":"x"}"#,
        r#"{"model":"m","messages":[],"models":[{"name":"other"}]}"#,
        r#"{"model":"m","messages":[],"fallbacks":"other"}"#,
        r#"{"model":"m","messages":[],"context_window_fallbacks":[{"m":"other"}]}"#,
        r#"{"model":"m","messages":[],"preset":"other"}"#,
        r#"{"model":"m","messages":[],"prompt_id":"other"}"#,
        r#"{"model":"m","messages":[],"modalities":["text","audio"]}"#,
        r#"{"model":"m","messages":[],"stream":"true"}"#,
        r#"{"model":"m","messages":[],"max_tokens":1,"max_completion_tokens":1}"#,
        r#"{"model":"m","messages":[],"tools":[],"functions":[]}"#,
        r#"{"model":"m","messages":[],"tool_choice":"auto","function_call":"auto"}"#,
        r#"{"model":"m","messages":[],"tool_choice":"sometimes"}"#,
        r#"{"model":"m","messages":[],"maxTokens":1}"#,
        r#"{"model":"m","Messages":[]}"#,
        r#"{"model":"m","messages":[],"messages":[]}"#,
        r#"{"model":"m","messages":[{"role":"owner","content":"x"}]}"#,
        r#"{"model":"m","messages":[{"content":"x"}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":{"text":"x"}}]}"#,
        r#"{"model":"m","messages":[{"role":"user","Content":"x"}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]}"#,
        r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[],"function_call":{"name":"f","arguments":""}}]}"#,
        r#"{"model":"m","messages":[],"tools":[{"type":"function"}]}"#,
        r#"{"model":"m","messages":[],"tools":[{"type":"mcp","function":{"name":"f"}}]}"#,
        r#"{"model":"m","messages":[],"tools":[{"type":"functionDeclarations"}]}"#,
        r#"{"messages":[]}"#,
        r#"{"model":"a b","messages":[]}"#,
    ] {
        let error = refused(body);
        assert!(!error.is_empty(), "{body}");
    }
}

#[test]
fn a_stored_prompt_is_refused_by_the_name_of_its_field() {
    for field in ["preset", "prompt_id"] {
        let error = refused(&format!(r#"{{"model":"m","messages":[],"{field}":"x"}}"#));
        assert!(error.starts_with(&format!("`{field}` must")), "{error}");
    }
}

#[test]
fn arguments_that_are_no_object_stay_a_text() {
    let args = |arguments: &str| {
        let arguments = Value::from(arguments);
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"assistant","tool_calls":[{{"id":"1","function":{{"name":"f","arguments":{arguments}}}}}]}}]}}"#
        );
        content_form(&body)["contents"][0]["parts"][0]["functionCall"]["args"].clone()
    };
    assert_eq!(args(""), Value::Null);
    assert_eq!(args(r#"{"a":1}"#), json!({ "a": 1 }));
    for text in ["{", "[1]", r#"{"a":1,"a":2}"#] {
        assert_eq!(args(text), text);
    }
}
