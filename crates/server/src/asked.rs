//! A call as its caller meant it: the fields that a door found, held to the ranges of the table of calls. JSON and gRPC
//! differ in how a field is spelled and in nothing that is decided here.

use std::fmt::Display;
use std::ops::RangeInclusive;

use limits::Span;
use node::{AskedId, BROUGHT_MAX, Brought, Node, Question, Wanted};
use policy::{AttributeError, Attributes, name::NAME_MAX};

use crate::access::Caller;
use crate::call::{Call, DEADLINE_MS_MAX, Field};
use crate::code::{Code, Rejection};

/// The domain of a call that names none.
pub const DOMAIN_DEFAULT: &str = "default";

/// The longest id of a caller's own, in characters.
pub const ID_MAX: usize = 64;

/// A limit that a call brings along, as it was said; [`Asked::brought`] lends it to the node, which checks it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InlineLimit {
    /// Its name in the domain.
    pub name: String,
    /// Its rate, as in a policy.
    pub rate: String,
    /// The attributes that it counts by.
    pub key: Vec<String>,
}

/// The fields that were found, each of its own type. What was not said is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The policy's name space.
    pub domain: Option<String>,
    /// Names and values as they came; [`Asked::attributes`] checks them.
    pub pairs: Vec<(String, String)>,
    /// Units.
    pub cost: Option<u64>,
    /// Whether less than all of the units will do.
    pub up_to: Option<bool>,
    /// Whether what was spent above a reserve is booked.
    pub debt: Option<bool>,
    /// The name of a charge.
    pub id: Option<String>,
    /// How long a reserve stays open, or a lease is held.
    pub ttl_ms: Option<u64>,
    /// The one limit that is meant.
    pub limit: Option<String>,
    /// Limits that it brings along.
    pub inline: Vec<InlineLimit>,
    /// How long the caller waits.
    pub deadline_ms: Option<u64>,
    /// A name that an SDK made, with the number of the attempt; only checks over gRPC have it.
    pub binary: Option<(u128, u8)>,
}

/// A call that makes sense by itself. Whether its domain, its limit and what it speaks of exist is the node's to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Which call it is.
    pub call: Call,
    /// What is to be done.
    pub wanted: Wanted,
    /// The policy's name space.
    pub domain: String,
    /// Names and values as they came.
    pub pairs: Vec<(String, String)>,
    /// Units.
    pub cost: u64,
    /// The name of a charge in the caller's words: its own, or one that it speaks of.
    pub id: Option<String>,
    /// The same, made by an SDK.
    pub binary: Option<(u128, u8)>,
    /// The one limit that is meant.
    pub limit: Option<String>,
    /// Limits that it brings along, at most [`BROUGHT_MAX`].
    pub inline: Vec<InlineLimit>,
    /// How long the caller waits, if it said so.
    pub deadline: Option<Span>,
}

impl Asked {
    /// The call that was meant by these fields; `place` stands before each field that is named.
    ///
    /// # Errors
    ///
    /// The first field that is missing or outside its range.
    pub fn of(call: Call, said: Said, place: &str) -> Result<Asked, Rejection> {
        let reader = Reader { call, place };
        let cost = reader.ranged(Field::Cost, said.cost, call.costs())?;
        let ttl = reader.ranged(Field::Ttl, said.ttl_ms, call.ttls_ms())?.map(Span::from_millis);
        let deadline = reader.ranged(Field::Deadline, said.deadline_ms, 0..=DEADLINE_MS_MAX)?.map(Span::from_millis);
        let id = reader.id(said.id)?;
        let limit = reader.name(Field::Limit, said.limit)?;
        let domain = reader.name(Field::Domain, said.domain)?.unwrap_or_else(|| DOMAIN_DEFAULT.to_owned());
        if said.inline.len() > BROUGHT_MAX {
            let detail = format!("expected at most {BROUGHT_MAX} limits, found {}", said.inline.len());
            return Err(Rejection::of_field(Code::OutOfRange, reader.field(Field::Inline), detail));
        }
        let up_to = said.up_to.unwrap_or(false);
        if up_to && cost == Some(0) {
            let field = reader.field(Field::Cost);
            return Err(Rejection::of_field(
                Code::OutOfRange,
                field,
                "expected at least 1 together with up_to, found 0",
            ));
        }
        let wanted = match call {
            Call::Check if up_to => Wanted::UpTo,
            Call::Check => Wanted::Spend,
            Call::Peek => Wanted::Peek,
            Call::Reserve => Wanted::Reserve { ttl: reader.needed(Field::Ttl, ttl)? },
            Call::Acquire => Wanted::Acquire { ttl },
            Call::Settle => Wanted::Settle { debt: said.debt.unwrap_or(false) },
            Call::Renew => Wanted::Renew { ttl },
            Call::Release => Wanted::Release,
            Call::Refund => Wanted::Refund,
            Call::Reset => Wanted::Reset,
        };
        let cost = cost.unwrap_or(1);
        let Said { pairs, binary, inline, .. } = said;
        Ok(Asked { call, wanted, domain, pairs, cost, id, binary, limit, inline, deadline })
    }

