//! The choice of tools: `tool_choice` and the function calling config of the content form.

use serde_json::{Value, json};

use crate::{
    dialect::{
        anthropic::fields::{NAME, TOOL_CONFIG, TYPE},
        document::Document,
        error::{Result, field_error},
    },
    model::{FunctionCallingMode, ToolConfig},
};

pub const TOOL_CHOICE: &[&str] = &["tool_choice"];

/// The tools that the model may or must call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// The default of the API.
    Unset,
    Auto,
    None,
    /// Any tool; if there are names, one of these.
    Any(Vec<String>),
}

impl ToolChoice {
    /// Reads the choice of a body.
    ///
    /// # Errors
    ///
    /// Fails for an unknown type.
    pub fn of_body(body: &Document) -> Result<Self> {
        let Some(choice) = body.child(TOOL_CHOICE)? else {
            return Ok(Self::Unset);
        };
        match choice.string(TYPE)?.as_deref() {
            Some("auto") => Ok(Self::Auto),
            Some("none") => Ok(Self::None),
            Some("any") => Ok(Self::Any(Vec::new())),
            Some("tool") => {
                let name = choice.string(NAME)?;
                let name = name.ok_or_else(|| field_error("name", "the name of a tool"))?;
                Ok(Self::Any(vec![name]))
            }
            Some(_) | None => Err(field_error(
                "tool_choice",
                "of type `auto`, `any`, `tool` or `none`",
            )),
        }
    }

    /// Reads the choice of the content form.
    pub fn of_form(form: &Document) -> Result<Self> {
        let config = form.get(TOOL_CONFIG)?;
        let Some(config) = config.as_ref().and_then(ToolConfig::read) else {
            return Ok(Self::Unset);
        };
        Ok(match config.mode.unwrap_or_default() {
            FunctionCallingMode::Auto => Self::Auto,
            FunctionCallingMode::None => Self::None,
            FunctionCallingMode::Any => Self::Any(config.allowed_function_names),
        })
    }

    /// Returns the tool config of the content form; `None` if nothing was chosen.
    pub fn to_form(&self) -> Option<Value> {
        let calling = match self {
            Self::Unset => return None,
            Self::Auto => json!({ "mode": "AUTO" }),
            Self::None => json!({ "mode": "NONE" }),
            Self::Any(names) if names.is_empty() => json!({ "mode": "ANY" }),
            Self::Any(names) => json!({ "mode": "ANY", "allowedFunctionNames": names }),
        };
        Some(json!({ "functionCallingConfig": calling }))
    }

    /// Writes the choice to a body. Other fields of the choice stay where they have a meaning.
    pub fn write(&self, body: &mut Document) -> Result<()> {
        let (kind, name) = match self {
            Self::Unset => return body.remove(TOOL_CHOICE),
            Self::None => return body.set(TOOL_CHOICE, &json!({ "type": "none" })),
            Self::Auto => ("auto", None),
            Self::Any(names) => match names.as_slice() {
                [name] => ("tool", Some(name)),
                _ => ("any", None),
            },
        };
        let mut choice = body.child(TOOL_CHOICE)?.unwrap_or_default();
        choice.set(TYPE, &json!(kind))?;
        match name {
            Some(name) => choice.set(NAME, &json!(name))?,
            None => choice.remove(NAME)?,
        }
        body.set_child(TOOL_CHOICE, &choice)
    }
}
