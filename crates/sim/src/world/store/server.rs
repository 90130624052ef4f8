//! One process of the store in one of its lives: records under the rules of the scripts, and what each of them was at every
//! earlier moment, since whoever takes over or starts anew may have been behind.

use std::collections::BTreeMap;

use limits::{Fingerprint, LimitId, Moment, Span};
use ownership::kept::{Claimed, Incarnation, Keeper, KeptKey, Record, WriteAnswer};
use ownership::{Bug, Write};
use ring::PartitionId;

/// Keys of a record, by their names.
type Keys = BTreeMap<(LimitId, Fingerprint), KeptKey>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) life: Incarnation,
    records: BTreeMap<PartitionId, Vec<Version>>,
}

/// What a record was from a moment on; `None`: there was none.
#[derive(Clone, Debug)]
struct Version {
    from: Moment,
    kept: Option<Kept>,
}

#[derive(Clone, Debug)]
struct Kept {
    head: Head,
    /// The number of the last write, or the one that it was claimed under.
    number: u64,
    assumed_full: Option<Span>,
    keys: Keys,
    /// What the header said before it was claimed, until it is written.
    before: Option<Head>,
}

/// What a header says.
#[derive(Clone, Copy, Debug)]
struct Head {
    keeper: Keeper,
    count: u64,
    complete: bool,
}

impl Server {
    /// One that has nothing yet.
    pub(crate) fn empty(life: Incarnation) -> Server {
        Server { life, records: BTreeMap::new() }
    }

    /// One that has what `other` had at a moment.
    pub(crate) fn behind(other: &Server, at: Moment, life: Incarnation) -> Server {
        let known = |versions: &Vec<Version>| {
            let known = versions.partition_point(|version| version.from <= at);
            versions[..known].to_vec()
        };
        let records = other.records.iter().map(|(partition, versions)| (*partition, known(versions))).collect();
        Server { life, records }
    }

    /// The claim script.
    pub(crate) fn claim(&mut self, partition: PartitionId, keeper: Keeper, number: u64, now: Moment) -> Claimed {
        let by = self.life;
        let Some(kept) = self.kept(partition).cloned() else {
            let head = Head { keeper, count: 0, complete: false };
            let kept = Kept { head, number, assumed_full: None, keys: Keys::new(), before: None };
            self.put(partition, Some(kept), now);
            return Claimed::New { by, previous_cluster: false };
        };
        if kept.head.keeper == keeper {
            if kept.head.complete {
                return Claimed::Held { by };
            }
            let raised = Kept { number: kept.number.max(number), ..kept };
            let claimed = match raised.before {
                None => Claimed::New { by, previous_cluster: false },
                Some(before) => Claimed::Taken { by, record: raised.record(before), previous_cluster: false },
            };
            self.put(partition, Some(raised), now);
            return claimed;
        }
        if kept.head.keeper.epoch >= keeper.epoch {
            return Claimed::Fenced { keeper: kept.head.keeper };
        }
        let record = kept.record(kept.head);
        let head = Head { keeper, complete: false, ..kept.head };
        self.put(partition, Some(Kept { head, number, before: Some(kept.head), ..kept }), now);
        Claimed::Taken { by, record, previous_cluster: false }
    }

    /// The scripts that write.
    pub(crate) fn write(&mut self, partition: PartitionId, write: &Write, now: Moment) -> WriteAnswer {
        let kept = match self.kept(partition).cloned() {
            None if Bug::WriteMakesHeader.is_here() => {
                let head = Head { keeper: write.keeper, count: 0, complete: true };
                Kept { head, number: 0, assumed_full: None, keys: Keys::new(), before: None }
            }
            None => return WriteAnswer::Lost { keeper: None },
            Some(kept) => kept,
        };
        if kept.head.keeper != write.keeper || !(kept.head.complete || write.anew) {
            return WriteAnswer::Lost { keeper: Some(kept.head.keeper) };
        }
        if write.seq <= kept.number {
            return WriteAnswer::Stale;
        }
        let mut keys = if write.anew { Keys::new() } else { kept.keys };
        keys.extend(write.keys.iter().map(|key| ((key.limit, key.key), key.clone())));
        let head = Head { count: keys.len() as u64, complete: true, ..kept.head };
        let kept = Kept { head, number: write.seq, assumed_full: write.assumed_full, keys, before: None };
        self.put(partition, Some(kept), now);
        WriteAnswer::Ok
    }

