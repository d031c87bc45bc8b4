//! The conversation: items of the input as contents, and edited contents written back.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    content_form::{SOURCE, source_of, with_source},
    document::{Document, count_values, is_set, try_any},
    error::Result,
    google::fields::{CONTENTS, FUNCTION_RESPONSE, PARTS},
    openai_responses::{
        calls::{ToolCallKind, call_id, call_part},
        fields::{CALL_ID, ID, NAME, TYPE},
        preceding::{is_same_reasoning, reasoning_of},
        request::{
            content::{read_blocks, write_blocks},
            declarations::Declarations,
            input::{Input, InputItem, InputKind},
            new_items::NewItems,
            results::{hides_screenshot, read_result, write_result, write_screenshot},
        },
        visible_fields::{visible_fields, write_item},
    },
};

/// Returns the contents of a request.
pub fn read_contents(input: &Input) -> Result<Value> {
    let names = call_names(input)?;
    let (mut contents, mut values) = (Vec::new(), 0);
    for (index, item) in input.items.iter().enumerate() {
        let document = &item.document;
        let (role, parts) = match item.kind {
            InputKind::User => ("user", read_blocks(document)?),
            InputKind::Assistant => ("model", read_blocks(document)?),
            InputKind::Call(kind) => ("model", vec![with_source(call_part(kind, document)?, 0)]),
            InputKind::Result(kind) => ("user", vec![read_tool_result(kind, document, &names)?]),
            InputKind::Hosted => ("model", vec![read_whole(document)?]),
            InputKind::Unknown => ("user", vec![read_whole(document)?]),
            InputKind::System | InputKind::Reasoning | InputKind::Hidden => continue,
        };
        let mut read = parts.iter();
        read.try_for_each(|part| count_values(&mut values, part))?;
        contents.push(json!({ "role": role, "parts": parts, SOURCE: index }));
    }
    Ok(Value::Array(contents))
}

/// Returns the part of an item that is shown whole.
fn read_whole(item: &Document) -> Result<Value> {
    Ok(json!({ "block": visible_fields(item)?, SOURCE: 0 }))
}

/// Returns the names of the called tools by the ids of the calls.
fn call_names(input: &Input) -> Result<HashMap<String, String>> {
    let mut names = HashMap::new();
    for item in &input.items {
        if let InputKind::Call(kind) = item.kind
            && let Some(id) = call_id(&item.document)?
        {
            names.insert(id, kind.name(&item.document)?);
        }
    }
    Ok(names)
}

fn read_tool_result(
    kind: ToolCallKind,
    item: &Document,
    names: &HashMap<String, String>,
) -> Result<Value> {
    let id = call_id(item)?;
    let name = match id.as_ref().and_then(|id| names.get(id)) {
        Some(name) => name.clone(),
        None => item.string(NAME)?.unwrap_or_default(),
    };
    let response = read_result(kind, item, id.as_deref(), &name)?;
    Ok(json!({ "functionResponse": response, SOURCE: 0 }))
}

/// Writes edited contents into the input.
pub fn write_contents(
    input: &mut Input,
    declarations: &Declarations,
    before: &Document,
    after: &Document,
) -> Result<()> {
    if before.bytes_of(CONTENTS)? == after.bytes_of(CONTENTS)? {
        return Ok(());
    }
    let mut originals = HashMap::new();
    for content in before.children(CONTENTS)?.unwrap_or_default() {
        originals.extend(source_of(&content).map(|index| (index, content)));
    }
    let contents = after.children(CONTENTS)?.unwrap_or_default();
    let mut returned = Vec::new();
    let new = contents
        .iter()
        .filter(|content| source_of(content).is_none());
    for content in new {
        for part in content.children(PARTS)?.unwrap_or_default() {
            returned.extend(reasoning_of(&part)?);
        }
    }
    let mut writer = ItemWriter {
        items: &input.items,
        calls_without_result: calls_without_result(&input.items, &originals, &contents)?,
        originals,
        returned,
        new_items: NewItems::new(declarations, input)?,
        next: 0,
        waiting: Vec::new(),
        has_lost_reasoning: false,
        added: Vec::new(),
        written: Vec::new(),
    };
    for content in &contents {
        match source_of(content) {
            Some(index) => writer.write(index, content)?,
            None => writer.insert(content)?,
        }
    }
    writer.pass_until(input.items.len())?;
    writer.keep_waiting();
    writer.write_added();
    input.list = Some(writer.written);
    Ok(())
}

