//! Type check of conditions: rejects unknown names, mismatched types and costly
//! comprehensions before anything is evaluated.

use cel::{
    IdedExpr,
    common::ast::{
        CallExpr, ComprehensionExpr, Expr, LiteralValue, SelectExpr, SourceInfo, operators as op,
    },
};

use super::{
    error::ConditionError,
    map_macro::is_map,
    patterns::{self, PatternSet},
    schema::{FUNCTIONS, ValueType, Variable, VariableUses, find},
    similar_name::similar_name,
    type_rules::{self, ADDABLE, NUMBERS, NUMERIC, PRINTABLE, SIZED},
};

/// Result of a successful check.
#[derive(Debug, Default)]
pub(super) struct CheckedCondition {
    pub(super) uses: VariableUses,
    pub(super) patterns: PatternSet,
}

/// Checks a whole condition, whose type must be `bool`.
pub(super) fn check(
    expression: &IdedExpr,
    source: &SourceInfo,
    variables: &'static [Variable],
) -> Result<CheckedCondition, ConditionError> {
    let mut checker = TypeChecker {
        source,
        variables,
        scope: Vec::new(),
        checked: CheckedCondition::default(),
        depth: 0,
        loops: 0,
    };
    checker.expect(expression, ValueType::Bool, "a condition")?;
    Ok(checker.checked)
}

/// Maximum nesting of an expression after expansion of its comprehensions.
const MAX_EXPRESSION_DEPTH: usize = 64;

struct TypeChecker<'a> {
    source: &'a SourceInfo,
    variables: &'static [Variable],
    /// Variables of enclosing comprehensions, innermost last.
    scope: Vec<(String, ValueType)>,
    checked: CheckedCondition,
    depth: usize,
    loops: usize,
}

type TypeResult = Result<ValueType, ConditionError>;

