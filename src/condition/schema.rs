//! What a condition may speak about: variables, their fields, and the kind of
//! each.

use std::{collections::BTreeSet, fmt};

use crate::event::EventName;

/// What sort of value something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Known only when the event is there.
    Any,
    Bool,
    /// A whole number.
    Number,
    /// One with a point; it can be compared with whole ones, not added to them.
    Decimal,
    Text,
    Null,
    List(&'static Kind),
    /// A variable with fields. It is no value, only its fields are.
    Record(&'static Variable),
}

impl Kind {
    /// A list whose elements are of this kind.
    pub(super) const fn list(self) -> Self {
        match self {
            Self::Bool => Self::List(&Self::Bool),
            Self::Number => Self::List(&Self::Number),
            Self::Text => Self::List(&Self::Text),
            Self::Decimal => Self::List(&Self::Decimal),
            Self::Any | Self::Null | Self::List(_) | Self::Record(_) => Self::List(&Self::Any),
        }
    }

    /// Whether a value of the one kind can be one of the other.
    pub(super) fn fits(self, other: Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::List(one), Self::List(other)) => one.fits(*other),
            (one, other) => one == other,
        }
    }

    /// Whether a value of the one kind can be equal to one of the other, or less.
    pub(super) fn compares(self, other: Self) -> bool {
        match (self, other) {
            (Self::Number, Self::Decimal) | (Self::Decimal, Self::Number) => true,
            (Self::List(one), Self::List(other)) => one.compares(*other),
            (one, other) => one.fits(other),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "anything",
            Self::Bool => "true or false",
            Self::Number => "a number",
            Self::Decimal => "a decimal number",
            Self::Text => "text",
            Self::Null => "null",
            Self::List(_) => "a list",
            Self::Record(_) => "several facts",
        })
    }
}

/// A name that stands alone, or before a dot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: &'static str,
    /// What it is, if it has no fields.
    kind: Kind,
    pub(super) fields: &'static [Field],
    /// The events that have it; all if this is empty.
    events: &'static [EventName],
}

/// A name after a dot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Whether it is always there if its variable is.
    pub(super) always: bool,
}

impl Variable {
    pub(super) const fn kind(&'static self) -> Kind {
        match self.fields {
            [] => self.kind,
            _ => Kind::Record(self),
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|it| it.name == name)
    }

    pub(super) fn is_on(&self, event: EventName) -> bool {
        self.events.is_empty() || self.events.contains(&event)
    }
}

/// Every variable.
pub(super) const VARIABLES: &[Variable] = &[
    plain("event", &[]),
    record("request", REQUEST, MODEL_EVENTS),
    record("tool", TOOL, &[EventName::BeforeTool, EventName::AfterTool]),
    plain("prompt", &[EventName::BeforeAgent, EventName::AfterAgent]),
    record("session", SESSION, &[]),
    record("caller", CALLER, &[]),
];

const MODEL_EVENTS: &[EventName] = &[
    EventName::BeforeModel,
    EventName::BeforeToolSelection,
    EventName::AfterModel,
];

const REQUEST: &[Field] = &[
    always("model", Kind::Text),
    always("operation", Kind::Text),
    always("stream", Kind::Bool),
    always("bytes", Kind::Number),
    always("contents", Kind::Number),
    always("tools", Kind::List(&Kind::Text)),
    Field {
        name: "max_output_tokens",
        kind: Kind::Number,
        always: false,
    },
];

const TOOL: &[Field] = &[always("name", Kind::Text), always("input", Kind::Any)];

const SESSION: &[Field] = &[always("id", Kind::Text), always("named", Kind::Bool)];

const CALLER: &[Field] = &[
    always("key", Kind::Text),
    always("name", Kind::Text),
    always("agent", Kind::Text),
];

const fn plain(name: &'static str, events: &'static [EventName]) -> Variable {
    Variable {
        name,
        kind: Kind::Text,
        fields: &[],
        events,
    }
}

const fn record(
    name: &'static str,
    fields: &'static [Field],
    events: &'static [EventName],
) -> Variable {
    Variable {
        name,
        kind: Kind::Any,
        fields,
        events,
    }
}

const fn always(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        always: true,
    }
}

/// The functions that a condition may call.
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
    VARIABLES.iter().find(|it| it.name == name)
}

/// The variables and fields that a condition speaks about. A variable without
/// fields has the empty field.
#[derive(Debug, Clone, Default)]
pub(super) struct Uses(BTreeSet<(&'static str, &'static str)>);

impl Uses {
    pub(super) fn add(&mut self, variable: &'static str, field: &'static str) {
        self.0.insert((variable, field));
    }

    pub(super) fn of<'a>(&'a self, variable: &'a str) -> impl Iterator<Item = &'static str> + 'a {
        let used = self.0.iter().filter(move |it| it.0 == variable);
        used.map(|it| it.1)
    }
}
