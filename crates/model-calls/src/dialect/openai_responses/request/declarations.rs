//! Declared tools, wherever a request declares them: in `tools`, in namespaces, and in items
//! of the conversation.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    content_form::{SOURCE, hosted_tool, source_of, with_source},
    document::{Document, insert, write_array},
    error::{Result, field_error},
    openai::hosted_search::{SEARCH_TOOL, has_search, remove_search},
    openai_responses::{
        calls::{ToolCallKind, name_in},
        fields::{NAME, TOOLS, TYPE},
        request::input::{Input, InputItem, InputKind},
    },
};

const DECLARATIONS: &[&str] = &["functionDeclarations"];

/// The tools that a request declares, in the order of the content form.
#[derive(Debug, Default)]
pub struct Declarations {
    entries: Vec<Declaration>,
}

/// A declared tool that the agent runs.
#[derive(Debug, Clone, Copy)]
pub struct ToolDeclaration<'a> {
    pub kind: ToolCallKind,
    pub namespace: Option<&'a str>,
    /// Name in the list that declares it.
    pub name: &'a str,
}

/// Declared tools that the agent runs, by their names.
#[derive(Debug)]
pub struct DeclaredNames<'a>(HashMap<&'a str, ToolDeclaration<'a>>);

impl DeclaredNames<'_> {
    /// Returns how a tool is declared; an undeclared one counts as a function.
    pub fn find<'n>(&'n self, name: &'n str) -> ToolDeclaration<'n> {
        let declared = self.0.get(name).copied();
        declared.unwrap_or(ToolDeclaration {
            kind: ToolCallKind::Function,
            namespace: None,
            name,
        })
    }
}

/// One entry of a list of tools.
#[derive(Debug)]
struct Declaration {
    place: DeclarationPlace,
    /// Entry of a list of tools; empty in other places.
    tool: Document,
    form: DeclarationForm,
}

/// List that holds a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DeclarationPlace {
    /// `tools` of the request.
    Request,
    /// `tools` of an item of the input.
    Item(usize),
    /// An item that lists the tools of an MCP server.
    WholeItem(usize),
    /// Fields of the request that switch a search on.
    Search,
}

#[derive(Debug)]
enum DeclarationForm {
    /// A tool that the agent runs, or those of a namespace.
    Agent {
        namespace: Option<String>,
        tools: Vec<AgentTool>,
    },
    /// A tool that runs upstream, by its type or its server.
    Hosted(String),
}

#[derive(Debug)]
struct AgentTool {
    kind: ToolCallKind,
    name: String,
    /// Name in the list that declares it.
    declared_name: String,
    description: Option<Value>,
    schema: Option<Value>,
}

impl AgentTool {
    fn read(kind: ToolCallKind, tool: &Document) -> Result<Self> {
        if tool.has(&["function"]) {
            let expected = "absent, because the name is beside it";
            return Err(field_error("function", expected));
        }
        let name = kind.name(tool)?;
        Ok(Self {
            kind,
            declared_name: name.clone(),
            name,
            description: tool.get(&["description"])?,
            schema: tool.get(&["parameters"])?,
        })
    }

    fn form(&self, index: usize) -> Value {
        let mut form = json!({ "name": self.name });
        for (key, value) in [
            ("description", &self.description),
            ("parametersJsonSchema", &self.schema),
        ] {
            if let Some(value) = value.as_ref().filter(|value| !value.is_null()) {
                insert(&mut form, key, value.clone());
            }
        }
        with_source(form, index)
    }
}

impl DeclarationForm {
    fn read(tool: &Document) -> Result<Self> {
        let Some(named) = tool.string(TYPE)? else {
            return Err(field_error("type", "the type of a tool"));
        };
        if let Some(kind) = ToolCallKind::of_declaration(tool)? {
            return Ok(Self::Agent {
                namespace: None,
                tools: vec![AgentTool::read(kind, tool)?],
            });
        }
        Ok(match named.as_str() {
            "namespace" => Self::of_namespace(tool)?,
            "mcp" => Self::Hosted(server_name(tool)?),
            _ => Self::Hosted(named),
        })
    }

