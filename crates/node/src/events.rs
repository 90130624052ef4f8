//! What this node saw and applied, as one bounded list that operators read, and as lines of its log: an event is told in one
//! place, once, and both have it from there.
//!
//! What the journal held when the process started happened before, and is not told again; nor is what a node that joins is
//! given of the log before its own first session opens.

use std::collections::VecDeque;

use control::Event;
use limits::WallTime;
use parking_lot::Mutex;

use crate::clock;

/// How many events are kept; the oldest goes first.
pub const EVENTS_KEPT: usize = 1_024;

/// Every field that an event may have, in the order in which a line of the log shows them.
const FIELDS: [&str; 27] = [
    "cluster",
    "name",
    "node",
    "id",
    "session",
    "peer",
    "reason",
    "term",
    "version",
    "appointed",
    "vacant",
    "partitions",
    "state",
    "domain",
    "revision",
    "author",
    "limit",
    "ttl",
    "before",
    "n_max",
    "partition",
    "epoch",
    "held_epoch",
    "store",
    "why",
    "what",
    "seq",
];

/// An event, with when and after how many others this node saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenEvent {
    /// Counts the events of this process from 1.
    pub seq: u64,
    /// When, by this node's wall clock.
    pub at: WallTime,
    /// What.
    pub event: Event,
}

/// The list.
#[derive(Debug, Default)]
pub struct Events(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    seen: VecDeque<SeenEvent>,
    last: u64,
}

impl Events {
    /// Tells the log, and keeps the event.
    pub fn tell(&self, event: Event) {
        let mut kept = self.0.lock();
        kept.last += 1;
        let seen = SeenEvent { seq: kept.last, at: clock::wall(), event };
        if kept.seen.len() >= EVENTS_KEPT {
            kept.seen.pop_front();
        }
        kept.seen.push_back(seen.clone());
        drop(kept);
        log(&seen);
    }

    /// The events after number `after` that are still kept, the oldest first.
    pub fn after(&self, after: u64) -> Vec<SeenEvent> {
        let kept = self.0.lock();
        let from = kept.seen.partition_point(|seen| seen.seq <= after);
        kept.seen.range(from..).cloned().collect()
    }
}

/// Whether an operator should look.
const fn is_a_warning(event: &Event) -> bool {
    match event {
        Event::SessionExpired { .. }
        | Event::LeaseLapsed { .. }
        | Event::StoreDown { .. }
        | Event::RecordsVoid { .. }
        | Event::ClaimLost { .. }
        | Event::WriteFenced { .. }
        | Event::RecordsLost { .. }
        | Event::StoreTrusted { .. }
        | Event::TableFull { .. }
        | Event::ClockSuspect { .. }
        | Event::PeerRefused { .. }
        | Event::PolicyRefused { .. } => true,
        Event::ClusterFounded { .. }
        | Event::SessionOpened { .. }
        | Event::SessionReleased { .. }
        | Event::Takeover { .. }
        | Event::MapPublished { .. }
        | Event::LeaseChanged { .. }
        | Event::LeaseSettled { .. }
        | Event::NMaxLowered { .. }
        | Event::StoreChanged { .. }
        | Event::StoreUp { .. }
        | Event::PolicyApplied { .. }
        | Event::PolicyBinding { .. }
        | Event::NodeSeen { .. }
        | Event::NodeSuspected { .. }
        | Event::NodeGone { .. }
        | Event::LeaderChanged { .. }
        | Event::PartitionActivated { .. }
        | Event::Draining => false,
    }
}

/// One line, with a field for each thing that the event tells. A log's fields are named when the program is built, so all
/// names stand here, and those that the event does not have stay out of the line.
macro_rules! line {
    ($warns:expr, $word:expr, $field:expr; $($name:ident),+) => {
        if $warns {
            tracing::warn!(target: "ringfence::event", $($name = $field(stringify!($name)),)+ "{}", $word)
        } else {
            tracing::info!(target: "ringfence::event", $($name = $field(stringify!($name)),)+ "{}", $word)
        }
    };
}

