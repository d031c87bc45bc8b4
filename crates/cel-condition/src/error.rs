//! Errors of compiling and evaluating conditions.

use cel::{ExecutionError, parser::ParseErrors};
use thiserror::Error;

/// Maximum length of an unexpected token in a message, in characters.
const MAX_SHOWN_CHARS: usize = 40;

/// A text that does not compile to a condition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message} (at character {position})")]
pub struct ConditionError {
    /// Description of the mistake.
    pub message: String,
    /// Character at which the mistake was found, counted from 1.
    pub position: usize,
}

impl ConditionError {
    /// Translates the first of the parser's errors; later ones follow from it.
    pub(super) fn from_syntax(text: &str, errors: &ParseErrors) -> Self {
        let first = errors.errors.first();
        let (line, column) = first.map_or((0, 0), |error| error.pos);
        let number = |position: isize| usize::try_from(position).unwrap_or_default();
        let lines_before = text
            .split_inclusive('\n')
            .take(number(line).saturating_sub(1));
        let chars_before: usize = lines_before.map(|line| line.chars().count()).sum();
        Self {
            message: syntax_message(first.map_or("", |error| error.msg.as_str())),
            position: (chars_before + number(column)).max(1),
        }
    }
}

/// Failure to evaluate a condition. Holds no fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EvalError {
    /// A referenced value is absent.
    #[error("a referenced value is absent")]
    Absent,
    /// A value has another type than the expression expects.
    #[error("a value has an unexpected type")]
    Type,
    /// The facts are too large, or reading them repeatedly exceeds the budget.
    #[error("the evaluation exceeds its cost budget")]
    TooExpensive,
    /// A number is out of range.
    #[error("a number is out of range")]
    Range,
    /// The evaluator panicked on the condition.
    #[error("the evaluation was aborted")]
    Aborted,
    /// The source of the facts cannot be read.
    #[error("the event cannot be read")]
    Unreadable,
}

impl From<&ExecutionError> for EvalError {
    fn from(error: &ExecutionError) -> Self {
        match error {
            ExecutionError::NoSuchKey(_)
            | ExecutionError::UndeclaredReference(_)
            | ExecutionError::IndexOutOfBounds(_) => Self::Absent,
            ExecutionError::DivisionByZero(_)
            | ExecutionError::RemainderByZero(_)
            | ExecutionError::Overflow(..)
            | ExecutionError::FunctionError { .. } => Self::Range,
            _ => Self::Type,
        }
    }
}

fn syntax_message(message: &str) -> String {
    if message.contains("Recursion limit") {
        return "the expression is nested too deeply".to_owned();
    }
    if message.contains("mismatched input '<EOF>'") || message.contains("Incomplete") {
        return "unexpected end of the expression".to_owned();
    }
    // The expected tokens that the parser lists are every token of the language.
    let message = message.split(" expecting ").next().unwrap_or_default();
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    match unexpected_token(message) {
        Some(token) => format!("unexpected `{token}`"),
        None => message.to_owned(),
    }
}

fn unexpected_token(message: &str) -> Option<String> {
    let (_, rest) = message
        .split_once("input '")
        .or_else(|| message.split_once("at: '"))?;
    let token = rest.strip_suffix('\'')?.trim();
    Some(token.chars().take(MAX_SHOWN_CHARS).collect())
}
