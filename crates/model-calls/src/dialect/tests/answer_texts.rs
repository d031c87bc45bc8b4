//! Laws of every text in an answer, whole, as a stream, and as a stream that is held: it reaches
//! the agent only if editors have seen it, and masked if they mask it. What they do not edit
//! keeps its bytes.

use std::fmt::Write;

use serde_json::{Value, json};

use super::recording_editor::RecordingEditor;
use crate::dialect::{self, Api, DialectError, Framing, ResponseDocument, TextRest, WriteChunks};

/// Text that is planted.
const MARK: &str = "QZMARKZQ";

/// Fields with ids, names, enumerations, signatures, padding and media, and what the Responses
/// API repeats of the request. Their texts are not inspected.
const OPAQUE: &[&str] = &[
    "call_id",
    "data",
    "encrypted_content",
    "encrypted_index",
    "finish_reason",
    "id",
    "instructions",
    "item_id",
    "metadata",
    "model",
    "name",
    "object",
    "obfuscation",
    "reason",
    "role",
    "service_tier",
    "severity",
    "signature",
    "status",
    "stop_reason",
    "thought_signature",
    "tool_use_id",
    "tools",
    "type",
];

const RESPONSES_BODY: &str = r#"{"id":"r","object":"response","status":"completed","model":"m","instructions":"i","metadata":{"k":"v"},"tools":[{"type":"function","name":"f"}],"error":null,"incomplete_details":{"reason":"r"},"service_tier":"auto","output":[{"type":"reasoning","id":"rs","encrypted_content":"e","summary":[{"type":"summary_text","text":"a"}],"content":[{"type":"reasoning_text","text":"b"}]},{"type":"message","id":"ms","status":"completed","role":"assistant","summary":[{"type":"summary_text","text":"s"}],"content":[{"type":"output_text","text":"c","annotations":[{"type":"url_citation","title":"t","url":"u","start_index":0,"end_index":1},{"type":"file_citation","filename":"n"}]},{"type":"refusal","refusal":"d"}]},{"type":"function_call","id":"fc","status":"completed","call_id":"c","name":"f","arguments":"{\"a\":\"b\"}"},{"type":"web_search_call","id":"ws","status":"completed","action":{"type":"search","query":"q"}}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}"#;

const CHAT_BODY: &str = r#"{"id":"c","object":"chat.completion","model":"m","citations":["u"],"choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null,"reasoning_content":"h","annotations":[{"type":"url_citation","url_citation":{"title":"t","url":"u"}}],"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":\"b\"}"},"extra_content":{"google":{"thought_signature":"s"}}}]},"finish_reason":"tool_calls","content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}},{"index":1,"message":{"role":"assistant","content":[{"type":"text","text":"b"},{"type":"other","value":"v"}],"reasoning_details":[{"type":"reasoning.text","text":"k","id":"i","signature":"s"}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;

const ANTHROPIC_BODY: &str = r#"{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"h","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"a","citations":[{"type":"web_search_result_location","cited_text":"c","title":"t","url":"u"}]},{"type":"server_tool_use","id":"st","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"st","content":[{"type":"web_search_result","title":"t","url":"u"}]},{"type":"tool_use","id":"t","name":"f","input":{"a":"b"},"caller":{"type":"direct"}}],"stop_reason":"tool_use","stop_sequence":"z","container":{"id":"co"},"usage":{"input_tokens":1,"output_tokens":1,"service_tier":"standard"}}"#;

