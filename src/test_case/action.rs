//! Actions of agents in test cases and trials.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value};

use super::case_api::model_path;

/// Action of an agent in a test case or trial.
#[derive(Debug, Clone)]
pub enum AgentAction {
    /// Reports an event: the input of a hook.
    Report(Map<String, Value>),
    /// A request that calls a model.
    Call(Box<SimulatedCall>),
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

impl AgentAction {
    /// Parses an action. `model` is called if a request names none.
    ///
    /// # Errors
    ///
    /// Returns the reason why the text is no action.
    pub fn from_json(text: &str, model: &str) -> Result<Self, serde_json::Error> {
        let fields: Map<String, Value> = serde_json::from_str(text)?;
        if fields.contains_key("hook_event_name") {
            return Ok(Self::Report(fields));
        }
        let mut request = if fields.contains_key("body") {
            fields
        } else {
            Map::from_iter([("body".to_owned(), fields.into())])
        };
        let path = request.entry("path");
        path.or_insert_with(|| model_path(model).into());
        let call = SimulatedCall::deserialize(Value::Object(request))?;
        if !call.path.starts_with('/') {
            return Err(Error::custom("`path` must begin with `/`"));
        }
        Ok(Self::Call(Box::new(call)))
    }
}

impl SimulatedCall {
    /// Returns the query of the request; empty if absent.
    pub fn query(&self) -> &str {
        self.path.split_once('?').map_or("", |(_, query)| query)
    }
}

/// Parses the headers of a model call. The error is the name of an invalid one.
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
