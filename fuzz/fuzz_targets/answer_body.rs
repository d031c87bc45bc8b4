//! An answer: whatever can be read can be shown, changed, cut down and merged,
//! and comes out as a document that means one thing.

#![no_main]

use bytes::Bytes;
use hookgate::{
    dialect::{self, PartialCalls, FunctionCall, MergedChunks, ResponseDocument},
    model::ResponseMutation,
};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|bytes: &[u8]| {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok(elements) = dialect::elements(&bytes) {
        if elements.iter().all(|it| ResponseDocument::parse(it.clone()).is_ok()) {
            let _ = MergedChunks::parse(&elements).map(|it| reread(it.response));
        }
    }
    let Ok(answer) = ResponseDocument::parse(bytes.clone()) else {
        return;
    };
    assert_eq!(answer.to_bytes(), bytes, "an unedited body keeps its bytes");
    let _ = answer.read();
    let _ = answer.total_tokens();

    let mut changed = answer.clone();
    let mutation = ResponseMutation::read(&json!({ "text": "new" })).unwrap();
    if changed.write(&mutation).is_ok() {
        reread(changed.to_bytes());
    }

    let mut withheld = answer.clone();
    let mut refuse = |_: &FunctionCall| Some("no".to_owned());
    if withheld
        .withhold_calls(&mut PartialCalls::default(), &mut refuse)
        .is_ok()
    {
        let left = reread(withheld.to_bytes()).calls();
        assert!(left.is_ok_and(|it| it.is_empty()), "a call is left");
    }
});

fn reread(bytes: Bytes) -> ResponseDocument {
    let text = bytes.escape_ascii().to_string();
    ResponseDocument::parse(bytes).unwrap_or_else(|it| panic!("{it}: {text}"))
}
