//! A call whose content is kept, as the action of an agent that can be performed again.

use serde_json::{Map, Value, json};

use crate::{
    dialect::{self, Api},
    observe::trace::{CallRecord, StoredContent},
    session::SessionSource,
    test_case::{answering_dialect, read_answer},
    trial::{answer_chunks, error_message},
};

/// Fields of an action with the answers to its first requests.
const ANSWER_FIELDS: [&str; 2] = ["answer", "then"];

/// Answers that an action can have.
pub const MAX_ANSWERS: usize = ANSWER_FIELDS.len();

/// Header with the name of a session.
const SESSION_HEADER: &str = "x-hookgate-session";

/// Header of Codex with the name of a sub-agent. Unlike that of Claude Code, it does not change the
/// name of the session.
const SUB_AGENT_HEADER: &str = "x-codex-turn-metadata";

/// Version that requests of the Messages API must name.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The request of a call and the answers that it got.
#[derive(Debug)]
pub struct RecordedCall {
    /// Path and query of the request.
    pub path: String,
    /// Headers that the API requires, the caller's name as its key, `User-Agent`, and the names of
    /// the session and of the sub-agent if it has them.
    pub headers: Map<String, Value>,
    /// Masked request, in the form of its API.
    pub request: Value,
    /// Masked answer of the model API to each request within the call, in order: an object, or
    /// the list of its chunks.
    answers: Vec<Value>,
    /// Answers that its action does not have.
    pub missing_answers: Option<MissingAnswers>,
    /// True if an answer has an error, and the mock repeats it, as it does for Google's APIs.
    pub repeats_error: bool,
}

/// Answers of a call that its action does not have.
#[derive(Debug, Clone, Copy)]
pub enum MissingAnswers {
    /// All, because they are not kept.
    All,
    /// One that no action can have, such as an error alone, and those behind it.
    Unreadable,
    /// Those behind the first [`MAX_ANSWERS`] of this number.
    Further(usize),
    /// The second and further choices of an answer, which the mock writes for Google's APIs only.
    OtherChoices,
}

impl RecordedCall {
    /// Returns the call of a record; `None` if the content holds no request.
    pub fn new(call: &CallRecord, content: &StoredContent) -> Option<Self> {
        let api = Api::named(call.dialect)?;
        let request = content.request.as_ref()?.value()?;
        let is_stream = if api.is_google() {
            call.method.starts_with("stream")
        } else {
            request.get("stream") == Some(&Value::Bool(true))
        };
        let path = path(api, call.method, &call.requested_model)?;
        let kept = answers(content, is_stream);
        let answers = readable_answers(&path, &kept);
        let has_error = answers.iter().any(|answer| error_message(answer).is_some());
        Some(Self {
            headers: headers(api, call),
            request: match api {
                Api::CodeAssist => json!({ "model": *call.requested_model, "request": request }),
                _ => request,
            },
            missing_answers: missing_answers(api, content, kept.len(), &answers),
            repeats_error: has_error && api.is_google(),
            path,
            answers,
        })
    }

    /// Returns the action as JSON, without the answers behind the first [`MAX_ANSWERS`]. `request`
    /// is the name of the field with the request.
    pub fn into_fields(self, request: &str) -> Map<String, Value> {
        let mut fields = Map::from_iter([("path".to_owned(), json!(self.path))]);
        if !self.headers.is_empty() {
            fields.insert("headers".to_owned(), Value::Object(self.headers));
        }
        fields.insert(request.to_owned(), self.request);
        let names = ANSWER_FIELDS.map(str::to_owned);
        fields.extend(names.into_iter().zip(self.answers));
        fields
    }
}

