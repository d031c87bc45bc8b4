//! Recognition of the `map` macro, which the parser has already expanded.

use cel::{
    IdedExpr,
    common::ast::{ComprehensionExpr, Expr, operators as op},
};

/// Returns whether a comprehension collects anything but its items.
pub(super) fn is_map(comprehension: &ComprehensionExpr) -> bool {
    let added = |expr: &IdedExpr| match &expr.expr {
        Expr::Call(call) if call.func_name == op::ADD => {
            call.args.last().map(|arg| arg.expr.clone())
        }
        _ => None,
    };
    let appended = match &comprehension.loop_step.expr {
        Expr::Call(call) if call.func_name == op::CONDITIONAL => call.args.get(1).and_then(added),
        _ => added(&comprehension.loop_step),
    };
    let Some(Expr::List(list)) = appended else {
        return false;
    };
    let item = Expr::Ident(comprehension.iter_var.clone());
    list.elements.iter().any(|element| element.expr != item)
}
