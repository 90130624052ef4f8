//! Messages of the wire and the fields of a call, both ways. Empty texts are absent, as protobuf has it; what else is
//! said goes through the same reader as JSON.

use std::collections::HashMap;

use wire::v1 as proto;

use crate::asked::{InlineLimit, Said};
use crate::body::{CameTo, DecisionBody, LimitBody, Told};
use crate::code::{Code, Rejection};

/// A message that a caller sends.
pub trait Says {
    /// Its fields; `place` stands before each that is named.
    ///
    /// # Errors
    ///
    /// A field that only this door has is wrong.
    fn said(self, place: &str) -> Result<Said, Rejection>;
}

/// What every call says: of which key it speaks, under which limits, and how long it waits.
fn key(
    domain: String,
    attributes: HashMap<String, String>,
    inline: Vec<proto::InlineLimit>,
    deadline_ms: Option<u64>,
) -> Said {
    let brought = |proto::InlineLimit { name, rate, key }| InlineLimit { name, rate, key };
    let inline = inline.into_iter().map(brought).collect();
    Said { domain: some(domain), pairs: attributes.into_iter().collect(), inline, deadline_ms, ..Said::default() }
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

impl Says for proto::CheckRequest {
    fn said(self, place: &str) -> Result<Said, Rejection> {
        let binary = binary_id(&self.binary_id, self.attempt, place)?;
        if binary.is_some() && !self.id.is_empty() {
            let detail = "expected either id or binary_id: they would name two questions";
            return Err(Rejection::of_field(Code::OutOfRange, format!("{place}binary_id"), detail));
        }
        let key = key(self.domain, self.attributes, self.inline, self.deadline_ms);
        Ok(Said { cost: self.cost, up_to: Some(self.up_to), id: some(self.id), binary, ..key })
    }
}

impl Says for proto::PeekRequest {
    fn said(self, _place: &str) -> Result<Said, Rejection> {
        let key = key(self.domain, self.attributes, self.inline, self.deadline_ms);
        Ok(Said { cost: self.cost, limit: some(self.limit), ..key })
    }
}

impl Says for proto::ReserveRequest {
    fn said(self, _place: &str) -> Result<Said, Rejection> {
        let key = key(self.domain, self.attributes, self.inline, self.deadline_ms);
        Ok(Said { cost: self.cost, ttl_ms: self.ttl_ms, id: some(self.id), ..key })
    }
}

impl Says for proto::AcquireRequest {
    fn said(self, _place: &str) -> Result<Said, Rejection> {
        let key = key(self.domain, self.attributes, self.inline, self.deadline_ms);
        Ok(Said { cost: self.cost, ttl_ms: self.ttl_ms, id: some(self.id), ..key })
    }
}

impl Says for proto::SettleRequest {
    fn said(self, _place: &str) -> Result<Said, Rejection> {
        let key = key(self.domain, self.attributes, self.inline, self.deadline_ms);
        Ok(Said { cost: self.cost, debt: Some(self.debt), id: some(self.id), ..key })
    }
}

impl Says for proto::RenewRequest {
    fn said(self, _place: &str) -> Result<Said, Rejection> {
        let key = key(self.domain, self.attributes, self.inline, self.deadline_ms);
        Ok(Said { cost: self.cost, ttl_ms: self.ttl_ms, id: some(self.id), ..key })
    }
}

impl Says for proto::ReleaseRequest {
    fn said(self, _place: &str) -> Result<Said, Rejection> {
        Ok(Said { id: some(self.id), ..key(self.domain, self.attributes, self.inline, self.deadline_ms) })
    }
}

impl Says for proto::RefundRequest {
    fn said(self, _place: &str) -> Result<Said, Rejection> {
        Ok(Said { id: some(self.id), ..key(self.domain, self.attributes, self.inline, self.deadline_ms) })
    }
}

impl Says for proto::ResetRequest {
    fn said(self, _place: &str) -> Result<Said, Rejection> {
        Ok(Said { limit: some(self.limit), ..key(self.domain, self.attributes, self.inline, self.deadline_ms) })
    }
}

fn binary_id(bytes: &[u8], attempt: u32, place: &str) -> Result<Option<(u128, u8)>, Rejection> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let id: [u8; 16] = bytes.try_into().map_err(|_| {
        let detail = format!("expected 16 bytes, found {}", bytes.len());
        Rejection::of_field(Code::OutOfRange, format!("{place}binary_id"), detail)
    })?;
    let attempt = u8::try_from(attempt.max(1)).map_err(|_| {
        Rejection::of_field(Code::OutOfRange, format!("{place}attempt"), format!("expected 1 to 255, found {attempt}"))
    })?;
    Ok(Some((u128::from_be_bytes(id), attempt)))
}

/// The message of a decision; `None` of a call that decides nothing.
pub fn decision(told: &Told<'_>) -> Option<proto::Decision> {
    if !told.asked.call.decides() {
        return None;
    }
    let body: DecisionBody<'_> = told.body();
    Some(proto::Decision {
        allowed: body.allowed,
        limits: limits(&body.limits),
        id: body.id,
        domain: body.domain.to_owned(),
        cost: body.cost,
        granted: body.granted,
        expires_after_ms: body.expires_after_ms,
        limit: body.limit.unwrap_or_default().to_owned(),
        remaining: body.remaining,
        retry_after_ms: body.retry_after_ms,
        reset_after_ms: body.reset_after_ms,
        reason: body.reason.to_owned(),
        source: body.source.to_owned(),
        degraded: body.degraded,
        owner: body.owner.unwrap_or_default(),
        epoch: body.epoch.unwrap_or_default(),
        revision: body.revision,
        replayed: body.replayed,
    })
}