    fn of_namespace(namespace: &Document) -> Result<Self> {
        let name = namespace.string(NAME)?.unwrap_or_default();
        let tools = namespace.children(TOOLS)?.unwrap_or_default();
        let tools = tools.iter().map(|tool| {
            let kind = ToolCallKind::of_declaration(tool)?;
            let expected = "a list of tools that the agent runs";
            let kind = kind.ok_or_else(|| field_error("namespace", expected))?;
            let mut tool = AgentTool::read(kind, tool)?;
            tool.name = name_in(&name, &tool.name);
            Ok(tool)
        });
        let tools = tools.collect::<Result<_>>()?;
        let namespace = Some(name);
        Ok(Self::Agent { namespace, tools })
    }

    fn form(&self, tool: &Document, number: usize) -> Result<Value> {
        Ok(match self {
            Self::Agent { tools, .. } => {
                let tools = tools.iter().enumerate();
                let tools: Vec<Value> = tools.map(|(index, tool)| tool.form(index)).collect();
                json!({ "functionDeclarations": tools, SOURCE: number })
            }
            Self::Hosted(name) => hosted_tool(name, tool, number)?,
        })
    }
}

/// Returns the name by which policies select the tools of an MCP server.
fn server_name(tool: &Document) -> Result<String> {
    let label = tool.string(&["server_label"])?;
    let label = label.ok_or_else(|| field_error("server_label", "the label of a server"))?;
    Ok(format!("mcp:{label}"))
}

impl Declarations {
    /// Reads every declaration of a request.
    pub fn read(body: &Document, input: &Input) -> Result<Self> {
        let mut declarations = Self::default();
        let tools = body.children(TOOLS)?.unwrap_or_default();
        declarations.add(DeclarationPlace::Request, tools)?;
        for (index, item) in input.items.iter().enumerate() {
            if item.kind != InputKind::Hidden {
                continue;
            }
            if item.document.string(TYPE)?.as_deref() == Some("mcp_list_tools") {
                declarations.entries.push(Declaration {
                    place: DeclarationPlace::WholeItem(index),
                    form: DeclarationForm::Hosted(server_name(&item.document)?),
                    tool: Document::empty(),
                });
                continue;
            }
            let tools = item.document.children(TOOLS)?.unwrap_or_default();
            declarations.add(DeclarationPlace::Item(index), tools)?;
        }
        if has_search(body)? {
            declarations.entries.push(Declaration {
                place: DeclarationPlace::Search,
                form: DeclarationForm::Hosted(SEARCH_TOOL.to_owned()),
                tool: Document::empty(),
            });
        }
        Ok(declarations)
    }

    fn add(&mut self, place: DeclarationPlace, tools: Vec<Document>) -> Result<()> {
        for tool in tools {
            let form = DeclarationForm::read(&tool)?;
            self.entries.push(Declaration { place, tool, form });
        }
        Ok(())
    }

    /// Returns the declared tools that run upstream.
    pub fn hosted(&self) -> impl Iterator<Item = &Document> {
        let is_hosted = |entry: &&Declaration| matches!(entry.form, DeclarationForm::Hosted(_));
        let hosted = self.entries.iter().filter(is_hosted);
        hosted.map(|entry| &entry.tool)
    }

    /// Returns the tools of the content form; `None` if there are none.
    pub fn form(&self) -> Result<Option<Value>> {
        let entries = self.entries.iter().enumerate();
        let tools = entries.map(|(number, entry)| entry.form.form(&entry.tool, number));
        let tools: Vec<Value> = tools.collect::<Result<_, _>>()?;
        Ok((!tools.is_empty()).then_some(Value::Array(tools)))
    }

