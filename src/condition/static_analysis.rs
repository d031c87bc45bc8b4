//! What can be said of a condition for all events of one name, before any comes.

use cel::{
    IdedExpr, Value,
    common::ast::{Expr, operators as op},
};

use super::{
    Condition,
    cost_budget::Effort,
    schema::{Variable, variable},
};
use crate::event::EventName;

/// Whether a condition can hold on events of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StaticResult {
    /// It depends on the event.
    Depends,
    /// On every one.
    Always,
    /// On none.
    Never,
    /// It asks for this, which no such event has.
    Absent(String),
}

/// The prospect of a whole condition.
pub(super) fn prospect(condition: &Condition, event: EventName) -> StaticResult {
    Foresight { condition, event }.of(&condition.expression)
}

struct Foresight<'a> {
    condition: &'a Condition,
    event: EventName,
}

impl Foresight<'_> {
    fn of(&self, it: &IdedExpr) -> StaticResult {
        let Expr::Call(call) = &it.expr else {
            return self.atom(it);
        };
        match (call.func_name.as_str(), call.args.as_slice()) {
            (op::LOGICAL_AND, [left, right]) => both(self.of(left), self.of(right)),
            (op::LOGICAL_OR, [left, right]) => not(both(not(self.of(left)), not(self.of(right)))),
            (op::LOGICAL_NOT, [it]) => not(self.of(it)),
            (op::CONDITIONAL, [condition, yes, no]) => match self.of(condition) {
                StaticResult::Always => self.of(yes),
                StaticResult::Never => self.of(no),
                absent @ StaticResult::Absent(_) => absent,
                StaticResult::Depends => match (self.of(yes), self.of(no)) {
                    (yes, no) if yes == no => yes,
                    _ => StaticResult::Depends,
                },
            },
            _ => self.atom(it),
        }
    }

    /// Something without `&&`, `||` and their like.
    fn atom(&self, it: &IdedExpr) -> StaticResult {
        let mut mentioned = Mentioned::default();
        mentioned.look(it);
        if let (Expr::Select(select), [(variable, field)]) = (&it.expr, mentioned.names.as_slice())
            && select.test
            && variable
                .field(field)
                .is_some_and(|it| it.name == select.field)
        {
            let always = variable.field(field).is_some_and(|it| it.always);
            return match (variable.is_on(self.event), always) {
                (false, _) => StaticResult::Never,
                (true, true) => StaticResult::Always,
                (true, false) => StaticResult::Depends,
            };
        }
        let absent = mentioned.names.iter().find(|it| !it.0.is_on(self.event));
        match absent {
            _ if mentioned.asks => StaticResult::Depends,
            Some((variable, "")) => StaticResult::Absent(variable.name.to_owned()),
            Some((variable, field)) => StaticResult::Absent(format!("{}.{field}", variable.name)),
            None if mentioned.names.iter().all(|it| it.0.name == "event") => self.evaluate(it),
            None => StaticResult::Depends,
        }
    }

    /// Something that depends on nothing but the event's name.
    fn evaluate(&self, it: &IdedExpr) -> StaticResult {
        let mut context = self.condition.context(&Effort::new());
        context.add_variable_from_value("event", self.event.as_str());
        match Value::resolve(it, &context) {
            Ok(Value::Bool(true)) => StaticResult::Always,
            Ok(Value::Bool(false)) => StaticResult::Never,
            _ => StaticResult::Depends,
        }
    }
}

fn not(prospect: StaticResult) -> StaticResult {
    match prospect {
        StaticResult::Always => StaticResult::Never,
        StaticResult::Never => StaticResult::Always,
        depends @ (StaticResult::Depends | StaticResult::Absent(_)) => depends,
    }
}

/// What is absent counts as long as nothing else decides.
fn both(left: StaticResult, right: StaticResult) -> StaticResult {
    match (left, right) {
        (StaticResult::Never, _) | (_, StaticResult::Never) => StaticResult::Never,
        (absent @ StaticResult::Absent(_), _) | (_, absent @ StaticResult::Absent(_)) => absent,
        (StaticResult::Always, StaticResult::Always) => StaticResult::Always,
        (StaticResult::Depends, _) | (_, StaticResult::Depends) => StaticResult::Depends,
    }
}

/// The facts that an expression mentions.
#[derive(Debug, Default)]
struct Mentioned<'a> {
    /// Each with its field, which is empty if it has none.
    names: Vec<(&'static Variable, &'a str)>,
    /// Whether it asks for anything with `has`, but is more than that question.
    asks: bool,
}

impl<'a> Mentioned<'a> {
    fn look(&mut self, it: &'a IdedExpr) {
        self.part(it);
        let is_question = matches!(&it.expr, Expr::Select(select) if select.test);
        self.asks &= !is_question;
    }

    fn part(&mut self, it: &'a IdedExpr) {
        match &it.expr {
            Expr::Ident(name) => self.names.extend(variable(name).map(|it| (it, ""))),
            Expr::Select(select) => {
                self.asks |= select.test;
                let operand = &select.operand;
                match &operand.expr {
                    Expr::Ident(name) => {
                        let field = variable(name).map(|it| (it, select.field.as_str()));
                        self.names.extend(field);
                    }
                    _ => self.part(operand),
                }
            }
            Expr::Call(call) => {
                let parts = call.target.as_deref().into_iter().chain(&call.args);
                parts.for_each(|it| self.part(it));
            }
            Expr::List(list) => list.elements.iter().for_each(|it| self.part(it)),
            Expr::Comprehension(it) => {
                for part in [&it.iter_range, &it.loop_step, &it.result] {
                    self.part(part);
                }
            }
            Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => (),
        }
    }
}
