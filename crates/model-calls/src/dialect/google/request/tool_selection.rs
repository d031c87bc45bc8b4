//! Selection of tools for a request (hook protocol, section 7).

use std::collections::{HashMap, HashSet};

use serde_json::json;

use crate::{
    dialect::{
        document::{Document, set_or_remove},
        error::Result,
        google::{
            fields::TOOL_CONFIG,
            part::FunctionCall,
            request::tool_declarations::{
                ALLOWED_NAMES, CALLING_CONFIG, ComputerUse, OfferedTool, keep_declarations,
                offered_functions,
            },
        },
    },
    model::{FunctionCallingMode, ToolConfig},
};

/// The functions that a response may call: those on every list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedFunctions {
    lists: Vec<HashSet<String>>,
    /// Computer use, if the request offers it.
    computer_use: Option<ComputerUse>,
}

impl AllowedFunctions {
    /// Returns whether every function that the request declares is allowed.
    pub const fn is_all(&self) -> bool {
        self.lists.is_empty()
    }

    /// Returns whether a response may make the call: each list has its function or its toolset.
    pub fn includes(&self, call: &FunctionCall) -> bool {
        let computer_use = self.computer_use.as_ref();
        let computer_use = computer_use.and_then(|tool| tool.name_for(call));
        let is_on = |names: &HashSet<String>| {
            let mut of_call = call.names().chain(computer_use);
            of_call.any(|name| names.contains(name))
        };
        self.lists.iter().all(is_on)
    }

    /// Returns what both a selection and the lists allow. An undeclared name may be that of a
    /// member of any toolset.
    fn restrict(&self, selection: &ToolConfig, declared: &[OfferedTool]) -> ToolConfig {
        // Of several declarations with a name, the first counts.
        let tools = declared.iter().rev();
        let tools = tools.map(|tool| (tool.name.as_str(), tool.is_toolset));
        let tools: HashMap<&str, bool> = tools.collect();
        let is_toolset = |name: &String| tools.get(name.as_str()) == Some(&true);
        let is_undeclared = |name: &String| !tools.contains_key(name.as_str());
        let mut restricted = selection.clone();
        for list in &self.lists {
            let has_toolset = list.iter().any(is_toolset);
            let has_undeclared = list.iter().any(is_undeclared);
            let is_related = |name: &&String| {
                is_undeclared(name) && has_toolset || is_toolset(name) && has_undeclared
            };
            let selected = restricted.allowed_function_names.iter();
            let names = list.iter().chain(selected.filter(is_related));
            let names: Vec<String> = names.cloned().collect();
            restricted = restricted.intersect(&ToolConfig::only(&names));
        }
        restricted
    }

    /// Adds the list of a selection.
    fn add(&mut self, mode: FunctionCallingMode, names: Vec<String>) {
        match mode {
            FunctionCallingMode::None => self.lists.push(HashSet::new()),
            FunctionCallingMode::Any | FunctionCallingMode::Auto if names.is_empty() => (),
            FunctionCallingMode::Any | FunctionCallingMode::Auto => {
                self.lists.push(names.into_iter().collect());
            }
        }
    }
}

/// Writes what both a selection of tools and an earlier one allow into a request. Undeclared names
/// are ignored, unless they may be those of a toolset's members. Returns the functions that remain.
pub fn write_tool_selection(
    document: &mut Document,
    selection: &ToolConfig,
    earlier: &AllowedFunctions,
) -> Result<AllowedFunctions> {
    use FunctionCallingMode as Mode;
    let declared = offered_functions(document)?;
    let selection = earlier.restrict(selection, &declared);
    let mut allowed = earlier.clone();
    if declared.is_empty() {
        // It holds for the response only: cached content may declare functions, and the API
        // refuses a selection beside it.
        let mode = selection.mode.unwrap_or_default();
        allowed.add(mode, selection.allowed_function_names);
        return Ok(allowed);
    }
    let declared_names = declared.iter().map(|function| function.name.as_str());
    let declared_names: HashSet<&str> = declared_names.collect();
    let is_declared = |name: &String| declared_names.contains(name.as_str());
    let has_toolset = declared.iter().any(|function| function.is_toolset);
    let selected = &selection.allowed_function_names;
    let names = selected.iter();
    let names = names.filter(|name| has_toolset || is_declared(name));
    let names: Vec<String> = names.cloned().collect();
    let mode = match selection.mode.unwrap_or_default() {
        _ if names.is_empty() && !selected.is_empty() => Mode::None,
        mode => mode,
    };
    // The API accepts names with mode `ANY` only, and not those of computer use.
    let is_listed = mode == Mode::Any && !names.is_empty() && accepts_names(&declared, &names);
    let listed = is_listed.then_some(names.as_slice());
    let is_new = write_calling_config(document, &selection, mode, listed)?;
    if is_new && mode != Mode::None && !names.is_empty() && !is_listed {
        let has_members = !names.iter().all(is_declared);
        let kept: HashSet<&String> = names.iter().collect();
        keep_declarations(document, |function| {
            kept.contains(&function.name) || function.is_toolset && has_members
        })?;
    }
    allowed.computer_use = allowed
        .computer_use
        .or_else(|| ComputerUse::among(&declared));
    allowed.add(mode, names);
    Ok(allowed)
}

