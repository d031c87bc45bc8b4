//! Withheld tools, removed wherever they are declared, and the choice of the others.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;

use crate::dialect::{
    anthropic::{
        fields::{DECLARATIONS, TOOL_CHANGES, type_of},
        request::{
            declared_tools::{DeclaredTool, MCP_SERVERS, TOOLS, ToolPlace, referred_tool},
            input_messages::{CalledTools, InputMessage, InputRole},
            parameters::thinks,
            tool_choice::ToolChoice,
            tool_references::remove_references,
        },
    },
    content_form::{SOURCE, source_of},
    document::{Document, retain_elements},
    error::Result,
};

/// Edit of the declared tools.
#[derive(Debug, Default)]
pub struct ToolsEdit<'a> {
    withheld: HashSet<ToolPlace>,
    withheld_names: HashSet<&'a str>,
    /// Names of the other tools, which may be the same.
    kept_names: HashSet<&'a str>,
    /// The new choice, if it changes.
    choice: Option<ToolChoice>,
}

impl<'a> ToolsEdit<'a> {
    /// Compares the declarations and the choice of a body with the edited ones.
    pub fn new(
        body: &Document,
        form: &Document,
        declared: &'a [DeclaredTool],
        calls: &CalledTools,
    ) -> Result<Self> {
        let kept = kept_numbers(form)?;
        let numbers = (0..declared.len()).filter(|number| !kept.contains(number));
        let mut withheld: BTreeSet<usize> = numbers.collect();
        let (old, new) = (ToolChoice::of_body(body)?, ToolChoice::of_form(form)?);
        if withheld.is_empty() && old == new {
            return Ok(Self::default());
        }
        let mut choice = possible_choice(new, thinks(body)?, declared, &mut withheld);
        if keep_called(declared, calls, &mut withheld) {
            choice = ToolChoice::None;
        }
        if withheld.len() == declared.len() {
            // The API refuses a choice without tools.
            choice = ToolChoice::Unset;
        }
        let mut edit = Self {
            choice: (choice != old).then_some(choice),
            ..Self::default()
        };
        edit.add_tools(declared, &withheld);
        Ok(edit)
    }

    /// Adds the declared tools, of which those with the numbers are `withheld`.
    fn add_tools(&mut self, declared: &'a [DeclaredTool], withheld: &BTreeSet<usize>) {
        for (number, tool) in declared.iter().enumerate() {
            if withheld.contains(&number) {
                self.withheld.insert(tool.place);
                self.withheld_names.insert(&tool.name);
            } else {
                self.kept_names.insert(&tool.name);
            }
        }
    }

    /// Writes the edit to the body, and to the messages that declare tools.
    pub fn write(
        &self,
        body: &mut Document,
        messages: &mut [InputMessage],
        originals: &mut [Bytes],
    ) -> Result<()> {
        if let Some(choice) = &self.choice {
            choice.write(body)?;
        }
        if self.withheld.is_empty() {
            return Ok(());
        }
        let keeps = |place: ToolPlace| !self.withheld.contains(&place);
        retain_elements(body, TOOLS, |index| keeps(ToolPlace::Tools(index)))?;
        retain_elements(body, MCP_SERVERS, |index| {
            keeps(ToolPlace::McpServers(index))
        })?;
        for (index, message) in messages.iter_mut().enumerate() {
            if self.write_message(index, message)?
                && let Some(original) = originals.get_mut(index)
            {
                let blocks = message.blocks.iter();
                let blocks = blocks.filter(|block| !block.is_empty());
                let blocks: Vec<Bytes> = blocks.map(Document::to_bytes).collect();
                *original = message.with_blocks(&blocks)?;
                if !original.is_empty() {
                    message.document = Document::from_checked(original.clone())?;
                }
            }
        }
        Ok(())
    }

    /// Removes the references to withheld tools from messages, unless another tool has the name.
    /// A name that is not declared may be that of a tool of a withheld MCP server.
    pub fn remove_references(&self, messages: &mut [Bytes]) -> Result<()> {
        if self.withheld.is_empty() {
            return Ok(());
        }
        let mut names = self.withheld_names.iter();
        let withholds_server = names.any(|name| name.starts_with("mcp:"));
        let is_withheld = |name: &str| {
            let is_named = withholds_server || self.withheld_names.contains(name);
            is_named && !self.kept_names.contains(name)
        };
        let mut messages = messages.iter_mut();
        messages.try_for_each(|message| remove_references(message, &is_withheld))
    }

