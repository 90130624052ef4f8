//! Checks and answers between an ingress and an owner. What a peer sends is checked here, once: partition numbers, leg
//! counts and amounts that no honest peer would send are refused before any machine sees them.

use limits::{AMOUNT_MAX, Fingerprint, LegDecision, LimitId, Span, Variant, Wait};
use ownership::{Act, Answer, Asker, Check, CheckId, CheckLeg, Epoch, MAX_LEGS, SessionId, Unknown, Verdict};
use ring::{NodeId, PartitionCount, PartitionId};
use smallvec::SmallVec;

use crate::peer as proto;

/// What a peer sent that cannot be meant. The peer's doing; nothing changed; the connection is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedForward {
    /// A field that must be there is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A number is outside its range.
    #[error("{0} is out of range")]
    OutOfRange(&'static str),
}

/// What an ingress asks of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// Decide; one reply is due.
    Check(PartitionId, Check),
    /// Undo the charge of that id, if nobody but this asker was told of it; no reply.
    Cancel(PartitionId, CheckId, Asker),
    /// Keep the charge of so many units of what was granted up to, and undo the rest; no reply.
    Trim(PartitionId, CheckId, Asker, u64),
    /// Charge without asking, unless others than this asker know of a decision; no reply.
    Debt(PartitionId, CheckId, Asker, SmallVec<[CheckLeg; 2]>),
    /// Keys were reset: forget denials that were said to be certain; one reply is due, and says nothing.
    Forget,
}

/// An owner's answer with what proves its authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The session that answers; `None` for a node that has none yet.
    pub session: Option<SessionId>,
    /// The epoch it answered under.
    pub epoch: Epoch,
    /// The clock value it decided at, in nanoseconds of its own boot-time clock.
    pub clock_nanos: u64,
    /// The policy revision it decided under.
    pub revision: u64,
    /// What it says.
    pub answer: Answer,
}

/// A session on the wire.
pub fn session_to_proto(session: SessionId) -> proto::Session {
    proto::Session { node: session.node.0.get(), nonce: session.nonce, counter: session.counter }
}

/// A session from the wire.
///
/// # Errors
///
/// A node id of zero is out of range.
pub fn session_from_proto(session: &proto::Session) -> Result<SessionId, MalformedForward> {
    let node = std::num::NonZeroU64::new(session.node).ok_or(MalformedForward::OutOfRange("session.node"))?;
    Ok(SessionId { node: NodeId(node), nonce: session.nonce, counter: session.counter })
}

/// One item of a batch on the wire.
pub fn forwarded_to_proto(item: &Forwarded) -> proto::ForwardItem {
    use proto::forward_item::Item;
    let item = match item {
        Forwarded::Check(partition, check) => Item::Check(proto::ForwardCheck {
            partition: u32::from(partition.0),
            id: Some(id_to_proto(check.id)),
            asker: check.asker.0,
            attempt: u32::from(check.attempt),
            indexed: check.indexed,
            question: check.question,
            revision: check.revision,
            act: act_to_proto(check.act),
            legs: check.legs.iter().map(leg_to_proto).collect(),
        }),
        Forwarded::Cancel(partition, id, asker) => Item::Cancel(proto::ForwardCancel {
            partition: u32::from(partition.0),
            id: Some(id_to_proto(*id)),
            asker: asker.0,
        }),
        Forwarded::Trim(partition, id, asker, units) => Item::Trim(proto::ForwardTrim {
            partition: u32::from(partition.0),
            id: Some(id_to_proto(*id)),
            asker: asker.0,
            units: *units,
        }),
        Forwarded::Debt(partition, id, asker, legs) => Item::Debt(proto::ForwardDebt {
            partition: u32::from(partition.0),
            id: Some(id_to_proto(*id)),
            asker: asker.0,
            legs: legs.iter().map(leg_to_proto).collect(),
        }),
        Forwarded::Forget => Item::Forget(true),
    };
    proto::ForwardItem { item: Some(item) }
}