/// Returns the headers of a call. Callers authenticate by their names when it is performed again.
fn headers(api: Api, call: &CallRecord) -> Map<String, Value> {
    let (key, value) = match api {
        Api::Gemini | Api::Vertex | Api::CodeAssist => ("x-goog-api-key", call.caller.to_string()),
        Api::Anthropic => ("x-api-key", call.caller.to_string()),
        Api::OpenAiResponses | Api::OpenAiChat => {
            ("authorization", format!("Bearer {}", call.caller))
        }
    };
    let version = (api == Api::Anthropic).then(|| ANTHROPIC_VERSION.to_owned());
    let agent = Some(call.agent.to_string()).filter(|agent| !agent.is_empty());
    let detail = call.detail.as_ref();
    let sub_agent = detail.and_then(|detail| detail.sub_agent.as_deref());
    let sub_agent = sub_agent.map(|name| json!({ "agent_name": name }).to_string());
    // A header that is read as text has no other characters.
    let is_visible = |text: &String| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let found = detail.and_then(|detail| detail.session_match);
    let is_named = found.is_some_and(|found| found.source != SessionSource::History.as_str());
    let headers = [
        ("anthropic-version", version),
        (key, (!call.caller.is_empty()).then_some(value)),
        ("user-agent", agent),
        (SESSION_HEADER, is_named.then(|| call.session.to_string())),
        (SUB_AGENT_HEADER, sub_agent.filter(is_visible)),
    ];
    let headers = headers.into_iter();
    let present = headers.filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
    present.collect()
}

/// Returns the path of a method by its label; `None` if no method has it.
fn path(api: Api, method: &str, model: &str) -> Option<String> {
    let google = match method {
        "streamGenerateContent" => "streamGenerateContent?alt=sse",
        "countTokens" | "embedContent" | "batchEmbedContents" => method,
        _ => "generateContent",
    };
    match api {
        Api::Gemini => Some(format!("/v1beta/models/{model}:{google}")),
        Api::Vertex => Some(format!("/v1/publishers/google/models/{model}:{google}")),
        Api::CodeAssist => Some(format!("/v1internal:{google}")),
        Api::Anthropic | Api::OpenAiResponses | Api::OpenAiChat => {
            let mut methods = dialect::methods();
            let found = methods.find(|known| known.api == api && known.label() == method);
            found.map(|known| known.path.replace("{version}", "v1"))
        }
    }
}

/// Returns the answers that an action can have: the first [`MAX_ANSWERS`], up to one that cannot
/// be read.
fn readable_answers(path: &str, kept: &[Value]) -> Vec<Value> {
    let dialect = answering_dialect(path);
    let is_readable =
        |answer: &&Value| dialect.is_some_and(|dialect| read_answer(dialect, answer).is_ok());
    let first = kept.iter().take(MAX_ANSWERS);
    first.take_while(is_readable).cloned().collect()
}

/// Returns what an action with these answers lacks of this number of kept ones.
fn missing_answers(
    api: Api,
    content: &StoredContent,
    count: usize,
    answers: &[Value],
) -> Option<MissingAnswers> {
    if count == 0 {
        content.answer.as_ref().map(|_| MissingAnswers::All)
    } else if answers.len() < count.min(MAX_ANSWERS) {
        Some(MissingAnswers::Unreadable)
    } else if count > MAX_ANSWERS {
        Some(MissingAnswers::Further(count))
    } else {
        let lacks_choices = !api.is_google() && answers.iter().any(has_other_choices);
        lacks_choices.then_some(MissingAnswers::OtherChoices)
    }
}

fn has_other_choices(answer: &Value) -> bool {
    let chunks = answer_chunks(answer).iter();
    let candidates = chunks.filter_map(|chunk| chunk.get("candidates")?.as_array());
    let mut indices = candidates
        .flatten()
        .filter_map(|candidate| candidate.get("index")?.as_u64());
    indices.any(|index| index > 0)
}

/// Returns the answers to the requests of all rounds.
fn answers(content: &StoredContent, is_stream: bool) -> Vec<Value> {
    // Chunks of text have the envelope of Code Assist.
    let inner = |chunk: Value| chunk.get("response").cloned().unwrap_or(chunk);
    let answer = |chunks: Vec<Value>| {
        let mut chunks = chunks.into_iter().map(inner);
        match chunks.next() {
            Some(whole) if !is_stream => whole,
            first => first.into_iter().chain(chunks).collect(),
        }
    };
    content.answers().into_iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_the_path_of_its_method() {
        let check = |api, method, expected| assert_eq!(path(api, method, "m").unwrap(), expected);
        let stream = "streamGenerateContent";
        check(
            Api::Gemini,
            stream,
            "/v1beta/models/m:streamGenerateContent?alt=sse",
        );
        check(Api::CodeAssist, "countTokens", "/v1internal:countTokens");
        check(Api::Anthropic, "messages.create", "/v1/messages");
        check(
            Api::OpenAiResponses,
            "moderations.create",
            "/v1/moderations",
        );
        check(
            Api::OpenAiChat,
            "chat.completions.create",
            "/v1/chat/completions",
        );
    }
}
