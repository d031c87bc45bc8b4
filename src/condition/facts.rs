//! An event's facts, and how they become values: only those that a condition
//! speaks about, and no more of them than it may look through.

use std::{collections::HashMap, sync::Arc};

use cel::{Value, objects::Key};
use serde_json::{Map, Value as Json};

use super::{
    Unclear,
    cost_budget::Fact,
    schema::{Uses, VARIABLES},
};
use crate::event::EventName;

/// How many values of one event a condition may look through.
const MOST_VALUES: usize = 1000;

/// How many bytes of text these may have in all.
const MOST_BYTES: usize = 1 << 20;

/// How many bytes of text take as long to read as one value.
const VALUE: usize = 64;

/// What is known of one event.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// Which event it is.
    pub event: EventName,
    /// The model call it is about.
    pub request: Option<RequestFacts>,
    /// The tool call it is about.
    pub tool: Option<ToolFacts<'a>>,
    /// The user's prompt it is about.
    pub prompt: Option<&'a str>,
    /// Whose event it is.
    pub session: SessionFacts<'a>,
    /// Who told us.
    pub caller: CallerFacts<'a>,
}

/// A model call.
#[derive(Debug, Clone)]
pub struct RequestFacts {
    /// The model asked for.
    pub model: String,
    /// What is asked, such as `generateContent`.
    pub operation: &'static str,
    /// Whether the answer comes in chunks.
    pub stream: bool,
    /// The length of the body.
    pub bytes: usize,
    /// How many contents the conversation has.
    pub contents: usize,
    /// The names of the declared functions.
    pub tools: Vec<String>,
    /// How long the answer may be, if the request says so.
    pub max_output_tokens: Option<i64>,
}

/// A tool call.
#[derive(Debug, Clone, Copy)]
pub struct ToolFacts<'a> {
    /// The tool's name as on the wire.
    pub name: &'a str,
    /// Its arguments.
    pub input: &'a Map<String, Json>,
}

/// A session.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionFacts<'a> {
    /// Its id.
    pub id: &'a str,
    /// Whether the agent named it.
    pub named: bool,
}

/// Who told us of the event.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallerFacts<'a> {
    /// The key of `event::Caller`.
    pub key: &'a str,
    /// Who it is by the config; empty if nobody is asked.
    pub name: &'a str,
    /// The user agent.
    pub agent: &'a str,
}

impl Facts<'_> {
    /// The value of every variable. Those with fields are always there, so that
    /// `has(request.model)` can be asked on any event.
    pub(super) fn values(&self, uses: &Uses) -> Result<Vec<Fact>, Unclear> {
        let mut room = Room::default();
        let mut facts = Vec::new();
        for variable in VARIABLES {
            let taken = room.taken();
            let mut plain = None;
            let mut map = HashMap::new();
            for field in uses.of(variable.name) {
                match self.value(variable.name, field, &mut room)? {
                    Some(value) if field.is_empty() => plain = Some(value),
                    Some(value) => _ = map.insert(key(field), value),
                    None => (),
                }
            }
            if !variable.fields.is_empty() {
                plain = Some(Value::from(map));
            }
            facts.extend(plain.map(|value| Fact {
                name: variable.name,
                value,
                cost: room.taken() - taken,
            }));
        }
        Ok(facts)
    }

    /// One value, if the event has it.
    fn value(
        &self,
        variable: &str,
        field: &str,
        room: &mut Room,
    ) -> Result<Option<Value>, Unclear> {
        let mut text = |it: &str| room.text(it);
        let request = self.request.as_ref();
        let value = match (variable, field) {
            ("event", "") => Some(text(self.event.as_str())?),
            ("request", "model") => request.map(|it| text(&it.model)).transpose()?,
            ("request", "operation") => request.map(|it| text(it.operation)).transpose()?,
            ("request", "stream") => request.map(|it| it.stream.into()),
            ("request", "bytes") => request.map(|it| count(it.bytes)),
            ("request", "contents") => request.map(|it| count(it.contents)),
            ("request", "tools") => {
                let names = request.map(|it| it.tools.iter().map(|it| text(it)));
                let list = names.map(Iterator::collect::<Result<Vec<Value>, Unclear>>);
                list.transpose()?.map(Value::from)
            }
            ("request", "max_output_tokens") => {
                request.and_then(|it| it.max_output_tokens).map(Value::from)
            }
            ("tool", "name") => self.tool.map(|it| text(it.name)).transpose()?,
            ("tool", "input") => self.tool.map(|it| room.map(it.input)).transpose()?,
            ("prompt", "") => self.prompt.map(text).transpose()?,
            ("session", "id") => Some(text(self.session.id)?),
            ("session", "named") => Some(self.session.named.into()),
            ("caller", "key") => Some(text(self.caller.key)?),
            ("caller", "name") => Some(text(self.caller.name)?),
            ("caller", "agent") => Some(text(self.caller.agent)?),
            _ => None,
        };
        Ok(value)
    }
}

/// What still fits.
#[derive(Debug)]
struct Room {
    values: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            values: MOST_VALUES,
            bytes: MOST_BYTES,
        }
    }
}

impl Room {
    /// How much is taken, in bytes.
    const fn taken(&self) -> usize {
        (MOST_VALUES - self.values) * VALUE + (MOST_BYTES - self.bytes)
    }

    fn take(&mut self, bytes: usize) -> Result<(), Unclear> {
        let values = self.values.checked_sub(1).ok_or(Unclear::TooLarge)?;
        let bytes = self.bytes.checked_sub(bytes).ok_or(Unclear::TooLarge)?;
        *self = Self { values, bytes };
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<Value, Unclear> {
        self.take(text.len())?;
        Ok(text.into())
    }

    fn map(&mut self, fields: &Map<String, Json>) -> Result<Value, Unclear> {
        let mut map = HashMap::with_capacity(fields.len().min(MOST_VALUES));
        for (name, value) in fields {
            self.take(name.len())?;
            map.insert(key(name), self.json(value)?);
        }
        Ok(Value::from(map))
    }

    fn json(&mut self, value: &Json) -> Result<Value, Unclear> {
        self.take(0)?;
        match value {
            Json::Null => Ok(Value::Null),
            Json::Bool(it) => Ok((*it).into()),
            Json::Number(it) => {
                let number = it.as_i64().map(Value::Int);
                number
                    .or_else(|| it.as_f64().map(Value::Float))
                    .ok_or(Unclear::Range)
            }
            Json::String(it) => self.text(it),
            Json::Array(items) => {
                let items = items.iter().map(|it| self.json(it));
                Ok(Value::from(items.collect::<Result<Vec<Value>, Unclear>>()?))
            }
            Json::Object(fields) => self.map(fields),
        }
    }
}

fn key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}

fn count(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}
