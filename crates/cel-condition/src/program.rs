//! A compiled condition and its evaluation.

use std::{
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use cel::{Context, Env, IdedExpr, Value, extractors::This};

use super::{
    cost_budget::CostBudget,
    error::{ConditionError, EvalError},
    patterns::{self, PatternSet},
    schema::{FactSource, Variable, VariableUses},
    static_analysis::{StaticEval, StaticResult},
    type_check,
    variables::Variables,
};

/// Maximum length of a condition, in bytes.
const MAX_CONDITION_BYTES: usize = 1000;

/// Maximum nesting of brackets. The parser needs much stack for each level.
const MAX_PARSER_DEPTH: u16 = 10;

/// A condition, compiled and type-checked.
#[derive(Clone)]
pub struct Condition {
    text: String,
    pub(super) expression: Arc<IdedExpr>,
    env: Arc<Env>,
    patterns: Arc<PatternSet>,
    variables: &'static [Variable],
    uses: VariableUses,
}

impl Condition {
    /// Compiles a text that may use these variables.
    ///
    /// # Errors
    ///
    /// Returns the first syntax or type error, with its position.
    pub fn compile(text: &str, variables: &'static [Variable]) -> Result<Self, ConditionError> {
        if text.len() > MAX_CONDITION_BYTES {
            return Err(ConditionError {
                message: format!("a condition has at most {MAX_CONDITION_BYTES} bytes"),
                position: 1,
            });
        }
        let env = Env::stdlib().with_optional_support(false);
        let (expression, source) = env
            .parser()
            .max_recursion_depth(MAX_PARSER_DEPTH)
            .parse_with_source_info(text)
            .map_err(|errors| ConditionError::from_syntax(text, &errors))?;
        let checked = type_check::check(&expression, &source, variables)?;
        Ok(Self {
            text: text.to_owned(),
            expression: Arc::new(expression),
            env: Arc::new(env),
            patterns: Arc::new(checked.patterns),
            variables,
            uses: checked.uses,
        })
    }

    /// Returns whether the condition reads a variable, or a field of it.
    pub fn uses(&self, variable: &str) -> bool {
        self.uses.contains_variable(variable)
    }

    /// Evaluates the condition.
    ///
    /// # Errors
    ///
    /// Fails if a value is absent, has an unexpected type or is too expensive to
    /// read. Guards treat an error as true, so that they are never skipped.
    pub fn evaluate(&self, facts: &dyn FactSource) -> Result<bool, EvalError> {
        let budget = Arc::new(CostBudget::default());
        let variables = Variables::bind(facts, self.variables, &self.uses, Arc::clone(&budget))?;
        let mut context = self.context(&budget);
        context.set_variable_resolver(&variables);
        // A panic may leave these half changed, but they are not used afterwards.
        let resolve = AssertUnwindSafe(|| Value::resolve(&self.expression, &context));
        match catch_unwind(resolve) {
            Ok(Ok(Value::Bool(value))) => Ok(value),
            Ok(Ok(_)) => Err(EvalError::Type),
            Ok(Err(_)) if budget.is_exhausted() => Err(EvalError::TooExpensive),
            Ok(Err(error)) => Err(EvalError::from(&error)),
            Err(_panic) => Err(EvalError::Aborted),
        }
    }

    /// Returns the result that the condition has with these values of variables without fields, or
    /// of one field of a variable (`request.model`), and whatever the values of the others that are
    /// present.
    pub fn analyze(
        &self,
        constants: &[(&'static str, &str)],
        is_present: &dyn Fn(&str) -> bool,
    ) -> StaticResult {
        let mut context = self.context(&Arc::default());
        for (name, value) in constants {
            match name.split_once('.') {
                Some((variable, field)) => {
                    context.add_variable_from_value(variable, HashMap::from([(field, *value)]));
                }
                None => context.add_variable_from_value(*name, *value),
            }
        }
        let analysis = StaticEval {
            variables: self.variables,
            is_present,
            constants,
            context: &context,
        };
        analysis.expression(&self.expression)
    }

    /// A CEL context with functions and no variables.
    fn context<'a>(&self, budget: &Arc<CostBudget>) -> Context<'a, 'a> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        let (patterns, budget) = (Arc::clone(&self.patterns), Arc::clone(budget));
        let matches = move |This(text): This<Arc<String>>, pattern: Arc<String>| {
            patterns.matches(&pattern, &text, &budget)
        };
        // The environment has no function of this name, so adding it succeeds; if it
        // did not, every use of it would be an error.
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
