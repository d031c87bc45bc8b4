//! Which kind each part of a condition is of: unknown names, values that cannot
//! be compared and costly loops are found before anything runs.

use cel::{
    IdedExpr,
    common::ast::{
        CallExpr, ComprehensionExpr, Expr, LiteralValue, SelectExpr, SourceInfo, operators as op,
    },
};

use super::{
    ConditionError,
    patterns::{self, Patterns},
    schema::{FUNCTIONS, Kind, Uses, VARIABLES, variable},
};

/// What a checked condition speaks about.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) uses: Uses,
    pub(super) patterns: Patterns,
}

/// Checks a whole condition.
pub(super) fn check(expression: &IdedExpr, source: &SourceInfo) -> Result<Checked, ConditionError> {
    let mut checker = Checker {
        source,
        scope: Vec::new(),
        checked: Checked::default(),
        depth: 0,
        loops: 0,
    };
    checker.expect(expression, Kind::Bool, "a condition")?;
    Ok(checker.checked)
}

const COMPARED: &[Kind] = &[Kind::Number, Kind::Text];

const ADDED: &[Kind] = &[
    Kind::Number,
    Kind::Decimal,
    Kind::Text,
    Kind::List(&Kind::Any),
];

/// How deep an expression may nest once its loops are written out.
const DEEPEST: usize = 64;

struct Checker<'a> {
    source: &'a SourceInfo,
    /// What loops have named, innermost last.
    scope: Vec<(String, Kind)>,
    checked: Checked,
    depth: usize,
    loops: usize,
}

type Checking = Result<Kind, ConditionError>;

