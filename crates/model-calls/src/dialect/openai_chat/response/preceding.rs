//! Data that the model requires with its calls in the next request: its thoughts, and fields
//! of the calls that hookgate does not interpret, such as signatures.

use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::{PRECEDING, remove_labels},
    document::Document,
    error::Result,
    openai_chat::{
        response::{
            answer::{DETAIL_TEXTS, REASONING, THOUGHT_DETAILS},
            answer_objects::{DETAIL_FIELDS, visit_call},
        },
        tool_call::extra_fields,
    },
};

/// The thoughts of one message, as the API has them.
#[derive(Debug, Default)]
pub struct Thoughts(Map<String, Value>);

impl Thoughts {
    /// Adds the thoughts of a message, or of a piece of it. Returns their size in bytes.
    pub fn add(&mut self, message: &Document) -> Result<usize> {
        let mut size = 0;
        for name in REASONING.into_iter().chain(THOUGHT_DETAILS) {
            let Some(json) = message.bytes_of(&[name])? else {
                continue;
            };
            size += json.len();
            let value = message.get(&[name])?.unwrap_or_default();
            match (self.0.get_mut(name), value) {
                (_, Value::Null) => (),
                (Some(Value::String(known)), Value::String(text)) => known.push_str(&text),
                (Some(Value::Array(known)), Value::Array(list)) => {
                    for detail in list {
                        add_detail(known, detail);
                    }
                }
                (_, value) => drop(self.0.insert(name.to_owned(), value)),
            }
        }
        Ok(size)
    }

    /// Adds a text to thoughts that have this name.
    pub fn add_text(&mut self, name: &str, text: &str) {
        if let Some(Value::String(known)) = self.0.get_mut(name) {
            known.push_str(text);
        }
    }
}

/// Adds a detail of a thought, or a piece of one.
fn add_detail(known: &mut Vec<Value>, detail: Value) {
    let continued = if detail.get("index").is_some_and(Value::is_u64) {
        let mut known = known.iter_mut().rev();
        known.find(|known| continues_detail(known, &detail))
    } else {
        let latest = known.last_mut();
        latest.filter(|latest| continues_block(latest, &detail))
    };
    let (Some(Value::Object(continued)), Value::Object(fields)) = (continued, &detail) else {
        known.push(detail);
        return;
    };
    for (name, value) in fields {
        match (continued.get_mut(name), value) {
            (Some(Value::String(known)), Value::String(piece))
                if DETAIL_TEXTS.contains(&name.as_str()) =>
            {
                known.push_str(piece);
            }
            (Some(_), Value::Null) => (),
            (_, value) => drop(continued.insert(name.clone(), value.clone())),
        }
    }
}

/// Returns whether a detail is a piece of a known one: it has the same index and type.
fn continues_detail(known: &Value, detail: &Value) -> bool {
    let agrees = |name: &str| {
        let values = [known.get(name), detail.get(name)];
        let [one, other] = values.map(|value| value.filter(|value| !value.is_null()));
        one.is_none() || other.is_none() || one == other
    };
    let is_whole = |detail: &Value| detail.get("data").is_some();
    known.get("index") == detail.get("index")
        && agrees("type")
        && agrees("id")
        && !is_whole(known)
        && !is_whole(detail)
}

/// Returns whether a block is a piece of the latest one (LiteLLM), which has no signature yet.
fn continues_block(latest: &Value, block: &Value) -> bool {
    let is_thinking = |block: &Value| block.get("type").is_some_and(|kind| kind == "thinking");
    let signature = latest.get("signature").and_then(Value::as_str);
    is_thinking(latest) && is_thinking(block) && signature.is_none_or(str::is_empty)
}

/// Returns a call with the fields that the model requires with it. Fields that policies saw
/// elsewhere, and may have edited there, are left out.
pub fn with_call_fields(mut call: Value, part: &Document) -> Result<Value> {
    let preceding = part.child(&[PRECEDING])?;
    let fields = preceding.map(|preceding| preceding.child(&["call"]));
    if let (Value::Object(call), Some(mut fields)) = (&mut call, fields.transpose()?.flatten()) {
        visit_call(&mut fields, &mut remove_labels)?;
        call.extend(extra_fields(&Document::from_checked(fields.to_bytes())?)?);
    }
    Ok(call)
}

/// Returns the thoughts that precede a call.
pub fn thoughts_of(part: &Document) -> Result<Map<String, Value>> {
    let preceding = part.child(&[PRECEDING])?;
    let message = preceding.map(|preceding| preceding.get(&["message"]));
    Ok(match message.transpose()?.flatten() {
        Some(Value::Object(thoughts)) => thoughts,
        Some(_) | None => Map::new(),
    })
}

/// Returns the details of thoughts whose texts `visible` holds, without fields that policies saw
/// elsewhere.
pub fn visible_details(details: &[Value], visible: &str) -> Vec<Value> {
    let is_visible = |detail: &&Value| {
        let names = DETAIL_TEXTS.into_iter();
        let mut texts = names.filter_map(|name| detail.get(name)?.as_str());
        texts.all(|text| visible.contains(text))
    };
    let details = details.iter().filter(is_visible).cloned();
    let known = details.map(|mut detail| {
        if let Some(fields) = detail.as_object_mut() {
            fields.retain(|name, _| DETAIL_FIELDS.contains(&name.as_str()));
        }
        detail
    });
    known.collect()
}

/// Adds the thoughts to the first of the parts that are calls, and to each one the fields of its
/// call that hookgate does not interpret.
pub fn add_preceding(parts: &mut [Value], calls: &[Document], thoughts: &Thoughts) -> Result<()> {
    let mut is_first = true;
    let parts = parts.iter_mut();
    let parts = parts.filter(|part| part.get("functionCall").is_some());
    for (part, call) in parts.zip(calls) {
        let mut preceding = Map::new();
        if std::mem::take(&mut is_first) && !thoughts.0.is_empty() {
            preceding.insert("message".to_owned(), thoughts.0.clone().into());
        }
        let extra = extra_fields(call)?;
        if !extra.is_empty() {
            preceding.insert("call".to_owned(), extra.into());
        }
        if let (false, Some(part)) = (preceding.is_empty(), part.as_object_mut()) {
            part.insert(PRECEDING.to_owned(), json!(preceding));
        }
    }
    Ok(())
}