const RESPONSES_STREAM: &str = r#"
{"type":"response.created","response":{"id":"r","status":"in_progress","model":"m","instructions":"i","metadata":{"k":"v"},"output":[]}}
{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs","summary":[]}}
{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}
{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"a"}
{"type":"response.reasoning_summary_text.done","output_index":0,"summary_index":0,"text":"a"}
{"type":"response.reasoning_summary_part.done","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"a"}}
{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"a"}]}}
{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"ms","role":"assistant","content":[]}}
{"type":"response.content_part.added","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}
{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"b","obfuscation":"x"}
{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"c"}
{"type":"response.output_text.annotation.added","output_index":1,"content_index":0,"annotation":{"type":"url_citation","title":"t","url":"u"}}
{"type":"response.output_text.done","output_index":1,"content_index":0,"text":"bc"}
{"type":"response.content_part.done","output_index":1,"content_index":0,"part":{"type":"output_text","text":"bc","annotations":[{"type":"url_citation","title":"t","url":"u"}]}}
{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"ms","role":"assistant","content":[{"type":"output_text","text":"bc","annotations":[{"type":"url_citation","title":"t","url":"u"}]}]}}
{"type":"response.output_item.added","output_index":2,"item":{"type":"reasoning","id":"r2","summary":[],"encrypted_content":"e"}}
{"type":"response.output_item.done","output_index":2,"item":{"type":"reasoning","id":"r2","summary":[{"type":"summary_text","text":"d"}],"content":[{"type":"reasoning_text","text":"e"}],"encrypted_content":"e"}}
{"type":"response.output_item.added","output_index":3,"item":{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":""}}
{"type":"response.function_call_arguments.delta","output_index":3,"delta":"{\"a\":\"b\"}"}
{"type":"response.function_call_arguments.done","output_index":3,"arguments":"{\"a\":\"b\"}"}
{"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"{\"a\":\"b\"}"}}
{"type":"response.output_item.added","output_index":4,"item":{"type":"web_search_call","id":"ws","action":{"query":"q"}}}
{"type":"response.output_item.done","output_index":4,"item":{"type":"web_search_call","id":"ws","action":{"query":"q"}}}
{"type":"response.unknown","value":"v"}
{"type":"response.completed","response":{"id":"r","status":"completed","model":"m","instructions":"i","metadata":{"k":"v"},"error":null,"output":[{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"a"}]},{"type":"message","id":"ms","role":"assistant","content":[{"type":"output_text","text":"bc","annotations":[{"type":"url_citation","title":"t","url":"u"}]}]},{"type":"reasoning","id":"r2","summary":[{"type":"summary_text","text":"d"}],"content":[{"type":"reasoning_text","text":"e"}],"encrypted_content":"e"},{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"{\"a\":\"b\"}"},{"type":"web_search_call","id":"ws","action":{"query":"q"}}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}
"#;

const CHAT_STREAM: &str = r#"
{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{"reasoning_content":"a"},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"c","annotations":[{"type":"url_citation","url_citation":{"title":"t"}}]},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":\"b\"}"}}]},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}
{"id":"c","model":"m","choices":[],"citations":["u"],"usage":{"total_tokens":2}}
"#;

const ANTHROPIC_STREAM: &str = r#"
{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"usage":{"service_tier":"standard"}}}
{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
{"type":"ping"}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a"}}
{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"b"}}
{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"c"}}
{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"page_location","cited_text":"c","document_title":"t"}}}
{"type":"content_block_stop","index":1}
{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"st","name":"web_search","input":{}}}
{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"q\"}"}}
{"type":"content_block_stop","index":2}
{"type":"content_block_start","index":3,"content_block":{"type":"web_search_tool_result","tool_use_id":"st","content":[{"type":"web_search_result","title":"t"}]}}
{"type":"content_block_stop","index":3}
{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"t","name":"f","input":{},"caller":{"type":"direct"}}}
{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"a\":\"b\"}"}}
{"type":"content_block_stop","index":4}
{"type":"unknown","value":"v"}
{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":"z","container":{"id":"co"}},"usage":{"output_tokens":1}}
{"type":"message_stop"}
"#;

/// Form in which an answer is filtered: one body, or a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One body with the whole answer.
    Body,
    /// A stream, chunk by chunk.
    Stream,
    /// A stream that is held, and edited as one response.
    Held,
}

/// An answer of an API: the lines of a stream, or one body.
struct Sample {
    api: Api,
    form: Form,
    events: Vec<Value>,
}

