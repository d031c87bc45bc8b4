//! The tools that a request offers to the model: functions that the agent
//! declares, and tools of the model API itself. Pure.

use serde_json::json;

use super::{DialectError, Document, request::TOOL_CONFIG};

pub(super) const TOOLS: &[&str] = &["tools"];
const DECLARATIONS: &[&str] = &["functionDeclarations", "function_declarations"];
pub(super) const CALLING: &[&str] = &["functionCallingConfig", "function_calling_config"];
const ALLOWED: &[&str] = &["allowedFunctionNames", "allowed_function_names"];

/// The names of the declared functions, in order.
pub(super) fn declared(document: &Document) -> Result<Vec<String>, DialectError> {
    let mut names = Vec::new();
    for tool in document.children(TOOLS)?.unwrap_or_default() {
        for declaration in tool.children(DECLARATIONS)?.unwrap_or_default() {
            names.extend(declaration.string(&["name"])?);
        }
    }
    Ok(names)
}

/// Whether any function is declared.
pub(super) fn declares_any(document: &Document) -> Result<bool, DialectError> {
    for tool in document.children(TOOLS)?.unwrap_or_default() {
        if tool.lists_any(DECLARATIONS)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes every tool out that `keeps` does not keep: functions by their names,
/// the API's own tools by theirs, such as `googleSearch`. A list of functions
/// that may be called follows. The names of those taken out.
pub(super) fn withhold(
    document: &mut Document,
    keeps: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, DialectError> {
    let mut withheld = Vec::new();
    let mut kept = Vec::new();
    for mut tool in document.children(TOOLS)?.unwrap_or_default() {
        withhold_own(&mut tool, keeps, &mut withheld)?;
        let declarations = tool.children(DECLARATIONS)?.unwrap_or_default();
        let all = declarations.len();
        let mut left = Vec::with_capacity(all);
        for declaration in declarations {
            match declaration.string(&["name"])? {
                Some(name) if !keeps(&name) => withheld.push(name),
                Some(_) | None => left.push(declaration),
            }
        }
        put(&mut tool, all, &left)?;
        if !tool.is_empty() {
            kept.push(tool);
        }
    }
    if !withheld.is_empty() {
        document.set_children(TOOLS, &kept)?;
        withhold_names(document, &withheld)?;
    }
    Ok(withheld)
}

/// Takes the other declarations out, and tools that are empty then.
pub(super) fn keep(document: &mut Document, names: &[String]) -> Result<(), DialectError> {
    let mut kept = Vec::new();
    for mut tool in document.children(TOOLS)?.unwrap_or_default() {
        let declarations = tool.children(DECLARATIONS)?.unwrap_or_default();
        let all = declarations.len();
        let mut left = Vec::with_capacity(all);
        for declaration in declarations {
            let name = declaration.string(&["name"])?;
            if name.is_some_and(|it| names.contains(&it)) {
                left.push(declaration);
            }
        }
        put(&mut tool, all, &left)?;
        if !tool.is_empty() {
            kept.push(tool);
        }
    }
    document.set_children(TOOLS, &kept)
}

/// Those that are left of all declarations of one tool; without any, it is none of
/// functions.
fn put(tool: &mut Document, all: usize, left: &[Document]) -> Result<(), DialectError> {
    if left.len() == all {
        Ok(())
    } else if left.is_empty() {
        tool.remove(DECLARATIONS)
    } else {
        tool.set_children(DECLARATIONS, left)
    }
}

/// Takes the API's own tools out.
fn withhold_own(
    tool: &mut Document,
    keeps: &dyn Fn(&str) -> bool,
    withheld: &mut Vec<String>,
) -> Result<(), DialectError> {
    let own = tool.fields().map(|it| it.0);
    let own = own.filter(|it| !DECLARATIONS.contains(&it.as_str()));
    let refused: Vec<String> = own
        .filter(|it| !keeps(&camel_case(it)))
        .map(Into::into)
        .collect();
    for key in refused {
        tool.remove(&[&key])?;
        withheld.push(camel_case(&key));
    }
    Ok(())
}

/// A request must not demand calls of what it does not declare.
fn withhold_names(document: &mut Document, withheld: &[String]) -> Result<(), DialectError> {
    let nothing_declared = declared(document)?.is_empty();
    let Some(mut config) = document.child(TOOL_CONFIG)? else {
        return Ok(());
    };
    let Some(mut calling) = config.child(CALLING)? else {
        return Ok(());
    };
    if nothing_declared {
        config.remove(CALLING)?;
        return document.set_child(TOOL_CONFIG, &config);
    }
    let Some(serde_json::Value::Array(mut names)) = calling.get(ALLOWED)? else {
        return Ok(());
    };
    let before = names.len();
    names.retain(|name| !withheld.iter().any(|it| name == it));
    if names.len() == before {
        return Ok(());
    }
    if names.is_empty() {
        // No names at all would allow every function.
        calling.remove(ALLOWED)?;
        calling.set(&["mode"], &json!("NONE"))?;
    } else {
        calling.set(ALLOWED, &names.into())?;
    }
    config.set_child(CALLING, &calling)?;
    document.set_child(TOOL_CONFIG, &config)
}

/// `google_search` → `googleSearch`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|it| it.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, kept: &[&str], withheld: &[&str], expected: &str) {
        let mut document = Document::parse(text.to_owned().into()).unwrap();
        let names = withhold(&mut document, &|it| kept.contains(&it)).unwrap();
        assert_eq!(names, withheld);
        assert_eq!(document.to_text(), expected);
    }

    #[test]
    fn declarations_and_the_apis_own_tools_are_taken_out() {
        check(
            r#"{"tools": [{"function_declarations": [{"name":"a"},{"name":"b"}]}, {"google_search":{}}], "x":1.0}"#,
            &["a"],
            &["b", "googleSearch"],
            r#"{"tools": [{"function_declarations": [{"name":"a"}]}], "x":1.0}"#,
        );
    }

    #[test]
    fn nothing_is_touched_where_all_is_kept() {
        let text = r#"{"tools": [ {"functionDeclarations": [ ]} , {"googleSearch":{}} ]}"#;
        check(text, &["googleSearch"], &[], text);
    }

    #[test]
    fn names_that_may_be_called_follow() {
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
