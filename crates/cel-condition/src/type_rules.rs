//! Typing rules of operators and functions. Errors are messages without position.

use cel::common::ast::LiteralValue;

use super::schema::ValueType;

pub(super) const NUMBERS: &[ValueType] = &[ValueType::Int, ValueType::Double];

/// Types that `int` and `double` convert.
pub(super) const NUMERIC: &[ValueType] = &[ValueType::Int, ValueType::Double, ValueType::String];

/// Types that `string` converts.
pub(super) const PRINTABLE: &[ValueType] = &[
    ValueType::Bool,
    ValueType::Int,
    ValueType::Double,
    ValueType::String,
];

pub(super) const SIZED: &[ValueType] = &[ValueType::String, ValueType::List(&ValueType::Dyn)];

pub(super) const ORDERED: &[ValueType] = &[ValueType::Int, ValueType::String];

pub(super) const ADDABLE: &[ValueType] = &[
    ValueType::Int,
    ValueType::Double,
    ValueType::String,
    ValueType::List(&ValueType::Dyn),
];

pub(super) fn literal(literal: &LiteralValue) -> Result<ValueType, String> {
    let message = match literal {
        LiteralValue::Boolean(_) => return Ok(ValueType::Bool),
        LiteralValue::Double(_) => return Ok(ValueType::Double),
        LiteralValue::Int(_) => return Ok(ValueType::Int),
        LiteralValue::String(_) => return Ok(ValueType::String),
        LiteralValue::Null => return Ok(ValueType::Null),
        LiteralValue::UInt(_) => "unsigned literals are not supported; remove the `u`",
        LiteralValue::Bytes(_) => "bytes literals are not supported; use a string",
    };
    Err(message.to_owned())
}

/// Checks a single operand, and returns its type.
pub(super) fn unary(
    name: &str,
    operand: ValueType,
    accepted: &[ValueType],
) -> Result<ValueType, String> {
    if accepted.iter().any(|accepted| accepted.fits(operand)) {
        return Ok(operand);
    }
    Err(format!("`{name}` cannot be applied to {operand}"))
}

/// Checks that both operands have the same one of the `accepted` types.
pub(super) fn binary(
    operator: &str,
    left: ValueType,
    right: ValueType,
    accepted: &[ValueType],
) -> Result<ValueType, String> {
    if left == ValueType::Dyn && right == ValueType::Dyn {
        return Ok(ValueType::Dyn);
    }
    let fits_both = |accepted: &&ValueType| accepted.fits(left) && accepted.fits(right);
    if let Some(common) = accepted.iter().find(fits_both) {
        return Ok(*common);
    }
    let accepted: Vec<String> = accepted.iter().map(ValueType::to_string).collect();
    let accepted = accepted.join(", or two of type ");
    Err(format!(
        "`{operator}` takes two operands of type {accepted}, not {left} and {right}"
    ))
}

/// The type of `left < right` and its like. An int compares with a double.
pub(super) fn ordering(
    operator: &str,
    left: ValueType,
    right: ValueType,
) -> Result<ValueType, String> {
    let are_numbers = left.compares(right) && ValueType::Int.compares(left);
    if !are_numbers {
        binary(operator, left, right, ORDERED)?;
    }
    Ok(ValueType::Bool)
}

pub(super) fn equality(left: ValueType, right: ValueType) -> Result<ValueType, String> {
    let null = left == ValueType::Null || right == ValueType::Null;
    if left.compares(right) || null {
        return Ok(ValueType::Bool);
    }
    Err(format!(
        "values of types {left} and {right} are never equal"
    ))
}

pub(super) fn membership(element: ValueType, list: ValueType) -> Result<ValueType, String> {
    match list {
        ValueType::List(items) if !items.compares(element) => Err(format!(
            "a value of type {element} is never in a list of {items}"
        )),
        ValueType::List(_) | ValueType::Dyn => Ok(ValueType::Bool),
        ValueType::String => {
            Err("`in` requires a list; for a string use `.contains(…)`".to_owned())
        }
        other => Err(format!("`in` requires a list, not {other}")),
    }
}