/// Returns the ids of the calls whose screenshots hooks replaced by a text. Such a call goes, too,
/// because the API requires its screenshot.
fn calls_without_result(
    items: &[InputItem],
    originals: &HashMap<usize, Document>,
    contents: &[Document],
) -> Result<HashSet<String>> {
    let mut ids = HashSet::new();
    for content in contents {
        let index = source_of(content);
        let source = index.and_then(|index| Some((items.get(index)?, originals.get(&index)?)));
        let Some((item, original)) = source else {
            continue;
        };
        if item.kind != InputKind::Result(ToolCallKind::Computer)
            || original.to_bytes() == content.to_bytes()
        {
            continue;
        }
        for part in content.children(PARTS)?.unwrap_or_default() {
            if let Some(result) = part.child(FUNCTION_RESPONSE)?
                && hides_screenshot(&result)?
            {
                ids.extend(call_id(&item.document)?);
            }
        }
    }
    Ok(ids)
}

/// Writes the new list of items from start to end.
///
/// INVARIANT: nothing is inserted between a reasoning item and the item that follows it, and a
/// reasoning item is removed with that item. The items of the model behind it lose their ids, with
/// which the API would require it, unless others refer to these. The agent has reasoning whose call
/// was denied, without the call: it goes upstream with the call only.
struct ItemWriter<'a> {
    items: &'a [InputItem],
    /// Unedited contents by the indexes of their items.
    originals: HashMap<usize, Document>,
    calls_without_result: HashSet<String>,
    new_items: NewItems<'a>,
    /// Reasoning items of new contents.
    returned: Vec<Document>,
    /// Index of the first item that is not passed yet.
    next: usize,
    /// Reasoning items, and hidden ones behind them, that wait for the next shown item.
    waiting: Vec<usize>,
    /// True behind reasoning that was removed, until other reasoning or the end of the step.
    has_lost_reasoning: bool,
    /// Texts that hooks added to screenshots. They follow all results of the step.
    added: Vec<Bytes>,
    written: Vec<Bytes>,
}

impl ItemWriter<'_> {
    /// Writes the item of a content, edited or not.
    fn write(&mut self, index: usize, content: &Document) -> Result<()> {
        self.pass_until(index)?;
        self.next = index + 1;
        let (Some(item), Some(original)) = (self.items.get(index), self.originals.get(&index))
        else {
            return Ok(());
        };
        if self.has_no_result(item)? {
            let next = self.items.get(self.next);
            if !next.is_some_and(|next| matches!(next.kind, InputKind::Call(_))) {
                self.drop_reasoning();
            }
            return Ok(());
        }
        let mut edited = if original.to_bytes() == content.to_bytes() {
            item.written()
        } else {
            edit_item(item, original, content, &mut self.new_items)?
        };
        self.has_lost_reasoning &= item.kind.is_of_step();
        if self.has_lost_reasoning {
            edited.iter_mut().try_for_each(remove_id)?;
        }
        if !matches!(item.kind, InputKind::Result(_)) {
            self.write_added();
        } else if edited.len() > 1 {
            self.added.extend(edited.drain(1..));
        }
        if edited.is_empty() {
            self.drop_reasoning();
        } else {
            self.keep_waiting();
        }
        self.written.extend(edited);
        Ok(())
    }

    /// Returns whether an item is a call of which the result goes.
    fn has_no_result(&self, item: &InputItem) -> Result<bool> {
        if item.kind != InputKind::Call(ToolCallKind::Computer) {
            return Ok(false);
        }
        let id = call_id(&item.document)?;
        Ok(id.is_some_and(|id| self.calls_without_result.contains(&id)))
    }

    fn write_added(&mut self) {
        self.written.append(&mut self.added);
    }

    /// Inserts the items of a new content, behind hidden items that follow the last one.
    fn insert(&mut self, content: &Document) -> Result<()> {
        self.write_added();
        if self.waiting.is_empty() {
            let following = self.items.get(self.next..).unwrap_or_default();
            let hidden = following
                .iter()
                .take_while(|item| matches!(item.kind, InputKind::System | InputKind::Hidden));
            self.pass_until(self.next + hidden.count())?;
        }
        let items = self.new_items.of_content(content)?;
        self.written.extend(items);
        Ok(())
    }

    /// Passes the items before `end`: shown ones were removed, others are kept.
    fn pass_until(&mut self, end: usize) -> Result<()> {
        let passed = self.items.get(self.next..end).unwrap_or_default();
        for (index, item) in (self.next..).zip(passed) {
            match item.kind {
                InputKind::Reasoning => {
                    if !self.is_returned(&item.document)? {
                        self.waiting.push(index);
                        self.has_lost_reasoning = false;
                    }
                }
                InputKind::Hidden if is_search(&item.document)? => {
                    self.keep_waiting();
                    let mut written = item.written();
                    if self.has_lost_reasoning {
                        written.iter_mut().try_for_each(remove_id)?;
                    }
                    self.written.extend(written);
                }
                InputKind::System | InputKind::Hidden if !self.waiting.is_empty() => {
                    self.waiting.push(index);
                }
                InputKind::System | InputKind::Hidden => self.written.extend(item.written()),
                kind => {
                    self.drop_reasoning();
                    self.has_lost_reasoning &= kind.is_of_step();
                }
            }
        }
        self.next = self.next.max(end);
        Ok(())
    }

    /// Returns whether a new content holds a reasoning item, too.
    fn is_returned(&self, item: &Document) -> Result<bool> {
        try_any(&self.returned, |returned| is_same_reasoning(item, returned))
    }

    fn keep_waiting(&mut self) {
        for index in std::mem::take(&mut self.waiting) {
            let item = self.items.get(index).map(InputItem::written);
            self.written.extend(item.unwrap_or_default());
        }
    }

    /// Removes reasoning items whose following item was removed.
    fn drop_reasoning(&mut self) {
        let items = self.items;
        let is_hidden = |index: &usize| {
            let item = items.get(*index);
            item.is_some_and(|item| item.kind != InputKind::Reasoning)
        };
        let count = self.waiting.len();
        self.waiting.retain(is_hidden);
        self.has_lost_reasoning |= self.waiting.len() < count;
        self.keep_waiting();
    }
}

