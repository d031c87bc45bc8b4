//! Cases for `hookgate test`, made of calls whose content is kept.

use serde_json::{Map, Value, json};

use crate::{
    config::to_yaml,
    event::{Action, EventName},
    observe::trace::{CallRecord, DenialGroup, MaskedBody, StoredContent},
    proof::policy_denies,
    state::App,
};

/// Returns a file of one case: the request and the answers of a call, and its verdict. `None`
/// if the content holds no request.
pub fn from_content(app: &App, call: &CallRecord, content: &StoredContent) -> Option<String> {
    let request = body(content.request.as_ref())?;
    let answers = content.answer.as_ref();
    let answers = answers.and_then(|answers| body(Some(answers)));
    let is_stream = call.method.starts_with("stream");
    let mut rounds = rounds(answers.as_ref(), is_stream).into_iter();
    let verdict = call.events().iter().map(|event| event.verdict).max();
    let verdict = verdict.unwrap_or(Action::Proceed).as_str();
    let method = if is_stream {
        "streamGenerateContent?alt=sse"
    } else {
        "generateContent"
    };
    let path = format!("/v1beta/models/{}:{method}", call.requested_model);
    let mut case = Map::from_iter([
        (
            "name".to_owned(),
            json!(format!("call {} ends with {verdict}", call.id)),
        ),
        ("path".to_owned(), json!(path)),
        ("request".to_owned(), request),
    ]);
    for field in ["answer", "then"] {
        case.extend(rounds.next().map(|answer| (field.to_owned(), answer)));
    }
    case.insert("expect".to_owned(), json!({ "verdict": verdict }));
    Some(file(app, case))
}

/// A file of one case, made of the name of a denied tool alone.
#[derive(Debug)]
pub struct NamedCase {
    /// The file as YAML.
    pub yaml: String,
    /// Whether it passes as it is; `None` if a hook decides, which is not run for this.
    pub passes: Option<bool>,
}

/// Returns a case made of the name of a denied tool alone. `None` if it was no call of a tool
/// that was denied.
pub async fn from_names(app: &App, group: &DenialGroup) -> Option<NamedCase> {
    let tool = group.tool.as_ref()?;
    if group.event != EventName::BeforeTool {
        return None;
    }
    let verdict = group.action.as_str();
    let fields = json!({ "hook_event_name": group.event, "tool_name": tool, "tool_input": {} });
    let case = json!({
        "name": format!("{} decides {verdict} on {tool}", group.rule),
        "event": &fields,
        "expect": { "verdict": verdict },
    });
    let (Value::Object(case), Value::Object(fields)) = (case, fields) else {
        return None;
    };
    let snapshot = app.snapshot();
    let event = (group.event, fields);
    let denied = policy_denies(&snapshot.engine, &snapshot.config, &group.rule, event);
    Some(NamedCase {
        passes: denied.await,
        yaml: file(app, case),
    })
}

fn file(app: &App, case: Map<String, Value>) -> String {
    let snapshot = app.snapshot();
    let config = snapshot.config.files.first();
    let config = config.and_then(|file| std::path::absolute(file).ok());
    let mut file = Map::new();
    if let Some(config) = config {
        file.insert("config".to_owned(), json!(config.display().to_string()));
    }
    let cases = Value::Array(vec![Value::Object(case)]);
    file.insert("cases".to_owned(), cases);
    to_yaml(&Value::Object(file))
}

fn body(body: Option<&MaskedBody>) -> Option<Value> {
    serde_json::from_str(body?.body.as_ref()?.get()).ok()
}

/// Splits the chunks of all rounds into the answers of each. A round ends with a chunk that
/// has a finish reason.
fn rounds(answers: Option<&Value>, is_stream: bool) -> Vec<Value> {
    let chunks = answers.and_then(Value::as_array);
    let mut rounds: Vec<Vec<Value>> = Vec::new();
    let mut has_ended = true;
    for chunk in chunks.into_iter().flatten() {
        if std::mem::replace(&mut has_ended, is_last(chunk)) {
            rounds.push(Vec::new());
        }
        if let Some(round) = rounds.last_mut() {
            round.push(chunk.clone());
        }
    }
    let answer = |chunks: Vec<Value>| match (is_stream, chunks.first()) {
        (false, Some(whole)) => whole.clone(),
        _ => Value::Array(chunks),
    };
    rounds.into_iter().map(answer).collect()
}

fn is_last(chunk: &Value) -> bool {
    let reason = chunk.pointer("/candidates/0/finishReason");
    let reason = reason.or_else(|| chunk.pointer("/candidates/0/finish_reason"));
    reason.is_some()
}
