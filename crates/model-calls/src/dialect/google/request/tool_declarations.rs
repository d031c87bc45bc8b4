//! Tools in a request: functions that the agent declares, and built-in tools of the API.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Value, json};

use crate::dialect::{
    call::Call,
    document::{Document, is_set, repeated, repeated_json, retain_elements, try_any},
    error::Result,
    google::{
        canonical_items::camel_case,
        fields::{DECLARATIONS, IS_TOOLSET, SOURCE, TOOL_CONFIG, TOOLS, WRAPPED_REQUEST},
        part::FunctionCall,
        request::body::counted_request,
    },
};

pub const CALLING_CONFIG: &[&str] = &["functionCallingConfig", "function_calling_config"];
/// Built-in tool whose functions the agent runs. Their calls do not name it.
const COMPUTER_USE: &str = "computerUse";
const COMPUTER_USE_FIELD: &[&str] = &[COMPUTER_USE, "computer_use"];
pub const ALLOWED_NAMES: &[&str] = &["allowedFunctionNames", "allowed_function_names"];

/// A tool that a request offers to the model.
#[derive(Debug)]
pub struct OfferedTool {
    /// Name of a function, a toolset or a built-in tool.
    pub name: String,
    /// True for a toolset, whose tools the request does not list.
    pub is_toolset: bool,
}

impl OfferedTool {
    /// Reads the declaration of a function; `None` if it has no name.
    fn read(declaration: &Document) -> Result<Option<Self>> {
        let name = declaration.string(&["name"])?;
        Ok(name.map(|name| Self {
            name,
            is_toolset: declaration.has(&[IS_TOOLSET]),
        }))
    }

    fn computer_use() -> Self {
        Self {
            name: COMPUTER_USE.to_owned(),
            is_toolset: true,
        }
    }

    /// Returns whether it is the built-in tool whose functions the agent runs.
    pub fn is_computer_use(&self) -> bool {
        self.is_toolset && self.name == COMPUTER_USE
    }
}

/// The declared functions of a request that offers computer use, to which calls of other functions
/// belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputerUse(Arc<HashSet<String>>);

impl ComputerUse {
    /// Reads the functions of a request; `None` if it does not offer computer use.
    ///
    /// # Errors
    ///
    /// Fails if the tools cannot be read.
    pub fn read(document: &Document) -> Result<Option<Self>> {
        let tools = repeated(document, TOOLS)?.unwrap_or_default();
        if !try_any(&tools, offers_computer_use)? {
            return Ok(None);
        }
        Ok(Self::among(&offered_functions(document)?))
    }

    /// Returns the functions beside computer use; `None` if it is not among the tools.
    pub fn among(tools: &[OfferedTool]) -> Option<Self> {
        let is_offered = tools.iter().any(OfferedTool::is_computer_use);
        let names = tools.iter().map(|tool| tool.name.clone());
        is_offered.then(|| Self(Arc::new(names.collect())))
    }

    /// Returns the name of the tool, if a call belongs to it.
    pub fn name_for(&self, call: &FunctionCall) -> Option<&'static str> {
        let is_declared = call.toolset.is_some() || self.0.contains(&call.name);
        (!is_declared).then_some(COMPUTER_USE)
    }
}

fn offers_computer_use(tool: &Document) -> Result<bool> {
    Ok(is_set(tool, COMPUTER_USE_FIELD)? && !tool.has(&[SOURCE]))
}

/// Returns the declared functions and toolsets, in order.
pub fn offered_functions(document: &Document) -> Result<Vec<OfferedTool>> {
    let mut functions = Vec::new();
    for tool in repeated(document, TOOLS)?.unwrap_or_default() {
        if offers_computer_use(&tool)? {
            functions.push(OfferedTool::computer_use());
        }
        for declaration in repeated(&tool, DECLARATIONS)?.unwrap_or_default() {
            functions.extend(OfferedTool::read(&declaration)?);
        }
    }
    Ok(functions)
}

/// Returns the names of the declared functions, in order.
pub fn declared_functions(document: &Document) -> Result<Vec<String>> {
    let functions = offered_functions(document)?.into_iter();
    Ok(functions.map(|function| function.name).collect())
}

/// Returns whether any function is declared.
pub fn declares_functions(document: &Document) -> Result<bool> {
    try_any(repeated(document, TOOLS)?.unwrap_or_default(), |tool| {
        let declarations = repeated_json(&tool, DECLARATIONS)?;
        Ok(declarations.is_some_and(|declarations| !declarations.is_empty()))
    })
}

/// Removes every tool that `keep` rejects: functions by their names, built-in tools by names
/// such as `googleSearch`. Adapts the list of functions that the model may call. Returns the
/// names of the removed tools.
pub fn withhold_tools(
    call: &Call,
    document: &mut Document,
    keep: &dyn Fn(&OfferedTool) -> bool,
) -> Result<Vec<String>> {
    let Some(mut inner) = counted_request(call, document)? else {
        return withhold(document, keep);
    };
    let withheld = withhold(&mut inner, keep)?;
    if !withheld.is_empty() {
        document.set_child(WRAPPED_REQUEST, &inner)?;
    }
    Ok(withheld)
}

fn withhold(document: &mut Document, keep: &dyn Fn(&OfferedTool) -> bool) -> Result<Vec<String>> {
    let mut withheld = Vec::new();
    edit_tools(document, |tool| {
        withhold_built_in(tool, keep, &mut withheld);
        retain_declarations(tool, |function| match function {
            Some(function) if !keep(&function) => {
                withheld.push(function.name);
                false
            }
            Some(_) | None => true,
        })
    })?;
    if !withheld.is_empty() {
        withhold_allowed_names(document, &withheld)?;
    }
    Ok(withheld)
}

