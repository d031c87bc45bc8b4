//! Hook output: no output revokes a denial by exit code, and no edit makes an ambiguous request.
//! Input: exit code, standard error (a line), standard output.

use bytes::Bytes;
use hookgate::{
    dialect::{self, AllowedFunctions, RequestLine},
    event::{Decision, EventName, HookStatus, merge_outputs},
    model::ModelName,
    protocol::{self, ProcessExit, ProcessOutput},
};
use http::Method;

const REQUEST: &[u8] = br#"{"systemInstruction":{"parts":[{"text":"s"}]},
    "contents":[{"role":"user","parts":[{"text":"a"}]},
    {"role":"model","parts":[{"text":"b"},{"functionCall":{"name":"f","args":{}}}]},
    {"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}],
    "tools":[{"function_declarations":[{"name":"f"},{"name":"g"}]}],
    "generation_config":{"topK":1}}"#;

pub fn run(bytes: &[u8]) {
    let Some((code, output)) = bytes.split_first() else {
        return;
    };
    let line = output.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (stderr, stdout) = output.split_at(line);
    for protocol in protocol::ALL {
        for event in EventName::ALL {
            let output = ProcessOutput {
                exit: ProcessExit::Code(i32::from(*code)),
                stdout: stdout.to_vec(),
                stderr: stderr.to_vec(),
            };
            check(*protocol, &output, *event);
        }
    }
}

fn check(protocol: &dyn protocol::Protocol, process: &ProcessOutput, event: EventName) {
    let result = protocol.read(process, event);
    if process.exit == ProcessExit::Code(2) {
        assert_eq!(result.output.decision, Some(Decision::Deny));
    }
    if !matches!(process.exit, ProcessExit::Code(0 | 2)) {
        assert_ne!(result.status, HookStatus::Ok);
    }
    if result.status == HookStatus::Failed {
        assert!(result.output.hook_specific_output.is_empty());
    }
    let _ = merge_outputs(std::slice::from_ref(&result.output), &[]);
    if event != EventName::BeforeModel {
        return;
    }
    let line = RequestLine {
        method: &Method::POST,
        path: "/v1/models/m:generateContent",
        query: "",
        api: None,
    };
    let known = dialect::recognize_call(line).unwrap().unwrap();
    let call = known.call.unwrap();
    let document = dialect::parse_document(Bytes::from_static(REQUEST)).unwrap();
    let edit = result.output.request_edit();
    let edited = dialect::write_request(&call, document, &edit, &AllowedFunctions::default());
    let edited = edited.expect("an edit is ignored or applied");
    let bytes = edited.document.to_bytes();
    let text = bytes.escape_ascii().to_string();
    if let Err(error) = dialect::parse_document(bytes) {
        panic!("{error}: {text}");
    }
    if let Some(model) = edited.model {
        assert_eq!(ModelName::parse(model.as_str()).as_ref(), Some(&model));
    }
}
