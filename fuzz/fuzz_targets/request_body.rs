//! A body of every hooked call: whatever can be read can be masked, selected
//! from and written again, and comes out as a document that means one thing.

#![no_main]

use bytes::Bytes;
use hookgate::{
    dialect::{self, Call, Detail, Document, RequestLine, TextEditor, TextKind},
    model::{RequestMutation, ToolConfig},
};
use http::Method;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

const PATHS: [&str; 6] = [
    "/v1/models/m:generateContent",
    "/v1/models/m:streamGenerateContent",
    "/v1/models/m:countTokens",
    "/v1/models/m:embedContent",
    "/v1/models/m:batchEmbedContents",
    "/v1internal:generateContent",
];

/// Replaces every text.
struct Mask;

const MASKED: &str = "[masked]";

impl TextEditor for Mask {
    fn edit_joined(&mut self, _: TextKind, texts: &mut [String]) -> bool {
        for text in texts.iter_mut() {
            MASKED.clone_into(text);
        }
        true
    }

    fn edit(&mut self, _: TextKind, _: &str) -> Option<String> {
        Some(MASKED.to_owned())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = dialect::parse_document(Bytes::copy_from_slice(bytes)) else {
        return;
    };
    for path in PATHS {
        let line = RequestLine {
            method: &Method::POST,
            path,
            query: "",
            api: None,
        };
        let known = dialect::recognize_call(line).unwrap().unwrap();
        let dialect = dialect::of(known.method.api);
        let mut call = known.call.unwrap();
        if let Ok(opened) = dialect.open_request(&mut call, document.clone()) {
            visit(&call, &opened.document);
            if let Ok(closed) = dialect::of(call.method.api).close_request(&call, opened.envelope.as_ref(), &opened.document) {
                assert_eq!(closed, bytes, "what nobody changes keeps its bytes");
            }
        }
    }
});

fn visit(call: &Call, document: &Document) {
    let read = dialect::read_request(call, document, Detail::Whole);
    let _ = dialect::new_prompt(call, document);
    let _ = dialect::summarize_request(call, document);
    let _ = dialect::expected_response(document);

    let mut masked = document.clone();
    if dialect::edit_request_texts(call, &mut masked, &mut Mask).is_ok() {
        let masked = reread(&masked);
        if let Ok(read) = dialect::read_request(call, &masked, Detail::Whole) {
            for message in read.messages {
                let left = message.content.replace(MASKED, "");
                assert!(left.trim().is_empty(), "{left:?}");
            }
        }
    }
    let mut selected = document.clone();
    let names = vec!["f".to_owned()];
    let selection = ToolConfig::read(&json!({ "mode": "ANY", "allowedFunctionNames": names }));
    if dialect::write_tool_selection(&mut selected, &selection.unwrap()).is_ok() {
        reread(&selected);
    }
    if read.is_ok() {
        let edit = json!({
            "model": "n",
            "messages": [{ "role": "user", "content": "new" }],
            "config": { "temperature": 1, "topK": null },
        });
        let mutation = RequestMutation {
            fields: edit.as_object().unwrap().clone(),
            appended_text: Some("said".to_owned()),
        };
        if let Ok(edited) = dialect::write_request(call, document.clone(), &mutation) {
            reread(&edited.document);
        }
    }
}

/// What goes out is read by others by the same rules.
fn reread(document: &Document) -> Document {
    let bytes = document.to_bytes();
    let text = bytes.escape_ascii().to_string();
    dialect::parse_document(bytes).unwrap_or_else(|it| panic!("{it}: {text}"))
}
