//! Actions of agents as JSON: an event, a Gemini request, or a request with its path, headers
//! and responses.

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::test_case::{AgentAction, SimulatedCall, model_path};

/// Reason why a text is no action.
#[derive(Debug, Error)]
pub enum ActionError {
    /// The text is no JSON object, or a field is unknown or has the wrong type.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The path of a request is no path.
    #[error("`path` must begin with `/`")]
    Path,
}

impl AgentAction {
    /// Parses an action. `model` is called if a request names none.
    ///
    /// # Errors
    ///
    /// Returns the reason why the text is no action.
    pub fn from_json(text: &str, model: &str) -> Result<Self, ActionError> {
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
            return Err(ActionError::Path);
        }
        Ok(Self::Call(Box::new(call)))
    }
}
