//! Synthetic items: contents that hooks or hookgate added to a conversation.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::PRECEDING,
    document::{Document, insert, to_value, value_text},
    error::Result,
    google::fields::{FUNCTION_CALL, FUNCTION_RESPONSE, PARTS, PHASE},
    openai_responses::{
        calls::{ToolCallKind, call_id, input_text},
        fields::{ID, NAME, ROLE},
        preceding::current_items,
        request::{
            content::new_block,
            declarations::{Declarations, DeclaredNames},
            input::{Input, InputKind},
            results::new_result,
        },
    },
};

/// Creates items for contents that are not the agent's.
pub struct NewItems<'a> {
    declared: DeclaredNames<'a>,
    /// Kinds of the calls so far, by their ids.
    kinds: HashMap<String, ToolCallKind>,
    /// Number of calls and results so far that have no id.
    unnumbered: usize,
}

impl<'a> NewItems<'a> {
    /// Prepares new items for a request.
    pub fn new(declarations: &'a Declarations, input: &Input) -> Result<Self> {
        let mut kinds = HashMap::new();
        for item in &input.items {
            if let InputKind::Call(kind) = item.kind {
                kinds.extend(call_id(&item.document)?.map(|id| (id, kind)));
            }
        }
        Ok(Self {
            declared: declarations.by_name(),
            kinds,
            unnumbered: 0,
        })
    }

    /// Creates the items of a content.
    pub fn of_content(&mut self, content: &Document) -> Result<Vec<Bytes>> {
        let is_model = content.string(ROLE)?.as_deref() == Some("model");
        let parts = content.children(PARTS)?.unwrap_or_default();
        self.of_parts(is_model, &parts)
    }

    /// Creates the items of parts. Neighbouring texts of one phase become one message.
    pub fn of_parts(&mut self, is_model: bool, parts: &[Document]) -> Result<Vec<Bytes>> {
        let (role, text_type) = if is_model {
            ("assistant", "output_text")
        } else {
            ("user", "input_text")
        };
        let mut items = Vec::new();
        // Messages in the place of results, which follow all results.
        let mut messages = Vec::new();
        let mut blocks: Vec<Value> = Vec::new();
        let mut phase = None;
        let close = |blocks: &mut Vec<Value>, phase: Option<String>, items: &mut Vec<Bytes>| {
            if !blocks.is_empty() {
                let content = std::mem::take(blocks);
                let mut message = json!({ "type": "message", "role": role, "content": content });
                if let Some(phase) = phase {
                    insert(&mut message, "phase", phase);
                }
                items.push(message.to_string().into());
            }
        };
        for part in parts {
            let new = match (part.child(FUNCTION_CALL)?, part.child(FUNCTION_RESPONSE)?) {
                (Some(call), _) => self.call(part, &call)?,
                (None, Some(response)) => {
                    let result = self.result(&response)?;
                    if result.get("role").is_some() {
                        messages.push(Bytes::from(result.to_string()));
                        continue;
                    }
                    vec![result]
                }
                (None, None) if part.has(&[PRECEDING]) => {
                    let items = current_items(part)?;
                    items.iter().map(to_value).collect::<Result<_>>()?
                }
                (None, None) => {
                    let own = part.string(&[PHASE])?;
                    if own != phase {
                        let last = std::mem::replace(&mut phase, own);
                        close(&mut blocks, last, &mut items);
                    }
                    blocks.extend(new_block(text_type, part)?);
                    continue;
                }
            };
            close(&mut blocks, phase.take(), &mut items);
            items.extend(new.iter().map(|item| Bytes::from(item.to_string())));
        }
        close(&mut blocks, phase.take(), &mut items);
        items.append(&mut messages);
        Ok(items)
    }

    /// Returns the items of a call: the model's own, with the reasoning in front of it, or
    /// one in the form in which the tool is declared.
    fn call(&mut self, part: &Document, call: &Document) -> Result<Vec<Value>> {
        let items = current_items(part)?;
        let Some(last) = items.last() else {
            return Ok(vec![self.new_call(call)?]);
        };
        if let (Some(kind), Some(id)) = (ToolCallKind::of_call(last)?, call_id(last)?) {
            self.kinds.insert(id, kind);
            if kind == ToolCallKind::Computer {
                // Its result would have to be a screenshot.
                return Ok(Vec::new());
            }
        }
        items.iter().map(to_value).collect()
    }

    fn new_call(&mut self, call: &Document) -> Result<Value> {
        let name = call.string(NAME)?.unwrap_or_default();
        let arguments = call.get(&["args"])?.unwrap_or_else(|| json!({}));
        let id = self.id(call)?;
        let tool = self.declared.find(&name);
        let kind = match tool.kind {
            // The model's own calls have fields that hooks do not see.
            ToolCallKind::Computer | ToolCallKind::ToolSearch => ToolCallKind::Function,
            kind => kind,
        };
        self.kinds.insert(id.clone(), kind);
        let mut item = Map::new();
        let mut add = |key: &str, value: Value| drop(item.insert(key.to_owned(), value));
        add("type", kind.call_type().into());
        if kind == ToolCallKind::LocalShell {
            add("id", id.as_str().into());
        }
        add("call_id", id.into());
        let input = kind.inputs().first().copied().unwrap_or_default();
        if kind.fixed_name().is_some() {
            add(input, arguments);
            add("status", "completed".into());
            return Ok(Value::Object(item));
        }
        add("name", tool.name.into());
        if kind == ToolCallKind::Custom {
            add(input, input_text(&arguments).into());
        } else {
            add(input, value_text(&arguments).into());
        }
        if let Some(namespace) = tool.namespace {
            add("namespace", namespace.into());
        }
        Ok(Value::Object(item))
    }

    fn result(&mut self, response: &Document) -> Result<Value> {
        let id = self.id(response)?;
        let kind = self.kinds.get(&id).copied();
        let inner = response.child(&["response"])?.unwrap_or_default();
        new_result(kind.unwrap_or(ToolCallKind::Function), &id, &inner)
    }

    /// Returns the id of a call or a result. The n-th call without an id has the id of the
    /// n-th result without one.
    fn id(&mut self, element: &Document) -> Result<String> {
        if let Some(id) = element.string(ID)? {
            return Ok(id);
        }
        let number = self.unnumbered;
        self.unnumbered += 1;
        Ok(format!("call_hookgate_{number}"))
    }
}