/// One item of a batch from the wire.
///
/// # Errors
///
/// [`MalformedForward`] names the field.
pub fn forwarded_from_proto(item: proto::ForwardItem) -> Result<Forwarded, MalformedForward> {
    use proto::forward_item::Item;
    match item.item.ok_or(MalformedForward::Missing("item"))? {
        Item::Check(check) => Ok(Forwarded::Check(
            partition_from_proto(check.partition)?,
            Check {
                id: id_from_proto(check.id)?,
                asker: Asker(check.asker),
                attempt: u8::try_from(check.attempt).map_err(|_| MalformedForward::OutOfRange("attempt"))?,
                indexed: check.indexed,
                question: check.question,
                revision: check.revision,
                act: check.act.map_or(Ok(Act::Spend), act_from_proto)?,
                legs: legs_from_proto(&check.legs)?,
            },
        )),
        Item::Cancel(cancel) => Ok(Forwarded::Cancel(
            partition_from_proto(cancel.partition)?,
            id_from_proto(cancel.id)?,
            Asker(cancel.asker),
        )),
        Item::Trim(trim) => Ok(Forwarded::Trim(
            partition_from_proto(trim.partition)?,
            id_from_proto(trim.id)?,
            Asker(trim.asker),
            trim.units,
        )),
        Item::Debt(debt) => Ok(Forwarded::Debt(
            partition_from_proto(debt.partition)?,
            id_from_proto(debt.id)?,
            Asker(debt.asker),
            legs_from_proto(&debt.legs)?,
        )),
        Item::Forget(_) => Ok(Forwarded::Forget),
    }
}

/// An owner's reply on the wire.
pub fn reply_to_proto(reply: &Reply) -> proto::ForwardReply {
    use proto::forward_reply::Answer as Wire;
    let answer = match &reply.answer {
        Answer::Decided(verdict) => Wire::Verdict(proto::ForwardVerdict {
            allowed: verdict.allowed,
            replayed: verdict.replayed,
            recovering: verdict.recovering,
            units: verdict.units,
            cacheable_nanos: verdict.cacheable.as_nanos(),
            legs: verdict.legs.iter().map(decision_to_proto).collect(),
        }),
        Answer::NotOwner { epoch: _, hint } => {
            Wire::NotOwner(proto::ForwardNotOwner { hint: hint.map(session_to_proto) })
        }
        Answer::Unknown(why) => Wire::Unknown(unknown_to_proto(*why)),
        Answer::IdReused => Wire::IdReused(true),
        Answer::StaleRevision { revision } => Wire::StaleRevision(*revision),
    };
    proto::ForwardReply {
        session: reply.session.map(session_to_proto),
        epoch: reply.epoch.0,
        clock_nanos: reply.clock_nanos,
        revision: reply.revision,
        answer: Some(answer),
    }
}

/// An owner's reply from the wire.
///
/// # Errors
///
/// [`MalformedForward`] names the field.
pub fn reply_from_proto(reply: proto::ForwardReply) -> Result<Reply, MalformedForward> {
    use proto::forward_reply::Answer as Wire;
    let epoch = Epoch(reply.epoch);
    let answer = match reply.answer.ok_or(MalformedForward::Missing("answer"))? {
        Wire::Verdict(verdict) => Answer::Decided(verdict_from_proto(&verdict)?),
        Wire::NotOwner(not_owner) => {
            Answer::NotOwner { epoch, hint: not_owner.hint.as_ref().map(session_from_proto).transpose()? }
        }
        Wire::Unknown(why) => Answer::Unknown(unknown_from_proto(why)?),
        Wire::IdReused(_) => Answer::IdReused,
        Wire::StaleRevision(revision) => Answer::StaleRevision { revision },
    };
    Ok(Reply {
        session: reply.session.as_ref().map(session_from_proto).transpose()?,
        epoch,
        clock_nanos: reply.clock_nanos,
        revision: reply.revision,
        answer,
    })
}

fn id_to_proto(id: CheckId) -> proto::CheckId {
    proto::CheckId { high: (id.0 >> 64) as u64, low: id.0 as u64 }
}

fn id_from_proto(id: Option<proto::CheckId>) -> Result<CheckId, MalformedForward> {
    let id = id.ok_or(MalformedForward::Missing("id"))?;
    Ok(CheckId(u128::from(id.high) << 64 | u128::from(id.low)))
}

