//! A selection of tools, written into a request (hook protocol, section 7).
//! Pure.

use serde_json::{Value, json};

use super::{
    DialectError, Document,
    request::TOOL_CONFIG,
    tools::{self, CALLING},
};
use crate::model::{FunctionCallingMode, ToolConfig};

/// What became of a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected {
    /// Nothing was selected, or no function is declared.
    Untouched,
    /// It is in the request, and binds the answer.
    Written(Allowed),
}

/// The functions that an answer may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// All that are declared.
    All,
    /// These; none at all if the list is empty.
    Only(Vec<String>),
}

impl Allowed {
    /// Whether an answer may call `name`.
    pub fn includes(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|it| it == name),
        }
    }
}

/// Writes a selection. Names are cut to the declared ones first.
pub(super) fn write(
    document: &mut Document,
    selection: &ToolConfig,
) -> Result<Selected, DialectError> {
    use FunctionCallingMode as Mode;
    let declared = tools::declared(document)?;
    if declared.is_empty() {
        return Ok(Selected::Untouched);
    }
    let given = &selection.allowed_function_names;
    let names: Vec<String> = given
        .iter()
        .filter(|it| declared.contains(it))
        .cloned()
        .collect();
    let mode = match selection.mode.unwrap_or_default() {
        _ if names.is_empty() && !given.is_empty() => Mode::None,
        mode => mode,
    };
    let calling = match mode {
        Mode::Any if !names.is_empty() => {
            json!({ "mode": mode, "allowedFunctionNames": names })
        }
        Mode::Any | Mode::Auto | Mode::None => json!({ "mode": mode }),
    };
    write_calling(document, &calling)?;
    if mode == Mode::None {
        return Ok(Selected::Written(Allowed::Only(Vec::new())));
    }
    if names.is_empty() {
        return Ok(Selected::Written(Allowed::All));
    }
    if mode == Mode::Auto {
        // The API takes names only with `ANY`.
        tools::keep(document, &names)?;
    }
    Ok(Selected::Written(Allowed::Only(names)))
}

fn write_calling(document: &mut Document, calling: &Value) -> Result<(), DialectError> {
    match document.child(TOOL_CONFIG)? {
        None => document.set(TOOL_CONFIG, &json!({ "functionCallingConfig": calling })),
        Some(mut config) => {
            config.set(CALLING, calling)?;
            document.set_child(TOOL_CONFIG, &config)
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn selected(text: &str, selection: &Value) -> (Selected, String) {
        let mut document = Document::parse(Bytes::from(text.to_owned())).unwrap();
        let selection = ToolConfig::read(selection).unwrap();
        let selected = write(&mut document, &selection).unwrap();
        (selected, document.to_text())
    }

    fn only(names: &[&str]) -> Selected {
        let names = names.iter().map(|it| (*it).to_owned()).collect();
        Selected::Written(Allowed::Only(names))
    }

    const TWO: &str = r#"{"tools":[{"function_declarations":[{"name":"a"},{"name":"b"}]},{"googleSearch":{}},{"functionDeclarations":[{"name":"c"}]}]}"#;

    #[test]
    fn auto_with_names_takes_the_other_declarations_out() {
        let (bound, text) = selected(TWO, &json!({"allowedFunctionNames": ["a", "ghost"]}));
        assert_eq!(bound, only(&["a"]));
        assert_eq!(
            text,
            r#"{"tools":[{"function_declarations":[{"name":"a"}]},{"googleSearch":{}}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}}"#
        );
    }

    #[test]
    fn any_keeps_declarations_and_names() {
        let (bound, text) = selected(TWO, &json!({"mode": "ANY", "allowedFunctionNames": ["c"]}));
        assert_eq!(bound, only(&["c"]));
        assert!(text.ends_with(
            r#""toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["c"]}}}"#
        ));
    }

    #[test]
    fn names_that_nobody_declares_leave_no_tool() {
        let (bound, text) = selected(
            TWO,
            &json!({"mode": "ANY", "allowedFunctionNames": ["ghost"]}),
        );
        assert_eq!(bound, only(&[]));
        assert!(text.contains(r#"{"mode":"NONE"}"#));
    }

    #[test]
    fn what_an_agent_said_beside_the_mode_stays() {
        let text = r#"{"tools":[{"functionDeclarations":[{"name":"a"}]}],"tool_config":{"retrieval_config":{"x":1.0},"function_calling_config":{"mode":"ANY"}}}"#;
        let (bound, text) = selected(text, &json!({"mode": "AUTO"}));
        assert_eq!(bound, Selected::Written(Allowed::All));
        assert!(text.ends_with(r#""tool_config":{"retrieval_config":{"x":1.0},"function_calling_config":{"mode":"AUTO"}}}"#));
    }

    #[test]
    fn without_functions_there_is_nothing_to_select() {
        let (bound, text) = selected(
            r#"{"tools":[{"googleSearch":{}}]}"#,
            &json!({"mode": "NONE"}),
        );
        assert_eq!(bound, Selected::Untouched);
        assert_eq!(text, r#"{"tools":[{"googleSearch":{}}]}"#);
    }
}