fn samples() -> Vec<Sample> {
    let sample = |api, form, text: &str| {
        let lines = text.trim().lines();
        let events = lines.map(|line| serde_json::from_str(line).unwrap());
        Sample {
            api,
            form,
            events: events.collect(),
        }
    };
    vec![
        sample(Api::Anthropic, Form::Body, ANTHROPIC_BODY),
        sample(Api::Anthropic, Form::Stream, ANTHROPIC_STREAM),
        sample(Api::Anthropic, Form::Held, ANTHROPIC_STREAM),
        sample(Api::OpenAiChat, Form::Body, CHAT_BODY),
        sample(Api::OpenAiChat, Form::Stream, CHAT_STREAM),
        sample(Api::OpenAiChat, Form::Held, CHAT_STREAM),
        sample(Api::OpenAiResponses, Form::Body, RESPONSES_BODY),
        sample(Api::OpenAiResponses, Form::Stream, RESPONSES_STREAM),
        sample(Api::OpenAiResponses, Form::Held, RESPONSES_STREAM),
    ]
}

/// Filters an answer, and writes what the agent receives.
fn filter(
    sample: &Sample,
    editor: &mut RecordingEditor,
    writer: &mut dyn WriteChunks,
) -> Result<(), DialectError> {
    let dialect = dialect::of(sample.api);
    let mut reader = dialect.chunk_reader();
    let mut events = sample.events.iter().map(|event| event.to_string().into());
    match sample.form {
        Form::Body => {
            let mut answer = dialect.open_response(events.next().unwrap())?;
            answer.edit_texts(editor, TextRest::None)?;
            let body = dialect.close_response(&answer)?;
            writer.output().extend_from_slice(&body);
            return Ok(());
        }
        Form::Stream => {
            let mut pass = |chunk: Option<ResponseDocument>| {
                chunk.map_or(Ok(()), |mut chunk| {
                    chunk.edit_texts(editor, TextRest::MayFollow)?;
                    writer.write(&chunk)
                })
            };
            events.try_for_each(|event| pass(reader.read(event)?))?;
            pass(reader.finish()?)?;
        }
        Form::Held => {
            let chunks: Vec<_> = events.map(|event| reader.read(event)).collect();
            let chunks = chunks.into_iter().chain([reader.finish()]);
            let chunks: Vec<_> = chunks.collect::<Result<_, _>>()?;
            let mut whole = ResponseDocument::merge(chunks.into_iter().flatten().collect())?;
            whole.edit_texts(editor, TextRest::None)?;
            writer.write(&whole)?;
        }
    }
    writer.write_end()
}

/// Returns the data that the agent receives, and whether it received all of the answer.
fn filtered(sample: &Sample, editor: &mut RecordingEditor) -> (String, bool) {
    let mut writer = dialect::of(sample.api).chunk_writer(Framing::Sse);
    let is_complete = filter(sample, editor, writer.as_mut()).is_ok();
    let text = String::from_utf8(writer.output().to_vec()).unwrap();
    if sample.form == Form::Body {
        return (text, is_complete);
    }
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let data = data.filter(|data| *data != "[DONE]");
    (data.collect::<Vec<_>>().join("\n"), is_complete)
}

/// Returns the pointers of all objects, and those of all texts.
fn places(value: &Value, pointer: &str, objects: &mut Vec<String>, texts: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            objects.push(pointer.to_owned());
            for (key, value) in fields {
                if !OPAQUE.contains(&key.as_str()) {
                    places(value, &format!("{pointer}/{key}"), objects, texts);
                }
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                places(value, &format!("{pointer}/{index}"), objects, texts);
            }
        }
        Value::String(_) => texts.push(pointer.to_owned()),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// Returns what leaks of a sample.
fn leak(sample: &Sample, place: &str) -> Option<String> {
    let mut editor = RecordingEditor::default();
    let (sent, _) = filtered(sample, &mut editor);
    let is_seen = editor.seen.contains(MARK);
    if sent.contains(MARK) && !is_seen {
        return Some(format!(
            "unseen: {:?} {:?} {place}",
            sample.api, sample.form
        ));
    }
    let mut editor =
        RecordingEditor::masking(|text| text.contains(MARK).then(|| text.replace(MARK, "[m]")));
    let (sent, _) = filtered(sample, &mut editor);
    sent.contains(MARK)
        .then(|| format!("unmasked: {:?} {:?} {place}", sample.api, sample.form))
}