fn act_to_proto(act: Act) -> Option<proto::ForwardAct> {
    use proto::forward_act::Act as Wire;
    let act = match act {
        Act::Spend => return None,
        Act::Peek => Wire::Peek(true),
        Act::UpTo { units } => Wire::UpTo(proto::ForwardUpTo { units }),
        Act::Acquire { ttl } => Wire::Acquire(proto::ForwardAcquire { ttl_nanos: ttl.map(Span::as_nanos) }),
        Act::Reserve { ttl, units } => Wire::Reserve(proto::ForwardReserve { ttl_nanos: ttl.as_nanos(), units }),
        Act::Refund { of } => Wire::Refund(id_to_proto(of)),
        Act::Settle { of, units, debt } => {
            Wire::Settle(proto::ForwardSettle { of: Some(id_to_proto(of)), units, debt })
        }
        Act::Renew { of, ttl } => {
            Wire::Renew(proto::ForwardRenew { of: Some(id_to_proto(of)), ttl_nanos: ttl.map(Span::as_nanos) })
        }
        Act::Release { of } => Wire::Release(id_to_proto(of)),
        Act::Reset => Wire::Reset(true),
    };
    Some(proto::ForwardAct { act: Some(act) })
}

fn act_from_proto(act: proto::ForwardAct) -> Result<Act, MalformedForward> {
    use proto::forward_act::Act as Wire;
    Ok(match act.act.ok_or(MalformedForward::Missing("act"))? {
        Wire::Peek(_) => Act::Peek,
        Wire::UpTo(up_to) => Act::UpTo { units: units_from_proto(up_to.units)? },
        Wire::Acquire(acquire) => Act::Acquire { ttl: acquire.ttl_nanos.map(Span::from_nanos) },
        Wire::Reserve(reserve) => {
            Act::Reserve { ttl: Span::from_nanos(reserve.ttl_nanos), units: units_from_proto(reserve.units)? }
        }
        Wire::Refund(of) => Act::Refund { of: id_from_proto(Some(of))? },
        Wire::Settle(settle) => {
            Act::Settle { of: id_from_proto(settle.of)?, units: units_from_proto(settle.units)?, debt: settle.debt }
        }
        Wire::Renew(renew) => Act::Renew { of: id_from_proto(renew.of)?, ttl: renew.ttl_nanos.map(Span::from_nanos) },
        Wire::Release(of) => Act::Release { of: id_from_proto(Some(of))? },
        Wire::Reset(_) => Act::Reset,
    })
}

fn units_from_proto(units: u64) -> Result<u64, MalformedForward> {
    if units > AMOUNT_MAX { Err(MalformedForward::OutOfRange("units")) } else { Ok(units) }
}

fn partition_from_proto(partition: u32) -> Result<PartitionId, MalformedForward> {
    let number = u16::try_from(partition).ok().filter(|number| *number < PartitionCount::MAX.get());
    number.map(PartitionId).ok_or(MalformedForward::OutOfRange("partition"))
}

fn leg_to_proto(leg: &CheckLeg) -> proto::ForwardLeg {
    proto::ForwardLeg {
        limit: leg.limit.0,
        variant: leg.variant.0,
        key_first: leg.key.0[0],
        key_second: leg.key.0[1],
        cost: leg.cost,
        shadow: leg.shadow,
    }
}

fn legs_from_proto(legs: &[proto::ForwardLeg]) -> Result<SmallVec<[CheckLeg; 2]>, MalformedForward> {
    if legs.is_empty() {
        return Err(MalformedForward::Missing("legs"));
    }
    if legs.len() > MAX_LEGS {
        return Err(MalformedForward::OutOfRange("legs"));
    }
    legs.iter().map(leg_from_proto).collect()
}

fn leg_from_proto(leg: &proto::ForwardLeg) -> Result<CheckLeg, MalformedForward> {
    if leg.cost > AMOUNT_MAX {
        return Err(MalformedForward::OutOfRange("cost"));
    }
    Ok(CheckLeg {
        limit: LimitId(leg.limit),
        variant: Variant(leg.variant),
        key: Fingerprint([leg.key_first, leg.key_second]),
        cost: leg.cost,
        shadow: leg.shadow,
    })
}