/// Sets the mode and the names, and keeps other settings. Returns false for a selection that the
/// request has already. It stays as it was sent: hooks do not see every mode, such as `VALIDATED`.
fn write_calling_config(
    document: &mut Document,
    selection: &ToolConfig,
    mode: FunctionCallingMode,
    names: Option<&[String]>,
) -> Result<bool> {
    let mut config = document.child(TOOL_CONFIG)?.unwrap_or_default();
    let sent = config.get(CALLING_CONFIG)?;
    let sent = sent.as_ref().and_then(ToolConfig::read);
    if sent.as_ref() == Some(selection) && selection.mode.unwrap_or_default() == mode {
        return Ok(false);
    }
    let mut calling = config.child(CALLING_CONFIG)?.unwrap_or_default();
    calling.set(&["mode"], &json!(mode))?;
    set_or_remove(&mut calling, ALLOWED_NAMES, names.map(|names| json!(names)))?;
    config.set_child(CALLING_CONFIG, &calling)?;
    document.set_child(TOOL_CONFIG, &config)?;
    Ok(true)
}

/// Returns whether a request may list names: those of declared functions, or of members of a
/// toolset of another API.
fn accepts_names(declared: &[OfferedTool], names: &[String]) -> bool {
    let tools = declared.iter().filter(|tool| !tool.is_computer_use());
    if tools.clone().any(|tool| tool.is_toolset) {
        return true;
    }
    let accepted: HashSet<&String> = tools.map(|tool| &tool.name).collect();
    names.iter().all(|name| accepted.contains(name))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::Value;

    use super::*;
    use crate::dialect::document::parse_document;

    fn selected(text: &str, selection: &Value) -> (AllowedFunctions, String) {
        let mut document = parse_document(Bytes::from(text.to_owned())).unwrap();
        let selection = ToolConfig::read(selection).unwrap();
        let earlier = AllowedFunctions::default();
        let selected = write_tool_selection(&mut document, &selection, &earlier).unwrap();
        (selected, document.to_text())
    }

    fn only(names: &[&str]) -> AllowedFunctions {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        AllowedFunctions {
            lists: vec![names],
            computer_use: None,
        }
    }

    const TWO: &str = r#"{"tools":[{"function_declarations":[{"name":"a"},{"name":"b"}]},{"googleSearch":{}},{"functionDeclarations":[{"name":"c"}]}]}"#;

    #[test]
    fn auto_mode_with_names_removes_other_declarations() {
        let (bound, text) = selected(TWO, &json!({"allowedFunctionNames": ["a", "ghost"]}));
        assert_eq!(bound, only(&["a"]));
        assert_eq!(
            text,
            r#"{"tools":[{"function_declarations":[{"name":"a"}]},{"googleSearch":{}}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}}"#
        );
    }

    #[test]
    fn any_mode_keeps_declarations_and_lists_names() {
        let (bound, text) = selected(TWO, &json!({"mode": "ANY", "allowedFunctionNames": ["c"]}));
        assert_eq!(bound, only(&["c"]));
        assert!(text.ends_with(
            r#""toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["c"]}}}"#
        ));
    }

    #[test]
    fn undeclared_names_leave_no_tool() {
        let (bound, text) = selected(
            TWO,
            &json!({"mode": "ANY", "allowedFunctionNames": ["ghost"]}),
        );
        assert_eq!(bound, only(&[]));
        assert!(text.contains(r#"{"mode":"NONE"}"#));
    }

    #[test]
    fn an_undeclared_name_may_be_that_of_a_member_of_a_toolset() {
        let tools = r#"{"tools":[{"functionDeclarations":[{"name":"screen","hookgateToolset":true},{"name":"a"}]}]}"#;
        let (bound, text) = selected(tools, &json!({"allowedFunctionNames": ["click"]}));
        assert_eq!(bound, only(&["click"]));
        assert!(text.contains(r#""name":"screen""#) && !text.contains(r#""name":"a""#));
        let (_, text) = selected(tools, &json!({"allowedFunctionNames": ["a"]}));
        assert!(!text.contains("screen"), "{text}");
        let (_, text) = selected(
            tools,
            &json!({"mode": "ANY", "allowedFunctionNames": ["click"]}),
        );
        assert!(text.contains(r#"{"mode":"ANY","allowedFunctionNames":["click"]}"#));
    }

    #[test]
    fn names_of_computer_use_are_not_listed() {
        let tools = r#"{"tools":[{"functionDeclarations":[{"name":"a"},{"name":"b"}]},{"computerUse":{}}]}"#;
        let any = |names: &[&str]| {
            selected(
                tools,
                &json!({ "mode": "ANY", "allowedFunctionNames": names }),
            )
        };
        let (_, text) = any(&["a"]);
        assert!(text.contains(r#"{"mode":"ANY","allowedFunctionNames":["a"]}"#));
        let (allowed, text) = any(&["a", "computerUse"]);
        assert_eq!(
            text,
            r#"{"tools":[{"functionDeclarations":[{"name":"a"}]},{"computerUse":{}}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}"#
        );
        for (name, included) in [("a", true), ("click_at", true), ("b", false)] {
            let call = FunctionCall {
                name: name.to_owned(),
                toolset: None,
                arguments: Value::Null,
                is_partial: false,
            };
            assert_eq!(allowed.includes(&call), included, "{name}");
        }
    }

    #[test]
    fn lists_with_a_toolset_and_with_its_member_both_hold() {
        let tools =
            r#"{"tools":[{"functionDeclarations":[{"name":"screen","hookgateToolset":true}]}]}"#;
        let [screen, click] = ["screen", "click"].map(|name| HashSet::from([name.to_owned()]));
        let earlier = AllowedFunctions {
            lists: vec![screen, click],
            computer_use: None,
        };
        let mut document = parse_document(Bytes::from(tools)).unwrap();
        let auto = ToolConfig::read(&json!({ "mode": "AUTO" })).unwrap();

        let allowed = write_tool_selection(&mut document, &auto, &earlier).unwrap();

        let text = document.to_text();
        assert!(text.contains(r#"{"mode":"AUTO"}"#), "{text}");
        assert!(text.contains(r#""name":"screen""#), "{text}");
        let call = |name: &str| FunctionCall {
            name: name.to_owned(),
            toolset: Some("screen".to_owned()),
            arguments: Value::Null,
            is_partial: false,
        };
        assert!(allowed.includes(&call("click")) && !allowed.includes(&call("key")));
    }

    #[test]
    fn a_selected_toolset_includes_its_members() {
        let call = FunctionCall {
            name: "click".to_owned(),
            toolset: Some("screen".to_owned()),
            arguments: Value::Null,
            is_partial: false,
        };
        for (names, included) in [(&["screen"], true), (&["click"], true), (&["key"], false)] {
            assert_eq!(only(names).includes(&call), included, "{names:?}");
        }
    }

    #[test]
    fn other_tool_settings_are_kept() {
        let text = r#"{"tools":[{"functionDeclarations":[{"name":"a"}]}],"tool_config":{"retrieval_config":{"x":1.0},"function_calling_config":{"mode":"ANY"}}}"#;
        let (bound, text) = selected(text, &json!({"mode": "AUTO"}));
        assert_eq!(bound, AllowedFunctions::default());
        assert!(text.ends_with(r#""tool_config":{"retrieval_config":{"x":1.0},"function_calling_config":{"mode":"AUTO"}}}"#));
    }

    #[test]
    fn functions_of_cached_content_are_selected_in_the_response_only() {
        let request = r#"{"cachedContent":"cachedContents/c"}"#;
        let any = json!({ "mode": "ANY", "allowedFunctionNames": ["a"] });
        for (selection, expected) in [
            (any, only(&["a"])),
            (json!({ "mode": "NONE" }), only(&[])),
            (json!({ "mode": "ANY" }), AllowedFunctions::default()),
        ] {
            let (allowed, text) = selected(request, &selection);
            assert_eq!((allowed, text.as_str()), (expected, request));
        }
    }

    #[test]
    fn a_request_without_functions_is_unchanged_and_its_response_restricted() {
        let (bound, text) = selected(
            r#"{"tools":[{"googleSearch":{}}]}"#,
            &json!({"mode": "NONE"}),
        );
        assert_eq!(bound, only(&[]));
        assert_eq!(text, r#"{"tools":[{"googleSearch":{}}]}"#);
    }
}
