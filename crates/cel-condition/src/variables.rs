//! Conversion of facts into CEL values. Only those that a condition uses are
//! converted, within a bound.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use cel::{
    Value,
    common::value::{CowVal, Val},
    context::VariableResolver,
    objects::Key,
};
use serde_json::{Map, Value as Json};

use super::{
    cost_budget::CostBudget,
    error::EvalError,
    schema::{FactSource, FactValue, Variable, VariableUses},
};

/// Maximum number of values that are converted for one evaluation.
const MAX_VALUES: usize = 1000;

/// Maximum length of all converted strings together, in bytes.
const MAX_STRING_BYTES: usize = 1 << 20;

/// Length of string that costs as much to read as one value, in bytes.
const VALUE_COST_BYTES: usize = 64;

/// The variables of one evaluation. Each read is charged to the cost budget; a
/// variable that the budget does not cover is absent.
pub(super) struct Variables {
    budget: Arc<CostBudget>,
    /// Cost of one read and value, by name.
    values: BTreeMap<&'static str, (usize, Box<dyn Val>)>,
}

impl Variables {
    /// Converts the variables that a condition uses. Objects are always present, so
    /// that `has` can be tested on their fields.
    pub(super) fn bind(
        facts: &dyn FactSource,
        variables: &'static [Variable],
        uses: &VariableUses,
        budget: Arc<CostBudget>,
    ) -> Result<Self, EvalError> {
        let mut converter = Converter::default();
        let mut values = BTreeMap::new();
        for variable in variables {
            let cost_before = converter.cost();
            let value = match variable.fields {
                [] => converter.used_fact(facts, uses, variable.name, "")?,
                fields => {
                    let mut object = HashMap::new();
                    for field in fields {
                        let value = converter.used_fact(facts, uses, variable.name, field.name)?;
                        object.extend(value.map(|value| (key(field.name), value)));
                    }
                    Some(Value::from(object))
                }
            };
            // Every JSON value converts.
            if let Some(value) = value.and_then(|value| Box::<dyn Val>::try_from(value).ok()) {
                values.insert(variable.name, (converter.cost() - cost_before, value));
            }
        }
        Ok(Self { budget, values })
    }
}

impl VariableResolver for Variables {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let (cost, value) = self.values.get(variable)?;
        let covered = self.budget.spend(*cost);
        covered.then(|| CowVal::Borrowed(value.as_ref()))
    }
}

/// Converts values until their bound is reached.
#[derive(Debug, Default)]
struct Converter {
    values: usize,
    string_bytes: usize,
}

impl Converter {
    /// Cost of reading all converted values once, in bytes.
    const fn cost(&self) -> usize {
        self.values * VALUE_COST_BYTES + self.string_bytes
    }

    fn count(&mut self, string_bytes: usize) -> Result<(), EvalError> {
        self.values += 1;
        self.string_bytes = self.string_bytes.saturating_add(string_bytes);
        if self.values > MAX_VALUES || self.string_bytes > MAX_STRING_BYTES {
            return Err(EvalError::TooExpensive);
        }
        Ok(())
    }

    /// Converts a fact that is present and that the condition uses.
    fn used_fact(
        &mut self,
        facts: &dyn FactSource,
        uses: &VariableUses,
        variable: &'static str,
        field: &'static str,
    ) -> Result<Option<Value>, EvalError> {
        if !uses.contains(variable, field) {
            return Ok(None);
        }
        let fact = facts.fact(variable, field);
        fact.map(|fact| self.fact(fact)).transpose()
    }

    fn fact(&mut self, fact: FactValue<'_>) -> Result<Value, EvalError> {
        match fact {
            FactValue::Bool(value) => Ok(value.into()),
            FactValue::Int(value) => Ok(value.into()),
            FactValue::String(text) => self.string(text),
            FactValue::Strings(texts) => {
                let texts = texts.iter().map(|text| self.string(text));
                Ok(Value::from(
                    texts.collect::<Result<Vec<Value>, EvalError>>()?,
                ))
            }
            FactValue::Object(fields) => self.object(fields),
        }
    }

    fn string(&mut self, text: &str) -> Result<Value, EvalError> {
        self.count(text.len())?;
        Ok(text.into())
    }

    fn object(&mut self, fields: &Map<String, Json>) -> Result<Value, EvalError> {
        let mut object = HashMap::with_capacity(fields.len().min(MAX_VALUES));
        for (name, value) in fields {
            self.count(name.len())?;
            object.insert(key(name), self.json(value)?);
        }
        Ok(Value::from(object))
    }

    fn json(&mut self, value: &Json) -> Result<Value, EvalError> {
        self.count(0)?;
        match value {
            Json::Null => Ok(Value::Null),
            Json::Bool(value) => Ok((*value).into()),
            Json::Number(number) => number
                .as_i64()
                .map(Value::Int)
                .or_else(|| number.as_f64().map(Value::Float))
                .ok_or(EvalError::Range),
            Json::String(text) => self.string(text),
            Json::Array(items) => {
                let items = items.iter().map(|item| self.json(item));
                Ok(Value::from(
                    items.collect::<Result<Vec<Value>, EvalError>>()?,
                ))
            }
            Json::Object(fields) => self.object(fields),
        }
    }
}

fn key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}
