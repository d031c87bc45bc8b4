//! Laws of malformed streams of every API: no text of an event reaches the agent that editors
//! have not seen, and none that they have replaced.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*, sample::Index};
use serde_json::{Value, json};

use super::recording_editor::RecordingEditor;
use crate::dialect::{self, Api, Framing, ResponseDocument, TextRest};

/// A change of a stream, with the places and values that it chooses.
#[derive(Debug, Clone)]
struct Mutation {
    kind: usize,
    event: Index,
    place: Index,
    value: Index,
}

/// Types that events of a mutated stream may get, beside those that it has.
const TYPES: &[&str] = &[
    "error",
    "ping",
    "response.created",
    "response.completed",
    "response.failed",
    "response.in_progress",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.annotation.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.function_call_arguments.delta",
    "response.code_interpreter_call_code.delta",
    "response.unknown",
    "response.unknown.delta",
    "message",
    "function_call",
    "reasoning",
    "text_delta",
];

/// Fields that get a text.
const FIELDS: &[&str] = &[
    "arguments",
    "content",
    "delta",
    "error",
    "input",
    "item",
    "output_text",
    "part",
    "partial_json",
    "reasoning",
    "reasoning_content",
    "refusal",
    "text",
    "thinking",
    "transcript",
    "unknown",
];

/// Objects of an event that get fields, by the keys that lead to them.
const OBJECTS: &[&str] = &[
    "item",
    "part",
    "delta",
    "content_block",
    "choices",
    "content",
    "summary",
];

const NUMBERS: &[&str] = &["output_index", "content_index", "summary_index", "index"];

/// A stream of the Responses API: reasoning, a text, a call and a search. Texts are marked.
const RESPONSES: &str = r#"
{"type":"response.created","response":{"id":"r","status":"in_progress","model":"m","output":[]}}
{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs","summary":[]}}
{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}
{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Q1Z"}
{"type":"response.reasoning_summary_text.done","output_index":0,"summary_index":0,"text":"Q1Z"}
{"type":"response.reasoning_summary_part.done","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"Q1Z"}}
{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"Q1Z"}]}}
{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"ms","role":"assistant","content":[]}}
{"type":"response.content_part.added","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}
{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Q3Z"}
{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Q4Z"}
{"type":"response.output_text.annotation.added","output_index":1,"content_index":0,"annotation":{"title":"Q5Z"}}
{"type":"response.output_text.done","output_index":1,"content_index":0,"text":"Q3ZQ4Z"}
{"type":"response.content_part.done","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Q3ZQ4Z","annotations":[{"title":"Q5Z"}]}}
{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"ms","role":"assistant","content":[{"type":"output_text","text":"Q3ZQ4Z","annotations":[{"title":"Q5Z"}]}]}}
{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":""}}
{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"a\":"}
{"type":"response.function_call_arguments.delta","output_index":2,"delta":"\"Q6Z\"}"}
{"type":"response.function_call_arguments.done","output_index":2,"arguments":"{\"a\":\"Q6Z\"}"}
{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"{\"a\":\"Q6Z\"}"}}
{"type":"response.output_item.added","output_index":3,"item":{"type":"web_search_call","id":"ws","action":{"query":"Q7Z"}}}
{"type":"response.output_item.done","output_index":3,"item":{"type":"web_search_call","id":"ws","action":{"query":"Q7Z"}}}
{"type":"response.completed","response":{"id":"r","status":"completed","model":"m","output":[{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"Q1Z"}]},{"type":"message","id":"ms","role":"assistant","content":[{"type":"output_text","text":"Q3ZQ4Z","annotations":[{"title":"Q5Z"}]}]},{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"{\"a\":\"Q6Z\"}"},{"type":"web_search_call","id":"ws","action":{"query":"Q7Z"}}]}}
"#;

/// A stream of the Chat Completions API.
const CHAT: &str = r#"
{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{"reasoning_content":"Q1Z"},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Q2Z"},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Q3Z"},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"Q4Z\"}"}}]},"finish_reason":null}]}
{"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}
{"id":"c","model":"m","choices":[],"usage":{"total_tokens":2}}
"#;

/// A stream of the Messages API.
const ANTHROPIC: &str = r#"
{"type":"message_start","message":{"id":"m","role":"assistant","content":[],"model":"m","usage":{}}}
{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Q1Z"}}
{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Q2Z"}}
{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Q3Z"}}
{"type":"content_block_stop","index":1}
{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}
{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}
{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"Q4Z\"}"}}
{"type":"content_block_stop","index":2}
{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{}}
{"type":"message_stop"}
"#;

/// The pointers of the objects in an event that get fields.
fn objects(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(pointer.to_owned());
            for (key, value) in fields {
                let is_output = key == "response" || key == "output";
                if is_output || OBJECTS.contains(&key.as_str()) {
                    objects(value, &format!("{pointer}/{key}"), found);
                }
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                objects(value, &format!("{pointer}/{index}"), found);
            }
        }
        _ => (),
    }
}

/// Calls a function for each field.
fn each_field(value: &mut Value, act: &mut dyn FnMut(&str, &mut Value)) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                act(key, value);
                each_field(value, act);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| each_field(value, act)),
        _ => (),
    }
}

fn mutate(events: &mut Vec<Value>, mutation: &Mutation, number: usize) {
    let at = mutation.event.index(events.len());
    let other = mutation.place.index(events.len());
    let marker = format!("Q{}Z", 100 + number);
    match mutation.kind {
        0 => {
            let copy = events[at].clone();
            events.insert(other, copy);
        }
        1 if events.len() > 2 => drop(events.remove(at)),
        1 | 2 => events.swap(at, other),
        3 => set_number(&mut events[at], mutation),
        4 => set_type(&mut events[at], mutation),
        5 => each_field(&mut events[at], &mut |_, value| {
            if let Value::String(text) = value
                && !markers(text).is_empty()
                && mutation.value.index(3) != 0
            {
                *text = text.replacen('Q', &format!("{marker}Q"), 1);
            }
        }),
        _ => add_field(&mut events[at], mutation, &marker),
    }
}

