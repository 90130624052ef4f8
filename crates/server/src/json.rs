//! From a JSON body to calls, field by field, so that every mistake is named where it was made. Numbers in attributes
//! are read as their decimal text; everything else must have its own type.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::asked::{Asked, InlineLimit, Said, out_of_range, shown};
use crate::call::{Call, DEADLINE_MS_MAX, Field};
use crate::code::{Code, Rejection};

/// Checks in one batch at most.
pub const BATCH_MAX: usize = 1_000;

const BATCH_FIELDS: &[&str] = &["checks"];
const INLINE_FIELDS: &[&str] = &["name", "rate", "key"];

/// Reads the body of a call.
///
/// # Errors
///
/// The first mistake, by field.
pub fn asked_from_body(call: Call, body: &[u8]) -> Result<Asked, Rejection> {
    asked_from_fields(call, object_from_body(body)?, "")
}

/// Reads the body of `POST /v1/check/batch`: one result for each item, since a bad item spoils only its own place.
///
/// # Errors
///
/// A mistake that concerns the batch as a whole.
pub fn batch_from_body(body: &[u8]) -> Result<Vec<Result<Asked, Rejection>>, Rejection> {
    let mut batch = object_from_body(body)?;
    let checks = batch.remove("checks");
    no_others(&batch, BATCH_FIELDS.iter().copied(), "")?;
    let checks = match checks {
        Some(Value::Array(checks)) => checks,
        Some(other) => return Err(wrong_type("checks", "a list of checks", &other)),
        None => return Err(Rejection::of_field(Code::MissingField, "checks", "expected a list of checks")),
    };
    if checks.len() > BATCH_MAX {
        let detail = format!("{} checks; at most {BATCH_MAX} in one batch", checks.len());
        return Err(Rejection::of_field(Code::BatchTooLarge, "checks", detail));
    }
    Ok(checks.into_iter().enumerate().map(|(index, check)| item_from_value(check, index)).collect())
}

fn item_from_value(check: Value, index: usize) -> Result<Asked, Rejection> {
    if let Value::Object(fields) = check {
        return asked_from_fields(Call::Check, fields, &format!("checks[{index}]."));
    }
    Err(wrong_type(&format!("checks[{index}]"), "a check", &check))
}

fn object_from_body(body: &[u8]) -> Result<Map<String, Value>, Rejection> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => {
            Err(Rejection::new(Code::MalformedBody, format!("expected a JSON object, found {}", kind_of(&other))))
        }
        Err(error) => Err(Rejection::new(Code::MalformedBody, format!("not JSON: {error}"))),
    }
}

fn asked_from_fields(call: Call, mut fields: Map<String, Value>, place: &str) -> Result<Asked, Rejection> {
    let mut said = Said::default();
    for field in call.takes() {
        if let Some(value) = fields.remove(field.as_str()) {
            read(*field, value, call, &mut said, place)?;
        }
    }
    no_others(&fields, call.takes().iter().map(|field| field.as_str()), place)?;
    Asked::of(call, said, place)
}

fn read(field: Field, value: Value, call: Call, said: &mut Said, place: &str) -> Result<(), Rejection> {
    let name = format!("{place}{}", field.as_str());
    match field {
        Field::Domain => said.domain = Some(text_from(value, &name)?),
        Field::Attributes => said.pairs = pairs_from(value, &name)?,
        Field::Cost => said.cost = Some(number_from(&value, &name, call.costs())?),
        Field::UpTo => said.up_to = Some(switch_from(&value, &name)?),
        Field::Debt => said.debt = Some(switch_from(&value, &name)?),
        Field::Id => said.id = Some(text_from(value, &name)?),
        Field::Ttl => said.ttl_ms = Some(number_from(&value, &name, call.ttls_ms())?),
        Field::Limit => said.limit = Some(text_from(value, &name)?),
        Field::Inline => said.inline = limits_from(value, &name)?,
        Field::Deadline => said.deadline_ms = Some(number_from(&value, &name, 0..=DEADLINE_MS_MAX)?),
    }
    Ok(())
}

fn text_from(value: Value, field: &str) -> Result<String, Rejection> {
    let Value::String(text) = value else { return Err(wrong_type(field, "text", &value)) };
    Ok(text)
}

fn switch_from(value: &Value, field: &str) -> Result<bool, Rejection> {
    value.as_bool().ok_or_else(|| wrong_type(field, "true or false", value))
}

/// A whole number, which [`Asked::of`] holds to its range; what is no whole number is told the range at once.
fn number_from(value: &Value, field: &str, range: RangeInclusive<u64>) -> Result<u64, Rejection> {
    let Value::Number(number) = value else { return Err(wrong_type(field, "a whole number", value)) };
    number.as_u64().ok_or_else(|| out_of_range(field.to_owned(), &range, number))
}

fn pairs_from(value: Value, field: &str) -> Result<Vec<(String, String)>, Rejection> {
    let Value::Object(attributes) = value else {
        return Err(wrong_type(field, "an object of names and values", &value));
    };
    let pair = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Number(number) => Ok((name, number.to_string())),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(wrong_type(&format!("{field}.{}", shown(&name)), "text or a number", &value))
        }
    };
    attributes.into_iter().map(pair).collect()
}

/// Limits that are brought along: each has all of its fields.
fn limits_from(value: Value, field: &str) -> Result<Vec<InlineLimit>, Rejection> {
    let Value::Array(limits) = value else { return Err(wrong_type(field, "a list of limits", &value)) };
    limits.into_iter().enumerate().map(|(index, limit)| limit_from(limit, &format!("{field}[{index}]"))).collect()
}

fn limit_from(value: Value, place: &str) -> Result<InlineLimit, Rejection> {
    let Value::Object(mut fields) = value else { return Err(wrong_type(place, "a limit", &value)) };
    let mut needed = |name: &str| {
        let field = format!("{place}.{name}");
        let missing = || Rejection::of_field(Code::MissingField, &field, format!("a limit needs {name}"));
        fields.remove(name).ok_or_else(missing).map(|value| (value, field))
    };
    let ((name, name_field), (rate, rate_field), (key, key_field)) = (needed("name")?, needed("rate")?, needed("key")?);
    no_others(&fields, INLINE_FIELDS.iter().copied(), &format!("{place}."))?;
    let Value::Array(parts) = key else { return Err(wrong_type(&key_field, "a list of attribute names", &key)) };
    let key = parts.into_iter().map(|part| text_from(part, &key_field)).collect::<Result<_, _>>()?;
    Ok(InlineLimit { name: text_from(name, &name_field)?, rate: text_from(rate, &rate_field)?, key })
}

fn no_others<'a>(
    fields: &Map<String, Value>,
    known: impl Iterator<Item = &'a str>,
    place: &str,
) -> Result<(), Rejection> {
    match fields.keys().next() {
        None => Ok(()),
        Some(unknown) => {
            let detail = format!("expected one of {}", known.collect::<Vec<_>>().join(", "));
            Err(Rejection::of_field(Code::UnknownField, format!("{place}{}", shown(unknown)), detail))
        }
    }
}

fn wrong_type(field: &str, expected: &str, found: &Value) -> Rejection {
    Rejection::of_field(Code::WrongType, field, format!("expected {expected}, found {}", kind_of(found)))
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
