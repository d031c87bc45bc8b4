//! Tool calls of messages, in requests and responses.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    document::{Document, add_field, add_list, read_json, refuse_pair, required_child, value_text},
    error::{Result, field_error},
    openai::arguments::read_arguments,
    openai_chat::fields::{ARGUMENTS, CUSTOM, FUNCTION, ID, INPUT, NAME, TYPE},
};

/// Marks the call of a custom tool in the content form, so that it can be written again.
const CUSTOM_TYPE: &str = "custom";

/// The calls of a choice, as a message has them.
#[derive(Debug, Default)]
pub struct ChoiceCalls {
    pub tool_calls: Vec<Value>,
    pub function_call: Option<Value>,
}

impl ChoiceCalls {
    pub const fn is_empty(&self) -> bool {
        self.tool_calls.is_empty() && self.function_call.is_none()
    }

    /// Returns the delta with the calls, numbered from `first`; empty if there are none.
    pub fn to_delta(&self, first: u64) -> Map<String, Value> {
        let calls = (first..).zip(&self.tool_calls).map(|(index, call)| {
            let mut piece = json!({ "index": index });
            if let (Some(piece), Some(call)) = (piece.as_object_mut(), call.as_object()) {
                piece.extend(call.clone());
            }
            piece
        });
        self.to_fields(calls.collect())
    }

    /// Returns the fields of a message with the calls.
    pub fn to_message(&self) -> Map<String, Value> {
        self.to_fields(self.tool_calls.clone())
    }

    fn to_fields(&self, calls: Vec<Value>) -> Map<String, Value> {
        let mut fields = Map::new();
        add_list(&mut fields, "tool_calls", calls);
        add_field(&mut fields, "function_call", self.function_call.clone());
        fields
    }
}

/// Returns the `functionCall` of a tool call.
///
/// # Errors
///
/// Fails if it is the call of a function and of something else at once.
pub fn read_call(call: &Document) -> Result<Value> {
    refuse_pair(call, FUNCTION, CUSTOM)?;
    let mut fields = Map::new();
    add_field(&mut fields, "id", call.string(ID)?);
    match call.string(TYPE)?.as_deref() {
        None | Some("" | "function") => {
            read_function(&required_child(call, "function")?, &mut fields)?;
        }
        Some(CUSTOM_TYPE) => {
            let custom = required_child(call, "custom")?;
            let name = custom.string(NAME)?.unwrap_or_default();
            let input = custom.string(INPUT)?.unwrap_or_default();
            fields.insert("name".to_owned(), name.into());
            fields.insert("args".to_owned(), json!({ "input": input }));
            fields.insert("type".to_owned(), CUSTOM_TYPE.into());
        }
        Some(_) if call.has(FUNCTION) => {
            return Err(field_error("type", "`function` for the call of a function"));
        }
        Some(other) => {
            let args = call.get(&[other])?.unwrap_or_default();
            fields.insert("name".to_owned(), other.into());
            fields.insert("args".to_owned(), args);
        }
    }
    Ok(Value::Object(fields))
}

/// Returns the `functionCall` of the deprecated `function_call`, which has no id.
pub fn read_function_call(call: &Document) -> Result<Value> {
    let mut fields = Map::new();
    read_function(call, &mut fields)?;
    Ok(Value::Object(fields))
}

fn read_function(function: &Document, fields: &mut Map<String, Value>) -> Result<()> {
    let name = function.string(NAME)?.unwrap_or_default();
    fields.insert("name".to_owned(), name.into());
    let arguments = function_arguments(function)?;
    let arguments = arguments.as_deref().and_then(read_arguments);
    add_field(fields, "args", arguments);
    Ok(())
}

/// Returns the arguments of a function, which are JSON in a string. TGI sends the object itself.
///
/// # Errors
///
/// Fails for other types.
pub fn function_arguments(function: &Document) -> Result<Option<String>> {
    match function.get(ARGUMENTS)? {
        Some(object @ Value::Object(_)) => Ok(Some(object.to_string())),
        _ => function.string(ARGUMENTS),
    }
}

/// Returns the fields of a call that hookgate does not interpret.
pub fn extra_fields(call: &Document) -> Result<Map<String, Value>> {
    let mut extra = Map::new();
    for (key, value) in call.fields() {
        if !["custom", "function", "id", "index", "type"].contains(&&*key) {
            extra.insert(key.into_owned(), read_json(&value)?);
        }
    }
    Ok(extra)
}

/// Returns arguments as the API has them.
pub fn write_arguments(arguments: Option<Value>) -> Value {
    match arguments {
        None | Some(Value::Null) => "{}".into(),
        Some(arguments) => value_text(&arguments).into(),
    }
}

/// Returns the JSON of a tool call with the arguments of its edited part.
pub fn rewrite_call(call: &Document, before: &Document, after: &Document) -> Result<Bytes> {
    let args = |part: &Document| {
        let call = part.child(&["functionCall"])?;
        call.unwrap_or_default().get(&["args"])
    };
    let (before, after) = (args(before)?, args(after)?);
    let mut call = call.clone();
    if before != after {
        set_arguments(&mut call, after)?;
    }
    Ok(call.to_bytes())
}

fn set_arguments(call: &mut Document, args: Option<Value>) -> Result<()> {
    match call.string(TYPE)?.as_deref() {
        None | Some("" | "function") => call.edit_child(FUNCTION, |function| {
            function.set(ARGUMENTS, &write_arguments(args))
        }),
        Some(CUSTOM_TYPE) => call.edit_child(CUSTOM, |custom| {
            custom.set(INPUT, &custom_input(args.as_ref()))
        }),
        Some(other) => call.set(&[other], &args.unwrap_or_else(|| json!({}))),
    }
}

/// Sets the arguments of the deprecated `function_call`.
pub fn rewrite_function_call(call: &mut Document, after: &Document) -> Result<()> {
    let Some(edited) = after.child(&["functionCall"])? else {
        return Ok(());
    };
    let args = edited.get(&["args"])?;
    let known = function_arguments(call)?;
    if known.as_deref().and_then(read_arguments) != args {
        call.set(ARGUMENTS, &write_arguments(args))?;
    }
    Ok(())
}

/// Returns the tool call of a `functionCall`; one without id is `None`, because the
/// deprecated form is meant.
pub fn write_call(call: &Document) -> Result<Option<Value>> {
    let Some(id) = call.string(ID)? else {
        return Ok(None);
    };
    let args = call.get(&["args"])?;
    let name = call.string(NAME)?.unwrap_or_default();
    Ok(Some(
        if call.string(TYPE)?.as_deref() == Some(CUSTOM_TYPE) {
            let input = custom_input(args.as_ref());
            json!({ "id": id, "type": "custom", "custom": { "name": name, "input": input } })
        } else {
            json!({ "id": id, "type": "function", "function": write_function(&name, args) })
        },
    ))
}

/// Returns the deprecated `function_call` of a `functionCall`.
pub fn write_function_call(call: &Document) -> Result<Value> {
    let name = call.string(NAME)?.unwrap_or_default();
    Ok(write_function(&name, call.get(&["args"])?))
}

fn write_function(name: &str, args: Option<Value>) -> Value {
    json!({ "name": name, "arguments": write_arguments(args) })
}

/// Returns the input of a custom tool. Edits that make it anything but a text are written as
/// JSON.
fn custom_input(args: Option<&Value>) -> Value {
    match args.and_then(|args| args.get("input")) {
        Some(Value::String(input)) => input.as_str().into(),
        Some(Value::Null) | None => args.map_or_else(String::new, Value::to_string).into(),
        Some(input) => input.to_string().into(),
    }
}
