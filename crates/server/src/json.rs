//! From a JSON body to checks, field by field, so that every mistake is named where it was made. Numbers in attributes
//! are read as their decimal text; everything else must have its own type.

use limits::{AMOUNT_MAX, Span};
use policy::{AttributeError, Attributes};
use serde_json::{Map, Value};

use crate::code::{Code, Rejection};

/// The domain of a check that names none.
pub const DOMAIN_DEFAULT: &str = "default";

/// The longest id of a caller's own, in characters.
pub const ID_MAX: usize = 64;

/// Checks in one batch at most.
pub const BATCH_MAX: usize = 1_000;

/// The longest deadline that a caller may spell, in milliseconds (the node cuts it to its own maximum): one day.
pub const DEADLINE_MS_MAX: u64 = 86_400_000;

const CHECK_FIELDS: &[&str] = &["domain", "attributes", "cost", "id", "deadline_ms"];
const BATCH_FIELDS: &[&str] = &["checks"];

/// One check as it was asked, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedCheck {
    /// The policy's name space.
    pub domain: String,
    /// Names and values as they came; [`AskedCheck::attributes`] checks them.
    pub pairs: Vec<(String, String)>,
    /// Units to spend.
    pub cost: u64,
    /// The caller's own id, if it gave one.
    pub id: Option<String>,
    /// How long the caller waits, if it said so.
    pub deadline: Option<Span>,
}

impl AskedCheck {
    /// The attributes, checked.
    ///
    /// # Errors
    ///
    /// A rejection that names the attribute.
    pub fn attributes(&self, place: &str) -> Result<Attributes<'_>, Rejection> {
        Attributes::new(self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))
            .map_err(|error| attribute_rejection(&error, place))
    }
}

/// How a malformed attribute is told.
pub fn attribute_rejection(error: &AttributeError, place: &str) -> Rejection {
    let code = match error {
        AttributeError::TooMany => Code::TooManyAttributes,
        AttributeError::ValueTooLong { .. } => Code::ValueTooLong,
        AttributeError::NameMalformed { .. }
        | AttributeError::ValueEmpty { .. }
        | AttributeError::Duplicate { .. }
        | AttributeError::NotAnAddress { .. } => Code::OutOfRange,
    };
    let field = match error.attribute() {
        Some(name) => format!("{place}attributes.{name}"),
        None => format!("{place}attributes"),
    };
    Rejection::of_field(code, field, error.to_string())
}

/// Reads the body of `POST /v1/check`.
///
/// # Errors
///
/// The first mistake, by field.
pub fn check_from_body(body: &[u8]) -> Result<AskedCheck, Rejection> {
    check_from_value(object_from_body(body)?, "")
}

/// Reads the body of `POST /v1/check/batch`: one result for each item, since a bad item spoils only its own place.
///
/// # Errors
///
/// A mistake that concerns the batch as a whole.
pub fn batch_from_body(body: &[u8]) -> Result<Vec<Result<AskedCheck, Rejection>>, Rejection> {
    let mut batch = object_from_body(body)?;
    let checks = batch.remove("checks");
    no_others(&batch, BATCH_FIELDS, "")?;
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

fn item_from_value(check: Value, index: usize) -> Result<AskedCheck, Rejection> {
    if let Value::Object(fields) = check {
        return check_from_value(fields, &format!("checks[{index}]."));
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

fn check_from_value(mut fields: Map<String, Value>, place: &str) -> Result<AskedCheck, Rejection> {
    let asked = AskedCheck {
        domain: domain_from(fields.remove("domain"), place)?,
        pairs: pairs_from(fields.remove("attributes"), place)?,
        cost: number_from(fields.remove("cost"), "cost", AMOUNT_MAX, place)?.unwrap_or(1),
        id: id_from(fields.remove("id"), place)?,
        deadline: number_from(fields.remove("deadline_ms"), "deadline_ms", DEADLINE_MS_MAX, place)?
            .map(Span::from_millis),
    };
    no_others(&fields, CHECK_FIELDS, place)?;
    Ok(asked)
}

fn domain_from(value: Option<Value>, place: &str) -> Result<String, Rejection> {
    match value {
        None => Ok(DOMAIN_DEFAULT.to_owned()),
        Some(Value::String(domain)) if domain.is_empty() => {
            Err(Rejection::of_field(Code::OutOfRange, format!("{place}domain"), "a domain has a name"))
        }
        Some(Value::String(domain)) => Ok(domain),
        Some(other) => Err(wrong_type(&format!("{place}domain"), "text", &other)),
    }
}

fn pairs_from(value: Option<Value>, place: &str) -> Result<Vec<(String, String)>, Rejection> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::Object(attributes)) => attributes
            .into_iter()
            .map(|(name, value)| match value {
                Value::String(text) => Ok((name, text)),
                Value::Number(number) => Ok((name, number.to_string())),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                    Err(wrong_type(&format!("{place}attributes.{name}"), "text or a number", &value))
                }
            })
            .collect(),
        Some(other) => Err(wrong_type(&format!("{place}attributes"), "an object of names and values", &other)),
    }
}

fn number_from(value: Option<Value>, name: &str, max: u64, place: &str) -> Result<Option<u64>, Rejection> {
    let Some(value) = value else { return Ok(None) };
    let field = format!("{place}{name}");
    let Value::Number(number) = &value else { return Err(wrong_type(&field, "a whole number", &value)) };
    match number.as_u64() {
        Some(amount) if amount <= max => Ok(Some(amount)),
        Some(_) | None => {
            let detail = format!("expected a whole number from 0 to {max}, found {number}");
            Err(Rejection::of_field(Code::OutOfRange, field, detail))
        }
    }
}