impl TypeChecker<'_> {
    fn type_of(&mut self, expr: &IdedExpr) -> TypeResult {
        self.depth += 1;
        if self.depth > MAX_EXPRESSION_DEPTH {
            return Err(self.error(expr, "the expression is nested too deeply"));
        }
        let value_type = match &expr.expr {
            Expr::Literal(literal) => self.at(expr, type_rules::literal(literal)),
            Expr::Ident(name) => self.ident(expr, name),
            Expr::Select(select) => self.select(expr, select),
            Expr::List(list) => self.list(&list.elements),
            Expr::Call(call) => self.call(expr, call),
            Expr::Comprehension(comprehension) => self.comprehension(expr, comprehension),
            Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => {
                Err(self.error(expr, "map and message literals are not supported"))
            }
        }?;
        self.depth -= 1;
        Ok(value_type)
    }

    /// The type of an expression that must be a value, which a variable with fields
    /// is not.
    fn value_type(&mut self, expr: &IdedExpr) -> TypeResult {
        match self.type_of(expr)? {
            ValueType::Object(variable) => {
                let name = variable.name;
                let example = variable.fields.first().map_or("", |field| field.name);
                let message = format!(
                    "`{name}` is an object; use one of its fields, such as `{name}.{example}`"
                );
                Err(self.error(expr, message))
            }
            value_type => Ok(value_type),
        }
    }

    fn expect(
        &mut self,
        expr: &IdedExpr,
        expected: ValueType,
        what: &str,
    ) -> Result<(), ConditionError> {
        let found = self.value_type(expr)?;
        if found.fits(expected) {
            return Ok(());
        }
        let message = format!("{what} must be of type {expected}, not {found}");
        Err(self.error(expr, message))
    }

    fn ident(&mut self, expr: &IdedExpr, name: &str) -> TypeResult {
        let mut scope = self.scope.iter().rev();
        if let Some((_, value_type)) = scope.find(|(bound, _)| bound == name) {
            return Ok(*value_type);
        }
        let Some(variable) = find(self.variables, name) else {
            let known = self.variables.iter().map(|variable| variable.name);
            return Err(self.unknown(expr, &format!("variable `{name}`"), name, known));
        };
        if variable.fields.is_empty() {
            self.checked.uses.insert(variable.name, "");
        }
        Ok(variable.value_type())
    }

    fn select(&mut self, expr: &IdedExpr, select: &SelectExpr) -> TypeResult {
        let name = &select.field;
        let value_type = match self.type_of(&select.operand)? {
            ValueType::Object(variable) => {
                let Some(field) = variable.field(name) else {
                    let known = variable.fields.iter().map(|field| field.name);
                    let what = format!("field `{name}` of `{}`", variable.name);
                    return Err(self.unknown(expr, &what, name, known));
                };
                self.checked.uses.insert(variable.name, field.name);
                field.value_type
            }
            ValueType::Dyn => ValueType::Dyn,
            operand => {
                let message = format!("a value of type {operand} has no field `{name}`");
                return Err(self.error(expr, message));
            }
        };
        Ok(if select.test {
            ValueType::Bool
        } else {
            value_type
        })
    }

    fn list(&mut self, elements: &[IdedExpr]) -> TypeResult {
        let mut common = None;
        for element in elements {
            let value_type = self.value_type(element)?;
            common = match common {
                None => Some(value_type),
                Some(known) if known == value_type => common,
                Some(_) => Some(ValueType::Dyn),
            };
        }
        Ok(common.unwrap_or(ValueType::Dyn).list())
    }

    fn call(&mut self, expr: &IdedExpr, call: &CallExpr) -> TypeResult {
        let operator = call.func_name.trim_matches(['_', '@']);
        match (call.func_name.as_str(), call.args.as_slice()) {
            (
                op::LOGICAL_AND | op::LOGICAL_OR | op::LOGICAL_NOT | op::NOT_STRICTLY_FALSE,
                operands,
            ) => {
                for operand in operands {
                    let what = format!("an operand of `{operator}`");
                    self.expect(operand, ValueType::Bool, &what)?;
                }
                Ok(ValueType::Bool)
            }
            (op::CONDITIONAL, [condition, yes, no]) => {
                self.expect(condition, ValueType::Bool, "the condition of `?:`")?;
                let (yes, no) = (self.value_type(yes)?, self.value_type(no)?);
                Ok(if yes == no { yes } else { ValueType::Dyn })
            }
            (op::NEGATE, [number]) => self.unary(expr, operator, number, NUMBERS),
            (op::EQUALS | op::NOT_EQUALS, [left, right]) => {
                let (left, right) = (self.value_type(left)?, self.value_type(right)?);
                self.at(expr, type_rules::equality(left, right))
            }
            (op::GREATER | op::GREATER_EQUALS | op::LESS | op::LESS_EQUALS, [left, right]) => {
                let (left, right) = (self.value_type(left)?, self.value_type(right)?);
                self.at(expr, type_rules::ordering(operator, left, right))
            }
            (op::IN, [element, list]) => {
                let (element, list) = (self.value_type(element)?, self.value_type(list)?);
                self.at(expr, type_rules::membership(element, list))
            }
            (op::ADD | op::SUBSTRACT | op::MULTIPLY | op::DIVIDE | op::MODULO, [left, right]) => {
                let accepted = match call.func_name.as_str() {
                    op::ADD => ADDABLE,
                    op::MODULO => &[ValueType::Int],
                    _ => NUMBERS,
                };
                let (left, right) = (self.value_type(left)?, self.value_type(right)?);
                self.at(expr, type_rules::binary(operator, left, right, accepted))
            }
            (op::INDEX, [operand, index]) => self.index(expr, operand, index),
            (name, args) => self.function(expr, name, call.target.as_deref(), args),
        }
    }

    fn index(&mut self, expr: &IdedExpr, operand: &IdedExpr, index: &IdedExpr) -> TypeResult {
        match self.value_type(operand)? {
            ValueType::List(items) => {
                self.expect(index, ValueType::Int, "the index of a list")?;
                Ok(*items)
            }
            ValueType::Dyn => {
                self.value_type(index)?;
                Ok(ValueType::Dyn)
            }
            other => Err(self.error(expr, format!("`[…]` cannot be applied to {other}"))),
        }
    }

    fn function(
        &mut self,
        expr: &IdedExpr,
        name: &str,
        target: Option<&IdedExpr>,
        args: &[IdedExpr],
    ) -> TypeResult {
        if !FUNCTIONS.contains(&name) {
            let known = FUNCTIONS.iter().copied();
            return Err(self.unknown(expr, &format!("function `{name}`"), name, known));
        }
        match (name, target, args) {
            ("contains" | "startsWith" | "endsWith" | "matches", Some(target), [text]) => {
                self.expect(
                    target,
                    ValueType::String,
                    &format!("the receiver of `.{name}`"),
                )?;
                self.expect(
                    text,
                    ValueType::String,
                    &format!("the argument of `{name}`"),
                )?;
                if name == patterns::FUNCTION {
                    self.pattern(text)?;
                }
                Ok(ValueType::Bool)
            }
            ("size", Some(operand), []) | ("size", None, [operand]) => {
                self.unary(expr, name, operand, SIZED)?;
                Ok(ValueType::Int)
            }
            ("int", None, [value]) => {
                self.unary(expr, name, value, NUMERIC)?;
                Ok(ValueType::Int)
            }
            ("double", None, [value]) => {
                self.unary(expr, name, value, NUMERIC)?;
                Ok(ValueType::Double)
            }
            ("string", None, [value]) => {
                self.unary(expr, name, value, PRINTABLE)?;
                Ok(ValueType::String)
            }
            _ => {
                let message = format!("`{name}` does not take these arguments");
                Err(self.error(expr, message))
            }
        }
    }

    fn unary(
        &mut self,
        expr: &IdedExpr,
        name: &str,
        operand: &IdedExpr,
        accepted: &[ValueType],
    ) -> TypeResult {
        let operand = self.value_type(operand)?;
        self.at(expr, type_rules::unary(name, operand, accepted))
    }

    /// A pattern must be a literal, so that it is compiled once and bounded.
    fn pattern(&mut self, expr: &IdedExpr) -> Result<(), ConditionError> {
        let Expr::Literal(LiteralValue::String(pattern)) = &expr.expr else {
            return Err(self.error(expr, "the pattern of `matches` must be a string literal"));
        };
        let added = self.checked.patterns.add(pattern.inner());
        added.map_err(|reason| self.error(expr, format!("invalid regular expression: {reason}")))
    }

    fn comprehension(&mut self, expr: &IdedExpr, comprehension: &ComprehensionExpr) -> TypeResult {
        let range = &comprehension.iter_range;
        let item = match self.value_type(range)? {
            ValueType::List(item) => *item,
            ValueType::Dyn => ValueType::Dyn,
            other => {
                let message = format!("a comprehension requires a list, not {other}");
                return Err(self.error(expr, message));
            }
        };
        let is_literal = matches!(range.expr, Expr::List(_));
        if self.loops > 1 || (self.loops == 1 && !is_literal) {
            let message = "a nested comprehension can only iterate over a list literal";
            return Err(self.error(expr, message));
        }
        if find(self.variables, &comprehension.iter_var).is_some() {
            let message = format!("`{}` is already a variable", comprehension.iter_var);
            return Err(self.error(expr, message));
        }
        if is_map(comprehension) {
            let message = "`map` is not supported; use `exists`, `all` or `filter`";
            return Err(self.error(expr, message));
        }
        let accumulated = match self.type_of(&comprehension.accu_init)? {
            ValueType::List(_) => item.list(),
            other => other,
        };
        let outer_scope = self.scope.len();
        self.scope.push((comprehension.iter_var.clone(), item));
        self.scope
            .push((comprehension.accu_var.clone(), accumulated));
        self.loops += 1;
        self.type_of(&comprehension.loop_cond)?;
        self.type_of(&comprehension.loop_step)?;
        self.loops -= 1;
        let result = self.type_of(&comprehension.result);
        self.scope.truncate(outer_scope);
        result
    }

    fn unknown<'a>(
        &self,
        expr: &IdedExpr,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> ConditionError {
        let hint = match similar_name(name, known.clone()) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => format!("expected one of {}", known.collect::<Vec<_>>().join(", ")),
        };
        self.error(expr, format!("unknown {what}; {hint}"))
    }

    /// Adds the position of an expression to a rule's error.
    fn at(&self, expr: &IdedExpr, checked: Result<ValueType, String>) -> TypeResult {
        checked.map_err(|message| self.error(expr, message))
    }

    fn error(&self, expr: &IdedExpr, message: impl Into<String>) -> ConditionError {
        let (start, _) = self.source.offset_for(expr.id).unwrap_or_default();
        ConditionError {
            message: message.into(),
            position: usize::try_from(start).unwrap_or_default() + 1,
        }
    }
}
