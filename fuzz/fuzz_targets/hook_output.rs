//! What a hook writes: nothing of it takes a refusal back, and no edit of it
//! makes a request that means two things. Input: exit code, standard error (a
//! line), standard output.

#![no_main]

use bytes::Bytes;
use hookgate::{
    dialect::{self, Document, RequestLine},
    event::{Decision, EventName, HookStatus, fold},
    model::ModelName,
    protocol::{self, Ended, Exit},
};
use http::Method;
use libfuzzer_sys::fuzz_target;

const REQUEST: &[u8] = br#"{"systemInstruction":{"parts":[{"text":"s"}]},
    "contents":[{"role":"user","parts":[{"text":"a"}]},
    {"role":"model","parts":[{"text":"b"},{"functionCall":{"name":"f","args":{}}}]},
    {"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}],
    "tools":[{"function_declarations":[{"name":"f"},{"name":"g"}]}],
    "generation_config":{"topK":1}}"#;

fuzz_target!(|bytes: &[u8]| {
    let Some((code, said)) = bytes.split_first() else {
        return;
    };
    let line = said.iter().position(|it| *it == b'\n').unwrap_or(0);
    let (stderr, stdout) = said.split_at(line);
    for name in protocol::names() {
        for event in EventName::ALL {
            let ended = Ended {
                exit: Exit::Code(i32::from(*code)),
                stdout: stdout.to_vec(),
                stderr: stderr.to_vec(),
            };
            check(protocol::find(name).unwrap(), &ended, *event);
        }
    }
});

fn check(protocol: &dyn protocol::Protocol, ended: &Ended, event: EventName) {
    let answer = protocol.read(ended, event);
    if ended.exit == Exit::Code(2) {
        assert_eq!(answer.output.decision, Some(Decision::Deny));
    }
    if !matches!(ended.exit, Exit::Code(0 | 2)) {
        assert_ne!(answer.status, HookStatus::Ok);
    }
    if answer.status == HookStatus::Failed {
        assert!(answer.output.hook_specific_output.is_empty());
    }
    let _ = fold(std::slice::from_ref(&answer.output), &[]);
    if event != EventName::BeforeModel {
        return;
    }
    let line = RequestLine {
        method: &Method::POST,
        path: "/v1/models/m:generateContent",
        query: "",
    };
    let known = dialect::recognize_call(line).unwrap().unwrap();
    let call = known.call.unwrap();
    let document = Document::parse(Bytes::from_static(REQUEST)).unwrap();
    let edit = answer.output.request_edit();
    let edited = dialect::write_request(&call, document, &edit);
    let edited = edited.expect("an edit is left out or applied");
    let bytes = edited.document.to_bytes();
    let text = bytes.escape_ascii().to_string();
    if let Err(error) = Document::parse(bytes) {
        panic!("{error}: {text}");
    }
    if let Some(model) = edited.model {
        assert_eq!(ModelName::parse(model.as_str()).as_ref(), Some(&model));
    }
}