fn id_from(value: Option<Value>, place: &str) -> Result<Option<String>, Rejection> {
    let field = format!("{place}id");
    match value {
        None => Ok(None),
        Some(Value::String(id)) => check_id(&id, &field).map(|()| Some(id)),
        Some(other) => Err(wrong_type(&field, "text", &other)),
    }
}

/// Whether a caller's own id is 1 to [`ID_MAX`] printable ASCII characters.
///
/// # Errors
///
/// A rejection of `field`.
pub fn check_id(id: &str, field: &str) -> Result<(), Rejection> {
    let printable = id.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if id.is_empty() || id.len() > ID_MAX || !printable {
        let detail = format!("expected 1 to {ID_MAX} printable ASCII characters");
        return Err(Rejection::of_field(Code::OutOfRange, field, detail));
    }
    Ok(())
}

fn no_others(fields: &Map<String, Value>, known: &[&str], place: &str) -> Result<(), Rejection> {
    match fields.keys().next() {
        None => Ok(()),
        Some(unknown) => {
            let detail = format!("expected one of {}", known.join(", "));
            Err(Rejection::of_field(Code::UnknownField, format!("{place}{unknown}"), detail))
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
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn rejected(body: &str) -> (Code, String) {
        let rejection = check_from_body(body.as_bytes()).unwrap_err();
        (rejection.code, rejection.field)
    }

    #[test]
    fn the_smallest_check_has_defaults() {
        let asked = check_from_body(br#"{"attributes":{"client":"alice","port":8080}}"#).unwrap();
        assert_eq!(asked.domain, "default");
        assert_eq!(asked.cost, 1);
        assert_eq!(asked.pairs, [("client".into(), "alice".into()), ("port".into(), "8080".into())]);
        assert_eq!((asked.id, asked.deadline), (None, None));
    }

    #[test]
    fn every_mistake_names_its_field() {
        for (body, code, field) in [
            ("{", Code::MalformedBody, ""),
            ("[]", Code::MalformedBody, ""),
            (r#"{"cots":1}"#, Code::UnknownField, "cots"),
            (r#"{"cost":-1}"#, Code::OutOfRange, "cost"),
            (r#"{"cost":1.5}"#, Code::OutOfRange, "cost"),
            (r#"{"cost":1000000000000000}"#, Code::OutOfRange, "cost"),
            (r#"{"cost":99999999999999999999999}"#, Code::OutOfRange, "cost"),
            (r#"{"cost":"1"}"#, Code::WrongType, "cost"),
            (r#"{"domain":7}"#, Code::WrongType, "domain"),
            (r#"{"domain":""}"#, Code::OutOfRange, "domain"),
            (r#"{"attributes":[]}"#, Code::WrongType, "attributes"),
            (r#"{"attributes":{"client":true}}"#, Code::WrongType, "attributes.client"),
            (r#"{"id":""}"#, Code::OutOfRange, "id"),
            (r#"{"id":"a\nb"}"#, Code::OutOfRange, "id"),
            (r#"{"deadline_ms":-5}"#, Code::OutOfRange, "deadline_ms"),
        ] {
            assert_eq!(rejected(body), (code, field.to_owned()), "{body}");
        }
    }

    #[test]
    fn attributes_are_checked_by_name() {
        for (body, code, field) in [
            (r#"{"attributes":{"client":""}}"#.to_owned(), Code::OutOfRange, "attributes.client"),
            (r#"{"attributes":{"Client":"x"}}"#.to_owned(), Code::OutOfRange, "attributes.Client"),
            (
                format!(r#"{{"attributes":{{"client":"{}"}}}}"#, "x".repeat(10_240)),
                Code::ValueTooLong,
                "attributes.client",
            ),
            (r#"{"attributes":{"ip":"nonsense"}}"#.to_owned(), Code::OutOfRange, "attributes.ip"),
        ] {
            let asked = check_from_body(body.as_bytes()).unwrap();
            let rejection = asked.attributes("").unwrap_err();
            assert_eq!((rejection.code, rejection.field.as_str()), (code, field), "{body}");
        }
    }

    #[test]
    fn a_bad_item_spoils_only_its_own_place() {
        let batch = batch_from_body(br#"{"checks":[{"cost":2},{"cost":-2},7]}"#).unwrap();
        assert_eq!(batch[0].as_ref().unwrap().cost, 2);
        assert_eq!(batch[1].as_ref().unwrap_err().field, "checks[1].cost");
        assert_eq!(batch[2].as_ref().unwrap_err().code, Code::WrongType);
    }

    #[test]
    fn a_batch_of_a_thousand_and_one_is_too_large() {
        let body = |count: usize| format!(r#"{{"checks":[{}]}}"#, vec!["{}"; count].join(","));
        assert_eq!(batch_from_body(body(1_000).as_bytes()).unwrap().len(), 1_000);
        assert_eq!(batch_from_body(body(1_001).as_bytes()).unwrap_err().code, Code::BatchTooLarge);
        assert_eq!(batch_from_body(br#"{"checks":[],"x":1}"#).unwrap_err().code, Code::UnknownField);
        assert_eq!(batch_from_body(b"{}").unwrap_err().code, Code::MissingField);
    }
}