fn set_number(event: &mut Value, mutation: &Mutation) {
    let key = NUMBERS[mutation.place.index(NUMBERS.len())];
    let value = mutation.value.index(6);
    let value = if value == 5 {
        Value::Null
    } else {
        value.into()
    };
    each_field(event, &mut |known, number| {
        if known == key {
            *number = value.clone();
        }
    });
}

/// Sets one of the types in an event.
fn set_type(event: &mut Value, mutation: &Mutation) {
    let mut count = 0;
    each_field(event, &mut |key, _| count += usize::from(key == "type"));
    let chosen = mutation.place.index(count.max(1));
    let mut seen = 0;
    each_field(event, &mut |key, value| {
        if key == "type" {
            if seen == chosen {
                *value = TYPES[mutation.value.index(TYPES.len())].into();
            }
            seen += 1;
        }
    });
}

fn add_field(event: &mut Value, mutation: &Mutation, marker: &str) {
    let mut found = Vec::new();
    objects(event, "", &mut found);
    found.retain(|pointer| !pointer.ends_with("/response"));
    let pointer = &found[mutation.place.index(found.len())];
    let text = match mutation.event.index(3) {
        0 => json!(marker),
        1 => json!({ "type": "text", "text": marker }),
        _ => json!([{ "type": "output_text", "text": marker }]),
    };
    if let Some(Value::Object(fields)) = event.pointer_mut(pointer) {
        let key = FIELDS[mutation.value.index(FIELDS.len())];
        fields.insert(key.to_owned(), text);
    }
}

/// The marked texts within a text.
fn markers(text: &str) -> BTreeSet<&str> {
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let marked = text.split('Q').skip(1);
    let marked = marked.filter_map(|rest| rest.split_once('Z').map(|(number, _)| number));
    marked.filter(is_number).collect()
}

/// Returns what an agent receives of a stream until it is refused, and whether it is complete.
fn filtered(api: Api, events: &[Value], editor: &mut RecordingEditor) -> (String, bool) {
    let dialect = dialect::of(api);
    let (mut reader, mut writer) = (dialect.chunk_reader(), dialect.chunk_writer(Framing::Sse));
    let mut pass = |chunk: Option<ResponseDocument>| -> Option<()> {
        let Some(mut chunk) = chunk else {
            return Some(());
        };
        chunk.edit_texts(editor, TextRest::MayFollow).ok()?;
        writer.write(&chunk).ok()
    };
    let mut is_complete = true;
    for event in events {
        let chunk = reader.read(event.to_string().into()).ok();
        is_complete = is_complete && chunk.and_then(&mut pass).is_some();
        if !is_complete {
            break;
        }
    }
    if is_complete {
        let chunk = reader.finish().ok();
        is_complete = chunk.and_then(&mut pass).is_some() && writer.write_end().is_ok();
    }
    (
        String::from_utf8(writer.output().to_vec()).unwrap(),
        is_complete,
    )
}

/// Up to three mutations of the first `kinds` kinds. Kinds from 6 on add fields.
fn mutations(kinds: usize) -> impl Strategy<Value = Vec<Mutation>> {
    let places = (any::<Index>(), any::<Index>(), any::<Index>());
    let mutation = (0..kinds, places).prop_map(|(kind, (event, place, value))| Mutation {
        kind,
        event,
        place,
        value,
    });
    vec(mutation, 0..4)
}

/// Checks both laws. Returns whether the stream is accepted.
fn check(api: Api, stream: &str, mutations: &[Mutation]) -> Result<bool, TestCaseError> {
    let lines = stream.trim().lines();
    let mut events: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (number, mutation) in mutations.iter().enumerate() {
        mutate(&mut events, mutation, number);
    }
    let list = || {
        events
            .iter()
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let mut editor = RecordingEditor::default();
    let (sent, is_complete) = filtered(api, &events, &mut editor);
    let (seen, received) = (markers(&editor.seen), markers(&sent));
    let unseen: Vec<_> = received.difference(&seen).collect();
    prop_assert!(
        unseen.is_empty(),
        "unseen {unseen:?}: {}\n\nsent {sent}",
        list()
    );
    let mut editor = RecordingEditor::masking(|_| Some("[m]".to_owned()));
    let (sent, _) = filtered(api, &events, &mut editor);
    let unmasked = markers(&sent);
    prop_assert!(
        unmasked.is_empty(),
        "unmasked {unmasked:?}: {}\n\nsent {sent}",
        list()
    );
    Ok(is_complete)
}

#[test]
fn well_formed_streams_pass() {
    assert!(check(Api::OpenAiResponses, RESPONSES, &[]).unwrap());
    assert!(check(Api::OpenAiChat, CHAT, &[]).unwrap());
    assert!(check(Api::Anthropic, ANTHROPIC, &[]).unwrap());
}

proptest! {
    #[test]
    fn no_unseen_text_of_a_responses_stream_passes(mutations in mutations(9)) {
        check(Api::OpenAiResponses, RESPONSES, &mutations)?;
    }

    #[test]
    fn no_unseen_text_of_a_chat_stream_passes(mutations in mutations(9)) {
        check(Api::OpenAiChat, CHAT, &mutations)?;
    }

    #[test]
    fn no_unseen_text_of_an_anthropic_stream_passes(mutations in mutations(9)) {
        check(Api::Anthropic, ANTHROPIC, &mutations)?;
    }
}