fn log(seen: &SeenEvent) {
    let (word, fields) = (seen.event.word(), seen.event.fields());
    let seq = seen.seq.to_string();
    let field = |name: &str| {
        debug_assert!(FIELDS.contains(&name), "{name} is no field of a line");
        let found = fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str());
        if name == "seq" { Some(seq.as_str()) } else { found }
    };
    line!(
        is_a_warning(&seen.event), word, field;
        cluster, name, node, id, session, peer, reason, term, version, appointed, vacant, partitions, state, domain,
        revision, author, limit, ttl, before, n_max, partition, epoch, held_epoch, store, why, what, seq
    );
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::num::NonZeroU64;

    use control::event::ActivatedState;
    use control::{ClusterId, Refusal};
    use limits::Span;
    use ownership::kept::{Incarnation, Keeper};
    use ownership::{Epoch, SessionId};
    use ring::{NodeId, PartitionId};

    use super::*;

    #[test]
    fn events_are_numbered_from_one_and_the_oldest_is_forgotten_first() {
        let events = Events::default();
        assert!(events.after(0).is_empty());
        for term in 0..EVENTS_KEPT as u64 + 3 {
            events.tell(Event::LeaderChanged { leader: None, name: None, term });
        }
        let kept = events.after(0);
        assert_eq!((kept.len(), kept[0].seq), (EVENTS_KEPT, 4));
        let last = EVENTS_KEPT as u64 + 3;
        assert_eq!(events.after(last - 1).iter().map(|seen| seen.seq).collect::<Vec<_>>(), [last]);
        assert!(events.after(last).is_empty() && events.after(u64::MAX).is_empty());
    }

    #[test]
    fn every_field_of_every_event_has_a_place_in_a_line_of_the_log() {
        let node = NodeId(NonZeroU64::new(7).unwrap());
        let session = SessionId { node, nonce: 1, counter: 2 };
        let incarnation = Incarnation { run: [1; 20], history: [2; 20] };
        let keeper = Keeper { epoch: Epoch(2), session };
        let name = || "n1".to_owned();
        let all = [
            Event::ClusterFounded { cluster: ClusterId([1; 16]), name: name() },
            Event::SessionOpened { session, name: name() },
            Event::SessionExpired { session, name: name() },
            Event::SessionReleased { session, name: name() },
            Event::Takeover { to: session, name: name(), partitions: 3 },
            Event::MapPublished { version: 1, appointed: 2, vacant: 3 },
            Event::LeaseChanged { ttl: Span::from_secs(2), before: Span::from_secs(3) },
            Event::LeaseSettled { ttl: Span::from_secs(2) },
            Event::NMaxLowered { n_max: 3, before: 4 },
            Event::PolicyApplied { domain: name(), revision: 1, author: name() },
            Event::PolicyBinding { domain: name(), revision: 1 },
            Event::PolicyRefused { domain: name(), author: name(), why: Refusal::Empty },
            Event::NodeSeen { node, name: name(), peer: name() },
            Event::NodeSuspected { node, name: name() },
            Event::NodeGone { node, name: name() },
            Event::LeaderChanged { leader: Some(node), name: Some(name()), term: 1 },
            Event::LeaseLapsed { session },
            Event::PartitionActivated { partitions: 3, state: ActivatedState::Fresh },
            Event::StoreChanged { session, name: name(), store: Some(incarnation) },
            Event::StoreTrusted { incarnation },
            Event::StoreUp { incarnation },
            Event::StoreDown { why: name() },
            Event::RecordsVoid { partitions: 3, why: "volatile" },
            Event::ClaimLost { partition: PartitionId(0), epoch: Epoch(1), by: keeper },
            Event::WriteFenced { partition: PartitionId(0), epoch: Epoch(1), by: keeper },
            Event::RecordsLost { partitions: 3 },
            Event::TableFull { domain: name(), limit: name() },
            Event::ClockSuspect { what: name() },
            Event::Draining,
            Event::PeerRefused { peer: name(), reason: name() },
        ];
        for event in all {
            for (field, value) in event.fields() {
                assert!(FIELDS.contains(&field) && !value.is_empty(), "{}: {field}", event.word());
            }
        }
    }
}