    /// Gives a reserve or a lease that came without a name one that nobody can guess: whoever is to settle, renew or
    /// release it needs a name to speak of.
    pub fn named(mut self, made: impl FnOnce() -> u128) -> Asked {
        if matches!(self.call, Call::Reserve | Call::Acquire) && self.id.is_none() {
            self.id = Some(format!("{:032x}", made()));
        }
        self
    }

    /// The attributes, checked.
    ///
    /// # Errors
    ///
    /// A rejection that names the attribute.
    pub fn attributes(&self, place: &str) -> Result<Attributes<'_>, Rejection> {
        Attributes::new(self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))
            .map_err(|error| attribute_rejection(&error, place))
    }

    /// The limits that it brings along, as the node takes them.
    pub fn brought(&self) -> Vec<Brought<'_>> {
        self.inline.iter().map(|limit| Brought { name: &limit.name, rate: &limit.rate, key: &limit.key }).collect()
    }

    /// The question that the node is asked, with [what it brings along](Asked::brought).
    ///
    /// # Errors
    ///
    /// The caller may not speak of the domain or bring limits along, or an attribute is malformed.
    pub fn question<'a>(
        &'a self,
        caller: Caller<'a>,
        brought: &'a [Brought<'a>],
        place: &str,
        node: &Node,
    ) -> Result<Question<'a>, Rejection> {
        caller.may_use(&self.domain, &format!("{place}domain"))?;
        if !brought.is_empty() {
            caller.may_bring_limits()?;
        }
        Ok(Question {
            domain: &self.domain,
            attributes: self.attributes(place)?,
            wanted: self.wanted,
            brought,
            limit: self.limit.as_deref(),
            cost: self.cost,
            id: match (&self.id, self.binary) {
                (_, Some((id, attempt))) => AskedId::Binary { id, attempt },
                (Some(text), None) => AskedId::Text { text, caller: caller.name() },
                (None, None) => AskedId::Made,
            },
            budget: node.budget(self.deadline),
        })
    }
}

/// Reads the fields of one call.
struct Reader<'a> {
    call: Call,
    place: &'a str,
}

impl Reader<'_> {
    fn field(&self, field: Field) -> String {
        format!("{}{}", self.place, field.as_str())
    }

    fn needed<Value>(&self, field: Field, value: Option<Value>) -> Result<Value, Rejection> {
        value.ok_or_else(|| {
            let detail = format!("{} needs {}", self.call.word(), field.as_str());
            Rejection::of_field(Code::MissingField, self.field(field), detail)
        })
    }

    /// The value, if it may be absent.
    fn found<Value>(&self, field: Field, value: Option<Value>) -> Result<Option<Value>, Rejection> {
        if self.call.needs(field) { self.needed(field, value).map(Some) } else { Ok(value) }
    }

    fn ranged(&self, field: Field, value: Option<u64>, range: RangeInclusive<u64>) -> Result<Option<u64>, Rejection> {
        match self.found(field, value)? {
            Some(value) if !range.contains(&value) => Err(out_of_range(self.field(field), &range, &value)),
            value => Ok(value),
        }
    }

    fn name(&self, field: Field, value: Option<String>) -> Result<Option<String>, Rejection> {
        match self.found(field, value)? {
            Some(name) if name.is_empty() => {
                let detail = format!("a {} has a name", field.as_str());
                Err(Rejection::of_field(Code::OutOfRange, self.field(field), detail))
            }
            value => Ok(value),
        }
    }

    fn id(&self, value: Option<String>) -> Result<Option<String>, Rejection> {
        let id = self.found(Field::Id, value)?;
        let printable = |id: &String| id.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        match id {
            Some(id) if id.is_empty() || id.len() > ID_MAX || !printable(&id) => {
                let detail = format!("expected 1 to {ID_MAX} printable ASCII characters");
                Err(Rejection::of_field(Code::OutOfRange, self.field(Field::Id), detail))
            }
            id => Ok(id),
        }
    }
}

/// A number outside its range, or one that is no whole number at all.
pub fn out_of_range(field: String, range: &RangeInclusive<u64>, found: &impl Display) -> Rejection {
    let detail = format!("expected a whole number from {} to {}, found {found}", range.start(), range.end());
    Rejection::of_field(Code::OutOfRange, field, detail)
}

/// How a malformed attribute is told.
fn attribute_rejection(error: &AttributeError, place: &str) -> Rejection {
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

/// A name as it may be shown: no longer than names are.
pub fn shown(name: &str) -> String {
    name.chars().take(NAME_MAX).collect()
}
