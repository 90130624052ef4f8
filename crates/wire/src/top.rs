//! What one node tells another of the keys that were hit most: bounded in limits, keys and text, and checked where it
//! comes in.

use limits::top::{By, KEY_TEXT_MAX, Summary, TopKey};
use limits::{Fingerprint, LIMIT_ID_MAX, LimitId, WallTime};

use crate::forward::MalformedForward;
use crate::peer as proto;

/// Limits in one telling at most; the busiest are told.
pub const LIMITS_TOLD_MAX: usize = 256;

/// Keys in one telling at most, of all its limits together: some 700 KB.
pub const KEYS_TOLD_MAX: usize = 4_096;

/// What a node is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopAsked {
    /// The policy's name space.
    pub domain: String,
    /// Only this limit; `None` for all of the domain.
    pub limit: Option<LimitId>,
    /// What is counted.
    pub by: By,
}

/// What a node tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopTold {
    /// Since when it counts, by its machine's clock.
    pub since: WallTime,
    /// Limits of which anything was counted, at most [`LIMITS_TOLD_MAX`], the busiest first.
    pub limits: Vec<(LimitId, Summary)>,
    /// How many more there are, for which there was no room.
    pub left_out: u32,
}

/// A question on the wire.
pub fn top_asked_to_proto(asked: &TopAsked) -> proto::TopRequest {
    proto::TopRequest {
        domain: asked.domain.clone(),
        limit: asked.limit.map_or(0, |limit| limit.0),
        denials: match asked.by {
            By::Hits => false,
            By::Denials => true,
        },
    }
}

/// A question from the wire.
///
/// # Errors
///
/// A limit that cannot be one.
pub fn top_asked_from_proto(request: proto::TopRequest) -> Result<TopAsked, MalformedForward> {
    Ok(TopAsked {
        limit: (request.limit != 0).then(|| limit_from(request.limit)).transpose()?,
        by: if request.denials { By::Denials } else { By::Hits },
        domain: request.domain,
    })
}

/// An answer on the wire.
pub fn top_told_to_proto(told: TopTold) -> proto::TopReply {
    let limits = told.limits.into_iter().map(|(limit, summary)| proto::TopLimit {
        limit: limit.0,
        total: summary.total,
        absent: summary.absent,
        keys: summary.keys.into_iter().map(key_to).collect(),
    });
    proto::TopReply { since_nanos: told.since.as_unix_nanos(), limits: limits.collect(), left_out: told.left_out }
}

/// An answer from the wire.
///
/// # Errors
///
/// [`MalformedForward`] names what is larger than any node tells.
pub fn top_told_from_proto(reply: proto::TopReply) -> Result<TopTold, MalformedForward> {
    let keys: usize = reply.limits.iter().map(|limit| limit.keys.len()).sum();
    if reply.limits.len() > LIMITS_TOLD_MAX {
        return Err(MalformedForward::OutOfRange("limits"));
    }
    if keys > KEYS_TOLD_MAX {
        return Err(MalformedForward::OutOfRange("keys"));
    }
    let limits = reply.limits.into_iter().map(|told| {
        let keys = told.keys.into_iter().map(key_from).collect::<Result<_, _>>()?;
        Ok((limit_from(told.limit)?, Summary { keys, total: told.total, absent: told.absent }))
    });
    Ok(TopTold {
        since: WallTime::from_unix_nanos(reply.since_nanos),
        limits: limits.collect::<Result<_, _>>()?,
        left_out: reply.left_out,
    })
}

fn limit_from(limit: u32) -> Result<LimitId, MalformedForward> {
    match limit {
        1..=LIMIT_ID_MAX => Ok(LimitId(limit)),
        _ => Err(MalformedForward::OutOfRange("limit")),
    }
}

fn key_to(key: TopKey) -> proto::TopKey {
    let Fingerprint([key_first, key_second]) = key.key;
    proto::TopKey { key_first, key_second, text: key.text.into(), count: key.count, error: key.error }
}

fn key_from(key: proto::TopKey) -> Result<TopKey, MalformedForward> {
    if key.text.len() > KEY_TEXT_MAX {
        return Err(MalformedForward::OutOfRange("text"));
    }
    let print = Fingerprint([key.key_first, key.key_second]);
    Ok(TopKey { key: print, text: key.text.into(), count: key.count, error: key.error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> TopTold {
        let key = |count| TopKey { key: Fingerprint([count, 7]), text: "client=alice".into(), count, error: 2 };
        TopTold {
            since: WallTime::from_unix_nanos(5),
            limits: vec![
                (LimitId(3), Summary { keys: vec![key(9), key(4)], total: 20, absent: 4 }),
                (LimitId(LIMIT_ID_MAX), Summary::of_missed(1)),
            ],
            left_out: 1,
        }
    }

    #[test]
    fn questions_and_answers_come_back_as_they_were() {
        for (limit, by) in [(None, By::Hits), (Some(LimitId(3)), By::Denials)] {
            let asked = TopAsked { domain: "payments".to_owned(), limit, by };
            assert_eq!(top_asked_from_proto(top_asked_to_proto(&asked)), Ok(asked));
        }
        assert_eq!(top_told_from_proto(top_told_to_proto(told())), Ok(told()));
    }

    #[test]
    fn what_no_node_tells_is_refused() {
        let refused = |mend: &dyn Fn(&mut proto::TopReply)| {
            let mut reply = top_told_to_proto(told());
            mend(&mut reply);
            top_told_from_proto(reply)
        };
        let out_of_range = |what| Err(MalformedForward::OutOfRange(what));
        assert_eq!(refused(&|reply| reply.limits[0].limit = 0), out_of_range("limit"));
        assert_eq!(refused(&|reply| reply.limits[0].limit = LIMIT_ID_MAX + 1), out_of_range("limit"));
        assert_eq!(refused(&|reply| reply.limits[0].keys[0].text = "x".repeat(KEY_TEXT_MAX + 1)), out_of_range("text"));
        let limit = proto::TopLimit { limit: 1, ..proto::TopLimit::default() };
        assert_eq!(refused(&|reply| reply.limits = vec![limit.clone(); LIMITS_TOLD_MAX + 1]), out_of_range("limits"));
        let keys = |count| vec![proto::TopKey::default(); count];
        assert_eq!(refused(&|reply| reply.limits[1].keys = keys(KEYS_TOLD_MAX - 1)), out_of_range("keys"));
        assert!(refused(&|reply| reply.limits[1].keys = keys(KEYS_TOLD_MAX - 2)).is_ok());
        let asked = proto::TopRequest { limit: LIMIT_ID_MAX + 1, ..proto::TopRequest::default() };
        assert_eq!(top_asked_from_proto(asked), Err(MalformedForward::OutOfRange("limit")));
    }
}
