//! Variables and functions of conditions, and the type of each.

use std::{collections::BTreeSet, fmt};

use serde_json::{Map, Value as Json};

/// Static type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Known at run time only.
    Dyn,
    /// Either `true` or `false`.
    Bool,
    /// A signed integer of 64 bits.
    Int,
    /// Comparable with [`ValueType::Int`], but not to be added to it.
    Double,
    /// A text in UTF-8.
    String,
    /// The type of `null` alone.
    Null,
    /// A list whose elements have this type.
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

/// A name that conditions may use.
#[derive(Debug)]
pub struct Variable {
    /// The name in conditions.
    pub name: &'static str,
    /// Its fields; without any, the variable is a string.
    pub fields: &'static [VariableField],
}

/// A field of a variable.
#[derive(Debug)]
pub struct VariableField {
    /// The name in conditions.
    pub name: &'static str,
    /// The type of its values.
    pub value_type: ValueType,
    /// True if the field is present whenever its variable is.
    pub required: bool,
}

/// The value of one variable or field.
#[derive(Debug, Clone, Copy)]
pub enum FactValue<'a> {
    /// A value of [`ValueType::Bool`].
    Bool(bool),
    /// A value of [`ValueType::Int`].
    Int(i64),
    /// A value of [`ValueType::String`].
    String(&'a str),
    /// A list of strings.
    Strings(&'a [String]),
    /// A JSON object, whose type is [`ValueType::Dyn`].
    Object(&'a Map<String, Json>),
}

/// The source of the values that one evaluation reads.
pub trait FactSource {
    /// Returns the value of a field, or of a variable without fields, whose `field` is
    /// empty; `None` if it is absent.
    fn fact(&self, variable: &str, field: &str) -> Option<FactValue<'_>>;
}

impl VariableField {
    /// A field that is present whenever its variable is.
    pub const fn new(name: &'static str, value_type: ValueType) -> Self {
        Self {
            name,
            value_type,
            required: true,
        }
    }

    /// A field that may be absent.
    pub const fn optional(name: &'static str, value_type: ValueType) -> Self {
        Self {
            name,
            value_type,
            required: false,
        }
    }
}

impl Variable {
    pub(super) const fn value_type(&'static self) -> ValueType {
        match self.fields {
            [] => ValueType::String,
            _ => ValueType::Object(self),
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<&'static VariableField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl PartialEq for Variable {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Variable {}

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

/// Returns the variable of this name.
pub(super) fn find(variables: &'static [Variable], name: &str) -> Option<&'static Variable> {
    variables.iter().find(|variable| variable.name == name)
}

/// The variables and fields that a condition reads. A variable without fields has
/// the empty field.
#[derive(Debug, Clone, Default)]
pub(super) struct VariableUses(BTreeSet<(&'static str, &'static str)>);

impl VariableUses {
    pub(super) fn insert(&mut self, variable: &'static str, field: &'static str) {
        self.0.insert((variable, field));
    }

    pub(super) fn contains_variable(&self, variable: &str) -> bool {
        self.0.iter().any(|(used, _)| *used == variable)
    }

    pub(super) fn contains(&self, variable: &'static str, field: &'static str) -> bool {
        self.0.contains(&(variable, field))
    }
}