fn decision_to_proto(decision: &LegDecision) -> proto::ForwardLegDecision {
    let (wait, wait_nanos) = match decision.wait {
        Wait::Now => (0, 0),
        Wait::After(span) => (1, span.as_nanos()),
        Wait::Never => (2, 0),
    };
    proto::ForwardLegDecision {
        allowed: decision.allowed,
        capacity: decision.capacity,
        remaining: decision.remaining,
        wait,
        wait_nanos,
        reset_nanos: decision.reset_after.as_nanos(),
        next_unit_nanos: decision.next_unit_after.map(Span::as_nanos),
    }
}

fn verdict_from_proto(verdict: &proto::ForwardVerdict) -> Result<Verdict, MalformedForward> {
    if verdict.legs.len() > MAX_LEGS {
        return Err(MalformedForward::OutOfRange("legs"));
    }
    Ok(Verdict {
        allowed: verdict.allowed,
        units: verdict.units,
        replayed: verdict.replayed,
        recovering: verdict.recovering,
        cacheable: Span::from_nanos(verdict.cacheable_nanos),
        legs: verdict.legs.iter().map(decision_from_proto).collect::<Result<_, _>>()?,
    })
}

fn decision_from_proto(decision: &proto::ForwardLegDecision) -> Result<LegDecision, MalformedForward> {
    let wait = match decision.wait {
        0 => Wait::Now,
        1 => Wait::After(Span::from_nanos(decision.wait_nanos)),
        2 => Wait::Never,
        _ => return Err(MalformedForward::OutOfRange("wait")),
    };
    Ok(LegDecision {
        allowed: decision.allowed,
        capacity: decision.capacity,
        remaining: decision.remaining,
        wait,
        reset_after: Span::from_nanos(decision.reset_nanos),
        next_unit_after: decision.next_unit_nanos.map(Span::from_nanos),
    })
}

fn unknown_to_proto(why: Unknown) -> proto::ForwardUnknown {
    let (reason, leg) = match why {
        Unknown::Lease => (1, 0),
        Unknown::Record => (2, 0),
        Unknown::Policy => (3, 0),
        Unknown::Clock => (4, 0),
        Unknown::Loading => (6, 0),
        Unknown::Allowance => (7, 0),
        Unknown::TableFull { leg } => (5, u32::from(leg)),
    };
    proto::ForwardUnknown { reason, leg }
}

