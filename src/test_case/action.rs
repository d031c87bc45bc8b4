//! Actions of agents in test cases and trials.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue, uri::PathAndQuery};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value};
use strict_json::Names;

use super::{
    case_api::model_path,
    model_answer::{AnswerError, ModelAnswer, UnreadableAnswer, answering_dialect, read_answer},
};

/// Message about a path to which no request can be sent.
pub(super) const INVALID_PATH: &str =
    "`path` must begin with `/`, and its special characters must be percent-encoded";

/// Action of an agent in a test case or trial.
#[derive(Debug, Clone)]
pub enum AgentAction {
    /// A report of an event.
    Report(SimulatedReport),
    /// A request that calls a model.
    Call(Box<SimulatedCall>),
}

/// A report of an event in a trial.
#[derive(Debug, Clone)]
pub struct SimulatedReport {
    /// The event: the input of a hook.
    pub event: Map<String, Value>,
    /// Headers in addition to `content-type`.
    pub headers: HeaderMap,
}

/// A model call of a trial.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedCall {
    /// Path and query of the request.
    pub path: String,
    /// Headers in addition to `content-type`.
    #[serde(default, deserialize_with = "header_map")]
    pub headers: HeaderMap,
    /// The body of the request.
    pub body: Map<String, Value>,
    /// The response of the model API: an object, or the list of its chunks. Default:
    /// that of the mock.
    pub answer: Option<Value>,
    /// Its response to a second request within the call, after tool calls or a
    /// response were denied.
    pub then: Option<Value>,
}

impl SimulatedCall {
    /// Reads the responses of the model API, in order, each beside the JSON that it is written
    /// as.
    ///
    /// # Errors
    ///
    /// Fails if one is not in a form that the API of the call can be answered in, or if no model
    /// answers on the path.
    pub fn answers(&self) -> Result<Vec<(&Value, ModelAnswer)>, UnreadableAnswer> {
        let dialect = answering_dialect(&self.path);
        let written = [("answer", &self.answer), ("then", &self.then)].into_iter();
        let written = written.filter_map(|(field, written)| Some((field, written.as_ref()?)));
        let read = written.map(|(field, written)| {
            let dialect = dialect.ok_or(AnswerError::NoModel);
            match dialect.and_then(|dialect| read_answer(dialect, written)) {
                Ok(answer) => Ok((written, answer)),
                Err(cause) => Err(UnreadableAnswer { field, cause }),
            }
        });
        read.collect()
    }
}

impl AgentAction {
    /// Parses an action. `model` is called if a request names none.
    ///
    /// # Errors
    ///
    /// Returns the reason why the text is no action.
    pub fn from_json(text: &str, model: &str) -> Result<Self, serde_json::Error> {
        let fields: Map<String, Value> = serde_json::from_str(text)?;
        // The gateway refuses duplicate keys, of which the map has the last one.
        strict_json::check(text.as_bytes(), Names::Free).map_err(Error::custom)?;
        if fields.contains_key("hook_event_name") {
            return Ok(Self::Report(SimulatedReport {
                event: fields,
                headers: HeaderMap::new(),
            }));
        }
        let mut names = ["path", "headers", "body", "answer", "then"].iter();
        let mut request = if names.any(|name| fields.contains_key(*name)) {
            fields
        } else {
            Map::from_iter([("body".to_owned(), fields.into())])
        };
        if !request.contains_key("path") {
            check_gemini_body(request.get("body")).map_err(Error::custom)?;
            request.insert("path".to_owned(), model_path(model).into());
        }
        let call = SimulatedCall::deserialize(Value::Object(request))?;
        if !is_request_path(&call.path) {
            return Err(Error::custom(INVALID_PATH));
        }
        call.answers().map_err(Error::custom)?;
        Ok(Self::Call(Box::new(call)))
    }

    /// Returns the headers in addition to `content-type`.
    pub fn headers(&self) -> &HeaderMap {
        match self {
            Self::Report(report) => &report.headers,
            Self::Call(call) => &call.headers,
        }
    }

    /// Returns the query of the request of a model call; empty if absent.
    pub fn query(&self) -> &str {
        match self {
            Self::Report(_) => "",
            Self::Call(call) => call.path.split_once('?').map_or("", |(_, query)| query),
        }
    }
}

/// Refuses the body of another API than that of requests without a path.
fn check_gemini_body(body: Option<&Value>) -> Result<(), String> {
    let has = |field: &&str| body.is_some_and(|body| body.get(field).is_some());
    match ["messages", "input"].into_iter().find(has) {
        Some(field) => Err(format!(
            "without `path` it is a request of the Gemini API, which has no `{field}`; \
             send `{{\"path\":\"/v1/chat/completions\",\"body\":…}}`"
        )),
        None => Ok(()),
    }
}

/// Returns whether a request can be sent to a path with its query.
pub(super) fn is_request_path(path: &str) -> bool {
    path.starts_with('/') && path.parse::<PathAndQuery>().is_ok()
}

/// Parses the headers of a request. The error is the name of an invalid one.
pub(super) fn parse_headers(headers: &BTreeMap<String, String>) -> Result<HeaderMap, &str> {
    let header = |(name, value): (_, &String)| {
        let name: &String = name;
        let parsed = name.parse::<HeaderName>().ok();
        let parsed = parsed.zip(value.parse::<HeaderValue>().ok());
        parsed.ok_or(name.as_str())
    };
    headers.iter().map(header).collect()
}

fn header_map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HeaderMap, D::Error> {
    let headers = BTreeMap::deserialize(deserializer)?;
    parse_headers(&headers)
        .map_err(|name| D::Error::custom(format!("`{name}` cannot be sent as a header")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_with_a_path_needs_a_body() {
        let misspelt = r#"{"path":"/v1beta/models/m:countTokens","bdy":{"contents":[]}}"#;

        let error = AgentAction::from_json(misspelt, "m")
            .unwrap_err()
            .to_string();

        assert!(
            error.contains("`bdy`") && error.contains("`body`"),
            "{error}"
        );
        for incomplete in [r#"{"headers":{}}"#, r#"{"answer":{}}"#, r#"{"then":{}}"#] {
            assert!(
                AgentAction::from_json(incomplete, "m").is_err(),
                "{incomplete}"
            );
        }
        assert!(AgentAction::from_json(r#"{"contents":[]}"#, "m").is_ok());
    }

    #[test]
    fn a_path_that_cannot_be_sent_is_refused() {
        for path in ["v1", "/v1beta/models/gemini pro:generateContent", "/a\tb"] {
            let call = json!({ "path": path, "body": {} }).to_string();
            let error = AgentAction::from_json(&call, "m").unwrap_err().to_string();
            assert!(error.contains("`path`"), "{path}: {error}");
        }
    }

    #[test]
    fn an_answer_is_refused_if_no_model_answers_on_the_path() {
        for field in ["answer", "then"] {
            let call = json!({
                "path": "/v1beta/models/m:countTokens",
                "body": {},
                field: { "totalTokens": 3 },
            });
            let error = AgentAction::from_json(&call.to_string(), "m").unwrap_err();
            let expected = format!("`{field}`: no model answers on this path");
            assert_eq!(error.to_string(), expected);
        }
    }
}
