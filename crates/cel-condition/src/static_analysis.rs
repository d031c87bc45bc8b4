//! Static evaluation of a condition, by which variables are present.

use cel::{
    Context, IdedExpr, Value,
    common::ast::{Expr, operators as op},
};

use super::schema::{Variable, find};

/// Result that a condition has whatever the values of its variables are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StaticResult {
    /// Depends on the values.
    Dynamic,
    /// True for all values.
    True,
    /// False for all values.
    False,
    /// Fails, because this variable or field is absent.
    Absent(String),
}

impl StaticResult {
    fn negate(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
            unchanged @ (Self::Dynamic | Self::Absent(_)) => unchanged,
        }
    }

    /// An absent operand decides unless the other operand is false.
    fn and(self, right: Self) -> Self {
        match (self, right) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (absent @ Self::Absent(_), _) | (_, absent @ Self::Absent(_)) => absent,
            (Self::True, Self::True) => Self::True,
            (Self::Dynamic, _) | (_, Self::Dynamic) => Self::Dynamic,
        }
    }
}

/// Evaluates an expression as far as the variables that are present determine it.
pub(super) struct StaticEval<'a, 'p, 'v> {
    pub(super) variables: &'static [Variable],
    /// Returns true if the variable of this name is present.
    pub(super) is_present: &'a dyn Fn(&str) -> bool,
    /// Names and values of variables and fields that are known.
    pub(super) constants: &'a [(&'static str, &'a str)],
    /// Functions, and the variables that are known.
    pub(super) context: &'a Context<'p, 'v>,
}

impl StaticEval<'_, '_, '_> {
    pub(super) fn expression(&self, expr: &IdedExpr) -> StaticResult {
        let Expr::Call(call) = &expr.expr else {
            return self.atom(expr);
        };
        match (call.func_name.as_str(), call.args.as_slice()) {
            (op::LOGICAL_AND, [left, right]) => self.expression(left).and(self.expression(right)),
            (op::LOGICAL_OR, [left, right]) => {
                let neither = self.expression(left).negate();
                neither.and(self.expression(right).negate()).negate()
            }
            (op::LOGICAL_NOT, [operand]) => self.expression(operand).negate(),
            (op::CONDITIONAL, [condition, yes, no]) => match self.expression(condition) {
                StaticResult::True => self.expression(yes),
                StaticResult::False => self.expression(no),
                absent @ StaticResult::Absent(_) => absent,
                StaticResult::Dynamic => match (self.expression(yes), self.expression(no)) {
                    (yes, no) if yes == no => yes,
                    _ => StaticResult::Dynamic,
                },
            },
            _ => self.atom(expr),
        }
    }

    /// Evaluates an expression without logical operators.
    fn atom(&self, expr: &IdedExpr) -> StaticResult {
        let mentions = VariableMentions::new(expr, self.variables);
        if let (Expr::Select(select), [(variable, field)]) = (&expr.expr, mentions.names.as_slice())
            && select.test
            && let Some(field) = variable.field(field)
            && field.name == select.field
        {
            return match ((self.is_present)(variable.name), field.required) {
                (false, _) => StaticResult::False,
                (true, true) => StaticResult::True,
                (true, false) => StaticResult::Dynamic,
            };
        }
        let mut names = mentions.names.iter();
        let absent = names.find(|(variable, _)| !(self.is_present)(variable.name));
        match absent {
            _ if mentions.tests_presence => StaticResult::Dynamic,
            Some((variable, "")) => StaticResult::Absent(variable.name.to_owned()),
            Some((variable, field)) => StaticResult::Absent(format!("{}.{field}", variable.name)),
            None if mentions
                .names
                .iter()
                .all(|(variable, field)| self.is_constant(variable, field)) =>
            {
                match Value::resolve(expr, self.context) {
                    Ok(Value::Bool(true)) => StaticResult::True,
                    Ok(Value::Bool(false)) => StaticResult::False,
                    _ => StaticResult::Dynamic,
                }
            }
            None => StaticResult::Dynamic,
        }
    }

    fn is_constant(&self, variable: &Variable, field: &str) -> bool {
        self.constants.iter().any(|(name, _)| {
            let (known, known_field) = name.split_once('.').unwrap_or((name, ""));
            (known, known_field) == (variable.name, field)
        })
    }
}

/// The variables that an expression mentions.
#[derive(Debug)]
struct VariableMentions<'a> {
    variables: &'static [Variable],
    /// Each with its field, which is empty if it has none.
    names: Vec<(&'static Variable, &'a str)>,
    /// True if `has` is used below the top of the expression.
    tests_presence: bool,
}

impl<'a> VariableMentions<'a> {
    fn new(expr: &'a IdedExpr, variables: &'static [Variable]) -> Self {
        let mut mentions = Self {
            variables,
            names: Vec::new(),
            tests_presence: false,
        };
        mentions.collect(expr);
        let is_presence_test = matches!(&expr.expr, Expr::Select(select) if select.test);
        mentions.tests_presence &= !is_presence_test;
        mentions
    }

    fn collect(&mut self, expr: &'a IdedExpr) {
        match &expr.expr {
            Expr::Ident(name) => {
                let variable = find(self.variables, name);
                self.names.extend(variable.map(|variable| (variable, "")));
            }
            Expr::Select(select) => {
                self.tests_presence |= select.test;
                match &select.operand.expr {
                    Expr::Ident(name) => {
                        let variable = find(self.variables, name);
                        let named = variable.map(|known| (known, select.field.as_str()));
                        self.names.extend(named);
                    }
                    _ => self.collect(&select.operand),
                }
            }
            Expr::Call(call) => {
                let operands = call.target.as_deref().into_iter().chain(&call.args);
                operands.for_each(|operand| self.collect(operand));
            }
            Expr::List(list) => list.elements.iter().for_each(|item| self.collect(item)),
            Expr::Comprehension(comprehension) => {
                self.collect(&comprehension.iter_range);
                self.collect(&comprehension.loop_step);
                self.collect(&comprehension.result);
            }
            Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => (),
        }
    }
}
