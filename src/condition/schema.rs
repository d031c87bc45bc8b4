//! The variables and functions that conditions may use, and the type of each.

use std::{collections::BTreeSet, fmt};

use super::facts::{FactValue, Facts};
use crate::event::EventName;

/// Static type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueType {
    /// Known at run time only.
    Dyn,
    Bool,
    Int,
    /// Comparable with [`ValueType::Int`], but not to be added to it.
    Double,
    String,
    Null,
    List(&'static ValueType),
    /// A variable with fields. It is no value itself, only its fields are.
    Object(&'static Variable),
}

impl ValueType {
    /// A list whose elements have this type.
    pub(super) const fn list(self) -> Self {
        match self {
            Self::Bool => Self::List(&Self::Bool),
            Self::Int => Self::List(&Self::Int),
            Self::String => Self::List(&Self::String),
            Self::Double => Self::List(&Self::Double),
            Self::Dyn | Self::Null | Self::List(_) | Self::Object(_) => Self::List(&Self::Dyn),
        }
    }

    /// Returns whether a value of one type can be a value of the other.
    pub(super) fn fits(self, other: Self) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::List(left), Self::List(right)) => left.fits(*right),
            (left, right) => left == right,
        }
    }

    /// Returns whether values of the two types can be equal or ordered.
    pub(super) fn compares(self, other: Self) -> bool {
        match (self, other) {
            (Self::Int, Self::Double) | (Self::Double, Self::Int) => true,
            (Self::List(left), Self::List(right)) => left.compares(*right),
            (left, right) => left.fits(right),
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dyn => "dyn",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Double => "double",
            Self::String => "string",
            Self::Null => "null",
            Self::List(_) => "list",
            Self::Object(_) => "object",
        })
    }
}

/// Reads one fact, if the event has it.
type Getter = for<'a> fn(&'a Facts<'a>) -> Option<FactValue<'a>>;

/// A top-level name in conditions.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// Events that have the variable; empty if all have it.
    events: &'static [EventName],
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    String(Getter),
    Object(&'static [VariableField]),
}

/// A field of a variable.
#[derive(Debug)]
pub(super) struct VariableField {
    pub(super) name: &'static str,
    pub(super) value_type: ValueType,
    /// Whether the field is present whenever its variable is.
    pub(super) required: bool,
    pub(super) get: Getter,
}

impl Variable {
    pub(super) const fn value_type(&'static self) -> ValueType {
        match self.shape {
            Shape::String(_) => ValueType::String,
            Shape::Object(_) => ValueType::Object(self),
        }
    }

    /// The fields; none of a string.
    pub(super) const fn fields(&self) -> &'static [VariableField] {
        match self.shape {
            Shape::String(_) => &[],
            Shape::Object(fields) => fields,
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<&'static VariableField> {
        self.fields().iter().find(|field| field.name == name)
    }

    pub(super) fn is_on(&self, event: EventName) -> bool {
        self.events.is_empty() || self.events.contains(&event)
    }
}

impl PartialEq for Variable {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Variable {}

pub(super) const VARIABLES: &[Variable] = &[
    Variable {
        name: "event",
        shape: Shape::String(|facts| Some(FactValue::String(facts.event.as_str()))),
        events: &[],
    },
    Variable {
        name: "request",
        shape: Shape::Object(REQUEST),
        events: &[
            EventName::BeforeModel,
            EventName::BeforeToolSelection,
            EventName::AfterModel,
        ],
    },
    Variable {
        name: "tool",
        shape: Shape::Object(TOOL),
        events: &[EventName::BeforeTool, EventName::AfterTool],
    },
    Variable {
        name: "prompt",
        shape: Shape::String(|facts| facts.prompt.map(FactValue::String)),
        events: &[EventName::BeforeAgent, EventName::AfterAgent],
    },
    Variable {
        name: "session",
        shape: Shape::Object(SESSION),
        events: &[],
    },
    Variable {
        name: "caller",
        shape: Shape::Object(CALLER),
        events: &[],
    },
];

const REQUEST: &[VariableField] = &[
    field("model", ValueType::String, |facts| {
        Some(FactValue::String(&facts.request.as_ref()?.model))
    }),
    field("operation", ValueType::String, |facts| {
        Some(FactValue::String(facts.request.as_ref()?.operation))
    }),
    field("stream", ValueType::Bool, |facts| {
        Some(FactValue::Bool(facts.request.as_ref()?.stream))
    }),
    field("bytes", ValueType::Int, |facts| {
        Some(FactValue::Int(int(facts.request.as_ref()?.bytes)))
    }),
    field("contents", ValueType::Int, |facts| {
        Some(FactValue::Int(int(facts.request.as_ref()?.contents)))
    }),
    field("tools", ValueType::List(&ValueType::String), |facts| {
        Some(FactValue::Strings(&facts.request.as_ref()?.tools))
    }),
    VariableField {
        name: "max_output_tokens",
        value_type: ValueType::Int,
        required: false,
        get: |facts| Some(FactValue::Int(facts.request.as_ref()?.max_output_tokens?)),
    },
];

const TOOL: &[VariableField] = &[
    field("name", ValueType::String, |facts| {
        Some(FactValue::String(facts.tool?.name))
    }),
    field("input", ValueType::Dyn, |facts| {
        Some(FactValue::Object(facts.tool?.input))
    }),
];

const SESSION: &[VariableField] = &[
    field("id", ValueType::String, |facts| {
        Some(FactValue::String(facts.session.id))
    }),
    field("named", ValueType::Bool, |facts| {
        Some(FactValue::Bool(facts.session.named))
    }),
];

const CALLER: &[VariableField] = &[
    field("key", ValueType::String, |facts| {
        Some(FactValue::String(facts.caller.key))
    }),
    field("name", ValueType::String, |facts| {
        Some(FactValue::String(facts.caller.name))
    }),
    field("agent", ValueType::String, |facts| {
        Some(FactValue::String(facts.caller.agent))
    }),
];

/// A field that is present whenever its variable is.
const fn field(name: &'static str, value_type: ValueType, get: Getter) -> VariableField {
    VariableField {
        name,
        value_type,
        required: true,
        get,
    }
}

fn int(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The functions that conditions may call.
pub(super) const FUNCTIONS: &[&str] = &[
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "size",
    "int",
    "double",
    "string",
    "has",
    "exists",
    "exists_one",
    "all",
    "filter",
];

pub(super) fn variable(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| variable.name == name)
}

/// The variables and fields that a condition reads. A variable without fields has
/// the empty field.
#[derive(Debug, Clone, Default)]
pub(super) struct VariableUses(BTreeSet<(&'static str, &'static str)>);

impl VariableUses {
    pub(super) fn insert(&mut self, variable: &'static str, field: &'static str) {
        self.0.insert((variable, field));
    }

    pub(super) fn contains(&self, variable: &'static str, field: &'static str) -> bool {
        self.0.contains(&(variable, field))
    }
}
