//! Response bodies: each accepted body can be read, edited, stripped of tool calls and merged,
//! and the result is an unambiguous document.

use bytes::Bytes;
use hookgate::{
    dialect::{self, FunctionCall, PartialCalls, ResponseDocument},
    model::ResponseMutation,
};
use serde_json::json;

pub fn run(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok(elements) = dialect::elements(&bytes)
        && let Ok(chunks) = elements
            .into_iter()
            .map(ResponseDocument::parse)
            .collect::<Result<_, _>>()
        && let Ok(merged) = ResponseDocument::merge(chunks)
    {
        reread(merged.to_bytes());
    }
    let Ok(answer) = ResponseDocument::parse(bytes.clone()) else {
        return;
    };
    assert_eq!(answer.to_bytes(), bytes, "an unedited body keeps its bytes");
    answer.read().ok();
    answer.total_tokens().ok();

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
        let remaining = reread(withheld.to_bytes()).calls();
        assert!(
            remaining.is_ok_and(|calls| calls.is_empty()),
            "a call remains"
        );
    }
}

fn reread(bytes: Bytes) -> ResponseDocument {
    let text = bytes.escape_ascii().to_string();
    ResponseDocument::parse(bytes).unwrap_or_else(|error| panic!("{error}: {text}"))
}