    /// Returns how each tool is declared that the agent runs, by its name.
    pub fn by_name(&self) -> DeclaredNames<'_> {
        let mut declared = HashMap::new();
        for (namespace, tool) in self.agent_tools() {
            declared
                .entry(tool.name.as_str())
                .or_insert(ToolDeclaration {
                    kind: tool.kind,
                    namespace,
                    name: &tool.declared_name,
                });
        }
        DeclaredNames(declared)
    }

    /// Returns the names of the tools that are declared with each name, in any namespace.
    pub fn names(&self) -> HashMap<&str, Vec<&str>> {
        let mut names: HashMap<&str, Vec<&str>> = HashMap::new();
        for (_, tool) in self.agent_tools() {
            let of_declared = names.entry(&tool.declared_name).or_default();
            of_declared.push(&tool.name);
        }
        names
    }

    /// Returns the tools that the agent runs, with their namespaces.
    fn agent_tools(&self) -> impl Iterator<Item = (Option<&str>, &AgentTool)> {
        self.entries.iter().flat_map(|entry| {
            let (namespace, tools) = match &entry.form {
                DeclarationForm::Agent { namespace, tools } => {
                    (namespace.as_deref(), tools.as_slice())
                }
                DeclarationForm::Hosted(_) => (None, [].as_slice()),
            };
            tools.iter().map(move |tool| (namespace, tool))
        })
    }

    /// Returns the names of the tools that run upstream.
    pub fn hosted_names(&self) -> HashSet<&str> {
        let names = self.entries.iter().filter_map(|entry| match &entry.form {
            DeclarationForm::Hosted(name) => Some(name.as_str()),
            DeclarationForm::Agent { .. } => None,
        });
        names.collect()
    }

    /// Removes the tools that the edited content form lacks. Returns whether any is left.
    pub fn write(
        &self,
        body: &mut Document,
        input: &mut Input,
        before: &Document,
        after: &Document,
    ) -> Result<bool> {
        if before.bytes_of(TOOLS)? == after.bytes_of(TOOLS)? {
            return Ok(!self.entries.is_empty());
        }
        let mut kept = BTreeMap::new();
        for tool in after.children(TOOLS)?.unwrap_or_default() {
            let number = source_of(&tool);
            let number = number.ok_or_else(|| field_error("tools", "those of the request"))?;
            kept.insert(number, tool);
        }
        let mut lists: BTreeMap<DeclarationPlace, Vec<Bytes>> = BTreeMap::new();
        for (number, entry) in self.entries.iter().enumerate() {
            let written = edit(entry, kept.get(&number))?;
            lists.entry(entry.place).or_default().extend(written);
        }
        let is_any_left = lists.values().any(|list| !list.is_empty());
        for (place, list) in lists {
            match place {
                // The list may not be empty.
                DeclarationPlace::Request if list.is_empty() => body.remove(TOOLS)?,
                DeclarationPlace::Request => body.set_bytes(TOOLS, write_array(list))?,
                DeclarationPlace::Item(index) | DeclarationPlace::WholeItem(index) => {
                    if let Some(item) = input.items.get_mut(index) {
                        write_item(item, place, &list)?;
                    }
                }
                DeclarationPlace::Search if list.is_empty() => remove_search(body)?,
                DeclarationPlace::Search => (),
            }
        }
        Ok(is_any_left)
    }
}

/// Writes the tools of an item. A list that answers no search is removed with its item.
fn write_item(item: &mut InputItem, place: DeclarationPlace, list: &[Bytes]) -> Result<()> {
    let mut document = item.document.clone();
    let is_whole = matches!(place, DeclarationPlace::WholeItem(_));
    let is_additional = document.string(TYPE)?.as_deref() == Some("additional_tools");
    if list.is_empty() && (is_whole || is_additional) {
        item.edit = Some(Vec::new());
    } else if !is_whole {
        document.set_bytes(TOOLS, write_array(list))?;
        item.edit = Some(vec![document.to_bytes()]);
    }
    Ok(())
}

/// Returns an entry of which `kept` is left in the content form, without the tools that were
/// removed; `None` if none is left.
fn edit(entry: &Declaration, kept: Option<&Document>) -> Result<Option<Bytes>> {
    let Some(kept) = kept else {
        return Ok(None);
    };
    let declared = kept.children(DECLARATIONS)?.unwrap_or_default();
    let is_kept = match &entry.form {
        DeclarationForm::Hosted(name) => kept.has(&[name.as_str()]),
        DeclarationForm::Agent {
            namespace: None, ..
        } => !declared.is_empty(),
        DeclarationForm::Agent { tools, .. } => {
            let listed = entry.tool.list(TOOLS)?.unwrap_or_default();
            let sources = declared.iter().filter_map(source_of);
            let left: Vec<&Bytes> = sources.filter_map(|source| listed.get(source)).collect();
            if left.len() != tools.len() && !left.is_empty() {
                let mut edited = entry.tool.clone();
                edited.set_bytes(TOOLS, write_array(left))?;
                return Ok(Some(edited.to_bytes()));
            }
            left.len() == tools.len()
        }
    };
    Ok(is_kept.then(|| entry.tool.to_bytes()))
}
