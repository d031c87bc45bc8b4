//! When a hook runs: one CEL expression over an event's facts, such as
//! `request.bytes > 100000 || "run_shell_command" in request.tools`.
//!
//! What can be wrong with a condition is said when it is compiled: `kinds` finds
//! unknown names and texts compared with numbers, `prospect` what an event does
//! not have. What is left can only be absent or too large, or take too long
//! (`effort`), and then a guard must run rather than be skipped: callers take an
//! error of [`Condition::holds`] as true. To add a fact: `VARIABLES` in `vocabulary.rs`, and `facts.rs`. Pure.

mod cost_budget;
mod facts;
mod patterns;
mod schema;
mod static_analysis;
mod type_check;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use cel::{Context, Env, ExecutionError, IdedExpr, Value, extractors::This, parser::ParseErrors};
use thiserror::Error;

use self::{
    cost_budget::{Effort, Known},
    patterns::Patterns,
    schema::Uses,
};
pub use self::{
    facts::{CallerFacts, Facts, RequestFacts, SessionFacts, ToolFacts},
    static_analysis::StaticResult,
};
use crate::event::EventName;

/// The longest condition, in bytes.
const LONGEST: usize = 1000;

/// How much of it a message shows, in characters.
const LONGEST_SHOWN: usize = 40;

/// How deep brackets may nest: the parser takes much of the stack for each.
const DEEPEST: u16 = 10;

/// A compiled condition.
#[derive(Clone)]
pub struct Condition {
    text: String,
    expression: Arc<IdedExpr>,
    env: Arc<Env>,
    patterns: Arc<Patterns>,
    uses: Uses,
}

/// Why a text is no condition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message} (at character {at})")]
pub struct ConditionError {
    /// What is wrong.
    pub message: String,
    /// Where: the character, from 1.
    pub at: usize,
}

/// Why it cannot be said whether a condition holds. Holds nothing of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unclear {
    /// It asks for something that is not there.
    #[error("it asks for something that is not there")]
    Absent,
    /// Something is of another kind than it takes it for.
    #[error("something is of another kind than it takes it for")]
    Kind,
    /// The facts are larger than a condition may look through, or it looks
    /// through them too often.
    #[error("what it asks about is too large")]
    TooLarge,
    /// A number is out of range.
    #[error("a number is out of range")]
    Range,
    /// It could not be asked to the end.
    #[error("it could not be asked to the end")]
    Broken,
    /// What happens cannot be read.
    #[error("what it asks about cannot be read")]
    Unreadable,
}

impl Condition {
    /// Compiles a text. Everything that can be known to be wrong is an error.
    pub fn compile(text: &str) -> Result<Self, ConditionError> {
        if text.len() > LONGEST {
            let message = format!("a condition has at most {LONGEST} bytes");
            return Err(ConditionError { message, at: 1 });
        }
        let env = Env::stdlib().with_optional_support(false);
        let parser = env.parser().max_recursion_depth(DEEPEST);
        let parsed = parser.parse_with_source_info(text);
        let (expression, source) = parsed.map_err(|it| syntax_error(text, &it))?;
        let checked = type_check::check(&expression, &source)?;
        Ok(Self {
            text: text.to_owned(),
            expression: Arc::new(expression),
            env: Arc::new(env),
            patterns: Arc::new(checked.patterns),
            uses: checked.uses,
        })
    }

    /// Whether it holds. An error must be taken as true, so that a guard is never
    /// skipped by a mistake.
    pub fn holds(&self, facts: &Facts<'_>) -> Result<bool, Unclear> {
        let effort = Effort::new();
        let known = Known::new(facts.values(&self.uses)?, Arc::clone(&effort));
        let mut context = self.context(&effort);
        context.set_variable_resolver(&known);
        // Nothing is used any more that a panic may have left half done.
        let resolve = AssertUnwindSafe(|| Value::resolve(&self.expression, &context));
        match catch_unwind(resolve) {
            Ok(Ok(Value::Bool(holds))) => Ok(holds),
            Ok(Ok(_)) => Err(Unclear::Kind),
            Ok(Err(_)) if effort.is_spent() => Err(Unclear::TooLarge),
            Ok(Err(error)) => Err(Unclear::from(&error)),
            Err(_panic) => Err(Unclear::Broken),
        }
    }

    /// What can be said of it for all events of one name.
    pub fn prospect(&self, event: EventName) -> StaticResult {
        static_analysis::prospect(self, event)
    }

    /// What is there without any facts: functions.
    fn context<'a>(&self, effort: &Arc<Effort>) -> Context<'a, 'a> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        let (patterns, effort) = (Arc::clone(&self.patterns), Arc::clone(effort));
        let matches = move |This(text): This<Arc<String>>, pattern: Arc<String>| {
            patterns.matches(&pattern, &text, &effort)
        };
        // The environment has no function of this name, so it can be added; if it
        // could not, every use of it would be an error.
        let _added = context.add_function(patterns::FUNCTION, matches);
        context
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Condition").field(&self.text).finish()
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl From<&ExecutionError> for Unclear {
    fn from(error: &ExecutionError) -> Self {
        match error {
            ExecutionError::NoSuchKey(_)
            | ExecutionError::UndeclaredReference(_)
            | ExecutionError::IndexOutOfBounds(_) => Self::Absent,
            ExecutionError::DivisionByZero(_)
            | ExecutionError::RemainderByZero(_)
            | ExecutionError::Overflow(..)
            | ExecutionError::FunctionError { .. } => Self::Range,
            _ => Self::Kind,
        }
    }
}

/// The first of the errors; those after it come of it.
fn syntax_error(text: &str, errors: &ParseErrors) -> ConditionError {
    let first = errors.errors.first();
    let (line, column) = first.map_or((0, 0), |it| it.pos);
    let number = |it: isize| usize::try_from(it).unwrap_or_default();
    let before = text
        .split_inclusive('\n')
        .take(number(line).saturating_sub(1));
    let before: usize = before.map(|it| it.chars().count()).sum();
    let message = first.map_or("", |it| it.msg.as_str());
    let message = if message.contains("Recursion limit") {
        "it nests too deep".to_owned()
    } else if message.contains("mismatched input '<EOF>'") || message.contains("Incomplete") {
        "it ends where more is expected".to_owned()
    } else {
        // What the grammar expected there is every token of the language.
        let message = message.split(" expecting ").next().unwrap_or_default();
        let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
        match unexpected(message) {
            Some(input) => format!("`{input}` is not expected here"),
            None => message.to_owned(),
        }
    };
    ConditionError {
        message,
        at: (before + number(column)).max(1),
    }
}

/// What a message says was not expected, if it is about that.
fn unexpected(message: &str) -> Option<String> {
    let (_, rest) = message
        .split_once("input '")
        .or_else(|| message.split_once("at: '"))?;
    let input = rest.strip_suffix('\'')?.trim();
    Some(input.chars().take(LONGEST_SHOWN).collect())
}

#[cfg(test)]
mod tests;