/// Returns whether a hidden item is a call of the model, which its reasoning belongs to.
fn is_search(item: &Document) -> Result<bool> {
    Ok(item.string(TYPE)?.as_deref() == Some("tool_search_call"))
}

/// Removes the id of an item, unless the item has to have it or its result names it.
fn remove_id(item: &mut Bytes) -> Result<()> {
    let mut document = Document::from_checked(item.clone())?;
    let is_named = match document.string(TYPE)?.as_deref() {
        Some("local_shell_call" | "mcp_approval_request") => true,
        Some(_) | None => {
            ToolCallKind::of_call(&document)?.is_some() && !is_set(&document, CALL_ID)?
        }
    };
    if is_named {
        return Ok(());
    }
    document.remove(ID)?;
    *item = document.to_bytes();
    Ok(())
}

/// Returns the items that replace an edited one.
fn edit_item(
    item: &InputItem,
    before: &Document,
    after: &Document,
    new_items: &mut NewItems<'_>,
) -> Result<Vec<Bytes>> {
    let before = before.children(PARTS)?.unwrap_or_default();
    let after = after.children(PARTS)?.unwrap_or_default();
    if matches!(item.kind, InputKind::User | InputKind::Assistant) {
        let message = write_blocks(&item.document, &before, &after)?;
        return Ok(message.iter().map(Document::to_bytes).collect());
    }
    let mut written = Vec::new();
    for part in &after {
        let Some(old) = before.first().filter(|_| source_of(part).is_some()) else {
            let is_model = !matches!(item.kind, InputKind::Result(_) | InputKind::Unknown);
            written.extend(new_items.of_parts(is_model, std::slice::from_ref(part))?);
            continue;
        };
        if old.to_bytes() == part.to_bytes() {
            written.push(item.document.to_bytes());
            continue;
        }
        let call = match item.kind {
            InputKind::Result(kind) => {
                let (old, new) = (result_of(old)?, result_of(part)?);
                written.extend(match kind {
                    ToolCallKind::Computer => write_screenshot(&item.document, &old, &new)?,
                    kind => vec![write_result(kind, &item.document, &old, &new)?.to_bytes()],
                });
                continue;
            }
            InputKind::Call(kind) => Some(kind),
            _ => None,
        };
        let mut edited = item.document.clone();
        write_item(&mut edited, call, old, part)?;
        written.push(edited.to_bytes());
    }
    Ok(written)
}

/// Returns the result in a part.
fn result_of(part: &Document) -> Result<Document> {
    Ok(part.child(FUNCTION_RESPONSE)?.unwrap_or_default())
}