    /// Somebody deletes everything.
    pub(crate) fn flush(&mut self, now: Moment) {
        let partitions: Vec<PartitionId> = self.records.keys().copied().collect();
        partitions.into_iter().for_each(|partition| self.put(partition, None, now));
    }

    fn kept(&self, partition: PartitionId) -> Option<&Kept> {
        self.records.get(&partition)?.last()?.kept.as_ref()
    }

    fn put(&mut self, partition: PartitionId, kept: Option<Kept>, from: Moment) {
        self.records.entry(partition).or_default().push(Version { from, kept });
    }
}

impl Kept {
    fn record(&self, head: Head) -> Record {
        Record {
            keeper: head.keeper,
            complete: head.complete,
            count: head.count,
            keys: self.keys.values().cloned().collect(),
            assumed_full: self.assumed_full,
            unreadable: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use ownership::{Epoch, SessionId};
    use ring::NodeId;

    use super::*;

    const P: PartitionId = PartitionId(3);

    fn life(run: u8) -> Incarnation {
        Incarnation { run: [run; 20], history: [run; 20] }
    }

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn keeper(epoch: u64) -> Keeper {
        Keeper { epoch: Epoch(epoch), session: SessionId { node: NodeId(NonZeroU64::MIN), nonce: epoch, counter: 1 } }
    }

    fn write(epoch: u64, seq: u64, anew: bool) -> Write {
        Write { keeper: keeper(epoch), seq, anew, assumed_full: None, keys: Vec::new() }
    }

    #[test]
    fn only_a_claim_makes_a_header_and_only_a_whole_record_is_added_to() {
        let mut server = Server::empty(life(1));
        assert_eq!(server.write(P, &write(1, 1, true), at(1)), WriteAnswer::Lost { keeper: None });
        assert!(matches!(server.claim(P, keeper(1), 0, at(2)), Claimed::New { .. }));
        assert_eq!(server.write(P, &write(1, 1, false), at(3)), WriteAnswer::Lost { keeper: Some(keeper(1)) });
        assert_eq!(server.write(P, &write(1, 2, true), at(4)), WriteAnswer::Ok);
        assert_eq!(server.write(P, &write(1, 2, false), at(5)), WriteAnswer::Stale);
        server.flush(at(6));
        assert_eq!(server.write(P, &write(1, 3, false), at(7)), WriteAnswer::Lost { keeper: None });
    }

    #[test]
    fn a_claim_fences_who_was_before_and_says_the_same_when_it_is_asked_again() {
        let mut server = Server::empty(life(1));
        server.claim(P, keeper(1), 0, at(1));
        server.write(P, &write(1, 1, true), at(2));
        let taken = server.claim(P, keeper(2), 0, at(3));
        assert!(matches!(&taken, Claimed::Taken { record, .. } if record.keeper == keeper(1) && record.complete));
        assert_eq!(server.claim(P, keeper(2), 0, at(4)), taken);
        assert_eq!(server.write(P, &write(1, 2, false), at(5)), WriteAnswer::Lost { keeper: Some(keeper(2)) });
        assert_eq!(server.claim(P, keeper(1), 0, at(6)), Claimed::Fenced { keeper: keeper(2) });
        server.write(P, &write(2, 1, true), at(7));
        assert_eq!(server.claim(P, keeper(2), 0, at(8)), Claimed::Held { by: life(1) });
    }

    #[test]
    fn whoever_was_behind_lacks_what_came_since() {
        let mut server = Server::empty(life(1));
        server.claim(P, keeper(1), 0, at(1));
        server.write(P, &write(1, 1, true), at(2));
        server.claim(P, keeper(2), 0, at(10));
        let mut behind = Server::behind(&server, at(9), life(2));
        assert!(matches!(behind.claim(P, keeper(3), 0, at(11)), Claimed::Taken { by, record, .. }
            if by == life(2) && record.keeper == keeper(1)));
    }
}
