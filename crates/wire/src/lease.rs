//! Lease renewals and their acknowledgements.

use limits::{Moment, Span, WallTime};
use ownership::lease::{Ack, News, Refused, Renewal};

use crate::forward::{MalformedForward, session_from_proto, session_to_proto};
use crate::peer as proto;
use crate::peer::RenewRefusalReason as Reason;

/// Why a renewal was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRenewed {
    /// This node does not lead. Ask the one that does.
    #[error("not the leader")]
    NotLeader,
    /// The leader refused it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Leadership could not be confirmed, or a later renewal took this one's place. Ask again.
    #[error("not confirmed")]
    Dropped,
}

/// A renewal on the wire.
pub fn renewal_to_proto(renewal: &Renewal) -> proto::RenewRequest {
    proto::RenewRequest {
        session: Some(session_to_proto(renewal.session)),
        seq: renewal.seq,
        nonce: renewal.nonce,
        last_ack_seen: renewal.last_ack_seen,
        map_version: renewal.map_version,
        clock_nanos: renewal.my_clock.as_nanos(),
        wall_clock_nanos: renewal.wall_clock.map_or(0, WallTime::as_unix_nanos),
        ack_heard_nanos: renewal.ack_heard.as_nanos(),
        n_max: renewal.n_max,
        applied: renewal.applied,
    }
}

/// A renewal from the wire.
///
/// # Errors
///
/// [`MalformedForward`] names the field.
pub fn renewal_from_proto(request: &proto::RenewRequest) -> Result<Renewal, MalformedForward> {
    Ok(Renewal {
        session: session_from_proto(request.session.as_ref().ok_or(MalformedForward::Missing("session"))?)?,
        seq: request.seq,
        nonce: request.nonce,
        last_ack_seen: request.last_ack_seen,
        map_version: request.map_version,
        my_clock: Moment::from_nanos(request.clock_nanos),
        ack_heard: Moment::from_nanos(request.ack_heard_nanos),
        wall_clock: wall_from_proto(request.wall_clock_nanos),
        n_max: request.n_max,
        applied: request.applied,
    })
}

/// What a leader says to a renewal, on the wire.
pub fn renewed_to_proto(renewed: &Result<Ack, NotRenewed>) -> proto::RenewReply {
    use proto::renew_reply::Reply;
    let reply = match renewed {
        Ok(ack) => Reply::Ack(proto::RenewAck {
            session: Some(session_to_proto(ack.session)),
            seq: ack.seq,
            nonce: ack.nonce,
            ttl_nanos: ack.ttl.as_nanos(),
            n_max: ack.news.n_max,
            n_max_settled: ack.news.n_max_settled,
            map_version: ack.news.map_version,
            cluster_time_nanos: ack.news.cluster_time.map_or(0, WallTime::as_unix_nanos),
        }),
        Err(why) => Reply::Refusal(proto::RenewRefusal { reason: reason_of(*why).into() }),
    };
    proto::RenewReply { reply: Some(reply) }
}

/// What a leader says to a renewal, from the wire.
///
/// # Errors
///
/// [`MalformedForward`] names the field.
pub fn renewed_from_proto(reply: &proto::RenewReply) -> Result<Result<Ack, NotRenewed>, MalformedForward> {
    use proto::renew_reply::Reply;
    match reply.reply.as_ref().ok_or(MalformedForward::Missing("reply"))? {
        Reply::Ack(ack) => Ok(Ok(Ack {
            session: session_from_proto(ack.session.as_ref().ok_or(MalformedForward::Missing("session"))?)?,
            seq: ack.seq,
            nonce: ack.nonce,
            ttl: Span::from_nanos(ack.ttl_nanos),
            news: News {
                n_max: ack.n_max,
                n_max_settled: ack.n_max_settled,
                cluster_time: wall_from_proto(ack.cluster_time_nanos),
                map_version: ack.map_version,
            },
        })),
        Reply::Refusal(refusal) => match refusal.reason() {
            Reason::NotLeader => Ok(Err(NotRenewed::NotLeader)),
            Reason::UnknownSession => Ok(Err(Refused::UnknownSession.into())),
            Reason::Stale => Ok(Err(Refused::Stale.into())),
            Reason::Forked => Ok(Err(Refused::Forked.into())),
            Reason::OddClock => Ok(Err(Refused::OddClock.into())),
            Reason::Dropped => Ok(Err(NotRenewed::Dropped)),
            Reason::Unspecified => Err(MalformedForward::OutOfRange("reason")),
        },
    }
}

const fn reason_of(why: NotRenewed) -> Reason {
    match why {
        NotRenewed::NotLeader => Reason::NotLeader,
        NotRenewed::Refused(Refused::UnknownSession) => Reason::UnknownSession,
        NotRenewed::Refused(Refused::Stale) => Reason::Stale,
        NotRenewed::Refused(Refused::Forked) => Reason::Forked,
        NotRenewed::Refused(Refused::OddClock) => Reason::OddClock,
        NotRenewed::Dropped => Reason::Dropped,
    }
}

/// Zero says that there is none: nobody's cluster time is the first nanosecond of 1970.
fn wall_from_proto(nanos: u64) -> Option<WallTime> {
    (nanos > 0).then_some(WallTime::from_unix_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use ownership::SessionId;
    use ring::NodeId;

    use super::*;

    fn session() -> SessionId {
        SessionId { node: NodeId(NonZeroU64::MAX), nonce: 3, counter: 9 }
    }

    #[test]
    fn a_renewal_comes_back_as_it_went() {
        for wall_clock in [None, Some(WallTime::from_unix_nanos(17))] {
            let renewal = Renewal {
                session: session(),
                seq: 4,
                nonce: u64::MAX,
                last_ack_seen: 3,
                map_version: 77,
                my_clock: Moment::from_nanos(123),
                ack_heard: Moment::from_nanos(122),
                wall_clock,
                n_max: 5,
                applied: 78,
            };
            assert_eq!(renewal_from_proto(&renewal_to_proto(&renewal)), Ok(renewal));
        }
    }

    #[test]
    fn every_answer_to_a_renewal_comes_back_as_it_went() {
        let news =
            News { n_max: 3, n_max_settled: true, cluster_time: Some(WallTime::from_unix_nanos(5)), map_version: 8 };
        let ack = Ack { session: session(), seq: 4, nonce: 6, ttl: Span::from_secs(3), news };
        for renewed in [
            Ok(ack),
            Ok(Ack { news: News { cluster_time: None, n_max_settled: false, ..news }, ..ack }),
            Err(NotRenewed::NotLeader),
            Err(NotRenewed::Dropped),
            Err(Refused::UnknownSession.into()),
            Err(Refused::Stale.into()),
            Err(Refused::Forked.into()),
            Err(Refused::OddClock.into()),
        ] {
            assert_eq!(renewed_from_proto(&renewed_to_proto(&renewed)), Ok(renewed));
        }
    }

    #[test]
    fn a_renewal_without_a_session_is_refused_by_field() {
        assert_eq!(renewal_from_proto(&proto::RenewRequest::default()), Err(MalformedForward::Missing("session")));
    }
}
