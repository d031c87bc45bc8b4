//! The responses of an action as a script of the mock model API.

use mock_model_api::{ResponseForm, Script};
use serde_json::Value;

use crate::{
    dialect::{ResponseDocument, without_private_fields},
    test_case::{AgentAction, ModelAnswer, UnreadableAnswer},
};

/// Returns the script of an action; `None` without responses.
///
/// # Errors
///
/// Fails if a response is not in the form of an API that can be written here.
pub(super) fn script(action: &AgentAction) -> Result<Option<Script>, UnreadableAnswer> {
    let AgentAction::Call(call) = action else {
        return Ok(None);
    };
    let mut script = None;
    for (written, answer) in call.answers()? {
        push(script.get_or_insert_default(), written, &answer);
    }
    Ok(script)
}

/// Adds a response as it is written, and a whole one also as a stream.
fn push(script: &mut Script, written: &Value, answer: &ModelAnswer) {
    let content_form = answer.chunks.iter().map(content_form);
    if !answer.is_native {
        let chunks: Vec<String> = content_form.collect();
        if let (Value::Object(_), [whole]) = (written, chunks.as_slice()) {
            script.push_answer(whole.clone(), ResponseForm::Gemini);
        }
        script.push_stream(chunks, ResponseForm::Gemini);
        return;
    }
    match written {
        Value::Array(events) => {
            let events = events.iter().map(Value::to_string).collect();
            script.push_stream(events, ResponseForm::Native);
        }
        whole => {
            script.push_answer(whole.to_string(), ResponseForm::Native);
            script.push_stream(content_form.collect(), ResponseForm::Gemini);
        }
    }
}

fn content_form(chunk: &ResponseDocument) -> String {
    let shown = without_private_fields(&chunk.to_bytes());
    String::from_utf8_lossy(&shown).into_owned()
}