/// Removes the declarations of functions and computer use that `keep` rejects, and tools without
/// any other field.
pub fn keep_declarations(
    document: &mut Document,
    keep: impl Fn(&OfferedTool) -> bool,
) -> Result<()> {
    edit_tools(document, |tool| {
        if offers_computer_use(tool)? && !keep(&OfferedTool::computer_use()) {
            tool.remove(COMPUTER_USE_FIELD)?;
        }
        retain_declarations(tool, |function| {
            function.is_some_and(|function| keep(&function))
        })
    })
}

/// Edits each tool, and removes those that have no field left.
fn edit_tools(
    document: &mut Document,
    edit: impl FnMut(&mut Document) -> Result<()>,
) -> Result<()> {
    let mut tools = repeated(document, TOOLS)?.unwrap_or_default();
    tools.iter_mut().try_for_each(edit)?;
    if !tools.iter().any(Document::is_edited) {
        return Ok(());
    }
    // Its place in the list of another API is no field of the tool.
    tools.retain(|tool| !tool.has_only(&[SOURCE]));
    document.set_children(TOOLS, &tools)
}

/// Removes the declarations of a tool that `keep` rejects, and the list if none is left.
fn retain_declarations(
    tool: &mut Document,
    mut keep: impl FnMut(Option<OfferedTool>) -> bool,
) -> Result<()> {
    let functions = repeated(tool, DECLARATIONS)?.unwrap_or_default();
    let kept = functions
        .iter()
        .map(|one| OfferedTool::read(one).map(&mut keep));
    let kept: Vec<bool> = kept.collect::<Result<_>>()?;
    let mut kept = kept.into_iter();
    retain_elements(tool, DECLARATIONS, |_| kept.next().unwrap_or(true))
}

/// Removes built-in tools, which are fields of a tool.
fn withhold_built_in(
    tool: &mut Document,
    keep: &dyn Fn(&OfferedTool) -> bool,
    withheld: &mut Vec<String>,
) {
    // Tools of other APIs keep their names.
    let has_source = tool.has(&[SOURCE]);
    let name = |key: &str| {
        if has_source {
            key.to_owned()
        } else {
            camel_case(key)
        }
    };
    let keys = tool.fields().map(|(key, _)| key);
    let built_in = keys.filter(|key| !DECLARATIONS.contains(&&**key) && key != SOURCE);
    let removed = built_in.filter(|key| {
        !keep(&OfferedTool {
            name: name(key),
            is_toolset: false,
        })
    });
    let removed: Vec<String> = removed.map(Into::into).collect();
    tool.write_fields(removed.iter().map(|key| (key, None)));
    withheld.extend(removed.iter().map(|key| name(key)));
}

/// Removes withheld functions from the list of those that the model may call.
fn withhold_allowed_names(document: &mut Document, withheld: &[String]) -> Result<()> {
    let withheld: HashSet<&str> = withheld.iter().map(String::as_str).collect();
    let has_functions = !declared_functions(document)?.is_empty();
    document.edit_child(TOOL_CONFIG, |config| {
        if !has_functions {
            if config.child(CALLING_CONFIG)?.is_some() {
                config.remove(CALLING_CONFIG)?;
            }
            return Ok(());
        }
        config.edit_child(CALLING_CONFIG, |calling| {
            let Some(Value::Array(mut names)) = calling.get(ALLOWED_NAMES)? else {
                return Ok(());
            };
            let count = names.len();
            names.retain(|name| !name.as_str().is_some_and(|name| withheld.contains(name)));
            if names.len() == count {
                Ok(())
            } else if names.is_empty() {
                // An absent list would allow every function.
                calling.remove(ALLOWED_NAMES)?;
                calling.set(&["mode"], &json!("NONE"))
            } else {
                calling.set(ALLOWED_NAMES, &names.into())
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::document::parse_document;

    #[track_caller]
    fn check(text: &str, kept: &[&str], withheld: &[&str], expected: &str) {
        let mut document = parse_document(text.to_owned().into()).unwrap();
        let names = withhold(&mut document, &|tool| kept.contains(&&*tool.name)).unwrap();
        assert_eq!(names, withheld);
        assert_eq!(document.to_text(), expected);
    }

    #[test]
    fn declarations_and_built_in_tools_are_removed() {
        check(
            r#"{"tools": [{"function_declarations": [{"name":"a"},{"name":"b"}]}, {"google_search":{}}], "x":1.0}"#,
            &["a"],
            &["b", "googleSearch"],
            r#"{"tools": [{"function_declarations": [{"name":"a"}]}], "x":1.0}"#,
        );
    }

    #[test]
    fn a_request_that_keeps_all_tools_keeps_its_bytes() {
        let text = r#"{"tools": [ {"functionDeclarations": [ ]} , {"googleSearch":{}} ]}"#;
        check(text, &["googleSearch"], &[], text);
    }

    #[test]
    fn the_allowed_function_names_follow() {
        let text = |names: &str| {
            format!(
                r#"{{"tools":[{{"functionDeclarations":[{{"name":"a"}},{{"name":"b"}}]}}],"toolConfig":{{"functionCallingConfig":{{"mode":"ANY","allowedFunctionNames":{names}}}}}}}"#
            )
        };
        check(
            &text(r#"["a","b"]"#),
            &["a"],
            &["b"],
            r#"{"tools":[{"functionDeclarations":[{"name":"a"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["a"]}}}"#,
        );
        check(
            &text(r#"["b"]"#),
            &["a"],
            &["b"],
            r#"{"tools":[{"functionDeclarations":[{"name":"a"}]}],"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}}"#,
        );
        check(
            &text(r#"["b"]"#),
            &[],
            &["a", "b"],
            r#"{"tools":[],"toolConfig":{}}"#,
        );
    }
}
