//! Conditions in CEL over variables that a program declares.
//!
//! Most mistakes are found when a condition is compiled: unknown names get a suggestion,
//! mismatched types an error with its position. Comprehensions can be nested only over
//! list literals, and patterns of `matches` are literals, so that each is compiled once.
//!
//! ```
//! use cel_condition::{Condition, FactSource, FactValue, ValueType, Variable, VariableField};
//!
//! const REQUEST: &[VariableField] = &[VariableField::new("bytes", ValueType::Int)];
//! const VARIABLES: &[Variable] = &[Variable { name: "request", fields: REQUEST }];
//!
//! struct Request {
//!     bytes: i64,
//! }
//!
//! impl FactSource for Request {
//!     fn fact(&self, variable: &str, field: &str) -> Option<FactValue<'_>> {
//!         match (variable, field) {
//!             ("request", "bytes") => Some(FactValue::Int(self.bytes)),
//!             _ => None,
//!         }
//!     }
//! }
//!
//! let condition = Condition::compile("request.bytes > 1000", VARIABLES)?;
//! assert_eq!(condition.evaluate(&Request { bytes: 2000 }), Ok(true));
//!
//! let mistake = Condition::compile("request.byte > 1000", VARIABLES).unwrap_err();
//! assert!(mistake.message.contains("did you mean `bytes`?"));
//! # Ok::<(), cel_condition::ConditionError>(())
//! ```
//!
//! At run time a value can only be absent, of another type if its type was not declared,
//! out of range, or too expensive to read: an evaluation has a bound on the bytes that it
//! reads. [`Condition::analyze`] returns the result that a condition has whenever some
//! variables are absent.

mod cost_budget;
mod error;
mod map_macro;
mod patterns;
mod program;
mod schema;
mod similar_name;
mod static_analysis;
#[cfg(test)]
mod tests;
mod type_check;
mod type_rules;
mod variables;

pub use self::{
    error::{ConditionError, EvalError},
    program::Condition,
    schema::{FactSource, FactValue, ValueType, Variable, VariableField},
    similar_name::similar_name,
    static_analysis::StaticResult,
};
