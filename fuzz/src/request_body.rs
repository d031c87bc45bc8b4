//! Request bodies of every hooked call: each accepted body can be masked, edited and written, and
//! the result is an unambiguous document.

use bytes::Bytes;
use hookgate::{
    dialect::{self, AllowedFunctions, Call, Detail, Document, RequestLine, TextEditor, TextKind},
    model::{RequestMutation, ToolConfig},
};
use http::Method;
use serde_json::json;

const PATHS: [&str; 9] = [
    "/v1/models/m:generateContent",
    "/v1/models/m:streamGenerateContent",
    "/v1/models/m:countTokens",
    "/v1/models/m:embedContent",
    "/v1/models/m:batchEmbedContents",
    "/v1internal:generateContent",
    "/v1/messages",
    "/v1/responses",
    "/v1/chat/completions",
];

/// Editor that replaces every text of a request.
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

pub fn run(bytes: &[u8]) {
    let body = Bytes::copy_from_slice(bytes);
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
        let Ok(document) = dialect.parse_request(body.clone()) else {
            continue;
        };
        let Ok(opened) = dialect.open_request(&mut call, document) else {
            continue;
        };
        let close = |form: &Document| match &opened.original {
            Some(original) => dialect.close_request(&call, original, form),
            None => Ok(form.to_bytes()),
        };
        if let Ok(closed) = close(&opened.form) {
            assert_eq!(closed, bytes, "an unedited body keeps its bytes");
        }
        for edited in edits(&call, &opened.form) {
            if let Ok(closed) = close(&edited) {
                let text = closed.escape_ascii().to_string();
                dialect
                    .parse_request(closed)
                    .unwrap_or_else(|error| panic!("{error}: {text}"));
            }
        }
    }
}

/// Edits a request in every way. Returns the edited ones.
fn edits(call: &Call, document: &Document) -> Vec<Document> {
    let mut all = Vec::new();
    let read = dialect::read_stable_form(call, document, Detail::Whole);
    dialect::new_prompt(call, document).ok();
    dialect::summarize_request(call, document).ok();
    dialect::expected_response(document).ok();

    let mut masked = document.clone();
    if dialect::edit_request_texts(call, &mut masked, &mut Mask).is_ok() {
        all.push(masked.clone());
        let masked = reread(&masked);
        if let Ok(read) = dialect::read_stable_form(call, &masked, Detail::Whole) {
            for message in read.messages {
                let unmasked = message.content.replace(MASKED, "");
                assert!(unmasked.trim().is_empty(), "{unmasked:?}");
            }
        }
    }
    let mut selected = document.clone();
    let names = vec!["f".to_owned()];
    let selection = ToolConfig::read(&json!({ "mode": "ANY", "allowedFunctionNames": names }));
    let (selection, earlier) = (selection.unwrap(), AllowedFunctions::default());
    if dialect::write_tool_selection(&mut selected, &selection, &earlier).is_ok() {
        reread(&selected);
        all.push(selected);
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
            ..RequestMutation::default()
        };
        if let Ok(edited) = dialect::write_request(
            call,
            document.clone(),
            &mutation,
            &AllowedFunctions::default(),
        ) {
            reread(&edited.document);
            all.push(edited.document);
        }
    }
    all
}

/// Parses a written document again, by the strict rules.
fn reread(document: &Document) -> Document {
    let bytes = document.to_bytes();
    let text = bytes.escape_ascii().to_string();
    dialect::parse_document(bytes).unwrap_or_else(|error| panic!("{error}: {text}"))
}