fn unknown_from_proto(why: proto::ForwardUnknown) -> Result<Unknown, MalformedForward> {
    match why.reason {
        1 => Ok(Unknown::Lease),
        2 => Ok(Unknown::Record),
        3 => Ok(Unknown::Policy),
        4 => Ok(Unknown::Clock),
        6 => Ok(Unknown::Loading),
        7 => Ok(Unknown::Allowance),
        5 => {
            u8::try_from(why.leg).map(|leg| Unknown::TableFull { leg }).map_err(|_| MalformedForward::OutOfRange("leg"))
        }
        _ => Err(MalformedForward::OutOfRange("reason")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::num::NonZeroU64;

    use super::*;

    fn session() -> SessionId {
        SessionId { node: NodeId(NonZeroU64::new(7).unwrap()), nonce: 11, counter: 2 }
    }

    fn leg(cost: u64) -> CheckLeg {
        CheckLeg { limit: LimitId(3), variant: Variant(9), key: Fingerprint([5, u64::MAX]), cost, shadow: true }
    }

    fn decision(wait: Wait) -> LegDecision {
        LegDecision {
            allowed: wait == Wait::Now,
            capacity: 20,
            remaining: 3,
            wait,
            reset_after: Span::from_millis(17),
            next_unit_after: (wait == Wait::Now).then_some(Span::from_nanos(1)),
        }
    }

    #[test]
    fn every_kind_of_item_comes_back_as_it_went() {
        let id = CheckId(u128::MAX - 5);
        let asker = Asker(u64::MAX - 7);
        let legs = SmallVec::from_iter([leg(1), leg(AMOUNT_MAX)]);
        let of = CheckId(u128::MAX - 6);
        let ttl = Some(Span::from_millis(7));
        let acts = [
            Act::Spend,
            Act::Peek,
            Act::UpTo { units: AMOUNT_MAX },
            Act::Acquire { ttl },
            Act::Acquire { ttl: None },
            Act::Reserve { ttl: Span::from_nanos(1), units: 3 },
            Act::Refund { of },
            Act::Settle { of, units: 0, debt: true },
            Act::Renew { of, ttl },
            Act::Release { of },
            Act::Reset,
        ];
        for act in acts {
            let legs = legs.clone();
            let check = Check { id, asker, attempt: 2, indexed: true, revision: 3, question: 9, act, legs };
            let item = Forwarded::Check(PartitionId(4095), check);
            assert_eq!(forwarded_from_proto(forwarded_to_proto(&item)), Ok(item));
        }
        for item in [
            Forwarded::Trim(PartitionId(9), id, asker, 11),
            Forwarded::Cancel(PartitionId(0), id, asker),
            Forwarded::Debt(PartitionId(17), id, asker, SmallVec::from_iter([leg(4)])),
            Forwarded::Forget,
        ] {
            assert_eq!(forwarded_from_proto(forwarded_to_proto(&item)), Ok(item));
        }
    }

    #[test]
    fn every_kind_of_answer_comes_back_as_it_went() {
        let epoch = Epoch(8);
        let verdict = Verdict {
            allowed: false,
            units: 12,
            replayed: true,
            recovering: true,
            cacheable: Span::from_millis(70),
            legs: [Wait::Now, Wait::After(Span::from_nanos(5)), Wait::Never].map(decision).into_iter().collect(),
        };
        let unknowns = [
            Unknown::Lease,
            Unknown::Record,
            Unknown::Policy,
            Unknown::Clock,
            Unknown::Loading,
            Unknown::Allowance,
            Unknown::TableFull { leg: 3 },
        ];
        let mut answers = vec![
            Answer::Decided(verdict),
            Answer::NotOwner { epoch, hint: Some(session()) },
            Answer::NotOwner { epoch, hint: None },
            Answer::IdReused,
            Answer::StaleRevision { revision: u64::MAX },
        ];
        answers.extend(unknowns.map(Answer::Unknown));
        for answer in answers {
            let reply = Reply { session: Some(session()), epoch, clock_nanos: 5, revision: 6, answer };
            assert_eq!(reply_from_proto(reply_to_proto(&reply)), Ok(reply));
        }
    }

    #[test]
    fn what_no_honest_peer_sends_is_refused_by_field() {
        let (id, asker) = (CheckId(1), Asker(1));
        let check = Check {
            id,
            asker,
            attempt: 1,
            indexed: false,
            revision: 0,
            question: 0,
            act: Act::Spend,
            legs: SmallVec::from_iter([leg(1)]),
        };
        let broken = |change: fn(&mut proto::ForwardCheck)| {
            let mut item = forwarded_to_proto(&Forwarded::Check(PartitionId(1), check.clone()));
            let Some(proto::forward_item::Item::Check(inner)) = &mut item.item else { unreachable!() };
            change(inner);
            forwarded_from_proto(item)
        };
        for partition in [4_096, 70_000] {
            let refused = forwarded_from_proto(proto::ForwardItem {
                item: Some(proto::forward_item::Item::Cancel(proto::ForwardCancel { partition, ..Default::default() })),
            });
            assert_eq!(refused, Err(MalformedForward::OutOfRange("partition")));
        }
        assert_eq!(
            broken(|check| check.act = act_to_proto(Act::UpTo { units: AMOUNT_MAX + 1 })),
            Err(MalformedForward::OutOfRange("units"))
        );
        assert_eq!(
            broken(|check| check.act = Some(proto::ForwardAct { act: None })),
            Err(MalformedForward::Missing("act"))
        );
        assert_eq!(broken(|check| check.legs.clear()), Err(MalformedForward::Missing("legs")));
        assert_eq!(broken(|check| check.id = None), Err(MalformedForward::Missing("id")));
        assert_eq!(broken(|check| check.attempt = 256), Err(MalformedForward::OutOfRange("attempt")));
        assert_eq!(
            broken(|check| check.legs = vec![leg_to_proto(&leg(1)); 17]),
            Err(MalformedForward::OutOfRange("legs"))
        );
        assert_eq!(
            broken(|check| check.legs = vec![leg_to_proto(&leg(AMOUNT_MAX + 1))]),
            Err(MalformedForward::OutOfRange("cost"))
        );
        assert_eq!(forwarded_from_proto(proto::ForwardItem { item: None }), Err(MalformedForward::Missing("item")));
    }
}