impl Checker<'_> {
    fn kind(&mut self, it: &IdedExpr) -> Checking {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error(it, "it nests too deep"));
        }
        let kind = match &it.expr {
            Expr::Literal(literal) => self.literal(it, literal),
            Expr::Ident(name) => self.ident(it, name),
            Expr::Select(select) => self.select(it, select),
            Expr::List(list) => self.list(&list.elements),
            Expr::Call(call) => self.call(it, call),
            Expr::Comprehension(comprehension) => self.comprehension(it, comprehension),
            Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => {
                Err(self.error(it, "a condition cannot write out a mapping"))
            }
        }?;
        self.depth -= 1;
        Ok(kind)
    }

    /// The kind of something that must be a value: a record is none.
    fn value(&mut self, it: &IdedExpr) -> Checking {
        match self.kind(it)? {
            Kind::Record(record) => {
                let fields = record.fields.iter().map(|it| it.name);
                let first = fields.take(1).collect::<String>();
                let name = record.name;
                let message =
                    format!("`{name}` is several facts; name one, such as `{name}.{first}`");
                Err(self.error(it, message))
            }
            kind => Ok(kind),
        }
    }

    fn expect(&mut self, it: &IdedExpr, wanted: Kind, what: &str) -> Result<(), ConditionError> {
        let kind = self.value(it)?;
        if kind.fits(wanted) {
            return Ok(());
        }
        Err(self.error(it, format!("{what} must be {wanted}, not {kind}")))
    }

    fn literal(&self, it: &IdedExpr, literal: &LiteralValue) -> Checking {
        match literal {
            LiteralValue::Boolean(_) => Ok(Kind::Bool),
            LiteralValue::Double(_) => Ok(Kind::Decimal),
            LiteralValue::Int(_) => Ok(Kind::Number),
            LiteralValue::UInt(_) => Err(self.error(it, "write numbers without `u`")),
            LiteralValue::String(_) => Ok(Kind::Text),
            LiteralValue::Null => Ok(Kind::Null),
            LiteralValue::Bytes(_) => Err(self.error(it, "nothing here is bytes; write text")),
        }
    }

    fn ident(&mut self, it: &IdedExpr, name: &str) -> Checking {
        if let Some((_, kind)) = self.scope.iter().rev().find(|it| it.0 == name) {
            return Ok(*kind);
        }
        let Some(variable) = variable(name) else {
            let known = VARIABLES.iter().map(|it| it.name);
            return Err(self.unknown(it, "variable", name, known));
        };
        if variable.fields.is_empty() {
            self.checked.uses.add(variable.name, "");
        }
        Ok(variable.kind())
    }

    fn select(&mut self, it: &IdedExpr, select: &SelectExpr) -> Checking {
        let kind = match self.kind(&select.operand)? {
            Kind::Record(record) => {
                let Some(field) = record.field(&select.field) else {
                    let known = record.fields.iter().map(|it| it.name);
                    let what = format!("field of `{}`", record.name);
                    return Err(self.unknown(it, &what, &select.field, known));
                };
                self.checked.uses.add(record.name, field.name);
                field.kind
            }
            Kind::Any => Kind::Any,
            kind => {
                let message = format!("`.{}` asks for a field of {kind}", select.field);
                return Err(self.error(it, message));
            }
        };
        Ok(if select.test { Kind::Bool } else { kind })
    }

    fn list(&mut self, elements: &[IdedExpr]) -> Checking {
        let mut all = None;
        for element in elements {
            let kind = self.value(element)?;
            all = match all {
                None => Some(kind),
                Some(known) if known == kind => all,
                Some(_) => Some(Kind::Any),
            };
        }
        Ok(all.unwrap_or(Kind::Any).list())
    }

    fn call(&mut self, it: &IdedExpr, call: &CallExpr) -> Checking {
        let operator = call.func_name.trim_matches(['_', '@']);
        match (call.func_name.as_str(), call.args.as_slice()) {
            (op::LOGICAL_AND | op::LOGICAL_OR | op::LOGICAL_NOT | op::NOT_STRICTLY_FALSE, args) => {
                for arg in args {
                    self.expect(arg, Kind::Bool, &format!("what `{operator}` is about"))?;
                }
                Ok(Kind::Bool)
            }
            (op::CONDITIONAL, [condition, yes, no]) => {
                self.expect(condition, Kind::Bool, "what stands before `?`")?;
                let (yes, no) = (self.value(yes)?, self.value(no)?);
                Ok(if yes == no { yes } else { Kind::Any })
            }
            (op::EQUALS | op::NOT_EQUALS, [left, right]) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                let null = left == Kind::Null || right == Kind::Null;
                if left.compares(right) || null {
                    return Ok(Kind::Bool);
                }
                let message = format!("{left} is never equal to {right}");
                Err(self.error(it, message))
            }
            (op::GREATER | op::GREATER_EQUALS | op::LESS | op::LESS_EQUALS, [left, right]) => {
                self.pair(it, (left, right), COMPARED)?;
                Ok(Kind::Bool)
            }
            (op::ADD, [left, right]) => self.pair(it, (left, right), ADDED),
            (op::SUBSTRACT | op::MULTIPLY | op::DIVIDE, [left, right]) => {
                self.pair(it, (left, right), &[Kind::Number, Kind::Decimal])
            }
            (op::MODULO, [left, right]) => self.pair(it, (left, right), &[Kind::Number]),
            (op::NEGATE, [number]) => match self.value(number)? {
                kind @ (Kind::Any | Kind::Number | Kind::Decimal) => Ok(kind),
                kind => Err(self.error(it, format!("there is no `-` of {kind}"))),
            },
            (op::IN, [element, list]) => self.membership(it, element, list),
            (op::INDEX, [whole, index]) => self.index(it, whole, index),
            (name, args) => self.function(it, name, call.target.as_deref(), args),
        }
    }

    /// Both sides of an operator must be of one kind among these.
    fn pair(
        &mut self,
        it: &IdedExpr,
        (left, right): (&IdedExpr, &IdedExpr),
        all: &[Kind],
    ) -> Checking {
        let (left, right) = (self.value(left)?, self.value(right)?);
        let both = all.iter().find(|it| it.fits(left) && it.fits(right));
        let compared = all == COMPARED && left.compares(right);
        match both {
            Some(_) if left == Kind::Any && right == Kind::Any => Ok(Kind::Any),
            Some(both) => Ok(*both),
            None if compared && Kind::Number.compares(left) => Ok(Kind::Bool),
            None => {
                let operator = match &it.expr {
                    Expr::Call(call) => call.func_name.trim_matches('_'),
                    _ => "it",
                };
                let all: Vec<String> = all.iter().map(|it| format!("{it} and {it}")).collect();
                let all = all.join(", or ");
                let message = format!("`{operator}` takes {all}; here are {left} and {right}");
                Err(self.error(it, message))
            }
        }
    }

    fn membership(&mut self, it: &IdedExpr, element: &IdedExpr, list: &IdedExpr) -> Checking {
        let (element, list) = (self.value(element)?, self.value(list)?);
        match list {
            Kind::List(each) if !each.compares(element) => {
                let message = format!("{element} is never in a list whose elements are {each}");
                Err(self.error(it, message))
            }
            Kind::List(_) | Kind::Any => Ok(Kind::Bool),
            Kind::Text => Err(self.error(it, "`in` looks into lists; of text ask `.contains(…)`")),
            kind => Err(self.error(it, format!("`in` looks into lists, not into {kind}"))),
        }
    }

    fn index(&mut self, it: &IdedExpr, whole: &IdedExpr, index: &IdedExpr) -> Checking {
        match self.value(whole)? {
            Kind::List(each) => {
                self.expect(index, Kind::Number, "the place in a list")?;
                Ok(*each)
            }
            Kind::Any => {
                self.value(index)?;
                Ok(Kind::Any)
            }
            kind => Err(self.error(it, format!("`[…]` asks for a part of {kind}"))),
        }
    }

    fn function(
        &mut self,
        it: &IdedExpr,
        name: &str,
        target: Option<&IdedExpr>,
        args: &[IdedExpr],
    ) -> Checking {
        if !FUNCTIONS.contains(&name) {
            return Err(self.unknown(it, "function", name, FUNCTIONS.iter().copied()));
        }
        match (name, target, args) {
            ("contains" | "startsWith" | "endsWith" | "matches", Some(target), [text]) => {
                self.expect(target, Kind::Text, &format!("what `.{name}` is asked of"))?;
                self.expect(text, Kind::Text, &format!("what `{name}` is given"))?;
                if name == patterns::FUNCTION {
                    self.pattern(text)?;
                }
                Ok(Kind::Bool)
            }
            ("size", Some(whole), []) | ("size", None, [whole]) => match self.value(whole)? {
                Kind::Any | Kind::Text | Kind::List(_) => Ok(Kind::Number),
                kind => Err(self.error(it, format!("{kind} has no size"))),
            },
            ("int" | "double" | "string", None, [value]) => match self.value(value)? {
                kind @ (Kind::Null | Kind::List(_) | Kind::Record(_)) => {
                    Err(self.error(it, format!("`{name}` makes nothing of {kind}")))
                }
                _ if name == "string" => Ok(Kind::Text),
                Kind::Bool => Err(self.error(it, format!("`{name}` makes nothing of a yes or no"))),
                _ if name == "double" => Ok(Kind::Decimal),
                _ => Ok(Kind::Number),
            },
            _ => Err(self.error(it, format!("`{name}` is called another way"))),
        }
    }

    /// A pattern is written out, so that it is compiled once and bounded.
    fn pattern(&mut self, it: &IdedExpr) -> Result<(), ConditionError> {
        let Expr::Literal(LiteralValue::String(pattern)) = &it.expr else {
            return Err(self.error(it, "the pattern of `matches` must be written out"));
        };
        let added = self.checked.patterns.add(pattern.inner());
        added.map_err(|why| self.error(it, format!("no regular expression: {why}")))
    }

    fn comprehension(&mut self, it: &IdedExpr, comprehension: &ComprehensionExpr) -> Checking {
        let range = &comprehension.iter_range;
        let each = match self.value(range)? {
            Kind::List(each) => *each,
            Kind::Any => Kind::Any,
            kind => return Err(self.error(it, format!("a loop goes over a list, not over {kind}"))),
        };
        let written_out = matches!(range.expr, Expr::List(_));
        if self.loops > 1 || (self.loops == 1 && !written_out) {
            let message = "a loop inside a loop can only go over a list that is written out";
            return Err(self.error(it, message));
        }
        if variable(&comprehension.iter_var).is_some() {
            let message = format!("`{}` is a variable already", comprehension.iter_var);
            return Err(self.error(it, message));
        }
        if is_map(comprehension) {
            return Err(self.error(
                it,
                "there is no `map` here; `exists`, `all` and `filter` do",
            ));
        }
        let accumulated = match self.kind(&comprehension.accu_init)? {
            Kind::List(_) => each.list(),
            kind => kind,
        };
        let outside = self.scope.len();
        self.scope.push((comprehension.iter_var.clone(), each));
        self.scope
            .push((comprehension.accu_var.clone(), accumulated));
        self.loops += 1;
        self.kind(&comprehension.loop_cond)?;
        self.kind(&comprehension.loop_step)?;
        self.loops -= 1;
        let result = self.kind(&comprehension.result);
        self.scope.truncate(outside);
        result
    }

    fn unknown<'a>(
        &self,
        it: &IdedExpr,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> ConditionError {
        const ALIKE: f64 = 0.8;
        let known: Vec<&str> = known.collect();
        let likeness = |it: &str| strsim::jaro_winkler(&name.to_lowercase(), &it.to_lowercase());
        let best = known
            .iter()
            .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let hint = match best.filter(|it| likeness(it) >= ALIKE) {
            Some(best) => format!("did you mean `{best}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        self.error(it, format!("unknown {what} `{name}`; {hint}"))
    }

    fn error(&self, it: &IdedExpr, message: impl Into<String>) -> ConditionError {
        let (start, _) = self.source.offset_for(it.id).unwrap_or_default();
        ConditionError {
            message: message.into(),
            at: usize::try_from(start).unwrap_or_default() + 1,
        }
    }
}

/// Whether a loop makes a list of something else than what it goes over.
fn is_map(comprehension: &ComprehensionExpr) -> bool {
    let added = |it: &IdedExpr| match &it.expr {
        Expr::Call(call) if call.func_name == op::ADD => call.args.last().map(|it| it.expr.clone()),
        _ => None,
    };
    let appended = match &comprehension.loop_step.expr {
        Expr::Call(call) if call.func_name == op::CONDITIONAL => call.args.get(1).and_then(added),
        _ => added(&comprehension.loop_step),
    };
    match appended {
        Some(Expr::List(list)) => {
            let same = Expr::Ident(comprehension.iter_var.clone());
            list.elements.iter().any(|it| it.expr != same)
        }
        _ => false,
    }
}