    /// Removes withheld tools from a message. A removed block becomes empty, so that the others
    /// keep their indexes. Returns whether any was removed.
    fn write_message(&self, index: usize, message: &mut InputMessage) -> Result<bool> {
        let mut is_edited = false;
        let mut kept = Vec::with_capacity(message.blocks.len());
        for (number, mut block) in std::mem::take(&mut message.blocks).into_iter().enumerate() {
            let kind = type_of(&block)?;
            let is_change = message.role == InputRole::System
                && matches!(kind.as_str(), "tool_addition" | "tool_removal");
            let place = ToolPlace::Message {
                message: index,
                block: number,
            };
            if is_change && (self.withheld.contains(&place) || self.refers_to_withheld(&block)?) {
                is_edited = true;
                block = Document::empty();
            }
            if kind == "compaction" {
                self.write_compaction(index, number, &mut block)?;
                is_edited |= block.is_edited();
                block = Document::from_checked(block.to_bytes())?;
            }
            kept.push(block);
        }
        message.blocks = kept;
        Ok(is_edited)
    }

    fn write_compaction(
        &self,
        message: usize,
        block: usize,
        document: &mut Document,
    ) -> Result<()> {
        let changes = document.children(TOOL_CHANGES)?.unwrap_or_default();
        let mut kept = Vec::with_capacity(changes.len());
        for (change, addition) in changes.iter().enumerate() {
            let place = ToolPlace::Compaction {
                message,
                block,
                change,
            };
            if !self.withheld.contains(&place) && !self.refers_to_withheld(addition)? {
                kept.push(addition);
            }
        }
        if kept.len() < changes.len() {
            document.set_children(TOOL_CHANGES, kept)?;
        }
        Ok(())
    }

    fn refers_to_withheld(&self, change: &Document) -> Result<bool> {
        let name = referred_tool(change)?;
        Ok(name.is_some_and(|name| self.withheld_names.contains(name.as_str())))
    }
}

/// Returns the numbers of the tools that are still declared.
fn kept_numbers(form: &Document) -> Result<BTreeSet<usize>> {
    let mut kept = BTreeSet::new();
    for tool in form.children(&["tools"])?.unwrap_or_default() {
        match tool.children(DECLARATIONS)? {
            Some(declarations) => {
                for declaration in &declarations {
                    kept.extend(source_of(declaration));
                }
            }
            None if tool.fields().any(|(key, _)| key != SOURCE) => kept.extend(source_of(&tool)),
            None => (),
        }
    }
    Ok(kept)
}

/// Returns a choice that the API has. Names that it cannot express withhold the other functions
/// instead. A name that is not declared may be that of a toolset's member.
fn possible_choice(
    choice: ToolChoice,
    thinks: bool,
    declared: &[DeclaredTool],
    withheld: &mut BTreeSet<usize>,
) -> ToolChoice {
    let ToolChoice::Any(names) = choice else {
        return choice;
    };
    let names: HashSet<String> = names.into_iter().collect();
    let declared_names: HashSet<&str> = declared.iter().map(|tool| tool.name.as_str()).collect();
    let is_declared = |name: &String| declared_names.contains(name.as_str());
    let has_members = !names.iter().all(is_declared);
    let is_chosen =
        |tool: &DeclaredTool| names.contains(&tool.name) || tool.is_toolset && has_members;
    let mut toolsets = declared.iter().filter(|tool| tool.is_toolset);
    let has_toolset = toolsets.any(is_chosen);
    if names.len() > 1 || !names.is_empty() && (thinks || has_toolset) {
        let others = declared.iter().enumerate();
        let others = others.filter(|(_, tool)| tool.is_function && !is_chosen(tool));
        withheld.extend(others.map(|(number, _)| number));
    }
    match names.len() {
        // With thinking, the API refuses to force a tool.
        _ if thinks => ToolChoice::Auto,
        // Neither a toolset nor its members can be forced.
        1 if !has_toolset => ToolChoice::Any(names.into_iter().collect()),
        _ => ToolChoice::Any(Vec::new()),
    }
}

/// Keeps the functions that were called, if no tool would be left: the API refuses a conversation
/// with calls and without tools. Returns whether any is kept.
fn keep_called(
    declared: &[DeclaredTool],
    calls: &CalledTools,
    withheld: &mut BTreeSet<usize>,
) -> bool {
    if withheld.len() < declared.len() {
        return false;
    }
    withheld.retain(|number| {
        let tool = declared.get(*number);
        !tool.is_some_and(|tool| tool.is_function && calls.contains(&tool.name))
    });
    withheld.len() < declared.len()
}