fn planted(sample: &Sample, number: usize, plant: impl FnOnce(&mut Value)) -> Sample {
    let mut events = sample.events.clone();
    plant(&mut events[number]);
    Sample { events, ..*sample }
}

/// Plants a field in the object at a pointer.
fn with_field(sample: &Sample, number: usize, pointer: &str, key: &str, value: Value) -> Sample {
    planted(sample, number, |event| {
        let object = event.pointer_mut(pointer).unwrap();
        object
            .as_object_mut()
            .unwrap()
            .insert(key.to_owned(), value);
    })
}

#[track_caller]
fn check(leaks: &[String]) {
    let mut list = String::new();
    for leak in leaks {
        writeln!(list, "{leak}").unwrap();
    }
    assert!(leaks.is_empty(), "{list}");
}

#[test]
fn answers_that_are_not_edited_keep_their_bytes() {
    for sample in samples() {
        let (sent, is_complete) = filtered(&sample, &mut RecordingEditor::default());
        assert!(is_complete, "{:?} {:?}", sample.api, sample.form);
        // Of one that is held, the events of the model pass instead.
        if sample.form == Form::Held {
            continue;
        }
        let events: Vec<String> = sample.events.iter().map(Value::to_string).collect();
        assert_eq!(sent, events.join("\n"), "{:?}", sample.api);
    }
}

#[test]
fn unknown_fields_of_every_object_are_seen_and_masked() {
    let values = [
        json!(MARK),
        json!({ "deep": [MARK] }),
        json!([{ "type": "text", "text": MARK }]),
        json!({ MARK: "key" }),
    ];
    let mut leaks = Vec::new();
    for sample in samples() {
        for (number, event) in sample.events.iter().enumerate() {
            let (mut objects, mut texts) = (Vec::new(), Vec::new());
            places(event, "", &mut objects, &mut texts);
            for pointer in objects {
                for value in &values {
                    let planted = with_field(&sample, number, &pointer, "unknown", value.clone());
                    let place = format!("{number} {pointer} {value}");
                    leaks.extend(leak(&planted, &place));
                }
            }
        }
    }
    check(&leaks);
}

#[test]
fn every_text_is_seen_and_masked() {
    let mut leaks = Vec::new();
    for sample in samples() {
        for (number, event) in sample.events.iter().enumerate() {
            let (mut objects, mut texts) = (Vec::new(), Vec::new());
            places(event, "", &mut objects, &mut texts);
            for pointer in texts {
                let planted = planted(&sample, number, |event| {
                    let text = event.pointer_mut(&pointer).unwrap();
                    let quoted = text.as_str().unwrap();
                    *text = json!(quoted.replacen(char::is_alphanumeric, MARK, 1));
                });
                leaks.extend(leak(&planted, &format!("{number} {pointer}")));
            }
        }
    }
    check(&leaks);
}

/// Tokens that spell a text in pieces, which no policy could find.
fn tokens() -> Value {
    json!([{ "token": MARK, "logprob": -1, "top_logprobs": [{ "token": MARK }] }])
}

#[test]
fn tokens_are_removed_by_policies_on_texts() {
    let mut leaks = Vec::new();
    for sample in samples() {
        for (number, event) in sample.events.iter().enumerate() {
            let (mut objects, mut texts) = (Vec::new(), Vec::new());
            places(event, "", &mut objects, &mut texts);
            for pointer in objects {
                for value in [tokens(), json!({ "content": tokens() })] {
                    let planted = with_field(&sample, number, &pointer, "logprobs", value);
                    leaks.extend(leak(&planted, &format!("{number} {pointer} logprobs")));
                }
            }
        }
    }
    check(&leaks);
}