fn limits(limits: &[LimitBody<'_>]) -> Vec<proto::LimitDecision> {
    let message = |leg: &LimitBody<'_>| proto::LimitDecision {
        limit: leg.limit.to_owned(),
        allowed: leg.allowed,
        capacity: leg.capacity,
        remaining: leg.remaining,
        retry_after_ms: leg.retry_after_ms,
        reset_after_ms: leg.reset_after_ms,
        reason: leg.reason.to_owned(),
        source: leg.source.to_owned(),
        owner: leg.owner.clone().unwrap_or_default(),
        epoch: leg.epoch.unwrap_or_default(),
        mode: leg.mode.to_owned(),
    };
    limits.iter().map(message).collect()
}

/// Declares how the answer of a call that decides nothing becomes its message: its own words, and what all have.
macro_rules! came_to {
    ($(#[$about:meta])* $function:ident: $call:ident -> $message:ident { $($word:ident),* } $(and $id:ident)?) => {
        $(#[$about])*
        pub fn $function(told: &Told<'_>) -> Option<proto::$message> {
            let body = told.came_to()?;
            let CameTo::$call { $($word),* } = body.came_to else { return None };
            Some(proto::$message {
                $($word,)*
                $($id: body.id.unwrap_or_default().to_owned(),)?
                domain: body.domain.to_owned(),
                reason: body.reason.to_owned(),
                revision: body.revision,
                replayed: body.replayed,
                limits: limits(&body.limits),
            })
        }
    };
}

came_to! {
    /// The message of a settlement.
    settled: Settle -> SettleResponse { settled, refunded } and id
}
came_to! {
    /// The message of a renewal.
    renewed: Renew -> RenewResponse { renewed, expires_after_ms } and id
}
came_to! {
    /// The message of a release.
    released: Release -> ReleaseResponse { released } and id
}
came_to! {
    /// The message of a refund.
    refunded: Refund -> RefundResponse { found, refunded } and id
}
came_to! {
    /// The message of a reset.
    reset: Reset -> ResetResponse { reset }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::asked::Asked;
    use crate::call::Call;

    fn mistake(call: Call, message: impl Says) -> (Code, String) {
        let rejection = message.said("").and_then(|said| Asked::of(call, said, "")).unwrap_err();
        (rejection.code, rejection.field)
    }

    #[test]
    fn what_a_message_lacks_or_has_wrong_is_named_as_in_json() {
        let missing = |field: &str| (Code::MissingField, field.to_owned());
        let wrong = |field: &str| (Code::OutOfRange, field.to_owned());
        let id = || "x".to_owned();
        assert_eq!(mistake(Call::Refund, proto::RefundRequest::default()), missing("id"));
        assert_eq!(mistake(Call::Release, proto::ReleaseRequest::default()), missing("id"));
        assert_eq!(mistake(Call::Renew, proto::RenewRequest::default()), missing("id"));
        assert_eq!(mistake(Call::Settle, proto::SettleRequest { id: id(), ..Default::default() }), missing("cost"));
        assert_eq!(
            mistake(Call::Reserve, proto::ReserveRequest { cost: Some(1), ..Default::default() }),
            missing("ttl_ms")
        );
        let long = proto::ReserveRequest { cost: Some(1), ttl_ms: Some(86_400_001), ..Default::default() };
        assert_eq!(mistake(Call::Reserve, long), wrong("ttl_ms"));
        assert_eq!(
            mistake(Call::Acquire, proto::AcquireRequest { cost: Some(0), ..Default::default() }),
            wrong("cost")
        );
        assert_eq!(
            mistake(Call::Check, proto::CheckRequest { cost: Some(u64::MAX), ..Default::default() }),
            wrong("cost")
        );
        let nothing = proto::CheckRequest { cost: Some(0), up_to: true, ..Default::default() };
        assert_eq!(mistake(Call::Check, nothing), wrong("cost"));
        let line = proto::RefundRequest { id: "a\nb".to_owned(), ..Default::default() };
        assert_eq!(mistake(Call::Refund, line), wrong("id"));
        let late = proto::PeekRequest { deadline_ms: Some(u64::MAX), ..Default::default() };
        assert_eq!(mistake(Call::Peek, late), wrong("deadline_ms"));
    }

    #[test]
    fn a_binary_id_is_sixteen_bytes_and_the_only_id() {
        let check = |binary: &[u8], attempt, id: &str| proto::CheckRequest {
            binary_id: binary.to_vec().into(),
            attempt,
            id: id.to_owned(),
            ..Default::default()
        };
        let said = check(&[1; 16], 0, "").said("").unwrap();
        assert_eq!(said.binary, Some((u128::from_be_bytes([1; 16]), 1)), "a first attempt need not say so");
        for (message, field) in [
            (check(&[1; 15], 1, ""), "binary_id"),
            (check(&[1; 16], 256, ""), "attempt"),
            (check(&[1; 16], 1, "mine"), "binary_id"),
        ] {
            assert_eq!(mistake(Call::Check, message), (Code::OutOfRange, field.to_owned()));
        }
    }
}
